# SPDX-License-Identifier: Apache-2.0
"""A cow mount: the guest's writes stay in the sandbox, diff shows them, apply brings them over."""
import os
import tempfile

from harness import BUSYBOX, check, equal

SLOW = 120


def folder(t):
    top = tempfile.mkdtemp(prefix="host-", dir=t.folder)
    os.makedirs(f"{top}/sub")
    for name in ("kept", "changed", "removed", "sub/a"):
        with open(f"{top}/{name}", "w", encoding="ascii") as f:
            f.write(name)
    return top


def test_diff_and_apply(t):
    top = folder(t)
    box = t.create("cow", "--mount", f"{top}:/src:cow")
    t.home.sh(box, "cd /src; echo new >changed; rm removed; echo b >sub/b; rm -r sub; mkdir sub; "
                   "echo c >sub/c; touch kept; ln -s ../x link; cat kept >copy; chmod 640 copy")
    equal(sorted(os.listdir(top)), ["changed", "kept", "removed", "sub"], "the host is as it was")
    shown = t.home("sandbox", "diff", box, "/src").text.splitlines()
    equal(shown, ["C changed", "A copy", "A link", "D removed", "D sub/a", "A sub/c"], "diff")
    t.home.refused(1, "--yes", args=["sandbox", "apply", box, "/src"])
    t.home("sandbox", "apply", "--yes", box, "/src", "copy")
    equal(os.stat(top + "/copy").st_mode & 0o777, 0o640)
    check(os.path.exists(top + "/removed"), "only what was named")
    t.home("sandbox", "apply", "--yes", box, "/src")
    equal(sorted(os.listdir(top)), ["changed", "copy", "kept", "link", "sub"])
    equal(os.listdir(top + "/sub"), ["c"])
    equal(t.home("sandbox", "diff", box, "/src").out, b"", "then nothing differs")
    equal(t.home("sandbox", "run", box, BUSYBOX, "cat", "/src/copy").text, "kept")


def test_links_that_a_guest_made_lead_nowhere(t):
    top = folder(t)
    os.mkdir(t.folder + "/outside")
    box = t.create("evil", "--mount", f"{top}:/src:cow")
    t.home.sh(box, "cd /src; ln -s ../outside out; mkdir d; ln -s ../../outside d/out; "
                   "rm -r sub; ln -s ../outside sub; mkfifo p; touch suid; chmod 6755 suid")
    result = t.home("sandbox", "apply", "--yes", box, "/src")
    check(b"skipped p" in result.err, f"the pipe is told: {result}")
    equal(os.listdir(t.folder + "/outside"), [])
    equal((os.readlink(top + "/sub"), os.stat(top + "/suid").st_mode & 0o7777), ("../outside", 0o755))
