# SPDX-License-Identifier: Apache-2.0
"""Containers that stay: started detached, looked at, entered, ended, removed, rewound."""
import re
import signal
import subprocess
import time

from harness import BUSYBOX, PYTHON, check, equal, wait_for

SANDBOX = True
SLOW = 360
TICK = "i=0; while :; do echo out $i; echo err $i >&2; i=$((i+1)); usleep 200000; done"


def detached(t, name, *command, image=BUSYBOX, flags=()):
    told = t.home("sandbox", "run", "-d", "--name", name, *flags, t.box, image, *command)
    check(re.fullmatch(r"[a-z0-9]{12}\n", told.text) and not told.err, f"the id and no more: {told}")
    return told.text.strip()


def row(t, name):
    return next((r for r in t.home.rows("sandbox", "ps", "-a", t.box) if name in (r["name"], r["id"])), None)


def remove(t, *names):
    t.home("sandbox", "rm", "--force", *[f"{t.box}/{name}" for name in names])


def ticking(t):
    """The container that several tests look at: made by the first of them that needs it."""
    one = row(t, "web")
    if one and one["state"] != "running":
        remove(t, "web")
    if not one or one["state"] != "running":
        detached(t, "web", "sh", "-c", TICK)


def logs(t, name, *flags):
    return t.home("sandbox", "logs", *flags, t.box, name)


def test_a_detached_container_goes_on_without_a_client(t):
    began = time.monotonic()
    ident = detached(t, "web", "sh", "-c", TICK)
    check(time.monotonic() - began < 10, "at once")
    equal(row(t, "web")["id"], ident)
    equal((row(t, "web")["state"], row(t, "web")["kept"]), ("running", True))
    wait_for(lambda: b"out 2" in logs(t, "web").out, "it goes on")
    table = t.home("sandbox", "ps", t.box).text.splitlines()
    equal(table[0].split(), ["ID", "NAME", "IMAGE", "COMMAND", "CREATED", "STATUS"])
    check(any(ident in line and "Up " in line for line in table[1:]), f"the table: {table}")
    equal(t.home("sandbox", "ps", "-q", t.box).text.strip(), ident)


def test_names(t):
    ticking(t)
    t.home.refused(125, "web", args=["sandbox", "run", "-d", "--name", "web", t.box, BUSYBOX, "true"])
    t.home.refused(125, "wob", "did you mean web", args=["sandbox", "exec", t.box, "wob", "true"])
    told = t.home.refused(125, "other", args=["sandbox", "exec", t.box, "other", "true"])
    check("mean" not in told.errors, f"control: nothing near: {told}")
    ident = row(t, "web")["id"]
    for ref in ("web", ident, ident[:6]):
        equal(t.home("sandbox", "exec", t.box, ref, "echo", "in").out, b"in\n", ref)


def test_exec_shares_all_of_it(t):
    ticking(t)
    t.home("sandbox", "exec", t.box, "web", "sh", "-c", "echo mine > /etc/only-here")
    equal(t.home("sandbox", "exec", t.box, "web", "cat", "/etc/only-here").out, b"mine\n", "its files")
    check(b"usleep" in t.home("sandbox", "exec", t.box, "web", "ps").out
          or b"echo out" in t.home("sandbox", "exec", t.box, "web", "ps").out, "its processes")
    equal(t.home.sh(t.box, "ls /etc/only-here 2>/dev/null || echo none"), "none", "control: not another's")
    for code, command in ((7, ["sh", "-c", "exit 7"]), (127, ["nope"]), (126, ["/etc/passwd"]),
                          (137, ["sh", "-c", "kill -9 $$"])):
        t.home.exits(code, "sandbox", "exec", t.box, "web", *command)
    result = t.home("sandbox", "exec", "-e", "A=b c", "-w", "/tmp", "-u", "1234:5678", t.box, "web",
                    "sh", "-c", "echo $A; pwd; id -u; id -g")
    equal(result.text, "b c\n/tmp\n1234\n5678\n", "its own place")
    equal(row(t, "web")["state"], "running", "and the container goes on")


def test_logs(t):
    ticking(t)
    wait_for(lambda: b"out 9\n" in logs(t, "web").out, "some lines")
    told = logs(t, "web")
    equal(told.out.splitlines()[:3], [b"out 0", b"out 1", b"out 2"], "stdout from the beginning")
    equal(told.err.splitlines()[:3], [b"err 0", b"err 1", b"err 2"], "stderr apart")
    stamped = logs(t, "web", "-t").text.splitlines()[0]
    check(re.fullmatch(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d+Z out 0", stamped), f"times: {stamped}")
    tail = logs(t, "web", "--tail", "4")
    equal(len(tail.out.splitlines()) + len(tail.err.splitlines()), 4, "--tail")
    later = logs(t, "web", "--since", "1s")
    check(b"out 0\n" not in later.out and later.out, f"--since: {later}")


def test_logs_are_followed(t):
    ticking(t)
    follow = t.home.start("sandbox", "logs", "-f", "--tail", "0", t.box, "web")
    first = follow.stdout.readline()
    check(first.startswith(b"out ") and first != b"out 0\n", f"what is new: {first}")
    follow.send_signal(signal.SIGINT)
    equal(follow.wait(20), 130, "^C")
    follow = t.home.start("sandbox", "logs", "-f", t.box, "web")
    equal(follow.stdout.readline(), b"out 0\n", "what was there")
    waiting = t.home.start("sandbox", "wait", t.box, "web")
    t.home("sandbox", "kill", t.box, "web")
    equal(waiting.wait(20), 137, "wait: how it ended")
    equal(waiting.stdout.read() + waiting.stderr.read(), b"", "and it prints nothing")
    out, err = follow.stdout.read(), follow.stderr.read()  # some of it is in Python's buffer
    equal(follow.wait(20), 0, "follow ends with the container")
    check(out.splitlines()[0] == b"out 1" and err, "with all of it")
    equal(logs(t, "web").out.splitlines()[1:], out.splitlines(), "as the log is afterwards")


def test_an_ended_container_stays_until_it_is_removed(t):
    ticking(t)
    ident = row(t, "web")["id"]
    check(ident in t.home("sandbox", "ps", "-q", t.box).text, "control: it runs")
    t.home("sandbox", "kill", t.box, "web")
    t.home.exits(137, "sandbox", "wait", t.box, "web")
    check(ident not in t.home("sandbox", "ps", "-q", t.box).text, "it does not run")
    one = row(t, "web")
    equal((one["state"], one["how"], one["code"], one["oom"]), ("ended", "signaled", 9, False), "ps -a")
    t.home.exits(137, "sandbox", "wait", t.box, "web")
    for command in (["exec", t.box, "web", "true"], ["attach", t.box, "web"]):
        t.home.refused(125, "web has ended", args=["sandbox", *command])
    equal(t.home("sandbox", "rm", f"{t.box}/web").text, f"{t.box}/web\n")
    equal(row(t, "web"), None, "removed")
    t.home.refused(1, "web", args=["sandbox", "logs", t.box, "web"])


def test_a_running_one_is_not_removed_by_accident(t):
    detached(t, "runs", "sleep", "600")
    t.home.refused(1, "runs", "--force", args=["sandbox", "rm", f"{t.box}/runs"])
    equal(row(t, "runs")["state"], "running")
    remove(t, "runs")
    equal(row(t, "runs"), None)


def test_wait_gives_the_program_s_own_status(t):
    detached(t, "seven", "sh", "-c", "sleep 1; exit 7")
    t.home.exits(7, "sandbox", "wait", t.box, "seven")
    equal((row(t, "seven")["how"], row(t, "seven")["code"]), ("exited", 7))
    remove(t, "seven")


def test_signals(t):
    detached(t, "hup", "sh", "-c", "trap 'echo got hup' HUP; echo ready; while :; do usleep 50000; done")
    wait_for(lambda: b"ready" in logs(t, "hup").out, "ready")
    for name in ("HUP", "SIGHUP", "1"):
        t.home("sandbox", "kill", "-s", name, t.box, "hup")
    wait_for(lambda: b"got hup" in logs(t, "hup").out, "the signal")
    equal(row(t, "hup")["state"], "running")
    remove(t, "hup")


def test_attach(t):
    detached(t, "cat", "sh", "-c", "while read line; do echo got $line; done; exit 4", flags=["-i"])
    one = t.home.start("sandbox", "attach", t.box, "cat", stdin=subprocess.PIPE)
    one.stdin.write(b"a line\n")
    one.stdin.flush()
    equal(one.stdout.readline(), b"got a line\n", "both ways")
    t.home.refused(125, "attached", args=["sandbox", "attach", t.box, "cat"])
    for number in (signal.SIGKILL, signal.SIGTERM, signal.SIGHUP):
        one.send_signal(number)
        one.communicate(timeout=20)
        wait_for(lambda: not row(t, "cat")["attached"], f"the client that got {number} to be gone")
        equal(row(t, "cat")["state"], "running", "it goes on without its client")
        one = t.home.start("sandbox", "attach", t.box, "cat", stdin=subprocess.PIPE)
        one.stdin.write(b"a line\n")
        one.stdin.flush()
        equal(one.stdout.readline(), b"got a line\n", "attached anew")
    one.kill()
    one.communicate()
    wait_for(lambda: not row(t, "cat")["attached"], "the last client to be gone")
    two = t.home.any("sandbox", "attach", t.box, "cat", input=b"again\n")
    equal((two.code, two.out), (4, b"got again\n"), "again, to its end")
    remove(t, "cat")


def test_limits(t):
    detached(t, "few", "sleep", "600", flags=["--pids", "12", "--cpus", "0.25"])
    many = "n=0; while [ $n -lt 40 ]; do sleep 5 & n=$((n+1)); done; echo all"
    check(b"all" not in t.home.any("sandbox", "exec", t.box, "few", "sh", "-c", many).out,
          "a limit of processes holds for exec, too")
    spin = "import time; e = time.monotonic() + 4\nwhile time.monotonic() < e: pass\nprint(time.process_time())"
    whole = float(t.home.python(t.box, spin))
    part = float(t.home("sandbox", "run", "--cpus", "0.25", t.box, PYTHON, "python", "-c", spin).text)
    check(whole > 2, f"control: {whole} s of processor time in 4 s without a limit")
    check(part < 0.45 * whole, f"{part} s with --cpus 0.25, {whole} s without")
    remove(t, "few")


def test_out_of_memory_is_told(t):
    hog = "x = b'x'\nwhile True: x += x"
    detached(t, "hog", "python", "-c", hog, image=PYTHON, flags=["--memory", "64"])
    detached(t, "beside", "sleep", "600", flags=["--memory", "64"])
    waited = t.home.exits(137, "sandbox", "wait", t.box, "hog", timeout=120)
    check("out of memory" in waited.errors, f"wait says why: {waited}")
    check(row(t, "hog")["oom"], "ps --json, too")
    table = t.home("sandbox", "ps", "-a", t.box).text
    check(re.search(r"hog.*Exited \(137\) .* ago, out of memory", table), f"and the table: {table}")
    equal(row(t, "beside")["state"], "running", "its neighbour goes on")
    run = t.home.exits(137, "sandbox", "run", "--memory", "64", t.box, PYTHON, "python", "-c", hog)
    check("out of memory" in run.errors, f"run says it: {run}")
    records = t.home("audit", "ls", "--sandbox", t.box, "--json").text
    check('"oom": true' in records or '"oom":true' in records, "the audit has it")
    remove(t, "hog", "beside")


def test_a_greedy_child_is_not_the_container(t):
    greedy = ["python", "-c", "x = bytearray(300 << 20)"]
    detached(t, "parent", "sh", "-c", "$0 \"$@\"; echo child $?; sleep 600", *greedy, image=PYTHON,
             flags=["--memory", "64"])
    wait_for(lambda: b"child 137" in logs(t, "parent").out, "the child to be ended", 120)
    equal(row(t, "parent")["state"], "running", "the program goes on")
    execed = t.home.exits(137, "sandbox", "exec", t.box, "parent", *greedy)
    check("out of memory" in execed.errors, f"exec says why: {execed}")
    equal(row(t, "parent")["state"], "running", "still")
    t.home("sandbox", "kill", t.box, "parent")
    waited = t.home.exits(137, "sandbox", "wait", t.box, "parent")
    equal((waited.err, row(t, "parent")["oom"]), (b"", False), "somebody's kill is no lack of memory")
    remove(t, "parent")


def test_a_log_is_bounded(t):
    script = "yes 0123456789abcdefghijklmnopqrstuvwxyz0123456789abcdefghijklmnopqrst | head -c 40000000; echo; echo last"
    detached(t, "much", "sh", "-c", script)
    t.home.exits(0, "sandbox", "wait", t.box, "much", timeout=240)
    told = logs(t, "much")
    check(8 << 20 < len(told.out) <= 16 << 20, f"the newest of it: {len(told.out)} bytes")
    check(told.out.endswith(b"\nlast\n"), f"its end: {told.out[-80:]}")
    check("older output is missing" in told.errors, f"and that it is not all: {told.errors}")
    remove(t, "much")


def test_50_follow_one(t):
    detached(t, "one", "sh", "-c", "read x; i=0; while [ $i -lt 40 ]; do echo line $i; usleep 20000; i=$((i+1)); done",
             flags=["-i"])
    many = [t.home.start("sandbox", "logs", "-f", t.box, "one") for _ in range(50)]
    starter = t.home.start("sandbox", "attach", t.box, "one", stdin=subprocess.PIPE)
    starter.communicate(b"go\n", timeout=60)
    want = b"".join(b"line %d\n" % i for i in range(40))
    for one in many:
        out, err = one.communicate(timeout=60)
        equal((one.returncode, out, err), (0, want, b""))
    remove(t, "one")


def test_thousands_of_orphans(t):
    script = ("n=0; while [ $n -lt 2000 ]; do (true &); n=$((n+1)); done; echo done; sleep 600")
    detached(t, "orphans", "sh", "-c", script)
    wait_for(lambda: b"done" in logs(t, "orphans").out or row(t, "orphans")["state"] == "ended",
             "2000 orphans", 300)
    equal((row(t, "orphans")["state"], logs(t, "orphans").err), ("running", b""), "it could make them all")
    wait_for(lambda: t.home("sandbox", "exec", t.box, "orphans", "sh", "-c",
                            "grep -l 'State:.*Z' /proc/[0-9]*/status 2>/dev/null | wc -l").text.strip() == "0",
             "no zombies")
    check(row(t, "orphans")["processes"] < 10, f"processes: {row(t, 'orphans')}")
    remove(t, "orphans")


def test_a_rewind_brings_containers_back(t):
    detached(t, "counts", "sh", "-c", "i=0; while :; do echo $i; i=$((i+1)); usleep 200000; done")
    wait_for(lambda: b"5\n" in logs(t, "counts").out, "it counts")
    t.home("checkpoint", t.box, "--label", "counting")
    remove(t, "counts")
    equal(row(t, "counts"), None, "control: removed")
    detached(t, "later", "sleep", "600")
    t.home("rewind", t.box, "--to", "counting", "--yes")
    equal((row(t, "counts")["state"], row(t, "later")), ("running", None), "as it was then")
    seen = len(logs(t, "counts").out.splitlines())
    check(logs(t, "counts").out.startswith(b"0\n1\n2\n3\n4\n5\n"), "with its log")
    wait_for(lambda: len(logs(t, "counts").out.splitlines()) > seen, "it goes on")
    equal(t.home("sandbox", "exec", t.box, "counts", "echo", "in").out, b"in\n", "exec")
    t.home("sandbox", "kill", t.box, "counts")
    t.home.exits(137, "sandbox", "wait", t.box, "counts")
    remove(t, "counts")


def test_a_stop_is_told_afterwards(t):
    detached(t, "was", "sleep", "600")
    t.home("sandbox", "stop", t.box)
    t.home.refused(1, "stopped", "sandbox start", args=["sandbox", "ps", t.box])
    t.home("sandbox", "start", t.box)
    one = row(t, "was")
    equal((one["state"], one["how"]), ("ended", "lost"), "ps -a after the start")
    check("Lost" in t.home("sandbox", "ps", "-a", t.box).text, "and the table")
    check("how=lost" in t.home("audit", "ls", "--sandbox", t.box).text, "and the audit")
    t.home.refused(125, "lost", args=["sandbox", "wait", t.box, "was"])
    remove(t, "was")


def test_a_client_killed_before_it_has_detached(t):
    """An id that nobody was told belongs to nothing that runs."""
    for _ in range(3):
        one = t.home.start("sandbox", "run", "-d", "--name", "fast", t.box, BUSYBOX, "sleep", "600")
        one.kill()
        one.communicate()
        left = row(t, "fast")
        if left:
            equal(left["state"], "running", "whole, or not at all")
            remove(t, "fast")
