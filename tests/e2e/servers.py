# SPDX-License-Identifier: Apache-2.0
"""Scripted servers on loopback for the tests of logins, proxies, certificates and mirrors: a registry
with a token server, a forward proxy, a certificate authority; and kosa8-image alone."""
import base64
import http.server
import importlib.util
import json
import os
import select
import socket
import ssl
import subprocess
import sys
import tempfile
import threading
import urllib.parse

from harness import KOSA8, check, descendants, equal

HERE = os.path.dirname(os.path.abspath(__file__))
USER, PASSWORD = "alice", "s3cret-that-nobody-may-see"
IDENTITY, TOKEN = "identity-that-nobody-may-see", "token-that-nobody-may-see"
BASIC = base64.b64encode(f"{USER}:{PASSWORD}".encode()).decode()
SECRETS = [PASSWORD, IDENTITY, TOKEN, BASIC,
           *(base64.b64encode(f"{u}:{IDENTITY}".encode()).decode() for u in ("", USER, "<token>"))]
# As `htpasswd -nbB` makes it; the hash of PASSWORD.
HTPASSWD = "alice:$2b$05$1BAv01IP48n78kAYx79W5eyoJgOAFAmQvfbpUNx1ojE1X9oC7kxLq\n"

_spec = importlib.util.spec_from_file_location("faults", os.path.join(HERE, "registry-faults.py"))
faults = importlib.util.module_from_spec(_spec)
_spec.loader.exec_module(faults)


def told(text):
    """The secret that is in a text, or None."""
    return next((s for s in SECRETS if s in text), None)


def watch(home):
    """Every command of this state directory logs all it can, and none may tell a secret."""
    home.env["KOSA8_LOG"] = "debug"
    plain = home.any

    def checked(*args, **more):
        result = plain(*args, **more)
        check(not told(result.text) and not told(result.errors), f"a secret is told: {result}")
        return result
    home.any = checked


def secrets_in_proc():
    """Where a secret is in the arguments or environment of a process of this group. The test itself
    keeps none there."""
    found = []
    for pid in (p["pid"] for p in descendants(os.getppid())):
        for name in ("cmdline", "environ"):
            try:
                with open(f"/proc/{pid}/{name}", errors="replace") as f:
                    if told(f.read()):
                        found.append(f"{pid}/{name}")
            except OSError:
                pass
    return found


def confined_workers():
    """For each kosa8-image of this group whether it is confined: no new privileges, a seccomp filter.
    (Landlock is shown nowhere.)"""
    found = []
    for process in descendants(os.getppid()):
        try:
            with open(f"/proc/{process['pid']}/status") as f:
                status = dict(line.split(":\t", 1) for line in f.read().splitlines() if ":\t" in line)
            if status["Name"] == "kosa8-image":
                found.append((status["NoNewPrivs"], status["Seccomp"]) == ("1", "2"))
        except OSError:
            pass
    return found


class Quiet(http.server.ThreadingHTTPServer):
    daemon_threads = True

    def handle_error(self, *_):
        if not isinstance(sys.exc_info()[1], OSError):
            super().handle_error(*_)


class Server:
    """answer(request) is called for each request; it returns (status, headers, body). request is the
    handler, with .body; what came is in .seen."""

    def __init__(self, answer=None, pem=None, client_ca=None):
        self.seen = []
        if answer:
            self.answer = answer
        server = self

        class Handler(http.server.BaseHTTPRequestHandler):
            protocol_version = "HTTP/1.1"

            def log_message(self, *_):
                pass

            def handle_any(self):
                self.body = self.rfile.read(int(self.headers.get("Content-Length") or 0)).decode()
                server.seen.append({"method": self.command, "path": self.path, "body": self.body,
                                    "authorization": self.headers.get("Authorization"),
                                    "proxy": self.headers.get("Proxy-Authorization"),
                                    "host": self.headers.get("Host")})
                status, headers, body = server.answer(self)
                self.send_response(status)
                for name, value in headers.items():
                    self.send_header(name, value)
                self.send_header("Content-Length", str(len(body)))
                self.end_headers()
                if self.command != "HEAD":
                    self.wfile.write(body)
            do_GET = do_HEAD = do_POST = do_CONNECT = handle_any

        self.http = Quiet(("127.0.0.1", 0), Handler)
        if pem:
            context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
            context.load_cert_chain(pem)
            if client_ca:
                context.verify_mode = ssl.CERT_REQUIRED
                context.load_verify_locations(client_ca)
            self.http.socket = context.wrap_socket(self.http.socket, server_side=True,
                                                   do_handshake_on_connect=False)
        self.port = self.http.server_port
        self.name = f"127.0.0.1:{self.port}"
        threading.Thread(target=self.http.serve_forever, daemon=True).start()

    def stop(self):
        self.http.shutdown()
        self.http.server_close()


def error(status, message="as was asked", **headers):
    body = json.dumps({"errors": [{"code": "FAULT", "message": message}]}).encode()
    return status, {"Content-Type": "application/json", **headers}, body


class ImageRegistry(Server):
    """Any repository, tag 1: the image of registry-faults.py. allowed(request) is True, or an
    answer."""
    content = None

    def __init__(self, allowed=None, **more):
        if not ImageRegistry.content:
            ImageRegistry.content = faults.Content("ok")
        self.allowed = allowed or (lambda request: True)
        super().__init__(**more)

    def answer(self, request):
        verdict = self.allowed(request)
        if verdict is not True:
            return verdict
        kind, name = request.path.split("/")[-2:]
        if request.path == "/v2/":
            return 200, {}, b"{}"
        data = self.content.blobs.get(name)
        if kind == "manifests":
            data = self.content.root if name == "1" else self.content.manifests.get(name)
        if data is None:
            return error(404)
        return 200, {"Content-Type": faults.OCI + "manifest.v1+json"} if kind == "manifests" else {}, data


class TokenRegistry(ImageRegistry):
    """Wants a Bearer token, which its token server (.tokens, another origin) gives for the password or
    the identity token. post: that server's status for POST."""

    def __init__(self, post=200, **more):
        self.post = post
        self.tokens = Server(self.token)
        self.in_proc = []
        super().__init__(self.check, **more)

    def check(self, request):
        if request.headers.get("Authorization") == "Bearer " + TOKEN:
            return True
        return error(401, **{"WWW-Authenticate":
                             f'Bearer realm="http://{self.tokens.name}/token",service="the registry"'})

    def token(self, request):
        self.in_proc += secrets_in_proc()
        good = 200, {}, json.dumps({"token": TOKEN}).encode()
        if request.command == "POST":
            if self.post != 200:
                return error(self.post)
            form = urllib.parse.parse_qs(request.body)
            if form.get("refresh_token") == [IDENTITY] and form.get("grant_type") == ["refresh_token"] \
                    and form.get("service") == ["the registry"] and form.get("client_id"):
                return good
            return error(401)
        auth = (request.headers.get("Authorization") or "").split(" ")[-1]
        if auth == BASIC or base64.b64decode(auth).decode().endswith(":" + IDENTITY):
            return good
        return error(401, f"no: {base64.b64decode(auth).decode()}")

    def stop(self):
        super().stop()
        self.tokens.stop()


class Proxy:
    """A forward proxy: absolute-URI requests and CONNECT. names: which host:port leads to which port of
    127.0.0.1; what is not named it refuses. .seen holds first lines and headers."""

    def __init__(self, names, credentials=None, refuse=None):
        self.names, self.credentials, self.refuse, self.seen = names, credentials, refuse, []
        self.socket = socket.create_server(("127.0.0.1", 0))
        self.port = self.socket.getsockname()[1]
        threading.Thread(target=self.accept, daemon=True).start()

    def accept(self):
        while True:
            try:
                client, _ = self.socket.accept()
            except OSError:
                return
            threading.Thread(target=self.serve, args=(client,), daemon=True).start()

    def serve(self, client):
        with client:
            data = b""
            while b"\r\n\r\n" not in data:
                more = client.recv(65536)
                if not more:
                    return
                data += more
            head, rest = data.split(b"\r\n\r\n", 1)
            lines = head.decode("latin-1").split("\r\n")
            self.seen.append({"line": lines[0], "headers": lines[1:]})
            self.forward(client, lines, rest)

    def forward(self, client, lines, rest):
        method, url, _ = lines[0].split(" ")
        wanted = "Proxy-Authorization: Basic " + base64.b64encode((self.credentials or "").encode()).decode()
        if self.credentials and wanted not in lines:
            return client.sendall(b"HTTP/1.1 407 Who\r\nProxy-Authenticate: Basic realm=x\r\n"
                                  b"Content-Length: 0\r\nConnection: close\r\n\r\n")
        where = url if method == "CONNECT" else urllib.parse.urlsplit(url).netloc
        port = self.names.get(where)
        if self.refuse or not port:
            return client.sendall(f"HTTP/1.1 {self.refuse or 403} No\r\nContent-Length: 0\r\n"
                                  "Connection: close\r\n\r\n".encode())
        with socket.create_connection(("127.0.0.1", port)) as server:
            if method == "CONNECT":
                client.sendall(b"HTTP/1.1 200 Yes\r\n\r\n")
                server.sendall(rest)
            else:
                parts = urllib.parse.urlsplit(url)
                path = parts.path + ("?" + parts.query if parts.query else "")
                kept = [h for h in lines[1:] if not h.lower().startswith(("proxy-", "connection:"))]
                server.sendall("\r\n".join([f"{method} {path} HTTP/1.1", *kept, "Connection: close",
                                            "", ""]).encode("latin-1") + rest)
            self.relay(client, server)

    @staticmethod
    def relay(one, two):
        while True:
            for s in select.select([one, two], [], [])[0]:
                try:
                    data = s.recv(65536)
                except OSError:
                    return
                if not data:
                    return
                (two if s is one else one).sendall(data)

    def stop(self):
        self.socket.close()


class Authority:
    """A private certificate authority."""

    def __init__(self, folder, name="ca"):
        self.folder, self.path = folder, os.path.join(folder, name + ".crt")
        self.key = os.path.join(folder, name + ".pkey")
        self.openssl("req", "-x509", "-newkey", "rsa:2048", "-nodes", "-days", "2", "-subj",
                     f"/CN={name}", "-keyout", self.key, "-out", self.path)

    @staticmethod
    def openssl(*args):
        subprocess.run(["openssl", *args], check=True, capture_output=True)

    def hash(self):
        """As OpenSSL looks for it in a folder."""
        return subprocess.run(["openssl", "x509", "-noout", "-hash", "-in", self.path], check=True,
                              capture_output=True, text=True).stdout.strip()

    def issue(self, name, alternative):
        """PEM files: one with key and certificate, the key, the certificate."""
        base = os.path.join(self.folder, name)
        self.openssl("req", "-newkey", "rsa:2048", "-nodes", "-subj", f"/CN={name}", "-keyout",
                     base + ".pkey", "-out", base + ".csr")
        with open(base + ".ext", "w") as f:
            f.write(f"subjectAltName={alternative}\n")
        self.openssl("x509", "-req", "-in", base + ".csr", "-CA", self.path, "-CAkey", self.key,
                     "-CAcreateserial", "-days", "2", "-extfile", base + ".ext", "-out", base + ".pcrt")
        with open(base + ".pem", "w") as f:
            f.write(open(base + ".pkey").read() + open(base + ".pcrt").read())
        return base + ".pem", base + ".pkey", base + ".pcrt"


class Worker:
    """kosa8-image, with a folder of its own for images."""

    def __init__(self, folder, **env):
        beside = os.path.dirname(os.path.realpath(KOSA8))
        self.program = next(p for p in (os.path.join(beside, "kosa8-image"),
                                        os.path.join(beside, "../libexec/kosa8/kosa8-image"))
                            if os.path.exists(p))
        self.folder = folder
        self.env = {k: v for k, v in os.environ.items() if not k.lower().endswith("_proxy") and
                    k not in ("KOSA8_REGISTRY_MIRROR", "SSL_CERT_FILE", "SSL_CERT_DIR")}
        self.env |= {"KOSA8_LOG": "debug", "KOSA8_PULL_RETRY_MS": "20", "KOSA8_PULL_STALL_MS": "3000",
                     "DOCKER_CONFIG": os.path.join(folder, "docker"),
                     "KOSA8_CERTS_DIR": os.path.join(folder, "certs.d"),
                     "KOSA8_AUTH_FILE": os.path.join(folder, "auth.json"), **env}

    def log_in(self, host, **entry):
        """Into auth.json, as `kosa8 login` writes it."""
        path = self.env["KOSA8_AUTH_FILE"]
        old = json.load(open(path)) if os.path.exists(path) else {"auths": {}}
        old["auths"][host] = entry or {"auth": BASIC}
        with open(os.open(path, os.O_CREAT | os.O_WRONLY | os.O_TRUNC, 0o600), "w") as f:
            json.dump(old, f)

    def pull(self, image, *flags, env=None, via=()):
        """Into an empty folder; the last line, as an object, with what was logged as "log"."""
        with tempfile.TemporaryDirectory(dir=self.folder) as images:
            done = subprocess.run([*via, self.program, "pull", "--images-dir", images, *flags, image],
                                  env={**self.env, **(env or {})}, capture_output=True, timeout=60,
                                  stdin=subprocess.DEVNULL)
        out, log = done.stdout.decode(), done.stderr.decode(errors="replace")
        check(not told(out) and not told(log), f"a secret is told: {out} {log}")
        lines = [json.loads(line) for line in out.splitlines()]
        result = lines[-1]
        result["log"] = log
        result["notices"] = [line["text"] for line in lines if line.get("event") == "notice"]
        equal(done.returncode, 0 if result["ok"] else 1, "exit code")
        return result

    def pulls(self, image, *flags, env=None, via=()):
        result = self.pull(image, *flags, env=env, via=via)
        check(result["ok"], f"{image}: {result}")
        return result

    def fails(self, image, kind, *needles, flags=(), env=None):
        result = self.pull(image, *flags, env=env)
        check(not result["ok"], f"did not fail: {result}")
        equal(result["error"]["kind"], kind, f"kind of {result}")
        said = (result["error"]["what"] + " " + result["error"]["hint"]).lower()
        for needle in needles:
            check(needle.lower() in said, f"'{needle}' is not said: {said}")
        return result
