# SPDX-License-Identifier: Apache-2.0
"""What a run gives its program, and what it gives back."""
import hashlib
import os
import subprocess
import threading

from harness import BUSYBOX, KOSA8, PYTHON, check, equal

SANDBOX = True
SLOW = 180
REGISTRY = os.environ.get("KOSA8_E2E_REGISTRY", "")
SCRATCH = f"{REGISTRY}/test/scratch"
CONFIG = f"{REGISTRY}/test/config"
AWKWARD = ["a b", "$HOME", "x'y", "", "*", "n\nl"]


def test_arguments_arrive_exactly(t):
    result = t.home.run(t.box, SCRATCH, "/fixture", "argv", *AWKWARD)
    equal(result.out.split(b"\0"), [a.encode() for a in AWKWARD] + [b""], "arguments")
    result = t.home.run(t.box, SCRATCH, "/fixture", "argv", os.fsdecode(b"\xff not \xfe text"))
    equal(result.out, b"\xff not \xfe text\0", "bytes that are no text")
    equal(len(t.home.run(t.box, SCRATCH, "/fixture", "argv", "x" * 120000).out), 120001, "a long one")


def test_flags_after_the_image_belong_to_the_command(t):
    result = t.home.run(t.box, SCRATCH, "/fixture", "argv", "--timeout", "1s", "-i", "--", "--json")
    equal(result.out, b"--timeout\x001s\0-i\0--\0--json\0")


def test_a_run_pulls_an_image_that_is_not_there(t):
    fresh = t.create("pulls")
    equal(t.home.run(fresh, SCRATCH).out, b"default\0", "what the image's Cmd printed")
    t.remove(fresh)


def test_exit_codes(t):
    for code in (0, 3, 124, 255):
        t.home.exits(code, "sandbox", "run", t.box, SCRATCH, "/fixture", "exit", code)
    for number in (9, 15, 11):
        t.home.exits(128 + number, "sandbox", "run", t.box, SCRATCH, "/fixture", "signal", number)


def test_command_not_found(t):
    t.home.refused(127, "nope", args=["sandbox", "run", t.box, SCRATCH, "nope"])
    t.home.refused(127, "/no/such", args=["sandbox", "run", t.box, BUSYBOX, "/no/such"])


def test_command_not_executable(t):
    for path in ("/plain", "/text"):
        t.home.refused(126, path, args=["sandbox", "run", t.box, SCRATCH, path])


def test_wrong_user_and_workdir_are_named(t):
    t.home.refused(125, "nosuchuser",
                   args=["sandbox", "run", "-u", "nosuchuser", t.box, BUSYBOX, "true"])
    t.home.exits(0, "sandbox", "run", "-w", "/tmp", t.box, BUSYBOX, "true")
    t.home.refused(125, "/etc/passwd",
                   args=["sandbox", "run", "-w", "/etc/passwd", t.box, BUSYBOX, "true"])


def test_image_configuration(t):
    result = t.home.run(t.box, CONFIG)
    lines = result.text.splitlines()
    equal(lines[0], "entry|one|two words|", "entrypoint and command")
    check(lines[1].startswith("uid=1000(app) gid=1000(app)"), f"user: {lines[1]}")
    check("44(video)" in lines[1], f"supplementary groups: {lines[1]}")
    equal(lines[2:], ["/srv/app", "hello world"], "workdir and environment")


def test_flags_override_the_image(t):
    result = t.home("sandbox", "run", "-u", "0:0", "-w", "/tmp", "-e", "GREETING=other", t.box,
                    CONFIG, "x")
    lines = result.text.splitlines()
    equal(lines[0], "entry|x|")
    check(lines[1].startswith("uid=0(root) gid=0(root)"), f"user: {lines[1]}")
    equal(lines[2:], ["/tmp", "other"])
    bare = t.home("sandbox", "run", "--entrypoint", "", "-u", "1234:5678", t.box, CONFIG, "id")
    check("uid=1234 gid=5678" in bare.text, f"numeric user: {bare}")


def test_scratch_image_without_shell_and_passwd(t):
    result = t.home("sandbox", "run", "-u", "1234:5678", t.box, SCRATCH, "/fixture", "id")
    equal(result.text, "1234 5678 /\n")
    env = t.home("sandbox", "run", "-e", "A=b c", t.box, SCRATCH, "/fixture", "env").out.split(b"\0")
    check(b"A=b c" in env, f"environment: {env}")
    check(any(e.startswith(b"PATH=") for e in env), f"PATH has a default: {env}")


def test_sandbox_environment(t):
    box = t.create("env", "--env", "FROM_SANDBOX=1", "--env", "BOTH=sandbox")
    result = t.home("sandbox", "run", "-e", "BOTH=run", box, SCRATCH,
                    "/fixture", "env")
    check(b"FROM_SANDBOX=1\0" in result.out and b"BOTH=run\0" in result.out, f"{result}")
    t.remove(box)


def test_stdout_and_stderr_stay_apart_and_exact(t):
    every = bytes(range(256)) * 200 + b"\r\n\0no end of line"
    code = ("import sys; b = bytes(range(256)) * 200 + b'\\r\\n\\0no end of line';"
            "sys.stdout.buffer.write(b); sys.stderr.buffer.write(b[::-1])")
    result = t.home.run(t.box, PYTHON, "python", "-c", code)
    equal(result.out, every, "stdout")
    equal(result.err, every[::-1], "stderr")


def test_300_mb_in_one_line_to_a_slow_reader(t):
    """The reader stops in the middle: the writer has to wait, nothing may be lost or pile up."""
    code = ("import sys\nfor _ in range(300): sys.stdout.buffer.write(b'x' * (1 << 20))\n"
            "sys.stderr.write('done')")
    process = t.home.start("sandbox", "run", t.box, PYTHON, "python", "-c", code)
    try:
        read = process.stdout.read(1 << 20)
        wait_until_idle(process.pid)
        with open(f"/proc/{process.pid}/status") as f:
            resident = next(int(line.split()[1]) for line in f if line.startswith("VmRSS"))
        check(resident < 64 * 1024, f"the client holds {resident} kB while its reader is slow")
        count, wrong = len(read), read.strip(b"x")
        while chunk := process.stdout.read(1 << 20):
            count += len(chunk)
            wrong += chunk.strip(b"x")
        error = process.stderr.read()
        equal((process.wait(60), count, wrong, error), (0, 300 << 20, b"", b"done"),
              "exit, bytes, others, stderr")
    finally:
        process.kill()
        process.wait()


def wait_until_idle(pid):
    """Until the client's processor time has not grown for a third of a second: it is blocked."""
    import time
    from harness import wait_for

    def ticks():
        with open(f"/proc/{pid}/stat") as f:
            return f.read().rsplit(")", 1)[1].split()[11:13]

    def idle():
        before = ticks()
        time.sleep(0.3)
        return ticks() == before
    wait_for(idle, "the client to be blocked by its reader", 60)


def test_a_closed_pipe_ends_the_run(t):
    script = (f"'{KOSA8}' sandbox run {t.box} {BUSYBOX} sh -c 'while :; do echo y; echo $$ > "
              "/workspace/piped; done' | head -n 1")
    done = subprocess.run(["bash", "-c", script], env=t.home.env, stdin=subprocess.DEVNULL,
                          capture_output=True, timeout=30)
    equal(done.stdout, b"y\n")
    left = t.home.sh(t.box, "for i in 1 2 3 4 5 6 7 8 9 10; do a=$(stat -c %Y%Z /workspace/piped); "
                     "usleep 200000; done; c=$(cat /workspace/piped); rm /workspace/piped; "
                     "usleep 500000; test -e /workspace/piped && echo runs || echo ended; : $a $c")
    equal(left, "ended", "the writer, after its reader went away")


def test_eight_runs_at_once(t):
    results = {}

    def one(n):
        code = ("import hashlib, sys; d = bytes([%d]) * 2000000; sys.stdout.buffer.write(d);"
                "sys.exit(%d)" % (65 + n, n))
        results[n] = t.home.any("sandbox", "run", t.box, PYTHON, "python", "-c", code, timeout=100)
    threads = [threading.Thread(target=one, args=(n,)) for n in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    for n in range(8):
        equal(results[n].code, n, f"exit of run {n}: {results[n].err!r}")
        equal(hashlib.sha256(results[n].out).hexdigest(),
              hashlib.sha256(bytes([65 + n]) * 2000000).hexdigest(), f"output of run {n}")


def test_orphans_are_reaped(t):
    script = ("n=0; while [ $n -lt 20 ]; do (true &); n=$((n+1)); done; usleep 300000; "
              "grep -l 'State:.*Z' /proc/[0-9]*/status 2>/dev/null | wc -l")
    equal(t.home.sh(t.box, script), "0", "zombies among the run's processes")


def test_workspace_is_kept_between_runs(t):
    t.home.sh(t.box, "mkdir -p /workspace/d; echo kept > /workspace/d/f; echo lost > /etc/f")
    equal(t.home.sh(t.box, "cat /workspace/d/f; cat /etc/f 2>/dev/null || echo clean"),
          "kept\nclean", "the workspace and the image's own files in the next run")
    equal(t.home.python(t.box, "print(open('/workspace/d/f').read().strip())"), "kept",
          "the workspace from another image")


def test_a_process_sees_its_run_only(t):
    names = t.home.sh(t.box, "cat /proc/[0-9]*/comm | sort -u | tr '\\n' ' '")
    check("kosa8-agent" not in names, f"processes seen in the container: {names}")
    pids = t.home.sh(t.box, "ls -d /proc/[0-9]* | wc -l")
    check(int(pids) < 8, f"{pids} processes in a fresh container")


def test_memory_and_process_limits(t):
    hog = "x = bytearray(200 << 20); print('survived')"
    equal(t.home.python(t.box, hog), "survived", "control: without a limit")
    t.home.exits(137, "sandbox", "run", "--memory", "64", t.box, PYTHON, "python", "-c", hog)
    many = "n=0; while [ $n -lt 40 ]; do sleep 5 & n=$((n+1)); done; echo all"
    equal(t.home.sh(t.box, many), "all", "control: without a limit")
    result = t.home.any("sandbox", "run", "--pids", "10", t.box, BUSYBOX, "sh", "-c", many)
    check("all" not in result.text, f"40 processes with a limit of 10: {result}")
