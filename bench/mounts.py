# SPDX-License-Identifier: Apache-2.0
"""A host folder in a sandbox beside the sandbox's own disk and beside virtiofs of the same QEMU.

In the guest the same script does the same work in a folder of the mount and in a folder of the disk,
and says how long each part took by the guest's monotonic clock:

  read        READ_MB from a file, by 1 MiB read(2)s, the guest's cache dropped before
  git status  of a repository of FILES files: once to fill the caches, then timed
  rm          of a folder of REMOVE files, which was made just before

virtiofs is measured in a QEMU of the same machine type by hand (virtiofs.py), since a sandbox has
none; the guest's kernel has no 9p.
"""
import os
import statistics

READ_MB = 128
FILES = 5000
REMOVE = 20000

SCRIPT = r'''
import os, subprocess, sys, time
top, what = sys.argv[1:3]
os.makedirs(top, exist_ok=True)
os.chdir(top)
env = {**os.environ, "HOME": "/tmp", "GIT_CONFIG_GLOBAL": "/dev/null", "GIT_AUTHOR_NAME": "a",
       "GIT_AUTHOR_EMAIL": "a@example.com", "GIT_COMMITTER_NAME": "a", "GIT_COMMITTER_EMAIL": "a@example.com"}
def git(*args):
    return subprocess.run(["git", *args], env=env, check=True, capture_output=True, text=True).stdout
def drop():
    os.sync()
    fd = os.open("data", os.O_RDONLY)
    os.posix_fadvise(fd, 0, 0, os.POSIX_FADV_DONTNEED)
    os.close(fd)
def clock(f):
    began = time.monotonic()
    f()
    return time.monotonic() - began
def read():
    with open("data", "rb", buffering=0) as f:
        while f.read(1 << 20):
            pass
if what == "read":
    if not os.path.exists("data"):
        with open("data", "wb") as f:
            for _ in range(READ_MB):
                f.write(os.urandom(1 << 20))
    drop()
    print(clock(read))
elif what == "status":
    if not os.path.exists("repo"):
        os.mkdir("repo")
        os.chdir("repo")
        git("init", "-q")
        for n in range(FILES):
            folder = f"d{n // 100}"
            os.makedirs(folder, exist_ok=True)
            with open(f"{folder}/f{n}", "w") as f:
                f.write(f"file {n}\n")
        git("add", ".")
        git("commit", "-qm", "all")
    else:
        os.chdir("repo")
    git("status", "--porcelain")
    print(clock(lambda: git("status", "--porcelain")))
else:
    os.mkdir("many")
    for n in range(REMOVE):
        open(f"many/{n}", "w").close()
    print(clock(lambda: subprocess.run(["rm", "-rf", "many"], check=True)))
'''.replace("READ_MB", str(READ_MB)).replace("FILES", str(FILES)).replace("REMOVE", str(REMOVE))


def prepare(home, folder, box, image, create):
    """A sandbox with a mount; (image, the mounted folder on the host)."""
    shared = os.path.join(folder, "shared")
    os.mkdir(shared)
    with open(os.path.join(shared, "work.py"), "w") as f:
        f.write(SCRIPT)
    home("sandbox", "create", box, *create, "--mount", f"{shared}:/mnt", timeout=120)
    home("sandbox", "pull", box, image)
    return image, shared


def measure(home, box, mounted, rounds, table, by_virtiofs):
    image, shared = mounted
    medians = {}

    def once(top, what):
        return float(home("sandbox", "run", box, image, "python3", "/mnt/work.py", top, what,
                          timeout=600).text)
    for what, name in (("read", "sequential read"), ("status", "git status of 5,000 files"),
                       ("rm", "rm -rf of 20,000 files")):
        for top, where in (("/workspace/bench", "own disk"), ("/mnt/bench", "mount")):
            once(top, what)
            values = [once(top, what) for _ in range(rounds)]
            medians[what, where] = statistics.median(values)
            if what == "read":
                table.add(f"{name}, {where}", map(rate, values), "MB/s")
            else:
                table.add(f"{name}, {where}", values, "s")
    best = medians["read", "own disk"]
    values = by_virtiofs(os.path.join(shared, "bench"))
    if values:
        table.add("sequential read, virtiofs by hand", map(rate, values), "MB/s")
        best = min(best, statistics.median(values))
    table.add("  mount / the better one: sequential read", [best / medians["read", "mount"]], "x",
              at_least=0.8)
    for what, name in (("status", "git status"), ("rm", "rm -rf")):
        table.add(f"  mount / own disk: {name}",
                  [medians[what, "mount"] / medians[what, "own disk"]], "x", 2)


def rate(seconds):
    return READ_MB * 1.048576 / seconds
