# SPDX-License-Identifier: Apache-2.0
"""What programs expect of a file system, on a folder of the host's that is mounted :rw: each is done
in the guest and looked at from both sides. docs/mounts.md says what holds."""
import os
import signal
import sqlite3
import stat
import subprocess
import threading
import time

from harness import check, equal, named, supervisor_of, wait_for

SLOW = 240
TOOLS = os.environ.get("KOSA8_E2E_REGISTRY", "") + "/test/tools"
CONFIG = os.environ.get("KOSA8_E2E_REGISTRY", "") + "/test/config"

# What the scripts below share; they run in the mount.
PRELUDE = """
import ctypes, errno, fcntl, mmap, os, select, signal, sqlite3, stat, struct, subprocess, sys, time
os.chdir('/rw')
def equal(got, want, what=''):
    assert got == want, f'{what}: got {got!r}, want {want!r}'
def fails(number, call, *args, **more):
    try: call(*args, **more)
    except OSError as e: return equal(errno.errorcode[e.errno], errno.errorcode[number], str(args))
    raise AssertionError(f'{call} {args} succeeded')
def put(name, data, flags=0, mode=0o666):
    fd = os.open(name, os.O_WRONLY | os.O_CREAT | flags, mode)
    os.write(fd, data); os.close(fd)
def get(name):
    fd = os.open(name, os.O_RDONLY); data = os.read(fd, 1 << 20); os.close(fd); return data
def await_(condition, seconds=20):
    end = time.monotonic() + seconds
    while not condition():
        assert time.monotonic() < end, 'not in time'
        time.sleep(0.01)
def child(call, *args):
    pid = os.fork()
    if pid == 0:
        try: call(*args); os._exit(0)
        except BaseException:
            import traceback; traceback.print_exc(); os._exit(1)
    return pid
def joined(*pids):
    for pid in pids: equal(os.waitpid(pid, 0)[1], 0, 'a child')
"""


def setup(t):
    t.rw = os.path.join(os.path.realpath(t.folder), "rw")
    os.mkdir(t.rw)
    t.box = t.create("box", "--mount", f"{t.rw}:/rw")
    t.home("sandbox", "pull", t.box, TOOLS, timeout=120)


def guest(t, code, image=TOOLS, **more):
    return t.home.run(t.box, image, "python3", "-c", PRELUDE + code, timeout=200, **more).text


def shell(t, script, image=TOOLS):
    return t.home.run(t.box, image, "sh", "-ec", "cd /rw; " + script, timeout=200).text.strip()


def start(t, code):
    """A program of the guest's that says `ready`, and may read lines from us."""
    program = t.background(t.box, TOOLS, "python3", "-uc", PRELUDE + code, flags=["-i"])
    program.wait_output(b"ready", 60)
    return program


def say(program, line=b"go\n"):
    program.process.stdin.write(line)
    program.process.stdin.flush()


def finish(program):
    program.process.stdin.close()
    code = program.wait(90)
    check(code == 0, f"exit {code}: {bytes(program.out)!r} {bytes(program.err)!r}")
    return bytes(program.out)


def host(t, *parts):
    return os.path.join(t.rw, *parts)


def read(path):
    with open(path, "rb") as f:
        return f.read()


def write(path, data):
    with open(path, "wb") as f:
        f.write(data)


# ---- databases, shared memory, locks ----

def test_sqlite_in_wal_mode_by_two_processes(t):
    guest(t, """
db = sqlite3.connect('wal.db'); equal(db.execute('pragma journal_mode=wal').fetchone(), ('wal',))
db.execute('create table t(who, n)'); db.commit(); db.close()
def work(who):
    db = sqlite3.connect('wal.db', timeout=60)
    for n in range(40):
        with db: db.execute('insert into t values(?,?)', (who, n))
        db.execute('select count(*) from t').fetchone()
    db.close()
joined(child(work, 1), child(work, 2))
db = sqlite3.connect('wal.db')
equal(db.execute('select count(*), count(distinct who) from t').fetchone(), (80, 2))
equal(db.execute('pragma integrity_check').fetchone(), ('ok',)); db.close()
""")
    db = sqlite3.connect(host(t, "wal.db"))
    equal(db.execute("select count(*), sum(n) from t").fetchone(), (80, 2 * 780), "on the host")
    equal(db.execute("pragma integrity_check").fetchone(), ("ok",))
    db.close()


def test_sqlite_in_two_containers(t):
    guest(t, "db = sqlite3.connect('two.db'); db.execute('pragma journal_mode=wal');"
             "db.execute('create table t(n)'); db.commit()")
    code = """
print('ready'); sys.stdin.readline()
db = sqlite3.connect('two.db', timeout=60)
for n in range(30):
    with db: db.execute('insert into t values(?)', (n,))
db.close()
"""
    both = [start(t, code), start(t, code)]
    for program in both:
        say(program)
    for program in both:
        finish(program)
    db = sqlite3.connect(host(t, "two.db"))
    equal(db.execute("select count(*) from t").fetchone(), (60,))
    equal(db.execute("pragma integrity_check").fetchone(), ("ok",))
    db.close()


def test_shared_mappings(t):
    guest(t, """
put('map', bytes(8192))
fd = os.open('map', os.O_RDWR); mine = mmap.mmap(fd, 8192)
def other():
    fd = os.open('map', os.O_RDWR); theirs = mmap.mmap(fd, 8192)
    await_(lambda: theirs[0:5] == b'first'); theirs[4096:4102] = b'second'
    await_(lambda: theirs[5:6] == b'!'); theirs.flush()
pid = child(other)
mine[0:5] = b'first'
await_(lambda: mine[4096:4102] == b'second'); mine[5:6] = b'!'
joined(pid); equal(os.pread(fd, 6, 0), b'first!', 'read(2) sees what is mapped')
os.pwrite(fd, b'third', 100); equal(mine[100:105], b'third', 'and a mapping what is written')
mine.flush()
""")
    data = read(host(t, "map"))
    equal((data[:6], data[100:105], data[4096:4102], len(data)),
          (b"first!", b"third", b"second", 8192), "on the host")


def test_shared_mappings_that_are_not_synced(t):
    guest(t, "put('map2', bytes(4096)); fd = os.open('map2', os.O_RDWR); m = mmap.mmap(fd, 4096);"
             "m[0:4] = b'lazy'; m.close(); os.close(fd)")
    wait_for(lambda: read(host(t, "map2"))[:4] == b"lazy", "written back when it is closed", 5)


LOCKS = """
def flock(fd, op): fcntl.flock(fd, op)
def posix(fd, op): fcntl.lockf(fd, op, 10, 5)
def ofd(fd, op):
    kind = {fcntl.LOCK_EX: fcntl.F_WRLCK, fcntl.LOCK_UN: fcntl.F_UNLCK}[op & ~fcntl.LOCK_NB]
    fcntl.fcntl(fd, 37 if op & fcntl.LOCK_NB else 38, struct.pack('hhqqi4x', kind, 0, 5, 10, 0))
kinds = (flock, posix, ofd)
"""


def test_locks_in_one_container(t):
    guest(t, LOCKS + """
for kind in kinds:
    fd = os.open('lock', os.O_RDWR | os.O_CREAT); kind(fd, fcntl.LOCK_EX)
    r, w = os.pipe()
    def other():
        mine = os.open('lock', os.O_RDWR)
        try: kind(mine, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError: pass
        else: raise AssertionError(f'{kind}: taken twice')
        os.write(w, b'x'); kind(mine, fcntl.LOCK_EX); os.write(w, b'y')
    pid = child(other)
    equal(os.read(r, 1), b'x'); equal(select.select([r], [], [], 0.3)[0], [], 'it waits')
    kind(fd, fcntl.LOCK_UN); equal(os.read(r, 1), b'y'); joined(pid); os.close(fd)
""")


def test_locks_between_two_containers(t):
    holder = start(t, LOCKS + """
fds = [os.open('lock%d' % i, os.O_RDWR | os.O_CREAT) for i in range(3)]
for kind, fd in zip(kinds, fds): kind(fd, fcntl.LOCK_EX)
print('ready'); sys.stdin.readline()
""")
    probe = LOCKS + """
taken = []
for i, kind in enumerate(kinds):
    fd = os.open('lock%d' % i, os.O_RDWR)
    try: kind(fd, fcntl.LOCK_EX | fcntl.LOCK_NB); taken.append(kind.__name__)
    except BlockingIOError: pass
print(*taken)
"""
    equal(guest(t, probe).strip(), "", "all are held in the other container")
    finish(holder)
    equal(guest(t, probe).strip(), "flock posix ofd", "control: free when it has ended")


# ---- git ----

def test_git(t):
    shell(t, """
export HOME=/tmp; git config --global user.email a@example.com; git config --global user.name A
git init -q origin; cd origin; mkdir -p a/b
for i in $(seq 12); do echo $i > a/b/f$i; done; ln -s a/b/f1 link; printf '#!/bin/sh\\n' > run; chmod +x run
git add -A; git commit -qm one; cd ..
git clone -q origin clone; cd clone
for i in $(seq 1 2 12); do echo changed >> a/b/f$i; done; rm a/b/f2 link; chmod -x run; git mv a/b/f4 moved
test "$(git status --porcelain | wc -l)" -ge 8
git reset -q --hard; test -z "$(git status --porcelain)"; git fsck
echo more > more; git add more; git commit -qm two; test -z "$(git status --porcelain)"
""")
    env = {**os.environ, "HOME": t.folder, "GIT_CONFIG_NOSYSTEM": "1"}

    def git(*args):
        return subprocess.run(["git", "-C", host(t, "clone"), *args], env=env, check=True,
                              capture_output=True, text=True).stdout
    equal(git("status", "--porcelain"), "", "clean on the host")
    equal(git("log", "--format=%s").split(), ["two", "one"])
    write(host(t, "clone", "more"), b"by the host\n")
    equal(shell(t, "cd clone; git status --porcelain"), "M more", "the host's change is seen")
    git("checkout", "more")
    equal(shell(t, "cd clone; git status --porcelain"), "", "and clean again")


def test_git_as_another_user(t):
    """An image whose user is not root, and then root: git finds the files its own."""
    def as_user(user, script):
        return t.home("sandbox", "run", "-u", user, t.box, TOOLS, "sh", "-ec", "cd /rw;" + script,
                      timeout=200).text.strip()
    as_user("1000:1000", "export HOME=/tmp; git init -q mine; cd mine; echo x > f; git add f;"
                         "git -c user.name=a -c user.email=a@example.com commit -qm one")
    equal(as_user("1000:1000", "cd mine; git status --porcelain; stat -c %u:%g f"), "1000:1000")
    equal(as_user("0", "cd mine; git status --porcelain; stat -c %u:%g f"), "0:0",
          "no dubious ownership for root either")
    equal(os.stat(host(t, "mine/f")).st_uid, os.getuid(), "on the host it is the caller's")


def test_an_image_with_its_own_user(t):
    write(host(t, "theirs"), b"host\n")
    os.chmod(host(t, "theirs"), 0o600)
    out = t.home("sandbox", "run", "--entrypoint", "/bin/sh", t.box, CONFIG, "-ec",
                 "cd /rw; id -u; cat theirs; echo guest >> theirs; mkdir own; echo x > own/f; "
                 "mv own/f own/g; chmod 600 own/g; rm own/g; rmdir own; echo kept > kept; "
                 "stat -c %u:%a theirs kept").text.split()
    equal(out, ["1000", "host", "1000:600", "1000:644"])
    equal(read(host(t, "theirs")), b"host\nguest\n", "mode 0600 of the caller's")
    equal(os.stat(host(t, "kept")).st_uid, os.getuid())


# ---- opening and naming ----

def test_modes_that_forbid(t):
    guest(t, """
for mode in (0o200, 0o444, 0o000):
    name = 'mode%o' % mode
    fd = os.open(name, os.O_RDWR | os.O_CREAT | os.O_EXCL, mode)
    os.write(fd, b'written'); equal(os.pread(fd, 9, 0), b'written', 'by the descriptor that made it')
    os.close(fd); equal(stat.S_IMODE(os.stat(name).st_mode), mode)
    fd = os.open(name, os.O_RDWR); equal(os.read(fd, 9), b'written', 'root opens it again')
    os.pwrite(fd, b'W', 0); os.close(fd)
os.mkdir('mode555'); put('mode555/f', b'x'); os.chmod('mode555', 0o555); os.unlink('mode555/f')
equal(stat.S_IMODE(os.stat('mode555').st_mode), 0o555)
""")
    for mode in (0o200, 0o444, 0o000):
        equal(stat.S_IMODE(os.stat(host(t, f"mode{mode:o}")).st_mode), mode, "on the host")


def test_rename_and_unlink_of_open_files(t):
    guest(t, """
put('old', b'old'); put('new', b'new')
a = os.open('old', os.O_RDWR); b = os.open('new', os.O_RDWR); ino = os.fstat(b).st_ino
os.rename('new', 'old')
equal(os.read(a, 9), b'old', 'the replaced one'); equal(os.fstat(a).st_nlink, 0)
os.write(a, b'+'); equal(os.pread(a, 9, 0), b'old+')
equal((os.read(b, 9), os.stat('old').st_ino), (b'new', ino))
os.unlink('old'); os.write(b, b'+'); equal(os.pread(b, 9, 0), b'new+')
os.ftruncate(b, 1); os.fchmod(b, 0o600); equal(os.fstat(b).st_size, 1)
fails(errno.ENOENT, os.stat, 'old'); os.close(a); os.close(b)
os.mkdir('gone'); d = os.open('gone', os.O_RDONLY); os.rmdir('gone'); os.fstat(d)
fails(errno.ENOENT, os.open, 'x', os.O_CREAT | os.O_WRONLY, dir_fd=d)
os.mkdir('full'); put('full/f', b''); fails(errno.ENOTEMPTY, os.rmdir, 'full')
os.mkdir('empty'); fails(errno.ENOTEMPTY, os.rename, 'empty', 'full')
fails(errno.EINVAL, os.rename, 'full', 'full/in'); os.rename('full', 'empty'); get('empty/f')
""")
    check(not os.path.exists(host(t, "old")) and not os.path.exists(host(t, "full")), "on the host")
    check(not [n for n in os.listdir(t.rw) if n.startswith(".")], "no files are hidden away")


def test_appending_by_two_processes(t):
    guest(t, """
def work(c):
    fd = os.open('log', os.O_WRONLY | os.O_APPEND | os.O_CREAT)
    for i in range(100): os.write(fd, b'%c%03d\\n' % (c, i))
joined(child(work, 65), child(work, 66))
""")
    lines = read(host(t, "log")).split()
    equal((len(lines), len(set(lines))), (200, 200), "none is lost or torn")
    for letter in (b"A", b"B"):
        own = [n for n in lines if n.startswith(letter)]
        equal(own, sorted(own), "each in its order")


def test_links(t):
    write(os.path.join(t.folder, "outside"), b"the host's, outside\n")
    os.symlink(os.path.join(os.path.realpath(t.folder), "outside"), host(t, "absolute"))
    os.symlink("../outside", host(t, "up"))
    os.symlink("/etc/hostname", host(t, "etc"))
    out = guest(t, """
put('one', b'one'); os.link('one', 'two'); os.mkdir('sub'); os.link('two', 'sub/three')
equal({os.stat(n).st_ino for n in ('one', 'two', 'sub/three')}, {os.stat('one').st_ino}, 'inode')
equal(os.stat('two').st_nlink, 3)
put('two', b'TWO', os.O_TRUNC); equal(get('one'), b'TWO'); equal(get('sub/three'), b'TWO')
os.unlink('one'); equal((get('two'), os.stat('sub/three').st_nlink), (b'TWO', 2))
fails(errno.EPERM, os.link, 'sub', 'sub2'); fails(errno.EEXIST, os.link, 'two', 'sub/three')
os.symlink('two', 'soft'); os.symlink('/rw/sub', 'softdir'); os.symlink('nowhere', 'dangling')
equal(get('soft'), b'TWO'); equal(get('softdir/three'), b'TWO')
fails(errno.ENOENT, os.open, 'dangling', os.O_RDONLY); fails(errno.ELOOP, os.open, 'soft', os.O_NOFOLLOW)
os.link('soft', 'softhard', follow_symlinks=False); equal(os.readlink('softhard'), 'two')
long = 'x/' * 2000; os.symlink(long, 'long'); equal(os.readlink('long'), long)
for name in ('absolute', 'up'):
    assert os.readlink(name).endswith('outside'); fails(errno.ENOENT, os.stat, name)
put('/outside', b'in the guest'); equal(get('up'), b'in the guest', 'followed in the guest')
os.symlink('/etc/made', 'etcmade'); put('etcmade', b'in the guest'); equal(get('/etc/made'), b'in the guest')
print(get('etc').decode())
""")
    check(out.strip() != read("/etc/hostname").decode().strip(), "the guest's own /etc/hostname")
    check(not os.path.exists("/etc/made"), "nothing is followed on the host")
    equal(os.stat(host(t, "two")).st_ino, os.stat(host(t, "sub/three")).st_ino, "on the host too")
    equal(os.readlink(host(t, "softdir")), "/rw/sub", "kept as it is")


def test_attributes(t):
    guest(t, """
put('attr', b''); os.mkdir('attrdir')
for name in ('attr', 'attrdir'):
    os.setxattr(name, 'user.a', b'1\\0\\xff'); os.setxattr(name, 'user.empty', b'')
    equal(os.getxattr(name, 'user.a'), b'1\\0\\xff'); equal(sorted(os.listxattr(name)), ['user.a', 'user.empty'])
    fails(errno.EEXIST, os.setxattr, name, 'user.a', b'', os.XATTR_CREATE)
    fails(errno.ENODATA, os.setxattr, name, 'user.b', b'', os.XATTR_REPLACE)
    os.removexattr(name, 'user.empty'); fails(errno.ENODATA, os.getxattr, name, 'user.empty')
    fails(errno.EOPNOTSUPP, os.setxattr, name, 'user.kosa8.owner', b'0:0')
""")
    equal(os.getxattr(host(t, "attr"), "user.a"), b"1\0\xff", "on the host")
    os.setxattr(host(t, "attr"), "user.host", b"h")
    equal(shell(t, "getfattr -d attr | grep -c user.host"), "1", "and back")


def test_names(t):
    guest(t, r"""
names = [b'n' * 255, b'\xff\xfe\x80', b'new\nline', b'-rf', b' ', b'\\', b'"', b'\x1b[31m', b'%s', b'...',
         bytes(range(1, 47)) + bytes(range(48, 256)), '\u00e9'.encode(), 'e\u0301'.encode()]
os.mkdir('names'); os.chdir(b'names')
for n in names: put(n, n)
equal(sorted(os.listdir(b'.')), sorted(names))
for n in names: equal(get(n), n); os.rename(n, b'tmp'); os.rename(b'tmp', n)
fails(errno.ENAMETOOLONG, put, b'n' * 256, b'')
""")
    names = os.listdir(os.fsencode(host(t, "names")))
    equal(len(names), 13)
    for name in names:
        equal(read(os.path.join(os.fsencode(host(t, "names")), name)), name, "on the host")


def test_deep_trees(t):
    guest(t, """
os.mkdir('deep'); os.chdir('deep')
for i in range(100): os.mkdir('d%d' % i); os.chdir('d%d' % i)
put('bottom', b'deep')
""")
    at = os.open(host(t, "deep"), os.O_PATH)
    for i in range(100):
        below = os.open(f"d{i}", os.O_PATH, dir_fd=at)
        os.close(at)
        at = below
    equal(read(f"/proc/self/fd/{at}/bottom"), b"deep", "on the host")
    os.close(at)
    shell(t, "rm -rf deep")
    check(not os.path.exists(host(t, "deep")), "and removed by the guest")


# ---- contents ----

def test_the_host_changes_what_the_guest_has_open(t):
    write(host(t, "grow"), b"first\n")
    tail = start(t, """
fd = os.open('grow', os.O_RDONLY); print('ready', os.read(fd, 99)); other = os.open('grow', os.O_RDONLY)
for line in sys.stdin:
    what = line.strip()
    if what == 'size': print('size', os.fstat(fd).st_size, os.stat('grow').st_size)
    elif what == 'read': print('read', os.read(fd, 99))
    elif what == 'all': print('all', os.pread(other, 99, 0))
""")
    with open(host(t, "grow"), "ab") as f:
        f.write(b"second\n")

    def ask(what, want):
        def answered():
            before = len(tail.out)
            say(tail, what + b"\n")
            wait_for(lambda: b"\n" in tail.out[before:], "an answer")
            return want in tail.out[before:]
        wait_for(answered, f"{want} after {what}", 3)
    ask(b"size", b"size 13 13")
    ask(b"read", b"second")
    os.truncate(host(t, "grow"), 3)
    ask(b"size", b"size 3 3")
    ask(b"all", b"all b'fir'")
    write(host(t, "grow"), b"rewritten by the host\n")
    ask(b"all", b"all b'rewritten by the host")
    write(host(t, "grow.new"), b"another file\n")
    os.rename(host(t, "grow.new"), host(t, "grow"))
    ask(b"size", b" 13")
    finish(tail)


def test_tail_f(t):
    write(host(t, "tail"), b"")
    tail = t.background(t.box, TOOLS, "sh", "-c", "echo ready; exec tail -n +1 -f /rw/tail")
    tail.wait_output(b"ready", 60)
    for i in range(5):
        with open(host(t, "tail"), "ab") as f:
            f.write(b"line %d\n" % i)
        tail.wait_output(b"line %d\n" % i, 5)
    tail.kill()


def test_space(t):
    guest(t, """
fd = os.open('sparse', os.O_RDWR | os.O_CREAT)
os.ftruncate(fd, 1 << 30); os.pwrite(fd, b'x' * 4096, 1 << 20)
equal(os.lseek(fd, 0, os.SEEK_DATA), 1 << 20); equal(os.lseek(fd, 1 << 20, os.SEEK_HOLE), (1 << 20) + 4096)
fails(errno.ENXIO, os.lseek, fd, (1 << 20) + 4096, os.SEEK_DATA); assert os.fstat(fd).st_blocks <= 64
libc = ctypes.CDLL(None, use_errno=True)
def fallocate(mode, at, n):
    if libc.fallocate64(fd, mode, ctypes.c_longlong(at), ctypes.c_longlong(n)) < 0: raise OSError(ctypes.get_errno(), '')
fallocate(0, 2 << 20, 1 << 20); assert os.fstat(fd).st_blocks >= 2048
os.pwrite(fd, b'y' * 8192, 2 << 20); fallocate(3, (2 << 20) + 4096, 4096)
equal(os.pread(fd, 8192, 2 << 20), b'y' * 4096 + bytes(4096), 'a hole')
fallocate(1, 1 << 30, 4096); equal(os.fstat(fd).st_size, 1 << 30, 'keep size')
fallocate(0, 1 << 30, 4096); equal(os.fstat(fd).st_size, (1 << 30) + 4096)
os.posix_fallocate(fd, 0, 4096)
""")
    x = os.stat(host(t, "sparse"))
    check(x.st_size == (1 << 30) + 4096 and x.st_blocks * 512 < 8 << 20, f"sparse on the host: {x}")
    os.unlink(host(t, "sparse"))


def test_copies_and_direct(t):
    guest(t, """
data = os.urandom(300000); put('from', data)
a = os.open('from', os.O_RDONLY); b = os.open('copied', os.O_RDWR | os.O_CREAT)
n = 0
while n < len(data):
    done = os.copy_file_range(a, b, 1 << 20, n, n); assert done > 0; n += done
equal(os.pread(b, 1 << 20, 0), data); equal(os.copy_file_range(a, b, 10, 0, 300000), 10)
c = os.open('sent', os.O_RDWR | os.O_CREAT); equal(os.sendfile(c, a, 0, 300000), 300000); equal(os.pread(c, 1 << 20, 0), data)
page = mmap.mmap(-1, 8192); page[:] = b'd' * 8192
fd = os.open('direct', os.O_RDWR | os.O_CREAT | os.O_DIRECT); equal(os.write(fd, page), 8192)
page[:] = bytes(8192); equal(os.preadv(fd, [page], 0), 8192); equal(page[:], b'd' * 8192)
os.posix_fadvise(a, 0, 0, os.POSIX_FADV_DONTNEED)
fails(errno.EOPNOTSUPP, os.open, '.', os.O_TMPFILE | os.O_RDWR)
import tempfile
with tempfile.TemporaryFile(dir='/rw') as f: f.write(b'x')
""")
    equal(read(host(t, "copied"))[:300000], read(host(t, "from")))
    equal(read(host(t, "sent")), read(host(t, "from")))
    equal(read(host(t, "direct")), b"d" * 8192)


def test_programs_from_the_mount(t):
    equal(shell(t, "cp /usr/bin/env prog; ./prog X=1 sh -c 'echo $X'; printf '#!/bin/sh\\necho script\\n' > s;"
                   "chmod +x s; ./s; chmod -x s; ./s 2>/dev/null || echo $?").split(), ["1", "script", "126"])
    guest(t, """
import shutil
shutil.copy(shutil.which('cat'), 'busy'); p = subprocess.Popen(['/rw/busy'], stdin=subprocess.PIPE)
fails(errno.ETXTBSY, os.open, 'busy', os.O_WRONLY)
p.stdin.close(); equal(p.wait(), 0); os.close(os.open('busy', os.O_WRONLY))
""")


def test_times_modes_owners(t):
    guest(t, """
put('meta', b''); os.utime('meta', ns=(1234567890123456789, 987654321098765432))
x = os.stat('meta'); equal((x.st_atime_ns, x.st_mtime_ns), (1234567890123456789, 987654321098765432))
os.chmod('meta', 0o640); os.chown('meta', 12, 34); x = os.stat('meta')
equal((stat.S_IMODE(x.st_mode), x.st_uid, x.st_gid), (0o640, 12, 34))
before = time.time() - 2; put('meta', b'now'); x = os.stat('meta'); assert x.st_mtime > before and x.st_ctime > before
os.symlink('meta', 'metalink'); os.utime('metalink', ns=(5, 6), follow_symlinks=False)
equal(os.lstat('metalink').st_mtime_ns, 6); assert os.stat('meta').st_mtime > before
os.utime('meta', ns=(0, -1000000000)); equal(os.stat('meta').st_mtime, -1.0)
v = os.statvfs('.'); print(v.f_blocks * v.f_frsize, v.f_namemax)
""")
    x = os.stat(host(t, "meta"))
    equal((stat.S_IMODE(x.st_mode), x.st_uid, x.st_mtime), (0o640, os.getuid(), -1.0), "on the host")
    v = os.statvfs(t.rw)
    size, longest = guest(t, "v = os.statvfs('.'); print(v.f_blocks * v.f_frsize, v.f_namemax)").split()
    equal((int(size), int(longest)), (v.f_blocks * v.f_frsize, v.f_namemax), "df")
    check("/rw" in shell(t, "df /rw"), "df knows it")


def test_fifos_and_sockets(t):
    guest(t, """
import socket
os.mkfifo('fifo'); pid = child(lambda: put('fifo', b'through')); equal(get('fifo'), b'through'); joined(pid)
s = socket.socket(socket.AF_UNIX); s.bind('/rw/sock'); s.listen()
c = socket.socket(socket.AF_UNIX); c.connect('/rw/sock'); a = s.accept()[0]; c.send(b'hello'); equal(a.recv(9), b'hello')
fails(errno.EPERM, os.mknod, 'dev', stat.S_IFCHR | 0o600, os.makedev(1, 3))
""")
    check(stat.S_ISFIFO(os.lstat(host(t, "fifo")).st_mode), "on the host")


def test_many_files_in_a_folder(t):
    os.mkdir(host(t, "many"))
    for i in range(100000):
        os.close(os.open(host(t, "many", f"f{i}"), os.O_CREAT | os.O_WRONLY))
    equal(shell(t, "ls many | wc -l; ls -f many | sort -u | wc -l").split(), ["100000", "100002"])
    shell(t, "cd many; ls | head -n 5000 | xargs rm")
    equal(len(os.listdir(host(t, "many"))), 95000, "removed on the host")
    for name in os.listdir(host(t, "many"))[10000:]:
        os.unlink(host(t, "many", name))
    equal(shell(t, "ls -f many | wc -l"), "10002", "the host's removals are seen")
    shell(t, "rm -r many")
    check(not os.path.exists(host(t, "many")), "all gone")


# ---- inotify ----

WATCH = """
libc = ctypes.CDLL(None); ino = libc.inotify_init(); os.makedirs(FOLDER, exist_ok=True)
libc.inotify_add_watch(ino, FOLDER.encode(), 0x3ce); os.listdir(FOLDER)
KINDS = {2: 'MODIFY', 4: 'ATTRIB', 8: 'CLOSE_WRITE', 0x40: 'FROM', 0x80: 'TO', 0x100: 'CREATE', 0x200: 'DELETE'}
def events(wait):
    while select.select([ino], [], [], wait)[0]:
        data = os.read(ino, 65536)
        while data:
            _, mask, _, n = struct.unpack('iIII', data[:16]); name = data[16:16 + n].rstrip(b'\\0').decode()
            data = data[16 + n:]
            for bit, kind in KINDS.items():
                if mask & bit: yield kind + ':' + name
"""


def test_inotify_for_the_guests_own(t):
    out = guest(t, "FOLDER = '/rw/own'" + WATCH + """
put('own/f', b'x'); os.chmod('own/f', 0o600); os.rename('own/f', 'own/g'); os.unlink('own/g'); os.mkdir('own/d')
print(*events(0.5))
""").split()
    equal(out, ["CREATE:f", "MODIFY:f", "CLOSE_WRITE:f", "ATTRIB:f", "FROM:f", "TO:g", "DELETE:g", "CREATE:d"],
          "each once")


def test_inotify_for_the_hosts(t):
    watcher = start(t, "FOLDER = '/rw/watched'" + WATCH + """
print('ready')
for e in events(15):
    print('event', e)
    if e == 'CREATE:end': break
""")
    late = []

    def expect(*events):
        began = time.monotonic()
        for event in events:
            watcher.wait_output(b"event " + event + b"\n", 5)
        late.append(time.monotonic() - began)
    w = host(t, "watched")
    write(f"{w}/f", b"x")
    expect(b"CREATE:f")
    with open(f"{w}/f", "ab") as f:
        f.write(b"more")
    expect(b"MODIFY:f")
    os.chmod(f"{w}/f", 0o600)
    expect(b"ATTRIB:f")
    os.rename(f"{w}/f", f"{w}/g")
    expect(b"DELETE:f", b"CREATE:g")
    os.unlink(f"{w}/g")
    expect(b"DELETE:g")
    os.mkdir(f"{w}/d")
    os.symlink("x", f"{w}/l")
    os.mkfifo(f"{w}/p")
    expect(b"CREATE:d", b"CREATE:l", b"CREATE:p")
    os.rmdir(f"{w}/d")
    expect(b"DELETE:d")
    write(f"{w}/end", b"kept")
    finish(watcher)
    check(max(late) < 1, f"each within a second: {late}")
    equal((sorted(os.listdir(w)), read(f"{w}/end")), (["end", "l", "p"], b"kept"),
          "the relay's calls change nothing on the host")
    equal(shell(t, "ls watched; cat watched/end").split(), ["end", "l", "p", "kept"], "nor in the guest")


def test_inotify_storm(t):
    """More than is told: what is lost is lost, the mount goes on and shows what is there."""
    watcher = start(t, "FOLDER = '/rw/storm'" + WATCH + """
print('ready'); seen = set()
for e in events(20):
    seen.add(e)
    if e == 'CREATE:end': break
print(len(seen)); equal(len(os.listdir('storm')), 1001)
""")
    for i in range(3000):
        write(host(t, "storm", f"f{i}"), b"x")
        if i % 3:
            os.unlink(host(t, "storm", f"f{i}"))
    time.sleep(1)  # past the storm: what comes now is told
    write(host(t, "storm", "end"), b"")
    seen = finish(watcher).split()
    check(int(seen[-1]) > 100, f"many were told: {seen}")


def test_inotify_where_folders_become_links(t):
    """A path that leads elsewhere when the event is raised: nothing is touched there."""
    os.makedirs(host(t, "trap/d"))
    shell(t, "ls trap/d; mkdir -p /workspace/canary; echo keep > /workspace/canary/x")
    stop = threading.Event()

    def change():
        i = 0
        while not stop.is_set():
            i += 1
            for name in ("x", f"n{i % 20}"):
                path = host(t, "trap/d", name)
                try:
                    write(path, b"")
                    os.unlink(path)
                except OSError:
                    pass
    thread = threading.Thread(target=change)
    thread.start()
    try:
        guest(t, """
end = time.monotonic() + 6
while time.monotonic() < end:
    os.listdir('trap/d'); os.rename('trap/d', 'trap/e'); os.symlink('/workspace/canary', 'trap/d')
    time.sleep(0.02); os.unlink('trap/d'); os.rename('trap/e', 'trap/d'); time.sleep(0.02)
""")
    finally:
        stop.set()
        thread.join()
    equal(shell(t, "ls -A /workspace/canary; cat /workspace/canary/x").split(), ["x", "keep"])


# ---- over checkpoint, rewind, and a server that stands still ----


def test_open_files_over_a_rewind(t):
    write(host(t, "stays"), b"stays")
    write(host(t, "goes"), b"goes")
    write(host(t, "swapped"), b"swapped")
    t.home("sandbox", "run", "-d", "--name", "holder", t.box, TOOLS, "python3", "-uc", PRELUDE + """
fds = [os.open(n, os.O_RDWR) for n in ('stays', 'goes', 'swapped')]
put('/workspace/ready', b'')
await_(lambda: os.path.exists('/workspace/go'), 120)
got = []
for fd in fds:
    try: got.append(os.pread(fd, 99, 0).decode())
    except OSError as e: got.append(errno.errorcode[e.errno])
try: os.write(fds[0], b'STAYS')
except OSError as e: got.append(errno.errorcode[e.errno])
put('/workspace/tmp', ' '.join(got).encode()); os.rename('/workspace/tmp', '/workspace/got')
""")
    wait_for(lambda: t.home.sh(t.box, "ls /workspace/ready 2>/dev/null || true"), "it has opened", 60)
    t.home("checkpoint", t.box, "--label", "open")
    os.unlink(host(t, "goes"))
    write(host(t, "swapped.new"), b"another")
    os.rename(host(t, "swapped.new"), host(t, "swapped"))
    t.home("rewind", t.box, "--to", "open", "--yes")
    t.home.sh(t.box, "echo 3 > /proc/sys/vm/drop_caches 2>/dev/null || true; touch /workspace/go")
    wait_for(lambda: t.home.sh(t.box, "ls /workspace/got 2>/dev/null || true"), "it has read", 60)
    equal(t.home.sh(t.box, "cat /workspace/got"), "stays ESTALE ESTALE")
    equal(read(host(t, "stays")), b"STAYS")
    equal(read(host(t, "swapped")), b"another", "the other file is not touched")


def test_new_containers_while_a_server_stands_still(t):
    os.mkdir(host(t, "../still"))
    write(host(t, "../still/f"), b"x")
    supervisor = supervisor_of(t.home, t.box)
    before = {s["pid"] for s in named("kosa8-fs", supervisor)}
    t.home("sandbox", "mount", "add", t.box, f"{os.path.realpath(host(t, '../still'))}:/still")
    server, = [s["pid"] for s in named("kosa8-fs", supervisor) if s["pid"] not in before]
    os.kill(server, signal.SIGSTOP)
    try:
        for user in ("1234", "1235", "0"):
            began = time.monotonic()
            equal(t.home("sandbox", "run", "-u", user, t.box, "busybox", "cat", "/rw/stays").text,
                  "STAYS", "a container starts")
            check(time.monotonic() - began < 10, "within a bound")
        t.home("sandbox", "mount", "rm", t.box, "/still", timeout=40)
        t.home("checkpoint", t.box, "--label", "without")
    finally:
        if os.path.exists(f"/proc/{server}"):
            os.kill(server, signal.SIGCONT)
    t.home("sandbox", "mount", "add", t.box, f"{os.path.realpath(host(t, '../still'))}:/still")
    equal(t.home("sandbox", "run", "-u", "77", t.box, "busybox", "stat", "-c", "%u", "/still/f").text, "77\n")
