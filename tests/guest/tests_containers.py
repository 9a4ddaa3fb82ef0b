# SPDX-License-Identifier: Apache-2.0
"""Containers that are kept, execs in them, and the sessions that look at them."""
import errno
import struct
import time

import guestvm as vm
from harness import BUSYBOX, SCRATCH, check, equal, ok, own, ping, ready, sh, test


def keep(g, name, argv, flags=0, **kw):
    """A kept container; its RUN is over when it runs."""
    run = g.run(BUSYBOX, argv, name=name, flags=vm.KEEP | flags, **kw)
    check(run.exit is not None, f'{name}: {run.failed}')
    equal(run.exit.how, vm.DETACHED, f'{name}: the RUN ends')
    return run


def until(condition, timeout=20):
    """Of a condition that asks the agent itself, again and again."""
    deadline = time.monotonic() + timeout
    while not condition():
        check(time.monotonic() < deadline, 'it did not come true in time')


def gone(g, *names):
    for name in names:
        reply = g.remove(name, force=True)
        equal(reply.status, 0, f'remove {name}: {reply.text}')
        check(g.find(name) is None, f'{name} is still listed')


def ended(g, name, timeout=20):
    """The AGENT_ENDED of this container."""
    found = []

    def look():
        found[:] = [e for e in g.events if e[0] == vm.ENDED and vm.Container(e[2]).name == name]
        return bool(found)
    g.wait(look, timeout)
    g.events.remove(found[0])
    return vm.Container(found[0][2])


def refused(run, status, words):
    check(run.failed is not None, f'it was not refused: {run.exit}')
    equal(run.failed.status, status, run.failed.text)
    check(words in run.failed.text, run.failed.text)


def attach_over(g, name):
    run = g.attach_to(name)
    g.wait(lambda: run.over)
    return run


@test
def kept_container(g, bench):
    before = time.time_ns()
    keep(g, 'web', sh('echo out; echo err >&2; sleep 0.2; exit 7'), image_name='busybox:latest',
         env=['PATH=/bin', 'A=1'])
    waiting = g.start_wait('web')
    c = g.find('web')
    equal((c.state, c.flags & vm.KEEP, c.image_name), (vm.RUNNING, vm.KEEP, 'busybox:latest'), 'ps')
    equal(c.command, 'sh -c echo out; echo err >&2; sleep 0.2; exit 7', 'command')
    check(1 <= c.processes <= 2 and 0 < c.memory < 64 << 20, f'usage: {c}')
    check(abs(c.created_ns - before) < 5 * 10**9, f'created: {c}')
    end = ended(g, 'web')
    equal((end.state, end.how, end.code, end.oom), (vm.OVER, vm.EXITED, 7, 0), 'ENDED')
    g.wait(lambda: waiting.over)
    equal(waiting.exit, (vm.EXITED, 7), 'WAIT')
    equal(g.wait_for(c.id[:11]).exit, (vm.EXITED, 7), 'WAIT for one that has ended, by part of the id')
    logs = vm.log_records(g.logs('web').out)
    equal([r[:2] for r in logs], [(vm.LOG_OUT, b'out\n'), (vm.LOG_ERR, b'err\n')], 'log')
    refused(g.exec('web', ['true']), errno.ESRCH, 'has ended')
    refused(attach_over(g, 'web'), errno.ESRCH, 'has ended')
    equal(g.signal_container('web', 15).status, errno.ESRCH, 'a signal')
    equal(g.remove('web').status, 0, 'rm')
    refused(g.wait_for('web'), errno.ENOENT, 'no such container')
    equal(g.remove('web').status, errno.ENOENT, 'rm again')


@test
def names_are_unique(g, bench):
    keep(g, 'one', ['sleep', '99'])
    refused(g.run(BUSYBOX, ['true'], name='one'), errno.EEXIST, 'one')
    refused(g.run(BUSYBOX, ['true'], name='-x'), errno.EINVAL, 'name')
    refused(g.run(BUSYBOX, ['true'], name='a/b'), errno.EINVAL, 'name')
    other = g.start(BUSYBOX, ['sleep', '99'], name='two')
    g.wait(lambda: other.started)
    refused(g.wait_for('r0'), errno.ENOTUNIQ, 'several')
    refused(g.wait_for(''), errno.ENOENT, 'no such')
    equal(g.remove('one').status, errno.EBUSY, 'it runs')
    g.send(vm.KILL, other.stream)
    g.wait(lambda: other.over)
    gone(g, 'one')
    check(g.find('two') is None, 'a run that is not kept disappears')
    ok(g, ['true'], name='one')


@test
def exec_in_a_container(g, bench):
    keep(g, 'box', sh('echo mine > /tmp/file; cd /tmp; sleep 99'), env=['PATH=/bin', 'A=1', 'B=2'],
         cwd='/tmp', user='joe')
    run = g.exec('box', sh('cat /tmp/file; pwd; id -un; echo $A $B $C; exit 3'),
                 env=['B=over', 'C=3'])
    equal((bytes(run.out), run.exit), (b'mine\n/tmp\njoe\n1 over 3\n', (vm.EXITED, 3)), 'it shares')
    run = g.exec('box', sh('id -u; pwd; ps | grep -c "sleep 9[9]"'), user='0', cwd='/etc')
    equal(bytes(run.out), b'0\n/etc\n1\n', 'its own user and folder; the same processes')
    equal(g.exec('box', ['nope']).failed.fail, vm.NOT_FOUND, 'missing program')
    equal(g.exec('box', ['id'], user='bob').failed.fail, vm.SETUP, 'missing user')
    run = g.start_exec('box', ['cat'], stdin=True)
    g.stdin(run, bytes(range(256)) * 1000, eof=True)
    g.wait(lambda: run.over)
    equal((bytes(run.out), run.exit), (bytes(range(256)) * 1000, (vm.EXITED, 0)), 'stdin')
    refused(g.exec('nobody', ['true']), errno.ENOENT, 'no such container')
    gone(g, 'box')


@test
def exec_ends_its_own_tree_only(g, bench):
    keep(g, 'box', ['sleep', '99'])
    run = g.exec('box', sh('setsid sleep 77 & echo done'))
    equal((bytes(run.out), run.exit), (b'done\n', (vm.EXITED, 0)), 'it does not wait for what it leaves')
    equal(bytes(g.exec('box', sh('ps | grep -c "sleep 7[7]"')).out), b'1\n', 'which goes on')
    start = time.monotonic()
    run = g.exec('box', sh('setsid sleep 66 & echo up; sleep 99'), timeout_ms=700)
    equal((bytes(run.out), run.exit.how), (b'up\n', vm.TIMEOUT), 'timeout')
    check(time.monotonic() - start < 3, 'in time')
    run = g.start_exec('box', sh('setsid sleep 66 & echo up; sleep 99'))
    g.wait(lambda: run.out == b'up\n')
    g.send(vm.KILL, run.stream)
    g.wait(lambda: run.over)
    equal(run.exit.how, vm.KILLED, 'kill')
    equal(bytes(g.exec('box', sh('ps | grep -c "sleep 6[6]"; ps | grep -c "sleep 7[7]"')).out),
          b'0\n1\n', 'the whole tree of each, and nothing else')
    run = g.start_exec('box', sh('echo up; sleep 1; echo on > /tmp/went; sleep 99'))
    g.wait(lambda: run.out == b'up\n')
    g.send(vm.DETACH, run.stream)
    g.wait(lambda: run.over)
    equal(run.exit.how, vm.DETACHED, 'detach')
    equal(g.exec('box', sh('while [ ! -e /tmp/went ]; do sleep 0.05; done')).exit, (vm.EXITED, 0),
          'it goes on without a client')
    run = g.start_exec('box', sh('echo up; sleep 99'))
    g.wait(lambda: run.out == b'up\n')
    gone(g, 'box')
    g.wait(lambda: run.over)
    equal(run.exit, (vm.SIGNALED, 9), 'an exec ends with its container')


@test
def exec_waits_for_the_start(g, bench):
    run = g.start(BUSYBOX, ['sleep', '99'], name='late')
    execs = [g.start_exec('late', ['echo', str(i)]) for i in range(3)]
    g.wait(lambda: all(x.over for x in execs))
    for i, x in enumerate(execs):
        equal((bytes(x.out), x.exit), (f'{i}\n'.encode(), (vm.EXITED, 0)), f'{x.failed}')
    g.send(vm.KILL, run.stream)
    g.wait(lambda: run.over)
    run = g.start(BUSYBOX, ['sleep', '99'], name='later')
    x = g.start_exec('later', ['sleep', '98'], timeout_ms=1)
    g.wait(lambda: x.over)
    check(x.exit is not None and x.exit.how == vm.TIMEOUT, f'late before it could start: {x.failed}')
    g.send(vm.KILL, run.stream)
    g.wait(lambda: run.over)
    run = g.start(BUSYBOX, ['nope'], name='never')
    x = g.start_exec('never', ['true'])
    g.wait(lambda: run.over and x.over)
    refused(x, errno.ESRCH, 'has ended')


@test
def detach_keeps_a_run(g, bench):
    run = g.start(BUSYBOX, sh('echo before; read x; echo $x; read y; echo $y'), name='d', stdin=True)
    g.wait(lambda: run.out == b'before\n')
    refused(attach_over(g, 'd'), errno.EBUSY, 'attached')
    refused(g.logs('d'), errno.ENOENT, 'no log')
    g.send(vm.DETACH, run.stream)
    g.wait(lambda: run.over)
    equal(run.exit.how, vm.DETACHED, 'detached')
    c = g.find('d')
    equal((c.flags, c.attached), (vm.KEEP | vm.STDIN_OPEN, 0), 'kept')
    a = g.attach_to('d', stdin=True)
    g.stdin(a, b'hello\n')
    g.wait(lambda: a.out == b'hello\n')
    equal(g.find('d').attached, 1, 'attached')
    refused(attach_over(g, 'd'), errno.EBUSY, 'attached')
    g.send(vm.KILL, a.stream)
    g.wait(lambda: a.over)
    equal(a.exit.how, vm.DETACHED, 'the end of an ATTACH ends nothing else')
    a = g.attach_to('d', stdin=True)
    g.stdin(a, b'again\n', eof=True)
    g.wait(lambda: a.over)
    equal((bytes(a.out), a.exit), (b'again\n', (vm.EXITED, 0)), "the container's own end")
    equal([r[1] for r in vm.log_records(g.logs('d').out)], [b'hello\n', b'again\n'],
          'the log begins with the detach')
    ended(g, 'd')
    gone(g, 'd')


@test
def logs_are_followed(g, bench):
    keep(g, 'f', sh('echo 1; read x; echo 2 >&2; read x; echo 3'), stdin=True)
    until(lambda: vm.log_records(g.logs('f').out))
    follow = g.start_logs('f', follow=True)
    slow = g.start_logs('f', follow=True, window=20, grant=False)
    g.wait(lambda: len(vm.log_records(follow.out)) == 2)
    equal([r[0] for r in vm.log_records(follow.out)], [vm.LOG_OUT, vm.LOG_LIVE], 'replayed')
    a = g.attach_to('f', stdin=True)
    g.stdin(a, b'\n')
    g.wait(lambda: len(vm.log_records(follow.out)) == 3)
    since = vm.log_records(follow.out)[2][2]
    g.stdin(a, b'\n')
    g.wait(lambda: follow.over and a.over)
    got = [r[:2] for r in vm.log_records(follow.out)]
    equal(got, [(1, b'1\n'), (4, b''), (2, b'2\n'), (1, b'3\n')], 'followed to the end')
    equal(follow.exit, (vm.EXITED, 0), 'end')
    equal([r[1] for r in vm.log_records(g.logs('f', since_ns=since).out)], [b'2\n', b'3\n'], 'since')
    equal((slow.out_bytes, slow.over), (20, False), 'a slow reader held nothing')
    slow.grant = True
    g.window(slow, 1, 10000)
    g.wait(lambda: slow.over)
    equal([r[1] for r in vm.log_records(slow.out)], [b'1\n', b'', b'2\n', b'3\n'], 'and lost nothing')
    ended(g, 'f')
    gone(g, 'f')


@test
def signal_container(g, bench):
    keep(g, 's', sh('trap "echo got; exit 5" TERM; echo up; while :; do sleep 0.01; done'))
    until(lambda: g.logs('s').out_bytes)
    equal(g.signal_container('s', 15).status, 0, 'TERM')
    equal(g.wait_for('s').exit, (vm.EXITED, 5), 'handled')
    keep(g, 'k', sh('trap "" TERM; setsid sleep 99 & sleep 99'))
    equal(g.signal_container('k', 9).status, 0, 'KILL')
    equal(g.wait_for('k').exit, (vm.SIGNALED, 9), 'killed')
    ended(g, 's')
    ended(g, 'k')
    gone(g, 's', 'k')


@test
def terminal(g, bench):
    run = g.start(BUSYBOX, sh('stty size; trap "stty size" WINCH; [ -t 0 ] && [ -t 1 ] && [ -t 2 ] '
                              '&& echo all; read x; echo $x >&2; cat; echo end'), stdin=True,
                  flags=vm.TTY, size=(33, 99))
    g.wait(lambda: run.out.endswith(b'all\r\n'))
    equal(bytes(run.out), b'33 99\r\nall\r\n', 'its size before the first instruction')
    g.send(vm.RESIZE, run.stream, struct.pack('<HH', 44, 111))
    g.wait(lambda: b'44 111' in run.out)
    g.stdin(run, b'typed\n')
    g.wait(lambda: run.out.count(b'typed') == 2)
    g.stdin(run, b'part', eof=True)
    g.wait(lambda: run.over)
    check(run.out.endswith(b'partpartend\r\n'), bytes(run.out))
    equal((bytes(run.err), run.exit), (b'', (vm.EXITED, 0)), 'all is stdout')
    run = g.start(BUSYBOX, ['sleep', '99'], stdin=True, flags=vm.TTY)
    g.stdin(run, b'\x03')
    g.wait(lambda: run.over)
    equal(run.exit, (vm.SIGNALED, 2), '^C')
    for i in range(20):
        equal(bytes(g.run(BUSYBOX, ['echo', str(i)], flags=vm.TTY).out), b'%d\r\n' % i, 'the last line')
    keep(g, 'tty', ['sh'], flags=vm.TTY, stdin=True, size=(10, 20))
    a = g.attach_to('tty', stdin=True, size=(30, 40))
    g.stdin(a, b'stty size\n')
    g.wait(lambda: b'30 40' in a.out)
    g.send(vm.DETACH, a.stream)
    g.wait(lambda: a.over)
    x = g.start_exec('tty', ['sh'], stdin=True, flags=vm.TTY, size=(7, 8))
    g.stdin(x, b'stty size; exit 4\n')
    g.wait(lambda: x.over)
    check(b'7 8' in x.out and x.exit == (vm.EXITED, 4), f'exec: {bytes(x.out)} {x.exit}')
    a = g.attach_to('tty', stdin=True)
    g.stdin(a, b'exit 6\n')
    g.wait(lambda: a.over)
    equal(a.exit, (vm.EXITED, 6), 'attached again')
    ended(g, 'tty')
    gone(g, 'tty')


@test
def out_of_memory_ends_the_greedy_one(g, bench):
    run = g.run(SCRATCH, ['/probe', 'memory'], memory=64 << 20, flags=vm.KEEP, name='greedy')
    check(run.exit is not None, f'{run.failed}')
    end = ended(g, 'greedy', 60)
    equal((end.how, end.code, end.oom), (vm.SIGNALED, 9, 1), 'ENDED')
    c = g.find('greedy')
    equal((c.how, c.code, c.oom), (vm.SIGNALED, 9, 1), 'the reason stays in the listing')
    gone(g, 'greedy')
    keep(g, 'calm', ['sleep', '99'], memory=48 << 20)
    eater = sh("x=$(head -c 200000000 /dev/zero | tr '\\0' a)")
    run = g.exec('calm', eater, timeout=60)
    check(run.exit.oom == 1 and run.exit.code in (9, 137), f'an exec: {run.exit}')
    equal(g.exec('calm', sh('exit 137')).exit.oom, 0, 'not the next one')
    run = g.run(BUSYBOX, sh("sh -c 'exec tail -c 200000000 /dev/zero'; exit $?"), memory=48 << 20,
                timeout=60)
    equal((run.exit.how, run.exit.code, run.exit.oom), (vm.EXITED, 137, 1), 'a child of the program')
    equal(g.find('calm').state, vm.RUNNING, 'others go on')
    gone(g, 'calm')
    ping(g)


@test
def limits_hold_for_execs(g, bench):
    keep(g, 'small', ['sleep', '99'], pids=4)
    ok_run = g.exec('small', ['true'])
    equal(ok_run.exit, (vm.EXITED, 0), 'control')
    run = g.exec('small', sh('for i in 1 2 3 4 5 6; do sleep 9 & done; wait'), timeout_ms=3000)
    check(b"can't fork" in run.err, f'the limit of processes: {run.exit} {bytes(run.err)}')
    gone(g, 'small')
    keep(g, 'slow', ['sleep', '99'], cpu_milli=200)
    run = g.exec('slow', sh('while :; do :; done'), timeout_ms=2000)
    equal(run.exit.how, vm.TIMEOUT, 'it spins')
    out = g.exec('slow', ['grep', 'usage_usec', '/sys/fs/cgroup/cpu.stat']).out
    used = int(out.split()[1])
    check(100000 < used < 900000, f'{used} us of CPU in 2 s at 0.2 CPUs')
    gone(g, 'slow')
    refused(g.run(BUSYBOX, ['true'], cpu_milli=9), errno.EINVAL, 'CPU')


@test
def orphans_by_the_thousand(g, bench):
    run = g.run(SCRATCH, ['/probe', 'pause'], flags=vm.KEEP, name='many')
    equal(run.exit.how, vm.DETACHED, f'{run.failed}')
    equal(g.find('many').processes, 1, 'control: it is alone')
    start = time.monotonic()
    for _ in range(2):
        run = g.exec('many', ['/probe', 'orphans', '2500'], timeout=300)
        equal(run.exit, (vm.EXITED, 0), 'an exec that leaves 2,500 behind')
    # A process that nobody reaped still counts.
    until(lambda: g.find('many').processes == 1, 120)
    print(f'# 5,000 orphans: {time.monotonic() - start:.0f} s')
    gone(g, 'many')


@test
def five_hundred_last_lines(g, bench):
    """32 at once, a full pipe of one among them."""
    full = g.start(BUSYBOX, ['yes'], window=0, grant=False)
    keep(g, 'lines', ['sleep', '999'])
    live, started, start = [], 0, time.monotonic()
    while started < 500 or live:
        while started < 500 and len(live) < 32:
            argv = sh(f'echo first; echo last {started}')
            run = g.start(BUSYBOX, argv) if started % 4 == 0 else g.start_exec('lines', argv)
            run.want = f'first\nlast {started}\n'.encode()
            live.append(run)
            started += 1
        g.wait(lambda: any(r.over for r in live))
        for run in [r for r in live if r.over]:
            equal((bytes(run.out), run.exit), (run.want, (vm.EXITED, 0)), f'{run.failed}')
            live.remove(run)
    print(f'# 500 short runs, 32 at once: {time.monotonic() - start:.0f} s')
    g.send(vm.KILL, full.stream)
    g.wait(lambda: full.over)
    gone(g, 'lines')


@test
def removal_ends_it_first(g, bench):
    """REMOVE waits for the end; a new epoch does not get the old one's reply."""
    keep(g, 'r', sh('trap "" TERM; while :; do sleep 0.1; done'))
    waiting, follow = g.start_wait('r'), g.start_logs('r', follow=True)
    equal(g.remove('r', force=True).status, 0, 'rm -f')
    g.wait(lambda: waiting.over and follow.over)
    equal((waiting.exit, follow.exit), ((vm.KILLED, 9), (vm.EXITED, 0)), 'who looked at it is told')
    keep(g, 'r', ['sleep', '99'])
    # It stands still with the REMOVE under way.
    remove, g.quiesce_number = struct.pack('<I', 1) + vm.text('r'), g.quiesce_number + 1
    g.mux.sendall(vm.frame(vm.REMOVE, 12345678, g.epoch, remove) +
                  vm.frame(vm.QUIESCE, 0, g.epoch, struct.pack('<I', g.quiesce_number)))
    g.event(vm.QUIESCED)
    check(12345678 not in g.replies, 'control: not answered yet')
    g.resume(new_epoch=True)
    until(lambda: g.find('r') is None)
    check(12345678 not in g.replies, 'no reply of the old epoch')


@test
def a_full_table(g, bench):
    names = [f'n{i}' for i in range(8)]
    for name in names:
        keep(g, name, ['true'])
    for name in names:
        ended(g, name)
    base = len(g.list())
    for i in range(base, 256):
        keep(g, f'm{i}', ['true'])
    refused(g.run(BUSYBOX, ['true']), errno.EAGAIN, 'limit')
    equal(len(g.list()), 256, 'all are listed')
    gone(g, 'n0')
    ok(g, ['true'])
    for name in [c.name for c in g.list() if c.name]:
        equal(g.remove(name, force=True).status, 0, name)
    g.events = [e for e in g.events if e[0] != vm.ENDED]


@test
def many_kept_containers(g, bench):
    for i in range(12):
        keep(g, f'c{i}', sh(f'echo {i}'))
    for i in range(12):
        ended(g, f'c{i}')
    equal([c.name for c in g.list() if c.name.startswith('c')], [f'c{i}' for i in range(12)], 'order')
    for i in range(12):
        equal([r[1] for r in vm.log_records(g.logs(f'c{i}').out)], [f'{i}\n'.encode()], 'each its log')
    gone(g, *[f'c{i}' for i in range(12)])


@test
def a_new_epoch_leaves_containers(g, bench):
    keep(g, 'kept', sh('while :; do echo tick; sleep 0.05; [ -e /tmp/stop ] && exit 8; done'))
    run = g.start(BUSYBOX, sh('while :; do echo tock; sleep 0.05; done'), name='orphan')
    a = g.attach_to('kept')
    follow = g.start_logs('kept', follow=True)
    g.wait(lambda: run.out and a.out and follow.out)
    g.resume(new_epoch=True)
    equal({c.name for c in g.list() if c.name} >= {'kept', 'orphan'}, True, 'both go on')
    count = len(vm.log_records(g.logs('kept').out))
    until(lambda: len(vm.log_records(g.logs('kept').out)) > count)
    a = g.attach_to('orphan')
    g.wait(lambda: b'tock\ntock\n' in a.out)
    equal(g.signal_container('orphan', 9).status, 0, 'kill the orphan')
    g.wait(lambda: a.over)
    equal(a.exit, (vm.SIGNALED, 9), 'its end')
    check(g.find('orphan') is None, 'it disappears')
    g.exec('kept', ['touch', '/tmp/stop'])
    equal(ended(g, 'kept').code, 8, 'ENDED in the new epoch')
    gone(g, 'kept')


@test
def exec_latency(g, bench):
    keep(g, 'fast', ['sleep', '999'])
    times, starts, pings = [], [], []
    for _ in range(20):
        run = g.exec('fast', ['true'])
        equal(run.exit, (vm.EXITED, 0), 'exec')
        times.append((run.exit_at - run.sent_at) * 1000)
        starts.append((run.started_at - run.sent_at) * 1000)
        before = time.monotonic()
        ping(g)
        pings.append((time.monotonic() - before) * 1000)
    start, done, live = time.monotonic(), 0, []
    while done < 100:
        while len(live) < 4:
            live.append(g.start_exec('fast', ['true']))
        g.wait(lambda: any(r.over for r in live))
        done += sum(r.over for r in live)
        live = [r for r in live if not r.over]
    took = time.monotonic() - start
    print(f'# ping {sorted(pings)[10]:.1f} ms, exec true until started {sorted(starts)[10]:.0f} ms')
    print(f'# exec true: median {sorted(times)[10]:.0f} ms, best {min(times):.0f} ms; '
          f'{done / took:.0f} a second from 4 clients')
    g.wait(lambda: all(r.over for r in live))
    gone(g, 'fast')


@own
def kept_containers_survive(bench):
    """A stop, then a crash, then damage on the disk."""
    disk = bench.disk()
    with bench.guest(disk) as g:
        keep(g, 'done', sh('echo log of done; exit 9'))
        ended(g, 'done')
        keep(g, 'stopped', sh('trap "echo bye; exit 3" TERM; echo up; while :; do sleep 0.01; done'))
        until(lambda: g.logs('stopped').out_bytes)
        number = g.next_number()
        g.send(vm.SHUTDOWN, number)
        equal(ended(g, 'stopped').code, 3, 'SHUTDOWN asks it to end')
        g.wait(lambda: number in g.replies)
        equal(g.replies[number].status, 0, g.replies[number].text)
        equal(g.process.wait(20), 0, 'QEMU ends')
    with bench.guest(disk) as g:
        listed = {c.name: (c.state, c.how, c.code) for c in g.list()}
        equal(listed, {'done': (vm.OVER, vm.EXITED, 9), 'stopped': (vm.OVER, vm.EXITED, 3)}, 'after a stop')
        equal([r[1] for r in vm.log_records(g.logs('stopped').out)], [b'up\n', b'bye\n'], 'its log')
        keep(g, 'crashed', sh('echo up; sync; echo synced; sleep 99'))
        until(lambda: len(vm.log_records(g.logs('crashed').out)) == 2)
        ok(g, ['sync'])
        g.process.kill()
        g.process.wait()
    with bench.guest(disk) as g:
        c = g.find('crashed')
        check(c and (c.state, c.how) == (vm.OVER, vm.LOST), f'after a crash: {c}')
        equal([r[1] for r in vm.log_records(g.logs('crashed').out)][:1], [b'up\n'], 'its log')
        equal(g.wait_for('crashed').exit.how, vm.LOST, 'WAIT')
        refused(g.run(BUSYBOX, ['true'], name='crashed'), errno.EEXIST, 'crashed')
        gone(g, 'crashed', 'done')
        ok(g, ['sync'])
    with bench.guest(disk) as g:
        equal([c.name for c in g.list()], ['stopped'], 'what was removed is not there again')
