# SPDX-License-Identifier: Apache-2.0
"""run, exec, attach and shell on a terminal, against a scripted supervisor: who has the terminal
when, that it is given back on every way out, sizes, keys."""
import fcntl
import json
import os
import pty
import select
import signal
import struct
import subprocess
import sys
import termios
import time

from harness import World, done, equal, ok

IMAGE = "example.com/box:1"


class Terminal:
    """A command with a terminal of its own, as its session's controlling one."""

    def __init__(self, w, *args, rows=40, columns=100, env=None, stdout=None, controlling=True):
        self.master, self.slave = pty.openpty()
        self.resize(rows, columns)
        # A mode that is not the default, so that "back" is told from "reset".
        mode = termios.tcgetattr(self.slave)
        mode[3] &= ~termios.ECHOK
        mode[6][termios.VERASE] = b"\x08"
        termios.tcsetattr(self.slave, termios.TCSANOW, mode)
        self.before = termios.tcgetattr(self.slave)
        self.out = b""
        self.process = w.start(*args, env=env, stdin=self.slave, stdout=stdout or self.slave,
                               stderr=self.slave, start_new_session=True,
                               preexec_fn=self.control if controlling else None)

    def control(self):
        fcntl.ioctl(0, termios.TIOCSCTTY, 0)

    def resize(self, rows, columns):
        fcntl.ioctl(self.slave, termios.TIOCSWINSZ, struct.pack("HHHH", rows, columns, 0, 0))

    def mode(self):
        return termios.tcgetattr(self.slave)

    def taken(self):
        return self.mode() != self.before

    def raw(self):
        return not self.mode()[3] & (termios.ISIG | termios.ICANON | termios.ECHO)

    def read_until(self, what, seconds=20):
        end = time.monotonic() + seconds
        while what not in self.out and time.monotonic() < end:
            if select.select([self.master], [], [], 0.1)[0]:
                self.out += os.read(self.master, 65536)
        return what in self.out

    def type(self, data):
        os.write(self.master, data)

    def end(self):
        """Its status, all it wrote, and whether the terminal is as it was."""
        code = self.process.wait(20)
        while select.select([self.master], [], [], 0)[0]:
            self.out += os.read(self.master, 65536)
        same = self.mode() == self.before
        os.close(self.master)
        os.close(self.slave)
        return code, self.out, same


def started(w, *args, **more):
    t = Terminal(w, *args, **more)
    ok(t.read_until(b"start "), "it starts", t.out)
    ok(w.wait_for(t.raw), "and has the terminal", t.mode()[3])
    return t


def run(w, *flags, **more):
    return started(w, "sandbox", "run", "-it", *flags, "box", IMAGE, "terminal", **more)


def sizes_and_environment(w):
    t = run(w, env={"TERM": "screen-256color", "COLORTERM": "truecolor"})
    ok(t.read_until(b"start 40x100 tty=True screen-256color truecolor\n"),
       "size and TERM are there at the start", t.out)
    t.resize(50, 120)
    ok(t.read_until(b"size 50x120\n"), "a new size follows", t.out)
    t.type(b"q")
    equal(t.end()[::2], (5, True), "the command's status; the terminal is as before")
    t = run(w, "-e", "TERM=vt100")
    ok(t.read_until(b"tty=True vt100 None\n"), "-e TERM= wins", t.out)
    t.type(b"q")
    t.end()
    p = w.start("sandbox", "run", "-t", "box", IMAGE, "terminal", stdin=subprocess.DEVNULL,
                stdout=subprocess.PIPE, stderr=subprocess.PIPE, env={"TERM": ""})
    equal(p.stdout.readline(), b"start 24x80 tty=True xterm None\n", "-t without any terminal")
    p.kill()
    p.communicate()
    for verb, target in (("run", IMAGE), ("exec", "c1")):
        r = w.kosa8("sandbox", verb, "-it", "box", target, "terminal")
        ok(r.code == 125 and "the input device is not a TTY" in r.err and "try: -i alone" in r.err,
           f"{verb} -it without a terminal is refused", r.code, r.err)
    equal(w.kosa8("sandbox", "run", "-dit", "box", IMAGE, "terminal").out, "0123456789ab\n",
          "not when it is detached")


def keys(w):
    t = run(w)
    t.type(b"\x03")
    ok(t.read_until(b"in 03\n"), "^C is typed, not sent", t.out)
    t.type(b"\x1a")
    ok(t.read_until(b"in 1a\n"), "so is ^Z", t.out)
    t.type(b"\x04")
    ok(t.read_until(b"in 04\n"), "and ^D", t.out)
    t.type(b"\r")
    ok(t.read_until(b"in 0d\n"), "Return is not changed", t.out)
    t.type(b"\x10")
    time.sleep(0.2)
    t.type(b"x")
    ok(t.read_until(b"in 1078\n"), "ctrl-p and another key are both the program's", t.out)
    t.type(b"\x10\x10x")
    ok(t.read_until(b"in 1010"), "ctrl-p twice", t.out)
    t.type(b"\x10")
    time.sleep(0.2)
    ok(t.process.poll() is None, "half of the keys leaves nothing")
    t.type(b"\x11")
    code, out, same = t.end()
    equal((code, same), (0, True), "ctrl-p ctrl-q in two reads: left")
    ok(b"kosa8: detached from 0123456789ab; kosa8 sandbox attach box 0123456789ab" in out
       and b"in 10\n" not in out, "and it says how to come back", out)
    t = run(w, "--detach-keys", "a,ctrl-]")
    t.type(b"\x10\x11aa")
    ok(t.read_until(b"in 101161\n"), "other keys: the usual ones are typed", t.out)
    t.type(b"\x1d")
    equal(t.end()[::2], (0, True), "and these leave")
    t = run(w, "--detach-keys", "")
    t.type(b"\x10\x11")
    ok(t.read_until(b"in 1011\n"), "no keys", t.out)
    t.type(b"q")
    t.end()
    t = started(w, "sandbox", "run", "-it", "box", IMAGE, "terminal", "deaf")
    t.type(b"y" * 3000)
    t.type(b"\x10\x11")
    equal(t.end()[::2], (0, True), "they work when the program does not read")
    for bad in ("ctrl-", "ctrl-p,", "ab", "ctrl-1", "ctrl-p," * 20 + "a"):
        r = w.kosa8("sandbox", "run", "--detach-keys", bad, "box", IMAGE)
        ok(r.code == 2 and "--detach-keys" in r.err, f"{bad[:20]!r} is no list of keys", r.err)


def ways_out(w):
    for number in (signal.SIGTERM, signal.SIGHUP, signal.SIGINT, signal.SIGQUIT):
        t = run(w)
        t.process.send_signal(number)
        ok(t.read_until(b"signal %d\n" % number), f"signal {number} is forwarded", t.out)
        ok(t.raw(), "and nothing else happens")
        t.process.send_signal(number)
        equal(t.end()[::2], (128 + number, True), f"the second {number} ends it")
    for number in (signal.SIGABRT, signal.SIGSEGV, signal.SIGUSR1):
        t = run(w)
        t.process.send_signal(number)
        equal(t.end()[::2], (-number, True), f"killed by signal {number}")
    for key, what in ((b"j", "junk from the supervisor"), (b"l", "the supervisor hangs up")):
        t = run(w)
        t.type(key)
        code, out, same = t.end()
        ok(code == 125 and same and b"kosa8: " in out, what, code, out)
    t = Terminal(w, "sandbox", "run", "-it", "box", IMAGE, "slowstart")
    ok(w.wait_for(t.taken), "the terminal is taken before it starts")
    t.type(b"\x03")
    equal(t.end()[::2], (130, True), "^C before the start ends the client")
    t = Terminal(w, "sandbox", "run", "-it", "box", IMAGE, "notfound")
    equal(t.end()[::2], (127, True), "a command that is not found")
    reader, writer = os.pipe()
    t = Terminal(w, "sandbox", "run", "-it", "box", IMAGE, "terminal", stdout=writer)
    os.close(writer)
    os.read(reader, 100)
    ok(w.wait_for(t.raw), "taken, with stdout on a pipe")
    os.close(reader)
    equal(t.end()[::2], (128 + signal.SIGPIPE, True), "a closed stdout")
    t = Terminal(w, "sandbox", "run", "-t", "box", IMAGE, "terminal")
    ok(t.read_until(b"start 40x100") and w.wait_for(t.taken), "-t alone has a terminal, too")
    t.type(b"\x03")
    ok(t.read_until(b"signal 2\n"), "where ^C is a signal, as nobody reads keys", t.out)
    t.type(b"\x03")
    equal(t.end()[::2], (130, True), "and the second ends it")


def process_state(pid):
    with open(f"/proc/{pid}/stat", encoding="ascii") as f:
        return f.read().rpartition(")")[2].split()[0]


def stopped(w):
    t = run(w)
    raw = t.mode()
    t.process.send_signal(signal.SIGTSTP)
    ok(w.wait_for(lambda: process_state(t.process.pid) == "T"), "SIGTSTP stops it")
    equal(t.mode(), t.before, "with the terminal as it was")
    t.resize(30, 90)
    t.process.send_signal(signal.SIGCONT)
    ok(t.read_until(b"size 30x90\n"), "SIGCONT: the size that it has now", t.out)
    equal(t.mode(), raw, "and the terminal is taken again")
    t.type(b"z")
    ok(t.read_until(b"in 7a\n"), "and it goes on", t.out)
    t.process.send_signal(signal.SIGSTOP)
    ok(w.wait_for(lambda: process_state(t.process.pid) == "T"), "stopped without being asked")
    termios.tcsetattr(t.slave, termios.TCSANOW, t.before)  # as a shell does
    t.process.send_signal(signal.SIGCONT)
    ok(w.wait_for(t.raw), "goes on with the terminal")
    t.type(b"q")
    equal(t.end()[::2], (5, True), "its end")
    t = Terminal(w, "sandbox", "run", "-it", "box", IMAGE, "terminal", controlling=False)
    ok(t.read_until(b"start ") and w.wait_for(t.raw), "a terminal that is nobody's")
    t.type(b"q")
    equal(t.end()[::2], (5, True), "is given back as well")


def requests(w):
    with open(f"{w.home}/requests.jsonl", encoding="utf-8") as f:
        return [json.loads(line) for line in f]


def attach_events(w):
    """Of each client of an attach that has ended: the types of what it sent."""
    with open(f"{w.home}/attach-events", encoding="ascii") as f:
        return f.readlines()


def others(w):
    t = started(w, "sandbox", "exec", "-it", "-w", "/tmp", "-e", "A=b", "box", "c1", "terminal")
    t.type(b"\x10\x11")
    code, out, same = t.end()
    ok(code == 0 and same and b"detached: the command goes on in c1" in out, "exec, left", out)
    request = requests(w)[-1]
    equal((request["op"], request["container"], request["argv"], request["cwd"], request["tty"],
           request["stdin"]), ("exec", "c1", ["terminal"], "/tmp", True, True), "exec's request")
    ok("A=b" in request["env"] and "TERM=xterm" in request["env"], "and its variables", request)
    r = w.kosa8("sandbox", "exec", "box", "gone", "true")
    ok(r.code == 125 and "no container gone" in r.err and "gold" in r.err, "exec: none", r.err)
    for code, argv in ((3, ["exit", "3"]), (127, ["notfound"]), (126, ["notexec"])):
        equal(w.kosa8("sandbox", "exec", "box", "c1", *argv).code, code, f"exec: {argv}")
    r = w.kosa8("sandbox", "exec", "-i", "box", "c1", "cat", input="in")
    equal((r.code, r.out), (0, "in"), "exec: stdin")
    with open(f"{w.home}/ps.json", "w", encoding="utf-8") as f:
        json.dump([{"id": "0123456789ab", "name": "shown", "tty": True, "stdin": True},
                   {"id": "0123456789cd", "name": "plain", "stdin": True},
                   {"id": "999999999999", "name": "mute", "tty": True}], f)
    t = started(w, "sandbox", "attach", "box", "shown")
    ok(t.read_until(b"size 41x100\nsize 40x100\n"), "attach has it drawn again", t.out)
    t.type(b"\x10\x11")
    code, out, same = t.end()
    ok(code == 0 and same and b"detached from shown; kosa8 sandbox attach box shown" in out,
       "attach, left", out)
    t = Terminal(w, "sandbox", "attach", "box", "plain")
    ok(t.read_until(b"start ") and not t.taken(), "without a terminal there, ours is not taken")
    t.type(b"\x03")
    ok(t.read_until(b"signal 2\r\n"), "^C is a signal for it", t.out)
    t.type(b"\x03")
    equal(t.end()[::2], (130, True), "and the second one ends the client")
    for name in ("shown", "plain"):
        for number in (signal.SIGTERM, signal.SIGHUP):
            t = Terminal(w, "sandbox", "attach", "box", name)
            ok(t.read_until(b"start "), f"attached to {name}", t.out)
            t.process.send_signal(number)
            code, out, same = t.end()
            ok(code == 128 + number and same and b"signal" not in out,
               f"signal {number} ends the client, {name} gets none", code, out)
    attached = [request["op"] for request in requests(w)].count("container-attach")
    ok(w.wait_for(lambda: len(attach_events(w)) == attached), "all have left")
    t = started(w, "sandbox", "attach", "box", "shown")
    os.close(t.slave)
    os.close(t.master)
    equal(t.process.wait(20), 129, "a terminal that went away ends the client")
    ok(w.wait_for(lambda: len(attach_events(w)) == attached + 1), "and the engine knows")
    events = attach_events(w)[-1].split()
    ok("7" in events and "3" not in events and "4" not in events,
       "a size was sent, but neither end of stdin nor signal", events)
    r = w.kosa8("sandbox", "attach", "box", "shown")
    ok(r.code == 125 and "not a TTY" in r.err and "--no-stdin" in r.err, "attach: no terminal", r.err)
    p = w.start("sandbox", "attach", "--no-stdin", "box", "shown", stdin=subprocess.DEVNULL,
                stdout=subprocess.PIPE, stderr=subprocess.PIPE)
    ok(p.stdout.readline().startswith(b"start 24x80"), "attach --no-stdin")
    ok(requests(w)[-1]["stdin"] is False, "asks for no stdin")
    p.kill()
    p.communicate()


def shell(w):
    t = started(w, "sandbox", "shell", "-e", "B=1", "box")
    request = requests(w)[-1]
    ok(request["argv"][:2] == ["/bin/sh", "-c"] and "command -v bash" in request["argv"][2]
       and request["entrypoint"] == [] and request["cwd"] == "/workspace" and request["tty"]
       and request["stdin"] and "TERM=xterm" in request["env"] and "B=1" in request["env"],
       "shell: the only image, a terminal", request)
    t.type(b"q")
    equal(t.end()[::2], (5, True), "shell: its own status")
    r = w.kosa8("sandbox", "shell", "box", input="echo\n")
    equal((r.code, r.out), (0, "echo\n"), "shell: without a terminal sh reads stdin")
    equal(requests(w)[-1]["argv"], ["/bin/sh"], "and nothing else")
    r = w.kosa8("sandbox", "shell", "box", IMAGE, "--container", "c1")
    ok(r.code == 2 and "not both" in r.err, "shell: image or container", r.err)
    r = w.kosa8("sandbox", "shell", "box", "--container", "c1", input="")
    ok(r.code == 0 and requests(w)[-1]["op"] == "exec" and "cwd" not in requests(w)[-1],
       "shell: in a container", r.err)
    w.kosa8("sandbox", "pull", "box", "example.com/other:1")
    r = w.kosa8("sandbox", "shell", "box")
    ok(r.code == 125 and "example.com/box:1" in r.err and "example.com/other:1" in r.err
       and "sandbox shell box IMAGE" in r.err, "shell: several images are listed", r.err)
    w.kosa8("sandbox", "create", "bare")
    r = w.kosa8("sandbox", "shell", "bare")
    ok(r.code == 125 and "no image" in r.err, "shell: no image", r.err)
    w.kosa8("sandbox", "rm", "-f", "bare")


def dead_engine(w):
    t = run(w)
    t.type(b"k")
    code, out, same = t.end()
    ok(code == 125 and same and b"ended unexpectedly" in out, "a killed supervisor", code, out)


def main():
    for number in (signal.SIGHUP, signal.SIGINT, signal.SIGQUIT):
        signal.signal(number, signal.SIG_DFL)  # a background job and nohup ignore them
    os.environ["ASAN_OPTIONS"] = "handle_segv=0"  # a build with it is to die of it, too
    with World() as w:
        equal(w.kosa8("sandbox", "create", "box").code, 0, "create")
        equal(w.kosa8("sandbox", "run", "box", IMAGE, "exit", "0").code, 0, "pull")
        for part in (sizes_and_environment, keys, ways_out, stopped, others, shell, dead_engine):
            part(w)
        w.kosa8("sandbox", "rm", "-f", "box")
    return done()


sys.exit(main())
