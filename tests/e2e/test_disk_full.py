# SPDX-License-Identifier: Apache-2.0
"""The host's disk is full: during a pull, a checkpoint, a create. A clear error, nothing left, and
the sandbox lives on.

The state directory is a small file system of its own: a tmpfs in a mount namespace, which an
ordinary user can make too. sandboxes/ is a second one: a guest's RAM is a private mapping of the
template's file, and a full tmpfs (unlike a disk) cannot give such a mapping the file's holes.
"""
import os

from harness import BUSYBOX, PYTHON, SMALL, check, equal

HOME = "own"
SLOW = 200
MB = 1 << 20
# Makes every page of its memory different, so that it costs space in a checkpoint.
HOLD = ("import os, time; x = os.urandom(90 << 20); print('holding', flush=True); time.sleep(300); "
        "print(len(x))")


def enter_own_mounts():
    """unshare(1)'s work in this process: a user namespace when not root, then a mount namespace."""
    import ctypes
    libc = ctypes.CDLL(None, use_errno=True)
    uid, gid = os.getuid(), os.getgid()

    def must(result, what):
        check(result == 0, f"{what}: {os.strerror(ctypes.get_errno())}")
    if uid != 0:
        must(libc.unshare(0x10000000), "a user namespace")  # CLONE_NEWUSER
        for name, text in (("setgroups", "deny"), ("uid_map", f"{uid} {uid} 1"),
                           ("gid_map", f"{gid} {gid} 1")):
            with open(f"/proc/self/{name}", "w") as f:
                f.write(text)
    must(libc.unshare(0x00020000), "a mount namespace")  # CLONE_NEWNS
    must(libc.mount(b"none", b"/", None, 0x4000 | 0x40000, None), "private mounts")
    return libc, must


def setup(t):
    libc, must = enter_own_mounts()
    os.makedirs(t.home.path, 0o700)
    must(libc.mount(b"tmpfs", t.home.path.encode(), b"tmpfs", 6, b"size=600m,mode=700"), "a tmpfs")
    os.chmod(t.home.path, 0o700)
    t.sandboxes = os.path.join(t.home.path, "sandboxes")
    os.mkdir(t.sandboxes, 0o700)
    must(libc.mount(b"tmpfs", t.sandboxes.encode(), b"tmpfs", 6, b"size=300m,mode=700"), "a tmpfs")
    t.box = t.create()
    t.home("sandbox", "pull", t.box, BUSYBOX)


def teardown(t):
    # The group's end removes the sandboxes and the folder; the tmpfs goes with the namespace.
    for folder in (t.home.path, t.sandboxes):
        if os.path.exists(ballast(folder)):
            os.unlink(ballast(folder))


def free(folder):
    s = os.statvfs(folder)
    return s.f_bavail * s.f_frsize


def ballast(folder):
    # Hidden from kosa8: it looks at the folders in sandboxes/.
    return os.path.join(folder, ".ballast")


def leave(folder, mb):
    """Fills the file system up to so many free MB."""
    if os.path.exists(ballast(folder)):
        os.unlink(ballast(folder))
    with open(ballast(folder), "wb") as f:
        os.posix_fallocate(f.fileno(), 0, free(folder) - mb * MB)


def relieve(folder):
    os.unlink(ballast(folder))


def test_pull(t):
    images = t.home.files("images")
    leave(t.home.path, 12)
    before = free(t.home.path)
    t.home.refused(1, "space", args=["sandbox", "pull", t.box, PYTHON])
    equal(t.home.files("images"), images, "what is left in images")
    check(abs(free(t.home.path) - before) < MB, f"space was returned: {before}, {free(t.home.path)}")
    equal(t.home.sh(t.box, "echo fine"), "fine")
    relieve(t.home.path)
    t.home("sandbox", "pull", t.box, PYTHON)
    equal(t.home.python(t.box, "print(6*7)"), "42")


def test_checkpoint(t):
    run = t.background(t.box, PYTHON, "python", "-c", HOLD)
    run.wait_output(b"holding")
    t.home("checkpoint", t.box, "--label", "before")
    checkpoints = t.home.files("sandboxes")
    leave(t.sandboxes, 25)
    before = free(t.sandboxes)
    result = t.home.refused(1, "space", args=["checkpoint", t.box, "--label", "full"])
    check("mb" in result.errors.lower() or "gb" in result.errors.lower() or "byte" in
          result.errors.lower(), f"it says how much: {result}")
    equal([r["label"] for r in t.home.rows("checkpoint", "ls", t.box)], ["before"])
    check(len(t.home.files("sandboxes")) <= len(checkpoints) + 1, "no half checkpoint")
    check(before - free(t.sandboxes) < 2 * MB, f"space was returned: {before}, {free(t.sandboxes)}")
    check(run.process.poll() is None, "the run goes on")
    equal(t.home.sh(t.box, "echo fine"), "fine")
    relieve(t.sandboxes)
    t.home("checkpoint", t.box, "--label", "after")
    t.home("rewind", t.box, "--to", "after", "--yes")
    equal(t.home.sh(t.box, "echo fine"), "fine")
    run.wait(20)
    t.home("checkpoint", "rm", t.box, "after")
    t.home("checkpoint", "rm", t.box, "before")


def test_create(t):
    boxes = t.home.files("sandboxes")
    templates = t.home.files("templates")
    leave(t.home.path, 10)
    t.home.refused(1, "space", args=["sandbox", "create", "nospace", "--cpus", "1", "--memory", "256"],
                   timeout=100)
    equal(t.home.files("sandboxes"), boxes)
    equal([f for f in t.home.files("templates") if not f.endswith(".lock")],
          [f for f in templates if not f.endswith(".lock")], "no half template")
    relieve(t.home.path)
    t.home("sandbox", "create", "nospace", "--cpus", "1", "--memory", "256", timeout=100)
    t.home("sandbox", "rm", "-f", "nospace")
    t.home("sandbox", "create", "nospace", *SMALL)
    t.home("sandbox", "rm", "-f", "nospace")


def test_a_guest_that_fills_the_host(t):
    """Its writes wait or fail; with space again it goes on, and it was never killed."""
    leave(t.sandboxes, 30)
    t.home.any("sandbox", "run", "--timeout", "15s", t.box, BUSYBOX, "sh", "-c",
               "dd if=/dev/urandom of=/workspace/fill bs=1M count=80; sync; echo $?", timeout=60)
    relieve(t.sandboxes)
    state = t.home.state(t.box)
    check(state == "running", f"the sandbox is {state}")
    equal(t.home.sh(t.box, "rm -f /workspace/fill; echo fine", timeout=60), "fine")


def test_the_record_holds(t):
    t.home("audit", "verify")
