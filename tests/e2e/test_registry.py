# SPDX-License-Identifier: Apache-2.0
"""A registry that misbehaves (registry-faults.py): the pull gets through or says what is wrong, in
bounded time; never a corrupt image, never a leftover but what a next try continues."""
import gzip
import json
import os
import subprocess
import sys

from harness import check, equal, wait_for
from servers import ImageRegistry, Server, Worker

HOME = "own"
SANDBOX = True
HERE = os.path.dirname(os.path.abspath(__file__))

WORKS = ["ok", "no-length", "short-once", "range-ignored", "range-wrong", "range-refused", "redirect",
         "token", "token-expires", "rate-once", "error-twice", "index", "index-nested",
         "index-unnamed", "docker", "zstd", "head-refused", "head-unknown", "head-silent", "head-lies"]
# Each with words that the message has to hold; "a|b": one of them.
FAILS = {
    "short-body": ["short|early|incomplete|bytes"],
    "short-no-length": ["digest|short|early|incomplete|bytes"],
    "wrong-bytes": ["digest"],
    "broken-gzip": ["gzip|truncated|corrupt|layer|damaged"],
    "broken-zstd": ["zstd|truncated|corrupt|layer|damaged"],
    "wrong-diff-id": ["digest|diff|layer"],
    "long-body": ["size|bytes|longer|larger|digest"],
    "long-length": ["size|bytes|longer|larger|digest"],
    "redirect-loop": ["redirect"],
    "redirect-file": ["redirect|protocol|file:"],
    "unauthorized": ["401|unauthorized|credentials|log in|login"],
    "basic": ["401|credentials|password|log in|login"],
    "token-refused": ["401|token|credentials"],
    "token-broken": ["token"],
    "token-inject": ["token"],
    "forbidden": ["403|denied|forbidden"],
    "rate-always": ["429|too many|rate"],
    "rate-long": ["429|too many|rate", "try again after"],
    "error-always": ["500"],
    "error-html": ["no such|not found|404"],
    "child-404": ["not found|404|no such|missing"],
    "child-wrong": ["digest"],
    "arm-only": ["arm64"],
    "arm-config": ["arm64"],
    "helm": ["helm|not a container image|no container image|media type|chart"],
    "schema1": ["schema"],
    "index-deep": ["index|deep|nested"],
    "huge-manifest": ["manifest|large|big|limit|bytes|mb"],
    "huge-layer": ["layer|large|big|limit|gb|gib"],
    "not-json": ["manifest|json"],
    "wrong-count": ["layers|diff"],
    "two-shapes": ["manifest|layers"],
    "foreign": ["foreign|layer|distributed"],
}


def setup(t):
    t.faults = None
    t.log = os.path.join(t.folder, "requests")
    t.faults = subprocess.Popen([sys.executable, os.path.join(HERE, "registry-faults.py"), "--log",
                                 t.log], stdin=subprocess.PIPE, stdout=subprocess.PIPE)
    t.port = json.loads(t.faults.stdout.readline())["port"]
    t.digests = set()
    t.worker = Worker(t.folder)
    t.before = files(t)


def teardown(t):
    if t.faults:
        t.faults.stdin.close()
        t.faults.wait(10)
        t.faults.stdout.close()


def files(t):
    return [f for f in t.home.plain_files("images") if f != "lock"]


def image(t, fault):
    return f"127.0.0.1:{t.port}/{fault}/app:1"


def pull_afresh(t, fault):
    """Into a sandbox of its own, and nothing of it stays: they all are the same image, and what is
    there already is not fetched again."""
    box = t.create("afresh")
    result = t.home.any("sandbox", "pull", box, image(t, fault), timeout=40)
    t.remove(box)
    if result.code == 0:
        t.home("image", "rm", image(t, fault))
    return result


def works(fault):
    def test(t):
        result = pull_afresh(t, fault)
        equal(result.code, 0, f"{result}")
        t.digests.add(result.text)
        equal(files(t), t.before, "what is left in images")
    return test


def fails(fault, needles):
    def test(t):
        result = t.home.refused(1, args=["sandbox", "pull", t.box, image(t, fault)], timeout=60)
        said = result.errors.lower()
        for needle in needles:
            check(any(word in said for word in needle.split("|")), f"none of '{needle}': {result}")
        for name in set(files(t)) - set(t.before):
            check(name.startswith(("partial/", "claims/")), f"left after a refused pull: {name}")
            check(not name.startswith("partial/") or
                  os.path.getsize(os.path.join(t.home.path, "images", name)) >= 1 << 20,
                  "what is kept to be continued is worth it")
        t.home("image", "prune")
        equal(files(t), t.before, "images after a refused pull")
        listed = json.dumps(t.home.rows("image", "ls"))
        check(f"/{fault}/" not in listed, f"it is not listed: {listed}")
    return test


for name in WORKS:
    globals()["test_in_spite_of_" + name.replace("-", "_")] = works(name)
for name, words in FAILS.items():
    globals()["test_refused_" + name.replace("-", "_")] = fails(name, words)


def document(answer, kind, *needles):
    """Of a registry that gives this answer to all that is asked."""
    def test(t):
        server = Server(lambda request: (200, {}, b"{}") if request.path == "/v2/" else answer)
        try:
            result = t.worker.fails(server.name + "/a/b:1", kind, *needles)
            check(server.seen and len(server.seen) < 4, f"control: it was asked, once: {server.seen}")
            check("credentials" not in str(result["error"]), f"{result}")
        finally:
            server.stop()
    return test


LONG = "x" * 120_000
for name, arguments in {
        "an_empty_manifest": ((200, {}, b""), "protocol", "sent an empty manifest"),
        "a_long_header_line": ((200, {"X-Long": LONG}, b"{}"), "protocol", "header", "too large"),
        "a_long_header": ((200, {f"X-{i}": LONG[:9000] for i in range(60)}, b"{}"), "protocol",
                          "header", "too large"),
        "a_compressed_manifest": ((200, {"Content-Encoding": "GZip"}, gzip.compress(b"{}")), "protocol",
                                  "sent the manifest compressed (gzip)"),
        "a_challenge_that_cannot_be_read": ((401, {"WWW-Authenticate": 'Bearer realm="'}, b""),
                                            "protocol", "WWW-Authenticate header cannot be read"),
        "no_challenge": ((401, {}, b""), "denied", "does not say how to log in")}.items():
    globals()["test_refused_" + name] = document(*arguments)


def test_content_encoding_identity(t):
    """The control of the compressed one: what is sent as it is may say so."""
    class Identity(ImageRegistry):
        def answer(self, request):
            status, headers, body = super().answer(request)
            return status, {**headers, "Content-Encoding": "identity"}, body
    server = Identity()
    try:
        t.worker.pulls(server.name + "/a/b:1")
    finally:
        server.stop()


def test_what_arrived_is_what_was_sent(t):
    """Most are the same image, so the same digest, whatever happened on the way; Docker's media
    types and zstd make other manifests, and an index leads to the one of the platform."""
    check(all(d.startswith("sha256:") and len(d) == 72 for d in t.digests), f"{t.digests}")
    equal(len(t.digests), 3, f"digests: {t.digests}")


def test_authorization_never_reached_the_other_origin(t):
    with open(t.log) as f:
        seen = [json.loads(line) for line in f]
    stored = [r for r in seen if r["path"].startswith("/storage/")]
    check(stored, "control: layers were fetched from the other origin")
    equal([r for r in stored if r["authorization"]], [], "requests with Authorization")


def test_a_killed_pull_leaves_nothing_and_can_be_done_again(t):
    process = t.home.start("sandbox", "pull", t.box, image(t, "slow"))
    wait_for(lambda: any("/slow/" in line and "blobs" in line for line in open(t.log)),
             "the pull to be at its layers")
    process.kill()
    process.wait()
    process.stdout.close()
    process.stderr.close()
    equal(pull_afresh(t, "ok").code, 0, "the next pull")
    t.home("image", "prune")
    equal(files(t), t.before, "leftovers of the killed pull")
