#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""kosa8-image against a registry that misbehaves (registry-faults.py), and with damaged archives.

    image-worker.py KOSA8-IMAGE [NAME...]     prints TAP

Every success must give the very same file system image and keep what it is made of byte for byte,
every failure a specific error; neither may leave anything behind in the images' folder but what a next
try continues, and no secret in any output.
"""
import base64
import fcntl
import gzip
import hashlib
import importlib.util
import io
import json
import os
import random
import shutil
import signal
import struct
import subprocess
import sys
import tarfile
import tempfile
import time
import traceback

from harness import Failure, check, equal

HERE = os.path.dirname(os.path.abspath(__file__))
WORKER = os.path.abspath(sys.argv[1]) if len(sys.argv) > 1 else ""
spec = importlib.util.spec_from_file_location("faults", os.path.join(HERE, "registry-faults.py"))
sys.dont_write_bytecode = True
faults = importlib.util.module_from_spec(spec)
spec.loader.exec_module(faults)

SECRETS = [faults.TOKEN, faults.USER.split(":")[1], base64.b64encode(faults.USER.encode()).decode(),
           "nobody-may-see"]


class Server:
    def __init__(self, folder, *arguments):
        self.log = os.path.join(folder, "requests")
        self.process = subprocess.Popen(
            [sys.executable, os.path.join(HERE, "registry-faults.py"), "--log", self.log, *arguments],
            stdin=subprocess.PIPE, stdout=subprocess.PIPE)
        ports = json.loads(self.process.stdout.readline())
        self.port, self.other = ports["port"], ports["other"]

    def requests(self, part):
        with open(self.log) as f:
            return [r for r in map(json.loads, f) if part in r["path"]]

    def stop(self):
        self.process.stdin.close()
        self.process.wait(10)


class Result:
    def __init__(self, code, out, err, seconds):
        self.code, self.seconds, self.err = code, seconds, err.decode(errors="replace")
        self.lines = [json.loads(line) for line in out.splitlines()]
        self.last = self.lines[-1] if self.lines else {}
        self.error = self.last.get("error", {})
        self.text = out.decode(errors="replace")

    def __str__(self):
        return f"exit {self.code}, {self.seconds:.2f} s, {json.dumps(self.last)[:600]}, {self.err[-400:]}"


class Test:
    """One test's folders and commands."""

    def __init__(self, folder, server):
        self.server = server
        self.folder = tempfile.mkdtemp(dir=folder)
        self.images = os.path.join(self.folder, "images")
        os.mkdir(self.images)
        self.kept = set()
        self.env = {**os.environ, "KOSA8_PULL_RETRY_MS": "20", "KOSA8_PULL_STALL_MS": "700",
                    "KOSA8_LOG": "debug", "DOCKER_CONFIG": os.path.join(self.folder, "docker")}
        for name in ("SSL_CERT_FILE", "KOSA8_REGISTRY_MIRROR"):
            self.env.pop(name, None)

    def log_in(self, where):
        os.mkdir(self.env["DOCKER_CONFIG"])
        secret = base64.b64encode(faults.USER.encode()).decode()
        with open(os.path.join(self.env["DOCKER_CONFIG"], "config.json"), "w") as f:
            json.dump({"auths": {where: {"auth": secret}}}, f)

    def start(self, verb, *arguments, **popen):
        return subprocess.Popen([WORKER, verb, "--images-dir", self.images, *arguments], env=self.env,
                                stdout=subprocess.PIPE, stderr=subprocess.PIPE, **popen)

    def end(self, process, began, data=None):
        try:
            out, err = process.communicate(data, timeout=60)
        except subprocess.TimeoutExpired:
            process.kill()
            process.communicate()
            raise Failure("no end within 60 s")
        result = Result(process.returncode, out, err, time.monotonic() - began)
        for secret in SECRETS:
            check(secret not in result.text and secret not in result.err, f"a secret is told: {result}")
        return result

    def run(self, verb, *arguments, data=None):
        began = time.monotonic()
        return self.end(self.start(verb, *arguments, stdin=subprocess.PIPE), began, data)

    def name(self, fault, tag=":1"):
        return f"127.0.0.1:{self.server.port}/{fault}/app{tag}"

    def path(self, *names):
        return os.path.join(self.images, *names)

    def listed(self, *names):
        return sorted(os.listdir(self.path(*names))) if os.path.exists(self.path(*names)) else []

    def blobs(self):
        return set(self.listed("blobs", "sha256"))

    def left(self):
        """What is below the images' folder beside finished images and their blobs."""
        return [f"{d}/{n}" for d in ("partial", "work", "claims") for n in self.listed(d)]

    def blob(self, digest):
        return self.path("blobs", "sha256", digest[7:])

    def remove_image(self, result):
        os.unlink(self.path(result.last["digest"][7:] + ".sqfs"))

    def whole(self, images):
        """These, as they stand in a result, and nothing else."""
        for image in images:
            listed = [b["digest"] for b in image["blobs"]]
            equal(len(listed), len(set(listed)), "each blob is listed once")
            for blob in image["blobs"]:
                with open(self.blob(blob["digest"]), "rb") as f:
                    data = f.read()
                equal((faults.sha(data), len(data)), (blob["digest"], blob["size"]), "a kept blob")
                equal(os.stat(self.blob(blob["digest"])).st_mode & 0o7777, 0o400, "it is on disk for sure")
            self.kept.update(d[7:] for d in listed)
        equal(self.blobs(), self.kept, "blobs")
        equal(self.left(), [], "left behind")

    def good(self, result, want=None):
        check(result.code == 0 and result.last.get("ok") is True, f"failed: {result}")
        self.whole([result.last])
        path = self.path(result.last["digest"][7:] + ".sqfs")
        equal(os.stat(path).st_mode & 0o7777, 0o400, "mode")
        equal(os.stat(path).st_size, result.last["size"], "size")
        with open(path, "rb") as f:
            got = hashlib.sha256(f.read()).hexdigest()
        if want:
            equal(got, want, "the image's bytes")
        return got

    def pulls(self, fault, tag=":1"):
        """A pull that works, and gives the same as one without faults."""
        result = self.run("pull", self.name(fault, tag))
        self.good(result, Test.golden)
        return result

    def fails(self, kind, *needles, args, seconds=8, keeps=False):
        result = self.run(*args)
        check(result.code == 1 and result.last.get("ok") is False, f"did not fail: {result}")
        equal(result.error["kind"], kind, f"kind of {result}")
        said = (result.error["what"] + " " + result.error["hint"]).lower()
        for needle in needles:
            check(needle.lower() in said, f"'{needle}' is not said: {result}")
        check(result.seconds < seconds, f"took too long: {result}")
        equal([n for n in os.listdir(self.images) if n.endswith(".sqfs")], [], "images")
        if keeps:
            self.resumable()
        else:
            equal((self.left(), self.blobs()), ([], self.kept), "left behind")
        return result

    def resumable(self):
        """What a next try continues is kept: at least 1 MiB of a layer, and the claim that names it."""
        partial, claims = self.listed("partial"), self.listed("claims")
        check(partial or self.blobs() - self.kept, "something is kept to be continued")
        for name in partial:
            check(os.path.getsize(self.path("partial", name)) >= 1 << 20, "it is worth it")
        equal(len(claims), 1, "claims")
        with open(self.path("claims", claims[0])) as f:
            named = {line[7:] for line in f.read().splitlines()}
        check(set(partial) | (self.blobs() - self.kept) <= named, "they are claimed")
        equal(self.listed("work"), [], "work")

    def refuses(self, fault, kind, *needles, **more):
        """In a folder of its own, as they all are the same image."""
        here = Test(self.folder, self.server)
        here.env = self.env
        try:
            return here.fails(kind, *needles, args=("pull", here.name(fault)), **more)
        except Failure as e:
            raise Failure(f"{fault}: {e}")


def layers_asked(server, fault, since=0):
    """The blobs of some size that were asked for, in order."""
    large = {faults.sha(d) for d in faults.Content(fault).layers}
    return [r["path"].rsplit("/", 1)[1] for r in server.requests(f"/{fault}/app/blobs/")[since:]
            if r["path"].rsplit("/", 1)[1] in large]


# ---- what works all the same ----

def test_ok(t):
    result = t.run("pull", t.name("ok"))
    Test.golden = t.good(result)
    equal(result.last["ref"], t.name("ok"), "canonical name")
    equal(result.last["config"]["config"]["WorkingDir"], "/srv", "a relative folder is made absolute")
    layers = [line for line in result.lines if line.get("event") == "layer"]
    equal({e["digest"] for e in layers if e["done"] == e["size"]},
          {e["digest"] for e in layers}, "the last event of a layer says that it is complete")
    check(len(layers) >= 2, "an event for each layer")
    again = t.run("pull", t.name("ok"))
    check(again.last["cached"] and not result.last["cached"], f"cached: {again}")


def test_by_digest(t):
    digest = t.pulls("ok").last["digest"]
    result = t.run("pull", t.name("ok", "@" + digest))
    t.good(result, Test.golden)
    equal(result.last["digest"], digest, "digest")


def test_answers_that_are_only_odd(t):
    for fault in ("no-length", "index", "index-nested", "index-unnamed", "docker", "rate-once",
                  "error-twice", "token", "token-expires", "zstd"):
        try:
            here = Test(t.folder, t.server)
            here.good(here.run("pull", here.name(fault)), Test.golden)
        except Failure as e:
            raise Failure(f"{fault}: {e}")


def test_layers_of_nothing(t):
    """Change nothing; no layers at all are an empty root file system."""
    for fault in ("empty-plain", "empty-gzip", "empty-zstd"):
        try:
            here = Test(t.folder, t.server)
            here.good(here.run("pull", here.name(fault)), Test.golden)
            check(here.run("pull", here.name(fault)).last["cached"], "the second pull finds it")
        except Failure as e:
            raise Failure(f"{fault}: {e}")
    made = set()
    for fault in ("no-layers", "null-layers"):
        try:
            here = Test(t.folder, t.server)
            result = here.run("pull", here.name(fault))
            made.add(here.good(result))
            equal(result.last["config"]["rootfs"]["diff_ids"], [], "diff_ids")
            equal(len(result.last["blobs"]), 2, "manifest and configuration")
            again = here.run("pull", here.name(fault))
            check(again.last["cached"] and not result.last["cached"], f"cached: {again}")
        except Failure as e:
            raise Failure(f"{fault}: {e}")
    equal(len(made), 1, "different file systems")
    t.refuses("empty-wrong", "corrupt", "layer sha256:", "another digest")


def test_resume_within_a_pull(t):
    t.pulls("short-once")
    ranges = [r["range"] for r in t.server.requests("/short-once/app/blobs/") if r["range"]]
    check(ranges, "the rest was asked for with a range")
    for fault in ("range-ignored", "range-wrong", "range-refused"):
        try:
            Test(t.folder, t.server).pulls(fault)
        except Failure as e:
            raise Failure(f"{fault}: {e}")


def test_redirect_to_another_origin(t):
    t.pulls("redirect")
    there = t.server.requests("/storage/redirect/")
    check(there, "storage was asked")
    equal({r["authorization"] for r in there}, {None}, "credentials for the other origin")
    here = t.server.requests("/redirect/app/blobs/")
    check("Bearer" in {r["authorization"] for r in here}, "control: they were sent to the registry")


def test_credentials(t):
    t.log_in(f"http://127.0.0.1:{t.server.port}/v2/")
    for fault in ("basic", "token-basic"):
        t.good(t.run("pull", t.name(fault)), Test.golden)
        shutil.rmtree(t.images)
        os.mkdir(t.images)


def test_mirror(t):
    t.env["KOSA8_REGISTRY_MIRROR"] = f"example.com=http://127.0.0.1:{t.server.port}"
    result = t.run("pull", "example.com/ok/app:1")
    t.good(result, Test.golden)
    equal(result.last["ref"], "example.com/ok/app:1", "name")


# ---- killed, and continued ----

def start_until(t, fault, done):
    """A pull that has brought so many bytes of some layer."""
    process = t.start("pull", t.name(fault))
    for line in process.stdout:
        if json.loads(line).get("done", 0) > done:
            return process
    raise Failure("the pull ended too early")


def end_with(process, number):
    process.send_signal(number)
    process.wait()
    process.stdout.close()
    process.stderr.close()
    return process.returncode


def ranges(t, fault, since=0):
    return [r for r in t.server.requests(f"/{fault}/app/blobs/")[since:] if r["range"]]


def test_kill_and_continue(t):
    for number in (signal.SIGKILL, signal.SIGINT, signal.SIGTERM):
        here = Test(t.folder, t.server)
        since = len(here.server.requests("/slow/app/blobs/"))
        equal(end_with(start_until(here, "slow", 100_000), number), -number, "how it ended")
        check(here.listed("partial"), "control: a killed pull leaves something")
        check(not ranges(here, "slow", since), "control: nothing was to be continued before")
        here.pulls("slow")
        check(ranges(here, "slow", since), "it was continued")


def test_kill_and_pull_by_another_name(t):
    """Behind an index, from another repository: the layer is the same."""
    end_with(start_until(t, "slow", 100_000), signal.SIGKILL)
    since = len(t.server.requests("/index/app/blobs/"))
    result = t.run("pull", t.name("index"))
    t.good(result, Test.golden)
    check(ranges(t, "index", since), "it was continued")


def test_kill_and_pull_another_image(t):
    """That shares the layer; the claim of the killed pull stays, as that may be continued too."""
    end_with(start_until(t, "slow", 100_000), signal.SIGKILL)
    claims, since = t.listed("claims"), len(t.server.requests("/other/app/blobs/"))
    result = t.run("pull", t.name("other"))
    check(result.code == 0, f"failed: {result}")
    check(ranges(t, "other", since), "it was continued")
    equal(t.listed("claims"), claims, "claims")
    equal(t.listed("work"), [], "work")
    t.run("pull", t.name("slow"))
    equal(t.left(), [], "left behind")


def test_a_wrong_rest_of_a_killed_pull(t):
    first = t.pulls("ok")
    layer = first.last["blobs"][-1]["digest"]
    for junk in (b"junk" * 1000, b"x" * 5_000_000, b"x" * first.last["blobs"][-1]["size"]):
        t.remove_image(first)
        os.unlink(t.blob(layer))
        with open(t.path("partial", layer[7:]), "wb") as f:
            f.write(junk)
        t.pulls("ok")


def test_a_connection_lost(t):
    """Fails for now, and is continued by the next try."""
    result = t.run("pull", t.name("stall"))
    equal(result.error.get("kind"), "timeout", f"{result}")
    t.resumable()
    since = len(t.server.requests("/ok/app/blobs/"))
    t.pulls("ok")
    check(ranges(t, "ok", since), "it was continued")


def test_killed_at_any_point(t):
    """However often: what is there can be continued, and in the end nothing stray remains."""
    whole = Test(t.folder, t.server)
    began = time.monotonic()
    whole.pulls("ok")
    lasts = time.monotonic() - began
    dice = random.Random(4)
    killed = number = 0
    while killed < 15 and number < 150:
        number += 1
        process = t.start("pull", t.name("ok" if number % 3 else "slow"))
        try:
            process.wait(dice.uniform(0, lasts * (1 if number % 3 else 4)))
        except subprocess.TimeoutExpired:
            killed += 1
        end_with(process, signal.SIGKILL)
        for name in t.blobs():
            if name.endswith(".tmp"):  # has no name yet; the sweep removes it
                continue
            with open(t.path("blobs", "sha256", name), "rb") as f:
                equal(hashlib.sha256(f.read()).hexdigest(), name, f"blob after {number} pulls")
        check(len(t.listed("claims")) <= 1 and len(t.listed("partial")) <= 2 and
              len(t.listed("work")) <= 1, f"strays: {t.left()}")
        for name in os.listdir(t.images):
            if name.endswith(".sqfs"):
                os.unlink(t.path(name))
    equal(killed, 15, "control: pulls that were killed at work")
    t.pulls("ok")


# ---- what is here already ----

def test_another_image_with_the_same_layer(t):
    t.pulls("ok")
    since = len(t.server.requests("/other/app/blobs/"))
    result = t.run("pull", t.name("other"))
    check(result.code == 0 and not result.last["cached"], f"{result}")
    t.whole([result.last])
    shared, own = (faults.sha(d) for d in faults.Content("other").layers)
    equal(layers_asked(t.server, "other", since), [own], "what was fetched")
    done = {e["digest"]: e["done"] == e["size"] for e in result.lines if e.get("event") == "layer"}
    equal(done, {shared: True, own: True}, "the last event of each layer")


def test_two_names_of_one_digest(t):
    one = t.pulls("ok")
    since = len(t.server.requests("/slow/"))
    two = t.pulls("slow")
    equal((one.last["digest"], one.last["cached"], two.last["cached"]), (two.last["digest"], False, True),
          "digest and who made it")
    equal([one.last["ref"], two.last["ref"]], [t.name("ok"), t.name("slow")], "names")
    equal([r["method"] for r in t.server.requests("/slow/")[since:]], ["HEAD"], "requests")


def test_a_second_pull_asks_little(t):
    # Nested indexes that name no platform are tried one after the other; only the right one is kept.
    for fault, answer in (("ok", ["HEAD"]), ("index", ["HEAD"]), ("index-nested", ["HEAD", "GET"]),
                          ("head-refused", ["HEAD", "GET"]), ("head-unknown", ["HEAD", "GET"]),
                          ("head-silent", ["HEAD", "GET"]), ("head-lies", ["HEAD", "GET"])):
        here = Test(t.folder, t.server)
        first = here.pulls(fault)
        since = len(here.server.requests(f"/{fault}/"))
        again = here.pulls(fault)
        check(again.last["cached"], f"cached: {again}")
        equal([r["method"] for r in here.server.requests(f"/{fault}/")[since:]], answer, fault)
        equal(again.last["blobs"], first.last["blobs"], "blobs")


def test_a_second_pull_by_digest_asks_nothing(t):
    for fault in ("ok", "index"):
        here = Test(t.folder, t.server)
        here.pulls(fault)
        root = faults.sha(faults.Content(fault).root)
        here.env["https_proxy"] = here.env["http_proxy"] = "http://127.0.0.1:1"
        result = here.run("pull", f"example.invalid/{fault}/app@{root}")
        here.good(result, Test.golden)
        check(result.last["cached"], f"{result}")
        here.remove_image(result)
        result = here.run("pull", f"example.invalid/{fault}/app@{root}")
        here.good(result, Test.golden)
        check(not result.last["cached"], "made anew from what is here")


def flip(path, at):
    mode = os.stat(path).st_mode & 0o777
    os.chmod(path, 0o600)
    with open(path, "r+b") as f:
        f.seek(at)
        byte = f.read(1)
        f.seek(at)
        f.write(bytes([byte[0] ^ 0x40]))
    os.chmod(path, mode)


def test_damage_on_our_disk(t):
    """A blob that rotted is fetched anew, once, whether it was said to be on disk for sure or not."""
    t.pulls("ok")
    result = t.run("pull", t.name("ok"))
    content = faults.Content("ok")
    for kept, mode in (("layer", 0o400), ("layer", 0o600), ("plain", 0o400), ("plain", 0o600),
                       ("config", 0o400), ("manifest", 0o400), ("manifest", 0o600)):
        digest = {"layer": faults.sha(content.layers[0]), "plain": faults.sha(content.layers[1]),
                  "config": faults.sha(content.config()), "manifest": result.last["digest"]}[kept]
        for at in (0, os.path.getsize(t.blob(digest)) // 2):
            flip(t.blob(digest), at)
            os.chmod(t.blob(digest), mode)
            t.remove_image(result)
            since = len(t.server.requests("/ok/"))
            try:
                t.pulls("ok")
            except Failure as e:
                raise Failure(f"{kept} {mode:o} at {at}: {e}")
            asked = [r["path"].rsplit("/", 1)[1] for r in t.server.requests("/ok/")[since:]
                     if r["method"] == "GET"]
            equal(asked, ["1" if kept == "manifest" else digest], f"{kept} {mode:o}: what was asked for")


def test_damage_that_is_the_registrys(t):
    """Is told, not tried for ever, and what is kept here and right stays."""
    t.pulls("ok")
    since = len(t.server.requests("/wrong-diff-id/app/blobs/"))
    result = t.run("pull", t.name("wrong-diff-id"))
    equal(result.error.get("kind"), "corrupt", f"{result}")
    equal(layers_asked(t.server, "wrong-diff-id", since), [], "layers that were asked for")
    equal((t.left(), t.blobs()), ([], t.kept), "left behind")


def test_a_layer_that_is_missing(t):
    """Though the image is here: it is fetched, the image is not made again."""
    result = t.pulls("ok")
    os.unlink(t.blob(result.last["blobs"][-1]["digest"]))
    before = os.stat(t.path(result.last["digest"][7:] + ".sqfs"))
    t.pulls("ok")
    equal(os.stat(t.path(result.last["digest"][7:] + ".sqfs")).st_ino, before.st_ino, "the image's file")


# ---- several at once ----

def test_two_at_once(t):
    began = time.monotonic()
    before = len(t.server.requests("/slow/app/blobs/"))
    one, two = t.start("pull", t.name("slow")), t.start("pull", t.name("slow"))
    results = [t.end(one, began), t.end(two, began)]
    for result in results:
        t.good(result, Test.golden)
    equal(sorted(r.last["cached"] for r in results), [False, True], "who made it")
    check(any("waiting" in r.text for r in results), "the other says that it waits")
    asked = layers_asked(t.server, "slow", before)
    equal(sorted(asked.count(d) for d in set(asked)), [1, 1], "each layer once")


def test_two_that_share_a_layer(t):
    began = time.monotonic()
    before = [len(t.server.requests(f"/{f}/app/blobs/")) for f in ("slow", "slow-other")]
    one, two = t.start("pull", t.name("slow")), t.start("pull", t.name("slow-other"))
    results = [t.end(one, began), t.end(two, began)]
    for result in results:
        check(result.code == 0 and not result.last["cached"], f"{result}")
    t.whole([r.last for r in results])
    asked = layers_asked(t.server, "slow", before[0]) + layers_asked(t.server, "slow-other", before[1])
    equal((len(asked), len(set(asked))), (3, 3), "each layer is asked for once")
    check(any("waiting" in r.text and "fetches" in r.text for r in results), "one says that it waits")


def test_one_that_does_not_get_on(t):
    """Holds up nobody for ever: not one of another image that shares its layer, nor one of the same."""
    t.env["KOSA8_PULL_STALL_MS"] = "60000"
    stuck = t.start("pull", t.name("stall"))
    try:
        end = time.monotonic() + 10
        while sum(os.path.getsize(t.path("partial", n)) for n in t.listed("partial")) < 2_000_000:
            check(time.monotonic() < end and stuck.poll() is None, "the first pull does not get so far")
            time.sleep(0.02)
        t.env["KOSA8_PULL_WAIT_MS"] = "400"
        for fault in ("other", "ok"):
            result = t.run("pull", t.name(fault))
            check(result.code == 0, f"{fault}: {result}")
            check("waiting" in result.text, f"control: {fault} waited: {result}")
            check(result.seconds < 8, f"took too long: {result}")
            if fault == "ok":
                with open(t.path(result.last["digest"][7:] + ".sqfs"), "rb") as f:
                    equal(hashlib.sha256(f.read()).hexdigest(), Test.golden, "the image's bytes")
    finally:
        end_with(stuck, signal.SIGKILL)


def test_the_claim_is_held_until_the_reader_is_done(t):
    process = t.start("pull", "--hold", t.name("ok"))
    last = next(o for o in map(json.loads, process.stdout) if "ok" in o)
    check(last["ok"], f"{last}")
    name = last["digest"][7:]
    equal(t.listed("claims"), [name], "claims")
    equal(locked(t.path("claims", name)), True, "the claim is locked")
    with open(t.path("claims", name)) as f:
        equal({line for line in f.read().splitlines()}, {b["digest"] for b in last["blobs"]}, "claimed")
    equal(process.poll(), None, "it waits")
    process.stdout.close()
    equal(process.wait(10), 0, "exit code")
    process.stderr.close()
    t.whole([last])
    process = t.start("pull", "--hold", t.name("ok"))
    process.stdout.readline()
    equal(end_with(process, signal.SIGKILL), -9, "killed")
    equal((t.listed("claims"), locked(t.path("claims", name))), ([name], False), "after a kill")


def locked(path):
    with open(path, "r+b") as f:
        whole = struct.pack("hhqqi4x", fcntl.F_WRLCK, os.SEEK_SET, 0, 0, 0)
        answer = fcntl.fcntl(f, 36, whole)  # F_OFD_GETLK
        return struct.unpack("hhqqi4x", answer)[0] != fcntl.F_UNLCK


# ---- what must be refused ----

def test_bodies(t):
    t.refuses("short-body", "unavailable", "ended", "early", keeps=True)
    t.refuses("short-no-length", "unavailable", "ended after", keeps=True)
    t.refuses("long-body", "corrupt", "layer sha256:", "longer than")
    t.refuses("long-length", "corrupt", "layer sha256:", "longer than")
    t.refuses("wrong-bytes", "corrupt", "layer sha256:", "another digest")
    t.refuses("broken-gzip", "corrupt", "layer 1")
    t.refuses("broken-zstd", "corrupt", "layer 1")
    t.refuses("wrong-diff-id", "corrupt", "layer 2")
    t.refuses("stall", "timeout", "sent nothing for 1 second", keeps=True)
    t.refuses("drip", "timeout", "bytes in 1 second", seconds=20)
    t.refuses("drip-header", "timeout", "bytes in 1 second")
    t.refuses("stall-header", "timeout", "sent nothing for 1 second")


def test_redirects(t):
    t.refuses("redirect-loop", "protocol", "redirects more than")
    t.refuses("redirect-file", "protocol", "not http:// or https://")


def test_access(t):
    t.refuses("token-refused", "denied", "401", "kosa8 login")
    t.refuses("token-basic", "denied", "401", "kosa8 login")
    t.refuses("token-broken", "protocol", "not valid JSON")
    t.refuses("token-inject", "protocol", "no usable token")
    t.refuses("basic", "denied", "401", "kosa8 login")
    t.refuses("unauthorized", "denied", "401")
    t.refuses("forbidden", "denied", "403", "kosa8 login")
    t.refuses("rate-always", "unavailable", "429")
    t.refuses("rate-long", "unavailable", "429", "wait until 20", seconds=2)
    t.refuses("error-always", "unavailable", "500")
    t.refuses("error-html", "not_found", "404")
    t.fails("not_found", "/ok/app:2", "404", "tag", args=("pull", t.name("ok", ":2")))
    t.fails("not_found", "404", args=("pull", t.name("ok", "@sha256:" + "0" * 64)))
    t.fails("unavailable", "connect", args=("pull", "127.0.0.1:1/app"))
    t.fails("invalid", "lower case: app", args=("pull", "App"))


def test_manifests(t):
    t.refuses("index-deep", "limit", "nested")
    t.refuses("child-404", "not_found", "manifest sha256:", "404")
    t.refuses("child-wrong", "corrupt", "manifest sha256:", "another digest")
    t.refuses("arm-only", "incompatible", "linux/arm64, linux/s390x only", "linux/amd64")
    t.refuses("arm-config", "incompatible", "linux/arm64 only")
    t.refuses("helm", "unsupported", "vnd.cncf.helm.config")
    t.refuses("schema1", "unsupported", "schema 1")
    t.refuses("two-shapes", "protocol", "at once")
    t.refuses("foreign", "unsupported", "not distributed")
    t.refuses("huge-manifest", "limit", "larger than 4194304")
    t.refuses("huge-config", "limit", "configuration", "larger than")
    t.refuses("huge-layer", "no_space", "needs about 38", "is free")
    t.refuses("huge-env", "limit", "200000 bytes")
    t.refuses("not-json", "protocol", "not valid JSON")
    t.refuses("wrong-count", "corrupt", "1 layers", "2")


def test_other_platform(t):
    result = t.run("pull", "--platform", "linux/arm64", t.name("index"))
    t.good(result)
    equal(result.last["config"]["architecture"], "arm64", "architecture")


def test_a_layer_twice(t):
    t.good(t.run("pull", t.name("twice")))
    layers = [r["path"] for r in t.server.requests("/twice/app/blobs/")]
    equal(len(layers), 3, "the configuration and two layers")


# ---- TLS ----

def test_tls(t):
    pem = os.path.join(t.folder, "pem")
    subprocess.run(["openssl", "req", "-x509", "-newkey", "rsa:2048", "-nodes", "-days", "2", "-subj",
                    "/CN=test", "-addext", "subjectAltName=IP:127.0.0.1", "-keyout", pem + ".key",
                    "-out", pem + ".crt"], check=True, capture_output=True)
    with open(pem, "w") as f:
        f.write(open(pem + ".key").read() + open(pem + ".crt").read())
    server = Server(t.folder, "--certificate", pem)
    try:
        plain, t.server = t.server, server
        t.refuses("ok", "unavailable", "cannot be trusted", "certificate")
        t.env["SSL_CERT_FILE"] = pem + ".crt"
        t.refuses("redirect-plain", "protocol", "not encrypted")
        t.refuses("token", "protocol", "not encrypted")
        t.pulls("ok")
        t.server = plain
    finally:
        server.stop()


# ---- a full disk: inside a mount namespace of its own, on a small tmpfs ----

def in_tmpfs(t, size, name):
    flags = ["-m"] if os.geteuid() == 0 else ["-rm"]
    done = subprocess.run(
        ["unshare", *flags, "sh", "-c", 'mount -t tmpfs -o size="$1" none "$2" && shift 2 && exec "$@"',
         "sh", size, t.images, sys.executable, __file__, WORKER, "--fill", name, str(t.server.port),
         t.folder], capture_output=True, env=t.env, timeout=60)
    check(done.returncode == 0, f"{name} on {size}: {done.stdout.decode()} {done.stderr.decode()[-500:]}")


def fill(name, port, folder):
    class Here(Test):
        def __init__(self):
            self.server, self.folder, self.env = type("S", (), {"port": port}), folder, dict(os.environ)
            self.images, self.kept = os.path.join(folder, "images"), set()
    t = Here()
    if name == "before":
        t.fails("no_space", "needs about 13", "is free", "KOSA8_HOME", args=("pull", t.name("ok")))
        return
    if name == "control":
        t.good(t.run("pull", t.name("ok")))
        return
    process = t.start("pull", t.name("slow"), stdin=subprocess.DEVNULL)
    first = process.stdout.readline()
    with open(os.path.join(t.images, "filler.sqfs"), "wb", buffering=0) as f:
        try:
            while True:
                f.write(b"x" * 65536)
        except OSError:
            pass
    began = time.monotonic()
    out, err = process.communicate(timeout=30)
    result = Result(process.returncode, first + out, err, time.monotonic() - began)
    equal(result.error.get("kind"), "no_space", f"{result}")
    check("did not fit" in result.error["what"] and "layer sha256:" in result.error["what"], f"{result}")
    equal((t.left(), t.blobs()), ([], set()), "left behind")


def test_full_disk(t):
    in_tmpfs(t, "8m", "before")
    in_tmpfs(t, "16m", "control")
    in_tmpfs(t, "16m", "during")


# ---- archives ----

def docker_archive(content, tags=("example.com/app:1", "example.com/app:2"), layers=None, links=False):
    out = io.BytesIO()
    config = content.config()
    with tarfile.open(fileobj=out, mode="w") as tar:
        def add(name, data, **more):
            info = tarfile.TarInfo(name)
            info.size = len(data)
            for key, value in more.items():
                setattr(info, key, value)
            tar.addfile(info, io.BytesIO(data))
        names = []
        for i, data in enumerate(layers or content.tars):
            add(f"blob{i}.tar", data)
            if links:
                add(f"{i}/layer.tar", b"", type=tarfile.SYMTYPE, linkname=f"../blob{i}.tar")
            names.append(f"{i}/layer.tar" if links else f"blob{i}.tar")
        add(hashlib.sha256(config).hexdigest() + ".json", config)
        add("manifest.json", json.dumps([{"Config": hashlib.sha256(config).hexdigest() + ".json",
                                          "RepoTags": list(tags), "Layers": names}]).encode())
    return out.getvalue()


def oci_layout(folder, content, ref):
    os.makedirs(os.path.join(folder, "blobs", "sha256"))
    for data in [*content.blobs.values(), *content.manifests.values()]:
        with open(os.path.join(folder, "blobs", "sha256", faults.sha(data)[7:]), "wb") as f:
            f.write(data)
    kind = "index" if b'"manifests"' in content.root else "manifest"
    entry = content.entry(content.root, kind=kind,
                          annotations={"org.opencontainers.image.ref.name": ref})
    for name, value in (("oci-layout", {"imageLayoutVersion": "1.0.0"}),
                        ("index.json", {"schemaVersion": 2, "manifests": [entry]})):
        with open(os.path.join(folder, name), "w") as f:
            json.dump(value, f)


def loaded(t, result, refs):
    check(result.code == 0, f"failed: {result}")
    images = result.last["images"]
    equal([i["ref"] for i in images], refs, "names")
    t.whole(images)
    with open(os.path.join(t.images, images[0]["digest"][7:] + ".sqfs"), "rb") as f:
        equal(hashlib.sha256(f.read()).hexdigest(), Test.golden, "the image's bytes")
    return images[0]["digest"]


def test_load_docker_archive(t):
    data = docker_archive(faults.Content("ok"))
    refs = ["example.com/app:1", "example.com/app:2"]
    digest = loaded(t, t.run("load", "-", data=data), refs)
    path = os.path.join(t.folder, "a.tar.gz")
    with open(path, "wb") as f:
        f.write(gzip.compress(data, 1))
    result = t.run("load", path)
    equal(loaded(t, result, refs), digest, "digest")
    check(result.last["images"][0]["cached"], "cached")
    loaded(t, t.run("load", "-", data=docker_archive(faults.Content("ok"), (), links=True)), [None])


def test_load_two_images(t):
    """From one archive; and none of them when one is bad."""
    def both(second):
        out = io.BytesIO()
        with tarfile.open(fileobj=out, mode="w") as tar:
            items = []
            for data in (docker_archive(faults.Content("ok")), second):
                with tarfile.open(fileobj=io.BytesIO(data)) as one:
                    for info in one:
                        content = one.extractfile(info).read()
                        if info.name == "manifest.json":
                            items += json.loads(content)
                            continue
                        info.name = f"{len(items)}-{info.name}"
                        tar.addfile(info, io.BytesIO(content))
            for number, item in enumerate(items):
                item["Layers"] = [f"{number}-{name}" for name in item["Layers"]]
                item["Config"] = f"{number}-{item['Config']}"
            data = json.dumps(items).encode()
            info = tarfile.TarInfo("manifest.json")
            info.size = len(data)
            tar.addfile(info, io.BytesIO(data))
        path = os.path.join(t.folder, "both.tar")
        with open(path, "wb") as f:
            f.write(out.getvalue())
        return path
    other = faults.Content("ok")
    other.tars.reverse()
    bad = docker_archive(faults.Content("wrong-diff-id"), ["example.com/bad:1"])
    t.fails("corrupt", "layer 2", args=("load", both(bad)))
    loaded(t, t.run("load", both(docker_archive(other, ["example.com/other:1"]))),
           ["example.com/app:1", "example.com/app:2", "example.com/other:1"])


def test_load_oci(t):
    for fault in ("ok", "index"):
        here = Test(t.folder, t.server)
        content, folder = faults.Content(fault), os.path.join(here.folder, "layout")
        oci_layout(folder, content, "example.com/app:3")
        digest = loaded(here, here.run("load", folder), ["example.com/app:3"])
        if fault == "ok":
            equal(digest, faults.sha(content.root), "the manifest's own digest")
        path = os.path.join(here.folder, "oci.tar")
        subprocess.run(["tar", "-C", folder, "-cf", path, "."], check=True)
        loaded(here, here.run("load", path), ["example.com/app:3"])


def test_load_bad(t):
    def bad(data, kind, *needles):
        path = os.path.join(t.folder, "bad")
        with open(path, "wb") as f:
            f.write(data)
        t.fails(kind, *needles, args=("load", path))
    content = faults.Content("ok")
    good = docker_archive(content)
    bad(b"", "invalid", "not a tar archive")
    bad(b"junk" * 1000, "invalid", "not a tar archive")
    bad(gzip.compress(b"junk" * 1000), "invalid", "not a tar archive")
    bad(gzip.compress(good, 1)[:100_000], "corrupt")
    bad(good[:400_000], "corrupt")
    bad(content.tars[0], "invalid", "not a saved image")
    bad(docker_archive(content, layers=[content.tars[1], content.tars[0]]), "corrupt", "layer 1")
    t.fails("not_found", args=("load", "/nosuchfile"))
    folder = os.path.join(t.folder, "layout")
    oci_layout(folder, content, "x:1")
    blobs = os.path.join(folder, "blobs", "sha256")
    name = max(os.listdir(blobs), key=lambda n: os.path.getsize(os.path.join(blobs, n)))
    with open(os.path.join(blobs, name), "r+b") as f:
        f.write(b"x")
    t.fails("corrupt", name, args=("load", folder))
    os.unlink(os.path.join(blobs, name))
    t.fails("not_found", name, args=("load", folder))
    arm = os.path.join(t.folder, "arm")
    oci_layout(arm, faults.Content("arm-only"), "x:1")
    t.fails("incompatible", "linux/arm64", args=("load", arm))


def test_import(t):
    tar = faults.Content("ok").tars[0]
    config = json.dumps({"Cmd": ["/bin/true"], "Env": ["A=b"]})
    path = os.path.join(t.folder, "root.tar")
    with open(path, "wb") as f:
        f.write(tar)
    one = t.run("import", "--config", config, path)
    t.good(one)
    equal(one.last["config"]["config"]["Cmd"], ["/bin/true"], "Cmd")
    equal(one.last["config"]["rootfs"]["diff_ids"], [faults.sha(tar)], "diff_ids")
    equal(one.last["ref"], None, "name")
    two = t.run("import", "--config", config, "-", data=tar)
    t.good(two)
    check(two.last["cached"] and two.last["digest"] == one.last["digest"], f"the same: {two}")
    other = Test(t.folder, t.server)
    other.fails("invalid", "unknown member", "Entrypoint", args=("import", "--config", '{"cmd":[]}', path))
    other.fails("invalid", "not valid JSON", args=("import", "--config", "{", path))
    other.fails("invalid", "folder", "tar -C", args=("import", t.folder))
    other.fails("not_found", args=("import", "/nosuchfile"))


def test_usage(t):
    for args in ((), ("a", "b"), ("--nope", "a")):
        t.fails("usage", args=("pull", *args))
    t.fails("invalid", "OS/ARCHITECTURE", args=("pull", "--platform", "x", "a"))
    parsed = json.loads(subprocess.run([WORKER, "parse", "python:3.12-slim"], check=True,
                                       capture_output=True).stdout)
    equal(parsed, {"ok": True, "canonical": "docker.io/library/python:3.12-slim",
                   "registry": "docker.io", "repository": "library/python", "tag": "3.12-slim",
                   "digest": None}, "parse")


def main():
    if sys.argv[2:3] == ["--fill"]:
        return fill(sys.argv[3], sys.argv[4], sys.argv[5])
    wanted = sys.argv[2:]
    tests = [(n, f) for n, f in globals().items() if n.startswith("test_") and
             (not wanted or n[5:] in wanted or n == "test_ok")]
    failed = 0
    with tempfile.TemporaryDirectory(prefix="kosa8-image-test.") as folder:
        server = Server(folder)
        try:
            for number, (name, function) in enumerate(tests, 1):
                began, problem = time.monotonic(), None
                try:
                    function(Test(folder, server))
                except Failure as e:
                    problem = f"{e}\n{traceback.format_exc().splitlines()[-4]}"
                except Exception:
                    problem = traceback.format_exc()
                print(f"{'not ' if problem else ''}ok {number} - {name[5:].replace('_', ' ')} "
                      f"({time.monotonic() - began:.1f} s)", flush=True)
                for line in (problem or "").splitlines():
                    print("#", line)
                failed += problem is not None
        finally:
            server.stop()
    print(f"1..{len(tests)}")
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
