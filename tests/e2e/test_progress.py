# SPDX-License-Identifier: Apache-2.0
"""What a person sees of a pull: on terminals of several sizes, elsewhere, and when it is interrupted.

The worker is a script that says the events it is told, so that each of them is sure to come; the last
test is a real pull.
"""
import fcntl
import os
import pty
import re
import select
import struct
import sys
import termios
import time

from harness import BUSYBOX, check, equal

HOME = "own"
WORKER = """#!{python}
import json, os, signal, sys, time
signal.signal(signal.SIGINT, signal.SIG_DFL)
DIGESTS = ["sha256:" + f"{{i:012x}}" + "a" * 52 for i in range(60)]
def say(**o):
    print(json.dumps(o), flush=True)
def layer(i, done, size=5000000, **more):
    say(event="layer", digest=DIGESTS[i], size=size, done=done, **more)
exec(os.environ["SCRIPT"])
say(ok=False, error={{"kind": "unavailable", "errno": 0, "what": "that was all", "hint": ""}})
"""


class Screen:
    """As much of a terminal as progress uses; anything else is an error."""

    def __init__(self, columns, rows):
        self.columns, self.rows = columns, rows
        self.lines, self.x, self.y = [""], 0, 0
        self.widest = self.highest = 0

    def put(self, text):
        for token in re.findall(r"\x1b\[\d*[AKJ]|\r|\n|[^\x1b\r\n]+|\x1b", text):
            self.token(token)

    def token(self, token):
        if token == "\r":
            self.x = 0
        elif token == "\n":
            self.x, self.y = 0, self.y + 1
            if self.y == len(self.lines):
                self.lines.append("")
        elif token.endswith("A") and token[0] == "\x1b":
            up = int(token[2:-1] or 1)
            self.highest = max(self.highest, up)
            check(up <= self.y and up < self.rows, f"{up} lines up, from line {self.y}")
            self.y -= up
        elif token == "\x1b[K":
            self.lines[self.y] = self.lines[self.y][:self.x]
        elif token == "\x1b[J":
            self.lines[self.y:] = [self.lines[self.y][:self.x]]
        else:
            check(token[0] != "\x1b", f"an escape sequence that is not known: {token!r}")
            line = self.lines[self.y].ljust(self.x)
            self.lines[self.y] = line[:self.x] + token + line[self.x + len(token):]
            self.x += len(token)
            self.widest = max(self.widest, self.x)
            check(self.x < self.columns, f"a line that wraps: {line + token!r}")

    def text(self):
        return "\n".join(line.rstrip() for line in self.lines)


class Terminal:
    def __init__(self, t, *args, columns=80, rows=24, env=None):
        self.master, slave = pty.openpty()
        self.resize(columns, rows)
        self.before = termios.tcgetattr(slave)
        self.slave = slave
        # A session of its own, whose terminal this is: so ^C gets to it.
        self.process = t.home.start(
            *args, stdin=slave, stdout=slave, stderr=slave, env={"TERM": "xterm", **(env or {})},
            start_new_session=True, preexec_fn=lambda: fcntl.ioctl(0, termios.TIOCSCTTY, 0))
        self.raw = ""

    def resize(self, columns, rows):
        self.columns, self.rows = columns, rows
        fcntl.ioctl(self.master, termios.TIOCSWINSZ, struct.pack("HHHH", rows, columns, 0, 0))

    def until(self, needle, seconds=20):
        end = time.monotonic() + seconds
        while needle not in self.raw:
            ready, _, _ = select.select([self.master], [], [], max(0, end - time.monotonic()))
            check(ready, f"no {needle!r} in {self.raw!r}")
            self.raw += os.read(self.master, 65536).decode().replace("\r\n", "\n")

    def end(self):
        code = self.process.wait(20)
        equal(termios.tcgetattr(self.slave), self.before, "the terminal's settings")
        os.close(self.slave)
        while True:
            try:
                more = os.read(self.master, 65536)
            except OSError:
                break
            if not more:
                break
            self.raw += more.decode().replace("\r\n", "\n")
        os.close(self.master)
        return code

    def screen(self):
        screen = Screen(self.columns, self.rows)
        screen.put(self.raw)
        return screen


def setup(t):
    t.libexec = os.path.join(t.folder, "libexec")
    os.mkdir(t.libexec)
    path = os.path.join(t.libexec, "kosa8-image")
    with open(path, "w") as f:
        f.write(WORKER.format(python=sys.executable))
    os.chmod(path, 0o755)


def scripted(t, script, *flags, **more):
    env = {"KOSA8_LIBEXEC": t.libexec, "SCRIPT": script, **more.pop("env", {})}
    return Terminal(t, "image", "pull", *flags, "example.com/x", env=env, **more)


THREE = """
layer(0, 5000000, state="here")
layer(1, 0, state="waiting")
layer(2, 0, state="waiting")
for done in range(0, 5000001, 500000):
    layer(1, done)
    time.sleep(0.12)
"""
FINISH = """
layer(2, 5000000)
say(event="convert", layer=0, bytes=1000)
say(event="convert", layer=1, bytes=20000000)
"""


def test_a_line_a_layer(t):
    terminal = scripted(t, THREE + FINISH)
    equal(terminal.end(), 1)
    lines = terminal.screen().text().splitlines()
    equal([line.split() for line in lines[:3]],
          [["000000000000", "5.0", "MB,", "already", "here"], ["000000000001", "5.0", "MB"],
           ["000000000002", "5.0", "MB"]], "finished lines stay")
    check(lines[3].startswith("  unpack") and "20.0 MB" in lines[3], f"{lines}")
    equal(lines[4], "kosa8: that was all", "and the error comes after")
    check(re.search(r"\[=+ +\]  \d\.\d MB of 5\.0 MB  \d+\.\d [kM]B/s", terminal.raw),
          f"bar, size and speed: {terminal.raw!r}")
    check("5.0 MB, waiting" in terminal.raw, "layers that wait say so")
    check("\x1b[?" not in terminal.raw, "no mode of the terminal is changed")


def test_a_narrow_terminal(t):
    for columns, rows in ((40, 10), (20, 5), (2, 2), (1, 1)):
        terminal = scripted(t, THREE + FINISH, columns=columns, rows=rows)
        equal(terminal.end(), 1)
        lines = terminal.raw.split("kosa8: ")[0]
        for line in re.split(r"\n|\x1b\[\d*[AKJ]|\r", lines):
            check(len(line) < max(columns, 2), f"{columns} columns: {line!r}")
    terminal = scripted(t, THREE + FINISH, columns=40, rows=10)
    terminal.end()
    check(re.search(r"000000000001  \d\.\d MB of 5\.0 MB  \d+%", terminal.raw), f"{terminal.raw!r}")


MANY = """
for i in range(45):
    layer(i, 0, state="waiting")
for i in range(0, 45, 3):
    for done in (1000000, 5000000):
        for k in range(3):
            layer(i + k, done)
        time.sleep(0.11)
say(event="convert", layer=0, bytes=1000)
"""


def test_more_layers_than_rows(t):
    terminal = scripted(t, MANY, columns=40, rows=10)
    terminal.end()
    screen = terminal.screen()
    check(screen.highest < 10, f"{screen.highest} lines are rewritten on 10 rows")
    lines = screen.text().splitlines()
    for i in range(45):
        equal([line for line in lines if line.startswith(f"  {i:012x}")], [f"  {i:012x}  5.0 MB"],
              f"layer {i} has one line for good")
    check(any("45 of 45 layers" in line for line in lines), f"a sum: {lines[-5:]}")


def test_resizing(t):
    """The script waits for the new size, so all that follows is for it."""
    go = os.path.join(t.folder, "go")
    wait = f"say(event='notice', text='now')\nwhile not os.path.exists({go!r}): time.sleep(0.02)\n"
    terminal = scripted(t, THREE + wait + "layer(2, 1000000)\ntime.sleep(0.5)\n" + FINISH)
    terminal.until("now\n")
    terminal.resize(40, 10)
    mark = len(terminal.raw)
    open(go, "w").close()
    equal(terminal.end(), 1)
    fitted = terminal.raw[mark:]
    fitted = fitted[fitted.index("  20%"):].split("kosa8: ")[0]
    for line in re.split(r"\n|\x1b\[\d*[AKJ]|\r", fitted):
        check(len(line) < 40, f"40 columns: {line!r}")
    check("000000000002  5.0 MB" in fitted, f"{fitted!r}")


def test_plain_lines_elsewhere(t):
    env = {"KOSA8_LIBEXEC": t.libexec, "SCRIPT": THREE + FINISH}
    result = t.home.exits(1, "image", "pull", "example.com/x", env=env)
    equal(result.out, b"")
    equal(result.errors.splitlines(),
          ["layer 000000000000: 5.0 MB, already here", "layer 000000000001: 5.0 MB",
           "layer 000000000002: 5.0 MB", "kosa8: that was all"])
    result = t.home.exits(1, "image", "pull", "--quiet", "example.com/x", env=env)
    equal(result.errors, "kosa8: that was all\n")
    for term in ("dumb", ""):
        terminal = scripted(t, THREE + FINISH, env={"TERM": term})
        terminal.end()
        check("\x1b" not in terminal.raw and "layer 000000000001: 5.0 MB\n" in terminal.raw,
              f"TERM={term}: {terminal.raw!r}")
    terminal = scripted(t, THREE, "-q")
    terminal.end()
    equal(terminal.raw, "kosa8: that was all\n")


def test_interrupted(t):
    terminal = scripted(t, THREE + "say(event='notice', text='now')\ntime.sleep(60)\n")
    terminal.until("now\n")
    os.write(terminal.master, b"\x03")
    equal(terminal.end(), 130)
    last = terminal.screen().text().splitlines()
    check(last[-1].startswith("kosa8: pull: interrupted; the next") and "^C" not in last[-1], f"{last}")
    check("\x1b[?" not in terminal.raw, "nothing to restore")


def test_hostile_worker_lines(t):
    """Nothing gets to the terminal as it is, and nothing into the catalog."""
    for script, needle in (
            ("print('x' * 10000000)", "too long"), ("print('junk')", "JSON"),
            ("say(event='layer', digest='sha256:' + chr(27) * 64, size=1)", "digest"),
            ("say(event='layer', digest=DIGESTS[0], size=-1)", "size"),
            ("say(ok=True)", "0 images"),
            ("say(ok=True, digest=DIGESTS[0], config={}, size=1, blobs=[])", "left no file"),
            ("say(ok=True, digest='../../x', config={}, size=1, blobs=[])", "digest"),
            ("say(ok=False, error={'kind': 'x', 'what': chr(27) + '[2J', 'errno': 0})", "\\x1b")):
        result = t.home.refused(1, needle, args=["image", "pull", "example.com/x"],
                                env={"KOSA8_LIBEXEC": t.libexec, "SCRIPT": script})
        check("\x1b" not in result.errors, f"{result}")
    terminal = scripted(t, "say(event='notice', text=chr(27) + '[2J\\n')")
    terminal.end()
    check("\x1b[2J" not in terminal.raw, f"{terminal.raw!r}")
    equal(t.home.rows("image", "ls"), [])


def test_a_real_pull(t):
    terminal = Terminal(t, "image", "pull", BUSYBOX, env={"NO_COLOR": "1"})
    equal(terminal.end(), 0)
    check(re.search(r"unpacked +\d", terminal.screen().text()), f"{terminal.raw!r}")
    check(not re.search(r"\x1b\[[0-9;]*m", terminal.raw), "no colour")
    equal(len(t.home.rows("image", "ls")), 1)
