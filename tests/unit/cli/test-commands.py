# SPDX-License-Identifier: Apache-2.0
"""The commands around a scripted supervisor and image worker: output, exit status, records, and
what is left after a failure."""
import json
import os
import pty
import re
import signal
import socket
import subprocess
import sys
import threading

from harness import World, done, equal, ok

IMAGE = "example.com/box:1"


def said(r, *needles):
    return all(n in r.err for n in needles)


def rows(w, *args):
    return json.loads(w.kosa8(*args, "--json").out)


def actions(w):
    return [(r["action"], r["result"]) for r in rows(w, "audit", "ls")]


def state(w, name):
    return {r["name"]: r["state"] for r in rows(w, "sandbox", "ls")}.get(name)


def usage(w):
    for args, needles in (
            ([], ["no command", "usage: kosa8"]),
            (["sandbox"], ["needs a command", "usage: kosa8 sandbox"]),
            (["sandbox", "crate", "x"], ["did you mean", "sandbox create"]),
            (["snadbox", "ls"], ["did you mean"]), (["run", "x"], ["sandbox run"]),
            (["zzzzzzzz"], ["no command"]),
            (["sandbox", "create", "x", "--memmory", "1"], ["--memory", "usage:"]),
            (["sandbox", "ls", "extra"], ["too many"]),
            (["sandbox", "create"], ["not enough operands", "usage:"]),
            (["sandbox", "create", "-rf"], ["no flag"]),
            (["sandbox", "create", "x", "--cpus", "two"], ["--cpus"]),
            (["sandbox", "create", "x", "--egress", "some"], ["deny, any, fakenet"]),
            (["sandbox", "create", "x", "--env", "=v"], ["K=V"]),
            (["sandbox", "run", "--timeout", "soon", "x", "y"], ["duration"]),
            (["sandbox", "ls", "--json=maybe"], ["takes no value"]),
            (["audit", "ls", "--since", "yesterday"], ["--since"])):
        r = w.kosa8(*args)
        ok(r.code == 2 and r.out == "" and said(r, *needles), f"usage: {args}", r.code, r.err)
    for args in (["--help"], ["help"], ["sandbox", "--help"], ["help", "sandbox", "run"],
                 ["sandbox", "run", "--help"], ["checkpoint", "--help"], ["sandbox", "rm", "-h"]):
        r = w.kosa8(*args)
        ok(r.code == 0 and r.out and not r.err, f"help: {args}", r.code, r.err)
    ok(not os.path.exists(w.home), "none of that made a state folder")


def not_yet(w):
    for args, code in ((["fork", "a"], 1),
                       (["sandbox", "create", "a", "--ttl", "1h"], 1),
                       (["sandbox", "create", "a", "--egress", "any"], 1),
                       (["sandbox", "create", "a", "--egress-allow", "example.com"], 1),
                       (["checkpoint", "diff", "a", "b"], 1), (["system", "prune"], 1)):
        r = w.kosa8(*args)
        ok(r.code == code and said(r, "not yet") and r.err.count("kosa8: ") == 1,
           f"not yet: {args}", r.code, r.err)
    equal(rows(w, "sandbox", "ls"), [], "nothing was made by that")


def create(w):
    for name in ("../x", "a/b", "", "x" * 300, "Upper", "new\nline", ".dot", "ls", "a b"):
        r = w.kosa8("sandbox", "create", "--", name)
        ok(r.code == 1 and said(r, "cannot name") and "\n" not in r.err[:-1].split("  try:")[0][:-1],
           f"the name {name[:10]!r} is refused", r.err)
    for fake, needles in (("fail", ["QEMU is missing", "try: kosa8 doctor"]),
                          ("die", ["ended unexpectedly", "the engine fell over"])):
        r = w.kosa8("sandbox", "create", "half", env={"KOSA8_FAKE": fake})
        ok(r.code == 1 and said(r, *needles) and r.out == "", f"a start that {fake}s", r.err)
        equal((rows(w, "sandbox", "ls"), os.listdir(f"{w.home}/sandboxes")), ([], []),
              "leaves nothing")
    r = w.kosa8("sandbox", "create", "half", env={"KOSA8_LIBEXEC": w.dir + "/none"})
    ok(r.code == 1 and said(r, "kosa8-supervisor"), "a missing supervisor is named", r.err)
    equal(rows(w, "sandbox", "ls"), [], "and leaves nothing")
    r = w.kosa8("sandbox", "create", "box", "--cpus", "1", "--memory=512", "--env", "A=1")
    ok(r.code == 0 and r.out == "box\n", "create prints the name", r.err)
    ok(said(r, "making the template \\x1b[31m(once)"), "its notices are shown, escaped", r.err)
    r = w.kosa8("sandbox", "create", "box")
    ok(r.code == 1 and said(r, "box"), "a taken name", r.err)
    table = w.kosa8("sandbox", "ls").out.splitlines()
    equal(table[0].split(),
          ["NAME", "STATE", "CPUS", "MEMORY", "EGRESS", "CHECKPOINTS", "CREATED"], "ls: header")
    equal(table[1].split()[:7], ["box", "running", "1", "512", "MB", "deny", "0"], "ls: row")
    o = json.loads(w.kosa8("sandbox", "inspect", "box", "--json").out)
    equal((o["name"], o["state"], o["live"]["epoch"], o["spec"]["cpus"]),
          ("box", "running", 1, 1), "inspect")
    r = w.kosa8("sandbox", "inspect", "box")
    ok("\x1b" not in r.out and "\\x1b[31mred" in r.out, "inspect escapes what the guest says", r.out)
    r = w.kosa8("sandbox", "inspect", "bpx")
    ok(r.code == 1 and said(r, "bpx", "box"), "the nearest name", r.err)
    with open(f"{w.home}/requests.jsonl", encoding="utf-8") as f:
        actor = json.loads(f.readline())["actor"]
    equal((actor["kind"], actor["uid"]), ("agent", os.getuid()), "requests carry the actor")


def images(w):
    r = w.kosa8("sandbox", "pull", "box", IMAGE)
    ok(r.code == 0 and re.fullmatch(r"sha256:[0-9a-f]{64}\n", r.out), "pull prints the digest",
       r.out, r.err)
    equal(w.kosa8("sandbox", "pull", "-q", "box", IMAGE).err, "", "--quiet")
    r = w.kosa8("sandbox", "pull", "box", "example.com/notice")
    ok(said(r, "mirror \\x1b[31mused"), "notices are shown, escaped", r.err)
    r = w.kosa8("sandbox", "pull", "box", "example.com/waited")
    ok(said(r, "waiting for another process"), "what it waits for is shown", r.err)
    r = w.kosa8("sandbox", "pull", "-q", "box", "example.com/waited-notice")
    ok(r.code == 0 and "mirror" in r.err and "waiting" not in r.err, "not with --quiet; notices are", r.err)
    for image, needles in (("missing", ["\\x1b[2J 404"]), ("dies", ["signal 9"]),
                           ("junk", ["not valid JSON"]), ("baddigest", ["left no file"]),
                           ("noblob", ["left no file", "blobs/sha256/1111"]),
                           ("badsize", ["does not have its size"]),
                           ("endless", ["too long"])):
        r = w.kosa8("sandbox", "pull", "box", f"example.com/{image}")
        ok(r.code == 1 and said(r, *needles) and "\x1b" not in r.err and not r.out,
           f"a worker that says {image}", r.code, r.err)
        equal(w.kosa8("sandbox", "run", "box", f"example.com/{image}").code, 125, "and in run")
    r = w.kosa8("sandbox", "pull", "box", "NOT A NAME")
    ok(r.code == 1, "a name that is none", r.err)
    listed = {ref for r in rows(w, "sandbox", "images", "box") for ref in r["refs"]}
    ok(IMAGE in listed, "sandbox images", listed)
    archive = f"{w.dir}/archive.tar"
    with open(archive, "wb") as f:
        f.write(b"tar")
    r = w.kosa8("image", "load", archive)
    ok(r.code == 0 and "example.com/loaded:1" in r.out and said(r, "ignored"), "load",
       r.out, r.err)
    refs = [f"python@sha256:{'a' * 64}", f"python:3@sha256:{'a' * 64}", "python@OWN", "python:3@OWN"]
    r = w.kosa8("image", "load", archive, env={"KOSA8_FAKE_REFS": json.dumps(refs)})
    ok(r.code == 0 and r.err.count("only a pull gives") == len(refs), "no digest as a name", r.err)
    listed = w.kosa8("image", "ls", "--json").out
    ok("example.com/loaded:1" in listed and "@sha256" not in listed, "whatever the worker says", listed)
    r = w.kosa8("image", "load", "--platform", "linux/arm64", w.dir)
    ok(r.code == 0 and "example.com/linux/arm64" in r.out, "load --platform reaches the worker", r.out)
    r = w.kosa8("image", "load", f"{w.dir}/a.sock")
    ok(r.code == 1 and r.err.count("a.sock") == 1, "control: a path is said once", r.err)
    with socket.socket(socket.AF_UNIX) as s:
        s.bind(f"{w.dir}/a.sock")
        r = w.kosa8("image", "load", f"{w.dir}/a.sock")
    ok(r.code == 1 and r.err.count("a.sock") == 1 and said(r, "is a socket"), "a socket", r.err)
    r = w.kosa8("image", "load", "-", input="archive on stdin")
    ok(r.code == 0 and r.out.startswith("sha256:"), "load from stdin", r.err)
    r = w.kosa8("image", "import", archive, "rootfs:2")
    ok(r.code == 0 and re.fullmatch(r"sha256:[0-9a-f]{64}\n", r.out), "import", r.err)
    ok("docker.io/library/rootfs:2" in w.kosa8("image", "ls").out, "has its name")
    ok(w.kosa8("image", "load", w.dir).code == 0, "load of a folder")
    for args in (["load", w.dir + "/none"], ["import", w.dir, "x"], ["import", archive, "a@b"]):
        r = w.kosa8("image", *args)
        ok(r.code == 1 and r.err.startswith("kosa8: "), f"image {args[0]} refused", r.err)
    r = w.kosa8("image", "rm", IMAGE, "rootfs:2", "none:1")
    ok(r.code == 1 and r.out == "removed rootfs:2\n" and said(r, "box", "none"),
       "rm: used, removed, unknown", r.out, r.err)
    files = set(os.listdir(f"{w.home}/images"))
    digests = {r["digest"][7:] + ".sqfs" for r in rows(w, "image", "ls")}
    ok(digests <= files, "every image has its file", digests - files)


DOCUMENTS = {
    "manifest": {"layers": [{"mediaType": "m", "digest": "sha256:aa", "size": 1000},
                            {"mediaType": "m", "digest": "sha256:bb", "size": 2000}]},
    "config": {"created": "2026-01-31T12:00:00Z", "author": "who\x1b[31m",
               "config": {"Env": ["A=b"], "Cmd": ["sh", "-c", "x"], "User": "app",
                          "Labels": {"k": "v"}, "ExposedPorts": {"80/tcp": {}}},
               "rootfs": {"diff_ids": ["sha256:ca", "sha256:cb"]},
               "history": [{"created": "2026-01-31T11:00:00Z", "created_by": "ADD " + "x" * 2000},
                           {"created_by": "ENV A=b", "empty_layer": True}]}}


def image_details(w):
    show = {"KOSA8_FAKE_SHOW": json.dumps(DOCUMENTS)}
    w.kosa8("sandbox", "pull", "box", "example.com/seen:1")
    r = w.kosa8("image", "inspect", "--json", "example.com/seen:1", env=show)
    o, = json.loads(r.out)
    equal((o["config"]["cmd"], o["config"]["user"], o["config"]["exposed_ports"],
           o["config"]["volumes"], o["config"]["entrypoint"], o["sandboxes"], o["blobs_bytes"]),
          (["sh", "-c", "x"], "app", ["80/tcp"], [], None, ["box"], 4), "inspect --json")
    equal([(p["digest"], p["size"], p["diff_id"]) for p in o["layers"]],
          [("sha256:aa", 1000, "sha256:ca"), ("sha256:bb", 2000, "sha256:cb")], "its layers")
    r = w.kosa8("image", "inspect", "example.com/seen:1", env=show)
    ok(r.code == 0 and "\x1b" not in r.out and '["sh","-c","x"]' in r.out and "diff id" in r.out,
       "inspect", r.out, r.err)
    r = w.kosa8("image", "history", "example.com/seen:1", "--json", env=show)
    equal([(h["empty_layer"], h["size_bytes"], h["layer"], len(h["created_by"] or ""))
           for h in json.loads(r.out)],
          [(False, 2000, "sha256:bb", 0), (True, 0, None, 7), (False, 1000, "sha256:aa", 2004)],
          "history: the newest first, and a layer that it leaves out")
    lines = w.kosa8("image", "history", "example.com/seen:1", env=show).out.splitlines()
    ok("x" * 53 + "..." in lines[-1] and len(lines[-1]) < 110, "a table, cut", lines)
    ok("x" * 2000 in w.kosa8("image", "history", "--no-trunc", "example.com/seen:1", env=show).out,
       "--no-trunc")
    for documents in ({"manifest": {}, "config": {}},
                      {"manifest": {"layers": [1, {}]}, "config": {"history": [1, {}], "config": [],
                                                                   "rootfs": 7}}):
        env = {"KOSA8_FAKE_SHOW": json.dumps(documents)}
        for command in ("inspect", "history"):
            for flags in ([], ["--json"]):
                equal(w.kosa8("image", command, "example.com/seen:1", *flags, env=env).code, 0,
                      f"{command} of documents with nothing in them")
    equal(w.kosa8("image", "inspect", "example.com/seen:1",
                  env={"KOSA8_FAKE_SHOW": '{"manifest": []}'}).code, 1, "that are none")


def image_names(w):
    digest = w.kosa8("image", "pull", "example.com/named:1").out.strip()
    for text in (digest, digest[:19], digest[7:19], digest[7:13]):
        equal(w.kosa8("image", "tag", text, "named:2").code, 0, f"found by {text[:20]}")
    r = w.kosa8("image", "tag", digest[7:12], "named:3")
    ok(r.code == 1 and said(r, "not here"), "five digits are too few", r.err)
    equal(w.kosa8("image", "tag", digest, digest[7:19]).code, 0, "a name that looks like a digest")
    other = w.kosa8("image", "pull", "example.com/other:1").out.strip()
    equal(w.kosa8("image", "tag", other, digest[7:19]).code, 0, "given to another image")
    r = w.kosa8("image", "rm", digest[7:19])
    ok(r.code == 1 and said(r, "is the name of an image and the beginning of " + digest,
                            f"{digest[7:19]}:latest", f"sha256:{digest[7:19]}"),
       "a name that is the beginning of another's digest", r.err)
    equal(w.kosa8("image", "tag", f"sha256:{digest[7:19]}", "named:4").code, 0, "the digest is meant")
    digests = {ref: i["digest"] for i in rows(w, "image", "ls") for ref in i["refs"]}
    equal(digests["docker.io/library/named:4"], digest, "and found")
    equal(w.kosa8("image", "rm", "named:4").code, 0, "it goes")
    equal(w.kosa8("image", "rm", f"{digest[7:19]}:latest").out, f"untagged {digest[7:19]}:latest\n",
          "the name is meant")
    for name in ("sha256:" + digest[7:19], "sha256", digest[7:]):
        r = w.kosa8("image", "tag", other, name)
        ok(r.code == 1 and said(r, "could be meant as a digest"), f"no name: {name[:20]}", r.err)
    r = w.kosa8("image", "rm", "sha256:0000000000")
    ok(r.code == 1 and said(r, "not here"), "the beginning of no digest", r.err)
    equal(w.kosa8("image", "rm", "named:2").out, "untagged named:2\n", "one name of two")
    equal(w.kosa8("image", "rm", digest[:20]).out, f"removed {digest[:20]}\n", "by digest")
    r = w.kosa8("image", "rm", "example.com/othre:1", other)
    ok(r.code == 1 and said(r, "try: example.com/other:1"), "the nearest name", r.err)
    equal(w.kosa8("image", "tag", "example.com/seen:1", "x@" + digest).code, 1, "no digest as name")


def local_pull(w):
    """What is known by its digest needs no worker: here there is none."""
    digest = w.kosa8("image", "pull", "example.com/local:1").out.strip()
    none = {"KOSA8_LIBEXEC": w.dir + "/none"}
    for text in (digest, digest[7:20], "example.com/local@" + digest, "else.example.com/x@" + digest):
        r = w.kosa8("sandbox", "pull", "box", text, env=none)
        equal((r.code, r.out.strip()), (0, digest), f"by {text[:30]}")
    equal(w.kosa8("sandbox", "pull", "box", "example.com/local:1", env=none).code, 1,
          "control: a tag needs it")
    equal(w.kosa8("image", "pull", "--platform", "linux/arm64", "example.com/local@" + digest,
                  env=none).code, 1, "and so does another platform")
    r = w.kosa8("image", "pull", "--platform", "linux/arm64", "example.com/arm:1")
    equal(r.code, 0, "another platform is pulled")
    r = w.kosa8("sandbox", "run", "box", "example.com/arm:1", "exit", "0")
    ok(r.code == 125 and said(r, "for linux/arm64 only", "an image for linux/amd64"), "not run", r.err)


def save(w):
    path = f"{w.dir}/saved.tar"
    with open(path, "w", encoding="ascii") as f:
        f.write("former")
    r = w.kosa8("image", "save", "-o", path, "example.com/seen:1", env={"KOSA8_FAKE": "saves"})
    with open(path, encoding="ascii") as f:
        equal((r.code, f.read()), (1, "former"), "a save that fails leaves the former file")
    equal([n for n in os.listdir(w.dir) if n.startswith("saved")], ["saved.tar"], "and nothing else")
    for to in (path, "/dev/full"):
        r = w.kosa8("image", "save", "-o", to, "example.com/seen:1", env={"KOSA8_FAKE": "full"})
        ok(r.code == 1 and said(r, f"{to} could not be written") and "KOSA8_HOME" not in r.err,
           "a full disk is that of the file", r.err)
    r = w.kosa8("image", "save", "-o", path, "example.com/seen:1")
    with open(path, encoding="ascii") as f:
        data = f.read()
    ok(r.code == 0 and re.fullmatch("archive of sha256:[0-9a-f]{64}=example.com/seen:1", data),
       "saved under its name", data)
    ok(w.kosa8("image", "save", "example.com/seen:1").out.startswith("archive"), "to stdout")
    os.chmod(path, 0o640)
    equal(w.kosa8("image", "save", "-o", path, "example.com/seen:1").code, 0, "over a file")
    equal(os.stat(path).st_mode & 0o7777, 0o640, "that keeps its mode")
    link, nowhere = f"{w.dir}/link.tar", f"{w.dir}/nowhere.tar"
    os.symlink(path, link)
    equal(w.kosa8("image", "save", "-o", link, "example.com/seen:1").code, 0, "through a link")
    ok(os.path.islink(link) and os.path.getsize(path) == len(data), "which stays one")
    os.unlink(link)
    os.symlink(nowhere, link)
    r = w.kosa8("image", "save", "-o", link, "example.com/seen:1")
    ok(r.code == 1 and said(r, "link that leads nowhere") and os.path.islink(link)
       and not os.path.exists(nowhere), "a link without a file is not replaced", r.err)
    r = w.kosa8("image", "save", "example.com/seen:1", preexec_fn=lambda: os.close(1))
    ok(r.code == 1 and r.err.startswith("kosa8: stdout is closed"), "stdout closed", r.err)
    equal(w.kosa8("image", "save", "-o", "/dev/null", "example.com/seen:1").code, 0, "to a device")
    code, out = w.on_terminal("image", "save", "example.com/seen:1")
    ok(code == 2 and b"terminal" in out and b"archive of" not in out, "not to a terminal", out)
    for to in (w.dir, w.dir + "/none/x"):
        r = w.kosa8("image", "save", "-o", to, "example.com/seen:1")
        ok(r.code == 1 and r.err.startswith("kosa8: "), "nor where it cannot be", r.err)


def interrupt(w):
    before = sorted(os.listdir(f"{w.home}/images"))
    for args, number in ((["image", "pull", "example.com/waits:1"], signal.SIGINT),
                         (["sandbox", "run", "box", "example.com/waits:1"], signal.SIGTERM)):
        p = w.start(*args, stdout=subprocess.PIPE, stderr=subprocess.PIPE, stdin=subprocess.DEVNULL)
        ok(p.stderr.readline() == b"waiting\n", "at work")
        p.send_signal(number)
        out, err = p.communicate(timeout=20)
        equal((p.returncode, out), (128 + number, b""), f"{number.name}: exit status")
        ok(err.count(b"\n") == 1 and b"next pull continues" in err, "one line", err)
    equal(sorted(os.listdir(f"{w.home}/images")), before, "nothing was left")
    ok(("image.pull", "cancelled") in actions(w), "it is recorded")


def prune(w):
    listed = rows(w, "image", "ls")
    used = {r["digest"] for r in rows(w, "sandbox", "images", "box")}
    r = w.kosa8("image", "prune", "--json")
    o = json.loads(r.out)
    equal({i["digest"] for i in o["images"]}, {r["digest"] for r in listed} - used, "prune")
    ok(o["freed_bytes"] > 0 and o["removed_files"] >= len(o["images"]), "says what went", o)
    equal({r["digest"] for r in rows(w, "image", "ls")}, used, "what is used stays")
    equal(w.kosa8("image", "prune").out, "freed 0 B\n", "and then there is nothing to do")
    files = {n for n in os.listdir(f"{w.home}/images") if n.endswith(".sqfs")}
    equal(files, {d[7:] + ".sqfs" for d in used}, "no file is left over")


def checkpoints(w):
    r = w.kosa8("checkpoint", "box", "--label", "clean")
    ok(r.code == 0 and re.fullmatch(r"[0-9a-f]{16}\n", r.out), "checkpoint prints its id", r.err)
    first = r.out.strip()
    r = w.kosa8("checkpoint", "box", "--label", "clean")
    ok(r.code == 1 and said(r, "clean"), "a label is taken", r.err)
    r = w.kosa8("checkpoint", "box", "--label", "new\nline")
    ok(r.code == 1 and said(r, "printable"), "a label that is none", r.err)
    w.kosa8("checkpoint", "box", "--label", "caf\u00e9")
    listed = rows(w, "checkpoint", "ls", "box")
    equal([(c["label"], c["current"]) for c in listed], [("clean", False), ("caf\u00e9", True)],
          "checkpoint ls --json")
    equal(listed[1]["parent"], first, "with parents")
    table = w.kosa8("checkpoint", "ls", "box").out.splitlines()
    ok(len(table) == 3 and table[0].split() == ["ID", "LABEL", "CREATED", "SIZE", "PAUSE", "PARENT"]
       and "41.5 ms" in table[1] and " * " in table[2], "checkpoint ls", table)
    ok(table[1].index("clean") == table[2].index("caf") == table[0].index("LABEL"), "is aligned")
    r = w.kosa8("rewind", "box", "--to", "clean")
    ok(r.code == 1 and said(r, "--yes"), "rewind without a terminal needs --yes", r.err)
    r = w.kosa8("rewind", "box", "--to", "claen", "--yes")
    ok(r.code == 1 and said(r, "claen", "clean"), "the nearest label", r.err)
    r = w.kosa8("rewind", "box", "--to", "clean", "--yes")
    ok(r.code == 0 and r.out == "", "rewind", r.err)
    equal([c["current"] for c in rows(w, "checkpoint", "ls", "box")], [True, False], "is back")
    for answer, code in (("n\n", 1), ("y\n", 0)):
        master, slave = pty.openpty()
        p = w.start("rewind", "box", stdin=slave, stdout=subprocess.PIPE, stderr=slave)
        os.write(master, answer.encode())
        equal(p.wait(20), code, f"asked on a terminal: {answer.strip()}")
        os.close(slave)
        os.close(master)
    r = w.kosa8("sandbox", "stop", "box")
    ok(r.code == 0, "stop", r.err)
    equal(state(w, "box"), "stopped", "the state is true at once")
    r = w.kosa8("checkpoint", "rm", "box", "caf\u00e9")
    ok(r.code == 0, "checkpoint rm of a stopped sandbox", r.err)
    folder = rows(w, "sandbox", "ls")[0]["id"]
    equal(os.listdir(f"{w.home}/sandboxes/{folder}/checkpoints"), [first], "its files are gone")
    r = w.kosa8("rewind", "box", "--yes")
    ok(r.code == 0 and state(w, "box") == "running", "rewind starts a stopped sandbox", r.err)


def states(w):
    r = w.kosa8("sandbox", "start", "box")
    ok(r.code == 0 and said(r, "running already"), "start of a running one", r.err)
    r = w.kosa8("sandbox", "rm", "box")
    ok(r.code == 1 and said(r, "running", "--force"), "rm refuses a running one", r.err)
    os.kill(w.pids()[-1], signal.SIGKILL)
    ok(w.wait_for(lambda: state(w, "box") == "crashed"), "a killed supervisor is a crash")
    for args, code in ((["checkpoint", "box"], 1), (["sandbox", "run", "box", IMAGE, "exit"], 125)):
        r = w.kosa8(*args)
        ok(r.code == code and said(r, "crashed", "sandbox start box"), f"{args[0]}: crashed", r.err)
    r = w.kosa8("sandbox", "start", "box")
    ok(r.code == 0 and state(w, "box") == "running", "start after a crash", r.err)
    os.kill(w.pids()[-1], signal.SIGKILL)
    w.wait_for(lambda: state(w, "box") == "crashed")
    r = w.kosa8("sandbox", "stop", "box")
    ok(r.code == 0 and state(w, "box") == "stopped", "stop after a crash", r.err)
    r = w.kosa8("sandbox", "stop", "box")
    ok(r.code == 0 and said(r, "stopped already"), "stop of a stopped one", r.err)
    w.kosa8("sandbox", "create", "many", env={"KOSA8_FAKE": "stops"})
    stops = [w.start("sandbox", "stop", "many", stderr=subprocess.PIPE) for _ in range(3)]
    ends = sorted((p.wait(30), p.stderr.read()) for p in stops)
    equal(ends, [(0, b"")] + [(0, b"many is stopped already\n")] * 2, "three stops at once")
    w.kosa8("sandbox", "rm", "many")
    w.kosa8("sandbox", "create", "deaf", env={"KOSA8_FAKE": "deaf"})
    deaf = w.pids()[-1]
    r = w.kosa8("sandbox", "rm", "--force", "none", "deaf", "box")
    ok(r.code == 1 and r.out == "deaf\nbox\n" and said(r, "none"),
       "rm of several, one missing, one that does not answer", r.out, r.err)
    ok(w.gone(deaf), "that one was ended")
    equal(os.listdir(f"{w.home}/sandboxes"), [], "no folder is left")


def parallel(w):
    results = []
    threads = [threading.Thread(target=lambda: results.append(w.kosa8("sandbox", "create", "one")))
               for _ in range(20)]
    for t in threads:
        t.start()
    for t in threads:
        t.join()
    equal(sorted(r.code for r in results), [0] + [1] * 19, "20 creates at once: one wins")
    ok(all(r.code == 0 or "one" in r.err for r in results), "the others say why")
    equal(len(os.listdir(f"{w.home}/sandboxes")), 1, "and leave nothing")
    good = True
    for _ in range(10):
        good = good and w.kosa8("sandbox", "rm", "-f", "one").code == 0
        good = good and w.kosa8("sandbox", "create", "one").code == 0
    ok(good, "rm -f and create in a loop")
    w.kosa8("sandbox", "rm", "-f", "one")


def audit(w):
    listed = actions(w)
    # The end of a start is the supervisor's to record, which the scripted one does not do.
    for action, result in (("sandbox.create", "cut off"), ("sandbox.create", "unavailable"),
                           ("sandbox.create", "exists"), ("image.pull", "ok"),
                           ("image.pull", "not_found"), ("image.load", "ok"),
                           ("image.import", "ok"), ("image.rm", "ok"), ("image.tag", "ok"),
                           ("image.prune", "ok"), ("sandbox.start", "cut off"),
                           ("sandbox.stop", "ok"), ("checkpoint.rm", "ok"),
                           ("sandbox.rm", "ok")):
        ok((action, result) in listed, f"recorded: {action} {result}")
    created = next(r for r in rows(w, "audit", "ls") if r["action"] == "sandbox.create")
    ok(len(created["bound"]["policy"]) == 64, "create is bound to its policy", created)
    pulled = next(r for r in rows(w, "audit", "ls")
                  if r["action"] == "image.pull" and r["result"] == "ok")
    ok(pulled["end"]["bound"]["image"].startswith("sha256:"), "pull to its image", pulled)
    r = w.kosa8("audit", "verify")
    ok(r.code == 0 and re.fullmatch(r"ok: \d+ records, head [0-9a-f]{64}\n", r.out), "verify",
       r.out, r.err)
    table = w.kosa8("audit", "ls", "--sandbox", "box").out.splitlines()
    ok(table[0].split() == ["SEQ", "TIME", "ACTOR", "ACTION", "SANDBOX", "RESULT", "DETAIL"]
       and all(" box " in line for line in table[1:]), "ls --sandbox")
    equal(rows(w, "audit", "ls", "--since", "2100-01-01T00:00:00Z"), [], "--since a time")
    equal(len(rows(w, "audit", "ls", "--since", "1h")), len(listed), "--since an age")
    with open(f"{w.home}/audit/log.jsonl", "rb") as f:
        log = f.read()
    exported = w.kosa8("audit", "export", text=False).out
    ok(exported.startswith(log) and json.loads(exported[len(log):])["count"], "export")
    p = w.start("audit", "ls", "-f", "--json", "--since", "2100-01-01T00:00:00Z",
                stdout=subprocess.PIPE, stdin=subprocess.DEVNULL)
    p.kill()
    p.wait()
    p = w.start("audit", "ls", "-f", stdout=subprocess.PIPE, stdin=subprocess.DEVNULL, text=True)
    for _ in range(len(listed) + 1):
        last = p.stdout.readline()
    w.kosa8("image", "pull", "example.com/again:1")
    ok("image.pull" in p.stdout.readline(), "-f shows what comes", last)
    p.kill()
    p.wait()
    with open(f"{w.home}/audit/log.jsonl", "r+b") as f:
        f.seek(log.index(b'"action"') + 11)
        f.write(b"X")
    r = w.kosa8("audit", "verify")
    ok(r.code == 1 and said(r, "damaged", "record 1"), "verify names the damage", r.err)
    r = w.kosa8("audit", "verify", "--json")
    ok(r.code == 1 and json.loads(r.out)["first_bad"] == 1, "as JSON, too", r.out)


def others(w):
    r = w.kosa8("version")
    ok(r.code == 0 and "kosa8 " in r.out and "7.2.0" in r.out, "version", r.out, r.err)
    equal(json.loads(w.kosa8("version", "--json").out)["qemu"], "7.2.0", "version --json")
    equal(w.kosa8("version", env={"KOSA8_LIBEXEC": "/none"}).code, 0, "without an engine, too")
    r = w.kosa8("doctor")
    ok(r.code == 0 and "accelerator" in r.out and "enable virtualisation" in r.out, "doctor",
       r.out, r.err)
    equal(w.kosa8("doctor", env={"KOSA8_FAKE": "fail"}).code, 1, "a failed check is exit 1")
    r = w.kosa8("doctor", env={"KOSA8_LIBEXEC": "/none"})
    ok(r.code == 1 and "kosa8-image" in r.out, "missing programs are named", r.out)
    ok(json.loads(w.kosa8("doctor", "--json").out)["ok"], "doctor --json")
    ok({"images", "sandboxes"} <= {r["type"] for r in rows(w, "system", "df")}, "system df")
    with open("/dev/full", "wb") as f:
        r = subprocess.run([w.program, "sandbox", "ls"], stdout=f, stderr=subprocess.PIPE,
                           env=w.env, text=True, check=False)
    ok(r.returncode == 1 and "writing the output" in r.stderr, "a full disk is an error", r.stderr)
    r = subprocess.run(["sh", "-c", f"'{w.program}' sandbox ls <&- 2>&- | cat"], env=w.env,
                       capture_output=True, text=True, check=False)
    ok("NAME" in r.stdout, "closed standard streams", r)
    long_home = w.dir + "/" + "/".join(["d" * 50] * 3)
    r = w.kosa8("sandbox", "create", "far", env={"KOSA8_HOME": long_home})
    ok(r.code == 0, "a long path of the state folder", r.err)
    equal(w.kosa8("sandbox", "rm", "-f", "far", env={"KOSA8_HOME": long_home}).code, 0, "and back")


def terminal(w):
    w.kosa8("sandbox", "create", "seen")
    ok(b"\x1b[1mNAME\x1b[0m" in w.on_terminal("sandbox", "ls")[1], "colour on a terminal")
    ok(b"\x1b" not in w.on_terminal("sandbox", "ls", env={"NO_COLOR": "1"})[1], "NO_COLOR")
    ok("\x1b" not in w.kosa8("sandbox", "ls").out, "no colour elsewhere")
    code, out = w.on_terminal("sandbox", "pull", "seen", "example.com/shown:1")
    ok(code == 0 and b"unpacked" in out and b"1.0 kB" in out, "progress on a terminal", out)
    code, out = w.on_terminal("sandbox", "pull", "-q", "seen", "example.com/shown:1")
    ok(code == 0 and b"unpacked" not in out, "not with --quiet", out)
    r = w.kosa8("sandbox", "pull", "seen", "example.com/shown:1")
    ok(r.err.count("layer ") == 1 and "1.0 kB" in r.err and "unpacked 5.0 kB" in r.err
       and "\x1b" not in r.err, "plain lines elsewhere", r.err)
    code, out = w.on_terminal("sandbox", "run", "seen", "example.com/shown:1", "spew", "200000")
    equal((code, out.count(b"x")), (0, 200000), "a run's output on a terminal")
    with open(f"{w.home}/requests.jsonl", encoding="utf-8") as f:
        equal(json.loads(f.readlines()[-1])["actor"]["kind"], "human", "whose user is human")
    w.kosa8("sandbox", "rm", "-f", "seen")


def flags_of(text):
    return sorted(set(re.findall(r"--([a-z][a-z-]*)", text)) - {"help"})


def documents(w):
    man = w.kosa8("__man").out
    completion = w.kosa8("__completion").out
    for section in man.replace("\\-", "-").split(".SH EXIT")[0].split('.SS "kosa8 ')[1:]:
        title = re.match(r"[a-z]+( [a-z]+){0,2}", section).group(0)
        shown = w.kosa8(*title.split(), "--help").out.partition("flags:")[2]
        in_man = flags_of("\n".join(re.findall(r"^\.TP\n(.*)$", section, re.M)))
        offered = re.search(f'"{title}"\\) .*flags="(.*)"', completion).group(1)
        equal((flags_of("\n".join(line[:30] for line in shown.splitlines())), flags_of(offered)),
              (in_man, in_man), f"help, man page and completion agree: {title}")
    table = [line[5:-1].split(" [")[0] for line in man.splitlines() if line.startswith(".SS")]
    ok(len(table) > 30, "the man page has the commands", table)
    path = f"{w.dir}/kosa8.1"
    with open(path, "w", encoding="utf-8") as f:
        f.write(man)
    r = subprocess.run(["groff", "-man", "-Tutf8", "-ww", path], capture_output=True, text=True,
                       check=False)
    ok(r.returncode == 0 and r.stderr == "" and "checkpoint" in r.stdout,
       "groff has nothing to say about it", r.stderr)
    with open(f"{w.dir}/complete", "w", encoding="utf-8") as f:
        f.write(w.kosa8("__completion").out)
    w.kosa8("sandbox", "create", "tabbed")

    def offers(*words):
        script = (f"source '{w.dir}/complete'; kosa8() {{ '{w.program}' \"$@\"; }}; "
                  f"COMP_WORDS=({' '.join(map(repr, words))}); COMP_CWORD={len(words) - 1}; "
                  "_kosa8; printf '%s\\n' \"${COMPREPLY[@]}\"")
        r = subprocess.run(["bash", "-c", script], env=w.env, capture_output=True, text=True,
                           check=False)
        return r.stdout.split() + r.stderr.split()
    equal(offers("kosa8", "sand"), ["sandbox"], "completion: a group")
    equal(offers("kosa8", "sandbox", "cr"), ["create"], "a command")
    equal(offers("kosa8", "sandbox", "stop", "tab"), ["tabbed"], "a sandbox")
    equal(offers("kosa8", "sandbox", "create", "--cp"), ["--cpus"], "a flag")
    equal(offers("kosa8", "checkpoint", "ta"), ["tabbed"], "a sandbox after a group")
    equal(offers("kosa8", "rewind", "--y"), ["--yes"], "a flag of a single word")
    ok("tabbed" in offers("kosa8", "checkpoint", "ls", ""), "a sandbox after checkpoint ls")
    w.kosa8("sandbox", "rm", "-f", "tabbed")


def main():
    with World() as w:
        for part in (usage, not_yet, create, images, image_details, image_names, local_pull, save, interrupt,
                     prune, checkpoints, states, parallel, others,
                     terminal, documents, audit):
            part(w)
    return done()


sys.exit(main())
