#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""kosa8-image's load, import, save and show, with archives of real producers and with hostile ones.

    image-archive.py KOSA8-IMAGE [NAME...]     prints TAP

Whatever succeeds keeps blobs that hash to their names; whatever fails says one specific thing and
leaves nothing in the images' folder.
"""
import fcntl
import gzip
import hashlib
import io
import json
import os
import random
import shutil
import subprocess
import sys
import tarfile
import tempfile
import threading
import time
import traceback

from harness import Failure, check, equal

WORKER = os.path.abspath(sys.argv[1]) if len(sys.argv) > 1 else ""
OCI = "application/vnd.oci.image."
DOCKER = "application/vnd.docker.distribution.manifest."
DOCKER_LAYER = "application/vnd.docker.image.rootfs.diff.tar.gzip"
REF, NAME = "org.opencontainers.image.ref.name", "io.containerd.image.name"


def sha(data):
    return "sha256:" + hashlib.sha256(data).hexdigest()


def compact(value):
    return json.dumps(value, separators=(",", ":"), sort_keys=True).encode()


def zstd(data):
    return subprocess.run(["zstd", "-q", "-c"], input=data, check=True, capture_output=True).stdout


def tar_of(members, **options):
    """members: (name, bytes or attributes of a TarInfo)."""
    out = io.BytesIO()
    with tarfile.open(fileobj=out, mode="w", **options) as tar:
        for name, what in members:
            info = tarfile.TarInfo(name)
            if isinstance(what, bytes):
                info.size = len(what)
                tar.addfile(info, io.BytesIO(what))
                continue
            for key, value in what.items():
                setattr(info, key, value)
            tar.addfile(info)
    return out.getvalue()


def link(target, kind=tarfile.SYMTYPE):
    return {"type": kind, "linkname": target}


# ---- images and archives made here ----

class Image:
    def __init__(self, seed="a", arch="amd64", layers=2, pack=(), docker=False, size=50_000, **config):
        self.tars = [tar_of([(f"{seed}{n}", (seed * size).encode()), ("same", str(n).encode())])
                     for n in range(layers)]
        self.layers = [(pack[n] if n < len(pack) else bytes)(data) for n, data in enumerate(self.tars)]
        self.config = compact({"os": "linux", "architecture": arch, "config": {"Cmd": [seed], **config},
                               "rootfs": {"type": "layers", "diff_ids": [sha(t) for t in self.tars]}})
        kind = {bytes: OCI + "layer.v1.tar", gzip.compress: OCI + "layer.v1.tar+gzip",
                zstd: OCI + "layer.v1.tar+zstd"}
        types = [DOCKER_LAYER if docker else kind[pack[n] if n < len(pack) else bytes]
                 for n in range(layers)]
        self.type = DOCKER + "v2+json" if docker else OCI + "manifest.v1+json"
        config_type = "application/vnd.docker.container.image.v1+json" if docker else OCI + "config.v1+json"
        self.manifest = json.dumps({"schemaVersion": 2, "mediaType": self.type,
                                    "config": self.descriptor(self.config, config_type),
                                    "layers": [self.descriptor(d, t) for d, t in zip(self.layers, types)]},
                                   indent=3).encode()
        self.digest = sha(self.manifest)
        self.arch = arch

    @staticmethod
    def descriptor(data, kind, **more):
        return {"mediaType": kind, "digest": sha(data), "size": len(data), **more}

    def blobs(self):
        return [self.manifest, self.config, *self.layers]

    def entry(self, *, name=None, ref=None, platform=False, **more):
        notes = {k: v for k, v in ((NAME, name), (REF, ref)) if v}
        if notes:
            more["annotations"] = notes
        if platform:
            more["platform"] = {"os": "linux", "architecture": self.arch}
        return self.descriptor(self.manifest, self.type, **more)


def index_of(entries, kind=OCI + "index.v1+json"):
    return compact({"schemaVersion": 2, "mediaType": kind, "manifests": entries})


def layout(blobs, entries):
    """The members of an OCI layout."""
    return [("blobs/sha256/" + sha(b)[7:], b) for b in dict.fromkeys(blobs)] + [
        ("index.json", index_of(entries)), ("oci-layout", b'{"imageLayoutVersion": "1.0.0"}')]


def docker_members(image, tags, number=0):
    names = [f"{number}-layer{n}.tar" for n in range(len(image.layers))]
    config = sha(image.config)[7:] + ".json"
    return ([*zip(names, image.layers), (config, image.config)],
            {"Config": config, "RepoTags": tags, "Layers": names})


def docker_archive(*images_and_tags):
    members, items = [], []
    for number, (image, tags) in enumerate(images_and_tags):
        files, item = docker_members(image, tags, number)
        members += files
        items.append(item)
    return [*members, ("manifest.json", json.dumps(items).encode())]


def write_folder(folder, members):
    for name, data in members:
        path = os.path.join(folder, name)
        os.makedirs(os.path.dirname(path), exist_ok=True)
        with open(path, "wb") as f:
            f.write(data)
    return folder


class Result:
    def __init__(self, code, out, err, seconds):
        self.code, self.seconds, self.err = code, seconds, err.decode(errors="replace")
        self.lines = [json.loads(line) for line in out.splitlines()]
        self.last = self.lines[-1] if self.lines else {}
        self.error = self.last.get("error", {})

    @property
    def images(self):
        return self.last.get("images", [])

    @property
    def notices(self):
        return " ".join(line["text"] for line in self.lines if line.get("event") == "notice")

    def __str__(self):
        return f"exit {self.code}, {self.seconds:.2f} s, {json.dumps(self.last)[:700]}, {self.err[-400:]}"


def third(fd):
    """How a child gets it as descriptor 3."""
    def give():
        os.dup2(fd, 3) if fd != 3 else os.set_inheritable(3, True)
    return {"stdin": subprocess.DEVNULL, "preexec_fn": give, "close_fds": False}


class Test:
    def __init__(self, folder):
        self.folder = tempfile.mkdtemp(dir=folder)
        self.images = os.path.join(self.folder, "images")
        os.mkdir(self.images)
        self.count = 0

    def path(self, name=None):
        self.count += 1
        return os.path.join(self.folder, name or f"file{self.count}")

    def file(self, data, name=None):
        path = self.path(name)
        with open(path, "wb") as f:
            f.write(data)
        return path

    def fresh(self):
        return Test(self.folder)

    def start(self, verb, *arguments, **popen):
        return subprocess.Popen([WORKER, verb, "--images-dir", self.images, *arguments],
                                stdout=subprocess.PIPE, stderr=subprocess.PIPE, **popen)

    def end(self, process, began, data=None):
        timer = threading.Timer(120, process.kill)
        timer.start()
        chunks = {}

        def read(name, stream):
            chunks[name] = stream.read()

        readers = [threading.Thread(target=read, args=a) for a in
                   (("out", process.stdout), ("err", process.stderr))]
        for reader in readers:
            reader.start()
        if process.stdin:
            try:
                for chunk in data or ():
                    process.stdin.write(chunk)
                process.stdin.close()
            except BrokenPipeError:
                pass
        for reader in readers:
            reader.join()
        process.wait()
        timer.cancel()
        process.stdout.close()
        process.stderr.close()
        check(process.returncode >= 0, f"ended by signal {-process.returncode} (or no end)")
        return Result(process.returncode, chunks["out"], chunks["err"], time.monotonic() - began)

    def run(self, verb, *arguments, data=None):
        """data: bytes, or an iterable of bytes, for stdin."""
        began = time.monotonic()
        data = [data] if isinstance(data, bytes) else data
        return self.end(self.start(verb, *arguments, stdin=subprocess.PIPE), began, data)

    def here(self):
        """All files of the images' folder but its lock."""
        found = [os.path.relpath(os.path.join(folder, name), self.images)
                 for folder, folders, names in os.walk(self.images) for name in names]
        work = os.listdir(os.path.join(self.images, "work")) if found else []
        return sorted(f for f in found if f != "lock") + [f"work/{w}" for w in work]

    def blob(self, digest):
        with open(os.path.join(self.images, "blobs/sha256", digest[7:]), "rb") as f:
            return f.read()

    def sqfs(self, digest):
        with open(os.path.join(self.images, digest[7:] + ".sqfs"), "rb") as f:
            return sha(f.read())

    def check_store(self, results):
        """The folder holds what the results name, and nothing else."""
        want = set()
        for image in results:
            want.add(image["digest"][7:] + ".sqfs")
            digests = [b["digest"] for b in image["blobs"]]
            equal(len(digests), len(set(digests)), "each blob once")
            check(image["digest"] in digests, "the manifest is a blob")
            for blob in image["blobs"]:
                want.add("blobs/sha256/" + blob["digest"][7:])
                data = self.blob(blob["digest"])
                equal(sha(data), blob["digest"], "digest of a kept blob")
                equal(len(data), blob["size"], "size of a kept blob")
        equal(self.here(), sorted(want), "what is in the folder")
        for name in want:
            equal(os.stat(os.path.join(self.images, name)).st_mode & 0o7777, 0o400, f"mode of {name}")

    def good(self, result, *want):
        """want: (digest or None, ref) of each image, in order."""
        check(result.code == 0 and result.last.get("ok") is True, f"failed: {result}")
        results = result.images or [result.last]
        self.check_store(results)
        if want:
            equal([(i["digest"] if w[0] else None, i["ref"]) for i, w in zip(results, want)],
                  [*want], "images")
            equal(len(results), len(want), "how many")
        return results[0]["digest"]

    def loads(self, path, *want, data=None, flags=(), seconds=60):
        result = self.run("load", *flags, path, data=data)
        check(result.seconds < seconds, f"took too long: {result}")
        return self.good(result, *want)

    def fails(self, kind, *needles, args, data=None, seconds=10, here=None):
        before = self.here()
        result = self.run(*args, data=data)
        check(result.code == 1 and result.last.get("ok") is False, f"did not fail: {result}")
        equal(result.error["kind"], kind, f"kind of {result}")
        said = (result.error["what"] + " " + result.error["hint"]).lower()
        for needle in needles:
            check(needle.lower() in said, f"'{needle}' is not said: {result}")
        check(result.seconds < seconds, f"took too long: {result}")
        equal(self.here(), before if here is None else here, "left behind")
        return result

    def refuses(self, members, kind, *needles, **more):
        """An archive of these members, or these bytes."""
        data = members if isinstance(members, bytes) else tar_of(members)
        return self.fails(kind, *needles, args=("load", self.file(data)), **more)

    def save(self, to, *operands, flags=()):
        """to: a path, or a descriptor."""
        fd = os.open(to, os.O_WRONLY | os.O_CREAT | os.O_TRUNC) if isinstance(to, str) else to
        began = time.monotonic()
        process = self.start("save", *flags, *operands, **third(fd))
        if isinstance(to, str):
            os.close(fd)
        return self.end(process, began)

    def saves(self, *operands):
        path = self.path()
        result = self.save(path, *operands)
        check(result.code == 0 and result.last.get("ok") is True, f"failed: {result}")
        equal(result.last["size"], os.stat(path).st_size, "size")
        return path


def tool(*arguments):
    done = subprocess.run(arguments, capture_output=True, text=True)
    check(done.returncode == 0, f"{' '.join(arguments)}: {done.stderr[-600:]}")
    return done.stdout


def skopeo_dir(t, source):
    """What skopeo reads from there: its manifest's bytes, and the names of all blobs."""
    out = t.path()
    tool("skopeo", "copy", "-q", "--preserve-digests", source, "dir:" + out)
    with open(os.path.join(out, "manifest.json"), "rb") as f:
        manifest = f.read()
    names = {n for n in os.listdir(out) if n not in ("manifest.json", "version")}
    for name in names:
        with open(os.path.join(out, name), "rb") as f:
            equal(sha(f.read())[7:], name, "a blob that skopeo read")
    return manifest, names


# ---- load: OCI ----

def test_oci(t):
    image = Image(pack=(gzip.compress, zstd))
    members = layout(image.blobs(), [image.entry(name="example.com/app:1")])
    want = (image.digest, "example.com/app:1")
    folder = write_folder(t.path(), members)
    t.loads(folder, want)
    for data in image.blobs():
        equal(t.blob(sha(data)), data, "kept byte for byte")
    golden = t.sqfs(image.digest)
    plain = tar_of(members)
    again = t.run("load", t.file(plain))
    t.good(again, want)
    check(again.images[0]["cached"], "the second time it is there")
    for data in (plain, gzip.compress(plain, 1), zstd(plain)):
        here = t.fresh()
        here.loads(here.file(data), want)
        equal(here.sqfs(image.digest), golden, "the file system's bytes")
        here = t.fresh()
        here.loads("-", want, data=data)
        here = t.fresh()
        fifo = here.path()
        os.mkfifo(fifo)
        writer = threading.Thread(target=lambda: open(fifo, "wb").write(data))
        writer.start()
        here.loads(fifo, want)
        writer.join()
    linked = t.path()
    os.symlink(folder, linked)
    t.fresh().loads(linked, want)


def test_names(t):
    image, other = Image(), Image("b")
    cases = [({"name": "example.com/app:1", "ref": "1"}, "example.com/app:1"),
             ({"ref": "example.com/app:2"}, "example.com/app:2"), ({"ref": "app:3"}, "docker.io/library/app:3"),
             ({"ref": "latest"}, None), ({}, None)]
    for names, want in cases:
        t.fresh().loads(t.file(tar_of(layout(image.blobs(), [image.entry(**names)]))),
                        (image.digest, want))
    entries = [image.entry(name="a:1"), image.entry(name="a:2"), image.entry(name="a:1"), other.entry(name="b:1")]
    t.loads(t.file(tar_of(layout(image.blobs() + other.blobs(), entries))),
            (image.digest, "docker.io/library/a:1"), (image.digest, "docker.io/library/a:2"),
            (other.digest, "docker.io/library/b:1"))


def test_names_that_are_none(t):
    """No name refuses the images; it is left out with a notice, but docker's word for none."""
    image = Image()
    for tags, refs, ignored in ((["<none>:<none>"], [None], 0), (["<none>:<none>", "b:1"], ["b:1"], 0),
                                (["Bad Name", "b:1", 5, "sha256:53a9c8f5cf67"], ["b:1"], 3),
                                (["\x1b[31m"], [None], 1), ([""], [None], 1), ([], [None], 0), (None, [None], 0)):
        here = t.fresh()
        result = here.run("load", here.file(tar_of(docker_archive((image, tags)))))
        here.good(result, *[(None, r and f"docker.io/library/{r}") for r in refs])
        equal(result.notices.count("is ignored"), ignored, f"notices about {tags}: {result.lines}")
        check("\x1b" not in result.notices, f"escaped: {result.lines}")
    for names, ignored in (({"name": "a/B:1"}, 1), ({"ref": "a:1:2"}, 1), ({"ref": "<none>:<none>"}, 0)):
        here = t.fresh()
        result = here.run("load", here.file(tar_of(layout(image.blobs(), [image.entry(**names)]))))
        here.good(result, (image.digest, None))
        equal(result.notices.count("is ignored"), ignored, f"notices about {names}: {result.lines}")


def test_names_with_digests(t):
    """An archive cannot say that its image is the one of another digest."""
    image, other = Image(), "sha256:" + "a" * 64

    def loaded(members, *refs, ignored):
        here = t.fresh()
        result = here.run("load", here.file(tar_of(members)))
        digest = here.good(result, *[(None, r) for r in refs])
        equal(result.notices.count("another's digest"), ignored, f"notices: {result.lines}")
        return digest
    own = loaded(docker_archive((image, [f"python@{other}"])), None, ignored=1)
    loaded(docker_archive((image, [f"python:3@{other}", "b:1"])), "docker.io/library/b:1", ignored=1)
    loaded(docker_archive((image, [f"python:3@{own}"])), "docker.io/library/python:3", ignored=0)
    loaded(docker_archive((image, [f"python@{own}"])), None, ignored=0)
    for key in ("name", "ref"):
        for text, want, ignored in ((f"python@{other}", None, 1), (f"python:3@{other}", None, 1),
                                    (f"python@{image.digest}", None, 0),
                                    (f"python:3@{image.digest}", "docker.io/library/python:3", 0)):
            loaded(layout(image.blobs(), [image.entry(**{key: text})]), want, ignored=ignored)


def buildx(images):
    """Nested as buildkit writes it, an attestation beside each image."""
    entries, blobs = [], []
    for image in images:
        statement = compact({"of": image.digest})
        attestation = compact({"schemaVersion": 2, "mediaType": OCI + "manifest.v1+json",
                               "config": Image.descriptor(image.config, OCI + "config.v1+json"),
                               "layers": [Image.descriptor(statement, "application/vnd.in-toto+json")]})
        entries += [image.entry(platform=True), Image.descriptor(
            attestation, OCI + "manifest.v1+json", platform={"os": "unknown", "architecture": "unknown"},
            annotations={"vnd.docker.reference.type": "attestation-manifest",
                         "vnd.docker.reference.digest": image.digest})]
        blobs += image.blobs() + [statement, attestation]
    index = index_of(entries)
    outer = Image.descriptor(index, OCI + "index.v1+json", annotations={NAME: "example.com/app:1", REF: "1"})
    return layout(blobs + [index], [outer])


def test_platforms(t):
    amd, arm = Image(), Image("b", arch="arm64")
    nested = t.file(tar_of(buildx([arm, amd])))
    t.loads(nested, (amd.digest, "example.com/app:1"))
    here = t.fresh()
    here.loads(nested, (arm.digest, "example.com/app:1"), flags=("--platform", "linux/arm64"))
    t.fresh().fails("incompatible", "linux/arm64, linux/amd64 only", "linux/s390x",
                    args=("load", "--platform", "linux/s390x", nested))
    # one after the other in index.json; the blobs of the one that is not wanted need not be there
    for platform in (False, True):
        here = t.fresh()
        sparse = layout(amd.blobs() + (arm.blobs() if not platform else []),
                        [arm.entry(name="x:1", platform=platform), amd.entry(name="y:1", platform=platform)])
        result = here.run("load", here.file(tar_of(sparse)))
        here.good(result, (amd.digest, "docker.io/library/y:1"))
        check("passed over x:1" in result.notices and "arm64" in result.notices, f"a notice: {result.lines}")
    here.fails("not_found", "holds no blob sha256:", "--platform",
               args=("load", "--platform", "linux/arm64", here.file(tar_of(sparse))))
    t.fresh().refuses(layout(arm.blobs(), [arm.entry(platform=True)]), "incompatible", "linux/arm64")
    # one name for several platforms, without an index of its own
    v3 = Image("c")
    entries = [arm.entry(name="x:1", platform=True), v3.entry(name="x:1", platform=True),
               amd.entry(name="x:1", platform=True), v3.entry(name="y:1")]
    entries[1]["platform"]["variant"] = "v3"
    t.fresh().loads(t.file(tar_of(layout(amd.blobs() + arm.blobs() + v3.blobs(), entries))),
                    (amd.digest, "docker.io/library/x:1"), (v3.digest, "docker.io/library/y:1"))
    t.fresh().refuses(docker_archive((arm, ["a:1"])), "incompatible", "linux/arm64 only", "linux/amd64",
                      "--platform OS/ARCH")
    here = t.fresh()
    for name in ("a:1", "a" + "\u00e4" * 300, "\x1b[31m"):
        result = here.run("load", here.file(tar_of(docker_archive((arm, [name]), (amd, ["b:1"])))))
        here.good(result, (None, "docker.io/library/b:1"))
        check("passed over " in result.notices and "\x1b" not in result.notices, f"a notice: {result.lines}")


def test_docker_media_types(t):
    image = Image(pack=(gzip.compress, gzip.compress), docker=True)
    t.loads(t.file(tar_of(layout(image.blobs(), [image.entry(name="a:1")]))),
            (image.digest, "docker.io/library/a:1"))
    equal(t.blob(image.digest), image.manifest, "the manifest's bytes")
    saved = t.saves(f"{image.digest}=a:1")
    with tarfile.open(saved) as tar:
        entry = json.load(tar.extractfile("index.json"))["manifests"][0]
    equal((entry["mediaType"], entry["digest"]), (DOCKER + "v2+json", image.digest), "as published")
    t.fresh().loads(saved, (image.digest, "docker.io/library/a:1"))
    # Not as oci-archive: skopeo looks for manifests of the OCI type only.
    _, blobs = skopeo_dir(t, f"docker-archive:{saved}:a:1")
    equal(blobs, {sha(b)[7:] for b in [image.config, *image.tars]}, "what skopeo reads")


# ---- load: docker-archive ----

def test_docker(t):
    image = Image(pack=(gzip.compress, bytes))
    members = docker_archive((image, ["example.com/app:1", "app:2"]))
    want = ((None, "example.com/app:1"), (None, "docker.io/library/app:2"))
    digest = t.loads(t.file(tar_of(members)), *want)
    for data in (image.config, *image.layers):
        equal(t.blob(sha(data)), data, "kept as in the archive")
    manifest = json.loads(t.blob(digest))
    equal([l["digest"] for l in manifest["layers"]], [sha(d) for d in image.layers], "layers of the manifest")
    equal([l["mediaType"] for l in manifest["layers"]], [OCI + "layer.v1.tar+gzip", OCI + "layer.v1.tar"],
          "types of the layers")
    golden = t.sqfs(digest)
    plain = tar_of(members)
    for source in (t.file(gzip.compress(plain, 1)), t.file(zstd(plain)), write_folder(t.path(), members)):
        here = t.fresh()
        equal(here.loads(source, *want), digest, "digest")
        equal(here.sqfs(digest), golden, "the file system's bytes")
    t.fresh().loads(t.file(tar_of(docker_archive((image, None)))), (digest, None))


def test_docker_old(t):
    """ID/layer.tar, ID/json, ID/VERSION and repositories; a layer twice is a link."""
    image = Image(layers=3)
    image.tars[2] = image.layers[2] = image.layers[0]
    config = json.loads(image.config)
    config["rootfs"]["diff_ids"] = [sha(d) for d in image.tars]
    image.config = compact(config)
    for kind, target in ((tarfile.SYMTYPE, "../id0/layer.tar"), (tarfile.LNKTYPE, "id0/layer.tar")):
        members = []
        for n in range(3):
            members += [(f"id{n}/", {"type": tarfile.DIRTYPE}), (f"id{n}/VERSION", b"1.0"), (f"id{n}/json", b"{}"),
                        (f"id{n}/layer.tar", image.layers[n] if n < 2 else link(target, kind))]
        members += [("config.json", image.config), ("repositories", b'{"app":{"2":"id2"}}'),
                    ("manifest.json", json.dumps([{"Config": "config.json", "RepoTags": ["app:2"], "Layers":
                                                   [f"id{n}/layer.tar" for n in range(3)]}]).encode())]
        here = t.fresh()
        digest = here.loads(here.file(tar_of(members)), (None, "docker.io/library/app:2"))
        equal(len(json.loads(here.blob(digest))["layers"]), 3, "layers")
    folder = t.path()
    os.mkdir(folder)
    with tarfile.open(fileobj=io.BytesIO(tar_of(members))) as tar:
        tar.extractall(folder)
    os.unlink(os.path.join(folder, "id2/layer.tar"))
    os.symlink("../id0/layer.tar", os.path.join(folder, "id2/layer.tar"))
    equal(t.fresh().loads(folder), digest, "from a folder with a link")
    t.refuses(members[:-1], "invalid", "not a saved image")


def test_both_layouts(t):
    """As docker writes since version 25: the OCI part has the manifest's own digest."""
    image = Image()
    t.loads(t.file(tar_of(layout(image.blobs(), [image.entry(name="a:1", ref="1")]) +
                          docker_archive((image, ["b:1"])))), (image.digest, "docker.io/library/a:1"))


def test_hints_about_layers(t):
    """They speak of the archive: nothing was pulled."""
    for data, kind, hint in ((b"x" * 3000, "corrupt", "get the file again"),
                             (tar_of([("../x", b"1")]), "invalid", "who made the image"),
                             (gzip.compress(tar_of([("x", b"1")]))[:-9], "corrupt", "get the file again")):
        image = Image(layers=1)
        image.layers = [data]
        result = t.refuses(docker_archive((image, ["a:1"])), kind, "layer 1", hint)
        check("pull" not in result.error["hint"], f"{result}")


def test_zeros(t):
    """A file of zeros compresses a thousandfold, and is no bomb."""
    image = Image(layers=0)
    image.tars = [tar_of([("zeros", bytes(100_000_000))])]
    image.layers = [gzip.compress(image.tars[0])]
    config = json.loads(image.config)
    config["rootfs"]["diff_ids"] = [sha(image.tars[0])]
    image.config = compact(config)
    t.loads(t.file(tar_of(docker_archive((image, ["a:1"])))), (None, "docker.io/library/a:1"))


def test_whole_or_not_at_all(t):
    one, two, bad = Image(), Image("b"), Image("c")
    bad.tars[1] = bad.layers[1] = tar_of([("x", b"other")])
    t.refuses(docker_archive((one, ["a:1"]), (bad, ["c:1"])), "corrupt", "image c:1: layer 2")
    t.refuses(docker_archive((one, ["a:1"]), (bad, None)), "corrupt", f"image {sha(bad.config)[7:]}.json: layer 2")
    for names, said in (({"name": "c:1"}, "c:1"), ({}, bad.digest)):
        t.refuses(layout(one.blobs() + bad.blobs()[:2], [one.entry(name="a:1"), bad.entry(**names)]),
                  "not_found", f"image {said}: it holds no blob")
    alone = t.refuses(docker_archive((bad, ["c:1"])), "corrupt", "layer 2")
    check("c:1" not in alone.error["what"], f"one image needs no name: {alone}")
    t.loads(t.file(tar_of(docker_archive((one, ["a:1", "a:2"]), (two, ["b:1"])))),
            (None, "docker.io/library/a:1"), (None, "docker.io/library/a:2"), (None, "docker.io/library/b:1"))


# ---- real producers ----

def real_layout(t):
    """Made by GNU tar and umoci."""
    tree, folder = t.path(), t.path()
    write_folder(tree, [("bin/tool", b"x" * 200_000), ("etc/conf", b"y")])
    os.chmod(os.path.join(tree, "bin/tool"), 0o4755)
    os.symlink("tool", os.path.join(tree, "bin/link"))
    tool("tar", "-C", tree, "-cf", t.path("root.tar"), ".")
    tool("umoci", "init", "--layout", folder)
    tool("umoci", "new", "--image", folder + ":first")
    tool("umoci", "raw", "add-layer", "--image", folder + ":first", os.path.join(t.folder, "root.tar"))
    tool("umoci", "config", "--image", folder + ":first", "--config.cmd", "/bin/tool")
    return folder


def test_producers(t):
    folder = real_layout(t)
    with open(os.path.join(folder, "index.json"), encoding="utf-8") as f:
        digest = json.load(f)["manifests"][0]["digest"]
    t.loads(folder, (digest, None))
    golden = t.sqfs(digest)
    for transport, suffix, ref in (("oci-archive", ":example.com/x:1", "example.com/x:1"),
                                   ("oci", ":example.com/x:1", "example.com/x:1"),
                                   ("docker-archive", ":example.com/x:1", "example.com/x:1")):
        path, here = t.path(), t.fresh()
        tool("skopeo", "copy", "-q", f"oci:{folder}:first", f"{transport}:{path}{suffix}")
        got = here.loads(path, (None, ref))
        equal(here.sqfs(got), golden, f"the file system from {transport}")
        if transport != "docker-archive":
            equal(got, digest, f"the manifest's digest from {transport}")
    directory, back = t.path(), t.path()
    tool("skopeo", "copy", "-q", f"oci:{folder}:first", "dir:" + directory)
    tool("skopeo", "copy", "-q", "dir:" + directory, f"oci-archive:{back}:y:2")
    t.fresh().loads(back, (digest, "docker.io/library/y:2"))
    for command in (["tar", "-C", folder, "-c", "."], ["tar", "-C", folder, "-cz", "blobs", "index.json"],
                    ["tar", "-C", folder, "--format=pax", "--zstd", "-c", "."]):
        t.fresh().loads("-", (digest, None), data=subprocess.run(command, check=True, stdout=subprocess.PIPE).stdout)


# ---- import ----

def test_import(t):
    tar = tar_of([("bin/sh", b"#" * 100_000), ("etc", {"type": tarfile.DIRTYPE})])
    config = json.dumps({"Cmd": ["/bin/sh"], "Env": ["A=b"]})
    digest = t.good(t.run("import", "--config", config, t.file(tar)))
    manifest = json.loads(t.blob(digest))
    published = json.loads(t.blob(manifest["config"]["digest"]))
    equal(published["history"], [{"created_by": "kosa8 image import"}], "history")
    equal(published["rootfs"]["diff_ids"], [sha(tar)], "diff_ids")
    equal(t.blob(manifest["layers"][0]["digest"]), tar, "the tar is kept")
    again = t.run("import", "--config", config, "-", data=tar)
    equal(t.good(again), digest, "the same from stdin")
    check(again.last["cached"], "it is there")
    for pack, kind in ((gzip.compress, "+gzip"), (zstd, "+zstd")):
        here = t.fresh()
        data = pack(tar)
        got = here.good(here.run("import", "--config", config, here.file(data)))
        layer = json.loads(here.blob(got))["layers"][0]
        equal((layer["digest"], layer["mediaType"]), (sha(data), OCI + "layer.v1.tar" + kind), "layer")
        equal(here.sqfs(got), t.sqfs(digest), "the file system")
    saved = t.saves(digest + "=example.com/imported:1")
    equal(skopeo_dir(t, f"oci-archive:{saved}:1")[0], t.blob(digest), "what skopeo reads")
    here = t.fresh()
    here.fails("invalid", "folder", "tar -C", args=("import", t.folder))
    here.fails("not_found", args=("import", "/nosuchfile"))
    here.fails("invalid", "not valid JSON", args=("import", "--config", "{", t.file(tar)))
    for data in (gzip.compress(tar)[:-20], tar[:60_000]):
        cut = here.fails("corrupt", "the file again", args=("import", t.file(data)))
        check("pull" not in cut.error["hint"], f"nothing was pulled: {cut}")
    here.fails("invalid", "it is empty", "has failed", args=("import", "-"), data=b"")
    here.fails("invalid", "it is empty", args=("import", t.file(zstd(b""))))
    here.good(here.run("import", t.file(bytes(1024))))  # control: a tar without files


# ---- what changes while it is read ----

def flipping(path):
    """Changes the file as long as the returned event is not set."""
    stop = threading.Event()

    def flip():
        with open(path, "r+b", buffering=0) as f:
            n = 0
            while not stop.is_set():
                n += 1
                f.seek(n * 7919 % 20_000_000)
                f.write(bytes([n & 255]))
    thread = threading.Thread(target=flip)
    thread.start()
    return stop, thread


def test_changing(t):
    image = Image(size=15_000_000)
    folder = write_folder(t.path(), layout(image.blobs(), [image.entry()]))
    docker = write_folder(t.path(), docker_archive((image, ["a:1"])))
    root = t.file(image.tars[0])
    for verb, path, source in (
            ("load", os.path.join(folder, "blobs/sha256", sha(image.layers[0])[7:]), folder),
            ("load", os.path.join(docker, "0-layer0.tar"), docker), ("import", root, root)):
        here = t.fresh()
        stop, thread = flipping(path)
        try:
            result = here.run(verb, source)
        finally:
            stop.set()
            thread.join()
        if result.code == 0:
            here.good(result)
        else:
            equal(result.error["kind"], "corrupt", f"{result}")
            equal(here.here(), [], "left behind")


# ---- save ----

def test_save(t):
    one, two = Image(pack=(gzip.compress, zstd)), Image("b", pack=(gzip.compress,))
    t.loads(t.file(tar_of(layout(one.blobs() + two.blobs(), [one.entry(name="example.com/app:1"),
                                                             two.entry(name="example.com/app:2")]))))
    before = t.here()
    names = [f"{one.digest}=example.com/app:1", f"{one.digest}=example.com/also:one",
             f"{two.digest}=example.com/app:2"]
    path = t.saves(*names)
    with tarfile.open(path) as tar:
        members = tar.getmembers()
        found = [m.name for m in members]
        equal(found, sorted(found), "order")
        equal({(m.mtime, m.uid, m.gid, m.uname) for m in members}, {(0, 0, 0, "")}, "times and owners")
        blobs = {n.rsplit("/", 1)[1] for n in found if n.startswith("blobs/sha256/")}
        equal(blobs, {sha(b)[7:] for b in one.blobs() + two.blobs()}, "blobs, each once")
        notes = [(e["digest"], e["annotations"][NAME], e["annotations"][REF])
                 for e in json.load(tar.extractfile("index.json"))["manifests"]]
        equal(sorted(notes), sorted([(one.digest, "example.com/app:1", "1"), (two.digest, "example.com/app:2", "2"),
                                     (one.digest, "example.com/also:one", "one")]), "names")
    with open(path, "rb") as f, open(t.saves(*reversed(names), names[0]), "rb") as g:
        check(f.read() == g.read(), "equal images and names in another order give equal bytes")
    equal(t.here(), before, "what is in the folder")
    t.fresh().loads(path, (one.digest, "example.com/also:one"), (one.digest, "example.com/app:1"),
                    (two.digest, "example.com/app:2"))
    for tag, image in (("1", one), ("2", two), ("one", one)):
        manifest, blobs = skopeo_dir(t, f"oci-archive:{path}:{tag}")
        equal(manifest, image.manifest, "the manifest that skopeo reads")
        equal(blobs, {sha(b)[7:] for b in image.blobs()[1:]}, "the blobs that skopeo reads")
        inspected = json.loads(tool("skopeo", "inspect", f"oci-archive:{path}:{tag}"))
        equal(inspected["Digest"], image.digest, "skopeo inspect")
    out = t.path()
    tool("skopeo", "copy", "-q", "--preserve-digests", f"oci-archive:{path}:2", f"oci:{out}:2")
    check(os.path.exists(os.path.join(out, "blobs/sha256", two.digest[7:])), "skopeo to oci:")
    # by its manifest.json, as older versions of docker read it
    plain = t.path()
    tool("skopeo", "copy", "-q", f"docker-archive:{path}:example.com/also:one", "dir:" + plain)
    equal({n for n in os.listdir(plain) if n not in ("manifest.json", "version")},
          {sha(b)[7:] for b in [one.config, *one.tars]}, "uncompressed layers and configuration")
    extracted, bundle = t.path(), t.path()
    os.mkdir(extracted)
    tool("tar", "-C", extracted, "-xf", path)
    tool("umoci", "raw", "unpack", "--rootless", "--image", extracted + ":2", bundle)
    with open(os.path.join(bundle, "b0"), "rb") as f:
        equal(f.read(), b"b" * 50_000, "a file that umoci unpacked")


def test_save_names(t):
    one, two = Image(), Image("b")
    t.loads(t.file(tar_of(layout(one.blobs() + two.blobs(), [one.entry(), two.entry()]))))
    path = t.saves(one.digest)
    equal(skopeo_dir(t, f"oci-archive:{path}")[0], one.manifest, "without a name")
    t.fresh().loads(path, (one.digest, None))
    path = t.saves(f"{one.digest}=example.com/a:1", f"{two.digest}=example.com/b:1")
    for name, image in (("example.com/a:1", one), ("example.com/b:1", two)):
        equal(skopeo_dir(t, f"oci-archive:{path}:{name}")[0], image.manifest, "by the whole name")
    pinned = f"example.com/a@{one.digest}"
    t.fresh().loads(t.saves(f"{one.digest}={pinned}"), (one.digest, None))

    def refused(kind, *needles, operands):
        result = t.save("/dev/null", *operands)
        equal(result.error.get("kind"), kind, f"{result}")
        for needle in needles:
            check(needle in result.error["what"] + result.error["hint"], f"'{needle}' is not said: {result}")
    refused("invalid", "example.com/a:1", "two images",
            operands=(f"{one.digest}=example.com/a:1", f"{two.digest}=example.com/a:1"))
    refused("invalid", "not a digest", operands=(one.digest + "0",))
    refused("invalid", "not a digest", operands=("",))
    refused("invalid", "lower case", operands=(one.digest + "=Bad",))
    refused("not_found", "sha256:00", "again", operands=("sha256:" + "0" * 64,))
    refused("limit", "256 names", operands=[f"{one.digest}=a:{n}" for n in range(257)])
    refused("usage", operands=())


def damage(path, how):
    os.chmod(path, 0o600)
    if how == "gone":
        os.unlink(path)
        return
    with open(path, "r+b") as f:
        if how == "short":
            f.truncate(os.stat(path).st_size - 1)
        elif how == "long":
            f.seek(0, 2)
            f.write(b"x")
        else:
            f.write(b"!")
    os.chmod(path, 0o400)


def test_save_damaged(t):
    for how, kind in (("flipped", "corrupt"), ("short", "corrupt"), ("long", "corrupt"), ("gone", "not_found")):
        for which in range(3):
            here = t.fresh()
            image = Image()
            here.loads(here.file(tar_of(layout(image.blobs(), [image.entry()]))))
            here.saves(image.digest)  # control
            digest = sha(image.blobs()[which])
            damage(os.path.join(here.images, "blobs/sha256", digest[7:]), how)
            result = here.save(here.path(), image.digest)
            equal(result.code, 1, f"{how} {which}: {result}")
            equal(result.error["kind"], kind, f"{how} {which}: {result}")
            check(digest in result.error["what"], f"the blob's name: {result}")
            check("again" in result.error["hint"], f"what to do: {result}")


def test_save_to_what_fails(t):
    image = Image(size=3_000_000)
    t.loads(t.file(tar_of(layout(image.blobs(), [image.entry()]))))
    before = t.here()

    def into(fd, kind, *needles):
        try:
            result = t.save(fd, image.digest)
        finally:
            os.close(fd)
        equal(result.error.get("kind"), kind, f"{result}")
        for needle in needles:
            check(needle in result.error["what"], f"'{needle}' is not said: {result}")
        equal(t.here(), before, "what is in the folder")
    into(os.open("/dev/full", os.O_WRONLY), "no_space", "archive")
    reader, writer = os.pipe()
    os.close(reader)
    into(writer, "cancelled", "nobody reads")
    into(os.open("/dev/null", os.O_RDONLY), "usage", "descriptor 3")
    result = t.run("save", image.digest)
    equal(result.error.get("kind"), "usage", f"without a descriptor: {result}")


def test_save_slow_and_swept(t):
    """A reader that is slow, also of a non-blocking pipe; all blobs are removed meanwhile."""
    image = Image(size=3_000_000)
    data = tar_of(layout(image.blobs(), [image.entry(name="a:1")]))
    for nonblocking in (False, True):
        here = t.fresh()
        here.loads("-", data=data)
        with open(here.saves(image.digest + "=a:1"), "rb") as f:
            want = f.read()
        reader, writer = os.pipe()
        if nonblocking:
            fcntl.fcntl(writer, fcntl.F_SETFL, fcntl.fcntl(writer, fcntl.F_GETFL) | os.O_NONBLOCK)
        process = here.start("save", image.digest + "=a:1", **third(writer))
        os.close(writer)
        got = os.read(reader, 1000)
        lock = os.open(os.path.join(here.images, "lock"), os.O_RDWR)
        fcntl.lockf(lock, fcntl.LOCK_EX)  # as the sweep: while it writes, the folder is not locked
        for name in os.listdir(os.path.join(here.images, "blobs/sha256")):
            os.unlink(os.path.join(here.images, "blobs/sha256", name))
        os.close(lock)
        with os.fdopen(reader, "rb") as f:
            got += f.read()
        result = here.end(process, time.monotonic())
        equal(result.code, 0, f"{result}")
        check(got == want, "the same bytes")


# ---- show ----

def test_show(t):
    image = Image(Labels={"a": "b"})
    t.loads(t.file(tar_of(layout(image.blobs(), [image.entry()]))))
    result = t.run("show", image.digest)
    equal(result.code, 0, f"{result}")
    equal(result.last["manifest"], json.loads(image.manifest), "manifest")
    equal(result.last["config"], json.loads(image.config), "configuration")
    t.fails("invalid", "not a digest", args=("show", "app:1"))
    t.fails("not_found", "sha256:11", "again", args=("show", "sha256:" + "1" * 64))
    t.fails("protocol", "neither an image nor an index", args=("show", sha(image.config)))
    path = os.path.join(t.images, "blobs/sha256", sha(image.config)[7:])
    damage(path, "flipped")
    t.fails("corrupt", sha(image.config), args=("show", image.digest),
            here=[f for f in t.here() if not f.endswith(sha(image.config)[7:])])


# ---- hostile ----

def raw_header(name, size, kind=b"0"):
    """A ustar header with any size, in base 256 where octal digits do not do."""
    digits = b"%011o\0" % size if size < 8**11 else b"\x80" + size.to_bytes(11, "big")
    head = bytearray(name.encode().ljust(100, b"\0") + b"0000644\0" + b"0000000\0" * 2 + digits +
                     b"00000000000\0" + b" " * 8 + kind + b"\0" * 100 + b"ustar\x0000")
    head = head.ljust(512, b"\0")
    head[148:156] = b"%06o\0 " % sum(head)
    return bytes(head)


def empty_image(*pack):
    """A layer, and over it one of no bytes for each of pack; without pack no layers at all."""
    image = Image(layers=len(pack) + 1 if pack else 0, pack=(bytes, *pack))
    image.tars[1:] = [b"" for _ in pack]
    image.layers[1:] = [p(b"") for p in pack]
    config = json.loads(image.config)
    config["rootfs"]["diff_ids"] = [sha(tar) for tar in image.tars]
    image.config = compact(config)
    manifest = json.loads(image.manifest)
    manifest["config"].update(digest=sha(image.config), size=len(image.config))
    for d, data in zip(manifest["layers"], image.layers):
        d.update(digest=sha(data), size=len(data))
    image.manifest = compact(manifest)
    image.digest = sha(image.manifest)
    return image


def test_layers_of_nothing(t):
    one = t.fresh()
    golden = one.sqfs(one.loads(one.file(tar_of(docker_archive((Image(layers=1), ["a:1"]))))))
    for image, same in ((empty_image(bytes), True), (empty_image(gzip.compress), True),
                        (empty_image(zstd), True), (empty_image(bytes, gzip.compress, bytes), True),
                        (empty_image(), False)):
        here = t.fresh()
        name = "example.com/empty:1"
        here.loads(here.file(tar_of(layout(image.blobs(), [image.entry(name=name)]))), (image.digest, name))
        equal(here.sqfs(image.digest) == golden, same, "the file system of the first layer alone")
        saved = here.saves(f"{image.digest}={name}")
        t.fresh().loads(saved, (image.digest, name))
        equal(skopeo_dir(t, f"oci-archive:{saved}:1")[0], image.manifest, "what skopeo reads")
        shown = here.run("show", image.digest).last
        equal(len(shown["manifest"]["layers"]), len(image.layers), "layers that are shown")
        docker = t.fresh()
        digest = docker.loads(docker.file(tar_of(docker_archive((image, [name])))), (None, name))
        equal(docker.sqfs(digest), here.sqfs(image.digest), "the same from docker's form")
    # As docker itself saves an image without layers.
    config = json.loads(image.config)
    del config["rootfs"]["diff_ids"]
    items = [{"Config": "c.json", "RepoTags": ["a:1"], "Layers": None}]
    members = [("c.json", compact(config)), ("manifest.json", json.dumps(items).encode())]
    docker = t.fresh()
    digest = docker.loads(docker.file(tar_of(members)), (None, "docker.io/library/a:1"))
    equal(docker.sqfs(digest), here.sqfs(image.digest), "docker's own")
    t.refuses([*members[:1], ("manifest.json", b'[{"Config":"c.json","Layers":{}}]')], "protocol", "Layers")


def test_hostile_names(t):
    image = Image()
    good = docker_archive((image, ["a:1"]))
    canary = t.file(b"secret", "canary")
    for name in ("../x", "a/../../x", "../" * 50 + canary.lstrip("/"), "x" * 600):
        t.refuses([*good, (name, b"x")], "invalid", "leads out")
    for target in ("../x", "../../etc/passwd"):
        t.refuses([*good, ("l", link(target))], "invalid", "leads out")
        t.refuses([*good, ("l", link(target, tarfile.LNKTYPE))], "invalid", "leads out")
    files, item = docker_members(image, ["a:1"])

    def with_layers(names, *more):
        return [*files, *more, ("manifest.json", json.dumps([{**item, "Layers": names}]).encode())]
    t.refuses(with_layers(["a", "b"], ("a", link("b")), ("b", link("a"))), "not_found", "holds no a")
    t.refuses(with_layers(["a", "a"], ("a", link("a"))), "not_found", "holds no a")
    t.refuses(with_layers([canary, canary]), "not_found", "holds no")
    t.refuses(with_layers(["/etc/passwd"] * 2, ("etc/passwd", link(canary))), "not_found", "holds no")
    t.refuses(with_layers(["d"] * 2, ("d", {"type": tarfile.DIRTYPE})), "not_found", "holds no d")
    t.refuses(with_layers(["f"] * 2, ("f", {"type": tarfile.FIFOTYPE})), "not_found", "holds no f")
    t.refuses(with_layers([item["Layers"][0]] * 10_000), "limit", "127")
    t.refuses(with_layers([1, 2]), "invalid", "Layers")
    t.refuses(with_layers([]), "corrupt", "2 layers")
    t.refuses([*files, ("manifest.json", b"[" * 100_000)], "invalid", "not a list")
    t.refuses([*files, ("manifest.json", json.dumps([{**item, "Config": "nope"}]).encode())], "not_found", "nope")
    t.refuses([*files, ("manifest.json", json.dumps([{**item, "RepoTags": "a:1"}]).encode())], "invalid", "RepoTags")
    t.refuses([*files, ("manifest.json", json.dumps([{**item, "RepoTags": ["?"] * 257}]).encode())], "limit", "256 names")
    t.loads(t.file(tar_of(with_layers(item["Layers"]))), (None, "docker.io/library/a:1"))  # control
    equal(open(canary, "rb").read(), b"secret", "the canary")


def test_hostile_sizes(t):
    good = tar_of(docker_archive((Image(), ["a:1"])))
    for size in (2**63, 2**63 - 1, 2**62, 2**40):
        t.refuses(raw_header("big", size) + good, "limit" if size < 2**63 - 1 else "corrupt", seconds=3)
    t.refuses(raw_header("big", 2**36 - 1) + good, "no_space" if free(t) < 2**36 else "corrupt", seconds=3)
    t.fresh().loads(t.file(raw_header("folder", 2**62, b"5") + good), seconds=3)  # a folder has no content
    sparse = io.BytesIO()
    pax = {"GNU.sparse.major": "1", "GNU.sparse.minor": "0", "GNU.sparse.name": "s", "GNU.sparse.realsize": "100"}
    with tarfile.open(fileobj=sparse, mode="w", format=tarfile.PAX_FORMAT) as tar:
        data = b"1\n9000000000000\n4\n".ljust(512, b"\0") + b"data"
        info = tarfile.TarInfo("s")
        info.size, info.pax_headers = len(data), pax
        tar.addfile(info, io.BytesIO(data))
    result = t.run("load", t.file(sparse.getvalue()))
    check(result.code == 1 and result.error["kind"] in ("invalid", "corrupt"), f"a sparse map that lies: {result}")
    equal(t.here(), [], "left behind")
    t.refuses(tar_of([(f"f{n}", b"") for n in range(32_769)]), "limit", "32768", seconds=30)
    t.refuses(gzip.compress(raw_header("d/", 0, b"5") * 40_000), "limit", "32768")


def free(t):
    st = os.statvfs(t.images)
    return st.f_bavail * st.f_frsize


def test_bomb(t):
    """On a small file system of its own: what is announced is refused before it is written, and
    what is not announced in one piece when it does not fit."""
    flags = ["-m"] if os.geteuid() == 0 else ["-rm"]
    done = subprocess.run(
        ["unshare", *flags, "sh", "-c", 'mount -t tmpfs -o size=8m none "$1" && shift && exec "$@"',
         "sh", t.images, sys.executable, __file__, WORKER, "--small", t.folder],
        capture_output=True, timeout=100)
    check(done.returncode == 0, f"{done.stdout.decode()} {done.stderr.decode()[-500:]}")


def small(folder):
    class Here(Test):
        def __init__(self):
            self.folder, self.images, self.count = folder, os.path.join(folder, "images"), 1000
    t = Here()
    one = gzip.compress(raw_header("zeros", 10**9) + b"\0" * 10**8)
    t.refuses(one, "no_space", "needs about 1.0 GB", "is free", seconds=3)
    many = gzip.compress(b"".join(raw_header(f"z{n}", 2**20) + b"\0" * 2**20 for n in range(200)))
    t.refuses(many, "no_space", "the archive's content")
    image = Image(size=2_000_000)
    members = tar_of(layout(image.blobs(), [image.entry()]))
    t.refuses(members + b"\0" * 10**7, "no_space", "is free")
    t.fails("no_space", "the archive", args=("import", "-"), data=(b"x" * 10**6 for _ in range(20)))
    image = Image()
    t.loads(t.file(tar_of(layout(image.blobs(), [image.entry()]))), (image.digest, None))  # control


def test_hostile_content(t):
    image = Image()
    good = docker_archive((image, ["a:1"]))
    plain = tar_of([("noise", random.Random(1).randbytes(500_000)), *good])
    t.refuses(b"", "invalid", "not a tar archive")
    t.refuses(b"junk" * 1000, "invalid", "not a tar archive")
    t.refuses(gzip.compress(b"junk" * 1000), "invalid", "not a tar archive")
    t.refuses(plain[:60_000], "corrupt", "cannot be read")
    t.refuses(gzip.compress(plain)[:-200], "corrupt", "cannot be read")
    t.refuses(zstd(plain)[:-100], "corrupt", "cannot be read")
    t.refuses([("a", b"b")], "invalid", "not a saved image", "import")
    members = layout(image.blobs(), [image.entry()])
    for which, data in enumerate(image.blobs()):
        name = "blobs/sha256/" + sha(data)[7:]
        without = [m for m in members if m[0] != name]
        t.refuses(without, "not_found", "holds no blob " + sha(data))
        t.refuses([*without, (name, data[:-1] + b"x")], "corrupt", sha(data), "digest")
        t.refuses([*without, (name, data + b"x")], "corrupt", sha(data))
        folder = write_folder(t.path(), [*without, (name, data + b"x")])
        t.fails("corrupt", sha(data), args=("load", folder))
    index = Image.descriptor(image.manifest, image.type)
    t.refuses(layout(image.blobs(), [{**index, "size": index["size"] + 1}]), "corrupt", image.digest)
    wrong = dict(good)
    config = next(n for n in wrong if len(n) == 69)
    wrong[config] = wrong[config] + b" "
    t.refuses([*wrong.items()], "corrupt", "configuration", "another digest")
    for text in (b"{", b"[]", b"{}", compact({"schemaVersion": 2, "manifests": 1}), b'{"a":' * 50_000):
        t.refuses([("index.json", text)], "protocol", "index.json" if text != b"[]" else "")
    t.refuses([("index.json", image.manifest)], "invalid", "not an index")
    t.refuses([("index.json", index_of([]))], "not_found", "holds no image")
    t.refuses([("index.json", b" " * (4 << 20) + b"{}")], "limit", "index.json", "4194304")
    many = [Image(str(n), layers=1, size=10) for n in range(65)]
    t.refuses(layout([b for i in many for b in i.blobs()], [i.entry() for i in many]), "limit", "64 images")
    t.refuses(layout(image.blobs(), [image.entry(name=f"a:{n}") for n in range(257)]), "limit", "256 names")


def test_hostile_folder(t):
    image = Image()
    canary = t.file(b"{}", "canary")

    def folder_with(change):
        folder = write_folder(t.path(), layout(image.blobs(), [image.entry()]))
        change(folder, os.path.join(folder, "blobs/sha256", sha(image.layers[0])[7:]))
        return folder

    def replaced(path, target):
        os.unlink(path)
        os.symlink(target, path)

    def inside(folder, blob):
        os.rename(blob, os.path.join(folder, "real"))
        os.symlink("../../real", blob)
    t.fresh().loads(folder_with(inside), (image.digest, None))
    t.fails("invalid", "index.json leads out", args=(
        "load", folder_with(lambda f, _: replaced(os.path.join(f, "index.json"), "/etc/passwd"))))
    t.fails("invalid", "leads out", args=("load", folder_with(lambda _, b: replaced(b, canary))))
    t.fails("invalid", "leads out", args=("load", folder_with(lambda _, b: replaced(b, "../../../canary"))))
    t.fails("invalid", "leads nowhere", args=("load", folder_with(lambda _, b: replaced(b, b.rsplit("/", 1)[1]))))

    def out_by_folder(folder, _):
        os.rename(os.path.join(folder, "blobs"), t.path("elsewhere"))
        os.symlink(os.path.join(t.folder, "elsewhere"), os.path.join(folder, "blobs"))
    t.fails("invalid", "leads out", args=("load", folder_with(out_by_folder)))

    def fifo(_, blob):
        os.unlink(blob)
        os.mkfifo(blob)
    t.fails("invalid", "is not a file", args=("load", folder_with(fifo)), seconds=5)

    def directory(_, blob):
        os.unlink(blob)
        os.mkdir(blob)
    t.fails("invalid", "is not a file", args=("load", folder_with(directory)))

    def huge(_, blob):
        os.truncate(blob, 2**43)
    result = t.run("load", folder_with(huge))
    check(result.error.get("kind") in ("no_space", "corrupt"), f"{result}")
    equal(t.here(), [], "left behind")
    files, item = docker_members(image, ["a:1"])
    for name in ("../canary", canary, "/etc/passwd"):
        item["Layers"] = [name] * 2
        folder = write_folder(t.path(), [*files, ("manifest.json", json.dumps([item]).encode())])
        t.fails("invalid", "leads out", args=("load", folder))
    t.fails("invalid", "not a saved image", args=("load", write_folder(t.path(), [("x", b"y")])))
    t.fails("not_found", args=("load", "/nosuchfile"))


# ---- at once, interrupted, memory ----

def test_at_once(t):
    """Four workers load the same; one of them fails at its end, which takes nothing from the others."""
    image, bad = Image(size=500_000), Image("c")
    bad.tars[1] = bad.layers[1] = tar_of([("x", b"other")])
    good = t.file(tar_of(docker_archive((image, ["a:1"]))))
    mixed = t.file(tar_of(docker_archive((image, ["a:1"]), (bad, ["c:1"]))))
    began = time.monotonic()
    processes = [t.start("load", path, stdin=subprocess.DEVNULL) for path in (good, mixed, good, good)]
    results = [t.end(p, began) for p in processes]
    equal([r.code for r in results], [0, 1, 0, 0], f"exit codes of {[str(r) for r in results]}")
    equal(results[1].error["kind"], "corrupt", f"{results[1]}")
    for result in (results[0], results[2], results[3]):
        t.good(result, (None, "docker.io/library/a:1"))



def test_kill(t):
    image = Image(size=500_000)
    data = tar_of(layout(image.blobs(), [image.entry()]))
    process = t.start("load", "-", stdin=subprocess.PIPE)
    process.stdin.write(data[:800_000])
    process.stdin.flush()
    work = os.path.join(t.images, "work")
    deadline = time.monotonic() + 20
    while not any(files for _, _, files in os.walk(work)):
        check(time.monotonic() < deadline and process.poll() is None, "control: it wrote nothing")
    process.kill()
    process.wait()
    for stream in (process.stdin, process.stdout, process.stderr):
        try:
            stream.close()
        except BrokenPipeError:
            pass
    check(os.listdir(work), "control: a killed load leaves something")
    check(not os.listdir(os.path.join(t.images, "blobs/sha256")), "nothing half made in the store")
    claims = os.path.join(t.images, "claims")
    for name in os.listdir(claims):  # the sweep's: a claim of a dead worker
        os.unlink(os.path.join(claims, name))
    t.loads("-", (image.digest, None), data=data)


def test_memory(t):
    size = 300_000_000
    data = [raw_header("zeros", size)] + [b"\0" * 1_000_000] * (size // 1_000_000) + [b"\0" * (1024 + -size % 512)]
    diff = hashlib.sha256()
    for chunk in data:
        diff.update(chunk)
    config = compact({"os": "linux", "architecture": "amd64",
                      "rootfs": {"type": "layers", "diff_ids": ["sha256:" + diff.hexdigest()]}})
    layer_size = sum(map(len, data))
    rest = tar_of([("c", config), ("manifest.json", json.dumps(
        [{"Config": "c", "RepoTags": ["a:1"], "Layers": ["l"]}]).encode())])
    process = t.start("load", "--hold", "-", stdin=subprocess.PIPE)
    for chunk in [raw_header("l", layer_size), *data, b"\0" * (-layer_size % 512), rest]:
        process.stdin.write(chunk)
    process.stdin.close()
    images, peak = held(process)
    check(peak < 60_000_000, f"load took {peak / 1e6:.0f} MB")
    with open(os.devnull, "wb") as out:
        result, peak = held(t.start("save", "--hold", images["images"][0]["digest"], **third(out.fileno())))
    check(result["size"] > size, f"{result}")
    check(peak < 60_000_000, f"save took {peak / 1e6:.0f} MB")


def held(process):
    """The last line of a worker that holds, and how much memory it had at most."""
    for line in process.stdout:
        last = json.loads(line)
        if "ok" in last:
            break
    with open(f"/proc/{process.pid}/status", encoding="ascii") as f:
        peak = next(int(line.split()[1]) * 1024 for line in f if line.startswith("VmHWM"))
    process.stdout.close()
    process.stderr.close()
    equal(process.wait(), 0, f"exit code of {last}")
    return last, peak


def main():
    if sys.argv[2:3] == ["--small"]:
        return small(sys.argv[3])
    for name in ("skopeo", "umoci", "zstd", "tar", "unshare"):
        if not shutil.which(name):
            print(f"1..1\nnot ok 1 - {name} is not installed (tools/install-deps check demo)")
            return 1
    wanted = sys.argv[2:]
    tests = [(n, f) for n, f in globals().items()
             if n.startswith("test_") and (not wanted or n[5:] in wanted)]
    failed = 0
    with tempfile.TemporaryDirectory(prefix="kosa8-image-test.") as folder:
        for number, (name, function) in enumerate(tests, 1):
            began, problem = time.monotonic(), None
            try:
                function(Test(folder))
            except Failure as e:
                problem = f"{e}\n{traceback.format_exc().splitlines()[-4]}"
            except Exception:
                problem = traceback.format_exc()
            print(f"{'not ' if problem else ''}ok {number} - {name[5:].replace('_', ' ')} "
                  f"({time.monotonic() - began:.1f} s)", flush=True)
            for line in (problem or "").splitlines():
                print("#", line)
            failed += problem is not None
    print(f"1..{len(tests)}")
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
