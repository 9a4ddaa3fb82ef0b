# SPDX-License-Identifier: Apache-2.0
"""Host folders in a sandbox: what is seen where, what can be written, and what becomes of it."""
import os
import shutil
import signal
import time

from harness import check, equal, gone, kill, named, supervisor_of, wait_for

SLOW = 180


def folder(t, name):
    path = os.path.join(t.folder, name)
    os.makedirs(path, exist_ok=True)
    return os.path.realpath(path)


def write(path, text):
    with open(path, "w", encoding="utf-8") as f:
        f.write(text)


def read(path):
    with open(path, encoding="utf-8") as f:
        return f.read()


def states(t):
    return {m["guest"]: m["state"] for m in t.home.rows("sandbox", "mount", "ls", t.box)}


def servers(t):
    return named("kosa8-fs", supervisor_of(t.home, t.box))


def setup(t):
    t.rw, t.ro, t.cow = (folder(t, n) for n in ("rw", "ro", "cow"))
    for path in (t.rw, t.ro, t.cow):
        write(f"{path}/hello", os.path.basename(path))
    t.box = t.create("box", "--mount", f"{t.rw}:/rw", "--mount", f"{t.ro}:/data/ro:ro", "--mount",
                     f"{t.cow}:/cow:cow")


def test_what_the_host_has_is_seen(t):
    equal(t.home.sh(t.box, "cat /rw/hello /data/ro/hello /cow/hello"), "rwrocow")
    write(f"{t.rw}/later", "from the host")
    equal(t.home.sh(t.box, "cat /rw/later"), "from the host")


def test_rw_writes_on_the_host(t):
    t.home.sh(t.box, "mkdir /rw/d; echo guest > /rw/d/f; ln -s f /rw/d/l; rm /rw/later")
    equal(read(f"{t.rw}/d/f"), "guest\n")
    equal(os.readlink(f"{t.rw}/d/l"), "f")
    equal(os.stat(f"{t.rw}/d/f").st_uid, os.getuid(), "it belongs to the caller")
    check(not os.path.exists(f"{t.rw}/later"), "and removes there")


def test_ro_cannot_be_written(t):
    result = t.home.any("sandbox", "run", t.box, "busybox", "sh", "-c",
                        "echo x > /data/ro/hello || echo x > /data/ro/new || rm /data/ro/hello")
    check(result.code != 0, str(result))
    equal((read(f"{t.ro}/hello"), os.listdir(t.ro)), ("ro", ["hello"]))


def test_cow_keeps_writes_in_the_sandbox(t):
    t.home.sh(t.box, "echo changed > /cow/hello; echo x > /cow/new")
    equal(t.home.sh(t.box, "cat /cow/hello /cow/new"), "changed\nx", "the sandbox sees them")
    equal((read(f"{t.cow}/hello"), os.listdir(t.cow)), ("cow", ["hello"]), "the host does not")


def test_add_and_rm_of_a_running_sandbox(t):
    more = folder(t, "more")
    write(f"{more}/f", "more")
    t.home("sandbox", "mount", "add", t.box, f"{more}:/more:ro")
    equal(t.home.sh(t.box, "cat /more/f"), "more")
    equal(states(t), {"/rw": "mounted", "/data/ro": "mounted", "/cow": "mounted",
                      "/more": "mounted"})
    t.home.refused(1, "already", args=["sandbox", "mount", "add", t.box, f"{more}:/more"])
    t.home("sandbox", "mount", "rm", t.box, "/more")
    equal(t.home.sh(t.box, "ls /more 2>/dev/null | wc -l"), "0")
    equal(len(servers(t)), 3, "its server has ended")
    for _ in range(4):
        t.home("sandbox", "mount", "add", t.box, f"{more}:/more:ro")
        t.home("sandbox", "mount", "rm", t.box, "/more")
        equal(len(servers(t)), 3, "each time when the command returns")
    t.home.refused(1, "no mount", args=["sandbox", "mount", "rm", t.box, "/more"])


def test_users_come_from_a_mount_over_etc(t):
    etc = folder(t, "etc")
    write(f"{etc}/passwd", "root:x:0:0::/:/bin/sh\nmine:x:1234:1235::/tmp:/bin/sh\n")
    t.home("sandbox", "mount", "add", t.box, f"{etc}:/etc:ro")
    equal(t.home.sh(t.box, "id -u"), "0", "root runs, without a group file")
    r = t.home("sandbox", "run", "-u", "mine", t.box, "busybox", "sh", "-c", "id -u; id -g")
    equal(r.out, b"1234\n1235\n", "as the container sees it")
    os.unlink(f"{etc}/passwd")
    os.mkdir(f"{etc}/passwd")
    t.home.refused(125, "the container's /etc/passwd is not a file",
                   args=["sandbox", "run", t.box, "busybox", "true"])
    t.home("sandbox", "mount", "rm", t.box, "/etc")


def test_rewind(t):
    t.home.sh(t.box, "echo one > /rw/state; echo one > /cow/state")
    t.home("checkpoint", t.box, "--label", "one")
    late = folder(t, "late")
    write(f"{late}/f", "late")
    t.home("sandbox", "mount", "add", t.box, f"{late}:/late")
    t.home.sh(t.box, "echo two > /rw/state; echo two > /cow/state")
    result = t.home("rewind", t.box, "--to", "one", "--yes")
    check(result.errors.count("are not rewound") == 1 and "/rw" in result.errors, str(result))
    equal(t.home.sh(t.box, "cat /rw/state /cow/state"), "two\none", "only the sandbox's own writes")
    equal(t.home.sh(t.box, "cat /late/f"), "late", "a mount that came after the checkpoint")
    t.home("sandbox", "mount", "rm", t.box, "/late")
    t.home("checkpoint", t.box, "--label", "without")


def test_a_program_goes_on_over_a_rewind(t):
    write(f"{t.rw}/open", "kept open")
    keeper = t.background(t.box, "busybox", "sh", "-c",
                          "exec 3</rw/open; echo ready; while ! [ -e /workspace/go ]; do sleep 0.1;"
                          " done; cat <&3 > /workspace/got; echo > /workspace/done; sleep 100")
    keeper.wait_output(b"ready")
    t.home("checkpoint", t.box, "--label", "open")
    t.home("rewind", t.box, "--to", "open", "--yes")
    t.home.sh(t.box, "touch /workspace/go")
    wait_for(lambda: t.home.sh(t.box, "ls /workspace/done 2>/dev/null || true"), "it has read", 60)
    equal(t.home.sh(t.box, "cat /workspace/got"), "kept open")


def test_a_root_that_vanished(t):
    lost = folder(t, "gone")
    t.home("sandbox", "mount", "add", t.box, f"{lost}:/gone")
    t.home("checkpoint", t.box, "--label", "gone")
    shutil.rmtree(lost)
    before = supervisor_of(t.home, t.box)
    t.home.refused(1, lost, "is gone", f"mount rm {t.box} /gone",
                   args=["rewind", t.box, "--to", "gone", "--yes"])
    equal(supervisor_of(t.home, t.box), before, "the sandbox runs on")
    equal(t.home.sh(t.box, "cat /rw/hello"), "rw", "with its mounts")
    t.home("sandbox", "stop", t.box)
    t.home.refused(1, lost, "is gone", f"mount rm {t.box} /gone",
                   args=["sandbox", "start", t.box])
    equal(t.home.state(t.box), "stopped")
    t.home("sandbox", "mount", "rm", t.box, "/gone")
    t.home("sandbox", "start", t.box, timeout=120)
    equal(t.home.sh(t.box, "cat /rw/hello /cow/hello"), "rwchanged")


def test_a_server_that_dies(t):
    victim = folder(t, "victim")
    write(f"{victim}/f", "x")
    before = {s["pid"] for s in servers(t)}
    t.home("sandbox", "mount", "add", t.box, f"{victim}:/victim")
    kill([s["pid"] for s in servers(t) if s["pid"] not in before][0])
    wait_for(lambda: states(t)["/victim"] == "failed", "mount ls says so")
    result = t.home.any("sandbox", "run", t.box, "busybox", "cat", "/victim/f")
    check(result.code != 0, f"an error, no hang: {result}")
    equal(t.home.sh(t.box, "cat /rw/hello"), "rw", "the others go on")
    t.home.refused(1, "/victim", "mount rm", args=["checkpoint", t.box])
    t.home("sandbox", "mount", "rm", t.box, "/victim")
    t.home("sandbox", "mount", "add", t.box, f"{victim}:/victim")
    equal(t.home.sh(t.box, "cat /victim/f"), "x", "removed and added, it is cured")
    t.home("checkpoint", t.box)


def test_a_server_that_stands_still(t):
    still = folder(t, "still")
    write(f"{still}/f", "x")
    before = {s["pid"] for s in servers(t)}
    t.home("sandbox", "mount", "add", t.box, f"{still}:/still")
    server = [s["pid"] for s in servers(t) if s["pid"] not in before][0]
    other = t.background(t.box, "busybox", "sh", "-c",
                         "while read line; do cat $line; done", flags=["-i"])
    reader = t.background(t.box, "busybox", "sh", "-c", "echo ready; read go; cat /still/f",
                          flags=["-i"])
    reader.wait_output(b"ready")
    os.kill(server, signal.SIGSTOP)
    try:
        reader.process.stdin.write(b"go\n")
        reader.process.stdin.flush()
        other.process.stdin.write(b"/rw/hello\n/cow/hello\n")
        other.process.stdin.flush()
        other.wait_output(b"rwchanged")
        began = time.monotonic()
        t.home.refused(1, "/still", "does not answer", args=["checkpoint", t.box])
        check(time.monotonic() - began < 15, "the checkpoint is given up")
        equal(t.home.sh(t.box, "cat /cow/hello"), "changed", "the sandbox runs on")
    finally:
        os.kill(server, signal.SIGCONT)
    equal((reader.wait(60), bytes(reader.out)), (0, b"ready\nx"), "what waited gets its answer")
    other.process.stdin.close()
    equal(other.wait(60), 0)
    t.home("checkpoint", t.box)
    t.home("sandbox", "mount", "rm", t.box, "/still")


def test_what_cannot_be_mounted(t):
    for what, needle in ((f"{t.home.path}:/a", "record"), (f"{t.rw}/hello:/a", "not a folder"),
                         (f"{t.rw}/none:/a", "no folder"), (f"{t.rw}:/proc", "/proc")):
        t.home.refused(1, needle, args=["sandbox", "mount", "add", t.box, what])
    t.home.refused(1, "no folder", args=["sandbox", "create", "mounts-none", "--mount",
                                         f"{t.rw}/none:/a"])
    check(t.home.state("mounts-none") is None, "no sandbox was made")


def test_no_process_is_left(t):
    supervisor = supervisor_of(t.home, t.box)
    mine = [s["pid"] for s in named("kosa8-fs", supervisor)]
    check(len(mine) >= 4, f"control: it has servers: {mine}")
    t.home("sandbox", "stop", t.box)
    wait_for(lambda: not any(os.path.exists(f"/proc/{pid}") for pid in mine), "they have ended")
    t.home("sandbox", "start", t.box, timeout=120)
    supervisor = supervisor_of(t.home, t.box)
    mine = [s["pid"] for s in named("kosa8-fs", supervisor)]
    check(len(mine) >= 4, f"control: it has servers: {mine}")
    kill(supervisor)
    wait_for(lambda: all(gone(pid) for pid in mine), "they end with a supervisor that is killed")
