# SPDX-License-Identifier: Apache-2.0
"""`sandbox run`: streams, signals, exit status, against a scripted supervisor."""
import os
import select
import signal
import socket
import subprocess
import sys
import time

from harness import World, done, equal, ok

IMAGE = "example.com/box:1"


def exit_statuses(w):
    for argv, want, what in (
            (["exit", "0"], 0, "exit 0"), (["exit", "3"], 3, "the command's own status"),
            (["exit", "255"], 255, "status 255"), (["signaled", "9"], 137, "killed by a signal"),
            (["killed"], 137, "killed by the sandbox"), (["notfound"], 127, "not found"),
            (["notexec"], 126, "not executable"), (["lost"], 125, "no result"),
            (["junk"], 125, "no frames"),
            (["failed"], 125, "an error of the supervisor")):
        equal(w.kosa8("sandbox", "run", "box", IMAGE, *argv).code, want, what)
    # Nobody reads, so nothing can be granted again.
    p = w.start("sandbox", "run", "box", IMAGE, "lie", stdout=subprocess.PIPE,
                stderr=subprocess.PIPE, stdin=subprocess.DEVNULL)
    ok(p.wait(20) == 125 and b"may not send" in p.stderr.read(), "more than was granted")
    p.stdout.close()
    r = w.kosa8("sandbox", "run", "--timeout", "3s", "box", IMAGE, "timeout")
    equal((r.code, r.err), (124, "kosa8: run: timed out after 3s\n"), "a timeout and its message")
    r = w.kosa8("sandbox", "run", "box", IMAGE, "exit", "124")
    equal((r.code, r.err), (124, ""), "a command that exits 124 says nothing")
    r = w.kosa8("sandbox", "run", "box", IMAGE, "oom")
    ok(r.code == 137 and "out of memory" in r.err, "out of memory is said", r.err)
    r = w.kosa8("sandbox", "run", "box", IMAGE, "lost")
    ok(r.out == "part" and "ended unexpectedly" in r.err and "sandbox start box" in r.err,
       "what came before the end is written, and the end explained", r.out, r.err)
    r = w.kosa8("sandbox", "run", "box", IMAGE, "failed")
    ok(r.out == "before\n" and "\x1b" not in r.err and "\\x1b" in r.err,
       "the supervisor's text is escaped", r.err)


def arguments(w):
    args = ["a b", "$HOME", "x'y", "", "*", "n\nl", "-i", "--timeout", "--", "caf\u00e9"]
    r = w.kosa8("sandbox", "run", "box", IMAGE, "argv", *args, text=False)
    equal(r.out, b"".join(a.encode() + b"\0" for a in args), "arguments are passed untouched")
    r = w.kosa8("sandbox", "run", "box", IMAGE, "argv", b"\xff\xfe", text=False)
    equal(r.out, b"\xff\xfe\0", "an argument that is no text is passed too")
    r = w.kosa8("sandbox", "run", "box", IMAGE, "argv", "x" * 125000, "y" * 125000)
    ok(r.code == 125 and "too long" in r.err, "a command that is too long is refused", r.err)
    r = w.kosa8("sandbox", "run", "box", IMAGE, "argv", "x" * 115000, "y" * 115000)
    equal((r.code, len(r.out)), (0, 230002), "one just below the limit passes")


def stdin_rules(w):
    data = bytes(range(256)) * 4000
    r = w.kosa8("sandbox", "run", "-i", "box", IMAGE, "cat", text=False, input=data)
    ok(r.code == 0 and r.out == data, "stdin goes through byte for byte", r.code, len(r.out))
    r = w.kosa8("sandbox", "run", "-i", "box", IMAGE, "cat", text=False)
    equal((r.code, r.out), (0, b""), "an empty stdin ends")
    with open(w.dir + "/in", "wb+") as f:
        f.write(data)
        f.seek(0)
        r = w.kosa8("sandbox", "run", "-i", "box", IMAGE, "cat", text=False, stdin=f)
    ok(r.out == data, "stdin from a file", len(r.out))
    # Held open without -i: not waited for and not touched.
    reader, writer = os.pipe()
    os.write(writer, b"kept")
    begin = time.monotonic()
    r = w.kosa8("sandbox", "run", "box", IMAGE, "exit", "0", stdin=reader)
    ok(r.code == 0 and time.monotonic() - begin < 2, "a stdin held open is not waited for")
    equal(os.read(reader, 10), b"kept", "and nothing of it was read")
    r = w.kosa8("sandbox", "run", "-i", "box", IMAGE, "exit", "5", stdin=reader)
    equal(r.code, 5, "with -i, too, the command's end is the end")
    os.close(reader)
    os.close(writer)


def big_line(w):
    size = 300_000_000
    begin = time.monotonic()
    p = w.start("sandbox", "run", "box", IMAGE, "spew", str(size), stdout=subprocess.PIPE,
                stdin=subprocess.DEVNULL)
    got = 0
    while True:
        data = p.stdout.read(1 << 20)
        if not data:
            break
        got += len(data)
    p.wait()
    seconds = time.monotonic() - begin
    print(f"# 300 MB in {seconds:.2f} s")
    equal((p.returncode, got), (0, size), "300 MB in one line")
    ok(seconds < 60, "in bounded time", seconds)


def memory_of(pid):
    with open(f"/proc/{pid}/status", encoding="ascii") as f:
        return next(int(line.split()[1]) for line in f if line.startswith("VmHWM"))


def slow_reader(w):
    p = w.start("sandbox", "run", "box", IMAGE, "both", "5000000", stdout=subprocess.PIPE,
                stderr=subprocess.PIPE, stdin=subprocess.DEVNULL)
    ready = select.select([p.stderr], [], [], 20)[0]
    ok(ready and p.stderr.readline() == b"stderr is alive\n",
       "a stdout that nobody reads does not hold up stderr")
    memory = memory_of(p.pid)
    print(f"# a stalled client takes {memory} kB at most")
    ok(memory < 40000, "and is not hoarded", memory)
    equal(len(p.stdout.read()), 5000000, "all of it comes in the end")
    equal(p.wait(), 0, "with the command's status")
    # stdout and stderr as one pipe with one reader that starts late.
    p = w.start("sandbox", "run", "box", IMAGE, "both", "1000000", stdout=subprocess.PIPE,
                stderr=subprocess.STDOUT, stdin=subprocess.DEVNULL)
    select.select([p.stdout], [], [], 20)
    equal(len(p.stdout.read()), 1000000 + len("stderr is alive\n"), "both in one pipe")
    p.wait()


def outputs(w):
    path = w.dir + "/out"
    with open(path, "wb") as f:
        p = w.start("sandbox", "run", "box", IMAGE, "spew", "3000000", stdout=f)
        equal(p.wait(), 0, "stdout is a file")
    equal(os.path.getsize(path), 3000000, "and has all")
    ours, theirs = socket.socketpair()
    p = w.start("sandbox", "run", "box", IMAGE, "spew", "3000000", stdout=theirs)
    theirs.close()
    got = 0
    while data := ours.recv(65536):
        got += len(data)
    equal((p.wait(), got), (0, 3000000), "stdout is a socket")
    with open("/dev/full", "wb") as f:
        r = subprocess.run([w.program, "sandbox", "run", "box", IMAGE, "spew", "10"], stdout=f,
                           stderr=subprocess.PIPE, env=w.env, text=True, check=False)
    ok(r.returncode == 125 and "No space" in r.stderr, "a full disk is an error", r.stderr)
    reader, writer = os.pipe()
    flags = os.O_WRONLY
    p = w.start("sandbox", "run", "box", IMAGE, "signal", stdout=writer,
                stdin=subprocess.DEVNULL)
    os.read(reader, 6)
    with open(f"/proc/self/fdinfo/{writer}", encoding="ascii") as f:
        flags = int(next(line.split()[1] for line in f if line.startswith("flags")), 8)
    ok(not flags & os.O_NONBLOCK, "the inherited description stays blocking")
    p.send_signal(signal.SIGTERM)
    equal(p.wait(), 128 + signal.SIGTERM, "a signal is forwarded and its end reported")
    os.close(reader)
    os.close(writer)


def closed_stdout(w):
    p = w.start("sandbox", "run", "box", IMAGE, "spew", "300000000", stdout=subprocess.PIPE,
                stderr=subprocess.PIPE, stdin=subprocess.DEVNULL)
    p.stdout.read(10)
    p.stdout.close()
    equal((p.wait(20), p.stderr.read()), (128 + signal.SIGPIPE, b""),
          "a closed stdout ends the run quietly")


def interrupted(w):
    def gone():
        return os.path.exists(f"{w.home}/client-gone")
    p = w.start("sandbox", "run", "box", IMAGE, "hang", stdout=subprocess.PIPE,
                stdin=subprocess.DEVNULL)
    p.stdout.readline()
    p.send_signal(signal.SIGINT)
    equal(p.stdout.readline(), b"signal 2\n", "the first signal is the command's")
    ok(not gone() and p.poll() is None, "and the client goes on")
    p.send_signal(signal.SIGINT)
    equal(p.wait(20), 130, "the second ends the client")
    ok(w.wait_for(gone), "and the supervisor sees it")
    os.unlink(f"{w.home}/client-gone")
    p = w.start("sandbox", "run", "box", IMAGE, "hang", stdout=subprocess.PIPE,
                stdin=subprocess.DEVNULL)
    p.stdout.readline()
    p.kill()
    p.wait()
    ok(w.wait_for(gone), "a killed client is seen, too")
    p = w.start("sandbox", "run", "box", IMAGE, "signal", stdout=subprocess.PIPE,
                stdin=subprocess.DEVNULL,
                preexec_fn=lambda: signal.signal(signal.SIGHUP, signal.SIG_IGN))
    p.stdout.readline()
    p.send_signal(signal.SIGHUP)
    p.send_signal(signal.SIGTERM)
    equal(p.wait(20), 128 + signal.SIGTERM, "an ignored SIGHUP (nohup) stays ignored")


def main():
    with World() as w:
        r = w.kosa8("sandbox", "create", "box")
        ok(r.code == 0 and r.out == "box\n", "create", r.code, r.out, r.err)
        r = w.kosa8("sandbox", "run", "box", IMAGE, "exit", "0")
        ok(r.code == 0 and r.out == "" and "pulled" in r.err, "the first run pulls", r.err)
        for part in (exit_statuses, arguments, stdin_rules, slow_reader, outputs, closed_stdout,
                     interrupted, big_line):
            part(w)
        equal(w.kosa8("sandbox", "rm", "-f", "box").code, 0, "rm --force")
    return done()


sys.exit(main())
