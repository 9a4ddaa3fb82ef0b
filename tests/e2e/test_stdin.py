# SPDX-License-Identifier: Apache-2.0
"""stdin: /dev/null unless asked for; then exact, with its end."""
import os
import subprocess

from harness import BUSYBOX, PYTHON, check, equal

SANDBOX = True


def held_open(t, *args, **more):
    """Runs with a stdin that nobody writes to and nobody closes."""
    read, write = os.pipe()
    try:
        return t.home.any("sandbox", "run", *args, stdin=read, **more)
    finally:
        os.close(read)
        os.close(write)


def test_a_stdin_held_open_does_not_hold_the_run(t):
    result = held_open(t, t.box, BUSYBOX, "echo", "hi")
    equal((result.code, result.out), (0, b"hi\n"))
    check(result.seconds < 2, f"at once: {result}")


def test_a_stdin_held_open_does_not_hold_an_interactive_run(t):
    result = held_open(t, "-i", t.box, BUSYBOX, "echo", "hi")
    equal((result.code, result.out), (0, b"hi\n"))
    check(result.seconds < 2, f"at once: {result}")


def test_timeout_with_stdin_held_open(t):
    result = held_open(t, "--timeout", "2s", t.box, BUSYBOX, "sleep", "99")
    equal(result.code, 124, f"{result}")
    check(1.5 < result.seconds < 4, f"after two seconds: {result}")


def test_without_i_stdin_is_empty(t):
    result = t.home.run(t.box, BUSYBOX, "wc", "-c", input=b"not for you")
    equal(result.text.strip(), "0")


def test_with_i_stdin_is_exact(t):
    result = t.home("sandbox", "run", "-i", t.box, BUSYBOX, "wc", "-c", input=b"\0\1\2\xff")
    equal(result.text.strip(), "4")
    every = bytes(range(256)) * 4096 * 8
    result = t.home("sandbox", "run", "-i", t.box, BUSYBOX, "cat", input=every, timeout=60)
    check(result.out == every, f"8 MB through cat: {len(result.out)} bytes came back")


def test_with_i_the_end_of_stdin_arrives(t):
    result = t.home("sandbox", "run", "-i", t.box, PYTHON, "python", "-c",
                    "import sys; print(len(sys.stdin.read()))", input=b"")
    equal(result.text.strip(), "0")


def test_a_program_that_does_not_read_its_stdin(t):
    result = t.home("sandbox", "run", "-i", t.box, BUSYBOX, "true", input=b"x" * 5000000)
    check(result.seconds < 10, f"ends all the same: {result}")


def test_output_does_not_wait_for_background_children(t):
    result = t.home.run(t.box, BUSYBOX, "sh", "-c", "sleep 60 & echo done")
    equal(result.out, b"done\n")
    check(result.seconds < 3, f"the first process's end is the run's end: {result}")


def test_interactive_exchange(t):
    process = t.home.start("sandbox", "run", "-i", t.box, BUSYBOX, "cat", stdin=subprocess.PIPE)
    for line in (b"one\n", b"two\n"):
        process.stdin.write(line)
        process.stdin.flush()
        equal(process.stdout.readline(), line, "the answer comes before the end of stdin")
    process.stdin.close()
    equal(process.wait(20), 0)
    process.stdout.close()
    process.stderr.close()
