# SPDX-License-Identifier: Apache-2.0
"""A guest, and an agent in the hands of one, that wants out of the folder it was given."""
import os
import socket
import struct
import subprocess
import threading
import time

from harness import KOSA8, check, equal

SLOW = 180
MAGIC, REQUEST, READY, REPLY = 0x38C0, 1, 65, 66
(LOOKUP, SETATTR, SYMLINK, MKNOD, MKDIR, UNLINK, RMDIR, RENAME, LINK, OPEN, READ, WRITE, SETXATTR,
 INIT, CREATE) = 1, 4, 6, 8, 9, 10, 11, 12, 13, 14, 15, 16, 21, 26, 35
NAMES = (b"../canary", b"../outside/canary", b"/etc/passwd", b"a/b", b"sub/../../outside/canary", b"..",
         b".", b"", b"/", b"sub/f", b"./f")


def write(path, text):
    with open(path, "w", encoding="utf-8") as f:
        f.write(text)


def tree(top):
    """All that a write or a read with atime would change."""
    found = {}
    for folder, dirs, names in os.walk(top):
        for name in [".", *dirs, *names]:
            path = os.path.join(folder, name)
            x = os.lstat(path)
            found[path] = (x.st_mode, x.st_size, x.st_mtime_ns, x.st_ctime_ns, x.st_ino)
    return found


def setup(t):
    top = os.path.realpath(t.folder)
    t.rw, t.ro, t.outside = (os.path.join(top, n) for n in ("rw", "ro", "outside"))
    for path in (t.rw, t.ro, t.outside):
        os.makedirs(f"{path}/sub")
        write(f"{path}/sub/f", "f")
    write(f"{t.outside}/canary", "secret of the host")
    write(f"{t.ro}/f", "read only")
    t.box = t.create("box", "--mount", f"{t.rw}:/rw", "--mount", f"{t.ro}:/ro:ro")


class Server:
    """kosa8-fs, spoken to as an agent would that does what it likes."""

    def __init__(self, folder, *flags):
        self.sock, theirs = socket.socketpair()
        root = os.open(folder, os.O_PATH | os.O_DIRECTORY)
        def descriptors():
            a, b = os.dup(theirs.fileno()), os.dup(root)
            high = [os.dup2(fd, n) for fd, n in ((a, 20), (b, 21))]
            os.dup2(high[0], 3)
            os.dup2(high[1], 4)
        program = os.path.join(os.path.dirname(KOSA8), "kosa8-fs")
        if not os.path.exists(program):  # installed
            program = os.path.join(os.path.dirname(KOSA8), "../libexec/kosa8/kosa8-fs")
        self.process = subprocess.Popen([program, *flags], preexec_fn=descriptors, close_fds=False)
        theirs.close()
        os.close(root)
        self.unique = 0
        equal(self.frame()[0], READY, "it serves")
        equal(self.ask(INIT, 0, struct.pack("<IIII", 7, 31, 65536, 0)), 0, "INIT")

    def frame(self):
        head = self.exactly(16)
        length, kind, magic, _, _ = struct.unpack("<IHHII", head)
        equal(magic, MAGIC)
        return kind, self.exactly(length)

    def exactly(self, n):
        data = b""
        while len(data) < n:
            part = self.sock.recv(n - len(data))
            check(part, "the server has ended")
            data += part
        return data

    def ask(self, opcode, node, body):
        """0 or the errno; the reply's body is in self.body."""
        self.unique += 1
        message = struct.pack("<IIQQIIII", 40 + len(body), opcode, self.unique, node, 0, 0, 7, 0) + body
        self.sock.sendall(struct.pack("<IHHII", len(message), REQUEST, MAGIC, 0, 0) + message)
        while True:
            kind, data = self.frame()
            _, error, unique = struct.unpack_from("<IiQ", data)
            if kind == REPLY and unique == self.unique:
                self.body = data[16:]
                return -error

    def node(self, parent, name):
        equal(self.ask(LOOKUP, parent, name + b"\0"), 0, f"LOOKUP {name}")
        return struct.unpack_from("<Q", self.body)[0]

    def end(self):
        self.sock.close()
        equal(self.process.wait(10), 0)


def attempts(server, name, sub):
    """Every request with a name in it."""
    z = name + b"\0"
    yield server.ask(MKNOD, 1, struct.pack("<4I", 0o100644, 0, 0, 0) + z)
    yield server.ask(MKDIR, 1, struct.pack("<2I", 0o755, 0) + z)
    yield server.ask(SYMLINK, 1, z + b"/etc\0")
    yield server.ask(UNLINK, 1, z)
    yield server.ask(RMDIR, 1, z)
    yield server.ask(RENAME, 1, struct.pack("<Q", 1) + z + b"moved\0")
    yield server.ask(RENAME, 1, struct.pack("<Q", sub) + b"f\0" + z)
    yield server.ask(LINK, 1, struct.pack("<Q", sub) + z)
    yield server.ask(CREATE, 1, struct.pack("<4I", os.O_RDWR | os.O_CREAT, 0o644, 0, 0) + z)


def test_names_that_lead_out(t):
    before, inside = tree(t.outside), tree(t.rw)
    server = Server(t.rw)
    sub = server.node(1, b"sub")
    for name in NAMES:
        equal(server.ask(LOOKUP, 1, name + b"\0"), 22, f"LOOKUP {name}")
        for error in attempts(server, name, sub):
            check(error in (22, 1, 40), f"{name}: errno {error}")
    equal((tree(t.outside), tree(t.rw)), (before, inside), "nothing was touched")
    equal(server.ask(MKDIR, 1, struct.pack("<2I", 0o755, 0) + b"control\0"), 0)
    check(os.path.isdir(f"{t.rw}/control"), "control: a plain name works")
    server.end()


def test_links_that_lead_out(t):
    before = tree(t.outside)
    server = Server(t.rw)
    for name, target in ((b"up", b"../outside"), (b"abs", os.fsencode(t.outside)), (b"proc", b"/proc/self/root")):
        equal(server.ask(SYMLINK, 1, name + b"\0" + target + b"\0"), 0, "a link can be made")
        link = server.node(1, name)
        check(server.ask(LOOKUP, link, b"canary\0") != 0, "LOOKUP below it")
        check(server.ask(OPEN, link, struct.pack("<2I", os.O_RDONLY, 0)) != 0, "OPEN of it")
        create = struct.pack("<4I", os.O_RDWR | os.O_CREAT, 0o644, 0, 0) + b"x\0"
        check(server.ask(CREATE, link, create) != 0, "CREATE below it")
        check(server.ask(MKDIR, link, struct.pack("<2I", 0o755, 0) + b"x\0") != 0, "MKDIR")
        check(server.ask(RENAME, 1, struct.pack("<Q", link) + b"sub\0stolen\0") != 0, "RENAME")
        check(server.ask(UNLINK, link, b"canary\0") != 0, "UNLINK")
        server.ask(SETATTR, link, struct.pack("<IIQQQQQQIIIIIIII", 1, 0, *[0] * 6, *[0] * 3, 0o777, *[0] * 4))
    equal(tree(t.outside), before, "nothing outside was touched")
    server.end()


def test_read_only_is_the_servers(t):
    before = tree(t.ro)
    server = Server(t.ro, "--read-only")
    sub, file = server.node(1, b"sub"), server.node(1, b"f")
    equal(list(attempts(server, b"new", sub)), [30] * 9, "each is EROFS")
    for flags in (os.O_WRONLY, os.O_RDWR, os.O_RDONLY | os.O_TRUNC):
        equal(server.ask(OPEN, file, struct.pack("<2I", flags, 0)), 30, f"OPEN {flags}")
    equal(server.ask(OPEN, file, struct.pack("<2I", os.O_RDONLY, 0)), 0, "control: it can be read")
    fh, = struct.unpack_from("<Q", server.body)
    equal(server.ask(WRITE, file, struct.pack("<QQIIQII", fh, 0, 4, 0, 0, 0, 0) + b"evil"), 30)
    equal(server.ask(SETXATTR, file, struct.pack("<2I", 1, 0) + b"user.x\0" + b"v"), 30)
    equal(server.ask(SETATTR, file, struct.pack("<IIQQQQQQIIIIIIII", 8, 0, *[0] * 6, *[0] * 8)), 30)
    equal(tree(t.ro), before, "the folder is as it was")
    server.end()



def test_root_of_the_guest_and_a_read_only_mount(t):
    before = tree(t.ro)
    script = """
for what in 'mount -o remount,rw /ro' 'mount -o remount,bind,rw /ro' 'mount -t fuse -o fd=3,rootmode=40000,user_id=0,group_id=0 x /mnt' \
	'umount /ro' 'touch /ro/new' 'rm /ro/f' 'mv /ro/f /ro/g' 'ln -s x /ro/l' 'ln /ro/f /ro/h' 'mkdir /ro/d' 'chmod 777 /ro/f' \
	'chown 1 /ro/f' 'touch -d 2001-01-01 /ro/f' 'truncate -s 0 /ro/f' 'dd if=/dev/zero of=/ro/f count=1 conv=notrunc' 'mknod /ro/n c 1 3'; do
	if $what 3<>/dev/null >/dev/null 2>&1; then echo "DONE: $what"; fi
done
cat /ro/f; echo; touch /rw/control && echo control"""
    equal(t.home.sh(t.box, script).split("\n"), ["read only", "control"], "none of it worked")
    equal(tree(t.ro), before, "the host's folder is as it was")


def test_folders_that_turn_into_links(t):
    """The host swaps a folder and a link to one outside, while the guest walks, reads and writes."""
    write(f"{t.outside}/sub/name", "secret of the host")
    os.mkdir(f"{t.rw}/turn")
    write(f"{t.rw}/turn/name", "inside")
    os.symlink(t.outside + "/sub", f"{t.rw}/other")
    before = tree(t.outside)
    stop, swaps = threading.Event(), [0]

    def swap():
        while not stop.is_set():
            for a, b in (("turn", "tmp"), ("other", "turn"), ("tmp", "other")):
                try:
                    os.rename(f"{t.rw}/{a}", f"{t.rw}/{b}")
                except OSError:
                    pass  # the guest was first
            swaps[0] += 1
            time.sleep(0.001)
    thread = threading.Thread(target=swap)
    thread.start()
    try:
        out = t.home.sh(t.box, r"""
end=$(($(date +%s) + 30)); n=0
while [ $(date +%s) -lt $end ]; do
	for d in turn other tmp; do
		cat /rw/$d/name 2>/dev/null; echo x > /rw/$d/written 2>/dev/null; ls -l /rw/$d/ >/dev/null 2>&1
		rm -f /rw/$d/written 2>/dev/null; chmod 700 /rw/$d/name 2>/dev/null; mkdir /rw/$d/m 2>/dev/null; rmdir /rw/$d/m 2>/dev/null
	done
	n=$((n + 1))
done | sort | uniq -c
true""", timeout=150)
    finally:
        stop.set()
        thread.join()
    check(swaps[0] > 1000 and "inside" in out, f"control: {swaps[0]} swaps, and it was read: {out}")
    check("secret" not in out, f"nothing outside is read: {out}")
    equal(tree(t.outside), before, "nothing outside is changed")
