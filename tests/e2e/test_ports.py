# SPDX-License-Identifier: Apache-2.0
"""Published ports: a server in the sandbox is reached from the host, exactly and only as told."""
import hashlib
import os
import socket
import threading

from harness import PYTHON, check, equal, wait_for

SANDBOX = True
SLOW = 180
# Answers each connection with the SHA-256 of all that came, once the client has no more to say;
# "count N" gets N bytes.
SERVER = """
import hashlib, socket, threading
def serve(c):
    h, first = hashlib.sha256(), b''
    while True:
        data = c.recv(65536)
        if not data:
            break
        first = first or data
        h.update(data)
    if first.startswith(b'count '):
        left = int(first.split()[1])
        while left:
            n = min(left, 65536)
            c.sendall(b'x' * n)
            left -= n
    else:
        c.sendall(h.hexdigest().encode())
    c.close()
s = socket.create_server(('127.0.0.1', 8000), backlog=64)
print('ready', flush=True)
while True:
    threading.Thread(target=serve, args=(s.accept()[0],), daemon=True).start()
"""


def exchange(port, data, host="127.0.0.1", seconds=60):
    with socket.create_connection((host, port), timeout=seconds) as s:
        sender = threading.Thread(target=lambda: (s.sendall(data), s.shutdown(socket.SHUT_WR)))
        sender.start()
        got = b"".join(iter(lambda: s.recv(1 << 20), b""))
        sender.join()
    return got


def is_reset(port):
    with socket.create_connection(("127.0.0.1", port), timeout=60) as s:
        try:
            return s.recv(1) == b"never"
        except ConnectionResetError:
            return True


def add(t, what):
    return t.home("sandbox", "port", "add", t.box, what).text.strip()


def setup(t):
    t.server = t.background(t.box, PYTHON, "python", "-c", SERVER)
    t.server.wait_output(b"ready")
    address = add(t, "0:8000")
    check(address.startswith("127.0.0.1:"), f"any port, on loopback: {address}")
    t.port = int(address.rpartition(":")[2])


def test_a_server_is_reached(t):
    equal(exchange(t.port, b"hello").decode(), hashlib.sha256(b"hello").hexdigest())
    rows = t.home.rows("sandbox", "port", "ls", t.box)
    equal([(r["ip"], r["host_port"], r["guest_port"]) for r in rows],
          [("127.0.0.1", t.port, 8000)])
    live = t.home.inspect(t.box)["live"]["ports"]
    equal([p["host_port"] for p in live], [t.port], "inspect has it")


def test_bytes_are_exact_both_ways(t):
    data = os.urandom(3_000_000)
    equal(exchange(t.port, data).decode(), hashlib.sha256(data).hexdigest(), "to the guest")
    equal(len(exchange(t.port, b"count 5000000")), 5000000, "from the guest")


def test_many_at_once(t):
    results = []

    def one(i):
        data = bytes([i]) * 50000
        results.append(exchange(t.port, data).decode() == hashlib.sha256(data).hexdigest())
    threads = [threading.Thread(target=one, args=(i,)) for i in range(24)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    equal(results, [True] * 24)


def test_a_reader_that_is_slow_holds_no_other(t):
    with socket.create_connection(("127.0.0.1", t.port), timeout=60) as slow:
        slow.sendall(b"count 20000000")
        slow.shutdown(socket.SHUT_WR)
        equal(exchange(t.port, b"x").decode(), hashlib.sha256(b"x").hexdigest())


def test_nobody_listens_in_the_guest(t):
    address = add(t, "0:8001")
    check(is_reset(int(address.rpartition(":")[2])), "the connection is reset")
    t.home("sandbox", "port", "rm", t.box, address)


def test_ipv6(t):
    address = add(t, "[::1]:0:8000")
    check(address.startswith("[::1]:"), address)
    equal(exchange(int(address.rpartition(":")[2]), b"six", host="::1").decode(),
          hashlib.sha256(b"six").hexdigest())
    t.home("sandbox", "port", "rm", t.box, address)


def test_a_port_that_is_published_no_more(t):
    address = add(t, "0:8000")
    port = int(address.rpartition(":")[2])
    with socket.create_connection(("127.0.0.1", port), timeout=60) as s:
        t.home("sandbox", "port", "rm", t.box, str(port))
        try:
            equal(s.recv(1), b"never", "an open connection")
        except ConnectionResetError:
            pass
    try:
        socket.create_connection(("127.0.0.1", port), timeout=5).close()
        check(False, "nobody listens there any more")
    except ConnectionRefusedError:
        pass
    t.home.refused(1, "not published", "port ls", args=["sandbox", "port", "rm", t.box, str(port)])


def test_what_cannot_be_published(t):
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
        t.home.refused(1, f"127.0.0.1:{port} is in use",
                       args=["sandbox", "port", "add", t.box, f"{port}:1"])
        t.home.refused(1, f"127.0.0.1:{port} is in use",
                       args=["sandbox", "create", "ports-taken", "--cpus", "2", "--memory", "512",
                             "--publish", f"{port}:1"])
    check(t.home.state("ports-taken") is None, "no sandbox was made")
    t.home.refused(1, "192.0.2.1", args=["sandbox", "port", "add", t.box, "192.0.2.1:0:1"])
    t.home.refused(1, "already", args=["sandbox", "port", "add", t.box, f"{t.port}:1"])


def test_other_machines_are_a_notice(t):
    result = t.home("sandbox", "port", "add", t.box, "0.0.0.0:0:8000")
    check("reachable from other machines" in result.errors, str(result))
    t.home("sandbox", "port", "rm", t.box, result.text.strip())


def test_rewind_resets(t):
    t.home("checkpoint", t.box, "--label", "served")
    with socket.create_connection(("127.0.0.1", t.port), timeout=60) as s:
        s.sendall(b"part")
        t.home("rewind", t.box, "--to", "served", "--yes")
        try:
            equal(s.recv(1), b"never", "a connection of before the rewind")
        except ConnectionResetError:
            pass
    equal(exchange(t.port, b"again").decode(), hashlib.sha256(b"again").hexdigest(),
          "the server of the checkpoint is reached")


def test_stop_and_start(t):
    t.home("sandbox", "stop", t.box)
    try:
        socket.create_connection(("127.0.0.1", t.port), timeout=5).close()
        check(False, "nobody listens for a stopped sandbox")
    except ConnectionRefusedError:
        pass
    with socket.create_server(("127.0.0.1", t.port)):
        t.home.refused(1, f"127.0.0.1:{t.port} is in use", "port rm",
                       args=["sandbox", "start", t.box])
        equal(t.home.state(t.box), "stopped")
    t.home("sandbox", "start", t.box, timeout=120)
    t.server = t.background(t.box, PYTHON, "python", "-c", SERVER)
    t.server.wait_output(b"ready")
    equal(exchange(t.port, b"back").decode(), hashlib.sha256(b"back").hexdigest())


def test_the_record(t):
    done = [(r["action"], r["result"]) for r in t.home.rows("audit", "ls", "--sandbox", t.box)]
    for what in (("port.add", "ok"), ("port.rm", "ok"), ("port.add", "exists")):
        check(what in done, f"{what} in {done}")
    wait_for(lambda: t.home("audit", "verify"), "the record is whole")
