# SPDX-License-Identifier: Apache-2.0
"""The CrewAI example with the real package: installed once into a virtual environment, which is kept
under ~/.cache/kosa8, keyed by the example's requirements."""
import hashlib
import json
import os
import subprocess
import sys

from harness import PYTHON, ROOT, check, equal

SANDBOX = True
SLOW = 300
EXAMPLE = os.path.join(ROOT, "examples/crewai")


def environment():
    """The python of the virtual environment, made when it is missing."""
    given = os.environ.get("KOSA8_E2E_VENV")
    if given:
        return os.path.join(given, "bin/python")
    requirements = os.path.join(EXAMPLE, "requirements.txt")
    with open(requirements, "rb") as f:
        key = hashlib.sha256(f.read() + sys.version.encode()).hexdigest()[:16]
    cache = os.environ.get("XDG_CACHE_HOME") or os.path.expanduser("~/.cache")
    folder = os.path.join(cache, "kosa8/crewai", key)
    if not os.path.exists(os.path.join(folder, "complete")):
        subprocess.run([sys.executable, "-m", "venv", "--clear", folder], check=True)
        subprocess.run([os.path.join(folder, "bin/pip"), "install", "-q", "-r", requirements],
                       check=True)
        open(os.path.join(folder, "complete"), "w").close()
    return os.path.join(folder, "bin/python")


def setup(t):
    t.python = environment()
    t.home("sandbox", "pull", t.box, PYTHON)
    t.home("checkpoint", t.box, "--label", "clean")


def crew(t, case):
    """The outcome of a case of crew_checks.py. No network: every proxy is a closed door."""
    closed = "http://127.0.0.1:9"
    env = {**t.home.env, "KOSA8_SANDBOX": t.box, "KOSA8_EXAMPLE": EXAMPLE, "HOME": t.folder,
           "HTTP_PROXY": closed, "HTTPS_PROXY": closed, "http_proxy": closed, "https_proxy": closed,
           "CREWAI_STORAGE_DIR": os.path.join(t.folder, "crewai")}
    for name in ("OPENAI_API_KEY", "KOSA8_REGISTRY_MIRROR"):
        env.pop(name, None)
    script = os.path.join(ROOT, "tests/e2e/crewai/crew_checks.py")
    done = subprocess.run([t.python, script, case], env=env, capture_output=True, text=True,
                          stdin=subprocess.DEVNULL, timeout=120)
    check(done.returncode == 0, f"{case}: exit {done.returncode}\n{done.stdout[-2000:]}\n"
          f"{done.stderr[-3000:]}")
    return json.loads(done.stdout.splitlines()[-1])


def test_the_answer_comes_back_in_the_crews_result(t):
    outcome = crew(t, "answer")
    equal(outcome["answer"], "42")
    equal(outcome["calls"], 2, "the model was asked twice: to call the tool, and after its answer")
    with open(os.path.join(t.home.path, "audit/log.jsonl")) as f:
        check("print(6*7)" in f.read(), "the code ran in the sandbox: it is in the record")


def test_an_error_in_the_code_comes_back_as_text(t):
    answer = crew(t, "error")["answer"]
    for part in ("exit code 1", "before", "ValueError: no such luck"):
        check(part in answer, f"'{part}' in {answer!r}")


def test_a_timeout_leaves_nothing_running(t):
    outcome = crew(t, "timeout")
    check("no result after" in outcome["answer"], f"{outcome}")
    equal(outcome["during"], "grows", "control: the code did run")
    equal(outcome["after"], "still", "after the timeout")


def test_a_rewind_between_two_tasks_clears_what_the_first_left(t):
    equal(crew(t, "rewind")["answers"], ["left", "clean"])
