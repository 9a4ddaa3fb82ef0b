# SPDX-License-Identifier: Apache-2.0
"""Crashes tell the truth and lose nothing that was synced; races have one winner."""
import os
import signal
import socket
import subprocess
import threading
import time

from harness import (BUSYBOX, SMALL, check, equal, gone, kill, qemu_of, qemus, supervisor_of,
                     supervisors, wait_for)

HOME = "own"
SANDBOX = True
SLOW = 300


def marked(t, text):
    t.home.sh(t.box, f"echo {text} > /workspace/mark; sync")


def mark(t):
    return t.home.sh(t.box, "cat /workspace/mark")


def test_the_sandbox_outlives_its_clients(t):
    run = t.background(t.box, BUSYBOX, "sleep", "99")
    supervisor = supervisor_of(t.home, t.box)
    run.kill()
    equal(t.home.state(t.box), "running")
    check(not gone(supervisor), "the supervisor lives")
    equal(t.home.sh(t.box, "echo fine"), "fine")


def test_a_killed_supervisor(t):
    marked(t, "before")
    t.home("checkpoint", t.box, "--label", "kept")
    marked(t, "after")
    run = t.background(t.box, BUSYBOX, "sh", "-c", "echo started; sleep 99")
    run.wait_output(b"started")
    supervisor = supervisor_of(t.home, t.box)
    qemu = qemu_of(supervisor)
    kill(supervisor)
    wait_for(lambda: gone(qemu), "QEMU to end with its supervisor")
    equal(run.wait(10), 125, "the client of the run gets an error")
    equal(t.home.state(t.box), "crashed")
    equal(supervisors() + qemus(), [], "nothing is left running, nothing was started anew")
    t.home.refused(125, "crashed", "start", args=["sandbox", "run", t.box, BUSYBOX, "true"])
    equal(t.home.state(t.box), "crashed", "a refused run starts nothing")


def test_start_after_a_crash_brings_the_disk_back(t):
    t.home("sandbox", "start", t.box)
    equal(mark(t), "after", "the newest synced disk")
    labels = [row["label"] for row in t.home.rows("checkpoint", "ls", t.box)]
    equal(labels, ["kept"])
    t.home("rewind", t.box, "--to", "kept", "--yes")
    equal(mark(t), "before")


def test_a_killed_qemu(t):
    marked(t, "qemu")
    supervisor = supervisor_of(t.home, t.box)
    run = t.background(t.box, BUSYBOX, "sh", "-c", "echo started; sleep 99")
    run.wait_output(b"started")
    kill(qemu_of(supervisor))
    equal(run.wait(10), 125, "the client of the run gets an error")
    wait_for(lambda: t.home.state(t.box) == "crashed", "ls to say crashed")
    wait_for(lambda: gone(supervisor), "the supervisor to end")
    t.home.refused(1, "crashed", args=["checkpoint", t.box, "--label", "dead"])
    t.home("sandbox", "start", t.box)
    equal(mark(t), "qemu")


def test_a_stopped_qemu_is_no_hang(t):
    """A QEMU that stands still: what asks the guest ends with an error, and rm --force still
    removes the sandbox in good time."""
    box = t.create("frozen")
    t.home("sandbox", "ps", box)
    qemu = qemu_of(supervisor_of(t.home, box))
    os.kill(qemu, signal.SIGSTOP)
    began = time.monotonic()
    asking = [t.home.start("sandbox", *args, stderr=subprocess.PIPE, stdout=subprocess.DEVNULL)
              for args in (["ps", box], ["kill", box, "web"], ["rm", f"{box}/web"])]
    for client in asking:
        error = client.communicate(timeout=40)[1]
        check(client.returncode == 1 and b"does not answer" in error, f"{client.args}: {error!r}")
    check(time.monotonic() - began < 25, "in good time")
    result = t.home("sandbox", "rm", "--force", box, timeout=40)
    check(result.seconds < 30, f"{result}")
    t.boxes.remove(box)
    check(gone(qemu), "its QEMU is gone")


def test_rewind_of_a_crashed_sandbox(t):
    kill(supervisor_of(t.home, t.box))
    wait_for(lambda: not qemus(), "QEMU to end")
    t.home("rewind", t.box, "--to", "kept", "--yes")
    equal(mark(t), "before")
    equal(t.home.state(t.box), "running")


def test_stop_is_clean_and_keeps_checkpoints(t):
    t.home.sh(t.box, "echo unsynced > /workspace/mark")
    t.home("sandbox", "stop", t.box)
    equal(t.home.state(t.box), "stopped")
    equal(supervisors() + qemus(), [], "processes of a stopped sandbox")
    t.home.refused(1, "stopped", args=["checkpoint", t.box, "--label", "no"])
    t.home("sandbox", "start", t.box)
    equal(mark(t), "unsynced", "stop syncs")
    equal([row["label"] for row in t.home.rows("checkpoint", "ls", t.box)], ["kept"])


def test_stop_and_start_of_what_is_so_already(t):
    first = t.home.any("sandbox", "start", t.box)
    check(first.code in (0, 1), f"start of a running one: {first}")
    equal(mark(t), "unsynced", "it is the same machine")
    t.home("sandbox", "stop", t.box)
    second = t.home.any("sandbox", "stop", t.box)
    check(second.code in (0, 1), f"stop of a stopped one: {second}")
    equal(t.home.state(t.box), "stopped")
    t.home("sandbox", "start", t.box)


def test_rm_of_a_running_sandbox_needs_force(t):
    t.home.refused(1, "force", args=["sandbox", "rm", t.box])
    equal(t.home.state(t.box), "running")


def test_a_stale_socket_and_pid_file(t):
    """Left over from a crash, and naming a process that is none of ours."""
    stranger = subprocess.Popen(["sleep", "300"])
    try:
        kill(supervisor_of(t.home, t.box))
        wait_for(lambda: not qemus(), "QEMU to end")
        folder = os.path.join(t.home.path, "sandboxes", t.home.inspect(t.box)["id"])
        path = os.path.join(folder, "control.sock")
        if os.path.exists(path):
            os.unlink(path)
        stale = socket.socket(socket.AF_UNIX)
        os.chdir(folder)
        stale.bind("control.sock")
        stale.close()
        os.chdir("/")
        for name in ("pid", "supervisor.pid", "qemu.pid"):
            with open(os.path.join(folder, name), "w") as f:
                f.write(f"{stranger.pid}\n")
        equal(t.home.state(t.box), "crashed")
        t.home("sandbox", "start", t.box)
        equal(mark(t), "unsynced")
        t.home("sandbox", "stop", t.box)
        check(stranger.poll() is None, "the stranger survives")
        t.home("sandbox", "start", t.box)
    finally:
        stranger.kill()
        stranger.wait()


def test_twenty_creates_at_once_have_one_winner(t):
    results = []

    def one():
        results.append(t.home.any("sandbox", "create", "contested", *SMALL, timeout=120))
    threads = [threading.Thread(target=one) for _ in range(20)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    t.boxes.append("contested")
    winners = [r for r in results if r.code == 0]
    check(len(winners) == 1, "\n".join(str(r) for r in results))
    for loser in results:
        check(loser.code == 0 or (loser.code == 1 and "contested" in loser.errors
                                  and loser.errors.startswith("kosa8: ")), f"{loser}")
    equal(len([r for r in t.home.rows("sandbox", "ls") if r["name"] == "contested"]), 1)
    equal(t.home.sh("contested", "echo usable"), "usable")
    t.remove("contested")
    wait_for(lambda: len(supervisors()) == 1 and len(qemus()) == 1, "only the group's own to run")


def test_remove_create_run_again_and_again(t):
    rounds = 50
    t.home("sandbox", "create", "again", *SMALL)
    t.boxes.append("again")
    for n in range(rounds):
        t.home("sandbox", "rm", "-f", "again")
        t.home("sandbox", "create", "again", *SMALL)
        equal(t.home.sh("again", f"echo {n}"), str(n))
    t.remove("again")
    equal(len(t.home.files("sandboxes")), len([f for f in t.home.files("sandboxes")
          if f.startswith(t.home.inspect(t.box)["id"])]), "folders of removed sandboxes")


def test_a_guest_that_powers_down_by_itself(t):
    """Nothing in a container may: it has no such right."""
    result = t.home.any("sandbox", "run", t.box, BUSYBOX, "poweroff", "-f")
    check(result.code not in (0, 125), f"the program ran and was refused: {result}")
    equal(t.home.sh(t.box, "echo there"), "there")


def test_a_client_killed_in_every_command(t):
    """Whatever a command was doing when it was killed, the next one finds a whole sandbox."""
    for command in (["checkpoint", t.box, "--label", "cut"], ["rewind", t.box, "--to", "kept", "--yes"],
                    ["sandbox", "stop", t.box], ["sandbox", "create", "half", *SMALL]):
        process = t.home.start(*command)
        try:
            process.wait(0.05)
        except subprocess.TimeoutExpired:
            pass
        process.kill()
        process.wait()
        process.stdout.close()
        process.stderr.close()
    wait_for(lambda: t.home.any("sandbox", "rm", "-f", "half").code in (0, 1)
             and t.home.state("half") is None, "half to be gone")

    def usable():
        state = t.home.state(t.box)
        check(state != "crashed", "no client's death crashes a sandbox")
        if state == "stopped":
            t.home.any("sandbox", "start", t.box)
        return t.home.any("sandbox", "run", t.box, BUSYBOX, "true").code == 0
    wait_for(usable, "the sandbox to be usable", 40)
