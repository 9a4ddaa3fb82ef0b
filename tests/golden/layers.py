# SPDX-License-Identifier: Apache-2.0
"""Image layers written byte by byte: tars that no tar program would make."""
import gzip
import subprocess

ZEROS = bytes(512)


def octal(value, size):
    if 0 <= value < 8 ** (size - 1):
        return b"%0*o\0" % (size - 1, value)
    return b"\x80" + value.to_bytes(size - 1, "big", signed=True)


def header(kind, name, size=0, mode=0o644, uid=0, gid=0, mtime=1700000000, link="", dev=(0, 0)):
    name, link = name.encode("utf-8", "surrogateescape"), link.encode("utf-8", "surrogateescape")
    head = b"".join([
        name[:100].ljust(100, b"\0"), octal(mode, 8), octal(uid, 8), octal(gid, 8),
        octal(size, 12), octal(mtime, 12), b" " * 8, kind.encode(), link[:100].ljust(100, b"\0"),
        b"ustar\x0000", bytes(64), octal(dev[0], 8), octal(dev[1], 8), bytes(167)])
    return head[:148] + b"%06o\0 " % sum(head) + head[156:]


def padded(data):
    return data + bytes(-len(data) % 512)


def entry(kind, name, data=b"", **attributes):
    return header(kind, name, len(data), **attributes) + padded(data)


def file(name, data=b"", **attributes):
    return entry("0", name, data, **attributes)


def hard(name, target, **attributes):
    return entry("1", name, link=target, **attributes)


def sym(name, target, **attributes):
    return entry("2", name, link=target, mode=0o777, **attributes)


def folder(name, mode=0o755, **attributes):
    return entry("5", name, mode=mode, **attributes)


def pax(records, what):
    """what, with these records (bytes values) in front of it."""
    body = b""
    for key, value in records.items():
        rest = b" " + key.encode() + b"=" + value + b"\n"
        length = len(rest)
        while length != len(rest) + len(str(length)):
            length = len(rest) + len(str(length))
        body += str(length).encode() + rest
    return entry("x", "PaxHeader", body) + what


def sparse(name, size, parts):
    """A GNU.sparse 1.0 file of these (offset, bytes) parts."""
    numbers = [len(parts)]
    for offset, data in parts:
        numbers += [offset, len(data)]
    body = padded("".join(f"{n}\n" for n in numbers).encode()) + b"".join(d for _, d in parts)
    records = {"GNU.sparse.major": b"1", "GNU.sparse.minor": b"0",
               "GNU.sparse.name": name.encode(), "GNU.sparse.realsize": str(size).encode()}
    return pax(records, file("GNUSparseFile.0/x", body))


def tar(*entries):
    return b"".join(entries) + 2 * ZEROS


def zstd(data):
    return subprocess.run(["zstd", "-q", "-c"], input=data, capture_output=True, check=True).stdout


def gz(data):
    return gzip.compress(data, 6, mtime=0)


CAPABILITY = bytes([1, 0, 0, 2, 0, 4] + [0] * 14)  # cap_net_bind_service=p, version 2
LONG = "/".join(["long-" + "n" * 95] * 3)

# What is legal but awkward, and what each layer does to those below.
AWKWARD = [
    tar(
        folder("./"),
        folder("etc"), file("etc/passwd", b"root:x:0:0\n"), file("etc/hosts", b"old\n"),
        file("bin/tool", b"#!/bin/sh\n", mode=0o4755), hard("usr/lib/deep/tool", "bin/tool"),
        file("/absolute", b"abs\n"), file("Case", b"upper\n"), file("case", b"lower\n"),
        file("twice", b"first\n"), file("twice", b"second\n", mode=0o600),
        sym("link-to-file", "etc/hosts"), file("file-to-dir", b"f\n"), folder("dir-to-link"),
        file("dir-to-link/inside", b"x\n"), folder("opaque"), file("opaque/low", b"low\n"),
        file("opaque/both", b"low\n"), folder("hidden"), file("hidden/x", b"x\n"),
        file("hidden-by-link", b"x\n"), file("target", b"kept by its other name\n", mode=0o640),
        hard("other", "target"), file("over", b"will be a hard link\n"),
        file("setgid", b"g\n", mode=0o2711), folder("tmp", mode=0o1777),
        sym("lib", "usr/lib"), file("lib/through-link", b"t\n"),
    ),
    tar(
        pax({"path": LONG.encode()}, file("short", b"pax path\n")),
        pax({"path": "cafe\u0301".encode()}, file("short", b"decomposed\n")),
        pax({"path": "caf\u00e9".encode()}, file("short", b"composed\n")),
        pax({"SCHILY.xattr.security.capability": CAPABILITY, "SCHILY.xattr.user.note": b"n\0te"},
            file("ping", b"caps\n", uid=1000, gid=1000)),
        entry("3", "null", mode=0o666, dev=(1, 3)), entry("4", "disk", mode=0o660, dev=(8, 16)),
        entry("6", "fifo", mode=0o600),
        sparse("sparse", 300000, [(4096, b"A" * 4096), (200000, b"B" * 10)]),
        file("big-id", b"id\n", uid=70000, gid=2000000000),
        file("big", bytes(range(256)) * 1500),
    ),
    tar(
        hard("over", "target"), file(".wh.target"), file("link-to-file", b"now a file\n"),
        folder("file-to-dir"), file("file-to-dir/new", b"n\n"), sym("dir-to-link", "etc"),
        folder("opaque", mode=0o711), file("opaque/both", b"high\n"), file("opaque/.wh..wh..opq"),
        file("opaque/high", b"high\n"), file(".wh.hidden"), hard(".wh.hidden-by-link", "over"),
        folder("etc", mode=0o750, uid=5), file("etc/.wh.hosts"),
    ),
]
AWKWARD_CODECS = [gz, zstd, lambda data: data]
