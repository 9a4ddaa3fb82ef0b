# SPDX-License-Identifier: Apache-2.0
"""Trees of files into and out of the places of a sandbox (COPY)."""
import errno
import hashlib
import struct

import guestvm as vm
from harness import BUSYBOX, check, equal, ok, sh, test

OUT, IN, UPPER = range(3)
FILE, DIR, SYMLINK, HARDLINK, SKIPPED, WHITEOUT, OPAQUE, END = range(1, 9)
MTIME = 1234567890 * 10**9 + 987654321


def entry(kind, path=b'', mode=0o644, data=b'', target=b'', mtime=MTIME, owner=(7, 7)):
    head = struct.pack('<BIIIQQ', kind, mode, *owner, mtime, len(data))
    head += vm.text(path) + vm.text(target)
    return struct.pack('<I', len(head)) + head + data


class Entry:
    def __init__(self, head):
        self.kind, self.mode, self.uid, self.gid, self.mtime, self.size = \
            struct.unpack_from('<BIIIQQ', head)
        at, texts = 29, []
        while at < len(head):
            length, = struct.unpack_from('<I', head, at)
            texts.append(head[at + 4:at + 4 + length])
            at += 4 + length
        self.path, self.target = texts
        self.data = b''

    def __repr__(self):
        return str(vars(self))


def tree(stream):
    """{path: Entry} of a whole tree; an OPAQUE has the path with a star."""
    at, found = 0, {}
    while True:
        length, = struct.unpack_from('<I', stream, at)
        e = Entry(bytes(stream[at + 4:at + 4 + length]))
        at += 4 + length
        if e.kind == END:
            equal(at, len(stream), 'nothing after the end')
            return found
        e.data = bytes(stream[at:at + e.size])
        at += e.size
        found[e.path + (b'*' if e.kind == OPAQUE else b'')] = e


def copy(g, kind, container, path, name='', contents=0, mount=0, data=None, timeout=60):
    payload = struct.pack('<III', kind, contents, mount) + vm.text(container)
    payload += vm.text(path) + vm.text(name)
    run = g.session(vm.COPY, payload, {vm.STDOUT, vm.STDERR})
    if data is not None:
        g.wait(lambda: run.over or run.stdin_window > 0)
        while data and not run.over:
            part = data[:min(run.stdin_window, 32768)]
            g.send(vm.STDIN, run.stream, part)
            run.stdin_window -= len(part)
            data = data[len(part):]
            g.wait(lambda: run.over or not data or run.stdin_window > 0)
        if not run.over:
            g.send(vm.STDIN_EOF, run.stream)
    g.wait(lambda: run.over, timeout)
    return run


def good(run):
    check(run.exit, f'{run.failed}')
    equal(run.exit, (vm.EXITED, 0), f'{bytes(run.err)}')
    return run


def bad(run, *words):
    """It fails, before it starts or later."""
    said = run.failed.text if run.failed else bytes(run.err).decode()
    check(run.failed or (run.exit == (vm.EXITED, 1)), f'it went well: {run.exit}')
    for word in words:
        check(word in said, f'{word!r} is not in {said!r}')


def small_tree():
    return b''.join((
        entry(DIR, mode=0o750), entry(FILE, b'run', 0o4755, b'#!/bin/sh\necho ran\n'),
        entry(DIR, b'sub', 0o1777), entry(HARDLINK, b'sub/twin', target=b'run'),
        entry(SYMLINK, b'sub/link', target=b'../run'), entry(FILE, b'sub/\xff\n', 0o600, b'odd'),
        entry(END)))


LOOK = ('cd "$1"; stat -c "%n %a %u:%g %Y %h" . run sub sub/link | sort; ./run; '
        'readlink sub/link; cat sub/*odd* 2>/dev/null; ls sub | wc -l')


def look(path):
    return ['sh', '-c', LOOK, 'sh', path]


SEEN = (b'. 750 0:0 1234567890 3\nrun 4755 0:0 1234567890 2\nsub 1777 0:0 1234567890 2\n'
        b'sub/link 777 0:0 1234567890 1\nran\n../run\n3\n')


@test
def copy_workspace(g, bench):
    good(copy(g, IN, '', '', 'tree', data=small_tree()))
    equal(ok(g, look('/workspace/tree')), SEEN, 'what a container sees of it')
    back = tree(good(copy(g, OUT, '', 'tree')).out)
    equal(sorted((p, e.kind) for p, e in back.items() if e.kind not in (FILE, HARDLINK)),
          [(b'', DIR), (b'sub', DIR), (b'sub/link', SYMLINK)], 'out again')
    files = sorted(e.kind for p, e in back.items() if p in (b'run', b'sub/twin'))
    equal(files, [FILE, HARDLINK], 'one file with two names')
    e = back[b'sub/\xff\n']
    equal((e.mode, e.mtime, e.data, e.uid), (0o600, MTIME, b'odd', 0), 'mode, time, content')
    bad(copy(g, OUT, '', 'nothing'), 'no such file in the sandbox', 'nothing')
    bad(copy(g, IN, '', 'no/where', 'x', data=small_tree()), 'no such folder')
    ok(g, sh('cd /workspace; ln -s /workspace/tree abs; ln -s /etc etc; mkfifo tree/fifo'))
    equal(tree(good(copy(g, OUT, '', 'abs/run')).out)[b''].data[:9], b'#!/bin/sh',
          'an absolute link means what it does in a container')
    bad(copy(g, OUT, '', 'etc/passwd'), 'no such')
    bad(copy(g, OUT, '', '../etc/passwd'), 'no such')
    bad(copy(g, IN, '', '../evil', 'x', data=small_tree()), 'evil')
    equal(tree(good(copy(g, OUT, '', 'tree')).out)[b'fifo'].kind, SKIPPED, 'a pipe')
    ok(g, sh('rm -r /workspace/tree /workspace/abs /workspace/etc'))


@test
def copy_container(g, bench):
    g.run(BUSYBOX, sh('echo hello > /tmp/f; ln -s /tmp/f /tmp/l; mkdir /d; sleep 1000'),
          name='c', flags=vm.KEEP)
    equal(g.exec('c', sh('while [ ! -d /d ]; do :; done')).exit, (vm.EXITED, 0), 'it is ready')
    back = tree(good(copy(g, OUT, 'c', '/tmp/f')).out)
    equal((back[b''].kind, back[b''].data), (FILE, b'hello\n'), 'a file')
    equal(tree(good(copy(g, OUT, 'c', '/tmp/l')).out)[b''].kind, SYMLINK, 'a last link')
    etc = tree(good(copy(g, OUT, 'c', '/etc')).out)
    check(b'passwd' in etc and etc[b'hostname'].data == b'box\n', f'/etc: {list(etc)}')
    good(copy(g, IN, 'c', '/d', 'tree', data=small_tree()))
    equal(bytes(g.exec('c', look('/d/tree')).out), SEEN, 'in')
    good(copy(g, IN, 'c', '/d', contents=1, data=small_tree()))
    equal(bytes(g.exec('c', sh('/d/run; stat -c %a /d')).out), b'ran\n755\n', 'contents')
    file = entry(FILE, mode=0o644, data=b'new\n') + entry(END)
    good(copy(g, IN, 'c', '/tmp/l', 'x', data=file))
    equal(bytes(g.exec('c', sh('cat /tmp/f; readlink /tmp/l')).out), b'new\n/tmp/f\n',
          'to where a link leads, as docker does')
    bad(copy(g, IN, 'c', '/d', 'tree', data=file), 'is a folder there')
    bad(copy(g, IN, 'c', '/tmp/f', 'x', data=small_tree()), 'not a folder')
    bad(copy(g, OUT, 'c', '/none'), 'no such file in the container: /none')
    bad(copy(g, OUT, 'c', '/proc/1/cwd/etc'), '/proc/1/cwd')
    bad(copy(g, OUT, 'c', '/proc/1/exe'), 'kernel')
    g.exec('c', sh('rm -r /d; ln -s /../../../../ /up; mkdir /proof'))
    back = tree(good(copy(g, OUT, 'c', '/up/')).out)
    check(b'proof' in back and b'disk' not in back, 'no link leads out')
    check(b'proc' in back and not any(p.startswith(b'proc/') for p in back), '/proc is not walked')
    run = copy(g, OUT, 'nobody', '/')
    equal(run.failed and run.failed.status, errno.ENOENT, 'no such container')
    equal(g.signal_container('c', 9).status, 0, 'end it')
    g.wait_for('c')
    for _ in range(2):
        good(copy(g, IN, 'c', '/proof', 'tree', data=small_tree()))
    back = tree(good(copy(g, OUT, 'c', '/proof/tree')).out)
    equal((back[b'run'].mode, back[b'run'].mtime), (0o4755, MTIME), 'of one that has ended')
    equal(tree(good(copy(g, OUT, 'c', '/tmp/f')).out)[b''].data, b'new\n', 'what it wrote')
    check(b'bin' in tree(good(copy(g, OUT, 'c', '/')).out), 'and its image')
    equal(g.remove('c').status, 0, 'rm')


@test
def copy_much(g, bench):
    data = bytes(range(256)) * (1 << 16)
    good(copy(g, IN, '', 'big', data=entry(FILE, data=data) + entry(END)))
    equal(ok(g, ['sha256sum', '/workspace/big']).split()[0],
          hashlib.sha256(data).hexdigest().encode(), '16 MiB in')
    check(tree(good(copy(g, OUT, '', 'big')).out)[b''].data == data, 'and out')
    many = b''.join(entry(FILE, b'%d' % i, data=b'%d' % i) for i in range(3000))
    good(copy(g, IN, '', 'many', data=entry(DIR, mode=0o755) + many + entry(END)))
    back = tree(good(copy(g, OUT, '', 'many')).out)
    check(len(back) == 3001 and back[b'2999'].data == b'2999', '3000 files')
    ok(g, sh('rm -r /workspace/big /workspace/many'))


@test
def copy_that_breaks_off(g, bench):
    file = entry(FILE, data=b'x' * 100000)
    bad(copy(g, IN, '', 'cut', data=file[:-1]), 'before they were complete')
    bad(copy(g, IN, '', 'cut', data=b'\xff' * 100), 'not a tree')
    evil = entry(DIR) + entry(FILE, b'../../evil', data=b'x') + entry(END)
    bad(copy(g, IN, '', 'cut', data=evil), 'not a tree')
    run = g.session(vm.COPY, struct.pack('<III', IN, 0, 0) + vm.text('') + vm.text('cut2') +
                    vm.text(''), {vm.STDOUT, vm.STDERR})
    g.wait(lambda: run.started and run.stdin_window >= 65536)
    for at in range(0, 65536, 32768):
        g.send(vm.STDIN, run.stream, file[at:at + 32768])
    g.send(vm.KILL, run.stream)
    g.wait(lambda: run.over)
    equal(run.exit.how, vm.KILLED, 'a client that goes away')
    equal(ok(g, ['ls', '-A', '/workspace']).split(), [b'cut'], 'no half file is left')
    equal(ok(g, ['ls', '-A', '/workspace/cut']), b'', 'anywhere')
    full = entry(FILE, data=b'y' * (1 << 20)) + entry(END)
    ok(g, sh('dd if=/dev/zero of=/workspace/fill bs=1M 2>/dev/null; true'), timeout=120)
    bad(copy(g, IN, '', 'more', data=full), 'disk is full', 'more')
    equal(ok(g, sh('rm /workspace/fill; rmdir /workspace/cut; ls -A /workspace')), b'', 'clean')
