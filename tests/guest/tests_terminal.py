# SPDX-License-Identifier: Apache-2.0
"""Terminals of containers, driven as a person would, and what an exec may see and do."""
import re
import struct

import guestvm as vm
from harness import BUSYBOX, check, equal, ok, sh, test

ENV = ('PATH=/usr/bin:/bin', 'PS1=> ')


class Screen:
    """A run with a terminal: type, and wait for what it shows."""

    def __init__(self, g, run):
        self.g, self.run, self.seen = g, run, 0

    def type(self, keys):
        self.g.wait(lambda: self.run.stdin_window >= len(keys))
        self.run.stdin_window -= len(keys)
        self.g.send(vm.STDIN, self.run.stream, keys)

    def shows(self, pattern, timeout=20):
        """Waits for the pattern after what was waited for last; returns the match."""
        found = []

        def look():
            found[:] = [re.compile(pattern, re.S).search(self.run.out, self.seen)]
            check(found[0] or not self.run.over,
                  f'no {pattern!r}: {bytes(self.run.out)!r} {self.run.failed}')
            return found[0]
        try:
            self.g.wait(look, timeout)
        except TimeoutError:
            raise AssertionError(f'no {pattern!r} in {bytes(self.run.out[self.seen:])!r}')
        self.seen = found[0].end()
        return found[0]

    def ends(self, code):
        self.g.wait(lambda: self.run.over)
        equal(self.run.exit, (vm.EXITED, code), f'end after {bytes(self.run.out)!r}')


def at_terminal(g, argv, size=(24, 80), env=ENV, **kw):
    return Screen(g, g.start(BUSYBOX, argv, flags=vm.TTY, stdin=True, size=size, env=env, **kw))


@test
def terminal_from_the_first_instruction(g, bench):
    run = g.run(BUSYBOX, sh('stty size; tty; echo $TERM; stat -c "%u %g %a" $(tty); '
                            'stat -c %t:%T /dev/console /dev/pts/0; echo hi > /dev/tty; '
                            'cut -d" " -f6,7 /proc/$$/stat; echo err >&2'),
                flags=vm.TTY, size=(33, 101))
    out = bytes(run.out).replace(b'\r\n', b'\n').split(b'\n')
    equal(out[:8], [b'33 101', b'/dev/pts/0', b'xterm', b'0 5 620', b'88:0', b'88:0', b'hi',
                    b'2 34816'], 'size, name, TERM, owner, /dev/console, /dev/tty, session')
    equal(out[8:], [b'err', b''], 'stderr is the terminal too')
    run = g.run(BUSYBOX, sh('stat -c "%u %g %a" $(tty); echo mine > /dev/tty; echo $TERM; '
                            'cat < /dev/console'),
                flags=vm.TTY, user='joe', env=ENV + ('TERM=screen-256color',), timeout_ms=3000)
    check(bytes(run.out).startswith(b'1000 5 620\r\nmine\r\nscreen-256color\r\n'), bytes(run.out))


@test
def keys_and_signals(g, bench):
    s = at_terminal(g, sh('trap "echo got INT; exit 3" INT; echo up; while :; do sleep 0.1; done'))
    s.shows(b'up')
    s.type(b'\x03')
    s.ends(3)
    s = at_terminal(g, ['cat'])
    s.type(b'line\xc3\xa9\x7f\n')
    s.shows(b'line\xc3\xa9\x08 \x08\r\nline\r\n')
    s.type(b'\x04')
    s.ends(0)
    s = at_terminal(g, sh('trap "stty size" WINCH; echo up; while :; do sleep 0.1; done'))
    s.shows(b'up')
    g.send(vm.RESIZE, s.run.stream, struct.pack('<HH', 50, 132))
    s.shows(b'50 132')
    s.type(b'\x03')
    g.wait(lambda: s.run.over)
    equal(s.run.exit, (vm.SIGNALED, 2), 'SIGINT')
    s = at_terminal(g, sh('echo up; exec sleep 1000'))
    s.shows(b'up')
    s.type(b'\x1c')
    g.wait(lambda: s.run.over)
    equal(s.run.exit, (vm.SIGNALED, 3), 'SIGQUIT')


@test
def job_control(g, bench):
    s = at_terminal(g, ['sh', '-i'])
    s.shows(b'> ')
    # Its word comes when the shell has left the terminal to it.
    s.type(b'sh -c "echo up; while read x; do echo got $x; done"\n')
    s.shows(b'\r\nup')
    s.type(b'\x1a')
    s.shows(b'Stopped.*> ')
    s.type(b'jobs\n')
    s.shows(rb'\+.*Stopped.*echo up.*> ')
    s.type(b'fg\n')
    s.shows(b'echo up.*\r\n')
    s.type(b'more\n')
    s.shows(b'got')
    s.type(b'\x03')
    s.shows(b'> ')
    s.type(b'echo $?\n')
    s.shows(b'130\r\n')
    s.type(b'sleep 1000 &\n')
    s.shows(b'> ')
    s.type(b'echo u\'\'p; cat\n')
    s.shows(b'\r\nup')
    s.type(b'heard\n')
    s.shows(b'heard\r\nheard\r\n')
    s.type(b'\x04')
    s.shows(b'> ')
    s.type(b'exit 6\n')
    s.ends(6)


@test
def full_screen_programs(g, bench):
    s = at_terminal(g, sh('vi /tmp/text; echo; od -c /tmp/text; top; echo top is over'))
    s.shows(b'~.*~')
    s.type(b'ihello')
    s.shows(b'hello')
    s.type(b'\x1b')
    # Where the cursor goes when the text is no longer typed into.
    s.shows(rb'\x1b\[1;5H')
    s.type(b':wq\r')
    s.shows(rb'h +e +l +l +o +\\n')
    s.shows(b'PID.*COMMAND.*top')
    s.type(b'q')
    s.shows(b'top is over')
    s.ends(0)


@test
def nobody_holds_the_terminal(g, bench):
    g.run(BUSYBOX, sh('sleep 1000'), name='host', flags=vm.KEEP)
    x = Screen(g, g.start_exec('host', ['sh', '-i'], stdin=True, flags=vm.TTY, size=(9, 99),
                               env=('PS1=> ',)))
    x.shows(b'> ')
    x.type(b'tty; stty size; echo $TERM; stat -c %u:%g:%a $(tty)\n')
    x.shows(b'/dev/pts/0\r\n9 99\r\nxterm\r\n0:5:620\r\n')
    x.type(b'for p in /proc/[0-9]*; do ls -l $p/fd; done 2>&1 | grep -c ptmx\n')
    x.shows(b'\r\n0\r\n')
    x.type(b'ls /dev/console\n')
    x.shows(b'No such file')
    x.type(b'echo /proc/[0-9]*; cat /proc/1/oom_score_adj /proc/self/oom_score_adj\n')
    found = x.shows(rb'\r\n((?:/proc/\d+ ?)+)\r\n-999\r\n0\r\n')
    equal(len(found.group(1).split()), 3, 'init, its program, the shell: not its parent')
    x.type(b'trap "" HUP; (sleep 500; echo late) &\n')
    x.type(b'exit 4\n')
    x.ends(4)
    out = bytes(g.exec('host', sh('ps -o ppid,args | grep "sleep 50[0]"; ls /dev/pts')).out)
    check(out.split()[0] != b'0' and out.endswith(b'ptmx\n'), f'what is left is init\'s: {out}')
    reply = g.remove('host', force=True)
    equal(reply.status, 0, reply.text)


@test
def exec_as_in_a_run(g, bench):
    g.run(BUSYBOX, sh('sleep 1000'), name='host', flags=vm.KEEP, hostname='inner')
    run = g.exec('host', ['cat', '/proc/self/status'], user='joe')
    check(b'CapEff:\t0000000000000000' in run.out and b'CapBnd:\t00000000a80425fb' in run.out,
          'capabilities')
    check(b'Uid:\t1000' in run.out and b'Groups:\t10 44' in run.out, bytes(run.out))
    out = bytes(g.exec('host', sh('hostname; echo $HOME; umask; ulimit -n; cat /proc/self/cgroup; '
                                  'ls -l /proc/self/fd | wc -l; for n in mnt pid uts ipc cgroup; '
                                  'do readlink /proc/self/ns/$n; done')).out).split(b'\n')
    equal(out[:4], [b'inner', b'/root', b'0022', b'1024'], 'as a run has it')
    check(out[4].startswith(b'0::/'), 'the container\'s own cgroup namespace')
    mine = bytes(g.exec('host', sh('cat /tmp/ns 2>/dev/null')).out)
    check(mine == b'', 'control')
    inner = ok(g, sh('for n in mnt pid uts ipc cgroup; do readlink /proc/self/ns/$n; done'))
    check(not set(out[6:11]) & set(inner.split(b'\n')) - {b''}, 'not another container\'s')
    run = g.exec('host', sh('pwd; mkdir sub; echo x > sub/f'), cwd='/new/folder')
    equal(bytes(run.out), b'/new/folder\n', 'a folder is made')
    run = g.exec('host', ['true'], cwd='/etc/passwd')
    check(run.failed and 'working directory' in run.failed.text, f'{run.failed}')
    for argv, fail in ((['/bin/plain'], vm.NOT_EXEC), (['nope'], vm.NOT_FOUND),
                       (['/bin/no-interpreter'], vm.NOT_EXEC)):
        run = g.exec('host', argv)
        equal(run.failed and run.failed.fail, fail, f'{argv}')
    reply = g.remove('host', force=True)
    equal(reply.status, 0, reply.text)
