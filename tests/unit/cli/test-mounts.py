# SPDX-License-Identifier: Apache-2.0
"""Mounts and published ports on the command line: what is asked of a running sandbox, what is
written for a stopped one, and what is refused."""
import json
import os
import socket
import sys

from harness import World, done, equal, ok


def said(r, *needles):
    return all(n in r.err for n in needles)


def rows(w, *args):
    return json.loads(w.kosa8(*args, "--json").out)


def last_request(w):
    with open(f"{w.home}/requests.jsonl", encoding="utf-8") as f:
        request = json.loads(f.readlines()[-1])
    request.pop("actor")
    return request


def spec(w, name):
    return json.loads(w.kosa8("sandbox", "inspect", name, "--json").out)["spec"]


def refused_at_create(w, data):
    with open(f"{w.dir}/file", "w", encoding="ascii") as f:
        f.write("x")
    for flag, value, needles in (
            ("--mount", "nothing", ["HOST:GUEST"]),
            ("--mount", f"{data}:/a:rx", [":cow"]),
            ("--mount", f"{data}:/proc/x", ["/proc"]),
            ("--mount", f"{data}:/workspace", ["/workspace"]),
            ("--mount", f"{data}/missing:/a", ["there is no folder", "missing"]),
            ("--mount", f"{w.dir}/file:/a", ["is not a folder"]),
            ("--mount", f"{w.home}:/a", ["record"]),
            ("--mount", f"{w.dir}:/a", ["record"]),
            ("--publish", "80", ["8080:80"]),
            ("--publish", "nowhere:1:2", ["IP address"])):
        r = w.kosa8("sandbox", "create", "refused", flag, value)
        ok(r.code == 1 and said(r, *needles) and r.err.count("kosa8: ") == 1 and r.out == "",
           f"refused: {flag} {value}", r.err)
    r = w.kosa8("sandbox", "create", "refused", "--mount", f"{data}:/a", "--mount", f"{data}:/a/")
    ok(r.code == 1 and said(r, "already"), "the same path twice is refused", r.err)
    equal(rows(w, "sandbox", "ls"), [], "and nothing was made")


def created(w, data):
    os.symlink(data, f"{w.dir}/link")
    r = w.kosa8("sandbox", "create", "box", "--mount", f"{w.dir}/link:/good", "--mount",
                f"{data}:/bad:cow", "--publish", "0.0.0.0:8080:80", "-p", "8081:81")
    ok(r.code == 0 and said(r, "0.0.0.0:8080 is reachable from other machines")
       and "8081" not in r.err, "created, and told who can reach it", r.err)
    got = spec(w, "box")
    equal([(m["id"], m["host"], m["guest"], m["mode"]) for m in got["mounts"]],
          [(1, data, "/good", "rw"), (2, data, "/bad", "cow")], "the mounts, of the real folder")
    equal([(p["ip"], p["host_port"], p["guest_port"]) for p in got["ports"]],
          [("0.0.0.0", 8080, 80), ("127.0.0.1", 8081, 81)], "the ports")
    detail = [r for r in rows(w, "audit", "ls") if r["action"] == "sandbox.create"][-1]["detail"]
    equal((len(detail["mounts"]), len(detail["ports"])), (2, 2), "the record has them")
    human = w.kosa8("sandbox", "inspect", "box").out
    ok(human.count('"guest":"/good"') >= 1 and '"host_port":8080' in human,
       "inspect shows them", human)


def running(w, data):
    w.kosa8("sandbox", "mount", "add", "box", f"{data}:/more:ro")
    equal(last_request(w), {"op": "mount-add", "host": data, "guest": "/more", "mode": "ro"},
          "mount add asks the supervisor")
    w.kosa8("sandbox", "mount", "rm", "box", "/good/")
    equal(last_request(w), {"op": "mount-rm", "guest": "/good"}, "mount rm too")
    r = w.kosa8("sandbox", "mount", "rm", "box", "/none")
    ok(r.code == 1 and said(r, "no mount at /none", "mount ls box"), "of what is there", r.err)
    r = w.kosa8("sandbox", "port", "add", "box", "0:90")
    equal((r.out, last_request(w)),
          ("127.0.0.1:45678\n", {"op": "port-add", "ip": "127.0.0.1", "host_port": 0,
                                 "guest_port": 90}), "port add prints the address")
    w.kosa8("sandbox", "port", "rm", "box", "[::1]:91")
    equal(last_request(w), {"op": "port-rm", "ip": "::1", "host_port": 91}, "port rm")
    r = w.kosa8("sandbox", "port", "rm", "box", "9")
    ok(r.code == 1 and said(r, "not published", "port ls box"), "of what is published", r.err)
    states = {m["guest"]: (m["state"], m["error"]) for m in rows(w, "sandbox", "mount", "ls", "box")}
    equal(states, {"/good": ("mounted", None), "/bad": ("failed", "it \x1b[31mended")},
          "mount ls has what the supervisor says")
    table = w.kosa8("sandbox", "mount", "ls", "box").out
    ok("failed" in table and "\x1b" not in table, "escaped in the table", table)


def stopped(w, data):
    w.kosa8("sandbox", "stop", "box")
    ok(w.kosa8("sandbox", "mount", "rm", "box", "/bad").code == 0, "mount rm of a stopped one")
    r = w.kosa8("sandbox", "mount", "add", "box", f"{data}:/later:ro")
    ok(r.code == 0, "mount add", r.err)
    r = w.kosa8("sandbox", "mount", "add", "box", f"{data}:/later")
    ok(r.code == 1 and said(r, "already"), "once", r.err)
    equal([(m["id"], m["guest"], m["state"]) for m in rows(w, "sandbox", "mount", "ls", "box")],
          [(1, "/good", None), (3, "/later", None)], "is in the spec, under an id of its own")
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
        r = w.kosa8("sandbox", "port", "add", "box", f"{port}:1")
        ok(r.code == 1 and said(r, f"127.0.0.1:{port} is in use"), "a taken address", r.err)
    r = w.kosa8("sandbox", "port", "add", "box", f"{port}:1")
    equal((r.code, r.out), (0, f"127.0.0.1:{port}\n"), "control: when it is free")
    r = w.kosa8("sandbox", "port", "add", "box", "192.0.2.1:0:1")
    ok(r.code == 1 and said(r, "no address 192.0.2.1"), "an address that is not ours", r.err)
    r = w.kosa8("sandbox", "port", "add", "box", "0:2")
    ok(r.code == 0 and int(r.out.rsplit(":")[-1]) > 0, "any free port is named", r.out)
    ok(w.kosa8("sandbox", "port", "rm", "box", "0.0.0.0:8080").code == 0, "port rm")
    equal([p["guest_port"] for p in rows(w, "sandbox", "port", "ls", "box")], [81, 1, 2],
          "port ls")
    done_actions = [(a["action"], a["result"]) for a in rows(w, "audit", "ls")]
    for action in ("mount.add", "mount.rm", "port.add", "port.rm"):
        ok((action, "ok") in done_actions, f"{action} is recorded", done_actions)
    w.kosa8("sandbox", "start", "box")
    detail = [r for r in rows(w, "audit", "ls") if r["action"] == "sandbox.start"][-1]["detail"]
    equal(([m["guest"] for m in detail["mounts"]], len(detail["ports"])),
          (["/good", "/later"], 3), "the record of a start has them")
    w.kosa8("sandbox", "rm", "-f", "box")


def words(w):
    for args, needles in ((["sandbox", "mount"], ["needs a command"]),
                          (["sandbox", "mount", "ad", "x"], ["did you mean", "mount add"]),
                          (["sandbox", "port", "rm", "x"], ["not enough operands"])):
        r = w.kosa8(*args)
        ok(r.code == 2 and said(r, *needles), f"usage: {args}", r.err)
    r = w.kosa8("sandbox", "mount", "--help")
    ok(r.code == 0 and "mount add" in r.out, "help of the group", r.err)
    r = w.kosa8("sandbox", "mount", "add", "--help")
    ok(r.code == 0 and "usage: kosa8 sandbox mount add NAME HOST:GUEST" in r.out, "of one", r.out)


def main():
    with World() as w:
        data = f"{w.dir}/data"
        os.mkdir(data)
        words(w)
        for part in (refused_at_create, created, running, stopped):
            part(w, data)
    return done()


sys.exit(main())
