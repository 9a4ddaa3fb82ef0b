# SPDX-License-Identifier: Apache-2.0
"""What the tests of the agent share: the bench with its images and disks, checks, the TAP runner."""
import contextlib
import os
import shutil
import subprocess
import sys
import tempfile

import guestvm as vm

BUSYBOX, SCRATCH, PLUGGED = 'b' * 64, 'c' * 64, 'd' * 64
HERE = os.path.dirname(os.path.abspath(__file__))
ASSETS = sys.argv[1] if len(sys.argv) > 1 else '.'
TESTS = []


def test(function):
    TESTS.append(function)
    return function


def sh(script):
    return ['sh', '-c', script]


def check(condition, what):
    if not condition:
        raise AssertionError(what)


def equal(got, want, what):
    if got != want:
        raise AssertionError(f'{what}: got {got!r}, want {want!r}')


def tool(*argv):
    subprocess.run(argv, check=True, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)


class Bench:
    """The files that the tests share, in one temporary folder."""

    def __init__(self):
        self.dir = tempfile.mkdtemp(prefix='kosa8-guest.')
        self.count = 0
        self.busybox = self.squash('busybox', self.fill_busybox)
        self.scratch = self.squash('scratch', self.fill_scratch)

    def close(self):
        shutil.rmtree(self.dir)

    def path(self, name):
        return os.path.join(self.dir, name)

    def squash(self, name, fill):
        tree = self.path(name)
        os.mkdir(tree)
        fill(tree)
        out = tree + '.sqfs'
        tool('mksquashfs', tree, out, '-comp', 'lz4', '-noappend', '-all-root', '-quiet',
             '-no-progress')
        return out

    def fill_busybox(self, tree):
        os.makedirs(tree + '/bin')
        os.makedirs(tree + '/etc')
        os.mkdir(tree + '/tmp')
        os.chmod(tree + '/tmp', 0o1777)
        os.mkdir(tree + '/private', 0o700)
        shutil.copy('/bin/busybox', tree + '/bin/busybox')
        listing = subprocess.run(['/bin/busybox', '--list'], check=True, stdout=subprocess.PIPE)
        for applet in listing.stdout.decode().split():
            if applet != 'busybox':
                os.symlink('busybox', f'{tree}/bin/{applet}')
        for name, content, mode in (
                ('etc/passwd', 'root:x:0:0:root:/root:/bin/sh\njoe:x:1000:100::/home/joe:/bin/sh\n',
                 0o644),
                ('etc/group', 'root:x:0:\nusers:x:100:\nwheel:x:10:root,joe\nvideo:x:44:joe\n',
                 0o644),
                ('etc/hosts', 'overwritten\n', 0o644),
                ('bin/plain', 'text\n', 0o644), ('bin/garbage', '\x7fnot a program', 0o755),
                ('bin/no-interpreter', '#!/no/such/thing\n', 0o755)):
            with open(f'{tree}/{name}', 'w') as f:
                f.write(content)
            os.chmod(f'{tree}/{name}', mode)
        os.symlink('../run/systemd/resolve/stub-resolv.conf', tree + '/etc/resolv.conf')
        os.symlink('/etc', tree + '/proc')

    def fill_scratch(self, tree):
        tool('cc', '-static', '-O1', '-o', tree + '/probe', HERE + '/probe.c')

    def disk(self):
        self.count += 1
        raw, layer = self.path(f'disk{self.count}.raw'), self.path(f'disk{self.count}.qcow2')
        with open(raw, 'wb') as f:
            f.truncate(1 << 30)
        tool('mke2fs', '-q', '-t', 'ext4', '-E', 'lazy_itable_init=0,lazy_journal_init=0', raw)
        tool('qemu-img', 'create', '-q', '-f', 'qcow2', '-b', raw, '-F', 'raw', layer)
        return layer

    @contextlib.contextmanager
    def guest(self, disk=None, configure=True, **kw):
        images = [(1, self.busybox), (2, self.scratch)]
        g = vm.Guest(ASSETS, disk or self.disk(), images=images, **kw)
        try:
            g.hello_seen = g.hello()
            if configure:
                g.resume(new_epoch=True)
                ready(g)
            yield g
        finally:
            g.close()


def ready(g):
    for reply in (g.configure('box'), g.attach(1, BUSYBOX), g.attach(2, SCRATCH)):
        equal(reply.status, 0, reply.text)


def ping(g, timeout=5):
    equal(g.request(vm.PING, timeout=timeout).status, 0, 'ping')


def ok(g, argv, out=None, **kw):
    run = g.run(BUSYBOX, argv, **kw)
    check(run.exit is not None, f'{argv}: {run.failed}')
    equal(run.exit, (vm.EXITED, 0), f'{argv}: {bytes(run.err)} {run.exit}')
    if out is not None:
        equal(bytes(run.out), out, f'output of {argv}')
    return bytes(run.out)


def own(function):
    function.own = True
    return test(function)


def run_one(function, args, number):
    try:
        function(*args)
    except (AssertionError, AttributeError, ValueError, OSError, RuntimeError, EOFError, subprocess.SubprocessError) as error:
        print(f'not ok {number} - {function.__name__}\n# {type(error).__name__}: {error}')
        return False
    finally:
        sys.stdout.flush()
    print(f'ok {number} - {function.__name__}', flush=True)
    return True


def main():
    wanted = [t for t in TESTS
              if len(sys.argv) < 3 or any(part in t.__name__ for part in sys.argv[2:])]
    print(f'1..{len(wanted)}')
    bench = Bench()
    failed = 0
    try:
        shared = [t for t in wanted if not hasattr(t, 'own')]
        number = 0
        if shared:
            with bench.guest(log=os.environ.get('GUEST_LOG')) as g:
                for number, function in enumerate(shared, 1):
                    failed += not run_one(function, (g, bench), number)
        for number, function in enumerate([t for t in wanted if hasattr(t, 'own')], number + 1):
            failed += not run_one(function, (bench,), number)
    finally:
        bench.close()
    return 1 if failed else 0
