# SPDX-License-Identifier: Apache-2.0
"""sandbox diff and apply of a cow mount against a scripted supervisor: what is shown, and that only
what was shown is written, below the host's folder."""
import json
import os
import pty
import signal
import sqlite3
import stat
import subprocess

from fake_copy import DIR, FILE, HARDLINK, OPAQUE, SKIPPED, SYMLINK, WHITEOUT, entry, tree
from harness import World, done, equal, ok

ROOT = entry(DIR)


class Cow:
    """The host's folder, and what the sandbox says it has written over it."""

    def __init__(self, w):
        self.w = w
        self.top = f"{w.dir}/cow"
        self.host = f"{self.top}/host"
        os.makedirs(self.top)
        self.reset()
        db = sqlite3.connect(f"{w.home}/catalog.db", timeout=10)
        with db:
            (spec,) = db.execute("SELECT spec FROM sandbox").fetchone()
            spec = json.loads(spec)
            spec["mounts"] = [
                {"id": 7, "host": self.host, "guest": "/src", "mode": "cow"},
                {"id": 8, "host": self.host, "guest": "/rw", "mode": "rw"}]
            db.execute("UPDATE sandbox SET spec = ?", (json.dumps(spec),))
        db.close()

    def reset(self):
        subprocess.run(["rm", "-rf", self.host], check=True)
        for folder in ("sub/inner", "opaque/in", "gone"):
            os.makedirs(f"{self.host}/{folder}")
        for name in ("same", "content", "mode", "gone/1", "opaque/old", "opaque/kept",
                     "opaque/in/deep", "sub/a", "becomes-folder", "gone-file"):
            with open(f"{self.host}/{name}", "w", encoding="ascii") as f:
                f.write(name)
            os.chmod(f"{self.host}/{name}", 0o644)
        for folder in ("sub", "sub/inner", "opaque", "opaque/in", "gone"):
            os.chmod(f"{self.host}/{folder}", 0o755)
        os.mkdir(f"{self.host}/becomes-file")
        with open(f"{self.host}/becomes-file/x", "w", encoding="ascii"):
            pass
        os.symlink("same", f"{self.host}/link")
        os.link(f"{self.host}/same", f"{self.host}/same2")
        with open(f"{self.top}/canary", "w", encoding="ascii") as f:
            f.write("canary")

    def upper(self, *entries):
        with open(f"{self.w.home}/upper", "wb") as f:
            f.write(tree(ROOT, *entries))

    def diff(self, *args):
        return self.w.kosa8("sandbox", "diff", "box", "/src", *args)

    def apply(self, *args):
        return self.w.kosa8("sandbox", "apply", "box", "/src", *args)

    def read(self, name):
        with open(f"{self.host}/{name}", "rb") as f:
            return f.read()

    def exists(self, name):
        return os.path.lexists(f"{self.host}/{name}")


ALL = (
    entry(FILE, b"same", data=b"same"), entry(HARDLINK, b"same2", b"same"),
    entry(HARDLINK, b"same3", b"same"), entry(SYMLINK, b"link", b"same"),
    entry(FILE, b"content", data=b"CONTENT"), entry(FILE, b"mode", mode=0o4755, data=b"mode"),
    entry(FILE, b"new", mode=0o640, data=b"new file"), entry(SYMLINK, b"newlink", b"../canary"),
    entry(DIR, b"sub"), entry(FILE, b"sub/a", data=b"sub/a"), entry(FILE, b"sub/b", data=b"b"),
    entry(DIR, b"fresh", mode=0o711), entry(OPAQUE, b"fresh"), entry(FILE, b"fresh/f", data=b"f"),
    entry(DIR, b"opaque"), entry(OPAQUE, b"opaque"), entry(FILE, b"opaque/kept", data=b"opaque/kept"),
    entry(DIR, b"opaque/in"), entry(WHITEOUT, b"gone"), entry(WHITEOUT, b"gone-file"),
    entry(WHITEOUT, b"never-was"), entry(FILE, b"becomes-file", data=b"file"),
    entry(DIR, b"becomes-folder"), entry(FILE, b"becomes-folder/y", data=b"y"),
    entry(SKIPPED, b"fifo"), entry(FILE, b"n\n\xff", data=b"odd"))
SHOWN = ["C becomes-file", "D becomes-file/x", "C becomes-folder", "A becomes-folder/y", "C content", "A fresh",
         "A fresh/f", "D gone", "D gone-file", "D gone/1", "C mode", "A n\\x0a\\xff", "A new", "A newlink",
         "D opaque/in/deep", "D opaque/old", "A same3", "A sub/b"]


def said(r, *needles):
    return all(n in r.err for n in needles)


def diff(w, c):
    for guest, needle in (("/none", "/none"), ("/rw", "mounted rw")):
        r = w.kosa8("sandbox", "diff", "box", guest)
        ok(r.code == 1 and said(r, needle), f"diff of {guest}", r.err)
    c.upper()
    r = c.diff()
    equal((r.code, r.out, r.err), (0, "", ""), "nothing was written")
    c.upper(*ALL)
    r = c.diff()
    equal((r.code, r.out.splitlines()), (0, SHOWN), "what differs, sorted, and nothing else")
    ok(said(r, "skipped fifo"), "what cannot be on the host is told", r.err)
    found = {json.dumps(f["path"]): f for f in json.loads(c.diff("--json").out)}
    equal(len(found), len(SHOWN), "--json has as many")
    equal(found['"new"'], {"path": "new", "change": "added", "type": "file", "size": 8}, "a file")
    equal(found['"gone"'], {"path": "gone", "change": "removed", "type": "folder", "size": 0},
          "a folder")
    ok('{"hex": "6e0aff"}' in found, "a name that is no text", list(found))
    # Which order the marks come in does not matter.
    c.upper(entry(OPAQUE, b"opaque"), entry(DIR, b"opaque"))
    equal(c.diff().out.splitlines(), ["D opaque/in", "D opaque/in/deep", "D opaque/kept", "D opaque/old"],
          "an opaque folder hides what it does not have")
    c.upper(entry(FILE, b"sub/../../canary", data=b"x"))
    r = c.diff()
    ok(r.code == 1 and r.out == "", "a path that leads out", r.err)


def refusals(c):
    c.upper(*ALL)
    r = c.apply()
    ok(r.code == 1 and said(r, "C content", "no terminal", "--yes"), "refused without --yes", r.err)
    equal(c.read("content"), b"content", "and nothing was written")
    for args, needle in ((["none"], "nothing changed at none"), (["same"], "nothing changed"),
                         (["../canary"], "no path of"), (["/etc"], "no path of")):
        r = c.apply("--yes", *args)
        ok(r.code == 1 and said(r, needle), f"PATH {args}", r.err)
    status, out = c.w.on_terminal_with("n\n", "sandbox", "apply", "box", "/src")
    ok(status == 1 and b"Write 18 changes" in out and b"as it was" in out, "no is no", out)
    equal(c.read("content"), b"content", "and nothing was written")


def apply_all(w, c):
    before = os.stat(c.top + "/canary")
    r = c.apply("--yes")
    equal((r.code, r.out), (0, ""), "apply")
    equal([x for x in r.err.splitlines() if x[:2] in ("A ", "C ", "D ")], SHOWN, "shows what it does")
    equal((c.read("content"), c.read("new"), c.read("becomes-file"), c.read("becomes-folder/y")),
          (b"CONTENT", b"new file", b"file", b"y"), "files")
    equal([oct(stat.S_IMODE(os.stat(f"{c.host}/{n}").st_mode)) for n in ("mode", "new", "fresh")],
          ["0o755", "0o640", "0o711"], "modes, without setuid")
    equal(os.readlink(f"{c.host}/newlink"), "../canary", "links")
    ok(os.path.samefile(f"{c.host}/same", f"{c.host}/same3"), "another name of a file")
    equal([c.exists(n) for n in ("gone", "gone-file", "opaque/old", "opaque/in/deep", "opaque/kept",
                                 "opaque/in")], [False] * 4 + [True] * 2, "what goes")
    equal((os.stat(c.top + "/canary"), os.listdir(c.top)), (before, os.listdir(c.top)),
          "nothing beside it")
    equal(c.diff().out, "", "then nothing differs")
    r = c.apply("--yes")
    ok(r.code == 0 and said(r, "no changes"), "and there is nothing to do", r.err)
    log = json.loads(w.kosa8("audit", "ls", "--json").out)[-1]
    equal((log["action"], log["result"], log["sandbox"]), ("mount.apply", "ok", "box"), "recorded")
    equal({k: log["detail"][k] for k in ("host", "guest", "added", "changed", "removed")},
          {"host": c.host, "guest": "/src", "added": 8, "changed": 4, "removed": 6}, "with its sums")


def apply_some(c):
    c.reset()
    c.upper(*ALL)
    r = c.apply("--yes", "fresh/f", "/src/gone/", "content")
    equal([x for x in r.err.splitlines() if x[:2] in ("A ", "C ", "D ")],
          ["C content", "A fresh", "A fresh/f", "D gone", "D gone/1"], "some paths, and the folders they need")
    equal((c.read("fresh/f"), c.exists("gone"), c.exists("new")), (b"f", False, False), "no others")
    equal(len(c.diff().out.splitlines()), 13, "the rest still differs")
    status, out = c.w.on_terminal_with("y\n", "sandbox", "apply", "box", "/src", "new")
    ok(status == 0 and c.read("new") == b"new file", "yes on a terminal", out)


def host_goes_on(c):
    """What the host has below a folder that goes is shown, and nothing goes that was not."""
    def tree_at_f():
        c.reset()
        os.makedirs(f"{c.host}/f/deep")
        for name in ("f/deep/p", "gone/newhost"):
            with open(f"{c.host}/{name}", "w", encoding="ascii"):
                pass
        c.upper(entry(FILE, b"f", data=b"x"), entry(WHITEOUT, b"gone"), entry(FILE, b"new", data=b"x"),
                entry(FILE, b"content", data=b"CONTENT"), entry(WHITEOUT, b"gone-file"))

    tree_at_f()
    equal(c.diff().out.splitlines(), ["C content", "C f", "D f/deep", "D f/deep/p", "D gone",
                                      "D gone-file", "D gone/1", "D gone/newhost", "A new"],
          "all that would go")
    r = c.apply("--yes", "gone/newhost")
    equal((r.code, os.listdir(f"{c.host}/gone")), (0, ["1"]), "one of a folder goes alone")
    r = c.apply("--yes")
    equal((r.code, c.read("f"), c.exists("gone"), c.read("content")), (0, b"x", False, b"CONTENT"),
          "what was shown goes")

    tree_at_f()

    def meanwhile():
        for name in ("f/deep/late", "gone/late", "new"):
            with open(f"{c.host}/{name}", "w", encoding="ascii") as f:
                f.write("late")
        for name in ("content", "gone-file"):
            with open(f"{c.host}/{name}", "w", encoding="ascii") as f:
                f.write("other text")
    status, out = c.w.on_terminal_with("y\n", "sandbox", "apply", "box", "/src", then=meanwhile)
    equal([c.read(n) for n in ("f/deep/late", "gone/late", "new", "content", "gone-file")],
          [b"late"] * 3 + [b"other text"] * 2, "what came after it was shown stays")
    equal([c.exists(n) for n in ("f/deep/p", "gone/1")], [False] * 2, "the rest went")
    ok(status == 1 and all(b"%s has changed since it was shown" % n in out for n in
                           (b"f/deep", b"gone", b"new", b"content", b"gone-file")), "said", out)
    ok(not any(n.startswith(".kosa8") for n in os.listdir(c.host)), "nothing half is left")

    c.reset()
    os.mkfifo(f"{c.host}/pipe")
    c.upper(entry(FILE, b"pipe", data=b"x"))
    r = c.apply("--yes")
    ok(r.code == 1 and said(r, "/pipe: it is no file or folder") and
       stat.S_ISFIFO(os.lstat(f"{c.host}/pipe").st_mode), "a pipe is not replaced", r.err)


def hostile(w, c):
    """The second time another tree comes than the one that was shown."""
    c.reset()
    os.mkdir(f"{c.top}/outside")
    os.symlink("../outside", f"{c.host}/way-out")
    c.upper(entry(FILE, b"content", data=b"CONTENT"), entry(DIR, b"way-out"),
            entry(FILE, b"way-out/evil", data=b"x"))
    r = c.apply("--yes")
    equal((r.code, os.listdir(f"{c.top}/outside")), (0, []), "a link on the host is replaced by a "
          "folder, not followed")
    ok(not os.path.islink(f"{c.host}/way-out"), "as was shown")
    c.reset()
    os.symlink("../outside", f"{c.host}/way-out")
    c.upper(entry(FILE, b"way-out/evil", data=b"x"))
    r = c.apply("--yes")
    ok(r.code == 1 and os.listdir(f"{c.top}/outside") == [], "nor without that folder", r.err)
    os.unlink(f"{c.host}/way-out")
    os.symlink("../outside", f"{c.host}/sub/inner/out")
    c.upper(entry(WHITEOUT, b"sub"))
    with open(f"{c.top}/outside/f", "w", encoding="ascii"):
        pass
    ok(c.apply("--yes").code == 0 and not c.exists("sub") and
       os.listdir(f"{c.top}/outside") == ["f"], "a removal does not go through links")
    c.reset()
    second = tree(ROOT, entry(DIR, b"new"), entry(FILE, b"content", data=b"CONTENT"),
                  entry(FILE, b"same", data=b"not shown"), entry(FILE, b"unheard", data=b"x"),
                  entry(FILE, b"gone", data=b"x"))
    with open(f"{w.home}/upper-2", "wb") as f:
        f.write(second)
    c.upper(entry(FILE, b"new", data=b"x"), entry(FILE, b"content", data=b"CONTENT"),
            entry(WHITEOUT, b"gone"))
    r = c.apply("--yes")
    ok(r.code == 1 and said(r, "new has changed", "gone has changed", "2 of the changes"),
       "what has become something else is left out", r.err)
    equal((c.read("content"), c.read("same"), c.exists("new"), c.exists("unheard"), c.exists("gone")),
          (b"CONTENT", b"same", False, False, True), "and nothing is written that was not shown")
    with open(f"{w.home}/upper-2", "wb") as f:
        f.write(ROOT + entry(FILE, b"content", data=b"CONTENT") + entry(FILE, b"mode", size=99))
    c.upper(entry(FILE, b"content", data=b"CONTENT"), entry(FILE, b"mode", data=b"x"))
    c.reset()
    p = w.start("sandbox", "apply", "--yes", "box", "/src", stderr=subprocess.PIPE)
    ok(w.wait_for(lambda: c.read("content") == b"CONTENT" and
                  any(n.startswith(".kosa8") for n in os.listdir(c.host))), "an apply is at work")
    p.send_signal(signal.SIGTERM)
    err = p.stderr.read()
    ok(p.wait(20) == 128 + signal.SIGTERM and b"interrupted" in err, "is ended by a signal", err)
    ok(not any(n.startswith(".kosa8") for n in os.listdir(c.host)) and c.read("mode") == b"mode",
       "and leaves nothing half")
    equal(json.loads(w.kosa8("audit", "ls", "--json").out)[-1]["result"], "cancelled",
          "which is recorded")
    p.stderr.close()


def on_terminal_with(w):
    def run(answer, *args, then=None):
        master, slave = pty.openpty()
        p = w.start(*args, stdin=slave, stdout=slave, stderr=slave)
        os.close(slave)
        out = b""
        while b"[y/N]" not in out:
            out += os.read(master, 65536)
        if then:
            then()
        os.write(master, answer.encode())
        while True:
            try:
                more = os.read(master, 65536)
            except OSError:
                more = b""
            if not more:
                break
            out += more
        os.close(master)
        return p.wait(20), out
    return run


def main():
    with World() as w:
        r = w.kosa8("sandbox", "create", "box")
        ok(r.code == 0, "create", r.err)
        w.on_terminal_with = on_terminal_with(w)
        c = Cow(w)
        diff(w, c)
        refusals(c)
        apply_all(w, c)
        apply_some(c)
        host_goes_on(c)
        hostile(w, c)
        equal(w.kosa8("sandbox", "rm", "-f", "box").code, 0, "rm --force")
    return done()


if __name__ == "__main__":
    raise SystemExit(main())
