# SPDX-License-Identifier: Apache-2.0
"""sandbox cp both ways against a scripted supervisor, also one that lies: whatever it sends, only
the destination is written."""
import io
import os
import pty
import re
import signal
import stat
import subprocess
import tarfile

import fake_copy
from fake_copy import DIR, FILE, HARDLINK, SYMLINK, TIME
from harness import World, done, equal, ok


def snapshot(top):
    """All below top: type, mode, time, content. {path: ...}"""
    found = {}
    for folder, dirs, files in os.walk(top.encode()):
        for name in dirs + files:
            path = os.path.join(folder, name)
            st = os.lstat(path)
            content = b""
            if stat.S_ISREG(st.st_mode):
                with open(path, "rb") as f:
                    content = f.read()
            elif stat.S_ISLNK(st.st_mode):
                content = os.readlink(path)
            found[path[len(top) + 1:]] = (st.st_mode, st.st_mtime_ns, content)
    return found


def without(found, name):
    return {k: v for k, v in found.items() if k != name and not k.startswith(name + b"/")}


class Place:
    """A folder with things around the destination that must stay as they are."""

    def __init__(self, w, name):
        self.top = f"{w.dir}/{name}"
        os.makedirs(f"{self.top}/.ssh")
        with open(f"{self.top}/canary", "w", encoding="ascii") as f:
            f.write("secret")
        self.before = snapshot(self.top)

    def path(self, name):
        return f"{self.top}/{name}"

    def untouched(self, *names):
        now = snapshot(self.top)
        for name in names:
            now = without(now, name.encode())
        return now == self.before


def said(r, *needles):
    return all(n in r.err for n in needles)


def operands(w):
    for args, needles in ((["a", "b"], ["NAME:PATH"]), (["box:a", "box:b"], ["NAME:PATH"]),
                          (["./box:a", "/b:c"], ["NAME:PATH"]), (["-", "-"], ["NAME:PATH"])):
        r = w.kosa8("sandbox", "cp", *args)
        ok(r.code == 2 and said(r, *needles), f"operands {args}", r.code, r.err)
    with open(w.dir + "/plain", "w", encoding="ascii"):
        pass
    for args, needles in ((["box:/etc/passwd", "x"], ["/workspace", "NAME/CONTAINER:PATH"]),
                          (["box:/workspace2/a", "x"], ["/workspace"]),
                          (["Box:a", "x"], ["cannot name a sandbox"]),
                          (["box/:a", "x"], ["cannot name a container"]),
                          (["box/a/b:c", "x"], ["cannot name a container"]),
                          (["nosuch:a", w.dir + "/y"], ["nosuch"]),
                          (["nosuch:/etc", "."], ["no sandbox", "nosuch"]),
                          (["nosuch:a", w.dir + "/none/y"], ["nosuch"]),
                          (["box:file", w.dir + "/plain/y"], ["/plain is a file, no folder"]),
                          (["box:file", w.dir + "/plain/"], ["/plain is a file, no folder"]),
                          (["box:file", "/proc/x"], ["/proc/x: no files can be made there"]),
                          (["box:a/..", w.dir], ["names no file"]),
                          (["box:absent", w.dir + "/y"], ["no such file"]),
                          (["box:good", w.dir + "/none/y"], ["no folder", "make it first"]),
                          (["box:file", w.dir + "/y/"], ["no folder"]),
                          ([w.dir + "/none", "box:"], ["there is no"]),
                          (["/dev/null", "box:"], ["no file, folder or link"])):
        r = w.kosa8("sandbox", "cp", *args)
        ok(r.code == 1 and r.out == "" and said(r, *needles), f"refused: {args[0]}", r.code, r.err)
    for arg, container, path in (("box:a", "", "a"), ("box:/workspace/a/b", "", "a/b"),
                                 ("box:/workspace", "", "."), ("box:", "", "."),
                                 ("box/web:etc/x", "web", "/etc/x"), ("box/web:", "web", "/"),
                                 ("box/web:/a:b", "web", "/a:b"), ("box:a/.", "", "a/.")):
        w.kosa8("sandbox", "cp", arg, w.dir)
        q = fake_copy.last_request(w.home)
        equal((q["op"], q["kind"], q["container"], q["path"]), ("copy", "out", container, [path]),
              f"what is asked for {arg}")
    w.kosa8("sandbox", "cp", b"box:\xff", w.dir)
    equal(fake_copy.last_request(w.home)["path"], [{"hex": "ff"}], "a path that is no text")


def check_good(top, what):
    got = snapshot(top)
    regular = stat.S_IFREG
    equal(got, {b"sub": (stat.S_IFDIR | 0o555, TIME, b""),
                b"sub/f": (regular | 0o640, TIME, b"content"),
                b"empty": (regular | 0o400, TIME, b""),
                b"link": (stat.S_IFLNK | 0o777, TIME, b"/etc/passwd"),
                b"hard": (regular | 0o640, TIME, b"content"),
                b"n\xff\n": (regular | 0o644, TIME, b"odd"),
                b"l" * 255: (regular | 0o644, TIME, b"long")}, what)
    equal(os.stat(f"{top}/hard").st_ino, os.stat(f"{top}/sub/f").st_ino, "with its hard link")


def out_places(w):
    p = Place(w, "places")
    r = w.kosa8("sandbox", "cp", "box:good", p.path("new"))
    equal((r.code, r.out, r.err), (0, "", ""), "a folder to a new name, silently")
    check_good(p.path("new"), "is all there")
    equal(os.stat(p.path("new")).st_mtime_ns, TIME, "the folder's own time")
    os.mkdir(p.path("there"))
    w.kosa8("sandbox", "cp", "box:a/good", p.path("there"))
    check_good(p.path("there/good"), "into a folder that is there")
    equal(w.kosa8("sandbox", "cp", "box:a/good/", p.path("there")).code, 0, "and again over itself")
    check_good(p.path("there/good"), "which changes nothing")
    os.mkdir(p.path("contents"), 0o701)
    # The script goes by the last name, which is "." here.
    fake_copy_dot = w.kosa8("sandbox", "cp", "box/c:good/.", p.path("contents"))
    ok(fake_copy_dot.code == 0, "contents", fake_copy_dot.err)
    check_good(p.path("contents"), "of a folder into one that is there")
    equal(stat.S_IMODE(os.stat(p.path("contents")).st_mode), 0o701, "which keeps its mode")
    os.symlink("there", p.path("to-there"))
    equal(w.kosa8("sandbox", "cp", "box:file", p.path("to-there")).code, 0, "through a link that was "
          "named")
    st = os.stat(p.path("there/file"))
    equal((stat.S_IMODE(st.st_mode), st.st_uid), (0o751, os.getuid()), "a file without setuid, ours")
    equal(w.kosa8("sandbox", "cp", "box:file", p.path("f")).code, 0, "a file to a new name")
    os.symlink("canary", p.path("l"))
    equal(w.kosa8("sandbox", "cp", "box:file", p.path("l")).code, 0, "a file to a link")
    ok(not os.path.islink(p.path("l")), "replaces it")
    r = w.kosa8("sandbox", "cp", "box:good", p.path("f"))
    ok(r.code == 1 and said(r, "a file of that name"), "a folder over a file", r.err)
    os.makedirs(p.path("there/link"))
    r = w.kosa8("sandbox", "cp", "box:link", p.path("there"))
    ok(r.code == 1 and said(r, "a folder of that name"), "a link over a folder", r.err)
    r = w.kosa8("sandbox", "cp", "box:file/.", p.path("there"))
    ok(r.code == 1 and said(r, "no folder"), "the contents of a file", r.err)
    equal(w.kosa8("sandbox", "cp", "box:link", p.path("dangling")).code, 0, "a link")
    equal(os.readlink(p.path("dangling")), "../somewhere", "is copied as one")
    os.mkfifo(p.path("pipe"))
    r = w.kosa8("sandbox", "cp", "box:file", p.path("pipe"))
    ok(r.code == 1 and said(r, p.path("pipe") + ": it is no file or folder"), "over a pipe", r.err)
    os.makedirs(p.path("in/good/d"))
    inside = next(n for n in sorted(os.listdir(p.path("new"))) if os.path.isfile(p.path("new/" + n)))
    os.mkfifo(p.path("in/good/" + inside))
    r = w.kosa8("sandbox", "cp", "box:good", p.path("in"))
    ok(r.code == 1 and said(r, f"in/good/{inside}: it is no file or folder"), "one in it", r.err)
    ok(all(stat.S_ISFIFO(os.lstat(p.path(n)).st_mode) for n in ("pipe", "in/good/" + inside)),
       "none is replaced")
    os.chdir(p.top)
    equal(w.kosa8("sandbox", "cp", "box:file", "./a:b").code, 0, "a host name with a colon")
    ok(os.path.exists(p.path("a:b")), "is written")
    ok(p.untouched("new", "there", "contents", "to-there", "f", "l", "dangling", "a:b", "pipe", "in"),
       "nothing else was written")


def out_trees(w):
    p = Place(w, "trees")
    r = w.kosa8("sandbox", "cp", "box:bits", p.path("bits"))
    equal([oct(stat.S_IMODE(os.stat(p.path(n)).st_mode)) for n in ("bits", "bits/f", "bits/d")],
          ["0o777", "0o755", "0o770"], "no setuid, setgid, sticky")
    r = w.kosa8("sandbox", "cp", "box:devices", p.path("devices"))
    equal((r.code, os.listdir(p.path("devices"))), (0, ["f"]), "devices are skipped")
    lines = r.err.splitlines()
    ok(len(lines) == 11 and "dev/0" in lines[0] and "5 more" in lines[10], "with a few notices",
       lines)
    r = w.kosa8("sandbox", "cp", "box:device", p.path("device"))
    ok(r.code == 1 and said(r, "is no file, folder or link") and not
       os.path.lexists(p.path("device")), "one alone is an error", r.err)
    r = w.kosa8("sandbox", "cp", "box:deep", p.path("deep"))
    equal((r.code, r.err), (0, ""), "2000 folders in each other")
    fd = os.open(p.path("deep"), os.O_RDONLY)
    for _ in range(1999):
        inner = os.open("d", os.O_RDONLY, dir_fd=fd)
        os.close(fd)
        fd = inner
    with open(os.open("f", os.O_RDONLY, dir_fd=fd), "rb") as f:
        equal(f.read(), b"deep", "down to the innermost file")
    ok(os.stat(fd).st_mtime_ns == TIME, "with its folder's time")
    os.close(fd)
    subprocess.run(["rm", "-rf", p.path("deep")], check=True)
    equal(w.kosa8("sandbox", "cp", "box:twice", p.path("twice")).code, 0, "a name that comes twice")
    with open(p.path("twice/f"), "rb") as f:
        equal(f.read(), b"second", "is what came last")
    equal(w.kosa8("sandbox", "cp", "box:chaos", p.path("chaos")).code, 0, "folders in any order")
    equal(sorted(snapshot(p.path("chaos"))), [b"a", b"a/1", b"a/2", b"b", b"b/1"], "are complete")
    ok(p.untouched("bits", "devices", "twice", "chaos"), "nothing else was written")


def lies(w):
    p = Place(w, "lies")
    for name in fake_copy.LIES:
        os.mkdir(p.path("out"))
        os.mkdir(p.path("out/" + name))
        with open(p.path(f"out/{name}/mine"), "w", encoding="ascii") as f:
            f.write("mine")
        for target in ("out", "new"):
            r = w.kosa8("sandbox", "cp", "box:" + name, p.path(target))
            ok(r.code == 1 and r.out == "" and r.err.count("kosa8: ") == 1,
               f"{name} into {target}: an error", r.code, r.err)
            ok(p.untouched("out", "new"), f"{name}: only {target} is written", snapshot(p.top))
        found = {**snapshot(p.path("out")), **(snapshot(p.path("new")) if
                                               os.path.isdir(p.path("new")) and
                                               not os.path.islink(p.path("new")) else {})}
        ok(not any(b"evil" in k and b"evil" not in name.encode() or b".kosa8" in k
                   for k in found), f"{name}: no file of it, nothing half", list(found))
        ok(all(stat.S_IFMT(m) in (stat.S_IFREG, stat.S_IFDIR, stat.S_IFLNK) and
               (stat.S_ISLNK(m) or not m & 0o7000) for m, _, _ in found.values()),
           f"{name}: nothing special", found)
        equal(found.get(f"{name}/mine".encode(), (0, 0, b""))[2], b"mine", f"{name}: what was there")
        subprocess.run(["rm", "-rf", p.path("out"), p.path("new")], check=True)
    # A link to a folder that stands in the destination is not gone through.
    os.makedirs(p.path("out/good"))
    os.symlink("../../.ssh", p.path("out/good/sub"))
    r = w.kosa8("sandbox", "cp", "box:good", p.path("out"))
    ok(r.code == 1 and said(r, "a link of that name", "a part of it only"),
       "a link where a folder comes", r.err)
    ok(p.untouched("out"), "is not followed")
    r = w.kosa8("sandbox", "cp", "box:overruns", p.path("new"))
    ok(r.code == 1 and said(r, "may not send"), "more than was granted", r.err)


def failures(w):
    p = Place(w, "failures")
    r = w.kosa8("sandbox", "cp", "box:breaks", p.path("new"))
    ok(r.code == 1 and said(r, "read f: I/O error \\x1b[2J", "a part of it only") and
       "more" not in r.err, "what the guest says, on one line", r.err)
    equal(sorted(snapshot(p.path("new"))), [b"whole"], "only whole files are left")
    os.makedirs(p.path("hangs/hangs"))
    child = w.start("sandbox", "cp", "box:hangs", p.path("hangs"), stderr=subprocess.PIPE, text=True)
    ok(w.wait_for(lambda: os.listdir(p.path("hangs/hangs"))), "a copy is at work")
    child.send_signal(signal.SIGINT)
    err = child.stderr.read()
    ok(child.wait(20) == 130 and "interrupted" in err, "is interrupted", err)
    equal(os.listdir(p.path("hangs/hangs")), [], "and leaves no temporary file")
    child.stderr.close()
    os.mkdir(p.path("small"))
    script = ('mount -t tmpfs -o size=2m none "$1" && "$2" sandbox cp box:big "$1/new"; echo $?;'
              ' "$2" sandbox cp box:big "$1" 2>/dev/null; find "$1" -mindepth 1')
    r = subprocess.run(["unshare", "-rm", "sh", "-c", script, "sh", p.path("small"), w.program],
                       env=w.env, capture_output=True, text=True, check=False)
    ok(r.stdout.split("\n")[0] == "1" and "No space left" in r.stderr and
       "removed again" in r.stderr, "a full disk is one clear error", r.stdout, r.stderr)
    ok(r.stdout.splitlines()[1:] == [], "and what was copied is gone", r.stdout)
    master, slave = pty.openpty()
    child = w.start("sandbox", "cp", "box:hangs", p.path("big"), stdin=slave, stdout=slave,
                    stderr=slave)
    os.close(slave)
    out = b""
    while b"/s" not in out:
        out += os.read(master, 1000)
    ok(re.match(rb"\r500 B, 2 entries, .* B/s\x1b\[K", out), "progress on a terminal", out)
    child.send_signal(signal.SIGINT)
    while b"interrupted" not in out:
        out += os.read(master, 1000)
    ok(b"\r\x1b[Kkosa8: cp: interrupted" in out, "whose line goes before anything else", out)
    equal(child.wait(20), 130, "and ^C ends it")
    os.close(master)
    os.rmdir(p.path("big"))
    status, out = w.on_terminal("sandbox", "cp", "-q", "box:big", p.path("big"))
    equal((status, out), (0, b""), "none with -q")


def copied(w):
    with open(f"{w.home}/copied", "rb") as f:
        data = f.read()
    os.unlink(f"{w.home}/copied")
    return fake_copy.parse(data)


def into(w):
    top = f"{w.dir}/in"
    os.makedirs(f"{top}/src/sub/none")
    with open(f"{top}/src/f", "wb") as f:
        f.write(os.urandom(300_000))
    os.chmod(f"{top}/src/f", 0o4711)
    os.utime(f"{top}/src/f", ns=(1, TIME))
    os.link(f"{top}/src/f", f"{top}/src/sub/hard")
    os.symlink("../f", f"{top}/src/sub/link")
    os.symlink("src", f"{top}/to-src")
    os.mkfifo(f"{top}/src/pipe")
    with open(f"{top}/src/".encode() + b"n\xff\n", "wb"):
        pass
    r = w.kosa8("sandbox", "cp", f"{top}/src", "box:dst")
    equal((r.code, r.out, r.err), (0, "", "skipped pipe: it is no file, folder or link\n"),
          "a folder goes in")
    q = fake_copy.last_request(w.home)
    equal((q["kind"], q["path"], q["name"], q["contents"]), ("in", ["dst"], ["src"], False),
          "by its name")
    got = {e[1]: e for e in copied(w)}
    equal(sorted(got), [b"", b"f", b"n\xff\n", b"sub", b"sub/hard", b"sub/link", b"sub/none"],
          "all of it")
    with open(f"{top}/src/f", "rb") as f:
        content = f.read()
    first, second = (b"f", b"sub/hard") if got[b"f"][0] == FILE else (b"sub/hard", b"f")
    equal(got[first], (FILE, first, b"", 0o4711, TIME, content), "a file, its mode and time")
    equal(got[second][:3], (HARDLINK, second, first), "its other name")
    equal(got[b"sub/link"][:3], (SYMLINK, b"sub/link", b"../f"), "a link")
    equal(got[b"sub/none"][0], DIR, "an empty folder")
    for src, name, contents, kind in ((f"{top}/src/.", "", True, DIR), (f"{top}/src/", "src", False, DIR),
                                      (f"{top}/to-src", "to-src", False, SYMLINK),
                                      (f"{top}/to-src/.", "", True, DIR),
                                      (f"{top}/src/sub/..", "src", False, DIR),
                                      (f"{top}/src/f", "f", False, FILE)):
        r = w.kosa8("sandbox", "cp", src, "box/web:/dst/")
        q = fake_copy.last_request(w.home)
        equal((r.code, q["name"], q["contents"], q["path"], copied(w)[0][0]),
              (0, [name], contents, ["/dst/"], kind), f"from {src}")
    r = w.kosa8("sandbox", "cp", f"{top}/src/.", "box:new")
    q = fake_copy.last_request(w.home)
    equal((r.code, q["contents"], q["name"], len(copied(w))), (0, False, [""], 7),
          "contents become a folder where there is none")
    r = w.kosa8("sandbox", "cp", f"{top}/src/f/.", "box:dst")
    ok(r.code == 1, "the contents of a file", r.err)
    for name, needle in (("full", "disk is full"), ("early", "too early"), ("absent", "no such file")):
        r = w.kosa8("sandbox", "cp", f"{top}/src", "box:" + name)
        ok(r.code == 1 and said(r, needle), f"the guest's side fails: {name}", r.code, r.err)
    child = w.start("sandbox", "cp", f"{top}/src", "box:stuck", stderr=subprocess.PIPE)
    w.wait_for(lambda: fake_copy.last_request(w.home)["path"] == ["stuck"])
    child.send_signal(signal.SIGTERM)
    equal(child.wait(20), 128 + signal.SIGTERM, "a signal ends it")
    child.stderr.close()


def tar_of(*members):
    data = io.BytesIO()
    with tarfile.open(fileobj=data, mode="w", format=tarfile.PAX_FORMAT) as t:
        for name, kind, more in members:
            m = tarfile.TarInfo(name)
            m.type, m.mtime, m.mode = kind, 1_000_000_000, 0o750
            if kind == tarfile.REGTYPE:
                m.size = len(more)
                t.addfile(m, io.BytesIO(more))
            else:
                m.linkname = more
                t.addfile(m)
    return data.getvalue()


def tars_in(w):
    t = tarfile
    data = tar_of(("./", t.DIRTYPE, ""), ("./a/b/f", t.REGTYPE, b"x" * 100_000),
                  ("a/l", t.SYMTYPE, "/etc"), ("/a/h", t.LNKTYPE, "a/b/f"), ("fifo", t.FIFOTYPE, ""))
    r = w.kosa8("sandbox", "cp", "-", "box:dst", input=data, text=False)
    ok(r.code == 0 and r.out == b"" and b"skipped fifo" in r.err, "a tar goes in", r.code, r.err)
    q = fake_copy.last_request(w.home)
    equal((q["path"], q["contents"], q["name"]), (["dst"], True, [""]), "as a folder's contents")
    got = copied(w)
    equal([e[:3] for e in got],
          [(DIR, b"", b""), (DIR, b"a", b""), (DIR, b"a/b", b""), (FILE, b"a/b/f", b""),
           (SYMLINK, b"a/l", b"/etc"), (HARDLINK, b"a/h", b"a/b/f"),
           (fake_copy.SKIPPED, b"fifo", b"")], "its members, and the folders they are in")
    equal(got[3][3:], (0o750, 1_000_000_000 * 10**9, b"x" * 100_000), "mode, time, content")
    for name, data, needle in (
            ("..", tar_of(("a/../../evil", t.REGTYPE, b"x")), "leads out"),
            ("a link to ..", tar_of(("h", t.LNKTYPE, "../evil")), "leads out"),
            ("nothing", b"", "no tar came"), ("no tar", b"x" * 5000, "no tar"),
            ("half", tar_of(("f", t.REGTYPE, b"x" * 9000))[:5000], "damaged")):
        r = w.kosa8("sandbox", "cp", "-", "box:dst", input=data, text=False)
        ok(r.code == 1 and needle.encode() in r.err and r.err.count(b"kosa8: ") == 1,
           f"a tar with {name} is refused", r.code, r.err)
        ok(not os.path.exists(f"{w.home}/copied"), "and what came is not taken as whole")
    # A stdin that says nothing does not keep the sandbox's error back.
    reader, writer = os.pipe()
    r = w.kosa8("sandbox", "cp", "-", "box:absent", stdin=reader, timeout=20)
    ok(r.code == 1 and said(r, "no such file"), "an error while stdin is silent", r.err)
    os.close(reader)
    os.close(writer)


def tars_out(w):
    r = w.kosa8("sandbox", "cp", "box:x/good", "-", text=False)
    equal((r.code, r.err), (0, b""), "a tar comes out")
    with tarfile.open(fileobj=io.BytesIO(r.out), errors="surrogateescape") as t:
        members = {os.fsencode(m.name): m for m in t.getmembers()}
        equal(sorted(members), sorted([b"good", b"good/sub", b"good/sub/f", b"good/empty",
                                       b"good/link", b"good/hard", b"good/n\xff\n",
                                       b"good/" + b"l" * 255]), "its names")
        m = members[b"good/sub/f"]
        equal((m.mode, m.uid, m.gid, t.extractfile(m).read()), (0o640, 1234, 5678, b"content"),
              "a file as it is in the sandbox")
        equal((members[b"good/hard"].type, members[b"good/hard"].linkname),
              (tarfile.LNKTYPE, "good/sub/f"), "a hard link")
        equal(members[b"good/link"].linkname, "/etc/passwd", "a link")
    r = w.kosa8("sandbox", "cp", "box:file", "-", text=False)
    with tarfile.open(fileobj=io.BytesIO(r.out)) as t:
        equal([(m.name, m.mode) for m in t.getmembers()], [("file", 0o4751)], "one file, as it is")
    for name in ("dotdot", "cut", "whiteout", "nothing"):
        r = w.kosa8("sandbox", "cp", "box:" + name, "-", text=False)
        ok(r.code == 1 and r.err.count(b"kosa8: ") == 1, f"{name}: no whole tar", r.code, r.err)
    child = w.start("sandbox", "cp", "box:big", "-", stdout=subprocess.PIPE, stderr=subprocess.PIPE)
    child.stdout.read(1000)
    with open(f"/proc/{child.pid}/status", encoding="ascii") as f:
        memory = next(int(line.split()[1]) for line in f if line.startswith("VmHWM"))
    ok(memory < 30000, "a slow reader: what comes is not hoarded", memory)
    child.stdout.close()
    equal((child.wait(20), child.stderr.read()), (128 + signal.SIGPIPE, b""),
          "a reader that goes away ends it quietly")
    child.stderr.close()
    r = w.kosa8("sandbox", "cp", "box:big", "-", text=False)
    ok(r.code == 0 and len(r.out) > 40_000_000, "all of it for one that stays", r.code, r.err)


def main():
    with World() as w:
        r = w.kosa8("sandbox", "create", "box")
        ok(r.code == 0, "create", r.err)
        for part in (operands, out_places, out_trees, lies, failures, into, tars_in, tars_out):
            part(w)
        equal(w.kosa8("sandbox", "rm", "-f", "box").code, 0, "rm --force")
    return done()


if __name__ == "__main__":
    raise SystemExit(main())
