# SPDX-License-Identifier: Apache-2.0
"""run -d, ps, logs, kill, wait and rm of containers, against a scripted supervisor that says what
no honest one would."""
import json
import os
import signal
import struct
import subprocess
import sys
import time

from harness import World, done, equal, ok

IMAGE = "example.com/box:1"
OUT, ERR, LOST, LIVE = range(1, 5)
SECOND = 10 ** 9


def record(which, data=b"", ns=SECOND):
    return struct.pack("<QIBBH", ns, len(data), which, 0x4C, 0) + data


def log(w, name, *records, live=None):
    with open(f"{w.home}/log-{name}", "wb") as f:
        f.write(b"".join(records))
    if live is not None:
        with open(f"{w.home}/log-{name}.live", "wb") as f:
            f.write(b"".join(live))


def logs(w, *args):
    r = w.kosa8("sandbox", "logs", *args, text=False)
    return r.code, r.out, r.err


def last_request(w):
    with open(f"{w.home}/requests.jsonl", encoding="utf-8") as f:
        return json.loads(f.readlines()[-1])


def detached(w):
    r = w.kosa8("sandbox", "run", "-d", "--name", "Web_1", "--cpus", "0.5", "--memory", "64",
                "--pids", "9", "--timeout", "9s", "box", IMAGE, "serve")
    equal((r.code, r.out, r.err), (0, "0123456789ab\n", ""), "run -d prints the id")
    q = last_request(w)
    equal((q["detach"], q["name"], q["cpu_milli"], q["memory_bytes"], q["pids"], q["timeout_ms"],
           q["image_name"]), (True, "Web_1", 500, 64 << 20, 9, 9000, IMAGE), "with its limits")
    for cpus, milli in (("2", 2000), ("1.25", 1250), (".001", 1), ("1024", 1024000), ("0.1", 100)):
        w.kosa8("sandbox", "run", "-d", "--cpus", cpus, "box", IMAGE)
        equal(last_request(w)["cpu_milli"], milli, f"--cpus {cpus}")
    for cpus in ("0", "", ".", "1.", "-1", "1.0001", "1025", "1024.5", "two", "1e3", "0x1", "1.+5"):
        r = w.kosa8("sandbox", "run", "--cpus", cpus, "box", IMAGE)
        ok(r.code == 2 and "--cpus" in r.err, f"--cpus {cpus!r} is refused", r.code, r.err)
    for name in ("_x", "", "a/b", "a b", "x" * 64, "\u00e9"):
        r = w.kosa8("sandbox", "run", "--name", name, "box", IMAGE)
        ok(r.code == 125 and "cannot name" in r.err, f"--name {name[:9]!r} is refused", r.err)
    reader, writer = os.pipe()
    r = w.kosa8("sandbox", "run", "-d", "-i", "box", IMAGE, stdin=reader)
    os.close(reader)
    os.close(writer)
    ok(r.code == 0 and last_request(w)["stdin"], "-d -i does not wait for stdin", r.err)


def container(**members):
    return {"id": "0123456789ab", "name": "web", "image": "00" * 32, "image_name": IMAGE,
            "command": "serve", "state": "running", "created_ns": time.time_ns() - 190 * SECOND,
            "processes": 2, "memory_bytes": 1000, "kept": True, **members}


def ended(how, code=0, seconds=120, **members):
    return container(state="ended", how=how, code=code,
                     ended_ns=time.time_ns() - seconds * SECOND, **members)


def ps(w):
    def set_list(*containers):
        with open(f"{w.home}/ps.json", "w", encoding="utf-8") as f:
            json.dump(containers, f)

    def status():
        return w.kosa8("sandbox", "ps", "-a", "box").out.splitlines()[1].split("   ")[-1].strip()
    set_list(container(), ended("exited", 3, id="ba9876543210", name=""))
    lines = w.kosa8("sandbox", "ps", "box").out.splitlines()
    equal(lines[0].split(), ["ID", "NAME", "IMAGE", "COMMAND", "CREATED", "STATUS"], "ps: header")
    equal(lines[1].split("   ")[-1], "Up 3 minutes", "running")
    equal((len(lines), lines[1].split()[:4]), (2, ["0123456789ab", "web", IMAGE, "serve"]),
          "only what runs")
    cut = [("x" * 39 + "\\x1b", "x" * 39), ("x" * 37 + "\\x1bz", "x" * 37), ("x" * 36 + "\\x1bz", "x" * 36 + "\\x1b")]
    set_list(*[container(command=text) for text, _ in cut])
    lines = w.kosa8("sandbox", "ps", "box").out.splitlines()[1:]
    equal([line.split()[3] for line in lines], [want for _, want in cut],
          "a command is not cut inside of what is escaped")
    set_list(container(), ended("exited", 3, id="ba9876543210", name=""))
    equal(len(w.kosa8("sandbox", "ps", "--all", "box").out.splitlines()), 3, "--all")
    equal(w.kosa8("sandbox", "ps", "-aq", "box").out, "0123456789ab\nba9876543210\n", "-q")
    rows = json.loads(w.kosa8("sandbox", "ps", "--json", "-a", "box").out)
    equal(sorted(rows[0]), sorted(["id", "name", "image", "image_name", "command", "state", "how",
                                   "code", "oom", "created", "ended", "processes", "memory_bytes",
                                   "kept", "tty", "stdin", "attached"]), "--json: all members")
    equal((rows[0]["how"], rows[0]["ended"], rows[1]["how"], rows[1]["code"], rows[1]["state"]),
          (None, None, "exited", 3, "ended"), "--json: values")
    ok(rows[0]["created"].endswith("Z"), "--json: times", rows[0])
    for one, want in (
            (ended("exited", 0), "Exited (0) 2 minutes ago"),
            (ended("exited", 137, oom=True), "Exited (137) 2 minutes ago, out of memory"),
            (ended("signaled", 9, oom=True), "Exited (137) 2 minutes ago, out of memory"),
            (ended("signaled", 9), "Ended by signal 9, 2 minutes ago"),
            (ended("timeout"), "Timed out 2 minutes ago"),
            (ended("killed"), "Killed 2 minutes ago"),
            (ended("lost"), "Lost 2 minutes ago: the sandbox was stopped"),
            (container(state="starting"), "Starting"),
            (ended("exited", 0, 1), "Exited (0) 1 second ago"),
            (ended("exited", 0, -100), "Exited (0) Less than a second ago"),
            (ended("exited", 0, 59), "Exited (0) 59 seconds ago"),
            (ended("exited", 0, 61), "Exited (0) About a minute ago"),
            (ended("exited", 0, 3700), "Exited (0) About an hour ago"),
            (ended("exited", 0, 86400 * 3), "Exited (0) 3 days ago"),
            (ended("exited", 0, 86400 * 30), "Exited (0) 4 weeks ago")):
        set_list(one)
        equal(status(), want, f"status: {want}")
    set_list(container(command="\x1b[2Jecho \u202e\n" + "\u00e9" * 100, image_name="\x1b]0;x\x07",
                       name="\r\x9b31m"))
    r = w.kosa8("sandbox", "ps", "box")
    ok(not any(c in r.out for c in ("\x1b", "\r", "\u202e", "\x9b", "\x07"))
       and len(r.out.splitlines()) == 2, "what the guest says is escaped", r.out)
    set_list(container(image_name="", image="ab" * 32))
    ok("abababab" in w.kosa8("sandbox", "ps", "box").out, "an image without a name: its digest")
    for bad in ([3], ["x"], [container(state="dead")], [ended("vanished")], [container(id=7)],
                [container(name="x" * 2000)], [container(created_ns=-1)], [container()] * 257):
        set_list(*bad)
        r = w.kosa8("sandbox", "ps", "-a", "box")
        ok(r.code == 1 and r.err.startswith("kosa8: "), f"a bad list: {str(bad)[:60]}", r.out, r.err)
    r = w.kosa8("sandbox", "ps", "bpx")
    ok(r.code == 1 and "box" in r.err, "ps of no sandbox", r.err)


def logs_shown(w):
    every = bytes(range(256)) * 300
    log(w, "exact", record(OUT, every[:30000]), record(ERR, every[::-1][:32768]),
        record(OUT, every[30000:60000]), record(OUT, b""))
    equal(logs(w, "box", "exact"), (0, every[:60000], every[::-1][:32768]), "logs are exact")
    log(w, "times", record(OUT, b"one\ntwo", 1_700_000_000_123_000_000),
        record(ERR, b"err\n", 1_700_000_001 * SECOND), record(OUT, b" more\nthree\n", 1_700_000_002 * SECOND))
    stamp = "2023-11-14T22:13:{}Z ".format
    equal(logs(w, "-t", "box", "times"),
          (0, (stamp("20.123") + "one\n" + stamp("20.123") + "two more\n" + stamp("22.000") +
               "three\n").encode(), (stamp("21.000") + "err\n").encode()), "--timestamps")
    equal(logs(w, "--tail", "2", "box", "times"), (0, b"three\n", b"err\n"),
          "--tail 2: the last lines of both")
    equal(logs(w, "--tail", "3", "box", "times"), (0, b"two more\nthree\n", b"err\n"), "--tail 3")
    equal(logs(w, "--tail", "0", "box", "times"), (0, b"", b""), "--tail 0")
    equal(logs(w, "--tail", "99", "box", "times")[1], b"one\ntwo more\nthree\n", "--tail 99")
    equal(logs(w, "--tail", "all", "box", "times")[1], b"one\ntwo more\nthree\n", "--tail all")
    r = w.kosa8_both("sandbox", "logs", "-t", "box", "times")
    equal(r, (0, (stamp("20.123") + "one\n" + stamp("20.123") + "two\n" + stamp("21.000") + "err\n" +
                  stamp("22.000") + " more\n" + stamp("22.000") + "three\n").encode()),
          "--timestamps 2>&1: no line inside another")
    mixed = [b"%d %s\n" % (i, b"x" * (i % 3 * 4000)) for i in range(300)]
    log(w, "mixed", *[record(OUT if i % 2 else ERR, text) for i, text in enumerate(mixed)])
    equal(w.kosa8_both("sandbox", "logs", "box", "mixed"), (0, b"".join(mixed)),
          "2>&1: in the order of the records")
    code, out = w.kosa8_both("sandbox", "logs", "-t", "box", "mixed")
    equal((code, b"".join(line.split(b" ", 1)[1] for line in out.splitlines(True))),
          (0, b"".join(mixed)), "2>&1 with times")
    equal(w.kosa8_both("sandbox", "logs", "--tail", "99", "box", "mixed"),
          (0, b"".join(mixed[-99:])), "2>&1 of a tail")
    log(w, "lost", record(LOST), record(OUT, b"rest\n"))
    code, out, err = logs(w, "box", "lost")
    ok(code == 0 and out == b"rest\n" and b"older output is missing" in err, "what is lost is said", err)
    log(w, "empty")
    equal(logs(w, "box", "empty"), (0, b"", b""), "an empty log")
    r = w.kosa8("sandbox", "logs", "--since", "1h", "box", "empty")
    since = last_request(w)["since_ns"]
    ok(r.code == 0 and abs(time.time_ns() - 3600 * SECOND - since) < 60 * SECOND, "--since 1h", since)
    w.kosa8("sandbox", "logs", "--since", "2023-11-14T22:13:20Z", "box", "empty")
    equal(last_request(w)["since_ns"], 1_700_000_000 * SECOND, "--since a time")
    for args in (["--since", "noon"], ["--tail", "-1"], ["--tail", "x"]):
        r = w.kosa8("sandbox", "logs", *args, "box", "empty")
        ok(r.code == 2 and args[0] in r.err, f"logs {args} is refused", r.err)


def logs_followed(w):
    log(w, "live", record(OUT, b"old 1\nold 2\n"), record(LIVE), live=[record(OUT, b"new 1\nnew 2\n")])
    equal(logs(w, "-f", "box", "live"), (0, b"old 1\nold 2\nnew 1\nnew 2\n", b""), "-f")
    equal(logs(w, "-f", "--tail", "1", "box", "live"), (0, b"old 2\nnew 1\nnew 2\n", b""),
          "-f --tail 1: all that is new")
    equal(logs(w, "-f", "--tail", "0", "box", "live"), (0, b"new 1\nnew 2\n", b""), "-f --tail 0")
    log(w, "waits", record(OUT, b"first\n"), record(LIVE))
    for flags in (["-f"], ["-f", "--tail", "5"]):
        p = w.start("sandbox", "logs", *flags, "box", "waits", stdout=subprocess.PIPE,
                    stderr=subprocess.PIPE, stdin=subprocess.DEVNULL)
        equal(p.stdout.readline(), b"first\n", f"{flags}: shown at once")
        p.send_signal(signal.SIGINT)
        equal((p.wait(20), p.stderr.read()), (130, b""), "^C ends it with 130")
        p.stdout.close()
        p.stderr.close()
    p = w.start("sandbox", "logs", "-f", "box", "waits", stdout=subprocess.PIPE,
                stderr=subprocess.PIPE, stdin=subprocess.DEVNULL)
    p.stdout.readline()
    p.stdout.close()
    equal((p.wait(20), p.stderr.read()), (128 + signal.SIGPIPE, b""), "a closed stdout ends it")
    p.stderr.close()


def logs_big(w):
    """More than all windows, to a reader that starts late; and many lines of one byte."""
    line = b"x" * 32767 + b"\n"
    log(w, "big", *[record(OUT, line)] * 600)
    p = w.start("sandbox", "logs", "box", "big", stdout=subprocess.PIPE, stdin=subprocess.DEVNULL)
    p.stdout.read(1)
    time.sleep(0.5)
    with open(f"/proc/{p.pid}/status", encoding="ascii") as f:
        memory = next(int(text.split()[1]) for text in f if text.startswith("VmHWM"))
    ok(memory < 40000, "a slow reader: not hoarded", memory)
    equal((len(p.stdout.read()) + 1, p.wait(20)), (600 * 32768, 0), "all of it comes")
    p.stdout.close()
    code, out, _ = logs(w, "--tail", "2", "box", "big")
    ok(code == 0 and out == line * 2, "the tail of much", len(out))
    log(w, "lines", *[record(OUT, b"\n" * 32768)] * 3)
    code, out, _ = logs(w, "-t", "box", "lines")
    equal((code, out.count(b"Z \n"), len(out)), (0, 3 * 32768, 3 * 32768 * 26), "short lines with times")
    code, out, _ = logs(w, "--tail", "1000", "box", "lines")
    equal((code, len(out)), (0, 1000), "and their tail")
    # More than is ever kept for a tail: the oldest goes, and that is said if it is seen.
    log(w, "endless", *[record(OUT, line)] * 1300)
    code, out, err = logs(w, "--tail", "1200", "box", "endless")
    ok(code == 0 and 0 < len(out) < 1200 * 32768 and out.strip(b"x\n") == b"" and b"missing" in err,
       "a tail that is too long", code, len(out), err)


def logs_hostile(w):
    good = record(OUT, b"good\n")
    for what, bad in (("another magic", good[:13] + b"\0" + good[14:]), ("an unknown stream", record(9)),
                      ("stream 0", record(0)), ("too long", struct.pack("<QIBBH", 1, 40000, 1, 0x4C, 0)),
                      ("4 GB", struct.pack("<QIBBH", 1, 0xFFFFFFFF, 1, 0x4C, 0)),
                      ("a cut header", good[:7]), ("cut data", good[:-1])):
        log(w, "bad", good, bad)
        for flags in ([], ["--tail", "9"], ["-t"]):
            code, out, err = logs(w, *flags, "box", "bad")
            ok(code == 1 and err.count(b"kosa8: ") == 1 and b"no log of bad" in err,
               f"{what} {flags}: an error", code, out, err)
        equal(logs(w, "box", "bad")[1], b"good\n", "what came before is shown")
    log(w, "late", record(OUT, b"x\n", 2 ** 64 - 1), record(OUT, b"y\n", 0))
    code, out, _ = logs(w, "-t", "box", "late")
    ok(code == 0 and out.endswith(b"Z y\n"), "times that are none", out)


def others(w):
    for given, number in ((None, 9), ("TERM", 15), ("sigint", 2), ("SIGHUP", 1), ("10", 10), ("64", 64),
                          ("RTMIN", 34), ("SIGRTMIN+3", 37), ("rtmax-1", 63), ("CHLD", 17)):
        r = w.kosa8("sandbox", "kill", "box", "c1", *(["-s", given] if given else []))
        equal((r.code, r.out, last_request(w)["signal"], last_request(w)["container"]),
              (0, "c1\n", number, "c1"), f"kill -s {given}")
    for bad in ("0", "65", "SIG", "NOPE", "", "RTMIN-1", "RTMAX-99", "-9"):
        r = w.kosa8("sandbox", "kill", f"--signal={bad}", "box", "c1")
        ok(r.code == 2 and "no signal" in r.err, f"kill -s {bad!r}", r.code, r.err)
    r = w.kosa8("sandbox", "kill", "box", "gone")
    ok(r.code == 1 and r.out == "" and "gone" in r.err and "gold" in r.err, "kill: none", r.err)
    for operand in ("", "x" * 64, b"\xff"):
        r = w.kosa8("sandbox", "kill", "box", operand)
        ok(r.code == 1 and "no container" in r.err, f"kill: {operand[:5]!r} is no name", r.err)
    for members, code, said in ((("exited", 3, False), 3, ""), (("signaled", 15, False), 143, ""),
                                (("killed", 0, False), 137, ""), (("lost", 0, False), 125, "was stopped"),
                                (("signaled", 9, True), 137, "out of memory")):
        with open(f"{w.home}/wait.json", "w", encoding="utf-8") as f:
            json.dump(dict(zip(("how", "code", "oom"), members)), f)
        r = w.kosa8("sandbox", "wait", "box", "c1")
        ok(r.code == code and r.out == "" and said in r.err and bool(said) == bool(r.err),
           f"wait: {members}", r.code, r.err)
    p = w.start("sandbox", "wait", "box", "never", stdin=subprocess.DEVNULL)
    ok(w.wait_for(lambda: last_request(w)["container"] == "never"), "wait waits")
    p.send_signal(signal.SIGINT)
    equal(p.wait(20), 130, "and ^C ends it, not the container")


def removal(w):
    w.kosa8("sandbox", "create", "second")
    r = w.kosa8("sandbox", "rm", "box/c1", "box/busy", "second", "box/c2", "nobox/c1")
    equal((r.code, r.out), (1, "box/c1\nbox/c2\n"), "rm: each operand by itself")
    ok("busy runs" in r.err and "try: kosa8 sandbox rm --force box/busy" in r.err
       and "second is running" in r.err and "nobox" in r.err, "and the reasons", r.err)
    r = w.kosa8("sandbox", "rm", "-f", "second", "box/busy")
    equal((r.code, r.out), (0, "second\nbox/busy\n"), "rm --force: both kinds")
    for operand in ("box/", "/c1", "box/" + "x" * 70):
        r = w.kosa8("sandbox", "rm", operand)
        ok(r.code == 1 and r.err.count("kosa8: ") == 1, f"rm {operand[:9]!r}", r.err)
    equal(w.kosa8("sandbox", "stop", "box").code, 0, "stop")
    for args, code in ((["ps", "box"], 1), (["logs", "box", "c"], 1), (["kill", "box", "c"], 1),
                       (["wait", "box", "c"], 125), (["attach", "box", "c"], 125),
                       (["exec", "box", "c", "x"], 125), (["shell", "box", IMAGE], 125),
                       (["rm", "box/c"], 1)):
        r = w.kosa8("sandbox", *args)
        ok(r.code == code and "is stopped" in r.err and "try: kosa8 sandbox start box" in r.err,
           f"of a stopped sandbox: {args}", r.code, r.err)


def main():
    with World() as w:
        equal(w.kosa8("sandbox", "create", "box").code, 0, "create")
        equal(w.kosa8("sandbox", "run", "box", IMAGE, "exit", "0").code, 0, "pull")
        for part in (detached, ps, logs_shown, logs_followed, logs_big, logs_hostile, others, removal):
            part(w)
        w.kosa8("sandbox", "rm", "-f", "box")
    return done()


sys.exit(main())
