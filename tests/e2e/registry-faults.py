#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""A registry that misbehaves on request, for what a real one does not do.

    registry-faults.py [--certificate PEM] [--log FILE]

Listens on two ports of 127.0.0.1 that the kernel chooses and prints them as one line of JSON:
{"port": N, "other": N}. `other` is a second origin: the token server and the storage that redirects
lead to. Ends when its stdin does. Every request is one JSON line in FILE: method, port, path, range,
whether it carried an Authorization header and of which scheme (never its value).

The first component of a repository's name is the fault, so tests can share one server:
127.0.0.1:N/short-body/app:1. FAULTS below lists them. With --certificate the first port speaks TLS.

The image behind every name is the same: two layers, a gzip and a plain tar, of PAYLOAD bytes that do
not compress, and a configuration for linux/amd64.
"""
import argparse
import base64
import gzip
import hashlib
import http.server
import io
import json
import os
import random
import ssl
import sys
import tarfile
import threading
import time
import urllib.parse

PAYLOAD = 3_000_000
TOKEN = "a-token-that-nobody-may-see"
USER = "alice:secret-of-alice"
OCI = "application/vnd.oci.image."
DOCKER = "application/vnd.docker.distribution.manifest."

FAULTS = {
    "ok": "no fault",
    "no-length": "bodies without Content-Length",
    "short-body": "a layer's body ends early, every time, whatever the range",
    "short-once": "a layer's body ends early the first time; ranges work",
    "short-no-length": "a layer's body without Content-Length ends early, every time",
    "range-ignored": "as short-once, but a range is answered with 200 and the whole",
    "range-wrong": "as short-once, but a range is answered with 206 and another range",
    "range-refused": "as short-once, but a range is answered with 416",
    "stall": "a layer's body stops half way, the connection stays open",
    "stall-header": "no answer at all to a layer's request",
    "slow": "a layer at 1 MB a second",
    "drip": "a layer's body goes on with one byte every 100 ms",
    "drip-header": "the header of a layer's answer does",
    "head-refused": "HEAD is answered with 405",
    "head-unknown": "HEAD is answered with 501",
    "head-silent": "HEAD does not tell the digest",
    "head-lies": "HEAD tells another digest",
    "other": "another image, whose lower layer is the same",
    "slow-other": "the same at 1 MB a second",
    "long-body": "a layer is longer than its descriptor says, without Content-Length",
    "long-length": "a layer's Content-Length is more than its descriptor says",
    "wrong-bytes": "a layer of the right size and the wrong bytes",
    "broken-gzip": "a layer with the right digest, whose gzip stream is cut",
    "zstd": "a layer that is compressed with zstd",
    "broken-zstd": "the same, cut, with the right digest",
    "empty-plain": "a third layer of no bytes",
    "empty-gzip": "a third layer that is gzip of no bytes",
    "empty-zstd": "a third layer that is zstd of no bytes",
    "no-layers": "an image without layers",
    "null-layers": "the same with null for layers, and without diff_ids",
    "empty-wrong": "a layer of no bytes whose digest is that of others",
    "wrong-diff-id": "a layer that is not the one of the configuration",
    "redirect": "token needed; layers redirect (307) to the other origin, which refuses Authorization",
    "redirect-loop": "layers redirect to themselves",
    "redirect-file": "layers redirect to file:///etc/passwd",
    "redirect-plain": "layers redirect to http:// (with --certificate: a downgrade)",
    "token": "Bearer token from the other origin",
    "token-basic": "the same, but the token server wants credentials",
    "token-refused": "the token server answers 401",
    "token-expires": "the token is refused once for each layer",
    "token-broken": "the token server's answer is no JSON",
    "token-inject": "the token holds a line break",
    "basic": "Basic credentials wanted by the registry itself",
    "unauthorized": "401 without a challenge",
    "forbidden": "403",
    "rate-once": "429 with Retry-After: 1, once",
    "rate-long": "429 with Retry-After: 3600",
    "rate-always": "429 without Retry-After",
    "error-twice": "503 for the first two requests of each resource",
    "error-always": "500",
    "error-html": "404 with a page of HTML",
    "index": "an index: attestation (unknown/unknown), arm64, amd64",
    "index-nested": "an index in an index in an index",
    "index-deep": "indexes without end",
    "index-unnamed": "an index whose only entry names no platform",
    "child-404": "an index whose amd64 manifest is missing",
    "child-wrong": "an index whose amd64 manifest has another digest",
    "docker": "Docker media types",
    "twice": "a manifest that has one layer twice",
    "arm-only": "an index with linux/arm64 and linux/s390x only",
    "arm-config": "a single manifest whose configuration says arm64",
    "helm": "a Helm chart",
    "schema1": "a schema 1 manifest",
    "two-shapes": "a manifest with layers and manifests",
    "foreign": "a layer that is not distributed",
    "huge-manifest": "a manifest of 5 MiB",
    "huge-config": "a descriptor of a configuration of 9 MiB",
    "huge-layer": "descriptors of layers of 60 GiB",
    "huge-env": "a configuration with 210 kB of environment",
    "not-json": "a manifest that is no JSON",
    "wrong-count": "a configuration with one diff_id too few",
}


def sha(data):
    return "sha256:" + hashlib.sha256(data).hexdigest()


def descriptor(media_type, data, **more):
    return {"mediaType": media_type, "digest": sha(data), "size": len(data), **more}


def layer_tar(name, data):
    out = io.BytesIO()
    with tarfile.open(fileobj=out, mode="w", format=tarfile.PAX_FORMAT) as tar:
        for path, content in (("etc/layer-" + name, name.encode()), ("data/" + name, data)):
            info = tarfile.TarInfo(path)
            info.size = len(content)
            info.mode = 0o644
            tar.addfile(info, io.BytesIO(content))
    return out.getvalue()


def zstd_frame(data):
    """Blocks that are not compressed (RFC 8878), as Python has no zstd: a window of 128 KiB, no
    size, no checksum."""
    out = [b"\x28\xb5\x2f\xfd\x00\x38"]
    for at in range(0, len(data) or 1, 1 << 17):
        block = data[at : at + (1 << 17)]
        last = at + (1 << 17) >= len(data)
        out += [(len(block) << 3 | last).to_bytes(3, "little"), block]
    return b"".join(out)


class Content:
    """Blobs and manifests of one fault's repository."""

    def __init__(self, fault):
        self.fault = fault
        self.blobs = {}
        self.manifests = {}
        noise = random.Random(8).randbytes(PAYLOAD)
        self.tars = [layer_tar("one", noise), layer_tar("two", noise[: PAYLOAD // 2])]
        if fault in ("other", "slow-other"):
            self.tars[1] = layer_tar("three", noise[1000 : PAYLOAD // 2])
        self.layers = [gzip.compress(self.tars[0], 1, mtime=0), self.tars[1]]
        self.types = [OCI + "layer.v1.tar+gzip", OCI + "layer.v1.tar"]
        if "zstd" in fault:
            self.layers[0] = zstd_frame(self.tars[0])
            self.types[0] = OCI + "layer.v1.tar+zstd"
        if fault.startswith("broken-"):
            self.layers[0] = self.layers[0][: len(self.layers[0]) // 2]
        if fault == "foreign":
            self.types[0] = "application/vnd.docker.image.rootfs.foreign.diff.tar.gzip"
        if fault == "docker":
            self.types = ["application/vnd.docker.image.rootfs.diff.tar" + x for x in (".gzip", "")]
        if fault.startswith("empty-"):
            kind = fault.split("-")[1]
            self.tars.append(b"")
            self.layers.append({"gzip": gzip.compress(b"", 9, mtime=0), "zstd": zstd_frame(b"")}.get(kind, b""))
            self.types.append(OCI + "layer.v1.tar" + ("+" + kind if kind in ("gzip", "zstd") else ""))
        if fault.endswith("-layers"):
            self.tars, self.layers, self.types = [], [], []
        self.root = getattr(self, "make_" + fault.replace("-", "_"), self.image)()

    def blob(self, data):
        self.blobs[sha(data)] = data
        return data

    def manifest(self, value):
        data = value if isinstance(value, bytes) else json.dumps(value).encode()
        self.manifests[sha(data)] = data
        return data

    def config(self, arch="amd64"):
        diff_ids = [sha(tar) for tar in self.tars]
        if self.fault == "twice":
            diff_ids.append(diff_ids[0])
        if self.fault == "wrong-diff-id":
            diff_ids[1] = "sha256:" + "1" * 64
        if self.fault == "wrong-count":
            diff_ids.pop()
        env = ["PATH=/bin"] + (["X=" + "x" * 210_000] if self.fault == "huge-env" else [])
        return self.blob(json.dumps({
            "architecture": arch, "os": "linux", "created": "2024-01-01T00:00:00Z",
            "config": {"Env": env, "Cmd": ["/bin/true"], "WorkingDir": "srv"},
            "rootfs": {"type": "layers", **({} if self.fault == "null-layers" else {"diff_ids": diff_ids})}
        }).encode())

    def image(self, arch="amd64", **more):
        docker = self.fault == "docker"
        config = descriptor("application/vnd.docker.container.image.v1+json" if docker
                            else OCI + "config.v1+json", self.config(arch))
        layers = [descriptor(t, self.blob(d)) for t, d in zip(self.types, self.layers)]
        if self.fault == "twice":
            layers.append(layers[0])
        if self.fault == "empty-wrong":
            layers[2]["digest"] = sha(self.blob(b"x"))
            self.blobs[layers[2]["digest"]] = b""
        if self.fault == "huge-config":
            config["size"] = 9 << 20
        if self.fault == "huge-layer":
            for d in layers:
                d["size"] = 60 << 30
        return self.manifest({"schemaVersion": 2,
                              "mediaType": DOCKER + "v2+json" if docker else OCI + "manifest.v1+json",
                              "config": config,
                              "layers": None if self.fault == "null-layers" else layers, **more})

    def entry(self, data, arch=None, os_name="linux", kind="manifest", **more):
        d = descriptor(OCI + kind + ".v1+json", data, **more)
        if arch:
            d["platform"] = {"os": os_name, "architecture": arch}
        return d

    def index(self, entries):
        return self.manifest({"schemaVersion": 2, "mediaType": OCI + "index.v1+json",
                              "manifests": entries})

    def attestation(self):
        data = self.manifest({"schemaVersion": 2, "config": {}, "layers": []})
        return self.entry(data, "unknown", "unknown", annotations={
            "vnd.docker.reference.type": "attestation-manifest"})

    def make_index(self):
        return self.index([self.attestation(), self.entry(self.image("arm64"), "arm64"),
                           self.entry(self.image(), "amd64")])

    def make_index_nested(self):
        inner = self.index([self.attestation(), self.entry(self.image(), "amd64")])
        arm = self.index([self.entry(self.image("arm64"), "arm64")])
        middle = self.index([self.entry(arm, kind="index"), self.entry(inner, kind="index")])
        return self.index([self.entry(middle, kind="index")])

    def make_index_deep(self):
        data = self.image()
        data = self.index([self.entry(data, "amd64")])
        for _ in range(8):
            data = self.index([self.entry(data, kind="index")])
        return data

    def make_index_unnamed(self):
        return self.index([self.entry(self.image())])

    def make_child_404(self):
        child = self.image()
        del self.manifests[sha(child)]
        return self.index([self.entry(child, "amd64")])

    def make_child_wrong(self):
        child = self.image()
        self.manifests[sha(child)] = child.replace(b"sha256:", b"sha256;", 1)
        return self.index([self.entry(child, "amd64")])

    def make_arm_only(self):
        return self.index([self.attestation(), self.entry(self.image("arm64"), "arm64"),
                           self.entry(self.image("s390x"), "s390x")])

    def make_arm_config(self):
        return self.image("arm64")

    def make_helm(self):
        chart = self.blob(b"chart")
        return self.manifest({
            "schemaVersion": 2, "mediaType": OCI + "manifest.v1+json",
            "config": descriptor("application/vnd.cncf.helm.config.v1+json", self.blob(b"{}")),
            "layers": [descriptor("application/vnd.cncf.helm.chart.content.v1.tar+gzip", chart)]})

    def make_schema1(self):
        return self.manifest({"schemaVersion": 1, "name": "app", "tag": "1", "architecture": "amd64",
                              "fsLayers": [], "history": []})

    def make_two_shapes(self):
        return self.image(manifests=[])

    def make_huge_manifest(self):
        return self.image(annotations={"x": "x" * (5 << 20)})

    def make_not_json(self):
        return self.manifest(b"<html>not a manifest</html>")


class State:
    def __init__(self, log):
        self.lock = threading.Lock()
        self.contents = {}
        self.counts = {}
        self.log = open(log, "a", buffering=1) if log else None
        self.port = self.other = 0
        self.tls = False

    def content(self, fault):
        with self.lock:
            if fault not in self.contents:
                self.contents[fault] = Content(fault)
            return self.contents[fault]

    def count(self, key):
        """How often this was asked before."""
        with self.lock:
            n = self.counts.get(key, 0)
            self.counts[key] = n + 1
            return n


class Handler(http.server.BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    state = None

    def log_message(self, *_):
        pass

    def note(self):
        if self.state.log:
            auth = self.headers.get("Authorization")
            self.state.log.write(json.dumps({
                "method": self.command, "port": self.server.server_port, "path": self.path, "range": self.headers.get("Range"),
                "authorization": auth.split(" ")[0] if auth else None}) + "\n")

    def answer(self, status, body=b"", content_type="application/json", length=True, **headers):
        self.send_response(status)
        self.send_header("Content-Type", content_type)
        for name, value in headers.items():
            self.send_header(name.replace("_", "-"), value)
        if length is True:
            self.send_header("Content-Length", str(len(body)))
        elif length is not None and length is not False:
            self.send_header("Content-Length", str(length))
        if length is not True:
            self.send_header("Connection", "close")
            self.close_connection = True
        self.end_headers()
        try:
            if self.command != "HEAD":
                self.wfile.write(body)
            self.wfile.flush()
        except OSError:
            self.close_connection = True

    def fail(self, status, code="FAULT", **headers):
        self.answer(status, json.dumps({"errors": [{"code": code, "message": "as was asked"}]}).encode(),
                    **headers)

    def wait_for_client(self):
        """Sends nothing until the client is gone."""
        self.wfile.flush()
        try:
            self.connection.recv(1)
        except OSError:
            pass
        self.close_connection = True

    def do_HEAD(self):
        self.do_GET()

    def do_GET(self):
        self.note()
        try:
            if self.server.server_port == self.state.other:
                self.other()
            elif self.path == "/v2/":
                self.answer(200, b"{}")
            else:
                self.registry()
        except (BrokenPipeError, ConnectionResetError):
            self.close_connection = True

    # ---- the other origin ----

    def other(self):
        url = urllib.parse.urlsplit(self.path)
        query = urllib.parse.parse_qs(url.query)
        auth = self.headers.get("Authorization")
        if url.path.startswith("/storage/"):
            _, _, fault, digest = url.path.split("/")
            if auth:
                return self.fail(400, "AUTHORIZATION_SENT")
            return self.answer(200, self.state.content(fault).blobs[digest])
        fault = url.path.rsplit("/", 1)[-1]
        if query.get("scope") != [f"repository:{fault}/app:pull"] or query.get("service") != ["the registry"]:
            return self.fail(400, "WRONG_QUERY")
        if fault == "token-refused":
            return self.fail(401)
        if fault == "token-basic" and auth != "Basic " + base64.b64encode(USER.encode()).decode():
            return self.fail(401)
        if fault == "token-broken":
            return self.answer(200, b"no token here")
        token = TOKEN + "\r\nX: y" if fault == "token-inject" else TOKEN
        return self.answer(200, json.dumps({"token": token}).encode())

    # ---- the registry ----

    def registry(self):
        parts = self.path.split("/")
        if len(parts) != 6 or parts[1] != "v2" or parts[3] != "app" or parts[2] not in FAULTS:
            return self.fail(404, "NAME_UNKNOWN")
        _, _, fault, _, kind, name = parts
        if not self.authorized(fault, kind, name):
            return None
        if fault == "forbidden":
            return self.fail(403, "DENIED")
        if fault == "rate-once" and self.state.count(("rate", name)) == 0:
            return self.answer(429, b"slow down", "text/plain", Retry_After="1")
        if fault == "rate-long":
            return self.answer(429, b"slow down", "text/plain", Retry_After="3600")
        if fault == "rate-always":
            return self.fail(429, "TOOMANYREQUESTS")
        if fault == "error-twice" and self.state.count(("error", name)) < 2:
            return self.fail(503)
        if fault == "error-always":
            return self.fail(500)
        if fault == "error-html":
            return self.answer(404, b"<html>" + b"x" * 100_000, "text/html")
        content = self.state.content(fault)
        if kind == "manifests":
            return self.serve_manifest(content, name)
        if name not in content.blobs:
            return self.fail(404, "BLOB_UNKNOWN")
        data = content.blobs[name]
        if len(data) < 10_000:
            return self.answer(200, data, length=fault != "no-length")
        serve = getattr(self, "blob_" + fault.replace("-", "_"), self.blob_plain)
        return serve(content, name, data)

    def authorized(self, fault, kind, name):
        auth = self.headers.get("Authorization")
        if fault == "basic":
            if auth == "Basic " + base64.b64encode(USER.encode()).decode():
                return True
            self.fail(401, WWW_Authenticate='Basic realm="the registry"')
            return False
        if fault == "unauthorized":
            self.fail(401, "UNAUTHORIZED")
            return False
        if not fault.startswith("token") and fault != "redirect":
            return True
        wanted = "Bearer " + TOKEN
        fresh = not (fault == "token-expires" and kind == "blobs" and
                     self.state.count(("expired", name)) == 0)
        if auth == wanted and fresh:
            return True
        realm = f"http://127.0.0.1:{self.state.other}/token/{fault}"
        self.fail(401, "UNAUTHORIZED", WWW_Authenticate=f'Negotiate abc==, Bearer realm="{realm}",'
                  f'service="the registry",scope="repository:{fault}/app:pull"')
        return False

    def serve_manifest(self, content, name):
        data = content.manifests.get(name) if name.startswith("sha256:") else content.root
        if data is None or name not in ("1", name if name.startswith("sha256:") else ""):
            return self.fail(404, "MANIFEST_UNKNOWN")
        try:
            media_type = json.loads(data).get("mediaType", "application/json")
        except ValueError:
            media_type = "application/json"
        if content.fault in ("head-refused", "head-unknown") and self.command == "HEAD":
            return self.fail(405 if content.fault == "head-refused" else 501, "UNSUPPORTED")
        named = {} if content.fault == "head-silent" else {"Docker_Content_Digest": sha(
            b"another" if content.fault == "head-lies" else data)}
        return self.answer(200, data, media_type, length=content.fault != "no-length", **named)

    # ---- layers: blob_FAULT ----

    def range_start(self):
        value = self.headers.get("Range") or ""
        return int(value[6:-1]) if value.startswith("bytes=") and value.endswith("-") else 0

    def blob_plain(self, content, name, data):
        start = self.range_start()
        if start == 0:
            return self.answer(200, data)
        if start >= len(data):
            return self.fail(416)
        return self.answer(206, data[start:],
                           Content_Range=f"bytes {start}-{len(data) - 1}/{len(data)}")

    def cut(self, data):
        return self.answer(200, data[: len(data) // 2], length=len(data))

    def first_is_cut(self, name, data):
        if self.state.count(("cut", self.path)) > 0:
            return False
        self.cut(data)
        return True

    def blob_no_length(self, content, name, data):
        self.answer(200, data, length=False)

    def blob_short_body(self, content, name, data):
        start = self.range_start()
        if start == 0:
            return self.cut(data)
        return self.answer(206, b"", length=len(data) - start,
                           Content_Range=f"bytes {start}-{len(data) - 1}/{len(data)}")

    def blob_short_no_length(self, content, name, data):
        self.answer(200, data[: len(data) // 2], length=False)

    def blob_short_once(self, content, name, data):
        if not self.first_is_cut(name, data):
            self.blob_plain(content, name, data)

    def blob_range_ignored(self, content, name, data):
        if not self.first_is_cut(name, data):
            self.answer(200, data)

    def blob_range_wrong(self, content, name, data):
        if self.first_is_cut(name, data):
            return None
        if self.range_start() == 0:
            return self.answer(200, data)
        return self.answer(206, data[100:], Content_Range=f"bytes 100-{len(data) - 1}/{len(data)}")

    def blob_range_refused(self, content, name, data):
        if self.first_is_cut(name, data):
            return None
        if self.range_start() == 0:
            return self.answer(200, data)
        return self.fail(416)

    def blob_stall(self, content, name, data):
        self.send_response(200)
        self.send_header("Content-Length", str(len(data)))
        self.end_headers()
        self.wfile.write(data[: len(data) // 2])
        self.wait_for_client()

    def blob_drip(self, content, name, data):
        self.send_response(200)
        self.send_header("Content-Length", str(len(data)))
        self.end_headers()
        for byte in data:
            self.wfile.write(bytes([byte]))
            time.sleep(0.1)

    def blob_drip_header(self, content, name, data):
        self.wfile.write(b"HTTP/1.1 200 OK\r\n")
        while True:
            self.wfile.write(b"X: y\r\n")
            time.sleep(0.1)

    def blob_slow_other(self, content, name, data):
        self.blob_slow(content, name, data)

    def blob_stall_header(self, content, name, data):
        self.wait_for_client()

    def blob_slow(self, content, name, data):
        start = self.range_start()
        self.send_response(206 if start else 200)
        if start:
            self.send_header("Content-Range", f"bytes {start}-{len(data) - 1}/{len(data)}")
        self.send_header("Content-Length", str(len(data) - start))
        self.end_headers()
        for at in range(start, len(data), 50_000):
            self.wfile.write(data[at : at + 50_000])
            time.sleep(0.05)

    def blob_long_body(self, content, name, data):
        self.answer(200, data + b"more", length=False)

    def blob_long_length(self, content, name, data):
        self.answer(200, data, length=len(data) + 4)

    def blob_wrong_bytes(self, content, name, data):
        self.answer(200, data[:-1] + bytes([data[-1] ^ 1]))

    def blob_redirect(self, content, name, data):
        self.answer(307, Location=f"http://127.0.0.1:{self.state.other}/storage/redirect/{name}"
                    "?signature=nobody-may-see-this")

    def blob_redirect_loop(self, content, name, data):
        self.answer(302, Location=self.path)

    def blob_redirect_file(self, content, name, data):
        self.answer(302, Location="file:///etc/passwd")

    def blob_redirect_plain(self, content, name, data):
        self.answer(302, Location=f"http://127.0.0.1:{self.state.other}/storage/redirect-plain/{name}")


class Quiet(http.server.ThreadingHTTPServer):
    daemon_threads = True

    def handle_error(self, *_):
        """Clients that are killed are part of the tests."""
        if not isinstance(sys.exc_info()[1], OSError):
            super().handle_error(*_)


def serve(state, certificate=None):
    server = Quiet(("127.0.0.1", 0), type("H", (Handler,), {"state": state}))
    if certificate:
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        context.load_cert_chain(certificate)
        server.socket = context.wrap_socket(server.socket, server_side=True)
    threading.Thread(target=server.serve_forever, daemon=True).start()
    return server.server_port


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--certificate")
    parser.add_argument("--log")
    options = parser.parse_args()
    state = State(options.log)
    state.tls = bool(options.certificate)
    state.port = serve(state, options.certificate)
    state.other = serve(state)
    print(json.dumps({"port": state.port, "other": state.other}), flush=True)
    sys.stdin.read()
    os._exit(0)


if __name__ == "__main__":
    main()
