# SPDX-License-Identifier: Apache-2.0
"""The scripted supervisor's `copy`: trees (src/proto/tree.h) that are as they should be, and trees
that lie. Which one is told by the last name of the request's path."""
import json
import os
import struct

FILE, DIR, SYMLINK, HARDLINK, SKIPPED, WHITEOUT, OPAQUE, END = range(1, 9)
TIME = 1_000_000_000_123_456_789


def entry(kind, path=b"", target=b"", mode=None, data=b"", size=None, mtime=TIME):
    size = len(data) if size is None else size
    mode = (0o755 if kind == DIR else 0o644) if mode is None else mode
    head = struct.pack("<BIIIqQ", kind, mode, 1234, 5678, mtime, size)
    for s in (path, target):
        head += struct.pack("<I", len(s)) + s
    return struct.pack("<I", len(head)) + head + data


def tree(*entries):
    return b"".join(entries) + entry(END, mode=0, mtime=0)


ROOT = entry(DIR)


def parse(data):
    """[(kind, path, target, mode, mtime, content)], without END."""
    at, out = 0, []
    while True:
        length = struct.unpack_from("<I", data, at)[0]
        kind, mode, _, _, mtime, size = struct.unpack_from("<BIIIqQ", data, at + 4)
        strings, pos = [], at + 4 + 29
        for _ in range(2):
            n = struct.unpack_from("<I", data, pos)[0]
            strings.append(data[pos + 4:pos + 4 + n])
            pos += 4 + n
        assert pos == at + 4 + length
        if kind == END:
            assert pos == len(data)
            return out
        out.append((kind, *strings, mode, mtime, data[pos:pos + size]))
        at = pos + size


OUT = {
    "good": tree(
        ROOT, entry(DIR, b"sub", mode=0o555), entry(FILE, b"sub/f", data=b"content", mode=0o640),
        entry(FILE, b"empty", mode=0o400), entry(SYMLINK, b"link", b"/etc/passwd", mode=0o777),
        entry(HARDLINK, b"hard", b"sub/f"), entry(FILE, b"n\xff\n", data=b"odd"),
        entry(FILE, b"l" * 255, data=b"long")),
    "file": tree(entry(FILE, data=b"one file", mode=0o4751)),
    "link": tree(entry(SYMLINK, target=b"../somewhere")),
    "bits": tree(entry(DIR, mode=0o7777), entry(FILE, b"f", mode=0o6755, data=b"x"),
                 entry(DIR, b"d", mode=0o3770)),
    "devices": tree(ROOT, *[entry(SKIPPED, b"dev/%d" % i) for i in range(14)],
                    entry(SKIPPED, b"dev/\x1b[2J"), entry(FILE, b"f")),
    "device": tree(entry(SKIPPED)),
    "deep": tree(ROOT, *[entry(DIR, b"/".join([b"d"] * i)) for i in range(1, 2000)],
                 entry(FILE, b"/".join([b"d"] * 1999) + b"/f", data=b"deep")),
    "twice": tree(ROOT, entry(FILE, b"f", data=b"first"), entry(FILE, b"f", data=b"second"),
                  entry(DIR, b"d"), entry(DIR, b"d"), entry(FILE, b"d/x", data=b"x")),
    "chaos": tree(ROOT, entry(DIR, b"a"), entry(DIR, b"b"), entry(FILE, b"a/1", data=b"1"),
                  entry(FILE, b"b/1", data=b"1"), entry(FILE, b"a/2", data=b"2")),
}
LIES = {
    "dotdot": tree(ROOT, entry(FILE, b"../../.ssh/k", data=b"evil")),
    "absolute": tree(ROOT, entry(FILE, b"/tmp/evil", data=b"evil")),
    "inner": tree(ROOT, entry(DIR, b"a"), entry(FILE, b"a/../../evil", data=b"evil")),
    "dot": tree(ROOT, entry(FILE, b"./evil", data=b"evil")),
    "empty-name": tree(ROOT, entry(FILE, b"a//evil", data=b"evil")),
    "nul": tree(ROOT, entry(FILE, b"a\0/../evil", data=b"evil")),
    "through": tree(ROOT, entry(SYMLINK, b"l", b".."), entry(FILE, b"l/evil", data=b"evil")),
    "through-dir": tree(ROOT, entry(SYMLINK, b"l", b".."), entry(DIR, b"l", mode=0o777)),
    "root-link": tree(entry(SYMLINK, target=b".."), entry(FILE, b"evil", data=b"evil")),
    "root-twice": tree(ROOT, entry(SYMLINK, target=b"..")),
    "no-root": tree(entry(FILE, b"evil", data=b"evil")),
    "nothing": tree(),
    "hard-out": tree(ROOT, entry(HARDLINK, b"h", b"../canary")),
    "hard-through": tree(ROOT, entry(SYMLINK, b"l", b".."), entry(HARDLINK, b"h", b"l/canary")),
    "hard-host": tree(ROOT, entry(HARDLINK, b"h", b"mine")),
    "hard-link": tree(ROOT, entry(SYMLINK, b"l", b"../canary"), entry(HARDLINK, b"h", b"l")),
    "fifo": tree(ROOT, entry(9, b"pipe")),
    "type-0": tree(ROOT, entry(0, b"pipe")),
    "whiteout": tree(ROOT, entry(WHITEOUT, b"mine")),
    "opaque": tree(ROOT, entry(OPAQUE, b"")),
    "mode": tree(ROOT, entry(FILE, b"f", mode=0o140777)),
    "huge": ROOT + entry(FILE, b"f", size=1 << 63, data=b"x" * 1000),
    "header": ROOT + b"\xff\xff\xff\xff" + b"x" * 100000,
    "after": tree(ROOT) + entry(FILE, b"evil", data=b"evil"),
    "cut": ROOT + entry(FILE, b"f", size=1000, data=b"x" * 500),
    "dir-size": tree(ROOT, entry(DIR, b"d", size=5, data=b"12345")),
    "long-name": tree(ROOT, entry(FILE, b"l" * 256)),
    "below-file": tree(ROOT, entry(FILE, b"f"), entry(FILE, b"f/evil", data=b"evil")),
    "folder-over-file": tree(ROOT, entry(FILE, b"f"), entry(DIR, b"f")),
    "file-over-folder": tree(ROOT, entry(DIR, b"d"), entry(FILE, b"d", data=b"x")),
}


def op_copy(c, request, home):
    """As handle_run() of the engine: c is the connection, after its request."""
    path = (request["path"][0] if isinstance(request["path"][0], str)
            else bytes.fromhex(request["path"][0]["hex"]).decode("latin1"))
    name = os.path.basename(path.removesuffix("/.").rstrip("/"))
    if name == "new" and request["contents"]:
        return c.error("not_found", "no such folder in the workspace: new")
    if name == "absent":
        return c.error("not_found", "no such file in the workspace: absent")
    c.start_reader()
    c.send(c.STARTED)
    if request["kind"] == "in":
        return copy_in(c, name, home)
    if request["kind"] == "upper":
        data = upper(home)
        c.write(c.STDOUT, data)
        if not data.endswith(tree()):
            c.wait(lambda: False)
        return c.run_result("exited")
    elif name == "big":
        data = ROOT + entry(FILE, b"f", size=40_000_000, data=b"x" * 40_000_000) + tree()
    else:
        data = {**OUT, **LIES}.get(name, tree())
    if name == "hangs":
        c.write(c.STDOUT, ROOT + entry(FILE, b"f", size=1000, data=b"x" * 500))
        c.wait(lambda: False)
        return None
    if name == "breaks":
        c.write(c.STDOUT, ROOT + entry(FILE, b"whole", data=b"w") +
                entry(FILE, b"f", size=1000, data=b"x" * 500))
        c.write(c.STDERR, b"read f: I/O error \x1b[2J\nmore")
        return c.run_result("exited", 1)
    if name == "overruns":
        c.send(c.STDOUT, ROOT + entry(FILE, b"f", size=1 << 40))
        for _ in range(80):
            c.send(c.STDERR, b"x" * 3000)
        return None
    # A byte at a time first, so that headers come in pieces.
    for i in range(min(100, len(data))):
        c.write(c.STDOUT, data[i:i + 1])
    c.write(c.STDOUT, data[100:])
    return c.run_result("exited")


UPPERS = []


def upper(home):
    """What the test has put there; every second time, when there is one, the other tree."""
    second = os.path.exists(f"{home}/upper-2")
    if second:
        UPPERS.append(None)
    name = "upper-2" if second and len(UPPERS) % 2 == 0 else "upper"
    with open(f"{home}/{name}", "rb") as f:
        return f.read()


def copy_in(c, name, home):
    if name == "full":
        c.grant_stdin(1000)
        c.wait(lambda: sum(map(len, c.stdin)) >= 1000)
        c.write(c.STDERR, b"the sandbox's disk is full: write f")
        return c.run_result("exited", 1)
    if name == "early":
        return c.run_result("exited", 0)
    if name == "stuck":
        c.wait(lambda: False)
        return None
    c.grant_stdin(65536)
    data = b""
    while c.wait(lambda: c.stdin or c.stdin_end):
        with c.changed:
            pieces, c.stdin = c.stdin, []
            end = c.stdin_end
        for piece in pieces:
            data += piece
            c.grant_stdin(len(piece))
        if end and not pieces:
            break
    if not c.stdin_end:
        return None
    with open(f"{home}/copied.tmp", "wb") as f:
        f.write(data)
    os.rename(f"{home}/copied.tmp", f"{home}/copied")
    return c.run_result("exited")


def last_request(home):
    with open(f"{home}/requests.jsonl", encoding="utf-8") as f:
        return json.loads(f.read().splitlines()[-1])
