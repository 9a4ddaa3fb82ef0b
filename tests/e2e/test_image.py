# SPDX-License-Identifier: Apache-2.0
"""Images: from a registry, an archive, a root file system; listed, shared, removed."""
import hashlib
import io
import json
import os
import subprocess
import tarfile

from harness import BUSYBOX, PYTHON, check, equal

HOME = "own"
SANDBOX = True
REGISTRY = os.environ.get("KOSA8_E2E_REGISTRY", "")


def names(t):
    return json.dumps(t.home.rows("image", "ls"))


def test_pull_prints_the_digest(t):
    result = t.home("sandbox", "pull", t.box, PYTHON)
    digest = result.text.strip()
    check(digest.startswith("sha256:") and len(digest) == 71, f"{result}")
    t.digest = digest
    check("3.12-slim" in json.dumps(t.home.rows("sandbox", "images", t.box)), "attached to the sandbox")


def test_the_second_pull_is_quick(t):
    result = t.home("sandbox", "pull", t.box, PYTHON)
    equal(result.text.strip(), t.digest)
    check(result.seconds < 2, f"{result}")


def test_a_second_sandbox_shares_it(t):
    files = t.home.files("images")
    other = t.create("other")
    result = t.home("sandbox", "pull", other, PYTHON)
    equal(result.text.strip(), t.digest)
    equal(t.home.files("images"), files, "one file for both")
    equal(t.home.python(other, "print(6*7)"), "42")
    t.remove(other)


def test_by_digest(t):
    """The platform's own manifest, by the digest that the pull printed."""
    result = t.home("sandbox", "pull", t.box, f"python@{t.digest}")
    equal(result.text.strip(), t.digest)
    t.home.refused(1, args=["sandbox", "pull", t.box, "python@sha256:" + "0" * 64])


def test_docker_media_types(t):
    t.home("sandbox", "pull", t.box, BUSYBOX)
    equal(t.home.sh(t.box, "echo yes"), "yes")


def test_a_whiteout_hides_what_lies_below(t):
    equal(t.home.python(t.box, "import os; print(os.path.exists('/etc/debian_version'), "
                        "os.path.exists('/etc/os-release'), "
                        "[n for n in os.listdir('/etc') if n.startswith('.wh')])"),
          "False True []")


def test_files_are_as_in_the_layers(t):
    equal(t.home.sh(t.box, "stat -c '%a %u %g' /tmp /bin/busybox /root"),
          "1777 0 0\n755 0 0\n755 0 0")
    equal(t.home.python(t.box, "import os; print(os.readlink('/usr/local/bin/python'))"), "python3")


def archive(t):
    """A docker-archive and an OCI layout of the scratch image, by skopeo or umoci's format."""
    layout = os.path.join(t.folder, "layout")
    os.makedirs(os.path.join(layout, "blobs/sha256"))

    def blob(data):
        import hashlib
        digest = hashlib.sha256(data).hexdigest()
        with open(os.path.join(layout, "blobs/sha256", digest), "wb") as f:
            f.write(data)
        return {"digest": "sha256:" + digest, "size": len(data)}
    import hashlib
    import io
    raw = io.BytesIO()
    with tarfile.open(fileobj=raw, mode="w") as tar:
        data = open("/bin/busybox", "rb").read()
        info = tarfile.TarInfo("bin/busybox")
        info.size, info.mode = len(data), 0o755
        tar.addfile(info, io.BytesIO(data))
    layer = raw.getvalue()
    config = {"architecture": "amd64", "os": "linux", "config": {"Cmd": ["/bin/busybox", "echo", "loaded"]},
              "rootfs": {"type": "layers", "diff_ids": ["sha256:" + hashlib.sha256(layer).hexdigest()]}}
    manifest = {"schemaVersion": 2, "mediaType": "application/vnd.oci.image.manifest.v1+json",
                "config": {"mediaType": "application/vnd.oci.image.config.v1+json",
                           **blob(json.dumps(config).encode())},
                "layers": [{"mediaType": "application/vnd.oci.image.layer.v1.tar", **blob(layer)}]}
    index = {"schemaVersion": 2, "manifests": [
        {"mediaType": manifest["mediaType"], **blob(json.dumps(manifest).encode()),
         "annotations": {"org.opencontainers.image.ref.name": "example.com/loaded:1"}}]}
    for name, value in (("index.json", index), ("oci-layout", {"imageLayoutVersion": "1.0.0"})):
        with open(os.path.join(layout, name), "w") as f:
            json.dump(value, f)
    oci = os.path.join(t.folder, "oci.tar")
    subprocess.run(["tar", "-C", layout, "-cf", oci, "."], check=True)

    docker = os.path.join(t.folder, "docker.tar")
    with tarfile.open(docker, "w") as tar:
        def add(name, data):
            info = tarfile.TarInfo(name)
            info.size = len(data)
            tar.addfile(info, io.BytesIO(data))
        add("config.json", json.dumps(config).encode())
        add("l/layer.tar", layer)
        add("manifest.json", json.dumps([{"Config": "config.json", "Layers": ["l/layer.tar"],
                                          "RepoTags": ["example.com/docker:2"]}]).encode())
    return oci, docker


def test_load_an_oci_layout_and_a_docker_archive(t):
    oci, docker = archive(t)
    for path, name in ((oci, "example.com/loaded:1"), (docker, "example.com/docker:2")):
        result = t.home("image", "load", path)
        check(name in result.text, f"it prints what was loaded: {result}")
        equal(t.home.run(t.box, name).text, "loaded\n")


def docker_archive(t, name, config, tags):
    """Of this host's busybox, with this configuration."""
    path = os.path.join(t.folder, name)
    raw = io.BytesIO()
    with tarfile.open(fileobj=raw, mode="w") as tar:
        tar.add("/bin/busybox", "bin/busybox", filter=reset)
    layer = raw.getvalue()
    document = {"architecture": "amd64", "os": "linux", "config": config,
                "rootfs": {"type": "layers", "diff_ids": ["sha256:" + hashlib.sha256(layer).hexdigest()]}}
    with tarfile.open(path, "w") as tar:
        for member, data in (("c.json", json.dumps(document).encode()), ("l.tar", layer),
                             ("manifest.json", json.dumps([{"Config": "c.json", "Layers": ["l.tar"],
                                                            "RepoTags": tags}]).encode())):
            info = tarfile.TarInfo(member)
            info.size = len(data)
            tar.addfile(info, io.BytesIO(data))
    return path


def test_an_archive_cannot_name_a_digest(t):
    """Else its image would be run by whoever asks for that digest."""
    digest = "sha256:" + "a1" * 32
    tags = [f"example.com/evil@{digest}", f"example.com/evil:1@{digest}", f"sha256:{'a1' * 8}",
            "example.com/good:1"]
    path = docker_archive(t, "evil.tar", {"Cmd": ["/bin/busybox", "echo", "evil"]}, tags)
    result = t.home("image", "load", path)
    equal(result.errors.count("is ignored"), 3, f"{result}")
    equal(t.home.run(t.box, "example.com/good:1").text, "evil\n", "control: it can be run")
    for name in tags[:3] + [digest, digest[:19], digest[7:19]]:
        t.home.refused(1, args=["image", "inspect", name])
    check(not [r for r in t.home.rows("image", "ls") if any(digest in ref for ref in r["refs"])],
          "no such name is kept")


def test_a_large_environment(t):
    """What docker runs; and what is too much for one run is told, and harms nothing."""
    env = [f"V{n}=" + "x" * 9_990 for n in range(19)]
    path = docker_archive(t, "env.tar", {"Env": env, "Cmd": ["/bin/busybox", "env"]},
                          ["example.com/env:1"])
    t.home("image", "load", path)
    out = t.home.run(t.box, "example.com/env:1").text
    equal([line for line in out.splitlines() if line.startswith("V")], env, "the environment")
    more = [x for n in range(5) for x in ("-e", f"W{n}=" + "y" * 10_000)]
    t.home.refused(125, "command and environment are longer than 232 kB",
                   args=["sandbox", "run", *more, t.box, "example.com/env:1"])
    path = docker_archive(t, "long.tar", {"Env": ["V=" + "x" * 150_000], "Cmd": ["/bin/busybox", "env"]},
                          ["example.com/env:2"])
    t.home("image", "load", path)
    t.home.refused(126, "argument list too long", args=["sandbox", "run", t.box, "example.com/env:2"])
    equal(t.home.sh(t.box, "echo alive"), "alive")


def test_load_what_is_no_archive(t):
    images = t.home.files("images")
    path = os.path.join(t.folder, "junk")
    for junk in (b"", b"junk" * 1000, b"\x1f\x8b\x08" + b"x" * 500):
        with open(path, "wb") as f:
            f.write(junk)
        t.home.refused(1, args=["image", "load", path])
        equal(t.home.files("images"), images)
    t.home.refused(1, "nosuchfile", args=["image", "load", "/nosuchfile"])


def test_import_a_root_file_system(t):
    path = os.path.join(t.folder, "rootfs.tar")
    with tarfile.open(path, "w") as tar:
        tar.add("/bin/busybox", "bin/busybox", filter=reset)
    result = t.home("image", "import", path, "example.com/mine:3")
    check(result.text.startswith("sha256:"), f"{result}")
    equal(t.home.run(t.box, "example.com/mine:3", "/bin/busybox", "echo", "imported").text,
          "imported\n")


def reset(info):
    info.uid = info.gid = 0
    info.uname = info.gname = "root"
    return info


def test_rm_of_an_image_in_use_is_refused(t):
    t.home.refused(1, t.box, args=["image", "rm", BUSYBOX])
    check("busybox" in names(t), "it is still there")
    equal(t.home.sh(t.box, "echo yes"), "yes")


def test_rm_frees_the_space(t):
    t.remove(t.box)
    check(t.home.used_bytes("images") > 0, "control: it takes space")
    for row in t.home.rows("image", "ls"):
        t.home("image", "rm", *row["refs"])
    equal(t.home.rows("image", "ls"), [])
    equal([f for f in t.home.files("images") if f.endswith(".sqfs")], [])
    t.home.refused(1, "nosuch", args=["image", "rm", "nosuch"])
