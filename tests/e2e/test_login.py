# SPDX-License-Identifier: Apache-2.0
"""login and logout: against docker-registry with Basic, over plain HTTP and TLS, and against a
scripted token server; where the secret is kept, and where it never gets to."""
import base64
import errno
import json
import os
import pty
import signal
import subprocess
import sys
import termios
import threading

from harness import ROOT, check, equal, wait_for
from servers import (BASIC, HTPASSWD, IDENTITY, PASSWORD, SECRETS, TOKEN, USER, Authority, ImageRegistry,
                     TokenRegistry, Worker, confined_workers, error, faults, secrets_in_proc, told, watch)

sys.path.insert(0, os.path.join(ROOT, "tests/fixtures"))
from registry import Registry  # noqa: E402

HOME = "own"
SANDBOX = True

HELPER = """#!/usr/bin/python3
import json, os, sys, time
store, said, mode = os.environ["TEST_STORE"], sys.stdin.read(), os.environ.get("TEST_MODE", "")
with open(store + ".log", "a") as f:
    f.write(sys.argv[1] + "\\n")
kept = json.load(open(store)) if os.path.exists(store) else {}
if mode == "fail":
    print("it broke:", kept)
    print("it broke:", kept, file=sys.stderr)
    sys.exit(1)
if mode == "hang":
    os.spawnlp(os.P_WAIT, "sleep", "sleep", "987654")
if mode == "flood":
    print("x" * 1000000)
if mode == "junk":
    print('{"Secret": "%s' % list(kept.values()))
if mode in ("flood", "junk"):
    sys.exit(0)
if sys.argv[1] == "store":
    entry = json.loads(said)
    kept[entry["ServerURL"]] = entry
elif sys.argv[1] == "erase":
    kept.pop(said.strip(), None)
elif said.strip() in kept:
    print(json.dumps(kept[said.strip()]))
else:
    print("credentials not found in native keychain")
    sys.exit(1)
json.dump(kept, open(store, "w"))
"""


def setup(t):
    t.registries = []
    watch(t.home)
    t.auth = os.path.join(t.home.path, "auth.json")
    t.docker = os.path.join(t.folder, "docker")
    os.mkdir(t.docker)
    t.home.env |= {"DOCKER_CONFIG": t.docker, "KOSA8_PULL_RETRY_MS": "20"}
    t.htpasswd = os.path.join(t.folder, "htpasswd")
    with open(t.htpasswd, "w") as f:
        f.write(HTPASSWD)
    t.storage = os.environ.get("KOSA8_E2E_STORAGE") or subprocess.run(
        [os.path.join(ROOT, "tests/fixtures/make-images")], check=True, capture_output=True,
        text=True).stdout.strip()
    t.host = private(t).name


def private(t, certificate=None):
    registry = Registry(t.storage, htpasswd=t.htpasswd, certificate=certificate).__enter__()
    registry.name = f"127.0.0.1:{registry.port}"
    registry.stop = registry.__exit__
    t.registries.append(registry)
    return registry


def scripted(t, cls=TokenRegistry, **more):
    t.registries.append(cls(**more))
    return t.registries[-1]


def teardown(t):
    for registry in t.registries:
        registry.stop()


def log_in(t, host, password=PASSWORD, user=USER, **more):
    return t.home.any("login", "-u", user, "--password-stdin", host, input=password.encode() + b"\n",
                      **more)


def fails(t, *needles, args, **more):
    return t.home.refused(1, *needles, args=args, **more)


def cannot_log_in(t, host, *needles, password=PASSWORD, user=USER, **more):
    return fails(t, *needles, args=["login", "-u", user, "--password-stdin", host],
                 input=password.encode(), **more)


def pull(t, host, **more):
    return t.home.any("sandbox", "pull", t.box, f"{host}/library/busybox", **more)


def cannot_pull(t, host, *needles, **more):
    return fails(t, *needles, args=["sandbox", "pull", t.box, f"{host}/library/busybox"], **more)


def stored(t):
    with open(t.auth) as f:
        return json.load(f)


def actions(t, name):
    return [r for r in t.home.rows("audit", "ls") if r.get("action") == name]


def docker_config(t, **config):
    with open(os.path.join(t.docker, "config.json"), "w") as f:
        json.dump(config, f)


def forget(t):
    for path in (t.auth, os.path.join(t.docker, "config.json")):
        if os.path.lexists(path):
            os.unlink(path)


# ---- the way it is meant ----

def test_a_wrong_password_stores_nothing(t):
    cannot_pull(t, t.host, "401", "kosa8 login " + t.host)
    cannot_log_in(t, t.host, "does not accept", "nothing was stored", password="wrong")
    check(not os.path.exists(t.auth), "auth.json was made")


def test_login_then_a_private_pull(t):
    result = log_in(t, t.host)
    equal((result.code, result.text), (0, f"alice is logged in to {t.host}\n"), f"{result}")
    check("plain text" in result.errors and t.auth in result.errors, f"a warning: {result}")
    equal(os.stat(t.auth).st_mode & 0o7777, 0o600, "mode")
    equal(stored(t)["auths"], {t.host: {"auth": BASIC}}, "docker's format")
    equal(pull(t, t.host).code, 0, "a private pull")


def test_a_wrong_password_keeps_the_right_one(t):
    cannot_log_in(t, t.host, "does not accept", password="wrong")
    equal(pull(t, t.host).code, 0, "a private pull")


def test_the_audit_log_knows_who_and_where(t):
    records = t.home("audit", "export").text
    check(not told(records), "a secret is in the audit log")
    check('"registry.login"' in records and f'"registry":"{t.host}"' in records and
          '"user":"alice"' in records, f"the record of a login: {records[-2000:]}")
    t.home("audit", "verify")


def test_logout_then_it_fails(t):
    result = t.home("logout", t.host)
    equal(result.text, f"logged out of {t.host}\n")
    equal(stored(t)["auths"], {}, "what is left")
    cannot_pull(t, t.host, "401")
    equal(t.home("logout", t.host).text, f"not logged in to {t.host}\n")
    check('"registry.logout"' in t.home("audit", "export").text, "it is recorded")


def test_usage(t):
    def wrong(*args, needles=()):
        t.home.refused(2, *needles, args=["login", *args], input=PASSWORD.encode())
    wrong(t.host, needles=["--password-stdin", "no terminal"])
    wrong("-u", "alice", t.host, needles=["--password-stdin"])
    wrong("--password-stdin", t.host, needles=["--user"])
    wrong("--password", "x", t.host, needles=["--password"])
    for address in ("http://registry.example.com", "HTTP://Registry.Example.com/v2/", "http://128.0.0.1"):
        host = address.split("/")[2].lower()
        wrong("-u", "a", "--password-stdin", address,
              needles=[f"kosa8 login {host}, or kosa8 login --plain-http {host}\n"])
    cannot_log_in(t, "not-a-registry", "not the name of a registry")
    cannot_log_in(t, t.host + "/library/busybox", "more than a registry")
    cannot_log_in(t, t.host, "empty", password="")
    cannot_log_in(t, t.host, "control characters", password="a\nb")
    cannot_log_in(t, t.host, "user name", ":", user="a:b")
    cannot_log_in(t, t.host, "user name is empty", user="")
    cannot_log_in(t, t.host, "user name", "control", user="a\nb")
    fails(t, "registry.example.com\n", args=["logout", "Registry.example.com/library/busybox"])
    cannot_log_in(t, t.host, "longer than", password="x" * 20000)
    check(not os.path.exists(t.auth) or stored(t)["auths"] == {}, "nothing was stored")


def test_as_people_write_it(t):
    log_in(t, f"https://{t.host}/v2/")
    equal(list(stored(t)["auths"]), [t.host], "the host alone")
    t.home("logout", f"https://{t.host}")
    equal(stored(t)["auths"], {})
    port = t.host.split(":")[1]
    for address in (f"http://{t.host}", f"HTTP://LocalHost:{port}/v2", f"http://localhost:{port}/"):
        host = address.split("/")[2].lower()
        result = log_in(t, address)
        equal((result.code, result.text), (0, f"alice is logged in to {host}\n"), f"{result}")
        equal(list(stored(t)["auths"]), [host], "the host alone")
        cannot_log_in(t, address, "does not accept", password="wrong")
        equal(t.home("logout", address).text, f"logged out of {host}\n")
    for address in ("http://registry.example.com/v2/", "https://Registry.Example.COM"):
        equal(t.home("logout", address).text, "not logged in to registry.example.com\n")


def test_http_means_no_tls(t):
    """On loopback, where TLS would be found out else."""
    authority = Authority(t.folder, "scheme")
    host = private(t, certificate=authority.issue("scheme-server", "IP:127.0.0.1")[0]).name
    env = {"SSL_CERT_FILE": authority.path}
    cannot_log_in(t, "http://" + host, host, env=env)
    equal(log_in(t, "https://" + host, env=env).code, 0, "control: with TLS")
    t.home("logout", host)


# ---- on a terminal ----

class Terminal:
    """kosa8 login as the foreground of a terminal of its own."""

    def __init__(self, t, *args):
        self.leader, self.follower = pty.openpty()
        self.process = t.home.start("login", *args, stdin=self.follower, stderr=self.follower,
                                    preexec_fn=self.take)
        self.said = b""
        os.set_blocking(self.leader, False)

    def take(self):
        os.setsid()
        os.close(os.open(os.ttyname(self.follower), os.O_RDWR))  # becomes the controlling one

    def echo(self):
        return bool(termios.tcgetattr(self.follower)[3] & termios.ECHO)

    def read(self):
        try:
            self.said += os.read(self.leader, 65536)
        except BlockingIOError:
            pass
        return self.said.decode(errors="replace")

    def read_all(self):
        return self.said.decode(errors="replace")

    def read_to_end(self):
        """Nobody writes any more; what was written may still be on its way through the kernel."""
        os.set_blocking(self.leader, True)
        try:
            while chunk := os.read(self.leader, 65536):
                self.said += chunk
        except OSError as error:
            equal(error.errno, errno.EIO, "the end of a terminal")

    def wait_for(self, text):
        wait_for(lambda: text in self.read(), f"'{text}' on the terminal")

    def type(self, text):
        os.write(self.leader, text.encode())

    def end(self):
        code = self.process.wait(20)
        out = self.process.stdout.read().decode()
        self.process.stdout.close()
        echo = self.echo()
        os.close(self.follower)
        self.read_to_end()
        os.close(self.leader)
        check(not told(self.said.decode(errors="replace") + out), f"it is shown: {self.said}")
        check(echo, "the terminal is left without echo")
        return code, out


def test_on_a_terminal(t):
    terminal = Terminal(t, t.host)
    terminal.wait_for("User name for " + t.host)
    terminal.type("alice\n")
    terminal.wait_for("Password for " + t.host)
    wait_for(lambda: not terminal.echo(), "echo to be off")
    terminal.type(PASSWORD + "\n")
    equal(terminal.end(), (0, f"alice is logged in to {t.host}\n"), f"{terminal.said}")
    t.home("logout", t.host)


def test_the_end_of_the_input_ends_a_line(t):
    terminal = Terminal(t, t.host)
    terminal.wait_for("User name")
    terminal.type("alice\x04")
    terminal.wait_for("Password")
    wait_for(lambda: not terminal.echo(), "echo to be off")
    terminal.type(PASSWORD + "\x04")
    equal(terminal.end()[0], 0, f"{terminal.said}")
    t.home("logout", t.host)


def test_an_impossible_user_is_refused_at_once(t):
    for typed, why in (("\n", "is empty"), ("a:b\n", "':'")):
        terminal = Terminal(t, t.host)
        terminal.wait_for("User name")
        terminal.type(typed)
        equal(terminal.end()[0], 1, f"{terminal.said}")
        check(why in terminal.read_all() and "Password" not in terminal.read_all(), f"{terminal.said}")
    for user in ("", "a:b"):
        terminal = Terminal(t, "-u", user, t.host)
        equal(terminal.end()[0], 1, f"{terminal.said}")
        check("user name" in terminal.read_all() and "Password" not in terminal.read_all(), f"{terminal.said}")


def test_signals_restore_the_terminal(t):
    for send, code in ((lambda p: p.type("\x03"), -signal.SIGINT),
                       (lambda p: p.process.send_signal(signal.SIGTERM), -signal.SIGTERM),
                       (lambda p: p.process.send_signal(signal.SIGHUP), -signal.SIGHUP),
                       (lambda p: p.type("\x04"), 1)):
        terminal = Terminal(t, "-u", "alice", t.host)
        terminal.wait_for("Password")
        wait_for(lambda: not terminal.echo(), "echo to be off")
        send(terminal)
        equal(terminal.end()[0], code, "how it ended")
    check(t.host not in stored(t)["auths"], "nothing was stored")


def test_stop_and_go_on(t):
    terminal = Terminal(t, "-u", "alice", t.host)
    terminal.wait_for("Password")
    wait_for(lambda: not terminal.echo(), "echo to be off")
    # Not ^Z: the process has no shell that could hear of it, and an orphan is not stopped by it.
    terminal.process.send_signal(signal.SIGTSTP)
    wait_for(lambda: terminal.read().count("Password") == 2, "the question again")
    terminal.type(PASSWORD + "\n")
    equal(terminal.end()[0], 0, f"{terminal.said}")
    t.home("logout", t.host)


# ---- auth.json ----

def test_killed_logins_leave_a_whole_file(t):
    """At whatever moment: before the answer, and at many after it."""
    forget(t)
    equal(log_in(t, t.host).code, 0)
    other = scripted(t)
    held = scripted(t, ImageRegistry, allowed=lambda request: threading.Event().wait(3) or error(503))
    for i in range(12):
        server = held if i == 0 else other
        seen = len(server.seen)
        process = t.home.start("login", "-u", USER, "--password-stdin", server.name,
                               stdin=subprocess.PIPE)
        process.stdin.write(PASSWORD.encode())
        process.stdin.close()
        wait_for(lambda: len(server.seen) >= seen + (1 if i == 0 else 3), "its requests")
        for _ in range(i * 400):
            if process.poll() is not None:
                break
        process.kill()
        process.wait()
        process.stdout.close()
        process.stderr.close()
        auths = stored(t)["auths"]
        check(set(auths) in ({t.host}, {t.host, other.name}), f"entries: {list(auths)}")
    equal(log_in(t, other.name).code, 0, "a login after that")
    equal(set(stored(t)["auths"]), {t.host, other.name}, "entries")
    equal([f for f in t.home.files() if f.startswith("auth.json") and f.endswith(".tmp")], [],
          "temporary files")
    forget(t)


def test_a_leftover_goes(t):
    left = t.auth + ".0123456789abcdef.tmp"
    with open(left, "w") as f:
        f.write("{")
    equal(log_in(t, t.host).code, 0)
    check(not os.path.exists(left), "a killed login's temporary file is removed by the next")
    forget(t)


def test_logins_at_once_lose_no_entry(t):
    servers = [scripted(t) for _ in range(6)]
    processes = [t.home.start("login", "-u", USER, "--password-stdin", s.name, stdin=subprocess.PIPE)
                 for s in servers]
    for process in processes:
        process.stdin.write(PASSWORD.encode())
        process.stdin.close()
    for process in processes:
        equal(process.wait(60), 0, process.stderr.read().decode())
        process.stdout.close()
        process.stderr.close()
    equal(set(stored(t)["auths"]), {s.name for s in servers}, "entries")
    forget(t)


def test_what_else_is_in_it_stays(t):
    with open(os.open(t.auth, os.O_CREAT | os.O_WRONLY, 0o600), "w") as f:
        json.dump({"HttpHeaders": {"X": "y"}, "auths": {"a.example.com": {"auth": "YTpi"},
                                                        f"http://{t.host}/v2/": {"auth": "YTpi"}}}, f)
    equal(log_in(t, t.host).code, 0)
    equal(stored(t), {"HttpHeaders": {"X": "y"}, "auths": {"a.example.com": {"auth": "YTpi"},
                                                           t.host: {"auth": BASIC}}})
    forget(t)


def odd_file(t, needle, make, **more):
    forget(t)
    make()
    before = os.lstat(t.auth)
    cannot_log_in(t, t.host, "auth.json", needle, **more)
    cannot_pull(t, t.host, "auth.json", needle, **more)
    fails(t, "auth.json", needle, args=["logout", t.host], **more)
    equal((os.lstat(t.auth).st_ino, os.lstat(t.auth).st_mtime_ns), (before.st_ino, before.st_mtime_ns),
          "the file is as it was")
    os.rmdir(t.auth) if os.path.isdir(t.auth) and not os.path.islink(t.auth) else os.unlink(t.auth)


def write(t, text, mode=0o600):
    with open(t.auth, "w") as f:
        f.write(text)
    os.chmod(t.auth, mode)


def test_odd_files_are_refused(t):
    good = json.dumps({"auths": {t.host: {"auth": BASIC}}})
    real = os.path.join(t.folder, "real.json")
    with open(real, "w") as f:
        f.write(good)
    odd_file(t, "symbolic link", lambda: os.symlink(real, t.auth))
    equal(open(real).read(), good, "where the link leads")
    odd_file(t, "symbolic link", lambda: os.symlink("/nosuchfile", t.auth))
    odd_file(t, "chmod 600", lambda: write(t, good, 0o644))
    odd_file(t, "not valid JSON", lambda: write(t, good[:-9]))
    odd_file(t, "not a JSON object", lambda: write(t, "[]"))
    odd_file(t, "not a file", lambda: os.mkdir(t.auth))
    # Root may read everything: without that right it is as anybody.
    plain = ["setpriv", "--bounding-set=-dac_override,-dac_read_search"] if os.getuid() == 0 else []
    odd_file(t, "permission denied", lambda: write(t, good, 0o000), via=plain)
    write(t, good)
    equal(pull(t, t.host).code, 0, "control: the same file, as it should be")
    forget(t)


def test_no_space_for_it(t):
    """A read-only state directory is refused before; here only the file cannot be made."""
    equal(log_in(t, t.host).code, 0)
    before = open(t.auth).read()
    result = t.home.any("login", "-u", USER, "--password-stdin", scripted(t).name,
                        input=PASSWORD.encode(), preexec_fn=lambda: limit_file_size(len(before)))
    check(result.code != 0, f"{result}")
    equal(open(t.auth).read(), before, "the file is as it was")
    forget(t)


def limit_file_size(size):
    import resource
    signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
    resource.setrlimit(resource.RLIMIT_FSIZE, (size, size))


# ---- docker's configuration ----

def test_dockers_own_credentials(t):
    docker_config(t, auths={t.host: {"auth": BASIC}})
    equal(pull(t, t.host).code, 0, "a private pull")
    result = t.home("logout", t.host)
    check(result.text.startswith("not logged in") and "docker logout" in result.errors, f"{result}")
    docker_config(t, auths={"other.example.com": {"auth": BASIC}})
    cannot_pull(t, t.host, "401")
    docker_config(t, auths={t.host: {"auth": BASIC[:-5]}})
    cannot_pull(t, t.host, "docker/config.json")


def test_ours_come_first(t):
    docker_config(t, auths={t.host: {"auth": base64.b64encode(b"alice:wrong").decode()}})
    cannot_pull(t, t.host, "not accepted", "docker/config.json")
    equal(log_in(t, t.host).code, 0)
    equal(pull(t, t.host).code, 0, "a private pull")
    forget(t)


def test_empty_files(t):
    """As docker leaves them behind: they say nothing."""
    for text in ("", "\n", " \t\r\n"):
        forget(t)
        for path in (t.auth, os.path.join(t.docker, "config.json")):
            with open(os.open(path, os.O_CREAT | os.O_WRONLY | os.O_TRUNC, 0o600), "w") as f:
                f.write(text)
        cannot_pull(t, t.host, "401", "kosa8 login " + t.host)
        equal(t.home("logout", t.host).text, f"not logged in to {t.host}\n")
        equal(log_in(t, t.host).code, 0)
        equal(stored(t)["auths"], {t.host: {"auth": BASIC}}, "what is stored")
    write(t, " x ")
    cannot_pull(t, t.host, "auth.json", "not valid JSON")
    forget(t)


# ---- credential helpers ----

def helper_env(t, **more):
    folder = os.path.join(t.folder, "bin")
    os.makedirs(folder, exist_ok=True)
    program = os.path.join(folder, "docker-credential-test")
    if not os.path.exists(program):
        with open(program, "w") as f:
            f.write(HELPER)
        os.chmod(program, 0o755)
    t.store = os.path.join(t.folder, "store")
    return {"PATH": folder + ":" + os.environ["PATH"], "TEST_STORE": t.store, **more}


def kept(t):
    return json.load(open(t.store)) if os.path.exists(t.store) else {}


def in_the_home(t):
    """Files of the state directory that hold a secret."""
    found = []
    for name in t.home.plain_files():
        path = os.path.join(t.home.path, name)
        if os.path.isfile(path) and os.path.getsize(path) < 10_000_000:
            with open(path, "rb") as f:
                if told(f.read().decode(errors="replace")):
                    found.append(name)
    return found


def test_a_helper_keeps_the_secret(t):
    for config in ({"credHelpers": {t.host: "test"}}, {"credsStore": "test"}):
        env = helper_env(t)
        docker_config(t, **config)
        result = log_in(t, t.host, env=env)
        check(result.code == 0 and "docker-credential-test" in result.errors, f"{result}")
        equal(stored(t), {"auths": {}, "credHelpers": {t.host: "test"}})
        equal(kept(t)[t.host]["Secret"], PASSWORD, "control: the helper has it")
        equal(in_the_home(t), [], "files that hold it")
        equal(pull(t, t.host, env=env).code, 0, "a private pull")
        docker_config(t)
        equal(pull(t, t.host, env=env).code, 0, "a pull that knows the helper from us alone")
        equal(t.home("logout", t.host, env=env).text, f"logged out of {t.host}\n")
        equal((kept(t), stored(t)), ({}, {"auths": {}}), "all is gone")
        cannot_pull(t, t.host, "401", env=env)
    forget(t)


def test_helpers_that_fail(t):
    env = helper_env(t)
    docker_config(t, credHelpers={t.host: "test"})
    equal(log_in(t, t.host, env=env).code, 0)
    for mode, needles in (("fail", ["docker-credential-test failed", "status 1"]),
                          ("flood", ["docker-credential-test get", "longer than"]),
                          ("junk", ["docker-credential-test", "not valid JSON"])):
        cannot_pull(t, t.host, *needles, env={**env, "TEST_MODE": mode})
    late = {**env, "TEST_MODE": "hang", "KOSA8_CREDENTIAL_HELPER_MS": "700"}
    result = cannot_pull(t, t.host, "docker-credential-test get did not answer within", env=late)
    check(result.seconds < 10, f"{result}")
    left = subprocess.run(["ps", "-eo", "args"], capture_output=True, text=True).stdout
    check("sleep 987654" not in left, "what the helper started is left")
    before = stored(t)
    fails(t, "docker-credential-test failed", args=["logout", t.host], env={**env, "TEST_MODE": "fail"})
    equal(stored(t), before, "a logout that failed")
    os.unlink(os.path.join(t.folder, "bin", "docker-credential-test"))
    cannot_pull(t, t.host, "docker-credential-test is not installed", env=env)
    result = t.home("logout", t.host, env=env)
    check("not installed" in result.errors and stored(t) == {"auths": {}}, f"{result}")
    docker_config(t, credHelpers={t.host: "../evil"})
    cannot_pull(t, t.host, "name of a credential helper", env=env)
    forget(t)


def test_a_helper_that_stores_nothing(t):
    env = helper_env(t)
    docker_config(t, credHelpers={t.host: "test"})
    cannot_log_in(t, t.host, "docker-credential-test failed (store", env={**env, "TEST_MODE": "fail"})
    check(not os.path.exists(t.auth), "auth.json was made")
    calls = open(t.store + ".log").read().count("store")
    cannot_log_in(t, t.host, "does not accept", password="wrong", env=env)
    equal(open(t.store + ".log").read().count("store"), calls, "a wrong password is given to no helper")
    forget(t)


def anonymous(t):
    """A registry that wants a token, which its token server gives to everybody."""
    server = scripted(t)
    server.tokens.answer = lambda request: (200, {}, json.dumps({"token": TOKEN}).encode())
    return server


def test_a_pull_does_not_need_the_helper(t):
    """A public image is had without it; a private one is refused, and the helper is named."""
    path = os.path.join(t.docker, "config.json")
    env = helper_env(t, TEST_MODE="fail")
    worker = Worker(t.folder, **env)
    open_to_all, closed = anonymous(t), scripted(t)
    for name, why in (("nosuch", "not installed"), ("test", "failed (get: status 1)")):
        for host in (open_to_all.name, closed.name):
            docker_config(t, **({"credsStore": name} if name == "nosuch" else {"credHelpers": {host: name}}))
            what = f"{path}: the credential helper docker-credential-{name} {why.replace('not', 'is not', 1)}" \
                if name == "nosuch" else f"{path}: the credential helper docker-credential-{name} {why}"
            if host == open_to_all.name:
                notices = worker.pulls(host + "/a/b:1")["notices"]
                equal(len(notices), 1, f"{notices}")
                check(what in notices[0] and "without credentials" in notices[0], f"{notices}")
                check(all(r["authorization"] is None for r in open_to_all.tokens.seen), "anonymously")
            else:
                result = worker.fails(host + "/a/b:1", "denied", "refuses access (401)", what, path)
                check("take it out of " + path in result["error"]["hint"], f"{result['error']}")
    check(open_to_all.tokens.seen and closed.tokens.seen, "control: tokens were asked for")
    forbidden = scripted(t, ImageRegistry, allowed=lambda r: error(403) if r.headers.get("Authorization")
                         else error(401, **{"WWW-Authenticate":
                                            f'Bearer realm="http://{open_to_all.tokens.name}/token"'}))
    docker_config(t, credsStore="nosuch")
    worker.fails(forbidden.name + "/a/b:1", "denied", "403", "docker-credential-nosuch is not installed")
    basic = scripted(t, ImageRegistry, allowed=lambda r: error(401, **{"WWW-Authenticate": 'Basic realm="x"'}))
    result = worker.fails(basic.name + "/a/b:1", "unavailable", "docker-credential-nosuch is not installed",
                          "take it out of " + path)
    equal(result["notices"], [], "the failure is the error")
    with open(path, "w") as f:
        f.write("{bad")
    notices = worker.pulls(open_to_all.name + "/a/b:1")["notices"]
    check(len(notices) == 1 and path in notices[0] and "not valid JSON" in notices[0], f"{notices}")
    worker.fails(closed.name + "/a/b:1", "denied", "refuses access (401)", "not valid JSON")
    forget(t)


def second_helper(t, env):
    """docker-credential-other: the same, with a store of its own."""
    other = os.path.join(t.folder, "bin", "docker-credential-other")
    with open(other, "w") as f:
        f.write(HELPER.replace('os.environ["TEST_STORE"]', 'os.environ["TEST_STORE"] + ".other"').replace(
            '"TEST_MODE"', '"TEST_OTHER_MODE"'))
    os.chmod(other, 0o755)
    return t.store + ".other"


def test_a_login_moves_with_dockers_configuration(t):
    env = helper_env(t)
    store = second_helper(t, env)
    docker_config(t, credsStore="test")
    equal(log_in(t, t.host, env=env).code, 0)
    check(t.host in kept(t), "control: the first helper has it")
    docker_config(t, credsStore="test", credHelpers={t.host: "other"})
    fails(t, "docker-credential-other failed (store: status 1)", "`docker-credential-other store`",
          os.path.join(t.docker, "config.json"), args=["login", "-u", USER, "--password-stdin", t.host],
          input=PASSWORD.encode(), env={**env, "TEST_OTHER_MODE": "fail"})
    check(t.host in kept(t) and stored(t)["credHelpers"] == {t.host: "test"}, "nothing has moved")
    equal(log_in(t, t.host, env=env).code, 0)
    equal((kept(t), list(json.load(open(store)))), ({}, [t.host]), "it has moved")
    equal(stored(t), {"auths": {}, "credHelpers": {t.host: "other"}})
    docker_config(t)
    result = log_in(t, t.host, env={**env, "TEST_OTHER_MODE": "fail"})
    check(result.code == 0 and "docker-credential-other failed (erase: status 1)" in result.errors and
          "earlier login" in result.errors, f"{result}")
    equal(stored(t), {"auths": {t.host: {"auth": BASIC}}}, "it is in the file now")
    equal(pull(t, t.host, env=env).code, 0, "a private pull")
    forget(t)


def test_a_logout_that_cannot_ask_docker(t):
    env = helper_env(t)
    for name, config in (("nosuch", {"credsStore": "nosuch"}), ("test", {"credHelpers": {t.host: "test"}})):
        docker_config(t, **config)
        result = t.home("logout", t.host, env={**env, "TEST_MODE": "fail"})
        equal(result.text, f"not logged in to {t.host}\n")
        check(f"docker-credential-{name}" in result.errors and "may remain" in result.errors, f"{result}")
    docker_config(t, credsStore="test")
    equal(t.home("logout", t.host, env=env).errors, "", "control: it has none")
    forget(t)


def test_an_identity_token_from_a_helper(t):
    server, env = scripted(t), helper_env(t)
    json.dump({server.name: {"Username": "<token>", "Secret": IDENTITY}}, open(t.store, "w"))
    docker_config(t, credsStore="test")
    Worker(t.folder, **env).pulls(server.name + "/a/b:1")
    check(any(r["method"] == "POST" for r in server.tokens.seen), f"{server.tokens.seen}")
    equal(server.in_proc, [], "secrets in /proc during a pull")
    os.unlink(t.store)
    forget(t)


def helper_calls(t):
    path = t.store + ".log"
    return open(path).read().count("get") if os.path.exists(path) else 0


def test_a_helper_has_run_before_a_pull_is_confined(t):
    """What it writes is outside of all that a confined pull can reach."""
    env, seen, ran = helper_env(t), [], []
    calls = helper_calls(t)

    def look(request):
        seen.extend(confined_workers())
        ran.append(helper_calls(t) - calls)
        return request.headers.get("Authorization") == "Basic " + BASIC or \
            error(401, **{"WWW-Authenticate": 'Basic realm="x"'})
    server = scripted(t, ImageRegistry, allowed=look)
    json.dump({server.name: {"Username": USER, "Secret": PASSWORD}}, open(t.store, "w"))
    docker_config(t, credsStore="test")
    Worker(t.folder, **env).pulls(server.name + "/a/b:1")
    check(len(ran) > 2 and set(ran) == {1}, f"calls of the helper at each request: {ran}")
    check(len(seen) >= len(ran) and all(seen), f"whether the worker was confined at each request: {seen}")
    equal(server.seen[0]["authorization"], None, "it is not shown before it is asked for")
    os.unlink(t.store)
    forget(t)


def test_a_helper_is_not_started_in_vain(t):
    """A digest, and all is here: nothing is asked for, so it matters to nobody who we are."""
    env, server = helper_env(t), scripted(t, ImageRegistry)
    docker_config(t, credsStore="test")
    digest = faults.sha(server.content.root)
    names = [server.name + "/a/b:1", f"{server.name}/a/b@{digest}"]
    calls = []
    for name in names:
        before = helper_calls(t)
        equal(t.home.any("sandbox", "pull", t.box, name, env=env).code, 0, name)
        calls.append(helper_calls(t) - before)
    equal(calls, [1, 0], "calls of the helper: by tag, by a digest that is here")
    forget(t)


def test_a_helper_that_nobody_needs_may_fail(t):
    server, worker = scripted(t, ImageRegistry), Worker(t.folder, **helper_env(t, TEST_MODE="fail"))
    docker_config(t, credsStore="test")
    worker.pulls(server.name + "/a/b:1")
    docker_config(t, credsStore="not-installed")
    worker.pulls(server.name + "/a/b:1")
    worker.fails(t.host + "/library/busybox", "unavailable", "docker-credential-not-installed")
    forget(t)


# ---- tokens ----

def test_login_with_a_token_server(t):
    with subprocess.Popen(["sleep", "60"], env={**os.environ, "X": PASSWORD}) as telltale:
        wait_for(secrets_in_proc, "control: a secret in an environment to be found")
        telltale.kill()
    server, asking = scripted(t), []
    allowed = server.allowed
    server.allowed = lambda request: asking.append(sorted(confined_workers())) or allowed(request)
    cannot_log_in(t, server.name, "does not accept", password="wrong")
    result = log_in(t, server.name)
    equal(result.code, 0, f"{result}")
    equal((len(asking) > 3, {tuple(a) for a in asking}), (True, {(False, True)}),
          "a worker, and its child that asks and is confined")
    equal(list(stored(t)["auths"]), [server.name])
    check(any(r["authorization"] == "Basic " + BASIC for r in server.tokens.seen), "control: it was shown")
    check(all((r["authorization"] or "").startswith(("Bearer", "")) and BASIC not in (r["authorization"] or "")
              for r in server.seen), "the registry itself got no password")
    equal(server.in_proc, [], "secrets in /proc during a login")
    forget(t)


def test_a_registry_that_asks_for_nothing(t):
    """It is shown the password all the same: some let everybody in, and know users besides."""
    open_to_all = scripted(t, ImageRegistry)
    equal(log_in(t, open_to_all.name).code, 0)
    picky = scripted(t, ImageRegistry, allowed=lambda request: request.headers.get("Authorization") in
                     (None, "Basic " + BASIC) or error(401))
    cannot_log_in(t, picky.name, "does not accept", password="wrong")
    equal(log_in(t, picky.name).code, 0)
    nothing = scripted(t, ImageRegistry, allowed=lambda request: error(404))
    cannot_log_in(t, nothing.name, "not a registry")
    forget(t)


def test_identity_tokens(t):
    folder = os.path.join(t.folder, "identity")
    os.mkdir(folder)
    worker = Worker(folder)
    for post, methods in ((200, ["POST"]), (404, ["POST", "GET"]), (405, ["POST", "GET"])):
        server = scripted(t, post=post)
        worker.log_in(server.name, auth=base64.b64encode(b"alice:").decode(), identitytoken=IDENTITY)
        worker.pulls(server.name + "/a/b:1")
        equal([r["method"] for r in server.tokens.seen], methods, f"asked after {post}")
        check("identity-that" not in server.tokens.seen[-1]["path"], "it is in no address")
    server = scripted(t, post=401)
    worker.log_in(server.name, identitytoken=IDENTITY)
    worker.fails(server.name + "/a/b:1", "denied", "401", "kosa8 login")
    equal([r["method"] for r in server.tokens.seen], ["POST"], "a refusal is a refusal")


def test_a_registry_token(t):
    folder = os.path.join(t.folder, "given")
    os.mkdir(folder)
    worker, server = Worker(folder), scripted(t)
    worker.log_in(server.name, registrytoken=SECRETS[2])
    worker.pulls(server.name + "/a/b:1")
    equal(server.tokens.seen, [], "no token was asked for")
    worker.log_in(server.name, registrytoken="another")
    worker.fails(server.name + "/a/b:1", "denied", "401")


def test_what_servers_repeat_is_not_passed_on(t):
    """The control is what is passed on: other words of theirs."""
    folder = os.path.join(t.folder, "repeats")
    os.mkdir(folder)
    worker = Worker(folder)
    for said in (BASIC, PASSWORD, f"password {PASSWORD} for alice is wrong"):
        server = scripted(t, ImageRegistry, allowed=lambda r: error(403, said)
                          if r.headers.get("Authorization")
                          else error(401, **{"WWW-Authenticate": 'Basic realm="x"'}))
        worker.log_in(server.name)
        worker.fails(server.name + "/a/b:1", "denied", "403")
        tokens = scripted(t)
        tokens.tokens.answer = lambda r: error(500, said)
        worker.log_in(tokens.name)
        worker.fails(tokens.name + "/a/b:1", "unavailable", "500")
    server = scripted(t)
    server.allowed = lambda r, check=server.allowed: error(403, f"bad token {TOKEN}") \
        if r.headers.get("Authorization") else check(r)
    worker.log_in(server.name)
    worker.fails(server.name + "/a/b:1", "denied", "403")
    other = scripted(t, ImageRegistry, allowed=lambda r: error(403, "not on Sundays"))
    worker.fails(other.name + "/a/b:1", "denied", "not on Sundays")


def test_a_redirect_gets_no_credentials(t):
    """Nor does the host it leads to get them by asking: its challenge is not answered."""
    folder = os.path.join(t.folder, "redirect")
    os.mkdir(folder)
    worker = Worker(folder)
    tokens = scripted(t)
    elsewhere = scripted(t, ImageRegistry, allowed=lambda request: error(401, **{
        "WWW-Authenticate": f'Bearer realm="http://{tokens.tokens.name}/token",service="the registry"'}))
    server = scripted(t, ImageRegistry, allowed=lambda request: (
        error(401, **{"WWW-Authenticate": 'Basic realm="x"'}) if not request.headers.get("Authorization")
        else (307, {"Location": f"http://{elsewhere.name}{request.path}"}, b"")))
    worker.log_in(server.name)
    worker.fails(server.name + "/a/b:1", "denied", "401")
    check(any(r["authorization"] == "Basic " + BASIC for r in server.seen), "control: they were sent")
    check(elsewhere.seen and not any(r["authorization"] for r in elsewhere.seen), f"{elsewhere.seen}")
    equal(tokens.tokens.seen, [], "what it asked for")


def test_a_token_server_that_redirects(t):
    folder = os.path.join(t.folder, "moved")
    os.mkdir(folder)
    worker, thief = Worker(folder), scripted(t)
    server = scripted(t)
    server.tokens.answer = lambda request: (307, {"Location": f"http://{thief.tokens.name}/token"}, b"")
    worker.log_in(server.name, identitytoken=IDENTITY)
    worker.fails(server.name + "/a/b:1", "protocol", "redirects a request that holds credentials")
    equal(thief.tokens.seen, [], "where it leads")
    worker.log_in(server.name)
    worker.fails(server.name + "/a/b:1", "denied")
    equal([r["authorization"] for r in thief.tokens.seen], [None], "where it leads")


# ---- TLS ----

def test_tls_with_a_private_authority(t):
    authority = Authority(t.folder)
    pem, _, _ = authority.issue("server", "IP:127.0.0.1")
    host = private(t, certificate=pem).name
    cannot_log_in(t, host, "cannot be trusted")
    check(not os.path.exists(t.auth), "nothing is stored")
    env = {"SSL_CERT_FILE": authority.path}
    cannot_log_in(t, host, "does not accept", password="wrong", env=env)
    equal(log_in(t, host, env=env).code, 0)
    equal(pull(t, host, env=env).code, 0, "a private pull")
    cannot_pull(t, host, "cannot be trusted")
    certs = os.path.join(t.folder, "certs.d")
    os.makedirs(os.path.join(certs, host))
    os.symlink(authority.path, os.path.join(certs, host, "ca.crt"))
    equal(pull(t, host, env={"KOSA8_CERTS_DIR": certs}).code, 0, "with the host's own authority")
    equal(t.home("logout", host).text, f"logged out of {host}\n")
    cannot_pull(t, host, "401", env=env)
    forget(t)
