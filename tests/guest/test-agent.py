#!/usr/bin/python3
# SPDX-License-Identifier: Apache-2.0
"""test-agent.py ASSETS: the agent in a real guest, checked from the outside, as TAP.

ASSETS holds vmlinuz and initramfs of tools/make-guest. Needs qemu-system-x86_64, qemu-img, mke2fs,
e2fsck, mksquashfs, busybox (static) and cc. Name parts of test names after ASSETS to run only
those.
"""
import hashlib
import os
import random
import struct
import subprocess
import sys
import time

sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))
import guestvm as vm  # noqa: E402
import tests_containers  # noqa: E402, F401
import tests_copy  # noqa: E402, F401
import tests_terminal  # noqa: E402, F401
from harness import (ASSETS, BUSYBOX, PLUGGED, SCRATCH, check, equal, main, ok, own,  # noqa: E402
                     ping, ready, sh, test, tool)

# One guest for all that leaves it usable

@test
def output_and_exit_code(g, bench):
    run = g.run(BUSYBOX, sh('echo out; echo err >&2; exit 7'))
    equal((bytes(run.out), bytes(run.err)), (b'out\n', b'err\n'), 'the streams are apart')
    equal(run.exit, (vm.EXITED, 7), 'exit code')
    equal(run.after_exit, [], 'RUN_EXIT is the last frame')


@test
def bytes_are_exact(g, bench):
    ok(g, ['printf', r'\000\001\002\377\r\n'], b'\0\1\2\xff\r\n')
    want = hashlib.sha256(b'0123456789abcde\n' * (1 << 20)).hexdigest()
    run = g.run(BUSYBOX, sh('yes 0123456789abcde | head -c 16777216'), timeout=60)
    equal(hashlib.sha256(run.out).hexdigest(), want, '16 MiB')


@test
def last_line_is_never_lost(g, bench):
    for i in range(30):
        ok(g, ['echo', f'line {i}'], f'line {i}\n'.encode())


@test
def argv_and_env_are_exact(g, bench):
    args = ['a b', '$HOME', "x'y", '', '*', '\n', 'ü', '-rf', '--']
    run = g.run(SCRATCH, ['/probe', 'argv', *args])
    equal(bytes(run.out), b''.join(a.encode() + b'\0' for a in args), 'argv')
    run = g.run(SCRATCH, ['/probe', 'env'], env=['B=2', 'A= x=y ', 'EMPTY=', 'HOME=/h'])
    equal(bytes(run.out), b'B=2\0A= x=y \0EMPTY=\0HOME=/h\0', 'env')
    run = g.run(SCRATCH, ['/probe', 'env'], env=[])
    equal(bytes(run.out), b'HOME=/\0', 'HOME without passwd')
    run = g.run(BUSYBOX, ['env'], env=['PATH=/bin'], user='joe')
    check(b'HOME=/home/joe\n' in run.out, 'HOME from passwd')


@test
def scratch_image_works(g, bench):
    run = g.run(SCRATCH, ['/probe', 'ids'], user='1234:5678')
    equal(bytes(run.out), b'1234 5678 2 1\n', 'uid gid pid ppid')
    run = g.run(SCRATCH, ['nope'])
    equal(run.failed.fail, vm.NOT_FOUND, 'missing program')


@test
def users(g, bench):
    for spec, want in (('', b'uid=0(root) gid=0(root) groups=10(wheel)\n'),
                       ('joe', b'uid=1000(joe) gid=100(users) groups=10(wheel),44(video)\n'),
                       ('1000', b'uid=1000(joe) gid=100(users) groups=10(wheel),44(video)\n'),
                       ('joe:video', b'uid=1000(joe) gid=44(video)\n'),
                       ('4321', b'uid=4321 gid=0(root)\n')):
        ok(g, ['id'], want, user=spec)
    for spec in ('bob', 'joe:nogroup', '4294967295', '-1'):
        run = g.run(BUSYBOX, ['id'], user=spec)
        check(run.failed is not None, f'user {spec}: {run.exit}')
        equal(run.failed.fail, vm.SETUP, f'user {spec}')
        check('no user' in run.failed.text or 'no group' in run.failed.text, run.failed.text)


@test
def working_directory(g, bench):
    ok(g, ['pwd'], b'/tmp\n', cwd='/tmp')
    ok(g, sh('pwd; ls -ld . | cut -c1-10'), b'/new/deep/one\ndrwxr-xr-x\n', cwd='/new/deep/one')
    run = g.run(BUSYBOX, ['pwd'], cwd='/bin/busybox')
    equal((run.failed.fail, run.failed.status), (vm.SETUP, 20), 'a file as working directory')
    run = g.run(BUSYBOX, ['pwd'], cwd='relative')
    equal(run.failed.fail, vm.SETUP, 'a relative one')


@test
def programs_that_cannot_be_executed(g, bench):
    for argv, user, fail in ((['nope'], '', vm.NOT_FOUND), (['/bin/nope'], '', vm.NOT_FOUND),
                             ([''], '', vm.NOT_FOUND), (['plain'], '', vm.NOT_EXEC),
                             (['/bin/plain'], '', vm.NOT_EXEC), (['/etc'], '', vm.NOT_EXEC),
                             (['garbage'], '', vm.NOT_EXEC),
                             (['no-interpreter'], '', vm.NOT_EXEC),
                             (['/private/x'], 'joe', vm.NOT_EXEC)):
        run = g.run(BUSYBOX, argv, user=user)
        check(run.failed is not None, f'{argv}: {run.exit}')
        equal(run.failed.fail, fail, f'{argv}: {run.failed.text}')
        check(run.failed.text and run.failed.status, f'{argv}: a text')
        check(not run.started and not run.eof, f'{argv}: nothing else was sent')


@test
def bad_requests_are_refused(g, bench):
    run = g.run('e' * 64, ['true'])
    equal(run.failed.fail, vm.SETUP, 'an image that is not attached')
    run = g.run(BUSYBOX, ['true'], run_id='../../etc/xx')
    equal(run.failed.fail, vm.SETUP, 'an id that is a path')
    number = g.next_number()
    run = g.runs[number] = vm.Run(number, True)
    g.send(vm.RUN, number, b'\0' * 20)
    g.wait(lambda: run.over)
    equal(run.failed.fail, vm.SETUP, 'a malformed RUN')
    check(g.request(vm.ATTACH, b'x').status != 0, 'a malformed ATTACH_IMAGE')
    check(g.attach(1, '../..').status != 0, 'a digest that is a path')
    ping(g)


@test
def signals(g, bench):
    run = g.run(BUSYBOX, sh('kill -9 $$'))
    equal(run.exit, (vm.SIGNALED, 9), 'kill -9 of itself')
    run = g.run(BUSYBOX, sh('kill -TERM $$; sleep 9'))
    equal(run.exit, (vm.SIGNALED, 15), 'the default action works')
    run = g.start(BUSYBOX, sh('trap "echo got; exit 3" USR1; echo up; while :; do sleep 0.01; done'))
    g.wait(lambda: run.out == b'up\n')
    g.send(vm.SIGNAL, run.stream, struct.pack('<I', 10))
    g.wait(lambda: run.over)
    equal((bytes(run.out), run.exit), (b'up\ngot\n', (vm.EXITED, 3)), 'a handled signal')
    run = g.start(BUSYBOX, ['sleep', '99'])
    g.wait(lambda: run.started)
    g.send(vm.SIGNAL, run.stream, struct.pack('<I', 19))
    g.send(vm.SIGNAL, run.stream, struct.pack('<I', 9))
    g.wait(lambda: run.over)
    equal(run.exit, (vm.SIGNALED, 9), 'stopped, then killed')


@test
def background_processes_end_with_the_program(g, bench):
    start = time.monotonic()
    run = g.run(BUSYBOX, sh('setsid sleep 60 & sleep 60 & echo done'))
    equal((bytes(run.out), run.exit), (b'done\n', (vm.EXITED, 0)), 'the output is whole')
    check(time.monotonic() - start < 3, 'and nothing waits for the others')


@test
def orphans_are_reaped(g, bench):
    out = ok(g, sh('i=0; while [ $i -lt 30 ]; do (sh -c "exit 0" &) ; i=$((i+1)); done; '
                   'while ls -l /proc/[0-9]*/exe 2>/dev/null | grep -v "/1/" | grep -c -v "/2/" |'
                   ' grep -q -v "^1$"; do :; done; cat /proc/[0-9]*/stat 2>/dev/null'))
    check(b' Z ' not in out, f'zombies: {out}')


@test
def timeout_kills_the_tree(g, bench):
    tick = 'while :; do echo x >> /workspace/tick; sleep 0.05; done'
    run = g.start(BUSYBOX, sh(f'echo partial; setsid sh -c "{tick}" & sleep 99'), timeout_ms=1200)
    g.wait(lambda: run.out == b'partial\n')
    grown = int(ok(g, sh('while [ ! -s /workspace/tick ]; do :; done; wc -c < /workspace/tick')))
    check(grown > 0, 'control: the tick grows')
    took = g.wait(lambda: run.over)
    equal(run.exit, (vm.TIMEOUT, 9), f'after {took}')
    check(run.exit_at - run.sent_at < 3, 'in time')
    a, b = ok(g, sh('wc -c < /workspace/tick; sleep 0.3; wc -c < /workspace/tick; '
                    'rm /workspace/tick')).split()
    equal(a, b, 'the tick stopped')


@test
def kill(g, bench):
    run = g.start(BUSYBOX, sh('trap "" TERM; yes'), window=4096, grant=False)
    g.wait(lambda: run.out_bytes == 4096)
    g.send(vm.KILL, run.stream)
    took = g.wait(lambda: run.over)
    equal(run.exit, (vm.KILLED, 9), 'how')
    equal(run.out_bytes, 4096, 'never more than the window')
    check(took < 2, 'it did not wait for the window')
    g.send(vm.KILL, run.stream)
    run = g.start(BUSYBOX, ['sleep', '99'])
    g.send(vm.KILL, run.stream)
    g.wait(lambda: run.over)
    check(run.exit == (vm.KILLED, 9), f'killed while it starts: {run.exit} {run.failed}')


@test
def stdin(g, bench):
    data = random.randbytes(1 << 20)
    run = g.start(BUSYBOX, ['sha256sum'], stdin=True)
    at = 0
    while at < len(data):
        g.wait(lambda: run.stdin_window > 0)
        part = data[at:at + min(run.stdin_window, 32768)]
        g.send(vm.STDIN, run.stream, part)
        run.stdin_window -= len(part)
        at += len(part)
    check(not run.over, 'it waits for the end')
    g.send(vm.STDIN_EOF, run.stream)
    g.wait(lambda: run.over)
    equal(run.out.split()[0].decode(), hashlib.sha256(data).hexdigest(), '1 MiB of stdin')
    ok(g, ['wc', '-c'], b'0\n')
    ok(g, sh('readlink /proc/self/fd/0'), b'/dev/null\n')


@test
def stdin_that_nobody_reads(g, bench):
    run = g.start(BUSYBOX, sh('exec <&-; echo closed; sleep 1; echo end'), stdin=True)
    g.wait(lambda: run.out == b'closed\n')
    sent = 0
    while sent < 1 << 20:
        g.wait(lambda: run.stdin_window > 0 or run.over)
        if run.over:
            break
        n = min(run.stdin_window, 60000)
        g.send(vm.STDIN, run.stream, b'z' * n)
        run.stdin_window -= n
        sent += n
    check(sent >= 1 << 20, 'a program that closed its stdin does not stop the sender')
    g.wait(lambda: run.over)
    equal((bytes(run.out), run.exit), (b'closed\nend\n', (vm.EXITED, 0)), 'and goes on')
    run = g.start(BUSYBOX, ['sleep', '99'], stdin=True)
    g.wait(lambda: run.started and run.stdin_window)
    for _ in range(1 + run.stdin_window // 60000):
        g.send(vm.STDIN, run.stream, b'z' * 60000)
    g.wait(lambda: run.over)
    equal(run.exit, (vm.KILLED, 9), 'more than the window ends the run')


@test
def slow_reader_holds_the_program_back(g, bench):
    slow = g.start(BUSYBOX, sh('head -c 3000000 /dev/zero; echo end >&2'), window=0, grant=False)
    g.wait(lambda: slow.started)
    for i in range(5):
        ok(g, ['echo', 'other'], b'other\n')
    equal((slow.out_bytes, len(slow.err), slow.over), (0, 0, False), 'nothing without a window')
    g.window(slow, 1, 100000)
    g.wait(lambda: slow.out_bytes == 100000)
    ok(g, ['echo', 'other'], b'other\n')
    equal((slow.out_bytes, slow.over), (100000, False), 'exactly the window')
    slow.grant = True
    g.window(slow, 2, 100)
    g.window(slow, 1, 1 << 20)
    g.wait(lambda: slow.over)
    equal((slow.out_bytes, bytes(slow.err)), (3000000, b'end\n'), 'all of it in the end')


@test
def many_runs_at_once(g, bench):
    """Runs, and execs in one of them, up to the limit of both together."""
    def script(i):
        return sh(f'echo {i}; cat; echo end {i}')
    runs = [g.start(BUSYBOX, script(i), stdin=True, name='first' if i == 0 else '')
            for i in range(32)]
    runs += [g.start_exec('first', script(i), env=['PATH=/bin'], stdin=True)
             for i in range(32, 128)]
    g.wait(lambda: all(r.out for r in runs), 240)
    over = g.run(BUSYBOX, ['true'])
    check(over.failed is not None, f'one more was not refused: {over.exit}')
    equal((over.failed.fail, over.failed.status), (vm.SETUP, 11), 'one more is refused: EAGAIN')
    for r in reversed(runs):
        g.send(vm.STDIN_EOF, r.stream)
        if r is runs[1]:
            g.wait(lambda: all(r.over for r in runs[1:]), 240)
    g.wait(lambda: runs[0].over, 60)
    for i, r in enumerate(runs):
        equal(bytes(r.out), f'{i}\nend {i}\n'.encode(), 'each has its own output')
    ok(g, ['true'])


@test
def memory_limit(g, bench):
    run = g.run(SCRATCH, ['/probe', 'memory'], memory=64 << 20, timeout=60)
    equal((run.exit.how, run.exit.code, run.exit.oom), (vm.SIGNALED, 9, 1), 'killed for memory')
    run = g.run(SCRATCH, ['/probe', 'memory'], timeout=90)
    equal((run.exit.code, run.exit.oom), (9, 1), 'without a limit: the VM is the limit')
    ping(g)


@test
def tight_limits(g, bench):
    run = g.run(BUSYBOX, ['true'], pids=1)
    check(run.exit == (vm.EXITED, 0), f'one process is enough for one: {run.failed}')
    run = g.run(BUSYBOX, sh('/bin/busybox true; /bin/busybox true'), pids=1)
    check(run.exit.code != 0, f'and no more: {run.exit}')
    run = g.run(BUSYBOX, ['true'], memory=(6 << 20) - 1)
    check(run.failed and 'minimum' in run.failed.text, f'too little memory: {run.exit}')
    ok(g, ['true'], memory=6 << 20)
    ok(g, ['true'])


@test
def signals_while_it_starts(g, bench):
    run = g.start(BUSYBOX, ['sleep', '99'])
    g.send(vm.SIGNAL, run.stream, struct.pack('<I', 15))
    g.wait(lambda: run.over)
    equal(run.exit, (vm.SIGNALED, 15), 'they are not lost')


@test
def full_disk(g, bench):
    run = g.run(BUSYBOX, sh('dd if=/dev/zero of=/workspace/big bs=1M; dd if=/dev/zero of=/big bs=4k'
                            ' count=3000; echo full'), timeout=600)
    check(b'full' in run.out and b'No space left' in run.err, bytes(run.err))
    check(run.err.count(b'No space left') == 2, f'nor in the root: {bytes(run.err)}')
    for _ in range(8):
        ok(g, ['echo', 'runs'], b'runs\n')
    ok(g, ['rm', '/workspace/big'])
    ok(g, sh('echo x > /workspace/y; cat /workspace/y; rm /workspace/y'), b'x\n')


@test
def fork_bomb(g, bench):
    bomb = 'b() { b | b & }; b; sleep 99'
    run = g.start(BUSYBOX, sh(bomb), timeout_ms=3000, pids=200)
    ping(g)
    g.wait(lambda: run.over)
    equal(run.exit.how, vm.TIMEOUT, 'ended in time')
    run = g.start(BUSYBOX, sh(bomb), timeout_ms=4000)
    g.wait(lambda: run.started)
    ping(g, 20)
    g.wait(lambda: run.over, 90)
    equal(run.exit.how, vm.TIMEOUT, 'with the default limit of processes too')
    ok(g, ['echo', 'alive'], b'alive\n')


@test
def quiescence(g, bench):
    count = 'i=0; while :; do i=$((i+1)); echo $i; done'
    run = g.start(BUSYBOX, sh(count), stdin=True)
    g.wait(lambda: run.out_bytes > 1000)
    g.quiesce()
    check(not g.pump(0.4), 'nothing is sent while it stands still')
    before = run.out_bytes
    g.resume()
    g.wait(lambda: run.out_bytes > before + 100000)
    lines = bytes(run.out).split(b'\n')[:-1]
    equal(lines, [str(i + 1).encode() for i in range(len(lines))], 'no line is lost')
    # A QUIESCE that a RESUME has overtaken is ignored; frames that wait are not lost.
    g.resume(quiesce=g.quiesce_number + 5)
    ping(g)
    g.send(vm.QUIESCE, 0, struct.pack('<I', g.quiesce_number + 5))
    ping(g)
    g.quiesce_number += 5
    g.quiesce()
    number = g.next_number()
    g.send(vm.PING, number)
    check(not g.pump(0.2), 'a request waits')
    g.resume()
    g.wait(lambda: number in g.replies)
    g.send(vm.KILL, run.stream)
    g.wait(lambda: run.over)


@test
def new_epoch(g, bench):
    script = 'cat > /workspace/stdin; echo eof >> /workspace/stdin; '
    script += 'i=0; while [ $i -lt 20000 ]; do i=$((i+1)); echo $i; done; echo ok >> /workspace/stdin'
    run = g.start(BUSYBOX, sh(script), stdin=True, window=10)
    other = g.start(BUSYBOX, ['sleep', '99'], timeout_ms=2000)
    g.wait(lambda: run.started and other.started)
    granted = run.stdin_window
    g.send(vm.STDIN, run.stream, b'data\n')
    g.wait(lambda: run.stdin_window > granted)
    g.mux.sendall(struct.pack('<IHHII', 5000, vm.STDIN, vm.MAGIC, run.stream, g.epoch) + b'half')
    g.resume(new_epoch=True)
    ping(g)
    ok(g, sh('while ! grep -q ok /workspace/stdin; do :; done; cat /workspace/stdin; '
             'rm /workspace/stdin'), b'data\neof\nok\n')
    g.send(vm.PING, g.next_number(), epoch=g.epoch - 1)
    ping(g)
    equal(g.events, [], 'nothing of the old epoch')
    ok(g, sh('while [ "$(ps -o args | grep -c "sleep 9[9]")" != 0 ]; do :; done'))
    for _ in range(3):
        g.resume(new_epoch=True)
    ok(g, ['echo', 'fine'], b'fine\n')


@test
def nonce_before_the_record(g, bench):
    # The ports have no common order: the nonce and frames may be there first, even swallowed as
    # the rest of a half frame.
    for half in (b'', struct.pack('<IHHII', 3000, vm.STDIN, vm.MAGIC, 7, g.epoch) + b'half'):
        nonce = os.urandom(32)
        number = g.next_number()
        g.mux.sendall(half + nonce + struct.pack('<IHHII', 0, vm.PING, vm.MAGIC, number,
                                                 g.epoch + 1))
        check(not g.pump(0.3), 'nothing happens yet')
        g.resume(new_epoch=True, nonce=nonce, sync=False)
        g.runs, g.replies, g.events = {}, {}, []
        while nonce not in g.inbuf:
            g.inbuf += g.mux.recv(1 << 16)
        g.inbuf = g.inbuf[g.inbuf.index(nonce) + 32:]
        g.parse()
        g.event(vm.RESUMED)
        g.wait(lambda: number in g.replies, 5)
    ping(g)


@test
def clock(g, bench):
    def off():
        now = time.time()
        return abs(float(ok(g, ['date', '+%s'], wall_ns=0)) - now)
    g.resume(wall_ns=time.time_ns() - 86400 * 10**9)
    check(off() > 80000, 'control: the record sets the clock')
    ok(g, ['true'])
    check(off() < 3, 'a RUN corrects it')
    g.resume(wall_ns=time.time_ns() - 86400 * 10**9)
    g.resume()
    check(off() < 3, 'a RESUME sets it')


@test
def name_lookups_fail_at_once(g, bench):
    start = time.monotonic()
    run = g.run(BUSYBOX, ['nslookup', 'www.example.com'])
    check(b'NXDOMAIN' in run.out, f'{run.exit} {bytes(run.out)} {bytes(run.err)}')
    equal(run.exit, (vm.EXITED, 1), 'nslookup')
    run = g.run(BUSYBOX, ['nc', '-w', '20', '192.0.2.1', '80'])
    check(b'unreachable' in run.err, f'{run.exit} {bytes(run.out)} {bytes(run.err)}')
    query = r'\x00\x1d\x12\x34\x01\x00\x00\x01\x00\x00\x00\x00\x00\x00\x07example\x03com\x00\x00\x01\x00\x01'
    out = ok(g, sh(f"printf '{query}' | nc 127.0.0.1 53 | head -c 6 | od -An -tx1"))
    equal(out.split(), b'00 1d 12 34 81 83'.split(), 'over TCP')
    ok(g, sh("printf '\\377\\377xx' | nc 127.0.0.1 53"), b'')
    check(time.monotonic() - start < 10, 'all of it at once')


@test
def names_in_the_container(g, bench):
    ok(g, sh('hostname; cat /etc/hostname'), b'box\nbox\n')
    out = ok(g, sh('hostname; cat /etc/hosts /etc/machine-id'), hostname='other')
    check(out.startswith(b'other\n127.0.0.1\tlocalhost\n') and b'\tother\n' in out, out)
    check(out.endswith(b'11' * 16 + b'\n'), out)
    ok(g, sh('cat /etc/resolv.conf'), b'nameserver 127.0.0.1\noptions attempts:1 timeout:1\n')
    equal(g.configure('renamed', b'\x22' * 16).status, 0, 'another name later')
    ok(g, sh('hostname; cat /etc/machine-id'), b'renamed\n' + b'22' * 16 + b'\n')
    equal(g.configure('box', b'\x11' * 16).status, 0, 'back again')


@test
def workspace_is_kept(g, bench):
    ok(g, sh('ls -ld /workspace | cut -c1-10; echo work > /workspace/kept; echo gone > /tmp/x'),
       b'drwxrwxrwt\n', user='joe')
    ok(g, sh('cat /workspace/kept; cat /tmp/x 2>/dev/null || echo none; rm /workspace/kept'),
       b'work\nnone\n')


@test
def isolation(g, bench):
    ok(g, sh('ls /dev'), b'core\nfd\nfull\nmqueue\nnull\nptmx\npts\nrandom\nshm\nstderr\n'
       b'stdin\nstdout\ntty\nurandom\nzero\n')
    for device, want in ((('c', '1', '3'), b'open ok\n'),
                         (('b', '254', '0'), b'open Operation not permitted\n'),
                         (('b', '8', '0'), b'open Operation not permitted\n'),
                         (('c', '1', '1'), b'open Operation not permitted\n'),
                         (('c', '1', '11'), b'open Operation not permitted\n'),
                         (('c', '10', '229'), b'open Operation not permitted\n')):
        run = g.run(SCRATCH, ['/probe', 'device', *device])
        equal(bytes(run.out), want, f'device {device}')
    for n in range(4):
        for major in range(240, 255):
            run = g.run(SCRATCH, ['/probe', 'device', 'c', str(major), str(n)])
            equal(bytes(run.out), b'open Operation not permitted\n', 'virtio ports')
    out = ok(g, ['cat', '/proc/self/status'])
    check(b'CapEff:\t00000000a80425fb' in out and b'CapBnd:\t00000000a80425fb' in out, 'root')
    check(b'CapInh:\t0000000000000000' in out and b'NoNewPrivs:\t0' in out, 'as docker')
    for mask in (b'SigBlk', b'SigIgn'):
        check(mask + b':\t0000000000000000' in out, mask)
    out = ok(g, ['cat', '/proc/self/status'], user='joe')
    check(b'CapEff:\t0000000000000000' in out and b'CapBnd:\t00000000a80425fb' in out, 'joe')
    for script in ('echo 1 > /proc/sys/kernel/sysrq', 'echo b > /proc/sysrq-trigger',
                   'mount -t tmpfs x /tmp', 'mount -o remount,rw /sys', 'cat /proc/1/environ',
                   'readlink /proc/1/fd/3', 'echo > /proc/1/fd/3', 'unshare -U true', 'unshare -m true', 'umount /proc/sys',
                   'echo 1 > /sys/fs/cgroup/cgroup.procs', 'dd if=/proc/1/mem count=1',
                   'mkdir /sys/fs/cgroup/x', 'echo max > /sys/fs/cgroup/pids.max'):
        run = g.run(BUSYBOX, sh(script))
        check(run.exit and run.exit.code != 0, f'{script} worked')
    ok(g, sh('cat /proc/kcore /proc/keys /proc/timer_list; ls -A /sys/firmware /proc/acpi'),
       b'/proc/acpi:\n\n/sys/firmware:\n')
    ok(g, sh('echo /proc/[0-9]*; cat /proc/self/cgroup'), b'/proc/1 /proc/2\n0::/\n')
    ok(g, sh('cat /proc/self/mountinfo | grep -c -e vda.*disk -e newroot || true'), b'0\n')


@test
def hot_plugged_image(g, bench):
    g.qmp('blockdev-add', **{'driver': 'raw', 'node-name': 'plug', 'read-only': True,
                             'file': {'driver': 'file', 'filename': bench.busybox,
                                      'read-only': True}})
    g.qmp('device_add', driver='scsi-hd', bus='scsi0.0', lun='9', drive='plug', id='plug')
    start = time.monotonic()
    reply = g.attach(9, PLUGGED)
    took = time.monotonic() - start
    equal(reply.status, 0, reply.text)
    check(took < 1, f'attached in {took:.3f} s')
    print(f'# hot-plugged and mounted in {took * 1000:.0f} ms')
    equal(g.attach(9, PLUGGED).status, 0, 'again')
    run = g.run(PLUGGED, ['echo', 'plugged'])
    equal(bytes(run.out), b'plugged\n', 'it runs')
    number = g.next_number()
    g.send(vm.ATTACH, number, struct.pack('<I', 55) + vm.text('f' * 64))
    ok(g, ['echo', 'meanwhile'], b'meanwhile\n')
    g.wait(lambda: number in g.replies, 20)
    check(g.replies[number].status != 0, 'a LUN that is not there is an error in the end')


@test
def what_runs_leave_is_removed(g, bench):
    def used():
        return int(ok(g, sh("df -i /workspace | tail -1 | awk '{print $3}'")))
    base = used()
    run = g.run(SCRATCH, ['/probe', 'deep', '3000'])
    equal(run.exit, (vm.EXITED, 0), 'a deep tree')
    ok(g, sh('mkdir /many; cd /many; i=0; while [ $i -lt 2000 ]; do i=$((i+1)); : > $i; done'))
    deadline = time.monotonic() + 60
    while used() > base + 200:
        check(time.monotonic() < deadline, f'{used()} inodes in use, {base} before')


@test
def latency(g, bench):
    times = []
    for _ in range(15):
        run = g.run(BUSYBOX, ['true'])
        times.append((run.exit_at - run.sent_at) * 1000)
    print(f'# run true: median {sorted(times)[7]:.0f} ms, best {min(times):.0f} ms')


@test
def hostile_frames(g, bench):
    rng = random.Random(8)
    for _ in range(400):
        kind = rng.choice((1, 2, 3, 4, 5, 6, 7, 8, 11, 12, 65, 66, 0, 255, 65535))
        payload = rng.randbytes(rng.choice((0, 1, 4, 8, 12, 64, 300)))
        if kind == vm.CONFIGURE:
            payload = payload[:8]
        g.send(kind, rng.randrange(1 << 32), payload)
        g.pump(0)
    g.mux.sendall(rng.randbytes(200000))
    g.inbuf = b''
    g.resume(new_epoch=True)
    ok(g, ['echo', 'alive'], b'alive\n')
    g.resume_sock.sendall(rng.randbytes(1000))
    g.resume(new_epoch=True)
    ok(g, ['echo', 'alive'], b'alive\n')


# Guests of their own

@own
def before_configuration(bench):
    with bench.guest(configure=False) as g:
        version, kernel = g.hello_seen
        check(version == vm.VERSION and kernel.startswith('6.'), f'{version} {kernel}')
        print(f'# boot to HELLO: {time.monotonic() - g.started_at:.1f} s')
        ping(g)
        g.quiesce()
        g.resume()
        g.resume(new_epoch=True)
        equal(g.attach(1, BUSYBOX).status, 0, 'attach')
        run = g.run(BUSYBOX, ['true'])
        equal(run.failed.fail, vm.SETUP, 'RUN before CONFIGURE')
        ready(g)
        ok(g, ['echo', 'x'], b'x\n')


@own
def shutdown_is_clean(bench):
    disk = bench.disk()
    with bench.guest(disk) as g:
        ok(g, sh('echo kept > /workspace/file'))
        polite = g.start(BUSYBOX, sh('trap "echo bye; exit 5" TERM; echo up; '
                                     'while :; do sleep 0.01; done'))
        rude = g.start(BUSYBOX, sh('trap "" TERM; echo up; while :; do sleep 0.1; done'))
        g.wait(lambda: polite.out and rude.out)
        number = g.next_number()
        g.send(vm.SHUTDOWN, number)
        refused = g.start(BUSYBOX, ['true'])
        took = g.wait(lambda: number in g.replies, 20)
        equal(g.replies[number].status, 0, g.replies[number].text)
        equal((bytes(polite.out), polite.exit), (b'up\nbye\n', (vm.EXITED, 5)), 'SIGTERM first')
        equal(rude.exit, (vm.KILLED, 9), 'then SIGKILL')
        check(refused.failed is not None, 'no new runs')
        check(1.5 < took < 5, f'after the grace time: {took}')
        equal(g.qmp_event('SHUTDOWN')['data']['reason'], 'guest-shutdown', 'powered off')
        equal(g.process.wait(20), 0, 'QEMU ends')
    raw = bench.path('check.raw')
    tool('qemu-img', 'convert', '-O', 'raw', disk, raw)
    dump = subprocess.run(['dumpe2fs', '-h', raw], stdout=subprocess.PIPE,
                          stderr=subprocess.DEVNULL, check=True).stdout
    check(b'needs_recovery' not in dump and b'state:         clean\n' in dump, 'unmounted')
    tool('e2fsck', '-fn', raw)
    os.unlink(raw)
    with bench.guest(disk) as g:
        ok(g, ['cat', '/workspace/file'], b'kept\n')


@own
def disk_after_a_crash(bench):
    disk = bench.disk()
    with bench.guest(disk) as g:
        ok(g, sh('echo synced > /workspace/file; sync; mkdir -p /a/b; echo x > /a/b/c; sync'))
        g.start(BUSYBOX, sh('while :; do echo x >> /workspace/log; done'))
        run = g.start(BUSYBOX, sh('echo up; sleep 99'))
        g.wait(lambda: run.out)
        g.process.kill()
        g.process.wait()
    with bench.guest(disk) as g:
        ok(g, ['cat', '/workspace/file'], b'synced\n')
        ok(g, ['true'])


@own
def restore_in_full_flow(bench):
    """Saved without quiescence, with every buffer full in both directions: nothing of it may
    reach, or disturb, the new epoch."""
    disk, ram, state = bench.disk(), bench.path('ram'), bench.path('state')
    script = ('cat > /dev/null & i=0; while :; do i=$((i+1)); echo $i; '
              'echo >> /workspace/count; done')
    with bench.guest(disk, ram=ram) as g:
        runs = [g.start(BUSYBOX, sh(script), stdin=True, window=1 << 20) for _ in range(3)]
        g.wait(lambda: all(r.out_bytes > 5000 for r in runs))
        for r in runs:
            g.window(r, 1, 1 << 20)
            g.send(vm.STDIN, r.stream, b'z' * 60000)
        g.mux.sendall(struct.pack('<IHHII', 60000, vm.STDIN, vm.MAGIC, runs[0].stream, g.epoch) +
                      b'half')
        # Nobody reads any more: the output backs up into the guest.
        deadline = time.monotonic() + 1
        while time.monotonic() < deadline:
            g.qmp('query-status')
        g.save(state)
        epoch, number = g.epoch, g.number
    for i in range(2):
        layer = bench.path(f'layer{i}.qcow2')
        tool('qemu-img', 'create', '-q', '-f', 'qcow2', '-b', disk, '-F', 'qcow2', layer)
        g = vm.Guest(ASSETS, layer, images=[(1, bench.busybox), (2, bench.scratch)], ram=ram,
                     state=state)
        try:
            g.epoch, g.number = epoch, number
            g.resume(new_epoch=True)
            ping(g)
            a, b = ok(g, sh('wc -c < /workspace/count; sleep 0.3; wc -c < /workspace/count')).split()
            check(int(b) > int(a), f'the processes go on: {a} {b}')
            for line in range(5):
                ok(g, ['echo', f'line {line}'], f'line {line}\n'.encode())
            equal(g.events, [], 'nothing of the old epoch')
        finally:
            g.close()
        epoch += 1


if __name__ == '__main__':
    sys.exit(main())
