# SPDX-License-Identifier: Apache-2.0
"""Mirrors of a registry, tried in their order, and Retry-After as a date."""
import email.utils
import time

from harness import check, equal
from servers import BASIC, ImageRegistry, Server, Worker, error

HOME = "own"
IMAGE = "registry.example.com/a/b:1"


def setup(t):
    t.servers = []
    t.worker = Worker(t.folder, KOSA8_PULL_STALL_MS="700", KOSA8_PULL_CONNECT_MS="2000")


def own(t, server):
    t.servers.append(server)
    return server


def teardown(t):
    for server in t.servers:
        server.stop()


def mirrors(*servers):
    return {"KOSA8_REGISTRY_MIRROR": ",".join(
        "registry.example.com=" + (s if isinstance(s, str) else f"http://{s.name}") for s in servers)}


def test_the_first_that_works(t):
    one, two = own(t, ImageRegistry()), own(t, ImageRegistry())
    t.worker.pulls(IMAGE, env=mirrors(one, two))
    check(one.seen and not two.seen, "the second was asked without need")


def test_the_next_one(t):
    answers = [error(404), error(429), error(429, **{"Retry-After": "3600"}), error(503), error(500),
               error(401), error(403), (401, {"WWW-Authenticate": 'Basic realm="x"'}, b"")]
    for answer in answers:
        bad, good = own(t, Server(lambda request: answer)), own(t, ImageRegistry())
        began = time.monotonic()
        result = t.worker.pulls(IMAGE, env=mirrors(bad, good))
        check(bad.seen and good.seen, f"{answer}: both were asked")
        check(any(good.name in n and bad.name in n for n in result["notices"]), f"{result['notices']}")
        check(time.monotonic() - began < 10, f"{answer}: it took long")


def test_the_next_one_when_there_is_no_answer(t):
    stalls = own(t, Server(lambda request: time.sleep(30)))
    good = own(t, ImageRegistry())
    for bad in ("http://127.0.0.1:1", "http://nosuchhost.invalid", f"http://{stalls.name}",
                f"https://{good.name}"):
        t.worker.pulls(IMAGE, env=mirrors(bad, good))


def test_in_the_middle_of_an_image(t):
    """What is named by its digest may come from any of them."""
    for kind in ("blobs", "manifests/sha256"):
        half = own(t, ImageRegistry(lambda r: "/blobs/" not in r.path or error(404)))
        good = own(t, ImageRegistry())
        t.worker.pulls(IMAGE, env=mirrors(half, good))
        check(any("/manifests/1" in r["path"] for r in half.seen), "control: the first gave the manifest")
        check(all("/blobs/" in r["path"] for r in good.seen) and good.seen, f"{good.seen}")


def test_all_are_named_when_none_has_it(t):
    one, two = own(t, Server(lambda r: error(404))), own(t, Server(lambda r: error(503)))
    result = t.worker.fails(IMAGE, "unavailable", f"{one.name} (404)", f"{two.name} (503)",
                            "127.0.0.1:1 (no answer)", IMAGE, "KOSA8_REGISTRY_MIRROR",
                            env=mirrors(one, "http://127.0.0.1:1", two))
    check("\n" not in result["error"]["what"], "one line")
    check(len(two.seen) == 3, f"the last one is tried as a registry is: {len(two.seen)}")
    t.worker.fails(IMAGE, "not_found", one.name, env=mirrors(one))


def test_the_registry_is_not_asked(t):
    """Else the names of a closed network would leave it."""
    good = own(t, ImageRegistry())
    local = good.name
    bad = own(t, Server(lambda r: error(404)))
    only = {"KOSA8_REGISTRY_MIRROR": f"{local}=http://{bad.name}"}
    t.worker.fails(f"{local}/a/b:1", "not_found", bad.name, env=only)
    equal(good.seen, [], "what the registry saw")
    named = {"KOSA8_REGISTRY_MIRROR": f"{local}=http://{bad.name},{local}=http://{local}"}
    t.worker.pulls(f"{local}/a/b:1", env=named)
    check(good.seen, "control: it is asked when it is named")


def test_credentials_are_for_their_host(t):
    def guarded(request):
        return request.headers.get("Authorization") == "Basic " + BASIC or \
            error(401, **{"WWW-Authenticate": 'Basic realm="x"'})
    mirror = own(t, ImageRegistry(guarded))
    t.worker.log_in("registry.example.com")
    t.worker.fails(IMAGE, "denied", "401", "kosa8 login " + mirror.name, env=mirrors(mirror))
    equal([r["authorization"] for r in mirror.seen], [None] * len(mirror.seen), "what the mirror got")
    t.worker.log_in(mirror.name)
    t.worker.pulls(IMAGE, env=mirrors(mirror))
    # And the registry, named as its own last mirror, gets its own.
    local = own(t, ImageRegistry(guarded))
    nothing = own(t, Server(lambda r: error(401, **{"WWW-Authenticate": 'Basic realm="x"'})))
    t.worker.log_in(local.name)
    t.worker.pulls(f"{local.name}/a/b:1", env={
        "KOSA8_REGISTRY_MIRROR": f"{local.name}=http://{nothing.name},{local.name}=http://{local.name}"})
    check(nothing.seen and not any(r["authorization"] for r in nothing.seen), f"{nothing.seen}")


def test_what_is_no_mirror(t):
    t.worker.fails(IMAGE, "invalid", "KOSA8_REGISTRY_MIRROR", env=mirrors("ftp://a.example.com"))
    t.worker.fails(IMAGE, "invalid", "KOSA8_REGISTRY_MIRROR",
                   env=mirrors("http://user:password@a.example.com"))
    t.worker.fails(IMAGE, "limit", "more than 8", env=mirrors(*["http://127.0.0.1:1"] * 9))
    good = own(t, ImageRegistry(lambda r: r.path.startswith("/prefix/") or error(404)))
    t.worker.pulls(IMAGE, env=mirrors(f"http://{good.name}/prefix/"))


def test_a_list_that_cannot_be_read(t):
    """The registry that was to be spared is not asked."""
    good = own(t, ImageRegistry())
    host = good.name
    for entry in (host, f"{host} http://127.0.0.1:1", "=x", f"={host}", f"{host}=", f"{host}= ",
                  f"{host}==http://127.0.0.1:1", "noregistry=http://127.0.0.1:1",
                  "other.example.com=x", f"{host}=http://a b"):
        for value in (entry, f"other.example.com=http://127.0.0.1:1,{entry}", f"{entry},"):
            t.worker.fails(f"{host}/a/b:1", "invalid", f'KOSA8_REGISTRY_MIRROR: "{entry.strip()}"',
                           "mirror.example.com", env={"KOSA8_REGISTRY_MIRROR": value})
    equal(good.seen, [], "what the registry saw")
    result = t.worker.fails(IMAGE, "invalid", 'KOSA8_REGISTRY_MIRROR: "registry.example.com=..."',
                            env=mirrors("http://user:s3cret-that-nobody-may-see@a.example.com"))
    check("user" not in str(result["error"]), f"{result}")
    for value in ("", ",", "other.example.com=http://127.0.0.1:1", " ,"):
        t.worker.pulls(f"{host}/a/b:1", env={"KOSA8_REGISTRY_MIRROR": value})
    check(good.seen, "control: without a mirror the registry is asked")


def test_the_registry_is_named_as_in_a_reference(t):
    good = own(t, ImageRegistry())
    for image, name in ((IMAGE, "Registry.Example.COM"), (IMAGE.replace("reg", "Reg"), IMAGE.split("/")[0]),
                        ("docker.io/a/b:1", "index.docker.io"), ("a/b:1", "Registry-1.Docker.IO")):
        before = len(good.seen)
        t.worker.pulls(image, env={"KOSA8_REGISTRY_MIRROR": f" {name}=http://{good.name} "})
        check(len(good.seen) > before, f"{name}: the mirror was asked")


def test_a_damaged_answer_is_no_reason_to_go_on(t):
    bad, good = own(t, Server(lambda r: (200, {}, b"{}"))), own(t, ImageRegistry())
    t.worker.fails(IMAGE, "protocol", env=mirrors(bad, good))
    equal(good.seen, [], "what the second saw")


# ---- Retry-After ----

def dated(t, seconds):
    """429 once, with the date at which to come again."""
    times = []

    def allowed(request):
        if request.path == "/v2/":  # the question whether it speaks TLS
            return True
        times.append(time.time())
        if len(times) > 1:
            return True
        return error(429, **{"Retry-After": email.utils.formatdate(times[0] + seconds, usegmt=True)})
    return own(t, ImageRegistry(allowed)), times


def test_retry_after_a_date(t):
    server, times = dated(t, 3)
    t.worker.pulls(server.name + "/a/b:1")
    waited = times[1] - times[0]
    check(1.5 < waited < 6, f"waited {waited:.1f} s")


def test_retry_after_a_far_date(t):
    server, times = dated(t, 7200)
    began = time.monotonic()
    t.worker.fails(server.name + "/a/b:1", "unavailable", "429", "try again after")
    equal(len(times), 1, "requests")
    check(time.monotonic() - began < 5, "it does not wait")


def test_retry_after_a_past_date(t):
    server, times = dated(t, -7200)
    t.worker.pulls(server.name + "/a/b:1")
    check(times[1] - times[0] < 2, "it waited for the past")
