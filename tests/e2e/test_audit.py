# SPDX-License-Identifier: Apache-2.0
"""The record of what was done: who, what, bound to what; and every kind of damage to it is named."""
import json
import os
import pty
import shutil

from harness import BUSYBOX, PYTHON, check, equal, wait_for

HOME = "own"
SANDBOX = True


def records(t, **match):
    return [r for r in t.home.rows("audit", "ls")
            if all(r.get(k) == v for k, v in match.items())]


def log(t):
    return os.path.join(t.home.path, "audit/log.jsonl")


def lines(t):
    with open(log(t), "rb") as f:
        return f.read().splitlines(keepends=True)


def write(t, content):
    with open(log(t), "wb") as f:
        f.write(b"".join(content))


def setup(t):
    t.home("sandbox", "pull", t.box, PYTHON)
    t.home("checkpoint", t.box, "--label", "one")
    t.home.python(t.box, "print(1)")
    t.home("rewind", t.box, "--to", "one", "--yes")


def test_every_action_is_recorded_before_and_after(t):
    with open(log(t)) as f:
        all_of_it = [json.loads(line) for line in f]
    equal([r["seq"] for r in all_of_it], list(range(1, len(all_of_it) + 1)), "sequence")
    begun = {r["seq"] for r in all_of_it if r["phase"] == "begin"}
    ended = {r["of"] for r in all_of_it if r["phase"] == "end"}
    equal(begun, ended, "every begin has its end")
    actions = {r["action"] for r in all_of_it}
    for word in ("create", "pull", "checkpoint", "run", "rewind"):
        check(any(word in a for a in actions), f"{word} in {actions}")


def test_records_are_bound_to_hashes(t):
    with open(log(t)) as f:
        all_of_it = [json.loads(line) for line in f]
    run = next(r for r in all_of_it if r["action"].endswith("run") and r["phase"] == "end")
    check("sha256:" in json.dumps(run["bound"]) or len(str(run["bound"].get("image", ""))) >= 64,
          f"a run is bound to its image: {run}")
    rewind = next(r for r in all_of_it if "rewind" in r["action"] and r["phase"] == "end")
    check(rewind["bound"].get("checkpoint"), f"a rewind is bound to its checkpoint: {rewind}")
    create = next(r for r in all_of_it if "create" in r["action"] and r["phase"] == "begin")
    check(create["bound"].get("policy"), f"a create is bound to its policy: {create}")


def actor(t):
    with open(log(t)) as f:
        return json.loads(f.read().splitlines()[-1])["actor"]


def test_an_agent_without_a_terminal(t):
    t.home.sh(t.box, "true")
    who = actor(t)
    equal((who["kind"], who["uid"]), ("agent", os.getuid()), f"{who}")
    check("python" in who["program"], f"the parent's program: {who}")


def test_a_named_agent(t):
    t.home("sandbox", "run", t.box, BUSYBOX, "true", env={"KOSA8_ACTOR": "planner-7"})
    who = actor(t)
    equal((who["kind"], who["name"]), ("agent", "planner-7"), f"{who}")


def test_a_human_at_a_terminal(t):
    master, slave = pty.openpty()
    process = t.home.start("sandbox", "run", t.box, BUSYBOX, "true", stdin=slave, stdout=slave,
                           stderr=slave)
    os.close(slave)
    equal(process.wait(30), 0)
    os.close(master)
    equal(actor(t)["kind"], "human")


def test_failures_are_recorded_too(t):
    t.home.any("sandbox", "run", t.box, BUSYBOX, "sh", "-c", "exit 3")
    t.home.any("rewind", t.box, "--to", "nolabel", "--yes")
    t.home.any("sandbox", "create", t.box)
    t.home("audit", "verify")


def test_a_start_whose_client_is_killed_is_recorded(t):
    t.home("sandbox", "stop", t.box)
    client = t.home.start("sandbox", "start", t.box)
    wait_for(lambda: records(t, action="sandbox.start"), "control: its begin is recorded")
    client.kill()
    client.wait()
    wait_for(lambda: t.home.state(t.box) == "running", "the supervisor goes on")
    wait_for(lambda: records(t, action="sandbox.start")[-1]["result"] == "ok", "the end is recorded")


def test_arguments_cannot_forge_a_listing(t):
    t.home("sandbox", "run", t.box, BUSYBOX, "echo", "\033[2Jgone", "\n1 forged")
    listing = t.home("audit", "ls")
    check("\033" not in listing.text, f"escapes are escaped: {listing}")
    check(not any(line.startswith("1 forged") for line in listing.text.splitlines()), f"{listing}")


def test_the_chain_holds(t):
    told = t.home("audit", "verify")
    check(str(len(lines(t))) in told.text, f"it says how many records: {told}")
    t.saved = lines(t)
    t.copy = os.path.join(t.folder, "audit")
    shutil.copytree(os.path.join(t.home.path, "audit"), t.copy)


def damaged(t, content, *words):
    """Verify exits 1 and says each of the words; with the log put back it holds again."""
    write(t, content)
    told = t.home.exits(1, "audit", "verify")
    said = (told.text + told.errors).lower()
    for word in words:
        check(word in said, f"'{word}' is not said: {told}")
    as_json = t.home.any("audit", "verify", "--json")
    equal(as_json.code, 1, f"{as_json}")
    check(as_json.json(), f"{as_json}")
    write(t, t.saved)
    t.home("audit", "verify")
    return told


def test_a_changed_byte(t):
    bad = list(t.saved)
    check(b'"action":"' in bad[4], f"control: {bad[4]}")
    bad[4] = bad[4].replace(b'"action":"', b'"action":"X', 1)
    damaged(t, bad, "changed", "5")


def test_a_dropped_record(t):
    damaged(t, t.saved[:5] + t.saved[6:], "6")


def test_swapped_records(t):
    bad = list(t.saved)
    bad[6], bad[7] = bad[7], bad[6]
    damaged(t, bad, "7")


def test_a_cut_tail(t):
    damaged(t, t.saved[:-3], str(len(t.saved) - 2))


def test_an_inserted_line(t):
    damaged(t, t.saved[:3] + [b"not a record\n"] + t.saved[3:], "4")


def test_a_record_added_at_the_end(t):
    forged = json.loads(t.saved[-1])
    forged["seq"] += 1
    forged["prev"] = forged["hash"]
    damaged(t, [*t.saved, json.dumps(forged).encode() + b"\n", json.dumps(forged).encode() + b"\n"],
            str(len(t.saved) + 1))


def test_an_emptied_log(t):
    damaged(t, [], "1")


def test_a_changed_head_and_another_key(t):
    for name in ("head", "key"):
        path = os.path.join(t.home.path, "audit", name)
        with open(path, "rb") as f:
            good = f.read()
        bad = bytearray(good)
        at = bad.index(b'"sig":"') + 10 if name == "head" else len(bad) // 2
        bad[at] = ord("A") if bad[at] != ord("A") else ord("B")
        with open(path, "wb") as f:
            f.write(bad)
        told = t.home.any("audit", "verify")
        check(told.code == 1 and name in (told.text + told.errors).lower(), f"{name}: {told}")
        with open(path, "wb") as f:
            f.write(good)
        t.home("audit", "verify")


def test_a_torn_last_record_is_sealed_and_no_alarm(t):
    """What a crash in the middle of an append leaves: half a line beyond the head."""
    write(t, [*t.saved, t.saved[-1][:57]])
    told = t.home("audit", "verify")
    check(told.text or told.errors, f"it is reported: {told}")
    t.home.sh(t.box, "true")
    t.home("audit", "verify")
    with open(log(t)) as f:
        after = [json.loads(line) for line in f]
    check(any("recover" in json.dumps(r) for r in after), "the seal is recorded")


def test_an_action_that_cannot_be_recorded_is_not_done(t):
    folder = os.path.join(t.home.path, "audit")
    hidden = folder + ".hidden"
    os.rename(folder, hidden)
    with open(folder, "w") as f:
        f.write("in the way")
    try:
        result = t.home.any("sandbox", "run", t.box, BUSYBOX, "sh", "-c", "echo x > /workspace/done")
        check(result.code == 125 and result.errors.startswith("kosa8: "), f"{result}")
        result = t.home.any("checkpoint", t.box, "--label", "unrecorded")
        check(result.code == 1 and result.errors.startswith("kosa8: "), f"{result}")
    finally:
        os.unlink(folder)
        os.rename(hidden, folder)
    equal(t.home.sh(t.box, "ls /workspace"), "")
    equal([r["label"] for r in t.home.rows("checkpoint", "ls", t.box)], ["one"])
    t.home("audit", "verify")


def test_listing_by_sandbox_and_age(t):
    check(records(t), "control: there are records")
    equal(t.home.rows("audit", "ls", "--sandbox", "nobody"), [])
    equal(t.home.rows("audit", "ls", "--since", "2100-01-01T00:00:00Z"), [])
    check(t.home.rows("audit", "ls", "--sandbox", t.box), "by its name")


def test_export_is_the_log_itself(t):
    exported = t.home("audit", "export").out
    check(exported.startswith(b"".join(lines(t))), "the lines as they are, then the head")


def test_an_older_copy_put_back(t):
    """The last test: the log is damaged for good. What is done afterwards does not hide it."""
    folder = os.path.join(t.home.path, "audit")
    shutil.rmtree(folder)
    shutil.copytree(t.copy, folder)
    told = t.home.exits(1, "audit", "verify")
    check("old" in (told.text + told.errors).lower(), f"{told}")
    for _ in range(12):
        t.home.any("sandbox", "run", t.box, BUSYBOX, "true")
    t.home.exits(1, "audit", "verify")
