# SPDX-License-Identifier: Apache-2.0
"""The host's disk is full: during a pull, a checkpoint, a create. A clear error, nothing left, and
the sandbox lives on.

The state directory is a small file system of its own: a tmpfs in a mount namespace, which an
ordinary user can make too. The group enters it by starting itself anew there.
"""
import ctypes
import errno
import os
import subprocess
import tarfile

from harness import BUSYBOX, PYTHON, SMALL, Home, check, equal, wait_for

HOME = "own"
SLOW = 200
MB = 1 << 20
# Makes every page of its memory different, so that it costs space in a checkpoint.
HOLD = ("import os, time; x = os.urandom(90 << 20); print('holding', flush=True); time.sleep(300); "
        "print(len(x))")


class Mounts:
    """unshare(1)'s work in this process: a user namespace when not root, then a mount namespace."""

    def __init__(self):
        self.libc = ctypes.CDLL(None, use_errno=True)
        uid, gid = os.getuid(), os.getgid()
        if uid != 0:
            self.must(self.libc.unshare(0x10000000), "a user namespace")  # CLONE_NEWUSER
            for name, text in (("setgroups", "deny"), ("uid_map", f"{uid} {uid} 1"),
                               ("gid_map", f"{gid} {gid} 1")):
                with open(f"/proc/self/{name}", "w") as f:
                    f.write(text)
        self.must(self.libc.unshare(0x00020000), "a mount namespace")  # CLONE_NEWNS
        self.mount("none", "/", None, 0x4000 | 0x40000)  # MS_REC | MS_PRIVATE

    def must(self, result, what):
        check(result == 0, f"{what}: {os.strerror(ctypes.get_errno())}")

    def mount(self, source, target, kind, flags, data=None):
        encode = [v and v.encode() for v in (source, target, kind)]
        self.must(self.libc.mount(*encode, flags, data and data.encode()), f"mount {target}")

    def tmpfs(self, path, mb, remount=False):
        os.makedirs(path, 0o700, exist_ok=True)
        self.mount("tmpfs", path, "tmpfs", 6 | (0x20 if remount else 0), f"size={mb}m,mode=700")


def setup(t):
    t.mounts = Mounts()
    t.mounts.tmpfs(t.home.path, 600)
    # A template's memory is a sparse file that QEMU maps. On a tmpfs, unlike on a disk, reading a
    # hole takes space, so a full one would kill QEMU: the templates lie outside.
    outside = os.path.join(t.folder, "templates")
    for path in (outside, os.path.join(t.home.path, "templates")):
        os.mkdir(path, 0o700)
    t.mounts.mount(outside, os.path.join(t.home.path, "templates"), None, 0x1000)  # MS_BIND
    t.box = t.create()
    t.home("sandbox", "pull", t.box, BUSYBOX)
    t.ballast = os.path.join(t.home.path, "ballast")


def teardown(t):
    # The group's end removes the sandboxes and the folder; the tmpfs goes with the namespace.
    if os.path.exists(t.ballast):
        os.unlink(t.ballast)


def free(t):
    s = os.statvfs(t.home.path)
    return s.f_bavail * s.f_frsize


def leave(t, mb):
    """Fills the file system up to so many free MB."""
    if os.path.exists(t.ballast):
        os.unlink(t.ballast)
    with open(t.ballast, "wb") as f:
        os.posix_fallocate(f.fileno(), 0, free(t) - mb * MB)


def relieve(t):
    os.unlink(t.ballast)


def test_pull(t):
    images = t.home.files("images")
    leave(t, 12)
    before = free(t)
    t.home.refused(1, "space", args=["sandbox", "pull", t.box, PYTHON])
    equal(t.home.files("images"), images, "what is left in images")
    check(abs(free(t) - before) < MB, f"space was returned: {before}, {free(t)}")
    equal(t.home.sh(t.box, "echo fine"), "fine")
    relieve(t)
    t.home("sandbox", "pull", t.box, PYTHON)
    equal(t.home.python(t.box, "print(6*7)"), "42")


def test_checkpoint(t):
    run = t.background(t.box, PYTHON, "python", "-c", HOLD)
    run.wait_output(b"holding")
    t.home("checkpoint", t.box, "--label", "before")
    checkpoints = t.home.files("sandboxes")
    leave(t, 25)
    before = free(t)
    result = t.home.refused(1, "space", args=["checkpoint", t.box, "--label", "full"])
    check("mb" in result.errors.lower() or "gb" in result.errors.lower() or "byte" in
          result.errors.lower(), f"it says how much: {result}")
    equal([r["label"] for r in t.home.rows("checkpoint", "ls", t.box)], ["before"])
    check(len(t.home.files("sandboxes")) <= len(checkpoints) + 1, "no half checkpoint")
    check(before - free(t) < 2 * MB, f"space was returned: {before}, {free(t)}")
    check(run.process.poll() is None, "the run goes on")
    equal(t.home.sh(t.box, "echo fine"), "fine")
    relieve(t)
    t.home("checkpoint", t.box, "--label", "after")
    t.home("rewind", t.box, "--to", "after", "--yes")
    equal(t.home.sh(t.box, "echo fine"), "fine")
    run.wait(20)
    t.home("checkpoint", "rm", t.box, "after")
    t.home("checkpoint", "rm", t.box, "before")


def test_create(t):
    """Neither the template nor the sandbox fits."""
    home = Home(os.path.join(t.folder, "tiny"))
    t.mounts.tmpfs(home.path, 40)
    home.refused(1, "space", args=["sandbox", "create", "nospace", *SMALL], timeout=100)
    equal([f for f in home.files("templates") if "/" in f], [], "half a template")
    equal(home.files("sandboxes"), [], "half a sandbox")
    t.mounts.tmpfs(home.path, 600, remount=True)
    home("sandbox", "create", "nospace", *SMALL, timeout=100)
    home("sandbox", "rm", "-f", "nospace")


def test_a_guest_that_fills_the_host(t):
    """Its writes wait or fail; with space again it goes on, and it was never killed. Meanwhile who
    asks it is told at once, and gets an error where no answer is to be waited for."""
    t.home("sandbox", "run", "-d", "--name", "said", t.box, BUSYBOX, "echo", "something")
    t.home("sandbox", "wait", t.box, "said")
    leave(t, 30)
    t.home.any("sandbox", "run", "--timeout", "15s", t.box, BUSYBOX, "sh", "-c",
               "dd if=/dev/urandom of=/workspace/fill bs=1M count=80; sync; echo $?", timeout=60)
    wait_for(lambda: t.home.inspect(t.box)["live"]["waiting_for_disk_space"], "QEMU to wait")
    notice = b"the sandbox waits: no space on the host"
    waiting = t.home.start("sandbox", "logs", t.box, "said", stderr=subprocess.STDOUT)
    check(waiting.stdout.readline().startswith(notice), "logs: the notice")
    asking = t.home.start("sandbox", "ps", t.box)
    check(asking.stderr.readline().startswith(notice), "ps: the notice")
    error = asking.communicate(timeout=25)[1]
    check(asking.returncode == 1 and error.startswith(b"kosa8: " + notice), f"ps: {error!r}")
    check(waiting.poll() is None, "logs waits")
    relieve(t)
    equal((waiting.communicate(timeout=30)[0], waiting.returncode), (b"something\n", 0),
          "and goes on")
    t.home("sandbox", "rm", f"{t.box}/said")
    state = t.home.state(t.box)
    check(state == "running", f"the sandbox is {state}")
    equal(t.home.sh(t.box, "rm -f /workspace/fill; echo fine", timeout=60), "fine")


def test_a_stop_on_a_full_disk_loses_nothing(t):
    t.home("sandbox", "start", t.box)
    leave(t, 1)
    t.home.any("sandbox", "run", "--timeout", "10s", t.box, BUSYBOX, "sh", "-c",
               "echo important > /workspace/late; dd if=/dev/urandom of=/workspace/z bs=1M count=9; sync",
               timeout=60)
    t.home.refused(1, "space", args=["sandbox", "stop", t.box], timeout=60)
    relieve(t)
    wait_for(lambda: not t.home.inspect(t.box).get("live", {}).get("waiting_for_disk_space"),
             "the sandbox goes on when there is space")
    t.home("sandbox", "stop", t.box, timeout=60)
    t.home("sandbox", "start", t.box)
    equal(t.home.sh(t.box, "cat /workspace/late; rm -f /workspace/z"), "important")


def fill(folder):
    """To the last block."""
    path = os.path.join(folder, "ballast")
    with open(path, "ab", buffering=0) as f:
        try:
            while True:
                f.write(bytes(4096))
        except OSError as error:
            equal(error.errno, errno.ENOSPC)
    return path


def test_what_frees_space_works_on_a_full_disk(t):
    home = Home(os.path.join(t.folder, "full"))
    t.mounts.tmpfs(home.path, 40)
    tar = os.path.join(t.folder, "rootfs.tar")
    with tarfile.open(tar, "w") as f:
        f.add("/bin/busybox", "bin/busybox")
    for name in ("one", "two"):
        with tarfile.open(tar, "a") as f:
            f.add("/bin/true", f"bin/{name}")
        home("image", "import", tar, f"example.com/{name}:1")
    ballast = fill(home.path)
    home.refused(1, "space", args=["image", "tag", "example.com/one:1", "example.com/three:1"])
    home("image", "rm", "example.com/one:1")
    equal([r["refs"] for r in home.rows("image", "ls")], [["example.com/two:1"]])
    fill(home.path)  # what was freed is taken at once
    home.refused(1, "space", args=["image", "tag", "example.com/two:1", "example.com/three:1"])
    home("image", "prune")
    equal(home.rows("image", "ls"), [])
    os.unlink(ballast)
    home("audit", "verify")


def test_the_record_holds(t):
    t.home("audit", "verify")
