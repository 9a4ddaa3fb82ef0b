# SPDX-License-Identifier: Apache-2.0
"""Layers as the guest sees them, and hostile ones: what they may not reach."""
import hashlib
import importlib.util
import json
import os
import stat
import subprocess
import sys
import tarfile
import threading

from harness import BUSYBOX, KOSA8, ROOT, check, descendants, equal, named, stat_of, wait_for

sys.path.append(os.path.join(ROOT, "tests/fixtures"))
from registry import Registry  # noqa: E402

HOME = "own"
SANDBOX = True
SLOW = 180
MANIFEST = "application/vnd.oci.image.manifest.v1+json"
CONFIG = "application/vnd.oci.image.config.v1+json"
LAYER = "application/vnd.oci.image.layer.v1.tar"


def load_layers():
    path = os.path.join(ROOT, "tests/golden/layers.py")  # tests/fixtures has a layers.py too
    spec = importlib.util.spec_from_file_location("raw_layers", path)
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


l = load_layers()


# ---- images ----

def sha(data):
    return "sha256:" + hashlib.sha256(data).hexdigest()


class Layout:
    """An OCI layout of one image."""

    def __init__(self, folder, ref, blobs, tars, command=()):
        self.folder = folder
        os.makedirs(os.path.join(folder, "blobs/sha256"))
        config = {"architecture": "amd64", "os": "linux", "config": {"Cmd": list(command)},
                  "rootfs": {"type": "layers", "diff_ids": [sha(t) for t in tars]}}
        layers = [self.blob(b, LAYER + self.suffix(b)) for b in blobs]
        manifest = {"schemaVersion": 2, "mediaType": MANIFEST, "layers": layers,
                    "config": self.blob(json.dumps(config).encode(), CONFIG)}
        entry = self.blob(json.dumps(manifest).encode(), MANIFEST)
        entry["annotations"] = {"org.opencontainers.image.ref.name": ref}
        self.write("index.json", json.dumps({"schemaVersion": 2, "manifests": [entry]}).encode())
        self.write("oci-layout", b'{"imageLayoutVersion": "1.0.0"}')

    @staticmethod
    def suffix(blob):
        return {b"\x1f\x8b": "+gzip", b"\x28\xb5": "+zstd"}.get(blob[:2], "")

    def write(self, name, data):
        with open(os.path.join(self.folder, name), "wb") as f:
            f.write(data)

    def blob(self, data, kind):
        self.write("blobs/sha256/" + sha(data)[7:], data)
        return {"mediaType": kind, "digest": sha(data), "size": len(data)}

    def tar(self):
        path = self.folder + ".tar"
        with tarfile.open(path, "w") as tar:
            tar.add(self.folder, ".")
        return path


# ---- what tests/fixtures/walk.c tells ----

class Stream:
    def __init__(self, data):
        self.data, self.at = data, 0

    def text(self):
        end = self.data.index(b"\0", self.at)
        text, self.at = self.data[self.at:end], end + 1
        return text

    def bytes(self, n):
        self.at += n
        check(self.at <= len(self.data), "the walk is cut")
        return self.data[self.at - n:self.at]


def read_walk(data):
    """{path: facts}; links of one inode have the same number in "group", others None."""
    s, tree, inodes = Stream(data), {}, {}
    while s.at < len(data):
        head = s.text().split(b" ", 9)
        mode, path = int(head[0], 8), head[9].removeprefix(b"./")
        facts = {"mode": mode, "owner": f"{int(head[1])}:{int(head[2])}", "mounted": head[8] == b"1",
                 "nlink": int(head[5]), "mtime": int(head[6]), "content": "-"}
        if stat.S_ISLNK(mode):
            facts["content"] = escaped(s.text())
        xattrs = {}
        while name := s.text():
            xattrs[name.decode()] = s.bytes(int(s.text()))
        facts["xattrs"] = xattrs
        if stat.S_ISREG(mode):
            facts["content"] = f"{int(head[7])}:{hashlib.sha256(s.bytes(int(head[7]))).hexdigest()[:16]}"
        if stat.S_ISBLK(mode) or stat.S_ISCHR(mode):
            facts["content"] = head[3].decode()
        if not stat.S_ISDIR(mode):
            inodes.setdefault(head[4], []).append(path)
        tree[path] = facts
    for names in inodes.values():
        for path in names:
            tree[path]["group"] = escaped(min(names)) if len(names) > 1 else "-"
    return tree


def escaped(raw):
    return raw.decode("utf-8", "surrogateescape").encode("unicode_escape").decode().replace(" ", "\\x20")


KINDS = {stat.S_IFREG: "file", stat.S_IFDIR: "dir", stat.S_IFLNK: "link", stat.S_IFCHR: "char",
         stat.S_IFBLK: "block", stat.S_IFIFO: "fifo"}


def line(path, f):
    """As in layers-golden.txt."""
    folder = stat.S_ISDIR(f["mode"])
    xattrs = ",".join(f"{escaped(k.encode())}={v.hex()}" for k, v in sorted(f["xattrs"].items()))
    links = "-" if folder else f"{f['nlink']}/{f['group']}"
    return (f"{escaped(path)} {KINDS[stat.S_IFMT(f['mode'])]} {f['mode'] & 0o7777:04o} {f['owner']} "
            f"{links} {f['mtime']} {xattrs or '-'} {f['content']}")


# ---- the awkward ones ----

# What the guest has besides the image: mounts and the files that each container gets. The latter
# change the time of /etc.
GIVEN = {b"proc", b"sys", b"dev", b"workspace", b"etc/hosts", b"etc/hostname", b"etc/resolv.conf",
         b"etc/machine-id"}
DEVICES = {b"null", b"disk", b"device-large", b"device-too", b"r/dir-to-device"}
# Where the guest is meant to differ from what umoci unpacks, as root.
DIFFERENT = {
    b"device-zero": "to overlayfs this device is a whiteout: the guest sees nothing there",
    b"sparse-gnu": "umoci refuses it, so its image has none",
    b"sparse-many": "as that",
    b"xattr-libarchive": "umoci does not know libarchive's form of attributes",
    b"xattr-trusted": "trusted.* is shown to CAP_SYS_ADMIN only, which a container has not",
}


def setup(t):
    program = os.path.join(t.folder, "walk")
    subprocess.run(["gcc", "-D_GNU_SOURCE", "-O2", "-static", "-s", "-o", program,
                    os.path.join(ROOT, "tests/fixtures/walk.c")], check=True)
    t.walk = program
    with open(program, "rb") as f:
        top = l.tar(l.file("walk", f.read(), mode=0o755))
    tars = [*l.AWKWARD, *l.MORE, top, l.NOT_FOR_UMOCI]
    codecs = [*l.AWKWARD_CODECS, *l.MORE_CODECS, l.gz, l.gz]
    t.layout = Layout(os.path.join(t.folder, "awkward"), "example.com/awkward:1",
                      [codec(tar) for codec, tar in zip(codecs, tars)], tars, ["/walk", "/"])
    # umoci knows no zstd, and takes no names with a slash.
    t.for_umoci = Layout(os.path.join(t.folder, "umoci"), "t", [l.gz(tar) for tar in tars[:-1]], tars[:-1])
    t.home("image", "load", t.layout.tar())


def guest_tree(t):
    if not hasattr(t, "guest"):
        tree = read_walk(t.home.run(t.box, "example.com/awkward:1").out)
        for path in GIVEN:
            check(path in tree, f"the guest has {path}")
        t.guest = {p: f for p, f in tree.items() if p not in GIVEN | {b"walk", b"."}}
        t.guest[b"etc"]["mtime"] = 1700000000
    return t.guest


def differs(got, want):
    return "differs:\n" + "\n".join(["- " + x for x in want if x not in got] +
                                    ["+ " + x for x in got if x not in want])


def test_the_guest_sees_the_golden_list(t):
    """KOSA8_GOLDEN_OUT=FILE writes what it sees there, to be checked by hand before it is kept."""
    got = [line(p, f) for p, f in sorted(guest_tree(t).items())]
    if os.environ.get("KOSA8_GOLDEN_OUT"):
        with open(os.environ["KOSA8_GOLDEN_OUT"], "w", encoding="utf-8") as f:
            f.write("\n".join(got) + "\n")
    with open(os.path.join(ROOT, "tests/e2e/layers-golden.txt"), encoding="utf-8") as f:
        want = [x for x in f.read().splitlines() if not x.startswith("#")]
    check(got == want, differs(got, want))


def comparable(tree, rootless):
    """umoci leaves made folders their own time, and without root it keeps no owners, makes files of
    devices, and sets no attributes but user.*."""
    lines = []
    for path, facts in sorted(tree.items()):
        f = {**facts, "owner": "-" if rootless else facts["owner"]}
        if stat.S_ISDIR(f["mode"]):
            f["mtime"] = 0
        if rootless:
            if path in DEVICES:
                continue
            f["xattrs"] = {k: v for k, v in f["xattrs"].items() if k.startswith("user.") and
                           k != "user.rootlesscontainers"}
        lines.append(line(path, f))
    return lines


def test_umoci_unpacks_the_same(t):
    rootless = os.geteuid() != 0
    image = t.for_umoci.folder + ":t"
    rootfs = os.path.join(t.folder, "rootfs")
    flags = ["--rootless"] if rootless else []
    done = subprocess.run(["umoci", "raw", "unpack", *flags, "--image", image, rootfs],
                          capture_output=True, text=True)
    equal(done.returncode, 0, f"umoci: {done.stderr[-600:]}")
    # Nobody but root reads files of mode 0: root of an own user namespace will do.
    as_root = ["unshare", "--user", "--map-root-user"] if rootless else []
    walk = subprocess.run([*as_root, t.walk, rootfs], check=True, capture_output=True)
    theirs = {p: f for p, f in read_walk(walk.stdout).items() if p not in (b"walk", b".")}
    ours = guest_tree(t)
    for path in DIFFERENT:
        a, b = ours.pop(path, None), theirs.pop(path, None)
        check(a != b or rootless, f"{path} is listed as different, but is not")
    got, want = comparable(ours, rootless), comparable(theirs, rootless)
    check(got == want, differs(got, want))


# ---- layers of nothing ----

def test_layers_of_no_bytes_change_nothing(t):
    with open(t.walk, "rb") as f:
        first = l.tar(l.file("walk", f.read(), mode=0o755), l.file("kept", b"of the first layer"))
    tars = [first, b"", b"", b""]
    blobs = [first, b"", l.gz(b""), l.zstd(b"")]
    ref = "example.com/nothing:1"
    layout = Layout(os.path.join(t.folder, "nothing"), ref, blobs, tars, ["/walk", "/"])
    t.home("image", "load", layout.tar())
    kept = read_walk(t.home.run(t.box, ref).out)[b"kept"]
    equal((kept["mode"] & 0o777, kept["content"]), (0o644, f"18:{sha(b'of the first layer')[7:23]}"),
          "the first layer's file")
    shown, = t.home("image", "inspect", "--json", ref).json()
    equal([x["diff_id"] for x in shown["layers"]], [sha(x) for x in tars], "layers")


def test_an_image_without_layers(t):
    """Pulled, shown, listed, saved and attached; there is nothing in it to run, as in docker's scratch."""
    with Registry(os.path.join(t.folder, "registry-scratch"), writable=True) as registry:
        layout = Layout(os.path.join(t.folder, "without"), "example.com/without:1", [], [], ["/nothing"])
        registry.push_layout(layout.folder, "example.com/without:1", "without", "1")
        ref = f"127.0.0.1:{registry.port}/without:1"
        t.home("sandbox", "pull", t.box, ref)
    shown, = t.home("image", "inspect", "--json", ref).json()
    equal((shown["layers"], shown["config"]["cmd"]), ([], ["/nothing"]), "what is shown")
    check("/nothing" in t.home("image", "inspect", ref).text, "the text")
    check(any(ref in row["refs"] for row in t.home.rows("image", "ls")), "it is listed")
    equal(t.home.rows("image", "history", ref), [], "history")
    t.home.refused(127, "/nothing", args=["sandbox", "run", t.box, ref])
    t.home.refused(127, "sh", args=["sandbox", "run", t.box, ref, "sh"])
    with open(t.walk, "rb") as f:
        t.home("sandbox", "run", "-i", t.box, BUSYBOX, "sh", "-c",
               "cat > /workspace/walk; chmod 755 /workspace/walk", input=f.read())
    tree = read_walk(t.home.run(t.box, ref, "/workspace/walk", "/").out)
    check({b"proc", b"dev", b"workspace"} <= set(tree), f"the guest's own folders: {sorted(tree)}")
    equal({p for p in tree if p not in GIVEN | {b"."}}, {b"etc"}, "what else there is")
    saved = os.path.join(t.folder, "without-saved.tar")
    t.home("image", "save", "-o", saved, ref)
    again = t.home("image", "load", saved)
    check("without:1" in again.text, f"loaded again: {again}")


# ---- the hostile ones ----

WORKER_MB = 40  # more than any of these needs


def canary_of(t):
    folder = os.path.join(t.folder, "canary")
    if not os.path.exists(folder):
        os.mkdir(folder)
        with open(os.path.join(folder, "secret"), "wb") as f:
            f.write(b"not for an image\n")
    return folder


def snapshot(folder):
    facts = []
    for path in (folder, os.path.join(folder, "secret")):
        st = os.lstat(path)
        facts.append((path, st.st_mode, st.st_nlink, st.st_size, st.st_mtime_ns, st.st_ctime_ns))
    with open(os.path.join(folder, "secret"), "rb") as f:
        return facts, f.read(), sorted(os.listdir(folder))


class Peak(threading.Thread):
    """While a command runs: the most bytes that the images folder held, and of memory the most that
    any process of the command had (its own count, so that only its last look is missed)."""

    def __init__(self, home, pid):
        super().__init__(daemon=True)
        self.home, self.pid, self.done = home, pid, threading.Event()
        self.bytes, self.kb, self.workers = 0, 0, 0

    def run(self):
        while not self.done.wait(0.002):
            for process in descendants(self.pid):
                try:
                    self.kb = max(self.kb, int((status_of(process["pid"], "VmHWM") or "0").split()[0]))
                    self.workers += process["name"].startswith("kosa8-unpack")
                except OSError:
                    pass  # it ended
            try:
                self.bytes = max(self.bytes, self.home.used_bytes("images"))
            except OSError:
                pass  # a file went while it was counted

    def __enter__(self):
        self.start()
        return self

    def __exit__(self, *_):
        self.done.set()
        self.join()


def load_measured(t, archive):
    """(exit code, stderr, Peak)"""
    process = t.home.start("image", "load", archive, stdout=subprocess.DEVNULL)
    with Peak(t.home, process.pid) as peak:
        _, err = process.communicate(timeout=60)
    return process.returncode, err.decode(errors="replace"), peak


def layout_of(t, blobs, name="hostile"):
    """The diff ids of blobs that cannot be unpacked do not matter: it does not come to them, so that
    of a bomb a piece will do."""
    tars = []
    for blob in blobs:
        codec = {"+gzip": "gzip", "+zstd": "zstd -q"}.get(Layout.suffix(blob))
        tars.append(subprocess.run(["sh", "-c", f"{codec} -dc | head -c {64 << 20}"], input=blob,
                                   capture_output=True).stdout if codec else blob)
    t.number = getattr(t, "number", 0) + 1
    return Layout(os.path.join(t.folder, f"{name}-{t.number}"), f"example.com/{name}:{t.number}",
                  blobs, tars)


def test_layers_that_reach_out_are_contained(t):
    canary = canary_of(t)
    before = snapshot(canary)
    contained, _ = l.hostile(canary)
    for what, blobs in contained.items():
        code, err, peak = load_measured(t, layout_of(t, blobs).tar())
        equal(code, 0, f"{what}: {err}")
        check(peak.kb < WORKER_MB << 10, f"{what}: {peak.kb} kB")
        equal(snapshot(canary), before, what)


def test_hostile_layers_are_refused(t):
    canary = canary_of(t)
    before, files = snapshot(canary), t.home.plain_files("images")
    used = t.home.used_bytes("images")
    _, refused = l.hostile(canary)
    for what, (blobs, _, text) in refused.items():
        archive = layout_of(t, blobs).tar()
        code, err, peak = load_measured(t, archive)
        equal(code, 1, f"{what}: {err}")
        text = text.removeprefix("\\")  # the command line escapes the worker's escapes again
        lines = [x for x in err.splitlines() if x.startswith("kosa8: ")]
        check(len(lines) == 1 and text in lines[0] and "layer " in lines[0],
              f"{what}: {text!r} is not in {err!r}")
        check(peak.kb < WORKER_MB << 10, f"{what}: {peak.kb} kB")
        check(peak.workers or "bomb" not in what, f"{what}: control: the worker was looked at")
        if "bomb" in what:
            print(f"# {what}: {peak.kb} kB of memory, {(peak.bytes - used) >> 10} kB of disk")
        # The archive is copied once; a bomb may fill what its ratio allows.
        more = peak.bytes - used
        check(more < 2 * os.path.getsize(archive) + (80 << 20), f"{what}: {more} bytes")
        equal(t.home.plain_files("images"), files, f"{what}: files left")
        equal(snapshot(canary), before, what)


def test_hostile_layers_from_a_registry(t):
    canary = canary_of(t)
    before, files = snapshot(canary), t.home.plain_files("images")
    contained, refused = l.hostile(canary)
    with Registry(os.path.join(t.folder, "registry"), writable=True) as registry:
        def push(blobs, tag):
            layout = layout_of(t, blobs, "pulled")
            registry.push_layout(layout.folder, f"example.com/pulled:{t.number}", "hostile", tag)
            return f"127.0.0.1:{registry.port}/hostile:{tag}"
        ref = push(refused[".."][0], "up")
        t.home.refused(1, 'layer 1: entry "../', args=["sandbox", "pull", t.box, ref])
        equal(t.home.plain_files("images"), files, "files left")
        ref = push(contained["a link to the host"], "link")
        t.home("sandbox", "pull", t.box, ref)
    equal(snapshot(canary), before, "the canary")


# ---- the confinement of kosa8-image ----

def status_of(pid, key):
    with open(f"/proc/{pid}/status", encoding="ascii") as f:
        return next((x.split(":")[1].strip() for x in f if x.startswith(key + ":")), None)


def test_load_is_confined(t):
    """While it waits for the archive on standard input: a filter, no new privileges."""
    process = t.home.start("image", "load", "-", stdin=subprocess.PIPE)
    try:
        worker = wait_for(lambda: named("kosa8-image", process.pid), "kosa8-image")[0]["pid"]
        wait_for(lambda: stat_of(worker) and status_of(worker, "Seccomp") == "2", "its filter")
        equal(status_of(worker, "NoNewPrivs"), "1", "no new privileges")
        equal(int(status_of(worker, "CapEff"), 16) & ~0x6, 0, "capabilities but DAC_*")
    finally:
        process.stdin.close()
        process.wait()
    check(process.returncode == 1, "nothing is no archive")


def image_worker():
    """The installed one, or that of a build folder."""
    here = os.path.dirname(os.path.realpath(KOSA8))
    places = [os.path.join(here, p, "kosa8-image") for p in (".", "../libexec/kosa8")]
    return next(p for p in places if os.path.exists(p))


def load_folder(t, folder):
    images = os.path.join(t.folder, "images")
    os.makedirs(images, exist_ok=True)
    done = subprocess.run([image_worker(), "load", "--images-dir", images, folder],
                          capture_output=True, text=True)
    return json.loads(done.stdout.splitlines()[-1])


def landlock():
    """By asking for its version: there is no other sure way."""
    import ctypes
    return ctypes.CDLL(None, use_errno=True).syscall(444, None, 0, 1) > 0


def test_a_layout_folder_reaches_no_file_of_the_host(t):
    """Control: the same folder without the link out loads."""
    check(landlock(), "this kernel has no Landlock: nothing to see here")
    tar = l.tar(l.file("x", b"1"))
    layout = layout_of(t, [tar], "folder")
    blob = os.path.join(layout.folder, "blobs/sha256", sha(tar)[7:])
    outside = os.path.join(t.folder, "outside.tar")
    os.rename(blob, outside)
    os.symlink(outside, blob)
    result = load_folder(t, layout.folder)
    check(not result["ok"] and sha(tar)[7:] in result["error"]["what"], f"{result}")
    os.unlink(blob)
    os.rename(outside, blob)
    equal(load_folder(t, layout.folder)["ok"], True, "control")
