# SPDX-License-Identifier: Apache-2.0
"""The images of this host as a whole: what is kept of each, how it is shown, saved and named, what a
sweep removes, and that commands at once lose nothing."""
import concurrent.futures
import json
import os
import signal
import subprocess
import tarfile

from harness import BUSYBOX, PYTHON, Home, check, equal, in_own_mounts, wait_for

HOME = "own"
SANDBOX = True
SLOW = 180
REGISTRY = os.environ.get("KOSA8_E2E_REGISTRY", "")
SCRATCH, ARM, CONFIG = (f"{REGISTRY}/test/{n}" for n in ("scratch", "arm", "config"))


def skopeo(*args):
    return subprocess.run(["skopeo", *args], check=True, capture_output=True, text=True).stdout


def remote(name, digest):
    """As skopeo and podman name the image of the test's registry."""
    return f"docker://{REGISTRY}/library/{name}@{digest}"


def published(t):
    """Manifest and configuration of the Python image, by skopeo."""
    source = remote("python", digest_of(t, "python"))
    return (json.loads(skopeo("inspect", "--raw", "--tls-verify=false", source)),
            json.loads(skopeo("inspect", "--config", "--tls-verify=false", source)))


def disk(path):
    return int(subprocess.run(["du", "-s", "--block-size=1", path], check=True, capture_output=True,
                              text=True).stdout.split()[0])


def digest_of(t, image):
    return next(r["digest"] for r in t.home.rows("image", "ls")
                if any(image in ref for ref in r["refs"]))


def setup(t):
    t.home("sandbox", "pull", t.box, PYTHON)
    t.home("image", "pull", BUSYBOX)


def test_inspect_is_what_was_published(t):
    manifest, config = published(t)
    shown, = t.home("image", "inspect", "--json", PYTHON).json()
    equal(shown["config"]["env"], config["config"]["Env"], "environment")
    equal(shown["config"]["cmd"], config["config"]["Cmd"], "command")
    equal(shown["created"], config["created"], "created")
    equal([(p["digest"], p["size"], p["diff_id"]) for p in shown["layers"]],
          [(p["digest"], p["size"], i)
           for p, i in zip(manifest["layers"], config["rootfs"]["diff_ids"])], "layers")
    equal(shown["sandboxes"], [t.box], "who uses it")
    equal(shown["platform"], "linux/amd64", "platform")
    sizes = sum(p["size"] for p in manifest["layers"]) + manifest["config"]["size"]
    check(sizes < shown["blobs_bytes"] < sizes + 5000, f"layers, configuration, manifest: {shown}")
    text = t.home("image", "inspect", PYTHON, BUSYBOX).text
    for needle in (shown["digest"], manifest["layers"][0]["digest"], t.box, "python3"):
        check(needle in text, f"'{needle}' is not shown: {text}")


def test_history_is_what_was_published(t):
    manifest, config = published(t)
    shown = t.home.rows("image", "history", PYTHON)
    equal([(h["created_by"] or "", h["empty_layer"]) for h in reversed(shown)][:len(config["history"])],
          [(h.get("created_by", ""), h.get("empty_layer", False)) for h in config["history"]], "steps")
    equal([h["layer"] for h in reversed(shown) if not h["empty_layer"]],
          [p["digest"] for p in manifest["layers"]], "layers")
    equal(len(t.home("image", "history", PYTHON).text.splitlines()), len(shown) + 1, "the table")


def test_names_and_digests(t):
    digest = digest_of(t, "busybox")
    for text in (digest, digest[:19], digest[7:19], BUSYBOX):
        shown, = t.home("image", "inspect", "--json", text).json()
        equal(shown["digest"], digest, f"by {text}")
    t.home("image", "tag", digest[7:17], "example.com/mine:1")
    equal(t.home("image", "rm", "example.com/mine:1").text, "untagged example.com/mine:1\n")
    t.home.refused(1, "busybox", args=["image", "inspect", "busibox"])
    t.home.refused(1, "not here", args=["image", "inspect", "0123456789"])


def test_save_and_load(t):
    """Bit for bit: the manifest's digest is the same, and so is every blob."""
    path = os.path.join(t.folder, "saved.tar")
    digest = digest_of(t, "python")
    t.home("image", "save", PYTHON, BUSYBOX, "-o", path)
    with tarfile.open(path) as tar:
        index = json.load(tar.extractfile("index.json"))
    check(digest in [m["digest"] for m in index["manifests"]], f"{index}")
    raw = skopeo("inspect", "--raw", f"oci-archive:{path}:{PYTHON.partition(':')[2]}")
    equal(json.loads(raw), published(t)[0], "as skopeo reads it")
    piped = t.home("image", "save", PYTHON, BUSYBOX)
    with open(path, "rb") as f:
        check(piped.out == f.read(), "stdout gets the same")
    other = Home(os.path.join(t.folder, "other"))
    result = other("image", "load", path)
    check(digest in result.text and "python" in result.text, f"{result}")
    equal({r["digest"] for r in other.rows("image", "ls")}, {r["digest"] for r in t.home.rows("image", "ls")})
    ours, theirs = ({f for f in h.plain_files("images") if f.startswith("blobs/")}
                    for h in (t.home, other))
    check(theirs <= ours, f"no other blobs: {theirs - ours}")
    for image in (PYTHON, BUSYBOX):
        equal(*[h("image", "inspect", "--json", image).json()[0]["layers"] for h in (other, t.home)])
    layout = os.path.join(t.folder, "layout")
    os.mkdir(layout)
    with tarfile.open(path) as tar:
        tar.extractall(layout)
    third = Home(os.path.join(t.folder, "third"))
    check(digest in third("image", "load", layout).text, "a folder")


def test_save_leaves_the_former_file(t):
    path = os.path.join(t.folder, "former.tar")
    with open(path, "w") as f:
        f.write("former")
    t.home.refused(1, args=["image", "save", "nosuch:1", "-o", path])
    limit = ["prlimit", f"--fsize={200 * 1024}"]
    process = t.home.start("image", "save", PYTHON, "-o", path, via=limit)
    process.communicate(timeout=60)
    check(process.returncode != 0, "no space for it")
    with open(path) as f:
        equal(f.read(), "former")
    equal([n for n in os.listdir(t.folder) if n.startswith("former")], ["former.tar"])


def test_rm_names_the_sandboxes(t):
    other = t.create("second")
    t.home("sandbox", "pull", other, PYTHON)
    t.home.refused(1, t.box, other, args=["image", "rm", PYTHON])
    t.remove(other)
    t.home.refused(1, t.box, args=["image", "rm", digest_of(t, "python")[:20]])


def test_shared_blobs_stay(t):
    """Both have the same layer below: when one goes, the other can still be saved."""
    layout = os.path.join(t.folder, "shared")
    source = remote("busybox", digest_of(t, "busybox"))
    subprocess.run(["skopeo", "copy", "-q", "--src-tls-verify=false", source, f"oci:{layout}:one"],
                   check=True)
    subprocess.run(["umoci", "config", "--image", f"{layout}:one", "--tag", "two", "--config.cmd", "x"],
                   check=True, capture_output=True)
    result = t.home("image", "load", layout)
    one, two = {line.split()[0] for line in result.text.splitlines()}
    layers = [t.home("image", "inspect", "--json", d).json()[0]["layers"] for d in (one, two)]
    equal(layers[0], layers[1], "control: they share their layers")
    t.home("image", "rm", two)
    t.home("image", "save", one, "-o", "/dev/null")
    t.home("image", "rm", one)
    t.home("image", "save", BUSYBOX, "-o", "/dev/null")


def test_another_platform(t):
    """The registry's image is for arm64 alone: pulled and saved when asked for, never run."""
    t.home.refused(1, "arm64", args=["image", "pull", ARM])
    t.home("image", "pull", "--platform", "linux/arm64", ARM)
    row = next(r for r in t.home.rows("image", "ls") if ARM in r["refs"][0])
    equal(row["platform"], "linux/arm64")
    t.home.refused(125, "linux/arm64 only", "try: an image for linux/amd64", args=["sandbox", "run", t.box, ARM])
    path = os.path.join(t.folder, "arm.tar")
    t.home("image", "save", ARM, "-o", path)
    t.home("image", "rm", ARM)
    t.home.refused(1, "linux/arm64 only", "--platform", args=["image", "load", path])
    result = t.home("image", "load", "--platform", "linux/arm64", path)
    equal(result.text.split(), [row["digest"], row["refs"][0]], "it is back")
    t.home("image", "rm", ARM)


def test_save_where_it_cannot(t):
    t.home.refused(1, "/dev/full could not be written", args=["image", "save", PYTHON, "-o", "/dev/full"])
    t.home.refused(1, "stdout is closed", args=["image", "save", PYTHON],
                   preexec_fn=lambda: os.close(1))
    t.home("image", "save", PYTHON, "-o", "/dev/null")  # control


def test_df_is_du(t):
    for _ in range(2):  # the first may make a file of the catalog's
        rows = {r["type"]: r for r in t.home.rows("system", "df")}
    equal(sum(r["size_bytes"] for r in rows.values()), disk(t.home.path), f"{rows}")
    equal(rows["unfinished pulls"]["size_bytes"], 0)
    stray = os.path.join(t.home.path, "images/blobs/sha256", "e" * 64)
    with open(stray, "wb") as f:
        f.write(b"x" * 100000)
    rows = {r["type"]: r for r in t.home.rows("system", "df")}
    equal(rows["unfinished pulls"]["size_bytes"], os.lstat(stray).st_blocks * 512, "a stray blob")
    equal(sum(r["size_bytes"] for r in rows.values()), disk(t.home.path), f"{rows}")
    t.home("image", "prune")
    check(not os.path.exists(stray), "it is pruned")


def slow_registry(t, fault="slow"):
    """A registry that sends a layer slowly: a pull can be caught in the middle."""
    here = os.path.dirname(os.path.abspath(__file__))
    process = subprocess.Popen(["python3", os.path.join(here, "registry-faults.py")],
                               stdin=subprocess.PIPE, stdout=subprocess.PIPE)
    port = json.loads(process.stdout.readline())["port"]
    return process, f"127.0.0.1:{port}/{fault}/app:1"


def stop(process):
    process.stdin.close()
    process.wait(10)
    process.stdout.close()


def caught(t, image):
    """A pull that has some of a layer."""
    process = t.home.start("image", "pull", image)
    wait_for(lambda: any(os.path.getsize(os.path.join(t.home.path, "images/partial", f))
                         for f in os.listdir(os.path.join(t.home.path, "images/partial"))),
             "some of a layer")
    return process


def test_killed_pull_leaves_nothing_after_prune(t):
    t.home("image", "prune")
    before, files = disk(os.path.join(t.home.path, "images")), t.home.plain_files("images")
    registry, image = slow_registry(t, "stall")
    try:
        process = caught(t, image)
        process.kill()
        process.communicate()
        rows = {r["type"]: r for r in t.home.rows("system", "df")}
        check(rows["unfinished pulls"]["size_bytes"] > 0, f"control: something was left {rows}")
        wait_for(lambda: json.loads(t.home("image", "prune", "--json").out)["freed_bytes"] == 0,
                 "the worker of a killed command ends, and its leftovers go")
        equal(t.home.plain_files("images"), files)
        equal(disk(os.path.join(t.home.path, "images")), before)
    finally:
        stop(registry)


def test_interrupt(t):
    registry, image = slow_registry(t, "stall")
    try:
        process = caught(t, image)
        process.send_signal(signal.SIGINT)
        out, err = process.communicate(timeout=20)
        equal(process.returncode, 130)
        equal(out, b"")
        equal([line for line in err.splitlines() if line.startswith(b"kosa8: ")],
              [b"kosa8: pull: interrupted; the next pull continues with what has arrived"])
        check(t.home.plain_files("images", "partial"), "what has arrived is kept")
    finally:
        stop(registry)
    t.home("image", "prune")


def at_once(*calls, rounds=4):
    with concurrent.futures.ThreadPoolExecutor(max_workers=len(calls)) as pool:
        for _ in range(rounds):
            for done in [pool.submit(call) for call in calls]:
                done.result()


def whole(t):
    """What the catalog says is there, and nothing else is."""
    wanted = set()
    for row in t.home.rows("image", "ls"):
        t.home("image", "save", row["digest"], "-o", "/dev/null")
        wanted.add(row["digest"][7:] + ".sqfs")
        shown, = t.home("image", "inspect", "--json", row["digest"]).json()
        wanted |= {"blobs/sha256/" + p["digest"][7:] for p in shown["layers"]}
    files = set(t.home.plain_files("images")) - {"lock"}
    check(wanted <= files, f"missing: {wanted - files}")
    rows = {r["type"]: r for r in t.home.rows("system", "df")}
    equal(rows["unfinished pulls"]["count"], 0, f"left over: {files - wanted}")


def fine(result, *excuses):
    check(result.code == 0 or any(e in result.errors for e in excuses), f"{result}")


def test_leftovers_go_with_the_next_pull(t):
    """What a worker left that makes no image of a name: garbage, without a prune."""
    images = os.path.join(t.home.path, "images")
    stray = [f"claims/x{'0' * 16}", "e" * 64 + ".sqfs", "blobs/sha256/" + "e" * 64]
    for name in stray:
        with open(os.path.join(images, name), "w") as f:
            f.write(f"sha256:{'e' * 64}\n")
    t.home("image", "pull", CONFIG)
    equal([n for n in stray if os.path.exists(os.path.join(images, n))], [])
    t.home("image", "rm", CONFIG)


def test_pull_and_rm_at_once(t):
    at_once(lambda: fine(t.home.any("image", "pull", BUSYBOX)),
            lambda: fine(t.home.any("image", "rm", BUSYBOX), "not here"))
    whole(t)


def test_pull_and_prune_at_once(t):
    at_once(lambda: fine(t.home.any("sandbox", "pull", t.box, SCRATCH)),
            lambda: fine(t.home.any("image", "prune")), lambda: fine(t.home.any("image", "prune")))
    check(any("scratch" in ref for r in t.home.rows("sandbox", "images", t.box) for ref in r["refs"]),
          "it is used, so it stays")
    whole(t)


def test_load_and_prune_at_once(t):
    path = os.path.join(t.folder, "busybox.tar")
    t.home("image", "pull", BUSYBOX)
    t.home("image", "save", BUSYBOX, "-o", path)
    at_once(lambda: fine(t.home.any("image", "load", path)),
            lambda: fine(t.home.any("image", "prune")))
    whole(t)


def test_rm_and_run_at_once(t):
    """The run finds it, or pulls it; the removal works before, or is refused after."""
    box = t.create("running")
    for _ in range(3):
        with concurrent.futures.ThreadPoolExecutor(max_workers=2) as pool:
            run = pool.submit(t.home.any, "sandbox", "run", box, BUSYBOX, "echo", "yes")
            rm = pool.submit(t.home.any, "image", "rm", BUSYBOX)
            equal(run.result().text, "yes\n", f"{run.result()}")
            fine(rm.result(), "not here", box)
    whole(t)
    t.remove(box)


def test_two_pulls_at_once(t):
    t.home("image", "prune")
    at_once(*[lambda: fine(t.home.any("image", "pull", BUSYBOX))] * 2, rounds=2)
    whole(t)


def test_prune_after_a_killed_load(t):
    """Also what it was unpacking goes."""
    path, content = os.path.join(t.folder, "large.tar"), os.path.join(t.folder, "content")
    work = os.path.join(t.home.path, "images", "work")
    with open(content, "wb") as f:
        f.write(os.urandom(1 << 20) * 150)
    with tarfile.open(path, "w") as tar:
        tar.add(content, "content")
    for args in (["load", path], ["import", path, "example.com/large:1"]) * 2:
        process = t.home.start("image", *args)
        wait_for(lambda: any(files for _, _, files in os.walk(work)), "the load to be at work")
        process.kill()
        process.communicate()
        check(os.listdir(work), "control: it was killed before its end")
        # Its worker ends with it, a moment later.
        wait_for(lambda: t.home("image", "prune") and not os.listdir(work), "prune to remove it")
    whole(t)


def test_a_cut_image_is_made_anew(t):
    digest = t.home("image", "pull", BUSYBOX).text.strip()
    path = os.path.join(t.home.path, "images", digest[7:] + ".sqfs")
    size = os.path.getsize(path)
    os.chmod(path, 0o600)
    os.truncate(path, size // 2)
    t.home("image", "pull", BUSYBOX)
    equal(os.path.getsize(path), size)
    box = t.create("cut")
    equal(t.home.sh(box, "echo yes"), "yes")
    t.remove(box)


def test_a_read_only_folder(t):
    images = os.path.join(t.home.path, "images")
    script = f"mount --bind '{images}' '{images}' && mount -o remount,bind,ro '{images}'"
    for args in (["image", "pull", CONFIG], ["image", "rm", BUSYBOX], ["image", "prune"]):
        process = t.home.start(*args, via=in_own_mounts(script))
        out, err = process.communicate(timeout=60)
        equal((process.returncode, out), (1, b""), f"{args}: {err}")
        check(b"Read-only" in err and err.count(b"kosa8: ") == 1, f"{args}: {err}")
    whole(t)


def test_a_full_disk(t):
    home = Home(os.path.join(t.folder, "small"))
    os.mkdir(home.path, 0o700)
    script = f"mount -t tmpfs -o size=3m,mode=700 none '{home.path}'"
    process = home.start("image", "pull", PYTHON, via=in_own_mounts(script))
    out, err = process.communicate(timeout=60)
    equal((process.returncode, out), (1, b""), f"{err}")
    check(b"no space" in err.lower(), f"{err}")
