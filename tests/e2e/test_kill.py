# SPDX-License-Identifier: Apache-2.0
"""A timeout or the client's death ends all that the run started; it did run before."""
import os
import signal
import subprocess
import time

from harness import BUSYBOX, check, equal, wait_for

SANDBOX = True
# Writes to FILE five times a second from a session of its own, beside a sleeping first process.
TICKER = ("echo partial; setsid sh -c 'while :; do echo x >> /workspace/{0}; usleep 200000; done' & "
          "sleep 99")


def size(t, name):
    return int(t.home.sh(t.box, f"stat -c %s /workspace/{name} 2>/dev/null || echo 0"))


def still(t, name):
    """Whether the file has stopped growing: looked at twice, a second apart, inside the sandbox."""
    return t.home.sh(t.box, f"a=$(stat -c %s /workspace/{name}); usleep 1000000; "
                     f"b=$(stat -c %s /workspace/{name}); [ $a = $b ] && echo still || echo grows")


def running(t, word):
    """Processes of the whole sandbox cannot be seen from a container; what can: does it tick?"""
    return still(t, word)


def test_timeout_kills_the_tree(t):
    run = t.background(t.box, BUSYBOX, "sh", "-c", TICKER.format("t1"), flags=["--timeout", "5s"])
    began = time.monotonic()
    run.wait_output(b"partial")
    wait_for(lambda: size(t, "t1") > 0, "control: it ticks before the timeout")
    equal(still(t, "t1"), "grows", "control: before the timeout")
    code = run.wait(20)
    equal((code, bytes(run.out)), (124, b"partial\n"), "exit and output after the timeout")
    check(4.5 < time.monotonic() - began < 9, "it ended at its time")
    check(b"timeout" in run.err.lower() or b"timed out" in run.err.lower() or b"5" in run.err,
          f"stderr says that it was the timeout: {bytes(run.err)!r}")
    equal(still(t, "t1"), "still", "after the timeout")


def test_a_timeout_is_told_from_a_program_that_exits_124(t):
    own = t.home.exits(124, "sandbox", "run", "--timeout", "20s", t.box, BUSYBOX, "sh", "-c",
                       "exit 124")
    equal(own.err, b"", "stderr of a program's own 124")
    ours = t.home.exits(124, "sandbox", "run", "--timeout", "500ms", t.box, BUSYBOX, "sleep", "99")
    check(ours.errors.startswith("kosa8: "), f"a timeout says so: {ours}")


def test_a_killed_client_kills_the_tree(t):
    run = t.background(t.box, BUSYBOX, "sh", "-c", TICKER.format("t2"))
    run.wait_output(b"partial")
    wait_for(lambda: size(t, "t2") > 0, "control: it ticks")
    equal(still(t, "t2"), "grows", "control: while the client lives")
    os.kill(run.process.pid, signal.SIGKILL)
    run.process.wait()
    equal(still(t, "t2"), "still", "after the client was killed")


def test_a_python_caller_with_a_timeout(t):
    """subprocess.run(timeout=...) kills the client and nothing else."""
    import subprocess
    try:
        subprocess.run(["kosa8", "sandbox", "run", t.box, BUSYBOX, "sh", "-c", TICKER.format("t3")],
                       env=t.home.env, capture_output=True, timeout=4)
        raise AssertionError("it ended by itself")
    except subprocess.TimeoutExpired as e:
        equal(e.stdout, b"partial\n", "what came before the timeout")
    check(size(t, "t3") > 0, "control: it ticked")
    equal(still(t, "t3"), "still", "after the caller gave up")


def test_signals_reach_the_program(t):
    for number, name in ((signal.SIGINT, "INT"), (signal.SIGTERM, "TERM")):
        run = t.background(t.box, BUSYBOX, "sh", "-c",
                           f"trap 'echo got {name}; exit 7' {name}; echo ready; "
                           "while :; do usleep 50000; done")
        run.wait_output(b"ready")
        run.process.send_signal(number)
        code = run.wait(20)
        equal((code, bytes(run.out)), (7, f"ready\ngot {name}\n".encode()), f"after SIG{name}")


def test_the_sandbox_is_as_good_as_before(t):
    equal(t.home.sh(t.box, "echo fine"), "fine")


def test_a_closed_stdout_ends_a_silent_run(t):
    run = t.home.start("sandbox", "run", t.box, BUSYBOX, "sh", "-c", TICKER.format("t9"),
                       stdout=subprocess.PIPE, stderr=subprocess.PIPE)
    equal(run.stdout.readline(), b"partial\n", "control: its one line")
    wait_for(lambda: size(t, "t9") > 0, "control: it ticks")
    equal(still(t, "t9"), "grows", "control: while somebody reads")
    run.stdout.close()
    equal(run.wait(10), 128 + signal.SIGPIPE, "exit of the client")
    run.stderr.close()
    equal(still(t, "t9"), "still", "after the reader went away")


def test_a_fork_bomb_leaves_room_for_others(t):
    bomb = t.background(t.box, BUSYBOX, "sh", "-c", "f() { f | f & }; echo go; f; sleep 60",
                        flags=["--timeout", "40s"])
    bomb.wait_output(b"go")
    for n in range(3):
        equal(t.home.sh(t.box, f"echo {n}", timeout=60), str(n), "another run beside a fork bomb")
    bomb.kill()
