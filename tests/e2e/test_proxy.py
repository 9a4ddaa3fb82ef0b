# SPDX-License-Identifier: Apache-2.0
"""Proxies of the environment, with a registry whose name only the proxy knows."""
import os

from harness import check, equal
from servers import BASIC, Authority, ImageRegistry, Proxy, Server, TokenRegistry, Worker, error

HOME = "own"
NAME = "registry.example.com"
USER_OF_PROXY = "proxyuser:password-of-the-proxy"


def setup(t):
    t.servers = []
    t.worker = Worker(t.folder)
    t.authority = Authority(t.folder)
    pem, _, _ = t.authority.issue("server", f"DNS:{NAME}")
    t.plain, t.tls = own(t, ImageRegistry()), own(t, ImageRegistry(pem=pem))
    t.names = {NAME: t.plain.port, f"{NAME}:80": t.plain.port, f"{NAME}:443": t.tls.port}
    t.worker.env["SSL_CERT_FILE"] = t.authority.path


def own(t, server):
    t.servers.append(server)
    return server


def teardown(t):
    for server in t.servers:
        server.stop()


def proxy(t, *args, **more):
    return own(t, Proxy(*args, **more))


def address(p, credentials=""):
    return f"http://{credentials + '@' if credentials else ''}127.0.0.1:{p.port}"


def quiet_about_the_proxy(result):
    """Its password gets into no log and no message."""
    check("password-of" not in str(result), f"the proxy's password is told: {result}")
    return result


def test_without_a_proxy_the_name_is_unknown(t):
    """The control of all that follows."""
    t.worker.fails(f"{NAME}/a/b:1", "unavailable", "resolve")


def test_plain_requests(t):
    for variable in ("http_proxy", "HTTP_PROXY"):
        p = proxy(t, t.names)
        t.worker.pulls(f"{NAME}/a/b:1", "--plain-http", env={variable: address(p)})
        check(p.seen and all(s["line"].startswith(f"GET http://{NAME}/v2/") for s in p.seen), f"{p.seen}")
    for value in (NAME, "*"):
        t.worker.fails(f"{NAME}/a/b:1", "unavailable", "resolve", flags=["--plain-http"],
                       env={"HTTP_PROXY": address(p), "NO_PROXY": value})
    t.worker.fails(f"{NAME}/a/b:1", "unavailable", "resolve", flags=["--plain-http"],
                   env={"HTTP_PROXY": address(p), "REQUEST_METHOD": "GET"})


def test_tunnels(t):
    for variable in ("https_proxy", "HTTPS_PROXY", "all_proxy"):
        p = proxy(t, t.names)
        t.worker.pulls(f"{NAME}/a/b:1", env={variable: address(p)})
        check(p.seen and all(s["line"].startswith(f"CONNECT {NAME}:443 ") for s in p.seen), f"{p.seen}")


def test_credentials_for_the_registry_do_not_reach_the_proxy(t):
    basic = own(t, ImageRegistry(pem=t.authority.issue("basic", f"DNS:{NAME}")[0], allowed=lambda r:
                r.headers.get("Authorization") == "Basic " + BASIC or
                error(401, **{"WWW-Authenticate": 'Basic realm="x"'})))
    p = proxy(t, {f"{NAME}:443": basic.port}, USER_OF_PROXY)
    t.worker.log_in(NAME)
    result = t.worker.pulls(f"{NAME}/a/b:1", env={"https_proxy": address(p, USER_OF_PROXY)})
    quiet_about_the_proxy(result)
    check(any(r["authorization"] for r in basic.seen), "control: the registry got them")
    check(not any(r["proxy"] for r in basic.seen), "the registry got the proxy's")
    headers = [h.lower() for s in p.seen for h in s["headers"]]
    check(any(h.startswith("proxy-authorization:") for h in headers), "control: the proxy got its own")
    check(not any(h.startswith("authorization:") for h in headers), f"the proxy got others: {headers}")


def test_credentials_in_the_address(t):
    p = proxy(t, t.names, USER_OF_PROXY)
    for image, flags, variable in ((f"{NAME}/a/b:1", (), "https_proxy"),
                                   (f"{NAME}/a/b:1", ("--plain-http",), "http_proxy")):
        good = t.worker.pulls(image, *flags, env={variable: address(p, USER_OF_PROXY)})
        quiet_about_the_proxy(good)
        for bad in ("", "proxyuser:other-password-of-the-proxy"):
            result = t.worker.fails(image, "denied", "407", "proxy", flags=flags,
                                    env={variable: address(p, bad)})
            quiet_about_the_proxy(result)
    check(not any(r["proxy"] for r in t.plain.seen + t.tls.seen), "they reached the registry")


def test_a_proxy_that_refuses(t):
    for status, kind in ((403, "denied"), (502, "unavailable")):
        p = proxy(t, t.names, refuse=status)
        t.worker.fails(f"{NAME}/a/b:1", kind, f"{NAME}:443", f"the proxy answers {status}",
                       env={"https_proxy": address(p)})


def test_a_proxy_that_is_not_there(t):
    for url in (f"http://{USER_OF_PROXY}@127.0.0.1:1", f"http://{USER_OF_PROXY}@nosuchhost.invalid:3128",
                f"nosuch://{USER_OF_PROXY}@127.0.0.1:1", f"http://{USER_OF_PROXY}@[bad:3128",
                f"http://{USER_OF_PROXY}@ho st:1"):
        quiet_about_the_proxy(t.worker.fails(f"{NAME}/a/b:1", "unavailable", NAME,
                                             env={"https_proxy": url}))


def test_it_is_named(t):
    """HOST:PORT and the variable that it came from, never its credentials."""
    for plain, variable in ((False, "https_proxy"), (False, "HTTPS_PROXY"), (False, "all_proxy"),
                            (False, "ALL_PROXY"), (True, "http_proxy"), (True, "HTTP_PROXY")):
        for address in ("127.0.0.1:1", "nosuchhost.invalid:3128"):
            result = t.worker.fails(f"{NAME}/a/b:1", "unavailable",
                                    f"the proxy {address} ({variable}) cannot be reached",
                                    f"check {variable} and", flags=["--plain-http"] if plain else [],
                                    env={variable: f"http://{USER_OF_PROXY}@{address}",
                                         "no_proxy": "other.example.com,ample.com"})
            quiet_about_the_proxy(result)
            check("proxyuser" not in str(result), f"{result}")
    t.worker.fails(f"{NAME}/a/b:1", "unavailable", "the proxy 127.0.0.1:1080 (https_proxy)",
                   env={"https_proxy": "127.0.0.1"})
    result = t.worker.fails(f"{NAME}/a/b:1", "unavailable", "no answer from", "resolve",
                            env={"https_proxy": "http://127.0.0.1:1", "no_proxy": f"x.org, .{NAME}"})
    check("proxy" not in str(result["error"]), f"control: where none was asked: {result}")


def test_no_proxy(t):
    p = proxy(t, t.names)
    for value in (NAME, "example.com", ".example.com", "*"):
        t.worker.fails(f"{NAME}/a/b:1", "unavailable", "resolve",
                       env={"https_proxy": address(p), "no_proxy": value})
    equal(p.seen, [], "what the proxy saw")
    t.worker.pulls(f"{NAME}/a/b:1", env={"https_proxy": address(p), "NO_PROXY": "other.example.com"})
    check(p.seen, "control: another name is no exception")


def test_loopback_is_never_proxied(t):
    p = proxy(t, {})
    env = {v: address(p) for v in ("http_proxy", "https_proxy", "all_proxy")}
    t.worker.pulls(t.plain.name + "/a/b:1", env=env)
    t.worker.pulls(f"localhost:{t.plain.port}/a/b:1", env=env)
    equal(p.seen, [], "what the proxy saw")


def test_a_redirect_changes_the_way(t):
    """From a name that is proxied to loopback, and back: each by its own rule."""
    def to_loopback(request):
        if "/blobs/" not in request.path:
            return True
        return 307, {"Location": f"http://{t.plain.name}{request.path}"}, b""
    moved = own(t, ImageRegistry(allowed=to_loopback))
    p = proxy(t, {NAME: moved.port})
    before = len(t.plain.seen)
    t.worker.pulls(f"{NAME}/a/b:1", "--plain-http", env={"http_proxy": address(p)})
    check(len(t.plain.seen) > before, "control: it was redirected")
    check(not any("127.0.0.1" in s["line"] for s in p.seen), f"loopback by the proxy: {p.seen}")


def test_a_token_server_behind_the_proxy(t):
    server = own(t, TokenRegistry())
    server.check = None
    tokens = server.tokens
    guarded = own(t, ImageRegistry(allowed=lambda r: r.headers.get("Authorization") or error(401, **{
        "WWW-Authenticate": 'Bearer realm="http://auth.example.com/token",service="the registry"'})
        if not r.headers.get("Authorization") else True))
    p = proxy(t, {NAME: guarded.port, "auth.example.com": tokens.port})
    t.worker.log_in(NAME)
    t.worker.pulls(f"{NAME}/a/b:1", "--plain-http", env={"http_proxy": address(p)})
    check(any("auth.example.com/token" in s["line"] for s in p.seen), f"{p.seen}")


def test_a_plain_server_as_the_proxy(t):
    """Something that answers, and is no proxy: an error, not a hang."""
    nothing = own(t, Server(lambda request: error(400)))
    t.worker.fails(f"{NAME}/a/b:1", "denied", "the proxy answers", env={"https_proxy": address(nothing)})
