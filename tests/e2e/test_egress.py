# SPDX-License-Identifier: Apache-2.0
"""Egress deny: no interface, no route, and every attempt fails at once."""
from harness import BUSYBOX, check, equal

SANDBOX = True
LOOKUP = """
import socket, time
began = time.monotonic()
try:
    socket.getaddrinfo('secret.exfil.example.com', 443)
    print('resolved')
except socket.gaierror:
    print('failed', round(time.monotonic() - began, 2))
"""
CONNECT = """
import errno, socket, time
for family, address in ((socket.AF_INET, '192.0.2.1'), (socket.AF_INET, '10.0.2.2'),
                        (socket.AF_INET6, '2001:db8::1')):
    for kind in (socket.SOCK_STREAM, socket.SOCK_DGRAM):
        s = socket.socket(family, kind)
        s.settimeout(5)
        began = time.monotonic()
        try:
            s.connect((address, 53))
            s.send(b'x')
            print('sent')
        except OSError as e:
            print(errno.errorcode.get(e.errno, e), 'late' if time.monotonic() - began > 1 else 'soon')
"""


def test_loopback_is_the_only_interface(t):
    equal(t.home.sh(t.box, "ls /sys/class/net 2>/dev/null || "
                    "sed -n 's/^ *\\([a-z0-9]*\\):.*/\\1/p' /proc/net/dev"), "lo")


def test_there_is_no_route(t):
    equal(t.home.sh(t.box, "tail -n +2 /proc/net/route"), "")
    routes = t.home.sh(t.box, "cat /proc/net/ipv6_route 2>/dev/null || true")
    check(all(line.split()[-1] == "lo" for line in routes.splitlines()), f"IPv6 routes: {routes}")


def test_connections_fail_at_once(t):
    lines = t.home.python(t.box, CONNECT).splitlines()
    equal(len(lines), 6)
    for line in lines:
        reason, when = line.split()
        check(reason in ("ENETUNREACH", "EAFNOSUPPORT", "EADDRNOTAVAIL", "EHOSTUNREACH"), line)
        equal(when, "soon", line)


def test_lookups_fail_at_once_in_glibc(t):
    result = t.home.python(t.box, LOOKUP).split()
    equal(result[0], "failed")
    check(float(result[1]) < 2, f"after {result[1]} s")


def test_lookups_fail_at_once_in_busybox(t):
    result = t.home.any("sandbox", "run", t.box, BUSYBOX, "sh", "-c",
                        "time wget -q -T 10 -O - http://secret.exfil.example.com/")
    check(result.code == 1 and "bad address" in result.errors, f"wget says why: {result}")
    check(result.seconds < 3, f"at once: {result}")


def test_loopback_works(t):
    """The control: sockets as such do work in there."""
    code = ("import socket, threading; s = socket.create_server(('127.0.0.1', 0));"
            "threading.Thread(target=lambda: s.accept()[0].sendall(b'yes')).start();"
            "print(socket.create_connection(s.getsockname()).recv(9).decode())")
    equal(t.home.python(t.box, code), "yes")


def test_root_in_the_container_cannot_make_an_interface(t):
    result = t.home.any("sandbox", "run", t.box, BUSYBOX, "ip", "link", "add", "d0", "type", "dummy")
    check(result.code != 0 and "not permitted" in result.errors, f"no CAP_NET_ADMIN: {result}")
    equal(t.home.sh(t.box, "ip link show lo | wc -l"), "2", "control: ip works there")


def test_other_modes_are_not_there_yet(t):
    for flags in (["--egress", "any"], ["--egress", "fakenet"], ["--egress-allow", "example.com"]):
        t.home.refused(1, "not yet", args=["sandbox", "create", "no-such-egress", *flags])
        equal(t.home.state("no-such-egress"), None)
    t.home.refused(2, "egress", args=["sandbox", "create", "no-such-egress", "--egress", "maybe"])
