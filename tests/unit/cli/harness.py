# SPDX-License-Identifier: Apache-2.0
"""A state folder of its own, the fake engine in the place of the real one, and TAP output."""
import os
import pty
import shutil
import signal
import subprocess
import sys
import tempfile
import time

COUNT = 0
FAILED = 0


def ok(condition, what, *notes):
    global COUNT, FAILED
    COUNT += 1
    print(f"{'ok' if condition else 'not ok'} {COUNT} - {what}", flush=True)
    if not condition:
        FAILED += 1
        for note in notes:
            print("#", repr(note)[:2000], flush=True)
    return condition


def equal(got, want, what):
    return ok(got == want, what, got, want)


def done():
    print(f"1..{COUNT}")
    return 1 if FAILED else 0


class Result:
    def __init__(self, process):
        self.code = process.returncode
        self.out = process.stdout
        self.err = process.stderr


class World:
    def __init__(self):
        self.program = os.path.abspath(sys.argv[1])
        self.dir = tempfile.mkdtemp(prefix="kosa8-cli-")
        self.home = f"{self.dir}/home"
        libexec = f"{self.dir}/libexec"
        os.mkdir(libexec)
        here = os.path.dirname(os.path.abspath(__file__))
        fake = os.path.join(here, "fake-engine.py")
        shutil.copy(os.path.join(here, "fake_copy.py"), libexec)
        os.symlink(os.path.join(os.path.dirname(self.program), "kosa8-tar"),
                   f"{libexec}/kosa8-tar")
        for name in ("kosa8-supervisor", "kosa8-image", "kosa8-unpack"):
            shutil.copy(fake, f"{libexec}/{name}")
            os.chmod(f"{libexec}/{name}", 0o755)
        self.env = {**os.environ, "KOSA8_HOME": self.home, "KOSA8_LIBEXEC": libexec,
                    "TZ": "UTC", "LC_ALL": "C", "TERM": "xterm"}
        for name in ("KOSA8_ACTOR", "KOSA8_LOG", "KOSA8_FAKE", "NO_COLOR"):
            self.env.pop(name, None)

    def __enter__(self):
        return self

    def __exit__(self, *_):
        try:
            with open(f"{self.home}/fake-pids", encoding="ascii") as f:
                pids = [int(line) for line in f]
        except OSError:
            pids = []
        for pid in pids:
            try:
                with open(f"/proc/{pid}/comm", encoding="ascii") as f:
                    if f.read().strip() == "kosa8-superviso":
                        os.kill(pid, signal.SIGKILL)
            except OSError:
                pass
        shutil.rmtree(self.dir, ignore_errors=True)

    def kosa8(self, *args, env=None, stdin=subprocess.DEVNULL, text=True, timeout=60, **kw):
        return Result(subprocess.run(
            [self.program, *args], env={**self.env, **(env or {})},
            stdin=None if "input" in kw else stdin, stdout=subprocess.PIPE,
            stderr=subprocess.PIPE, text=text, timeout=timeout, check=False, **kw))

    def kosa8_both(self, *args):
        """Exit status, and stdout and stderr as one."""
        p = subprocess.run([self.program, *args], env=self.env, stdin=subprocess.DEVNULL,
                           stdout=subprocess.PIPE, stderr=subprocess.STDOUT, timeout=60, check=False)
        return p.returncode, p.stdout

    def on_terminal(self, *args, env=None):
        """With stdin, stdout and stderr on a terminal: exit status and all that was written."""
        master, slave = pty.openpty()
        p = self.start(*args, env=env, stdin=slave, stdout=slave, stderr=slave)
        os.close(slave)
        out = b""
        while True:
            try:
                more = os.read(master, 65536)
            except OSError:  # EIO: nobody has the other end open any more
                more = b""
            if not more:
                break
            out += more
        os.close(master)
        return p.wait(20), out

    def start(self, *args, env=None, **kw):
        return subprocess.Popen([self.program, *args], env={**self.env, **(env or {})}, **kw)

    def pids(self):
        with open(f"{self.home}/fake-pids", encoding="ascii") as f:
            return [int(line) for line in f]

    @staticmethod
    def gone(pid):
        """Ended, whether or not somebody has waited for it."""
        try:
            with open(f"/proc/{pid}/stat", encoding="ascii", errors="replace") as f:
                return f.read().rpartition(")")[2].split()[0] == "Z"
        except OSError:
            return True

    def wait_for(self, condition, seconds=20):
        """For what has no event to wait for here; true when it came in time."""
        end = time.monotonic() + seconds
        while time.monotonic() < end:
            if condition():
                return True
            time.sleep(0.01)
        return False
