# SPDX-License-Identifier: Apache-2.0
"""Pulling: kosa8 beside skopeo and umoci, from the same registry, in turns.

Ours ends with a file system image that a sandbox can use, theirs with an unpacked root file system
(umoci's `rootfs`), which is as far as both go.
"""
import os
import shutil
import statistics
import subprocess
import threading
import time

IMAGE = "python:3.12-slim"


def descendants(pid):
    """pid and all below it that are there now."""
    found = [pid]
    for p in found:
        try:
            with open(f"/proc/{p}/task/{p}/children") as f:
                found += [int(c) for c in f.read().split()]
        except OSError:
            pass
    return found


def rss_mb(pid):
    try:
        with open(f"/proc/{pid}/status") as f:
            return sum(int(line.split()[1]) for line in f if line.startswith("VmRSS:")) / 1024
    except OSError:
        return 0


def timed(argv, env=None, watch=None):
    """Seconds; watch(pid) is called again and again while it runs."""
    began = time.perf_counter()
    process = subprocess.Popen(argv, env=env, stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL,
                               stderr=subprocess.PIPE)
    if watch:
        done = threading.Event()

        def look():
            while not done.wait(0.01):
                watch(process.pid)
        thread = threading.Thread(target=look)
        thread.start()
    errors = process.communicate()[1]
    taken = time.perf_counter() - began
    if watch:
        done.set()
        thread.join()
    if process.returncode:
        raise RuntimeError(f"{argv}: {errors.decode(errors='replace')}")
    return taken


class Pulls:
    def __init__(self, kosa8, port, folder):
        self.kosa8, self.port, self.folder = kosa8, port, os.path.join(folder, "pulls")
        self.env = dict(os.environ, KOSA8_HOME=os.path.join(self.folder, "home"))

    def afresh(self):
        """Nothing of the last round is there, and nothing of it is on its way to the disk."""
        subprocess.run(["chmod", "-R", "u+rwX", self.folder], stderr=subprocess.DEVNULL)
        shutil.rmtree(self.folder, ignore_errors=True)
        os.makedirs(self.folder, 0o700)
        os.sync()

    def ours(self, watch=None):
        self.afresh()
        return timed([self.kosa8, "image", "pull", "--quiet", IMAGE], self.env, watch)

    def again(self):
        return timed([self.kosa8, "image", "pull", "--quiet", IMAGE], self.env)

    def theirs(self):
        self.afresh()
        layout, bundle = (os.path.join(self.folder, n) for n in ("layout", "bundle"))
        rootless = [] if os.getuid() == 0 else ["--rootless"]
        source = f"docker://127.0.0.1:{self.port}/library/{IMAGE}"
        copied = timed(["skopeo", "--insecure-policy", "copy", "--quiet", "--src-tls-verify=false",
                        source, f"oci:{layout}:it"])
        return copied + timed(["umoci", "unpack", *rootless, "--image", f"{layout}:it", bundle])

    def peak_mb(self):
        """The largest process, and the largest sum of all at one time."""
        single, together = [0], [0]

        def watch(pid):
            now = [rss_mb(p) for p in descendants(pid)]
            single.append(max(now))
            together.append(sum(now))
        self.ours(watch)
        return max(single), max(together)


def measure(kosa8, port, folder, rounds, table):
    pulls = Pulls(kosa8, port, folder)
    ours, theirs, again = [], [], []
    for n in range(rounds + 1):
        taken = pulls.theirs(), pulls.ours()
        second = pulls.again()
        if n:  # the first warms the page cache up
            theirs.append(taken[0])
            ours.append(taken[1])
            again.append(second * 1000)
    mine = table.add(f"pull {IMAGE}: ready to run", ours, "s")
    other = table.add("  skopeo copy + umoci unpack of it", theirs, "s")
    table.add("  ours / theirs", [mine / other], "x", 1)
    table.add("pull it again, by its tag", again, "ms", 50)
    peaks = [pulls.peak_mb() for _ in range(3)]
    table.add("peak memory of a pull: largest process", [p[0] for p in peaks], "MB", 150)
    table.add("peak memory of a pull: all processes", [p[1] for p in peaks], "MB", 150)
    pulls.afresh()
    return statistics.median(ours)
