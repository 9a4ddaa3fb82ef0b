# SPDX-License-Identifier: Apache-2.0
"""Parts that are missing, damaged, or made by another version."""
import json
import os
import re
import shutil

from harness import KOSA8, SMALL, check, equal, in_own_mounts, qemus, supervisors

HOME = "own"
SANDBOX = True
SLOW = 200


def checkpoint_folder(t, label):
    row, = [r for r in t.home.rows("checkpoint", "ls", t.box) if r["label"] == label]
    return os.path.join(t.home.path, "sandboxes", t.home.inspect(t.box)["id"], "checkpoints",
                        row["id"])


def change(path, at):
    with open(path, "r+b") as f:
        f.seek(at)
        byte = f.read(1)
        f.seek(at)
        f.write(bytes([byte[0] ^ 0xff]))


def setup(t):
    t.home.sh(t.box, "echo first > /workspace/mark; sync")
    t.home("checkpoint", t.box, "--label", "one")
    t.home.sh(t.box, "echo second > /workspace/mark; sync")


def intact(t, want="second"):
    """A refused rewind has changed nothing: the sandbox goes on where it was."""
    equal(t.home.state(t.box), "running")
    equal(t.home.sh(t.box, "cat /workspace/mark"), want)


def test_a_corrupt_checkpoint_file_is_refused(t):
    folder = checkpoint_folder(t, "one")
    for name in ("pages", "device", "meta.json"):
        path = os.path.join(folder, name)
        spare = path + ".spare"
        for how in ("changed", "cut", "missing"):
            shutil.copy2(path, spare)
            if how == "changed":
                change(path, os.path.getsize(path) // 2)
            elif how == "cut":
                os.truncate(path, os.path.getsize(path) // 2)
            else:
                os.unlink(path)
            t.home.refused(1, args=["rewind", t.box, "--to", "one", "--yes"])
            os.replace(spare, path)
            intact(t)
    t.home("rewind", t.box, "--to", "one", "--yes")
    intact(t, "first")


def test_a_checkpoint_of_another_qemu_is_refused_by_name(t):
    folder = checkpoint_folder(t, "one")
    path = os.path.join(folder, "meta.json")
    with open(path) as f:
        text = f.read()
    version = re.search(r'"(\d+\.\d+\.\d+)[^"]*"', text)
    check(version, f"the QEMU version is in meta.json: {text[:400]}")
    with open(path, "w") as f:
        f.write(text.replace(version.group(1), "5.2.0"))
    result = t.home.any("rewind", t.box, "--to", "one", "--yes")
    check(result.code == 1 and result.errors.startswith("kosa8: "), f"{result}")
    with open(path, "w") as f:
        f.write(text)
    intact(t, "first")


def test_a_damaged_template_is_made_anew(t):
    templates = os.path.join(t.home.path, "templates")
    key, = [n for n in os.listdir(templates) if os.path.isdir(os.path.join(templates, n))]
    t.home("sandbox", "stop", t.box)
    change(os.path.join(templates, key, "ram"), 20 << 20)
    box = t.create("anew")
    equal(t.home.sh(box, "echo fine"), "fine")
    t.remove(box)


def test_missing_qemu(t):
    """A file that is no program lies over it."""
    qemu = shutil.which("qemu-system-x86_64")
    empty = os.path.join(t.folder, "empty")
    open(empty, "w").close()
    via = in_own_mounts(f"mount --bind '{empty}' {qemu}")
    t.home.refused(1, "qemu", args=["sandbox", "create", "noqemu", *SMALL], via=via)
    equal(t.home.state("noqemu"), None)
    told = t.home.exits(1, "doctor", via=via)
    check("qemu-system-x86" in told.text + told.errors, f"doctor names the package: {told}")
    t.home("doctor", via=in_own_mounts("true"))


def test_missing_guest_assets(t):
    env = {"KOSA8_ASSETS": os.path.join(t.folder, "noassets")}
    t.home.refused(1, "vmlinuz", args=["sandbox", "create", "noassets", *SMALL], env=env)
    equal(t.home.state("noassets"), None)
    told = t.home.exits(1, "doctor", env=env)
    check("vmlinuz" in told.text + told.errors or "assets" in told.text + told.errors, f"{told}")


def test_missing_helper_programs(t):
    folder = os.path.join(t.folder, "alone")
    os.mkdir(folder)
    shutil.copy2(KOSA8, folder)
    t.home.refused(1, "kosa8-", args=["sandbox", "create", "alone", *SMALL],
                   env={"KOSA8_LIBEXEC": folder})
    equal(t.home.state("alone"), None)


def test_doctor_says_what_is_true_of_kvm(t):
    told = t.home("doctor")
    line = next(line for line in told.text.splitlines() if line.startswith("accelerator"))
    if os.path.exists("/dev/kvm") and not os.access("/dev/kvm", os.R_OK | os.W_OK):
        check("/dev/kvm" in line and "group kvm" in line, f"what is wrong and what to do: {line}")
    else:
        check("KVM usable" in line or "no virtualisation" in line, f"{line}")
    rows = t.home("doctor", "--json").json()
    check(json.dumps(rows), "as JSON too")


def test_a_newer_catalog_is_refused_with_both_versions(t):
    import sqlite3
    path = os.path.join(t.home.path, "catalog.db")
    with sqlite3.connect(path) as db:
        version, = db.execute("pragma user_version").fetchone()
        db.execute(f"pragma user_version = {version + 41}")
    db.close()
    t.home.refused(1, str(version), str(version + 41), args=["sandbox", "ls"])
    with sqlite3.connect(path) as db:
        db.execute(f"pragma user_version = {version}")
    db.close()
    t.home("sandbox", "ls")


def test_nothing_was_left_running_by_all_that(t):
    t.home("sandbox", "rm", "-f", t.box)
    t.boxes.remove(t.box)
    equal(qemus() + supervisors(), [])
