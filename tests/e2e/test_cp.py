# SPDX-License-Identifier: Apache-2.0
"""sandbox cp: into the workspace and containers and out of them, as files and as tars, with modes
and times; and names that a guest chose to do harm with."""
import io
import os
import stat
import tarfile

from harness import BUSYBOX, check, equal

SANDBOX = True
SLOW = 120
TIME = 1_000_000_000 * 10**9


def source(t):
    top = t.folder + "/src"
    if os.path.exists(top):
        return top
    os.makedirs(f"{top}/d")
    for name, mode, data in (("f", 0o640, b"content"), ("d/x", 0o755, bytes(range(256)) * 1000)):
        with open(f"{top}/{name}", "wb") as f:
            f.write(data)
        os.chmod(f"{top}/{name}", mode)
        os.utime(f"{top}/{name}", ns=(TIME, TIME))
    os.symlink("../f", f"{top}/d/link")
    os.link(f"{top}/f", f"{top}/hard")
    return top


def same_trees(a, b):
    for folder, dirs, files in os.walk(a):
        for name in dirs + files:
            one = os.path.join(folder, name)
            other = os.path.join(b, os.path.relpath(one, a))
            x, y = os.lstat(one), os.lstat(other)
            equal((x.st_mode, x.st_mtime_ns), (y.st_mode, y.st_mtime_ns), name)
            if stat.S_ISREG(x.st_mode):
                with open(one, "rb") as f, open(other, "rb") as g:
                    check(f.read() == g.read(), f"the content of {name}")
            if stat.S_ISLNK(x.st_mode):
                equal(os.readlink(one), os.readlink(other), name)
    equal(sorted(os.listdir(a)), sorted(os.listdir(b)), "names")


def test_a_folder_there_and_back(t):
    top = source(t)
    equal(t.home("sandbox", "cp", top, f"{t.box}:tree").out, b"")
    equal(t.home.sh(t.box, "stat -c '%a %Y' /workspace/tree/f; readlink /workspace/tree/d/link"),
          "640 1000000000\n../f")
    t.home("sandbox", "cp", f"{t.box}:/workspace/tree", t.folder + "/back")
    same_trees(top, t.folder + "/back")
    check(os.path.samefile(t.folder + "/back/f", t.folder + "/back/hard"), "a hard link is one")


def test_contents_and_existing_folders(t):
    top = source(t)
    t.home.sh(t.box, "mkdir -p /workspace/into")
    t.home("sandbox", "cp", top, f"{t.box}:into")
    t.home("sandbox", "cp", top + "/.", f"{t.box}:into")
    t.home("sandbox", "cp", top + "/.", f"{t.box}:fresh")
    equal(t.home.sh(t.box, "cd /workspace; ls into fresh"),
          "fresh:\nd\nf\nhard\n\ninto:\nd\nf\nhard\nsrc")
    t.home.refused(1, "no such folder", args=["sandbox", "cp", top, f"{t.box}:none/x"])


def test_a_tar_stream(t):
    data = io.BytesIO()
    with tarfile.open(fileobj=data, mode="w") as tar:
        tar.add(source(t), "pack")
    t.home.sh(t.box, "mkdir -p /workspace/tar")
    t.home("sandbox", "cp", "-", f"{t.box}:tar", input=data.getvalue())
    equal(t.home.sh(t.box, "cat /workspace/tar/pack/f"), "content")
    out = t.home("sandbox", "cp", f"{t.box}:tar/pack", "-").out
    with tarfile.open(fileobj=io.BytesIO(out)) as tar:
        equal(sorted(tar.getnames()), ["pack", "pack/d", "pack/d/link", "pack/d/x", "pack/f",
                                       "pack/hard"])
        equal(tar.extractfile("pack/d/x").read(), bytes(range(256)) * 1000)


def test_a_container_that_runs_and_has_ended(t):
    t.home("sandbox", "run", "-d", "--name", "web", t.box, BUSYBOX, "sh", "-c",
           "echo made >/made; sleep 300")
    t.home("sandbox", "cp", source(t) + "/f", f"{t.box}/web:/etc/f")
    equal(t.home("sandbox", "exec", t.box, "web", "cat", "/etc/f").text, "content")

    def fetch(when):
        t.home("sandbox", "cp", f"{t.box}/web:made", t.folder + "/made")
        with open(t.folder + "/made", encoding="ascii") as f:
            equal(f.read(), "made\n", when)
        os.unlink(t.folder + "/made")

    fetch("running")
    t.home("sandbox", "kill", t.box, "web")
    t.home.any("sandbox", "wait", t.box, "web")
    fetch("ended")
    t.home("sandbox", "cp", source(t) + "/d/x", f"{t.box}/web:/etc/x")
    t.home("sandbox", "stop", t.box)
    t.home("sandbox", "start", t.box, timeout=120)
    fetch("ended, and nothing has used its image since the start")
    t.home("sandbox", "cp", f"{t.box}/web:/bin/busybox", t.folder + "/busybox")
    check(os.path.getsize(t.folder + "/busybox") > 100000, "a file of the image")


def test_an_ended_container_of_before_the_start_is_written_to(t):
    t.home("sandbox", "stop", t.box)
    t.home("sandbox", "start", t.box, timeout=120)
    t.home("sandbox", "cp", source(t) + "/f", f"{t.box}/web:/etc/g")
    t.home("sandbox", "cp", f"{t.box}/web:/etc/x", t.folder + "/x")
    check(os.path.getsize(t.folder + "/x") == 256000, "what was written before")
    t.home.refused(1, "no such folder", args=["sandbox", "cp", source(t), f"{t.box}/web:/none/x"])


def test_a_tar_without_its_folders(t):
    """A folder that only the names below it tell of keeps its mode and time."""
    data = io.BytesIO()
    with tarfile.open(fileobj=data, mode="w") as tar:
        for name in ("kept/sub/file", "kept/new/file"):
            info = tarfile.TarInfo(name)
            info.size = 1
            tar.addfile(info, io.BytesIO(b"x"))
    t.home.sh(t.box, "cd /workspace; mkdir -p bare/kept/sub; chmod 2700 bare/kept; "
                     "touch -t 200102030405 bare/kept")
    before = t.home.sh(t.box, "stat -c '%a %Y' /workspace/bare/kept")
    t.home("sandbox", "cp", "-", f"{t.box}:bare", input=data.getvalue())
    equal(t.home.sh(t.box, "stat -c '%a %Y' /workspace/bare/kept"), before)
    equal(t.home.sh(t.box, "cd /workspace/bare/kept; stat -c %a new; cat sub/file new/file"),
          "755\nxx")


def test_names_that_a_guest_made(t):
    t.home.python(t.box, r"""
import os
os.makedirs('/workspace/evil/d'); os.chdir('/workspace/evil')
open('l' * 255, 'w').close(); open('new\nline', 'w').close(); open(b'\xff', 'w').close()
os.symlink('/etc/passwd', 'abs'); os.symlink('../../../..', 'up'); os.symlink('.', 'loop')
open('suid', 'w').close(); os.chmod('suid', 0o6755); os.mkfifo('fifo')
for i in range(500):
    os.mkdir('deep'); os.chdir('deep')
open('bottom', 'w').close()
""")
    result = t.home("sandbox", "cp", f"{t.box}:evil", t.folder + "/out")
    check(b"fifo" in result.err, f"a pipe is told: {result}")
    names = os.listdir((t.folder + "/out").encode())
    equal(sorted(names), sorted([b"d", b"l" * 255, b"new\nline", b"\xff", b"abs", b"up", b"loop",
                                 b"suid", b"deep"]))
    equal(stat.S_IMODE(os.stat(t.folder + "/out/suid").st_mode), 0o755)
    check(os.path.exists(t.folder + "/out/" + "deep/" * 500 + "bottom"), "down to the bottom")
    t.home("sandbox", "cp", f"{t.box}:evil", t.folder)
    t.home.refused(1, args=["sandbox", "cp", f"{t.box}:../etc/passwd", t.folder + "/passwd"])
    t.home.refused(1, "/workspace", args=["sandbox", "cp", f"{t.box}:/etc/passwd", t.folder])


def test_many_files_and_a_large_one(t):
    t.home.python(t.box, r"""
import os
os.makedirs('/workspace/many')
for i in range(3000): open(f'/workspace/many/{i}', 'w').write(str(i))
open('/workspace/large', 'wb').write(os.urandom(1 << 20) * 50)
""", timeout=120)
    t.home("sandbox", "cp", f"{t.box}:many", t.folder + "/many", timeout=120)
    equal(len(os.listdir(t.folder + "/many")), 3000)
    t.home("sandbox", "cp", f"{t.box}:large", t.folder + "/large", timeout=120)
    t.home("sandbox", "cp", t.folder + "/large", f"{t.box}:again", timeout=120)
    t.home.sh(t.box, "cmp /workspace/large /workspace/again")
