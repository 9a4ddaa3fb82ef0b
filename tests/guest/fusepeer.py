# SPDX-License-Identifier: Apache-2.0
"""A scripted FUSE server on the port kosa8.fs: a small tree in memory, one thread, and knobs for
what a real server would not do on demand. Message layouts: linux/fuse.h."""
import errno
import os
import socket
import stat
import struct
import threading

import guestvm as vm

FUSE, FUSE_SLOT, FUSE_PART, FUSE_POOL = 25, 26, 27, 28
SLOT_SIZE, SHORT_MAX, OWN_SLOT = 1 << 20, 2048, 4
LOOKUP, FORGET, GETATTR, SETATTR, MKDIR, UNLINK, OPEN, READ, WRITE, STATFS, RELEASE = \
    1, 2, 3, 4, 9, 10, 14, 15, 16, 17, 18
FSYNC, SETXATTR, GETXATTR, LISTXATTR, FLUSH, INIT, OPENDIR, READDIR, RELEASEDIR = \
    20, 21, 22, 23, 25, 26, 27, 28, 29
ACCESS, CREATE, INTERRUPT, BATCH_FORGET, READDIRPLUS = 34, 35, 36, 42, 44
INVAL_INODE, INVAL_ENTRY, DELETE = 2, 3, 6
EVENT = 1000  # FS_EVENT
SILENT = (FORGET, BATCH_FORGET, INTERRUPT, 41)


class Node:
    def __init__(self, number, mode, content=b''):
        self.number, self.mode = number, mode
        self.content, self.children = bytearray(content), {}
        self.xattrs = {}
        self.mtime = 1700000000


class Mount:
    """One tree. `tree` maps names to bytes or to such a dict."""

    def __init__(self, tree, valid=1, read_only=False, no_xattr=True):
        self.nodes, self.valid, self.read_only, self.no_xattr = {}, valid, read_only, no_xattr
        self.root = self.add(tree)
        self.log = []          # (opcode, node)
        self.held = []         # requests that are not answered, as (unique, opcode)
        self.hold = set()      # opcodes that are not answered
        self.refuse_init = 0
        self.owner = self.relay = None

    def add(self, what):
        directory = isinstance(what, dict)
        node = Node(len(self.nodes) + 1, 0o40755 if directory else 0o100644,
                    b'' if directory else what)
        self.nodes[node.number] = node
        if directory:
            for name, child in what.items():
                node.children[os.fsencode(name)] = self.add(child)
        return node

    def attr(self, n):
        size = len(n.content)
        return struct.pack('<6Q10I', n.number, size, (size + 511) // 512, n.mtime, n.mtime,
                           n.mtime, 0, 0, 0, n.mode, 1, 0, 0, 0, 4096, 0)

    def entry(self, n):
        return struct.pack('<4Q2I', n.number, 0, self.valid, self.valid, 0, 0) + self.attr(n)

    def answer(self, opcode, number, body):
        """The reply's body, or a negative errno."""
        if opcode == INIT:
            if self.refuse_init:
                return -self.refuse_init
            major, minor, readahead, flags = struct.unpack_from('<4I', body)
            want = 1 | 1 << 5 | 1 << 13 | 1 << 18 | 1 << 22  # ASYNC_READ ... MAX_PAGES
            return struct.pack('<4I2H2I2H8I', 7, min(minor, 36), readahead, flags & want, 16, 12,
                               131072, 1, 256, 0, *[0] * 8)
        n = self.nodes.get(number)
        if n is None:
            return -errno.ESTALE
        return self.node_answer(opcode, n, body)

    def node_answer(self, opcode, n, body):
        writing = opcode in (CREATE, MKDIR, UNLINK, WRITE, SETATTR)
        if opcode == OPEN and struct.unpack_from('<I', body)[0] & 3:
            writing = True
        if writing and self.read_only:
            return -errno.EROFS
        if opcode == LOOKUP:
            child = n.children.get(body.rstrip(b'\0'))
            return self.entry(child) if child else -errno.ENOENT
        if opcode in (GETATTR, SETATTR):
            if opcode == SETATTR and struct.unpack_from('<I', body)[0] & 8:
                size = struct.unpack_from('<Q', body, 16)[0]
                n.content = n.content[:size].ljust(size, b'\0')
            return struct.pack('<Q2I', self.valid, 0, 0) + self.attr(n)
        if opcode in (OPEN, OPENDIR):
            return struct.pack('<Q2I', n.number, 0, 0)
        if opcode in (CREATE, MKDIR):
            name = body[16 if opcode == CREATE else 8:].rstrip(b'\0')
            child = n.children[name] = self.add({} if opcode == MKDIR else b'')
            return self.entry(child) + (struct.pack('<Q2I', child.number, 0, 0)
                                        if opcode == CREATE else b'')
        if opcode == UNLINK:
            return b'' if n.children.pop(body.rstrip(b'\0'), None) else -errno.ENOENT
        if opcode == READ:
            _, offset, size = struct.unpack_from('<QQI', body)
            return bytes(n.content[offset:offset + size])
        if opcode == WRITE:
            _, offset, size = struct.unpack_from('<QQI', body)
            data = body[40:40 + size]
            if len(n.content) < offset:
                n.content.extend(bytes(offset - len(n.content)))
            n.content[offset:offset + size] = data
            return struct.pack('<II', size, 0)
        if opcode in (READDIR, READDIRPLUS):
            return self.listing(n, body, opcode == READDIRPLUS)
        if opcode == STATFS:
            return struct.pack('<5Q4I6I', 1 << 20, 1 << 19, 1 << 19, 1000, 500, 4096, 255, 4096,
                               *[0] * 7)
        if opcode == SETXATTR:
            size = struct.unpack_from('<I', body)[0]
            name, rest = body[8:].split(b'\0', 1)
            if name == b'trusted.kosa8.owner':
                self.owner = rest[:size].decode()
                return b''
            if name == b'trusted.kosa8.relay':
                self.relay = rest[:size].decode()
                return b''
            return -errno.ENOTSUP
        if opcode == GETXATTR:
            return -errno.ENOSYS if self.no_xattr else -errno.ENODATA
        if opcode in (RELEASE, RELEASEDIR, FLUSH, FSYNC, ACCESS):
            return b''
        return -errno.ENOSYS

    def listing(self, n, body, plus):
        _, offset, size = struct.unpack_from('<QQI', body)
        out, names = b'', [b'.', b'..'] + sorted(n.children)
        for i in range(offset, len(names)):
            child = n.children.get(names[i], n)
            name = names[i]
            item = struct.pack('<QQII', child.number, i + 1, len(name), stat.S_IFMT(child.mode) >> 12)
            item += name + b'\0' * (-len(name) % 8)
            if plus:
                dots = name in (b'.', b'..')
                item = (struct.pack('<4Q2I', 0, 0, 0, 0, 0, 0) + self.attr(child) if dots
                        else self.entry(child)) + item
            if len(out) + len(item) > size:
                break
            out += item
        return out


class Peer(threading.Thread):
    """Serves all mounts of one guest."""

    def __init__(self, sock):
        super().__init__(daemon=True)
        self.sock, self.mounts = sock, {}
        self.lock = threading.Lock()
        # Until the first new_epoch() what comes is another epoch's.
        self.epoch, self.nonce, self.inbuf = 0, os.urandom(32), bytearray()
        self.stopped, self.error = False, None
        self.raw = 0
        # write_ram(physical, data) makes slots of the pool usable; without it all goes in parts.
        self.pool, self.slots, self.write_ram, self.by_slot, self.by_part = [], {}, None, 0, 0

    def run(self):
        try:
            while True:
                data = self.sock.recv(1 << 20)
                if not data:
                    return
                with self.lock:
                    self.raw += len(data)
                    self.inbuf += data
                    self.parse()
        except OSError as e:
            if not self.stopped:
                self.error = e
        except Exception as e:  # noqa: BLE001  the test looks at it
            self.error = e
            raise

    def close(self):
        self.stopped = True
        try:
            self.sock.shutdown(socket.SHUT_RDWR)
        except OSError:
            pass
        self.join()

    def new_epoch(self, nonce, epoch):
        with self.lock:
            self.epoch, self.nonce, self.pool, self.slots = epoch, nonce, [], {}
            self.sock.sendall(nonce)
            self.parse()

    def parse(self):
        if self.nonce:
            at = self.inbuf.find(self.nonce)
            if at < 0:
                return
            del self.inbuf[:at + 32]
            self.nonce = None
        at = 0
        while len(self.inbuf) - at >= 16:
            length, kind, magic, stream, epoch = struct.unpack_from('<IHHII', self.inbuf, at)
            assert magic == vm.MAGIC and length <= vm.FRAME_MAX, 'a broken frame on kosa8.fs'
            if len(self.inbuf) - at < 16 + length:
                break
            payload = bytes(self.inbuf[at + 16:at + 16 + length])
            assert epoch == self.epoch, (kind, epoch, self.epoch)
            if kind == FUSE_POOL:
                assert stream == 0 and not self.pool and 0 < length <= 32, 'a pool of slots'
                self.pool = list(struct.unpack(f'<{length // 8}Q', payload))
            elif kind == FUSE_SLOT:
                self.slot_request(stream, payload)
            else:
                assert kind == FUSE, kind
                self.request(stream, payload)
            at += 16 + length
        del self.inbuf[:at]

    def slot_request(self, stream, data):
        slot, = struct.unpack('<I', data[-4:])
        unique, = struct.unpack_from('<Q', data, 8)
        held = {(s if s < OWN_SLOT else (s, m)) for (m, _), s in self.slots.items()}
        assert (slot if slot < OWN_SLOT else (slot, stream)) not in held, 'the slot is taken'
        assert slot < len(self.pool) or slot == OWN_SLOT, slot
        self.slots[stream, unique] = slot
        self.request(stream, data[:-4])

    def request(self, stream, data):
        length, opcode, unique, node = struct.unpack_from('<IIQQ', data)
        assert length == len(data)
        mount = self.mounts.get(stream)
        if mount is None:
            return
        mount.log.append((opcode, node))
        if opcode in SILENT:
            return
        if opcode in mount.hold:
            mount.held.append((unique, opcode, node, data[40:]))
            return
        self.reply(stream, unique, mount.answer(opcode, node, data[40:]))

    def reply(self, stream, unique, body):
        code, body = (body, b'') if isinstance(body, int) else (0, body)
        slot = self.slots.pop((stream, unique), None)
        if slot is not None and len(body) > SHORT_MAX:
            return self.slot_reply(stream, unique, slot, body)
        assert len(body) <= 131072 + 4096, 'more than fits without a slot'
        self.send(stream, struct.pack('<IiQ', 16 + len(body), code, unique) + body)

    def slot_reply(self, stream, unique, slot, body):
        if self.write_ram and slot < len(self.pool):
            self.write_ram(self.pool[slot], body)
            self.by_slot += 1
        else:
            for at in range(0, len(body), 131072):
                self.send(stream, struct.pack('<QI', unique, at) + body[at:at + 131072], FUSE_PART)
            self.by_part += 1
        self.send(stream, struct.pack('<IiQ', 16 + len(body), 0, unique), FUSE_SLOT)

    def send(self, stream, message, kind=FUSE):
        self.sock.sendall(struct.pack('<IHHII', len(message), kind, vm.MAGIC, stream, self.epoch) +
                          message)

    def release(self, stream):
        """Answers what was held; nothing is held any more."""
        with self.lock:
            mount = self.mounts[stream]
            mount.hold = set()
            held, mount.held = mount.held, []
            for unique, opcode, node, body in held:
                self.reply(stream, unique, mount.answer(opcode, node, body))

    def event(self, stream, kind, path, what=stat.S_IFREG):
        with self.lock:
            body = struct.pack('<QII', 1, kind, what) + path
            self.send(stream, struct.pack('<IiQ', 16 + len(body), EVENT, 0) + body)

    def inval_entry(self, stream, parent, name):
        with self.lock:
            body = struct.pack('<QII', parent, len(name), 0) + name + b'\0'
            self.send(stream, struct.pack('<IiQ', 16 + len(body), INVAL_ENTRY, 0) + body)
