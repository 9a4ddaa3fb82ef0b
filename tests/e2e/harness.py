# SPDX-License-Identifier: Apache-2.0
"""What the end-to-end tests share: a state directory, kosa8 commands, processes and conditions.

A group is a file test_NAME.py whose functions test_*(t) are run in their order, in one process, with
one state directory and, if the file says so, one sandbox. See `run`.
"""
import json
import os
import re
import shutil
import signal
import subprocess
import threading
import time

ROOT = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
KOSA8 = os.environ.get("KOSA8", os.path.join(ROOT, "build", "kosa8"))
PYTHON = "python:3.12-slim"
BUSYBOX = "busybox"
SMALL = ["--cpus", "2", "--memory", "512"]  # what most tests need of a sandbox


class Failure(Exception):
    pass


def check(condition, message):
    if not condition:
        raise Failure(message)


def short(value, limit=600):
    text = repr(value)
    return text if len(text) <= limit else text[:limit] + f"... ({len(text)} characters)"


def equal(got, want, what="value"):
    check(got == want, f"{what}: got {short(got)}, want {short(want)}")


def wait_for(condition, what, seconds=20):
    """The first true value of condition(), within a deadline."""
    end = time.monotonic() + seconds
    while True:
        value = condition()
        if value:
            return value
        check(time.monotonic() < end, f"not within {seconds} s: {what}")
        time.sleep(0.02)


class Result:
    def __init__(self, args, code, out, err, seconds):
        self.args, self.code, self.out, self.err, self.seconds = args, code, out, err, seconds

    @property
    def text(self):
        return self.out.decode(errors="replace")

    @property
    def errors(self):
        return self.err.decode(errors="replace")

    def json(self):
        return json.loads(self.out)

    def __str__(self):
        return (f"`kosa8 {' '.join(map(short, self.args))}` exit {self.code} after "
                f"{self.seconds:.2f} s, stdout {short(self.out)}, stderr {short(self.err)}")


def in_own_mounts(script):
    """For Home.start(via=...): in a mount namespace, which an ordinary user can make too, where the
    shell script has been run."""
    user = [] if os.getuid() == 0 else ["--user", "--map-current-user", "--keep-caps"]
    return ["unshare", "--mount", *user, "sh", "-ec", script + '\nexec "$@"', "sh"]


class Home:
    """A state directory, and commands in it. Calling it runs a command that has to succeed."""

    def __init__(self, path, env=None):
        self.path = path
        self.env = {**os.environ, "KOSA8_HOME": path, **(env or {})}
        self.env.pop("KOSA8_ACTOR", None)

    def start(self, *args, env=None, via=(), **popen):
        """via: a command line in front, that ends in running the rest."""
        popen.setdefault("stdin", subprocess.DEVNULL)
        popen.setdefault("stdout", subprocess.PIPE)
        popen.setdefault("stderr", subprocess.PIPE)
        return subprocess.Popen([*via, KOSA8, *map(str, args)], env={**self.env, **(env or {})},
                                **popen)

    def any(self, *args, input=None, timeout=60, env=None, **popen):
        """Runs a command, whatever its exit code."""
        began = time.monotonic()
        if input is not None:
            popen["stdin"] = subprocess.PIPE
        process = self.start(*args, env=env, **popen)
        try:
            out, err = process.communicate(input, timeout=timeout)
        except subprocess.TimeoutExpired:
            process.kill()
            out, err = process.communicate()
            late = Result(args, "none", out or b"", err or b"", time.monotonic() - began)
            raise Failure(f"no end within {timeout} s: {late}")
        return Result(args, process.returncode, out or b"", err or b"", time.monotonic() - began)

    def __call__(self, *args, **more):
        result = self.any(*args, **more)
        check(result.code == 0, f"failed: {result}")
        return result

    def exits(self, code, *args, **more):
        result = self.any(*args, **more)
        check(result.code == code, f"want exit {code}: {result}")
        return result

    def refused(self, code, *needles, args, **more):
        """A command that has to fail: this exit code, nothing on stdout, one line of the form
        `kosa8: ...` that holds the needles (any case), then at most a hint and, for wrong usage,
        the usage line."""
        result = self.exits(code, *args, **more)
        equal(result.out, b"", f"stdout of a refused command: {result}")
        lines = [line for line in result.errors.splitlines() if line]
        errors = [line for line in lines if line.startswith("kosa8: ")]
        check(len(errors) == 1, f"want one line `kosa8: ...`: {result}")
        after = lines[lines.index(errors[0]) + 1:]
        allowed = ("  try: ", "usage: ") if code == 2 else ("  try: ",)
        check(all(line.startswith(allowed) for line in after), f"more than an error: {result}")
        said = result.errors.lower()
        for needle in needles:
            check(needle.lower() in said, f"'{needle}' is not said: {result}")
        check(not re.search(r"errno|assert|\(null\)|core dumped", said), f"not for people: {result}")
        return result

    def rows(self, *args):
        """A listing's --json as a list of objects: an array, or an object a line."""
        result = self(*args, "--json")
        try:
            value = result.json()
        except json.JSONDecodeError:
            value = [json.loads(line) for line in result.text.splitlines()]
        if isinstance(value, dict):
            value = next((v for v in value.values() if isinstance(v, list)), [value])
        return value

    def inspect(self, name):
        value = self("sandbox", "inspect", name, "--json").json()
        return value[0] if isinstance(value, list) else value

    def state(self, name):
        return {row["name"]: row["state"] for row in self.rows("sandbox", "ls")}.get(name)

    def run(self, box, image, *command, **more):
        return self("sandbox", "run", box, image, *command, **more)

    def python(self, box, code, **more):
        return self.run(box, PYTHON, "python", "-c", code, **more).text.strip()

    def sh(self, box, script, **more):
        return self.run(box, BUSYBOX, "sh", "-c", script, **more).text.strip()

    def files(self, *below):
        """Every path below a folder of the state directory, sorted."""
        top = os.path.join(self.path, *below)
        return sorted(os.path.relpath(os.path.join(d, n), top)
                      for d, dirs, names in os.walk(top) for n in dirs + names)

    def plain_files(self, *below):
        """The same without the folders."""
        return [f for f in self.files(*below)
                if not os.path.isdir(os.path.join(self.path, *below, f))]

    def used_bytes(self, *below):
        top = os.path.join(self.path, *below)
        return sum(os.lstat(os.path.join(d, n)).st_blocks * 512
                   for d, _, names in os.walk(top) for n in names)


# ---- processes: all that a group starts are descendants of its reaper (see `run`) ----

def stat_of(pid):
    try:
        with open(f"/proc/{pid}/stat", "rb") as f:
            data = f.read()
    except OSError:
        return None
    name = data[data.index(b"(") + 1:data.rindex(b")")].decode(errors="replace")
    fields = data[data.rindex(b")") + 2:].split()
    return {"pid": pid, "name": name, "state": fields[0].decode(), "parent": int(fields[1])}


def descendants(top):
    """Living processes below top, with names."""
    table = {}
    for entry in os.listdir("/proc"):
        if entry.isdigit():
            stat = stat_of(int(entry))
            if stat and stat["state"] != "Z":
                table[stat["pid"]] = stat
    found, frontier = [], {top}
    while frontier:
        below = [s for s in table.values() if s["parent"] in frontier]
        found += below
        frontier = {s["pid"] for s in below}
    return found


def named(prefix, top=None):
    top = top or os.getppid()
    return [s for s in descendants(top) if s["name"].startswith(prefix)]


def qemus(top=None):
    return named("qemu-system", top)


def supervisors(top=None):
    return named("kosa8-supervis", top)


def supervisor_of(home, name):
    """The pid of a sandbox's supervisor: it holds the sandbox's lock open."""
    lock = os.path.join(os.path.realpath(home.path), "sandboxes", home.inspect(name)["id"], "lock")
    for process in supervisors():
        folder = f"/proc/{process['pid']}/fd"
        try:
            links = [os.readlink(os.path.join(folder, fd)) for fd in os.listdir(folder)]
        except OSError:
            continue
        if lock in links:
            return process["pid"]
    raise Failure(f"no supervisor holds {lock}")


def qemu_of(supervisor):
    found = named("qemu-system", supervisor)
    check(found, f"supervisor {supervisor} has no QEMU")
    return found[0]["pid"]


def gone(pid):
    stat = stat_of(pid)
    return stat is None or stat["state"] == "Z"


def kill(pid, number=signal.SIGKILL):
    os.kill(pid, number)
    if number == signal.SIGKILL:
        wait_for(lambda: gone(pid), f"process {pid} to end after its kill")


# ---- runs that go on while the test does something else ----

class Background:
    """`sandbox run` in the background; its output is collected as it comes."""

    def __init__(self, home, box, image, *command, flags=()):
        self.process = home.start("sandbox", "run", *flags, box, image, *command,
                                  stdin=subprocess.PIPE)
        self.out, self.err = bytearray(), bytearray()
        self.threads = [threading.Thread(target=self.collect, args=pair, daemon=True)
                        for pair in ((self.process.stdout, self.out), (self.process.stderr, self.err))]
        for thread in self.threads:
            thread.start()

    @staticmethod
    def collect(stream, into):
        while True:
            data = os.read(stream.fileno(), 65536)
            if not data:
                return
            into += data

    def wait_output(self, what, seconds=20):
        wait_for(lambda: what in self.out or self.process.poll() is not None,
                 f"{what!r} in the output {short(bytes(self.out))}", seconds)
        check(what in self.out, f"ended ({self.process.poll()}) without {what!r}: "
              f"{short(bytes(self.out))} {short(bytes(self.err))}")

    def wait(self, seconds=20):
        try:
            code = self.process.wait(seconds)
        except subprocess.TimeoutExpired:
            self.process.kill()
            self.process.wait()
            raise Failure(f"a background run did not end within {seconds} s")
        for thread in self.threads:
            thread.join(5)
        return code

    def kill(self):
        if self.process.poll() is None:
            self.process.kill()
        self.process.wait()


class Group:
    """What a test function gets."""

    def __init__(self, home, name, folder):
        self.home, self.name, self.folder = home, name, folder
        self.box = None
        self.boxes = []
        self.read = {}

    def create(self, suffix="", *flags, size=SMALL):
        """A sandbox that is removed at the end of the group."""
        name = f"{self.name}{'-' + suffix if suffix else ''}"
        self.boxes.append(name)
        self.home("sandbox", "create", name, *size, *flags, timeout=120)
        return name

    def news(self):
        """What the logs of the group's sandboxes got since the last call, its last lines."""
        told = []
        for box in self.boxes:
            try:
                folder = os.path.join(self.home.path, "sandboxes", self.home.inspect(box)["id"])
            except (Failure, ValueError, KeyError):
                continue
            for name in ("supervisor.log", "qemu.log"):
                path = os.path.join(folder, name)
                if not os.path.exists(path):
                    continue
                with open(path, errors="replace") as f:
                    f.seek(self.read.get(path, 0))
                    told += [f"{box}/{name}: {line.rstrip()}" for line in f.readlines()[-8:]]
                    self.read[path] = f.tell()
        return told

    def remove(self, name):
        self.home("sandbox", "rm", "--force", name)
        if name in self.boxes:
            self.boxes.remove(name)

    def background(self, box, image, *command, flags=()):
        return Background(self.home, box, image, *command, flags=flags)

    def end(self):
        """Removes its sandboxes; what is left running afterwards is a failure."""
        there = {row["name"] for row in self.home.rows("sandbox", "ls")}
        for name in self.boxes:
            if name in there:
                self.home("sandbox", "rm", "--force", name)
        leftovers = []

        def none_left():
            leftovers[:] = [p for p in descendants(os.getppid()) if p["pid"] != os.getpid()]
            return not leftovers
        try:
            wait_for(none_left, "no process of the group", 10)
        except Failure:
            raise Failure(f"left running after the sandboxes were removed: {leftovers}")
        shutil.rmtree(self.folder, ignore_errors=True)
