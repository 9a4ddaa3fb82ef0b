# SPDX-License-Identifier: Apache-2.0
"""A real QEMU with the agent in it, spoken to as proto/agent.h says: the test's side of the wire."""
import ctypes
import json
import os
import select
import signal
import socket
import struct
import subprocess
import time

VERSION, MAGIC, FRAME_MAX = 2, 0x38c0, 256 * 1024
CONFIGURE, ATTACH, RUN, SIGNAL, KILL, STDIN, STDIN_EOF, WINDOW, QUIESCE, SHUTDOWN, PING = range(1, 12)
EXEC, ATTACH_TO, LOGS, WAIT, LIST, COPY, DETACH, RESIZE, SIGNAL_CONTAINER, REMOVE = range(12, 22)
HELLO, REPLY, STARTED, FAILED, STDOUT, STDERR, STDOUT_EOF, STDERR_EOF, EXIT, QUIESCED, RESUMED = \
    range(65, 76)
CONTAINER, ENDED = 76, 77
EXITED, SIGNALED, TIMEOUT, KILLED, DETACHED, LOST = range(6)
STARTING, RUNNING, OVER = range(3)
LOG_OUT, LOG_ERR, LOG_LOST, LOG_LIVE = range(1, 5)
NOT_FOUND, NOT_EXEC, SETUP = 1, 2, 3
STDIN_OPEN, TTY, KEEP = 1, 2, 4


def die_with_parent():
    """However the test ends, no QEMU is left (prctl PR_SET_PDEATHSIG)."""
    ctypes.CDLL(None).prctl(1, signal.SIGKILL)


def text(s):
    raw = s if isinstance(s, bytes) else s.encode()
    return struct.pack('<I', len(raw)) + raw


def vector(items):
    return struct.pack('<I', len(items)) + b''.join(text(i) for i in items)


def frame(kind, stream, epoch, payload=b''):
    return struct.pack('<IHHII', len(payload), kind, MAGIC, stream, epoch) + payload


class Reply:
    def __init__(self, payload):
        self.status, self.fail, length = struct.unpack_from('<III', payload)
        self.text = payload[12:12 + length].decode()

    def __repr__(self):
        return f'status {self.status} fail {self.fail} "{self.text}"'


class Exit:
    def __init__(self, payload):
        self.how, self.code, self.oom = struct.unpack('<III', payload)

    def __repr__(self):
        return f'how {self.how} code {self.code} oom {self.oom}'

    def __eq__(self, other):
        return (self.how, self.code) == other


class Container:
    """struct agent_container"""

    def __init__(self, payload):
        head = struct.Struct('<IIIIIIQQIQ')
        (self.state, self.flags, self.attached, self.how, self.code, self.oom, self.created_ns,
         self.ended_ns, self.processes, self.memory) = head.unpack_from(payload)
        at, texts = head.size, []
        while at < len(payload):
            length, = struct.unpack_from('<I', payload, at)
            texts.append(payload[at + 4:at + 4 + length].decode())
            at += 4 + length
        self.id, self.name, self.image, self.image_name, self.command = texts

    def __repr__(self):
        return str(vars(self))


def log_records(data):
    """[(which, data, wall_ns)] of whole records (proto/log.h)."""
    at, found = 0, []
    while at < len(data):
        wall, length, which, magic, zero = struct.unpack_from('<QIBBH', data, at)
        assert magic == 0x4c and zero == 0 and at + 16 + length <= len(data), 'a broken record'
        found.append((which, bytes(data[at + 16:at + 16 + length]), wall))
        at += 16 + length
    return found


class Run:
    """What has come of one session so far."""

    def __init__(self, stream, grant, eofs=frozenset((STDOUT, STDERR))):
        self.eofs, self.containers = eofs, []
        self.stream, self.grant = stream, grant
        self.out, self.err = bytearray(), bytearray()
        self.out_bytes = 0
        self.started = self.failed = self.exit = None
        self.eof = set()
        self.stdin_window = 0
        self.after_exit = []
        self.started_at = self.exit_at = None
        self.keep = True

    @property
    def over(self):
        return self.failed is not None or self.exit is not None


class Guest:
    """One VM, cold-booted, or restored from the file `state` with the RAM file `ram` as it is.
    Everything it starts ends with close()."""

    def __init__(self, assets, disk, images=(), memory=512, cpus=2, log=None, ram=None,
                 state=None, cpu='max'):
        mux, mux_qemu = socket.socketpair()
        res, res_qemu = socket.socketpair()
        qmp, qmp_qemu = socket.socketpair()
        net, net_qemu = socket.socketpair()
        fs, fs_qemu = socket.socketpair()
        self.mux, self.resume_sock, self.qmp_sock = mux, res, qmp
        self.net_sock, self.fs_sock = net, fs
        self.epoch = self.number = self.quiesce_number = 0
        self.runs, self.replies, self.events, self.frames = {}, {}, [], []
        self.inbuf = b''
        argv = ['qemu-system-x86_64', '-M', 'q35,i8042=off,suppress-vmdesc=on',
                '-bios', '/usr/share/qemu/qboot.rom', '-accel', 'tcg,thread=multi,tb-size=128',
                '-cpu', cpu, '-m', str(memory), '-smp', str(cpus), '-nodefaults',
                '-no-user-config', '-nographic', '-no-reboot',
                '-chardev', f'socket,id=qmp,fd={qmp_qemu.fileno()}', '-mon', 'qmp,mode=control',
                '-device', 'virtio-serial-pci',
                '-chardev', f'socket,id=mux,fd={mux_qemu.fileno()}',
                '-device', 'virtserialport,chardev=mux,name=kosa8.mux',
                '-chardev', f'socket,id=res,fd={res_qemu.fileno()}',
                '-device', 'virtserialport,chardev=res,name=kosa8.resume',
                '-chardev', f'socket,id=net,fd={net_qemu.fileno()}',
                '-device', 'virtserialport,chardev=net,name=kosa8.net',
                '-chardev', f'socket,id=fs,fd={fs_qemu.fileno()}',
                '-device', 'virtserialport,chardev=fs,name=kosa8.fs',
                '-device', 'virtio-scsi-pci,id=scsi0', '-device', 'virtio-rng-pci',
                '-blockdev', f'driver=qcow2,node-name=d0,discard=unmap,file.driver=file,file.filename={disk}',
                '-device', 'virtio-blk-pci,drive=d0',
                '-kernel', f'{assets}/vmlinuz', '-initrd', f'{assets}/initramfs']
        append = 'quiet mitigations=off panic=-1 reboot=t'
        if log:
            argv += ['-chardev', f'file,id=ser,path={log}', '-serial', 'chardev:ser']
            append += ' console=ttyS0 printk.devkmsg=on loglevel=6'
        for lun, path in images:
            argv += ['-blockdev', f'driver=raw,node-name=img{lun},read-only=on,file.driver=file,file.filename={path},file.read-only=on',
                     '-device', f'scsi-hd,bus=scsi0.0,lun={lun},drive=img{lun},id=dimg{lun}']
        argv += ['-append', append]
        if ram:
            argv[2] += ',memory-backend=ram'
            argv += ['-global', 'migration.send-configuration=off', '-object',
                     f'memory-backend-file,id=ram,size={memory}M,mem-path={ram},'
                     f'share={"off" if state else "on"}']
        if state:
            argv += ['-incoming', 'defer']
        theirs = (mux_qemu, res_qemu, qmp_qemu, net_qemu, fs_qemu)
        fds = [s.fileno() for s in theirs]
        self.started_at = time.monotonic()
        self.process = subprocess.Popen(argv, pass_fds=fds, stdin=subprocess.DEVNULL, preexec_fn=die_with_parent)
        for s in theirs:
            s.close()
        self.qmp_file = self.qmp_sock.makefile('rw')
        json.loads(self.qmp_file.readline())
        self.qmp_events = []
        self.qmp('qmp_capabilities')
        if state:
            self.qmp('migrate-incoming', uri=f'exec:cat {state}')
            while self.qmp('query-status')['status'] == 'inmigrate':
                time.sleep(0.002)
            self.qmp('cont')

    def save(self, state):
        """Stops the VM and writes its device state; the RAM is in its file."""
        self.qmp('stop')
        self.qmp('xen-save-devices-state', filename=state, live=True)

    def close(self):
        if self.process.poll() is None:
            self.process.kill()
        self.process.wait()
        for s in (self.mux, self.resume_sock, self.qmp_sock, self.net_sock, self.fs_sock):
            s.close()

    def qmp(self, command, **arguments):
        self.qmp_file.write(json.dumps({'execute': command, 'arguments': arguments}) + '\n')
        self.qmp_file.flush()
        while True:
            message = json.loads(self.qmp_file.readline())
            if 'return' in message:
                return message['return']
            if 'error' in message:
                raise RuntimeError(message['error'])
            self.qmp_events.append(message)

    def qmp_event(self, name, timeout=20):
        """Waits for one event; returns its data."""
        self.qmp_sock.settimeout(timeout)
        while True:
            for event in self.qmp_events:
                if event.get('event') == name:
                    return event
            self.qmp_events.append(json.loads(self.qmp_file.readline()))

    # frames

    def send(self, kind, stream, payload=b'', epoch=None):
        epoch = self.epoch if epoch is None else epoch
        self.mux.sendall(frame(kind, stream, epoch, payload))

    def next_number(self):
        self.number += 1
        return self.number

    def pump(self, timeout):
        """Takes what comes within timeout; False when nothing did."""
        if not select.select([self.mux], [], [], timeout)[0]:
            return False
        data = self.mux.recv(1 << 20)
        if not data:
            raise EOFError('QEMU closed the mux')
        self.inbuf += data
        self.parse()
        return True

    def parse(self):
        at = 0
        while len(self.inbuf) - at >= 16:
            length, kind, magic, stream, epoch = struct.unpack_from('<IHHII', self.inbuf, at)
            assert magic == MAGIC and length <= FRAME_MAX, 'the agent sent a broken frame'
            if len(self.inbuf) - at < 16 + length:
                break
            self.take(kind, stream, epoch, self.inbuf[at + 16:at + 16 + length])
            at += 16 + length
        self.inbuf = self.inbuf[at:]

    def take(self, kind, stream, epoch, payload):
        assert epoch == self.epoch, f'frame {kind} of epoch {epoch} in {self.epoch}'
        self.frames.append((kind, stream))
        run = self.runs.get(stream)
        if kind == REPLY:
            self.replies[stream] = Reply(payload)
        elif run is None:
            self.events.append((kind, stream, payload))
        else:
            self.take_run(run, kind, payload)

    def take_run(self, run, kind, payload):
        if run.over:
            run.after_exit.append(kind)
        if kind == STARTED:
            run.started, run.started_at = True, time.monotonic()
        elif kind == FAILED:
            run.failed = Reply(payload)
        elif kind == STDOUT:
            assert run.started and STDOUT not in run.eof
            run.out_bytes += len(payload)
            if run.keep:
                run.out += payload
            if run.grant:
                self.window(run, 1, len(payload))
        elif kind == STDERR:
            assert run.started and STDERR not in run.eof
            run.err += payload
            if run.grant:
                self.window(run, 2, len(payload))
        elif kind in (STDOUT_EOF, STDERR_EOF):
            run.eof.add(kind - 2)
        elif kind == EXIT:
            assert run.started or Exit(payload).how in (KILLED, TIMEOUT), 'exit without a start'
            assert run.eof == run.eofs, 'exit before the ends of the streams'
            run.exit, run.exit_at = Exit(payload), time.monotonic()
        elif kind == CONTAINER:
            run.containers.append(Container(payload))
        elif kind == WINDOW:
            which, count = struct.unpack('<II', payload)
            assert which == 0
            run.stdin_window += count

    def wait(self, condition, timeout=20):
        """Pumps until condition(); the time it took. TimeoutError otherwise."""
        start = time.monotonic()
        while not condition():
            left = start + timeout - time.monotonic()
            if left <= 0 or not self.pump(left):
                raise TimeoutError(f'nothing in {timeout} s; last frames {self.frames[-5:]}')
        return time.monotonic() - start

    def event(self, kind, timeout=20):
        found = []

        def look():
            found[:] = [e for e in self.events if e[0] == kind]
            return bool(found)
        self.wait(look, timeout)
        self.events.remove(found[0])
        return found[0]

    def request(self, kind, payload=b'', timeout=20):
        number = self.next_number()
        self.send(kind, number, payload)
        self.wait(lambda: number in self.replies, timeout)
        return self.replies.pop(number)

    # requests

    def hello(self, timeout=60):
        _, _, payload = self.event(HELLO, timeout)
        version, length = struct.unpack_from('<II', payload)
        return version, payload[8:8 + length].decode()

    def configure(self, hostname='box', machine_id=b'\x11' * 16):
        return self.request(CONFIGURE, text(hostname) + machine_id)

    def attach(self, lun, digest):
        return self.request(ATTACH, struct.pack('<I', lun) + text(digest))

    def window(self, run, which, count):
        self.send(WINDOW, run.stream, struct.pack('<II', which, count))

    def resume(self, quiesce=None, new_epoch=False, wall_ns=None, nonce=None, sync=True):
        """Sends a RESUME record; with a new epoch also resynchronises, as a supervisor does."""
        if new_epoch:
            self.epoch += 1
        nonce = nonce or os.urandom(32)
        record = struct.pack('<IIIIQ', 0x6b386570, VERSION, self.epoch,
                             self.quiesce_number if quiesce is None else quiesce,
                             wall_ns if wall_ns is not None else time.time_ns())
        record += nonce + os.urandom(48)
        self.resume_sock.sendall(record.ljust(128, b'\0'))
        if not new_epoch or not sync:
            return nonce
        self.mux.sendall(nonce)
        self.runs, self.replies, self.events = {}, {}, []
        while nonce not in self.inbuf:
            if not select.select([self.mux], [], [], 10)[0]:
                raise TimeoutError('no nonce from the agent')
            self.inbuf += self.mux.recv(1 << 20)
        self.inbuf = self.inbuf[self.inbuf.index(nonce) + 32:]
        self.parse()
        self.event(RESUMED)
        return nonce

    def quiesce(self, timeout=5):
        self.quiesce_number += 1
        self.send(QUIESCE, 0, struct.pack('<I', self.quiesce_number))
        _, _, payload = self.event(QUIESCED, timeout)
        assert struct.unpack('<I', payload)[0] == self.quiesce_number

    def start(self, image, argv, env=('PATH=/usr/bin:/bin',), cwd='/', user='', stdin=False,
              timeout_ms=0, memory=0, pids=0, window=256 * 1024, grant=True, hostname='',
              wall_ns=None, run_id=None, flags=0, cpu_milli=0, size=(0, 0), name='', image_name=''):
        number = self.next_number()
        run = self.runs[number] = Run(number, grant)
        payload = struct.pack('<IQQQIIHH', flags | (STDIN_OPEN if stdin else 0), timeout_ms,
                              time.time_ns() if wall_ns is None else wall_ns, memory, pids,
                              cpu_milli, *size)
        payload += text(run_id or f'r{number:011d}') + text(name) + text(image)
        payload += text(image_name) + text(hostname) + text(user)
        payload += text(cwd) + vector(argv) + vector(env)
        run.sent_at = time.monotonic()
        self.send(RUN, number, payload)
        if window:
            self.window(run, 1, window)
            self.window(run, 2, window)
        return run

    def run(self, image, argv, timeout=30, **kw):
        run = self.start(image, argv, **kw)
        self.wait(lambda: run.over, timeout)
        return run

    # sessions beside RUN

    def session(self, kind, payload, eofs, window=256 * 1024, grant=True):
        number = self.next_number()
        run = self.runs[number] = Run(number, grant, eofs)
        run.sent_at = time.monotonic()
        self.send(kind, number, payload)
        if window and eofs:
            self.window(run, 1, window)
            self.window(run, 2, window)
        return run

    def start_exec(self, container, argv, env=(), cwd='', user='', stdin=False, timeout_ms=0,
                   flags=0, size=(0, 0), **kw):
        payload = struct.pack('<IQQHH', flags | (STDIN_OPEN if stdin else 0), timeout_ms,
                              time.time_ns(), *size)
        payload += text(container) + text(user) + text(cwd) + vector(argv) + vector(env)
        return self.session(EXEC, payload, {STDOUT, STDERR}, **kw)

    def exec(self, container, argv, timeout=30, **kw):
        run = self.start_exec(container, argv, **kw)
        self.wait(lambda: run.over, timeout)
        return run

    def attach_to(self, container, stdin=False, size=(0, 0), **kw):
        payload = struct.pack('<IHH', STDIN_OPEN if stdin else 0, *size) + text(container)
        return self.session(ATTACH_TO, payload, {STDOUT, STDERR}, **kw)

    def start_logs(self, container, follow=False, since_ns=0, **kw):
        payload = struct.pack('<IQ', int(follow), since_ns) + text(container)
        return self.session(LOGS, payload, {STDOUT}, **kw)

    def logs(self, container, timeout=30, **kw):
        run = self.start_logs(container, **kw)
        self.wait(lambda: run.over, timeout)
        return run

    def start_wait(self, container):
        return self.session(WAIT, text(container), set())

    def wait_for(self, container, timeout=30):
        run = self.start_wait(container)
        self.wait(lambda: run.over, timeout)
        return run

    def list(self):
        run = self.session(LIST, b'', set())
        self.wait(lambda: run.over)
        return run.containers

    def find(self, name):
        """The container of this name or id in the listing, or None."""
        return next((c for c in self.list() if name in (c.id, c.name)), None)

    def signal_container(self, container, number):
        return self.request(SIGNAL_CONTAINER, struct.pack('<I', number) + text(container))

    def remove(self, container, force=False, timeout=20):
        return self.request(REMOVE, struct.pack('<I', int(force)) + text(container), timeout)

    def stdin(self, run, data, eof=False):
        """Sends it within the window."""
        while data:
            self.wait(lambda: run.stdin_window > 0)
            part = data[:min(run.stdin_window, 32768)]
            self.send(STDIN, run.stream, part)
            run.stdin_window -= len(part)
            data = data[len(part):]
        if eof:
            self.send(STDIN_EOF, run.stream)
