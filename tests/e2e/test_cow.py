# SPDX-License-Identifier: Apache-2.0
"""A cow mount: the guest's writes stay in the sandbox, diff shows them, apply brings them over."""
import os
import tempfile

from harness import BUSYBOX, check, equal, wait_for

SLOW = 180


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


def read(path):
    with open(path, encoding="ascii") as f:
        return f.read()


def test_what_becomes_something_else(t):
    """Files, folders and links in each other's place, renamed folders, hard links, and folders
    deeper than descriptors go."""
    top = folder(t)
    os.symlink("kept", f"{top}/link")
    os.makedirs(f"{top}/old/in")
    with open(f"{top}/old/in/file", "w", encoding="ascii") as f:
        f.write("moved")
    os.makedirs(f"{top}/deep/" + "d/" * 66)
    box = t.create("types", "--mount", f"{top}:/src:cow")
    t.home.sh(box, "cd /src; rm changed; mkdir changed; echo in >changed/x; rm -r sub; echo f >sub; "
                   "rm link; mkdir link; cp -r old new; rm -r old; ln kept hard; rm -r deep", timeout=120)
    t.home("sandbox", "apply", "--yes", box, "/src")
    equal(sorted(os.listdir(top)), ["changed", "hard", "kept", "link", "new", "removed", "sub"])
    equal((read(top + "/changed/x"), read(top + "/sub"), read(top + "/new/in/file")),
          ("in\n", "f\n", "moved"))
    check(os.path.isdir(top + "/link") and not os.path.islink(top + "/link"), "a folder now")
    check(os.path.samefile(top + "/kept", top + "/hard"), "two names of one file")
    equal(t.home("sandbox", "diff", box, "/src").out, b"", "then nothing differs")


def test_a_container_runs_and_the_host_goes_on(t):
    top = folder(t)
    box = t.create("live", "--mount", f"{top}:/src:cow")
    t.home("sandbox", "run", "-d", "--name", "c", box, BUSYBOX, "sleep", "600")

    def sh(script):
        return t.home("sandbox", "exec", box, "c", "sh", "-c", script).text.strip()

    equal(sh("cat /src/kept; echo mine >/src/mine"), "kept")
    with open(top + "/later", "w", encoding="ascii") as f:
        f.write("later")
    with open(top + "/kept.new", "w", encoding="ascii") as f:
        f.write("replaced")
    os.rename(top + "/kept.new", top + "/kept")
    wait_for(lambda: sh("cat /src/later /src/kept 2>&1") == "laterreplaced", "the host's files", 10)
    equal(t.home("sandbox", "diff", box, "/src").text, "A mine\n", "only what is the sandbox's")
    t.home("sandbox", "apply", "--yes", box, "/src")
    equal((read(top + "/mine"), sh("cat /src/mine")), ("mine\n", "mine"))


def test_rewind_and_stop(t):
    top = folder(t)
    box = t.create("back", "--mount", f"{top}:/src:cow")
    t.home.sh(box, "echo first >/src/first")
    t.home("checkpoint", box, "--label", "one")
    t.home.sh(box, "echo second >/src/second; rm /src/first /src/kept")
    equal(t.home("sandbox", "diff", box, "/src").text, "D kept\nA second\n")
    t.home("rewind", box, "--to", "one", "--yes")
    equal(t.home("sandbox", "diff", box, "/src").text, "A first\n", "as at the checkpoint")
    t.home("sandbox", "stop", box)
    t.home.refused(1, "start", args=["sandbox", "diff", box, "/src"])
    t.home("sandbox", "start", box, timeout=120)
    equal(t.home("sandbox", "diff", box, "/src").text, "A first\n", "after a start")
    t.home("sandbox", "apply", "--yes", box, "/src", "/src/first")
    equal(read(top + "/first"), "first\n")
    done = [(r["action"], r["result"]) for r in t.home.rows("audit", "ls", "--sandbox", box)]
    check(("mount.apply", "ok") in done, f"the record has it: {done}")
    t.home.refused(1, "nothing changed", args=["sandbox", "apply", "--yes", box, "/src", "kept"])
    t.home.refused(1, args=["sandbox", "apply", "--yes", box, "/src", "../x"])
    t.home.refused(1, args=["sandbox", "diff", box, "/none"])


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
