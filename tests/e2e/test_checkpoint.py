# SPDX-License-Identifier: Apache-2.0
"""Checkpoint and rewind: memory, processes, open files and disk come back; clock and chance do not."""
import time

from harness import BUSYBOX, PYTHON, check, equal, wait_for

SANDBOX = True
SLOW = 180
# Lives through every rewind of this group: a counter in memory, an unlinked open file, and a socket
# through which it answers. It reads requests from /workspace/ask.fifo.
KEEPER = """
import os, socket, threading, time
count = 0
f = open('/workspace/unlinked', 'w+')
f.write('only in an open file'); f.flush(); os.unlink('/workspace/unlinked')
def tick():
    global count
    while True:
        count += 1
        with open('/workspace/count.tmp', 'w') as o:
            o.write(str(count))
        os.rename('/workspace/count.tmp', '/workspace/count')
        time.sleep(0.05)
threading.Thread(target=tick, daemon=True).start()
try:
    os.unlink('/workspace/keeper')
except OSError:
    pass
s = socket.socket(socket.AF_UNIX); s.bind('/workspace/keeper'); s.listen(8)
print('ready', flush=True)
while True:
    c, _ = s.accept()
    f.seek(0)
    c.sendall(('%d %s' % (count, f.read())).encode()); c.close()
"""
ASK = ("import socket; s = socket.socket(socket.AF_UNIX); s.connect('/workspace/keeper');"
       "print(b''.join(iter(lambda: s.recv(4096), b'')).decode())")


def ask(t):
    count, text = t.home.python(t.box, ASK).split(" ", 1)
    return int(count), text


def checkpoint(t, label):
    result = t.home("checkpoint", t.box, "--label", label)
    equal(len(result.text.split()), 1, f"it prints the id and nothing else: {result}")
    return result.text.strip()


def rewind(t, label):
    return t.home("rewind", t.box, "--to", label, "--yes")


def setup(t):
    t.keeper = t.background(t.box, PYTHON, "python", "-c", KEEPER)
    t.keeper.wait_output(b"ready")
    t.home.sh(t.box, "mkdir /workspace/tree; echo deleted-later > /workspace/tree/old; sync")


def test_a_checkpoint_does_not_disturb_what_runs(t):
    before, _ = ask(t)
    checkpoint(t, "one")
    after, text = ask(t)
    check(after > before, f"the counter goes on: {before}, {after}")
    equal(text, "only in an open file")
    check(t.keeper.process.poll() is None, "the client of the run is still connected")


def test_rewind_brings_memory_processes_and_files_back(t):
    t.home.sh(t.box, "rm /workspace/tree/old; echo new > /workspace/tree/new; sync")
    wait_for(lambda: ask(t)[0] > 60, "the counter to be well past the checkpoint")
    late, _ = ask(t)
    rewind(t, "one")
    early, text = ask(t)
    check(early < late, f"the counter went back: {late}, then {early}")
    equal(text, "only in an open file", "the unlinked file")
    again, _ = ask(t)
    check(again > early, f"and it counts on: {early}, {again}")
    equal(t.home.sh(t.box, "ls /workspace/tree; cat /workspace/tree/old"), "old\ndeleted-later")


def test_the_client_of_an_old_run_gets_an_error(t):
    code = t.keeper.wait(20)
    equal(code, 125, f"exit of the run that was rewound away: {bytes(t.keeper.err)!r}")
    check(b"kosa8: " in t.keeper.err, f"and it says why: {bytes(t.keeper.err)!r}")


def test_the_clock_is_right_after_a_rewind(t):
    rewind(t, "one")
    guest = float(t.home.sh(t.box, "date +%s.%N").rstrip("N"))
    check(abs(guest - time.time()) < 1.5, f"guest {guest}, host {time.time()}")
    result = t.home.python(t.box, "import time; print(time.time())")
    check(abs(float(result) - time.time()) < 1, f"guest {result}, host {time.time()}")


def test_chance_differs_between_two_rewinds(t):
    seen = set()
    for _ in range(3):
        rewind(t, "one")
        seen.add(t.home.sh(t.box, "head -c 32 /dev/urandom | od -An -tx1 | tr -d ' \\n'"))
    equal(len(seen), 3, "different random bytes after each rewind to one checkpoint")
    check(all(len(s) == 64 for s in seen), f"32 bytes each: {seen}")


def test_checkpoints_on_two_branches_in_any_order(t):
    rewind(t, "one")
    t.home.sh(t.box, "echo left > /workspace/branch; sync")
    checkpoint(t, "left")
    rewind(t, "one")
    t.home.sh(t.box, "echo right > /workspace/branch; echo x > /workspace/only-right; sync")
    checkpoint(t, "right")
    want = {"one": "none", "left": "left", "right": "right"}
    for label in ("left", "right", "one", "right", "left", "left", "one"):
        rewind(t, label)
        got = t.home.sh(t.box, "cat /workspace/branch 2>/dev/null || echo none")
        equal(got, want[label], f"after a rewind to {label}")
        ask(t)


def test_rewind_without_to_goes_to_the_newest(t):
    t.home("rewind", t.box, "--yes")
    equal(t.home.sh(t.box, "cat /workspace/branch"), "right")


def test_listing_and_removing(t):
    labels = [row["label"] for row in t.home.rows("checkpoint", "ls", t.box)]
    equal(sorted(labels), ["left", "one", "right"])
    t.home("checkpoint", "rm", t.box, "one")
    labels = [row["label"] for row in t.home.rows("checkpoint", "ls", t.box)]
    equal(sorted(labels), ["left", "right"])
    for label in ("left", "right"):
        rewind(t, label)
        equal(t.home.sh(t.box, "cat /workspace/branch; cat /workspace/tree/old"),
              f"{label}\ndeleted-later", "what stands on the removed one")
    t.home.refused(1, "one", args=["rewind", t.box, "--to", "one", "--yes"])


def test_by_id_as_well_as_by_label(t):
    made = checkpoint(t, "named")
    t.home.sh(t.box, "echo later > /workspace/branch")
    t.home("rewind", t.box, "--to", made, "--yes")
    equal(t.home.sh(t.box, "cat /workspace/branch"), "right")
    t.home("checkpoint", "rm", t.box, made)


def test_labels(t):
    t.home.refused(1, "left", args=["checkpoint", t.box, "--label", "left"])
    t.home.refused(1, "lift", "left", args=["rewind", t.box, "--to", "lift", "--yes"])
    for label in ("", "x" * 129, "a\nb"):
        result = t.home.any("checkpoint", t.box, "--label", label)
        check(result.code in (1, 2) and not result.out, f"a label that is none: {result}")
    odd = "größe / 2 --yes"
    checkpoint(t, odd)
    t.home("checkpoint", "rm", t.box, odd)


def test_rewind_needs_a_yes(t):
    t.home.sh(t.box, "echo stays > /workspace/stays")
    t.home.refused(1, "--yes", args=["rewind", t.box, "--to", "left"])
    equal(t.home.sh(t.box, "cat /workspace/stays"), "stays", "nothing was rewound")


def test_six_rounds_in_quick_succession(t):
    t.home("rewind", t.box, "--to", "left", "--yes")
    for n in range(6):
        t.home.sh(t.box, f"echo {n} > /workspace/round{n}")
        checkpoint(t, f"round{n}")
        t.home("rewind", t.box, "--yes")
        equal(t.home.sh(t.box, "ls /workspace | grep -c round"), str(n + 1), f"in round {n}")
    for n in range(6):
        t.home("checkpoint", "rm", t.box, f"round{n}")
    equal(t.home.sh(t.box, "cat /workspace/round*").split(), list("012345"))
    ask(t)


def test_a_run_in_flight_over_a_checkpoint_loses_nothing(t):
    run = t.background(t.box, PYTHON, "python", "-c",
                       "import sys\nfor i in range(200000): sys.stdout.write('%07d\\n' % i)")
    run.wait_output(b"0000100\n")
    checkpoint(t, "inflight")
    equal(run.wait(60), 0, "exit")
    want = b"".join(b"%07d\n" % i for i in range(200000))
    check(bytes(run.out) == want, f"{len(run.out)} bytes of {len(want)} came")
    t.home("checkpoint", "rm", t.box, "inflight")


def test_a_checkpoint_of_busy_memory(t):
    """A program that changes memory all the time is caught at one instant: its two halves agree."""
    code = ("import mmap, time\nm = mmap.mmap(-1, 8 << 20)\nn = 0\nprint('ready', flush=True)\n"
            "while True:\n n += 1\n b = n.to_bytes(8, 'little')\n"
            " for o in range(0, 8 << 20, 1 << 16): m[o:o+8] = b\n"
            " s = {m[o:o+8] for o in range(0, 8 << 20, 1 << 16)}\n"
            " open('/workspace/halves', 'w').write('%d %d' % (n, len(s)))\n time.sleep(0.01)")
    run = t.background(t.box, PYTHON, "python", "-c", code)
    run.wait_output(b"ready")
    for n in range(3):
        checkpoint(t, f"busy{n}")
    for n in range(3):
        rewind(t, f"busy{n}")
        wait_for(lambda: t.home.sh(t.box, "cat /workspace/halves").endswith(" 1"), "one value")
        t.home("checkpoint", "rm", t.box, f"busy{n}")
    run.kill()


def test_egress_and_limits_hold_after_a_rewind(t):
    rewind(t, "left")
    equal(t.home.sh(t.box, "tail -n +2 /proc/net/route | wc -l"), "0")
    t.home.exits(124, "sandbox", "run", "--timeout", "1s", t.box, BUSYBOX, "sleep", "60")


def test_a_stopped_sandbox_can_be_rewound(t):
    t.home.sh(t.box, "echo other > /workspace/branch; sync")
    t.home("sandbox", "stop", t.box)
    rewind(t, "right")
    equal(t.home.state(t.box), "running")
    equal(t.home.sh(t.box, "cat /workspace/branch"), "right")
    ask(t)
