# SPDX-License-Identifier: Apache-2.0
"""A registry's own certificates: a folder HOST:PORT with authorities and a client's certificate, which
hold for that origin alone."""
import os
import shutil

from harness import check, equal, in_own_mounts
from servers import Authority, ImageRegistry, Worker

HOME = "own"


def setup(t):
    t.servers = []
    t.worker = Worker(t.folder)
    t.certs = t.worker.env["KOSA8_CERTS_DIR"]
    t.authority, t.clients = Authority(t.folder), Authority(t.folder, "clients")
    t.pem, _, _ = t.authority.issue("server", "IP:127.0.0.1")
    _, t.key, t.certificate = t.clients.issue("client", "DNS:client.example.com")
    _, t.other_key, _ = t.clients.issue("other", "DNS:other.example.com")


def own(t, plain=False, **more):
    t.servers.append(ImageRegistry(pem=None if plain else t.pem, **more))
    return t.servers[-1]


def teardown(t):
    for server in t.servers:
        server.stop()


def put(t, host, **files):
    """Files of a host's folder: a path to copy, or bytes."""
    folder = os.path.join(t.certs, host)
    shutil.rmtree(folder, ignore_errors=True)
    os.makedirs(folder)
    for name, source in files.items():
        path = os.path.join(folder, name.replace("_", "."))
        if isinstance(source, bytes):
            with open(path, "wb") as f:
                f.write(source)
        else:
            shutil.copy(source, path)
    return folder


def test_an_authority_for_one_host(t):
    one, two = own(t), own(t)
    t.worker.fails(one.name + "/a/b:1", "unavailable", "cannot be trusted", "SSL_CERT_FILE")
    put(t, one.name, ca_crt=t.authority.path)
    t.worker.pulls(one.name + "/a/b:1")
    t.worker.fails(two.name + "/a/b:1", "unavailable", "cannot be trusted")


def test_a_redirect_does_not_inherit_it(t):
    target = own(t)
    moved = own(t, allowed=lambda r: "/blobs/" not in r.path or
                (307, {"Location": f"https://{target.name}{r.path}"}, b""))
    put(t, moved.name, ca_crt=t.authority.path)
    t.worker.fails(moved.name + "/a/b:1", "unavailable", target.name, "cannot be trusted")
    put(t, target.name, ca_crt=t.authority.path)
    t.worker.pulls(moved.name + "/a/b:1")


def test_beside_what_is_trusted_anyway(t):
    """The host's folder adds an authority, it replaces none."""
    server = own(t)
    put(t, server.name, ca_crt=t.clients.path)
    t.worker.fails(server.name + "/a/b:1", "unavailable", "cannot be trusted")
    t.worker.pulls(server.name + "/a/b:1", env={"SSL_CERT_FILE": t.authority.path})


def test_a_folder_that_is_not_for_us(t):
    """As dockerd's may be: closed to others than root."""
    server = own(t)
    put(t, server.name, ca_crt=t.clients.path)
    os.chmod(t.certs, 0)
    try:
        t.worker.pulls(server.name + "/a/b:1", env={"SSL_CERT_FILE": t.authority.path})
    finally:
        os.chmod(t.certs, 0o700)
    check(os.path.isdir(os.path.join(t.certs, server.name)), "control: it was there")


def test_links_lead_anywhere(t):
    """A pull is confined when it reads them: a link allows what it leads to, and nothing else."""
    server = own(t)
    away = os.path.join(t.folder, "away")
    os.makedirs(os.path.join(away, "host"))
    real = shutil.copy(t.authority.path, os.path.join(away, "authority"))

    def link(to, *path):
        name = os.path.join(t.folder, *path)
        os.makedirs(os.path.dirname(name), exist_ok=True)
        os.symlink(to, name)
        return name
    link(real, "away", "host", "ca.crt")
    folder = link(os.path.join(away, "host"), "certs.d", server.name)
    t.worker.pulls(server.name + "/a/b:1")
    os.unlink(folder)
    t.worker.fails(server.name + "/a/b:1", "unavailable", "cannot be trusted")
    put(t, server.name)
    link(real, folder, "ca.crt")
    t.worker.pulls(server.name + "/a/b:1")
    shutil.rmtree(folder)
    t.worker.pulls(server.name + "/a/b:1", env={"SSL_CERT_FILE": link(real, "bundle")})
    digest = t.authority.hash()
    hashed = os.path.dirname(link(real, "hashed", digest + ".0"))
    t.worker.pulls(server.name + "/a/b:1", env={"SSL_CERT_DIR": "/nosuchfolder:" + hashed})
    link("bundle", "loop", "bundle2"), link("loop", "loop", "loop")
    t.worker.fails(server.name + "/a/b:1", "unavailable", "cannot be trusted",
                   env={"SSL_CERT_DIR": os.path.join(t.folder, "loop")})


def test_a_name_from_a_file_outside(t):
    """/etc/hosts as a link, as resolv.conf is one with systemd-resolved or in WSL."""
    server = own(t, plain=True)
    name = f"registry.example.test:{server.port}/a/b:1"
    hosts = os.path.join(t.folder, "hosts")
    with open(hosts, "w") as f:
        f.write("127.0.0.1 registry.example.test\n")
    t.worker.fails(name, "unavailable", "registry.example.test")
    etc = os.path.join(t.folder, "etc")
    t.worker.pulls(name, "--plain-http", via=in_own_mounts(
        f"mkdir -p {etc}; cp -a /etc/. {etc} 2>/dev/null || true; rm -f {etc}/hosts; "
        f"ln -s {hosts} {etc}/hosts; mount --bind {etc} /etc"))


def test_a_client_certificate(t):
    server = own(t, client_ca=t.clients.path)
    put(t, server.name, ca_crt=t.authority.path)
    t.worker.fails(server.name + "/a/b:1", "unavailable", server.name)
    put(t, server.name, ca_crt=t.authority.path, client_cert=t.certificate, client_key=t.key)
    t.worker.pulls(server.name + "/a/b:1")
    os.makedirs(os.path.join(t.folder, "elsewhere"), exist_ok=True)
    t.worker.fails(server.name + "/a/b:1", "unavailable", server.name,
                   env={"KOSA8_CERTS_DIR": os.path.join(t.folder, "elsewhere"),
                        "SSL_CERT_FILE": t.authority.path})


def test_a_client_certificate_is_for_its_origin(t):
    asks = own(t, client_ca=t.clients.path)
    moved = own(t, allowed=lambda r: "/blobs/" not in r.path or
                (307, {"Location": f"https://{asks.name}{r.path}"}, b""))
    put(t, moved.name, ca_crt=t.authority.path, client_cert=t.certificate, client_key=t.key)
    put(t, asks.name, ca_crt=t.authority.path)
    t.worker.fails(moved.name + "/a/b:1", "unavailable", asks.name)
    equal(asks.seen, [], "requests of a client without a certificate")
    put(t, asks.name, ca_crt=t.authority.path, client_cert=t.certificate, client_key=t.key)
    t.worker.pulls(moved.name + "/a/b:1")


def test_what_is_broken_is_named(t):
    server = own(t)
    encrypted = os.path.join(t.folder, "encrypted.key")
    Authority.openssl("rsa", "-aes128", "-passout", "pass:x", "-in", t.key, "-out", encrypted)
    cut = open(t.authority.path, "rb").read()[:300]
    for files, name, needle in (
            ({"ca_crt": b"no certificate"}, "ca.crt", "not a certificate"),
            ({"ca_crt": cut}, "ca.crt", "not a certificate"),
            ({"ca_crt": b""}, "ca.crt", "not a certificate"),
            ({"client_cert": t.certificate}, "client.key", "no such file"),
            ({"client_cert": b"x", "client_key": t.key}, "client.cert", "not a certificate"),
            ({"client_cert": t.certificate, "client_key": b"x"}, "client.key", "not a private key"),
            ({"client_cert": t.certificate, "client_key": encrypted}, "client.key", "passphrase"),
            ({"client_cert": t.certificate, "client_key": t.other_key}, "client.key", "not the key of")):
        folder = put(t, server.name, **files)
        result = t.worker.pull(server.name + "/a/b:1")
        check(not result["ok"], f"{files}: {result}")
        said = result["error"]["what"]
        check(os.path.join(folder, name) in said and needle in said.lower(), f"{name}, {needle}: {said}")
        check("BEGIN" not in str(result), "a key is told")
    folder = put(t, server.name)
    os.mkdir(os.path.join(folder, "ca.crt"))
    t.worker.fails(server.name + "/a/b:1", "io", "ca.crt", "is a directory")
    put(t, server.name, ca_crt=t.authority.path, readme_txt=b"not a certificate")
    t.worker.pulls(server.name + "/a/b:1")
