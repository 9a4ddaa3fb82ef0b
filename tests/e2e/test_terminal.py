# SPDX-License-Identifier: Apache-2.0
"""A terminal, driven as a person does: editors, keys, sizes, leaving and coming back."""
import os
import signal

from harness import BUSYBOX, PYTHON, check, equal, kill, supervisor_of, wait_for
from terminals import Terminal

SANDBOX = True
SLOW = 180
REGISTRY = os.environ.get("KOSA8_E2E_REGISTRY", "")
SCRATCH = f"{REGISTRY}/test/scratch"
INTERRUPT, SUSPEND, END, ESCAPE, LEAVE = b"\x03", b"\x1a", b"\x04", b"\x1b", b"\x10\x11"


def on(t, *command, flags=(), **more):
    return Terminal(t.home, "sandbox", "run", "-it", *flags, t.box, *command, **more)


def sh(t, script, **more):
    return on(t, BUSYBOX, "sh", "-c", script, **more)


def test_the_size_is_there_before_the_first_instruction(t):
    with on(t, BUSYBOX, "stty", "size") as one:
        check(b"37 111\r\n" in one.end(), "a program that is short-lived")
    with on(t, BUSYBOX, "tty") as one:
        check(b"/dev/" in one.end(), "it is a terminal by its name")


def test_what_the_terminal_can_is_passed_on(t):
    with sh(t, "echo $TERM $COLORTERM; printf '\\033[38;5;208mx\\n'", env={"COLORTERM": "truecolor"}) as one:
        out = one.end()
    check(b"xterm-256color truecolor\r\n" in out, "TERM and COLORTERM")
    check(b"\x1b[38;5;208mx" in out, "256 colours pass unchanged")


def test_a_new_size_follows(t):
    with sh(t, "trap 'stty size' WINCH; echo ready; while :; do usleep 50000; done") as one:
        one.expect("ready")
        one.resize(50, 120)
        one.expect("50 120\r\n")
        one.resize(20, 60)
        one.expect("20 60\r\n")
        one.type(INTERRUPT)
        one.end(130)


def test_keys_of_a_shell(t):
    with on(t, BUSYBOX, "sh") as one:
        one.type("echo rea''dy\r")
        one.expect("ready\r\n")
        one.type("sh -c 'echo be''gins; exec sleep 99'\r")
        one.expect("begins\r\n")
        one.type(INTERRUPT)
        one.type("echo af''ter\r")
        one.expect("after\r\n")
        one.type("sh -c 'echo be''gins; exec sleep 98'\r")
        one.expect("begins\r\n")
        one.type(SUSPEND)
        one.expect("topped")
        one.type("jobs\r")
        one.expect("topped")
        one.type("kill -9 %1\r")
        one.expect("/ # ")
        one.type("exit 7\rexit 7\r")  # the first one may warn of the stopped job
        one.end(7)
    with on(t, BUSYBOX, "cat") as one:
        one.type("typed\r")
        one.expect("typed\r\n")
        one.expect("typed\r\n")
        one.type(END)
        one.end()


def test_vi(t):
    with on(t, BUSYBOX, "vi", "/workspace/written") as one:
        one.expect(ESCAPE + b"[")
        one.expect("written")
        one.type("ihello from vi")
        one.expect("hello from vi")
        one.type(ESCAPE)
        one.expect("[Modified]")  # else it would be one key with what follows
        one.type(":wq\r")
        one.end()
    equal(t.home.sh(t.box, "cat /workspace/written"), "hello from vi", "the file")


def test_top(t):
    with on(t, BUSYBOX, "top") as one:
        one.expect("Mem:")
        one.expect("COMMAND")
        one.expect("top")
        one.type("q")
        one.end()


def test_a_python_prompt(t):
    with on(t, PYTHON, "python") as one:
        one.expect(">>> ", 120)
        one.type("6*7\r")
        one.expect("42\r\n")
        one.type("import os; os.get_terminal_size()\r")
        one.expect("columns=111, lines=37")
        one.type("while True: pass\r\r")
        one.expect("... ")
        one.type(INTERRUPT)
        one.expect("KeyboardInterrupt")
        one.expect(">>> ")
        one.type("exit(6)\r")
        one.end(6)
    with on(t, PYTHON, "python") as one:
        one.expect(">>> ", 120)
        one.type(END)
        one.end()


def test_leaving_and_coming_back(t):
    with on(t, BUSYBOX, "sh", flags=["--name", "stays"]) as one:
        one.type("x=kept; echo rea''dy\r")
        one.expect("ready\r\n")
        one.type(LEAVE)
        check(b"sandbox attach" in one.end(0), "how to come back")
    equal([r["state"] for r in t.home.rows("sandbox", "ps", t.box) if r["name"] == "stays"],
          ["running"], "it goes on")
    with Terminal(t.home, "sandbox", "attach", t.box, "stays", rows=24, columns=80) as one:
        wait_for(one.is_raw, "the terminal to be taken")
        one.type("echo $x; stty size\r")
        one.expect("kept\r\n")
        one.expect("24 80\r\n")
        one.type("exit 9\r")
        one.end(9)
    t.home("sandbox", "rm", f"{t.box}/stays")


def test_another_program_in_it(t):
    t.home("sandbox", "run", "-d", "--name", "host", t.box, BUSYBOX, "sleep", "600")
    with Terminal(t.home, "sandbox", "exec", "-it", t.box, "host", "sh") as one:
        one.type("stty size; echo do''ne\r")
        one.expect("37 111\r\n")
        one.expect("done\r\n")
        one.type(END)
        one.end()
    t.home("sandbox", "rm", "--force", f"{t.box}/host")


def test_a_shell_in_one_step(t):
    with Terminal(t.home, "sandbox", "shell", t.box, BUSYBOX) as one:
        one.type("pwd; echo $TERM; exit 3\r")
        one.expect("/workspace\r\n")
        one.expect("xterm-256color\r\n")
        one.end(3)
    with Terminal(t.home, "sandbox", "shell", t.box, PYTHON) as one:
        one.type("echo ${BASH_VERSION:+is bash}; command -v python3 >/dev/null && echo fo''und; exit\r")
        one.expect("is bash\r\n", 120)
        one.expect("found\r\n")
        one.end()
    piped = t.home("sandbox", "shell", t.box, BUSYBOX, input=b"pwd\necho out; echo err >&2\n")
    equal((piped.out, piped.err), (b"/workspace\nout\n", b"err\n"), "without a terminal")
    t.home.refused(127, "no /bin/sh", args=["sandbox", "shell", t.box, SCRATCH])


def test_a_slow_terminal_loses_nothing(t):
    """Nobody reads for a while: the program waits."""
    with sh(t, "i=0; while [ $i -lt 20000 ]; do echo line $i of many; i=$((i+1)); done") as one:
        one.expect("line 0 of many")
        out = one.end(seconds=150)
    lines = [line for line in out.split(b"\r\n") if line.startswith(b"line")]
    equal(lines, [b"line %d of many" % i for i in range(20000)], "lines")


def test_a_killed_client_ends_it(t):
    with sh(t, "echo ready; while :; do echo >> /workspace/ticks; usleep 100000; done") as one:
        one.expect("ready")
        wait_for(lambda: int(t.home.sh(t.box, "wc -c < /workspace/ticks")) > 0, "control: it ticks")
        one.process.send_signal(signal.SIGKILL)
        one.process.wait()
        same = ("a=$(wc -c < /workspace/ticks); sleep 1; b=$(wc -c < /workspace/ticks); "
                "[ $a = $b ] && echo still || echo grows")
        wait_for(lambda: t.home.sh(t.box, same) == "still", "its end")


def test_a_killed_supervisor_gives_the_terminal_back(t):
    box = t.create("dies")
    with Terminal(t.home, "sandbox", "run", "-it", box, BUSYBOX, "sh") as one:
        one.type("echo rea''dy\r")
        one.expect("ready\r\n")
        check(one.is_raw(), "control: it is taken")
        kill(supervisor_of(t.home, box))
        check(b"ended unexpectedly" in one.end(125), "and it is said")
    t.remove(box)
