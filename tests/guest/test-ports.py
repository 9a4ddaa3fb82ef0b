#!/usr/bin/python3
# SPDX-License-Identifier: Apache-2.0
"""test-ports.py ASSETS: kosa8.fs with mounts that a scripted peer serves (fusepeer.py), and
kosa8.net with its connections, in a real guest, as TAP. As test-agent.py otherwise."""
import hashlib
import os
import select
import struct
import sys
import time

sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))
import fusepeer as fp  # noqa: E402
import guestvm as vm  # noqa: E402
from harness import (ASSETS, BUSYBOX, check, equal, main, ok, own, ping, sh, test,  # noqa: E402
                     tool)

MOUNT, UNMOUNT, CONNECT = 22, 23, 24
RW, RO, COW = range(3)


class Net:
    """kosa8.net, driven by the test's own thread."""

    def __init__(self, g):
        self.g, self.sock, self.inbuf = g, g.net_sock, b''
        self.epoch, self.streams = g.epoch, {}

    def new_epoch(self, nonce):
        self.epoch, self.streams = self.g.epoch, {}
        self.sock.sendall(nonce)
        while nonce not in self.inbuf:
            if not select.select([self.sock], [], [], 10)[0]:
                raise TimeoutError('no nonce on kosa8.net')
            self.inbuf += self.sock.recv(1 << 16)
        self.inbuf = self.inbuf[self.inbuf.index(nonce) + 32:]
        self.parse()

    def send(self, kind, stream, payload=b''):
        self.sock.sendall(struct.pack('<IHHII', len(payload), kind, vm.MAGIC, stream, self.epoch) +
                          payload)

    def connect(self, port, window=1 << 18):
        stream = self.g.next_number()
        run = self.streams[stream] = vm.Run(stream, True)
        self.send(CONNECT, stream, struct.pack('<H', port))
        if window:
            self.window(run, window)
        self.wait(lambda: run.started or run.over)
        return run

    def window(self, run, count):
        self.send(vm.WINDOW, run.stream, struct.pack('<II', 1, count))

    def write(self, run, data):
        while data:
            self.wait(lambda: run.stdin_window > 0 or run.over)
            if run.over:
                return
            part = data[:min(run.stdin_window, 32768)]
            run.stdin_window -= len(part)
            self.send(vm.STDIN, run.stream, part)
            data = data[len(part):]

    def parse(self):
        at = 0
        while len(self.inbuf) - at >= 16:
            length, kind, magic, stream, epoch = struct.unpack_from('<IHHII', self.inbuf, at)
            assert magic == vm.MAGIC and epoch == self.epoch, 'a broken frame on kosa8.net'
            if len(self.inbuf) - at < 16 + length:
                break
            self.take(self.streams[stream], kind, self.inbuf[at + 16:at + 16 + length])
            at += 16 + length
        self.inbuf = self.inbuf[at:]

    def take(self, run, kind, payload):
        assert not run.over, f'frame {kind} after the end'
        if kind == vm.STARTED:
            run.started = True
        elif kind == vm.FAILED:
            run.failed = vm.Reply(payload)
        elif kind == vm.STDOUT:
            assert vm.STDOUT not in run.eof
            run.out += payload
            if run.grant:
                self.window(run, len(payload))
        elif kind == vm.STDOUT_EOF:
            run.eof.add(vm.STDOUT)
        elif kind == vm.EXIT:
            run.exit = vm.Exit(payload)
        elif kind == vm.WINDOW:
            run.stdin_window += struct.unpack('<II', payload)[1]

    def wait(self, condition, timeout=20):
        deadline = time.monotonic() + timeout
        while not condition():
            left = deadline - time.monotonic()
            if left <= 0:
                raise TimeoutError(f'nothing on kosa8.net in {timeout} s')
            # What the programs write goes on meanwhile.
            ready_socks = select.select([self.sock, self.g.mux], [], [], left)[0]
            if self.sock in ready_socks:
                self.inbuf += self.sock.recv(1 << 20)
                self.parse()
            if self.g.mux in ready_socks:
                self.g.pump(0)


def tree():
    return {'file': b'content\n', 'folder': {'inner': b'deep\n'}, 'big': bytes(range(256)) * 4096}


def sync_ports(g):
    """A new epoch on all three ports."""
    nonce = os.urandom(32)
    if not hasattr(g, 'peer'):
        g.peer, g.net = fp.Peer(g.fs_sock), Net(g)
        g.peer.start()
    g.peer.new_epoch(nonce, g.epoch + 1)
    g.resume(new_epoch=True, nonce=nonce)
    g.net.new_epoch(nonce)


def equipped(g):
    if not hasattr(g, 'peer'):
        sync_ports(g)
    return g.peer, g.net


def ask_mount(g, number, mode, path):
    return g.request(MOUNT, struct.pack('<II', number, mode) + vm.text(path))


def mount(g, number, mode=RW, path='/mnt/m', **kw):
    peer, _ = equipped(g)
    m = peer.mounts[number] = fp.Mount(kw.pop('tree', tree()), **kw)
    reply = ask_mount(g, number, mode, path)
    equal(reply.status, 0, reply.text)
    return m


def unmount(g, number):
    reply = g.request(UNMOUNT, struct.pack('<I', number))
    equal(reply.status, 0, reply.text)
    g.peer.mounts.pop(number)
    check(g.peer.error is None, f'the peer: {g.peer.error!r}')


def until(g, condition, what, timeout=10):
    deadline = time.monotonic() + timeout
    while not condition():
        check(time.monotonic() < deadline, what)
        g.pump(0.01)


class Shell:
    """A container that goes on running and is told what to do."""

    def __init__(self, g, **kw):
        equipped(g)
        self.g, self.seen = g, 0
        script = 'echo up; while read line; do command eval "$line"; r=$?; echo; echo "=$r"; done 2>&1'
        self.run = g.start(BUSYBOX, sh(script), stdin=True, **kw)
        self.until(b'up\n')

    def until(self, end, timeout=20):
        self.g.wait(lambda: end in self.run.out[self.seen:] or self.run.over, timeout)
        at = self.run.out.find(end, self.seen)
        check(at >= 0, f'the shell ended: {self.run.failed} {self.run.exit} {bytes(self.run.err)}')
        out, self.seen = bytes(self.run.out[self.seen:at]), at + len(end)
        return out

    def tell(self, command):
        self.g.send(vm.STDIN, self.run.stream, command.encode() + b'\n')

    def result(self):
        """Its output and exit code."""
        out = self.until(b'\n=')
        return out, int(self.until(b'\n'))

    def do(self, command):
        self.tell(command)
        return self.result()

    def end(self):
        self.g.send(vm.KILL, self.run.stream)
        self.g.wait(lambda: self.run.over)


@test
def mount_in_containers(g, bench):
    before = Shell(g)
    equal(before.do('cat /mnt/m/file'), (b"cat: can't open '/mnt/m/file': No such file or directory\n",
                                         1), 'control: nothing is there')
    m = mount(g, 1)
    equal(before.do('cat /mnt/m/file')[0], b'content\n', 'a container that runs sees it')
    ok(g, sh('cat /mnt/m/folder/inner; ls /mnt/m'), b'deep\nbig\nfile\nfolder\n')
    ok(g, ['md5sum', '/mnt/m/big'],
       hashlib.md5(tree()['big']).hexdigest().encode() + b'  /mnt/m/big\n')
    ok(g, sh('echo new > /mnt/m/made; mkdir /mnt/m/d; echo x > /mnt/m/d/e'))
    equal(bytes(m.nodes[1].children[b'made'].content), b'new\n', 'what is written arrives')
    ok(g, sh('dd if=/mnt/m/big bs=1 skip=1000000 count=16 2>/dev/null'),
       (bytes(range(256)) * 4096)[1000000:1000016])
    equal(before.do('mount | grep -c "on /mnt/m "')[0], b'1\n', 'mounted once')
    ok(g, sh('mount | grep "on /mnt/m " | grep -c nosuid,nodev'), b'1\n')
    reply = ask_mount(g, 1, RW, '/mnt/m')
    equal(reply.status, 0, f'asked again: {reply.text}')
    equal(before.do('mount | grep -c "on /mnt/m "')[0], b'1\n', 'it is nothing to do')
    equal(ask_mount(g, 1, RO, '/mnt/m').status, 17, 'but as another it is EEXIST')
    unmount(g, 1)
    equal(before.do('ls /mnt/m; mount | grep -c kosa8')[0], b'0\n', 'gone from both')
    ok(g, sh('ls /mnt 2>/dev/null; mount | grep -c kosa8 || true'), b'0\n')
    before.end()


@test
def mount_read_only(g, bench):
    shell = Shell(g)
    m = mount(g, 2, RO, read_only=False)
    for script in ('echo x > /mnt/m/file', 'echo x > /mnt/m/y', 'rm /mnt/m/file', 'mkdir /mnt/m/z'):
        out, code = shell.do(script)
        check(b'Read-only' in out and code != 0, f'{script}: {out} {code}')
        run = g.run(BUSYBOX, sh(script))
        check(b'Read-only' in run.err, f'{script}: {bytes(run.err)}')
    equal(sorted(m.nodes[1].children), [b'big', b'file', b'folder'], 'nothing reached the server')
    ok(g, ['cat', '/mnt/m/file'], b'content\n')
    unmount(g, 2)
    shell.end()


@test
def mount_owner(g, bench):
    m = mount(g, 3, RO)
    for user, want in (('', '0:0'), ('joe', '1000:100'), ('4321', '4321:0'), ('joe:video', '1000:44')):
        ok(g, ['true'], user=user)
        equal(m.owner, want, f'user {user!r}')
    m.log.clear()
    ok(g, ['true'], user='joe:video')
    equal([x for x in m.log if x[0] == fp.SETXATTR], [], 'not told again')
    ok(g, ['true'], user='joe')
    equal(m.owner, '1000:100', 'and then another')
    unmount(g, 3)


def wait_for(condition, what):
    deadline = time.monotonic() + 20
    while not condition():
        check(time.monotonic() < deadline, f'not in time: {what}')
        time.sleep(0.01)


@test
def mount_events(g, bench):
    """What the host changed is a call of the relay's; no path of an event leads out of the mount."""
    m = mount(g, 4)
    wait_for(lambda: m.relay, 'the relay says who it is')
    check(m.relay.isdigit(), m.relay)
    deleted = 2
    for path in (b'../fs/file\0', b'folder/../../fs/file\0', b'/etc\0', b'file', b'\0', b'..\0', b'folder/\0', b'',
                 b'x' * 5000 + b'\0', b'folder/' + b'y' * 300 + b'\0'):
        g.peer.event(4, deleted, path)
    g.peer.event(4, 99, b'file\0')
    folder = m.nodes[1].children[b'folder']
    g.peer.event(4, deleted, b'folder/inner\0')
    wait_for(lambda: not folder.children, 'control: one that is in it is raised, after those')
    equal(sorted(m.nodes[1].children), [b'big', b'file', b'folder'], 'nothing else was')
    unmount(g, 4)


@test
def mount_points(g, bench):
    equipped(g)
    number = 100
    for path in ('/proc', '/proc/x', '/sys/kernel', '/dev/shm', '/dev', '/', 'mnt', '', '/a/../b', '/a/.',
                 '/a//b', '/a/', '/./a', '/x' * 3000):
        number += 1
        reply = ask_mount(g, number, RW, path) if len(path) < 4096 else None
        check(reply is None or reply.status == 22 and reply.text, f'{path!r}: {reply}')
    shell = Shell(g)
    shell.do('mkdir -p /safe/real; ln -s ../../../../safe/real /safe/link; ln -s /proc /safe/kernel; '
             'ln -s /nowhere /safe/dangling; touch /safe/plain; ln -s /dev/shm /safe/shm')
    for path, word in (('/safe/plain', 'no folder'), ('/safe/plain/x', 'no folder'),
                       ('/safe/kernel/tty', "kernel's"), ('/safe/shm', "kernel's"),
                       ('/safe/shm/new', "kernel's"), ('/safe/dangling', 'no folder')):
        number += 1
        g.peer.mounts[number] = fp.Mount(tree())
        reply = ask_mount(g, number, RW, path)
        check(reply.status != 0 and word in reply.text and path.split('/')[2] in reply.text,
              f'{path}: {reply}')
        equal(shell.do('mount | grep -c kosa8')[0], b'0\n', 'nothing is left of it')
    mount(g, 140, path='/safe/link/under')
    equal(shell.do('cat /safe/real/under/file')[0], b'content\n', 'a link within the container')
    # A link that is put in the way later does not lead the unmounting astray.
    shell.do('mv /safe/real /safe/moved; mkdir /safe/real; ln -s /proc /safe/real/under')
    unmount(g, 140)
    equal(shell.do('mount | grep -c kosa8; mount | grep -c "proc on /proc "'), (b'0\n1\n', 0), 'gone')
    equal(g.request(UNMOUNT, struct.pack('<I', 140)).status, 0, 'unmounted again: nothing to do')
    shell.end()
    run = g.run(BUSYBOX, ['true'])
    equal(run.exit, (vm.EXITED, 0), 'new containers are as before')
    mount(g, 141, path='/bin/busybox')
    run = g.run(BUSYBOX, ['true'])
    check(run.failed and run.failed.fail == vm.SETUP and '/bin/busybox' in run.failed.text,
          f'a file of the image is in the way: {run.failed} {run.exit}')
    unmount(g, 141)


@test
def mounts_in_mounts(g, bench):
    mount(g, 11, path='/mnt/a/folder/sub', tree={'who': b'inner\n'})
    outer = mount(g, 10, path='/mnt/a')
    ok(g, sh('cat /mnt/a/folder/sub/who; cat /mnt/a/file'), b'inner\ncontent\n')
    check(b'sub' in outer.nodes[1].children[b'folder'].children, 'the mount point is the outer one\'s')
    unmount(g, 10)
    ok(g, ['cat', '/mnt/a/folder/sub/who'], b'inner\n')
    unmount(g, 11)


@test
def mount_that_is_refused(g, bench):
    peer, _ = equipped(g)
    peer.mounts[20] = fp.Mount(tree())
    peer.mounts[20].refuse_init = 13
    reply = ask_mount(g, 20, RW, '/mnt/m')
    check(reply.status == 71 and 'refused' in reply.text, f'{reply}')
    peer.mounts[21] = fp.Mount(tree())
    peer.mounts[21].hold = {fp.INIT}
    start = time.monotonic()
    reply = ask_mount(g, 21, RW, '/mnt/m')
    took = time.monotonic() - start
    check(reply.status == 110 and 4.5 < took < 8, f'no answer: {reply} in {took}')
    ok(g, sh('ls /mnt 2>/dev/null; mount | grep -c kosa8 || true'), b'0\n')
    reply = ask_mount(g, 20, RW, '/mnt/m')
    check(reply.status == 71, f'the id is free again: {reply}')
    peer.mounts[20].refuse_init = 0
    equal(ask_mount(g, 20, RW, '/mnt/m').status, 0, 'and can be mounted')
    unmount(g, 20)


@test
def requests_are_held_back(g, bench):
    m = mount(g, 30, valid=0)
    m.hold = {fp.LOOKUP}
    run = g.start(BUSYBOX, sh('i=0; while [ $i -lt 150 ]; do i=$((i+1)); cat /mnt/m/n$i 2>/dev/null & done;'
                              ' wait; echo done'))
    until(g, lambda: len(m.held) >= 64, 'they come')
    ok(g, ['echo', 'meanwhile'], b'meanwhile\n')
    equal(len(m.held), 64, 'no more than FS_REQUESTS_MAX')
    g.peer.release(30)
    g.wait(lambda: run.over, 60)
    equal(bytes(run.out), b'done\n', 'in the end all')
    check(len([x for x in m.log if x[0] == fp.LOOKUP]) >= 150, 'all arrived')
    unmount(g, 30)


@test
def quiesce_with_requests_out(g, bench):
    m = mount(g, 40, valid=0)
    shell = Shell(g)
    # Answered within the limit: it is waited for, so nothing is out when it stands still.
    m.hold = {fp.LOOKUP}
    shell.tell('cat /mnt/m/file')
    until(g, lambda: m.held, 'the request comes')
    g.quiesce_number += 1
    g.send(vm.QUIESCE, 0, struct.pack('<I', g.quiesce_number))
    check(not g.pump(0.02), 'it is waited for')
    g.peer.release(40)
    g.event(vm.QUIESCED, 5)
    raw = g.peer.raw
    check(not g.pump(0.3) and g.peer.raw == raw, 'then it stands still')
    g.resume()
    equal(shell.result()[0], b'content\n', 'same epoch: nothing is lost')
    # Not answered: it is still out, and answered after the resume.
    m.hold = {fp.LOOKUP}
    shell.tell('cat /mnt/m/file')
    until(g, lambda: m.held, 'the request comes')
    start = time.monotonic()
    g.quiesce()
    check(time.monotonic() - start < 2, 'the limit holds')
    g.resume()
    g.peer.release(40)
    equal(shell.result()[0], b'content\n', 'it is answered late')
    shell.end()
    unmount(g, 40)


@test
def new_epoch_fails_what_is_out(g, bench):
    m = mount(g, 50, valid=0)
    keep = Shell(g, run_id='keepkeepkeep')
    m.hold = {fp.LOOKUP}
    keep.tell('cat /mnt/m/file > /workspace/out 2>&1; echo $? > /workspace/code; cat /mnt/m/file'
              ' >> /workspace/out; echo $? >> /workspace/code; mv /workspace/code /workspace/codes')
    until(g, lambda: m.held, 'the request comes')
    g.quiesce()
    m.hold, m.held, log = set(), [], len(m.log)
    sync_ports(g)
    ok(g, sh('while [ ! -e /workspace/codes ]; do sleep 0.05; done; cat /workspace/out /workspace/codes; '
             'rm /workspace/out /workspace/codes'), b"cat: can't open '/mnt/m/file': Input/output error\ncontent\n1\n0\n")
    check([x for x in m.log[log:] if x[0] == fp.LOOKUP], 'a later one goes to the new server')
    ok(g, ['cat', '/mnt/m/folder/inner'], b'deep\n')
    equal(ask_mount(g, 50, RW, '/mnt/m').status, 0, 'asked for again: nothing to do')
    # A mount that waits for its server when the epoch changes goes on with the new one.
    other = g.peer.mounts[51] = fp.Mount(tree())
    other.hold = {fp.INIT}
    g.send(MOUNT, g.next_number(), struct.pack('<II', 51, RW) + vm.text('/mnt/other'))
    until(g, lambda: other.held, 'INIT comes')
    other.hold, other.held = set(), []
    sync_ports(g)
    equal(ask_mount(g, 51, RW, '/mnt/other').status, 0, 'INIT is sent again')
    ok(g, ['cat', '/mnt/other/file'], b'content\n')
    unmount(g, 51)
    unmount(g, 50)


@test
def unmount_with_a_dead_server(g, bench):
    m = mount(g, 60, valid=0)
    shell = Shell(g)
    shell.do('exec 9< /mnt/m/file; cd /mnt/m/folder')
    m.hold = {fp.LOOKUP, fp.GETATTR, fp.READ, fp.FLUSH}
    stuck = Shell(g)
    stuck.tell('cat /mnt/m/file')
    until(g, lambda: m.held, 'the request comes')
    start = time.monotonic()
    unmount(g, 60)
    check(time.monotonic() - start < 12, 'bounded')
    out, code = stuck.result()
    check(code != 0 and (b'not connected' in out or b'abort' in out), f'what was out fails: {out}')
    out, code = shell.do('cat inner')
    check(code != 0, f'a working folder in it fails: {out}')
    out, code = shell.do('cat <&9')
    check(code != 0, f'and an open file: {out}')
    for s in (shell, stuck):
        s.end()
    ok(g, sh('mount | grep -c kosa8 || true'), b'0\n')


@test
def cow(g, bench):
    m = mount(g, 70, COW, valid=3600)
    shell = Shell(g)
    equal(shell.do('cat /mnt/m/file; echo mine > /mnt/m/file; echo x > /mnt/m/folder/new; rm /mnt/m/big; '
                   'cat /mnt/m/file; ls /mnt/m /mnt/m/folder')[0],
          b'content\nmine\n/mnt/m:\nfile\nfolder\n\n/mnt/m/folder:\ninner\nnew\n', 'written over')
    equal(bytes(m.nodes[1].children[b'file'].content), b'content\n', 'the host\'s stay')
    equal(sorted(m.nodes[1].children[b'folder'].children), [b'inner'], 'all of them')
    ok(g, sh('cat /mnt/m/file; ls /mnt/m'), b'mine\nfile\nfolder\n')
    unmount_reply = g.request(UNMOUNT, struct.pack('<I', 70))
    equal(unmount_reply.status, 0, unmount_reply.text)
    ok(g, sh('mount | grep -c kosa8 || true'), b'0\n')
    mount(g, 71, COW)
    ok(g, ['cat', '/mnt/m/file'], b'content\n')
    unmount(g, 71)
    shell.end()


@test
def cow_sees_the_hosts_changes(g, bench):
    m = mount(g, 72, COW, valid=3600)
    shell = Shell(g)
    equal(shell.do('cat /mnt/m/folder/inner')[0], b'deep\n', 'it is cached')
    for i in range(2):
        with g.peer.lock:
            folder = m.nodes[1].children[b'folder']
            folder.children[b'inner'] = m.add(b'changed %d\n' % i)
        equal(shell.do('cat /mnt/m/folder/inner')[1], 0, 'control: the cache still answers')
        g.peer.inval_entry(72, folder.number, b'inner')
        want, deadline = b'changed %d\n' % i, time.monotonic() + 10
        while (got := shell.do('cat /mnt/m/folder/inner')[0]) != want:
            check(time.monotonic() < deadline, f'still {got}')
        start = time.monotonic()
        equal(shell.do('cat /mnt/m/folder/inner; ls /mnt/m/folder')[0], want + b'inner\n', 'no ESTALE')
        check(time.monotonic() - start < 5, 'at once')
    shell.end()
    unmount(g, 72)


@test
def notifications_do_not_block(g, bench):
    """The kernel waits in a notification for a folder that a lookup has locked."""
    m = mount(g, 80, valid=3600)
    shell = Shell(g)
    m.hold = {fp.LOOKUP}
    shell.tell('cat /mnt/m/folder/inner')
    until(g, lambda: m.held, 'the lookup of the folder comes')
    for _ in range(20):
        g.peer.inval_entry(80, 1, b'folder')
    g.peer.release(80)
    equal(shell.result()[0], b'deep\n', 'the answer comes through all the same')
    shell.end()
    unmount(g, 80)


@test
def connections(g, bench):
    _, net = equipped(g)
    refused = net.connect(4001)
    check(refused.failed and refused.failed.status == 111, f'nobody listens: {refused.failed}')
    server = g.start(BUSYBOX, sh('nc -ll -p 4001 -e sh -c '
                                 '"cat > /tmp/got; wc -c < /tmp/got; md5sum < /tmp/got"'))
    g.wait(lambda: server.started)
    data = os.urandom(300000)
    run = None
    deadline = time.monotonic() + 10
    while run is None or run.failed:
        check(time.monotonic() < deadline, 'it listens')
        run = net.connect(4001)
    net.write(run, data)
    check(not run.over and vm.STDOUT not in run.eof, 'it waits for the end')
    net.send(vm.STDIN_EOF, run.stream)
    net.wait(lambda: run.over)
    equal(bytes(run.out), f'300000\n{hashlib.md5(data).hexdigest()}  -\n'.encode(), 'half closed')
    equal(run.exit, (vm.EXITED, 0), 'the end of both')
    g.send(vm.KILL, server.stream)
    g.wait(lambda: server.over)
    six = g.start(BUSYBOX, sh('echo six > /tmp/page; httpd -f -p "[::1]:4006" -h /tmp'))
    g.wait(lambda: six.started)
    deadline = time.monotonic() + 10
    run = None
    while run is None or run.failed:
        check(time.monotonic() < deadline, f'it listens on ::1: {bytes(six.err)}')
        run = net.connect(4006)
    net.write(run, b'GET /page HTTP/1.0\r\n\r\n')
    net.wait(lambda: vm.STDOUT in run.eof)
    check(run.out.endswith(b'\r\n\r\nsix\n'), f'over IPv6: {bytes(run.out)}')
    net.send(vm.STDIN_EOF, run.stream)
    net.wait(lambda: run.over)
    g.send(vm.KILL, six.stream)
    g.wait(lambda: six.over)


def listen(g, net, port, command):
    """A server in a container, and a connection to it."""
    server = g.start(BUSYBOX, sh(f'nc -l -p {port} -e {command}'))
    deadline = time.monotonic() + 10
    while True:
        run = net.connect(port, window=0)
        if not run.failed:
            run.grant = False
            return server, run
        check(time.monotonic() < deadline and not server.over, f'it listens: {bytes(server.err)}')


@test
def connection_windows_and_resets(g, bench):
    _, net = equipped(g)
    server, run = listen(g, net, 4002, 'yes')
    net.window(run, 10000)
    net.wait(lambda: len(run.out) == 10000)
    ok(g, ['echo', 'other'], b'other\n')
    equal(len(run.out), 10000, 'no more than the window')
    net.send(vm.KILL, run.stream)
    net.wait(lambda: run.over)
    equal(run.exit, (vm.KILLED, 0), 'killed')
    g.wait(lambda: server.over)
    check(server.exit != (vm.EXITED, 0), f'the server saw a reset: {server.exit}')
    server, run = listen(g, net, 4003, 'sleep 99')
    check(run.stdin_window >= 65536, f'a window: {run.stdin_window}')
    sent = 0
    while select.select([], [], [], 0.3) and run.stdin_window > 0:
        n = min(run.stdin_window, 32768)
        run.stdin_window -= n
        net.send(vm.STDIN, run.stream, b'z' * n)
        sent += n
        net.wait(lambda: True)
        if select.select([net.sock], [], [], 0.3)[0]:
            net.inbuf += net.sock.recv(1 << 16)
            net.parse()
        check(sent < 64 << 20, 'a server that does not read holds the sender back')
    g.send(vm.KILL, server.stream)
    net.wait(lambda: run.over)
    equal(run.exit, (vm.KILLED, 0), 'the server died with data unread: a reset')
    server, run = listen(g, net, 4004, 'sleep 99')
    for _ in range(1 + run.stdin_window // 32768):
        net.send(vm.STDIN, run.stream, b'z' * 32768)
    net.send(vm.STDIN, run.stream, b'z' * (1 << 17))
    net.wait(lambda: run.over)
    equal(run.exit, (vm.KILLED, 0), 'more than the window ends it')
    g.send(vm.KILL, server.stream)
    g.wait(lambda: server.over)


@test
def connections_end_with_the_epoch(g, bench):
    _, net = equipped(g)
    g.start(BUSYBOX, sh('nc -l -p 4005 -e sh -c '
                                 '"echo up; cat; echo \\$? > /workspace/ended"; echo "nc $?" > /workspace/nc'))
    deadline = time.monotonic() + 10
    run = None
    while run is None or run.failed:
        check(time.monotonic() < deadline, 'it listens')
        run = net.connect(4005)
    net.wait(lambda: run.out == b'up\n')
    net.write(run, b'echo\n')
    net.wait(lambda: run.out == b'up\necho\n')
    g.quiesce()
    check(not select.select([net.sock], [], [], 0.2)[0], 'nothing is sent while it stands still')
    g.resume()
    net.write(run, b'again\n')
    net.wait(lambda: run.out == b'up\necho\nagain\n')
    sync_ports(g)
    ok(g, sh('while [ ! -e /workspace/ended ]; do sleep 0.05; done; cat /workspace/ended; rm /workspace/ended'),
       b'1\n')
    refused = g.net.connect(4005)
    check(refused.failed is not None, 'nobody listens any more')


@test
def many_connections(g, bench):
    _, net = equipped(g)
    server = g.start(BUSYBOX, sh('nc -ll -p 4007 -e cat'))
    deadline = time.monotonic() + 10
    first = None
    while first is None or first.failed:
        check(time.monotonic() < deadline, 'it listens')
        first = net.connect(4007)
    runs = [first]
    while len(runs) < 256:
        runs.append(net.connect(4007))
        check(runs[-1].started, f'{len(runs)}: {runs[-1].failed}')
    over = net.connect(4007)
    check(over.failed and over.failed.status == 11 and '256' in over.failed.text, f'{over.failed}')
    for i in (0, 100, 255):
        net.write(runs[i], b'hello %d' % i)
        net.wait(lambda: bytes(runs[i].out) == b'hello %d' % i)
    for r in runs:
        net.send(vm.KILL, r.stream)
    net.wait(lambda: all(r.over for r in runs))
    again = net.connect(4007)
    check(again.started, f'{again.failed}')
    net.send(vm.STDIN_EOF, again.stream)
    g.send(vm.KILL, server.stream)
    g.wait(lambda: server.over)
    net.wait(lambda: again.over)


def patterned(size):
    """Each place has its own content."""
    return b''.join(struct.pack('<I', i) for i in range(size // 4))


def read_large(g, size):
    """A sequential read, and four at once, each compared; the folder of many names, too."""
    want = patterned(size)
    names = {f'name-{i:04d}': b'x' for i in range(400)}
    m = mount(g, 90, tree={'large': want, 'many': names})
    digest = hashlib.md5(want).hexdigest().encode()
    ok(g, ['md5sum', '/mnt/m/large'], digest + b'  /mnt/m/large\n')
    ok(g, sh('ls /mnt/m/many | wc -l'), b'400\n')
    with g.peer.lock:
        for i in range(4):
            m.nodes[1].children[b'copy%d' % i] = m.add(want)
    ok(g, sh('for i in 0 1 2 3; do md5sum /mnt/m/copy$i & done; wait'), None, timeout=60)
    got = g.run(BUSYBOX, sh('md5sum /mnt/m/copy* | cut -c-32 | sort -u'), timeout=60)
    equal(bytes(got.out), digest + b'\n', 'all the same')
    check(g.peer.error is None, f'the peer: {g.peer.error!r}')


def slot_bytes(f, physical):
    """How many are not zero."""
    f.seek(physical)
    return fp.SLOT_SIZE - f.read(fp.SLOT_SIZE).count(0)


@own
def slots(bench):
    """Answers are written into the guest's memory, where the relay said; in a new epoch, again."""
    ram = bench.path('sram')
    with bench.guest(bench.disk(), ram=ram) as g:
        peer, _ = equipped(g)
        with open(ram, 'r+b', buffering=0) as f:
            def write_ram(physical, data):
                check(0x100000 <= physical and physical + fp.SLOT_SIZE <= 512 << 20,
                      f'a slot at {physical:#x}')
                f.seek(physical)
                f.write(data)
            peer.write_ram = write_ram
            read_large(g, 8 << 20)
            equal((len(peer.pool), peer.by_part), (4, 0), 'all by the pool')
            check(peer.by_slot >= 8, f'{peer.by_slot} slots were used')
            pool = peer.pool
            check(sum(slot_bytes(f, at) for at in pool) > 0, 'control: they hold what was read')
            g.quiesce()
            equal([slot_bytes(f, at) for at in pool], [0] * 4, 'and nothing in a checkpoint')
            g.resume()
            # One is out for a slot when the epoch ends: it is not left hanging, and the slot is free.
            m = g.peer.mounts[90]
            m.hold = {fp.READ}
            with peer.lock:
                m.nodes[1].children[b'other'] = m.add(patterned(8 << 20))
            stuck = Shell(g, run_id='stuckstuckst')
            stuck.tell('cat /mnt/m/other > /dev/null; echo $? > /workspace/failed')
            until(g, lambda: m.held, 'the request comes')
            g.quiesce()
            m.hold, m.held = set(), []
            sync_ports(g)
            # A read ahead that failed is asked for again by the kernel: cat may have all of it then.
            ok(g, sh('while [ ! -s /workspace/failed ]; do sleep 0.05; done; cat /workspace/failed'))
            ok(g, ['md5sum', '/mnt/m/other'], None)
            equal((peer.pool, peer.by_part), (pool, 0), 'named again')
            unmount(g, 90)
        peer.close()
    os.unlink(ram)


@test
def slots_through_the_port(g, bench):
    """As when the host may not write into memory."""
    peer, _ = equipped(g)
    parts = peer.by_part
    read_large(g, 3 << 20)
    check(peer.by_part >= parts + 3, 'in parts')
    unmount(g, 90)


@own
def shutdown_with_mounts(bench):
    disk = bench.disk()
    with bench.guest(disk) as g:
        mount(g, 1, RW, '/mnt/a')
        mount(g, 2, COW, '/mnt/b')
        ok(g, sh('echo a > /mnt/a/x; echo b > /mnt/b/x'))
        number = g.next_number()
        g.send(vm.SHUTDOWN, number)
        g.wait(lambda: number in g.replies, 20)
        equal(g.replies[number].status, 0, g.replies[number].text)
        equal(g.process.wait(20), 0, 'QEMU ends')
        equal(bytes(g.peer.mounts[1].nodes[1].children[b'x'].content), b'a\n', 'written back')
        g.peer.close()
    raw = bench.path('mounts.raw')
    tool('qemu-img', 'convert', '-O', 'raw', disk, raw)
    tool('e2fsck', '-fn', raw)
    os.unlink(raw)
    with bench.guest(disk) as g:
        mount(g, 2, COW, '/mnt/b')
        ok(g, sh('cat /mnt/b/x /mnt/b/file'), b'b\ncontent\n')
        g.peer.close()


@own
def restore_with_mounts(bench):
    """Saved in full flow, without quiescence: what was out fails, the mounts go on."""
    disk, ram, state = bench.disk(), bench.path('mram'), bench.path('mstate')
    with bench.guest(disk, ram=ram) as g:
        m = mount(g, 5, valid=0)
        run = g.start(BUSYBOX, sh('while :; do cat /mnt/m/big > /dev/null && echo >> /workspace/good || '
                                  'echo >> /workspace/bad; done'))
        until(g, lambda: len(m.log) > 30, 'it flows')
        check(not run.over, 'it runs')
        g.save(state)
        epoch, number = g.epoch, g.number
        g.peer.close()
    layer = bench.path('mlayer.qcow2')
    tool('qemu-img', 'create', '-q', '-f', 'qcow2', '-b', disk, '-F', 'qcow2', layer)
    g = vm.Guest(ASSETS, layer, images=[(1, bench.busybox), (2, bench.scratch)], ram=ram, state=state)
    try:
        g.epoch, g.number = epoch, number
        sync_ports(g)
        g.peer.mounts[5] = m
        ping(g)
        ok(g, sh('a=$(wc -l < /workspace/good); while [ $(wc -l < /workspace/good) -lt $((a+5)) ]; do '
                 'sleep 0.05; done'), timeout=60)
        ok(g, ['cat', '/mnt/m/file'], b'content\n')
        g.peer.close()
    finally:
        g.close()


if __name__ == '__main__':
    sys.exit(main())
