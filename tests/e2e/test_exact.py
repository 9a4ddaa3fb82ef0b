# SPDX-License-Identifier: Apache-2.0
"""A program in a running container is as exact as a local pipe: what test_run.py, test_stdin.py and
test_kill.py ask of a run, asked of an exec; and many of them at once."""
import hashlib
import os
import re
import select
import signal
import subprocess
import threading
import time

from harness import BUSYBOX, PYTHON, check, equal, wait_for

SANDBOX = True
SLOW = 420
AWKWARD = ["a b", "$HOME", "x'y", "", "*", "n\nl"]
TICKER = ("echo partial; setsid sh -c 'while :; do date >> /workspace/{0}; usleep 200000; done' & "
          "sleep 99")


def setup(t):
    for name, image in (("box", BUSYBOX), ("py", PYTHON)):
        t.home("sandbox", "run", "-d", "--name", name, t.box, image, "sleep", "36000", timeout=120)


def into(t, container, *command, flags=(), **more):
    return t.home.any("sandbox", "exec", *flags, t.box, container, *command, **more)


def held_open(t, container, *command, flags=()):
    read, write = os.pipe()
    try:
        return into(t, container, *command, flags=flags, stdin=read)
    finally:
        os.close(read)
        os.close(write)


def lines_of(t, name):
    return int(into(t, "box", "sh", "-c", f"wc -l < /workspace/{name} 2>/dev/null || echo 0").text)


def check_ended(t, name, word):
    """It has stopped to tick, and no process of it is left in the container."""
    before = lines_of(t, name)
    time.sleep(1)  # five of its periods
    equal(lines_of(t, name), before, "it has stopped")
    processes = into(t, "box", "ps").text
    check(word not in processes, f"nothing of it is left: {processes}")


# ---- R1 ----

def test_a_stdin_held_open(t):
    for flags in ([], ["-i"]):
        result = held_open(t, "box", "echo", "hi", flags=flags)
        equal((result.code, result.out), (0, b"hi\n"), f"{result}")
        check(result.seconds < 2, f"at once: {result}")
        result = held_open(t, "box", "sleep", "99", flags=["--timeout", "2s", *flags])
        equal(result.code, 124, f"{result}")
        check(1.5 < result.seconds < 4, f"in time: {result}")


def test_stdin_is_exact(t):
    equal(into(t, "box", "wc", "-c", flags=["-i"], input=b"\0\1\2\xff").text.strip(), "4")
    equal(into(t, "box", "wc", "-c", input=b"not for you").text.strip(), "0", "without -i: empty")
    every = bytes(range(256)) * 4096 * 16
    result = into(t, "box", "cat", flags=["-i"], input=every, timeout=120)
    check(result.out == every, f"16 MB through cat: {len(result.out)} bytes came back")


def test_a_background_child_does_not_hold_it(t):
    result = into(t, "box", "sh", "-c", "sleep 60 & echo done")
    equal((result.code, result.out), (0, b"done\n"))
    check(result.seconds < 3, f"no longer than a short drain: {result}")


# ---- R3 ----

def test_a_timeout_kills_the_tree(t):
    one = t.home.start("sandbox", "exec", "--timeout", "4s", t.box, "box", "sh", "-c", TICKER.format("e1"))
    equal(one.stdout.readline(), b"partial\n")
    wait_for(lambda: lines_of(t, "e1") > 1, "control: it ticks before the timeout")
    out, err = one.communicate(timeout=20)
    equal((one.returncode, out), (124, b""), "exit and the rest of its output")
    check(b"timed out after 4s" in err, f"stderr: {err}")
    check_ended(t, "e1", "workspace/e1")
    own = into(t, "box", "sh", "-c", "exit 124", flags=["--timeout", "20s"])
    equal((own.code, own.err), (124, b""), "a program's own 124 says nothing")


def test_a_killed_client_kills_the_tree(t):
    one = t.home.start("sandbox", "exec", t.box, "box", "sh", "-c", TICKER.format("e2"))
    equal(one.stdout.readline(), b"partial\n")
    wait_for(lambda: lines_of(t, "e2") > 1, "control: it ticks")
    one.send_signal(signal.SIGKILL)
    one.communicate()
    check_ended(t, "e2", "workspace/e2")


def test_a_closed_pipe_kills_the_tree(t):
    one = t.home.start("sandbox", "exec", t.box, "box", "sh", "-c", TICKER.format("e3"))
    equal(one.stdout.readline(), b"partial\n")
    wait_for(lambda: lines_of(t, "e3") > 1, "control: it ticks")
    one.stdout.close()
    equal(one.wait(20), 128 + signal.SIGPIPE, "the client's end")
    one.stderr.close()
    check_ended(t, "e3", "workspace/e3")


# ---- R4 ----

SHOW = "import os, sys; sys.stdout.buffer.write(b''.join(os.fsencode(a) + b'\\0' for a in sys.argv[1:]))"


def test_arguments_arrive_exactly(t):
    result = into(t, "py", "python3", "-c", SHOW, *AWKWARD)
    equal(result.out.split(b"\0"), [a.encode() for a in AWKWARD] + [b""], "arguments")
    result = into(t, "py", "python3", "-c", SHOW, "--timeout", "1s", "-i", "--", "--json")
    equal(result.out, b"--timeout\x001s\0-i\0--\0--json\0", "flags after the container")
    result = into(t, "py", "python3", "-c", SHOW, os.fsdecode(b"\xff not \xfe text"))
    equal(result.out, b"\xff not \xfe text\0", "bytes that are no text")
    equal(len(into(t, "py", "python3", "-c", SHOW, "x" * 120000).out), 120001, "a long one")


def test_user_and_place(t):
    equal(into(t, "box", "sh", "-c", "id -u; id -g; pwd", flags=["-u", "1234:5678", "-w", "/tmp"]).text,
          "1234\n5678\n/tmp\n", "a user that no file names")
    for code, command in ((127, "nope"), (127, "/no/such"), (126, "/etc/passwd")):
        result = into(t, "box", command)
        equal((result.code, result.out), (code, b""), f"{result}")
        check(result.errors.startswith("kosa8: ") and command in result.errors, f"{result}")
    missing = into(t, "box", "pwd", flags=["-w", "/no/such/folder"])
    check(missing.text == "/no/such/folder\n" or (missing.code == 125 and "/no/such" in missing.errors),
          f"a missing workdir is created or named: {missing}")
    wrong = into(t, "box", "true", flags=["-u", "nosuchuser"])
    check(wrong.code == 125 and "nosuchuser" in wrong.errors, f"{wrong}")


# ---- much, slow, many ----

def test_300_mb_in_one_line_to_a_slow_reader(t):
    code = ("import sys\nfor _ in range(300): sys.stdout.buffer.write(b'x' * (1 << 20))\n"
            "sys.stderr.write('done')")
    one = t.home.start("sandbox", "exec", t.box, "py", "python3", "-c", code)
    count, wrong = len(one.stdout.read(1 << 20)), b""
    time.sleep(3)  # nobody reads
    with open(f"/proc/{one.pid}/status") as f:
        resident = next(int(line.split()[1]) for line in f if line.startswith("VmRSS"))
    check(resident < 64 * 1024, f"the client holds {resident} kB while its reader is slow")
    while chunk := one.stdout.read(1 << 20):
        count += len(chunk)
        wrong += chunk.strip(b"x")
    equal((one.wait(60), count, wrong, one.stderr.read()), (0, 300 << 20, b"", b"done"))


def test_500_short_runs_keep_their_last_line(t):
    bad = []

    def some(first):
        for n in range(first, 500, 4):
            result = into(t, "box", "sh", "-c", f"echo first; echo -n last {n}; echo -n error {n} >&2",
                          timeout=120)
            if (result.code, result.out, result.err) != (
                    0, b"first\nlast %d" % n, b"error %d" % n):
                bad.append(str(result))
    threads = [threading.Thread(target=some, args=(n,)) for n in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    equal(bad, [], "those that lost something")


def test_50_short_containers_keep_their_last_line(t):
    for n in range(50):
        result = t.home.run(t.box, BUSYBOX, "sh", "-c", f"echo first; echo -n last {n}")
        equal(result.out, b"first\nlast %d" % n, f"{result}")


def test_32_at_once_and_one_that_nobody_reads(t):
    full = t.home.start("sandbox", "exec", t.box, "box", "sh", "-c", "echo full; yes")
    equal(full.stdout.readline(), b"full\n", "control: it writes")
    script = "i=0; while [ $i -lt 200 ]; do echo {0} line $i; i=$((i+1)); done; exit {0}"
    some = [t.home.start("sandbox", "exec", t.box, "box", "sh", "-c", script.format(n))
            for n in range(32)]
    try:
        for n, one in enumerate(some):
            out, err = one.communicate(timeout=120)
            equal((one.returncode, err), (n, b""), f"number {n}")
            equal(out, b"".join(b"%d line %d\n" % (n, i) for i in range(200)), f"output of {n}")
        check(full.poll() is None and select.select([full.stdout], [], [], 5)[0],
              "the one that waits is still there")
    finally:
        for one in [full, *some]:
            one.kill()
            one.communicate()


def test_both_streams_are_exact(t):
    code = ("import sys, hashlib\nb = bytes(range(256)) * 4000 + b'\\r\\n\\0no end of line'\n"
            "sys.stdout.buffer.write(b); sys.stderr.buffer.write(b[::-1])")
    every = bytes(range(256)) * 4000 + b"\r\n\0no end of line"
    result = into(t, "py", "python3", "-c", code, timeout=120)
    equal((hashlib.sha256(result.out).hexdigest(), hashlib.sha256(result.err).hexdigest()),
          (hashlib.sha256(every).hexdigest(), hashlib.sha256(every[::-1]).hexdigest()))


def test_the_containers_are_as_they_were(t):
    rows = {r["name"]: r["state"] for r in t.home.rows("sandbox", "ps", "-a", t.box)}
    equal(rows, {"box": "running", "py": "running"})
    check(re.search(r"\d", into(t, "box", "sh", "-c", "ls -d /proc/[0-9]* | wc -l").text), "it answers")
