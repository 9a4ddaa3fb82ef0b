# SPDX-License-Identifier: Apache-2.0
"""The guide, word for word, in an empty state directory and once more in the same one."""
import os
import shlex
import subprocess

from harness import PYTHON, ROOT, check, equal, wait_for

HOME = "own"
SLOW = 200


def guide_lines():
    with open(os.path.join(ROOT, "tools/guide.txt")) as f:
        return f.read().splitlines()


def walk(t):
    """Types the lines into a shell; returns {line: what it printed}."""
    said = {}
    for line in guide_lines():
        done = subprocess.run(["bash", "-c", line], env=t.home.env, stdin=subprocess.DEVNULL,
                              capture_output=True, text=True, timeout=150)
        check(done.returncode == 0, f"$ {line}\nexit {done.returncode}\n{done.stdout}\n{done.stderr}")
        said[line] = done.stdout
    return said


def test_every_line_from_an_empty_home(t):
    t.boxes.append("code-runner")
    check(not os.path.exists(t.home.path), "control: the state directory is not there yet")
    said = walk(t)
    run, = [out for line, out in said.items() if "sandbox run" in line]
    equal(run, "42\n", "what the run printed")
    listing, = [out for line, out in said.items() if line.endswith("audit ls")]
    for action in ("create", "pull", "checkpoint", "run", "rewind"):
        check(action in listing, f"'{action}' is in the audit listing:\n{listing}")


def test_home_is_private(t):
    equal(os.stat(t.home.path).st_mode & 0o777, 0o700, "mode of the state directory")


def test_sandbox_goes_on_after_the_guide(t):
    equal(t.home.state("code-runner"), "running")
    equal(t.home.python("code-runner", "print(6*7)"), "42")


def test_listings_are_tables_and_json(t):
    for command in (["sandbox", "ls"], ["sandbox", "images", "code-runner"], ["image", "ls"],
                    ["checkpoint", "ls", "code-runner"], ["audit", "ls"]):
        table = t.home(*command)
        lines = table.text.splitlines()
        check(len(lines) >= 2 and lines[0] == lines[0].upper(), f"a header and rows: {table}")
        check("\033" not in table.text, f"no colour into a pipe: {table}")
        check(len(t.home.rows(*command)) == len(lines) - 1 or command[0] == "audit",
              f"as many objects as rows: {table}")


def test_every_line_again_in_the_same_home(t):
    t.home("sandbox", "rm", "--force", "code-runner")
    said = walk(t)
    run, = [out for line, out in said.items() if "sandbox run" in line]
    equal(run, "42\n", "what the run printed")


def test_the_second_sandbox_of_a_size_is_quick(t):
    t.home("image", "ls")
    result = t.home("sandbox", "create", "second", "--memory", "2048")
    t.boxes.append("second")
    check(result.seconds < 3, f"from the cached template: {result}")
    t.remove("second")


def test_inspect_shows_what_was_asked_for(t):
    live = t.home.inspect("code-runner")
    text = str(live).lower()
    for word in ("2048", "deny", "code-runner", "running"):
        check(word in text, f"'{word}' in {live}")


def test_version_and_doctor(t):
    check("0.1.0" in t.home("version").text, "the version says which")
    told = t.home("doctor")
    check("qemu" in told.text.lower(), f"doctor checks QEMU: {told}")


def test_the_lines_are_those_of_the_readme(t):
    path = os.path.join(ROOT, "README.md")
    if not os.path.exists(path):
        return  # an installed copy has no README beside it
    with open(path) as f:
        readme = f.read()
    for line in guide_lines():
        check(line in readme, f"the README has the line: {line}")
        check(shlex.split(line)[0] == "kosa8", f"a kosa8 command: {line}")


def test_stop_and_start(t):
    t.home.run("code-runner", PYTHON, "python", "-c", "open('/workspace/kept', 'w').write('yes')")
    t.home("sandbox", "stop", "code-runner")
    equal(t.home.state("code-runner"), "stopped")
    t.home.refused(125, "stopped", "start",
                   args=["sandbox", "run", "code-runner", PYTHON, "python", "-c", "1"])
    t.home("sandbox", "start", "code-runner")
    wait_for(lambda: t.home.state("code-runner") == "running", "running again")
    equal(t.home.python("code-runner", "print(open('/workspace/kept').read())"), "yes")
