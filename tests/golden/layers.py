# SPDX-License-Identifier: Apache-2.0
"""Image layers written byte by byte: tars that no tar program would make."""
import base64
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
    """what, with these records (a dict, or a list of pairs where keys repeat; bytes values) in front
    of it."""
    body = b""
    for key, value in records.items() if isinstance(records, dict) else records:
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


def number(n):
    return str(n).encode()


def sparse_0_0(name, size, parts):
    records = [("GNU.sparse.size", number(size)), ("GNU.sparse.numblocks", number(len(parts)))]
    for offset, data in parts:
        records += [("GNU.sparse.offset", number(offset)), ("GNU.sparse.numbytes", number(len(data)))]
    return pax(records, file(name, b"".join(d for _, d in parts)))


def sparse_0_1(name, size, parts):
    where = ",".join(f"{offset},{len(data)}" for offset, data in parts).encode()
    return pax({"GNU.sparse.size": number(size), "GNU.sparse.numblocks": number(len(parts)),
                "GNU.sparse.map": where, "GNU.sparse.name": name.encode()},
               file("GNUSparseFile.0/y", b"".join(d for _, d in parts)))


def sparse_gnu(name, size, parts):
    """GNU tar's own header: up to four parts stand in it, 21 in each block behind it."""
    body = b"".join(d for _, d in parts)
    head = bytearray(header("S", name, len(body)))
    head[257:265] = b"ustar  \0"
    pairs = [octal(offset, 12) + octal(len(data), 12) for offset, data in parts]
    head[386:386 + 96] = b"".join(pairs[:4]).ljust(96, b"\0")
    head[482:483] = b"\1" if pairs[4:] else b"\0"
    head[483:495] = octal(size, 12)
    head[148:156] = b" " * 8
    head[148:156] = b"%06o\0 " % sum(head)
    blocks = b""
    for i in range(4, len(pairs), 21):
        more = b"\1" if pairs[i + 21:] else b"\0"
        blocks += (b"".join(pairs[i:i + 21]).ljust(504, b"\0") + more).ljust(512, b"\0")
    return bytes(head) + blocks + padded(body)


def gnu_long(kind, text):
    """GNU tar's long name (L) or link target (K) for the entry behind it."""
    return entry(kind, "././@LongLink", text.encode() + b"\0")


def libarchive_xattr(name, value):
    """The record of libarchive's own form of an attribute."""
    escaped = "".join(c if c.isalnum() or c in "._-" else f"%{ord(c):02X}" for c in name)
    return {f"LIBARCHIVE.xattr.{escaped}": base64.b64encode(value).rstrip(b"=")}


def tar(*entries):
    return b"".join(entries) + 2 * ZEROS


def zstd(data):
    return subprocess.run(["zstd", "-q", "-c"], input=data, capture_output=True, check=True).stdout


def gz(data):
    return gzip.compress(data, 6, mtime=0)


def in_parts(codec, n):
    """The same in n members (gzip) or frames (zstd), one of them empty."""
    def pack(data):
        step = len(data) // n + 1
        return codec(b"") + b"".join(codec(data[i:i + step]) for i in range(0, len(data), step))
    return pack


def bomb(codec):
    """10 GB of zeros in one file."""
    return codec(header("0", "x", size=160 << 26)) + codec(bytes(1 << 26)) * 160


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

# More of the same, on top: what needs a kernel to be looked at, or that rdsquashfs cannot list.
HOLES = [(4096, b"A" * 4096), (200000, b"B" * 10)]
LONGER = "/".join(["gnu-" + "l" * 96] * 3)
MORE = [
    tar(
        folder("r"), file("r/file-to-link", b"f\n"), folder("r/dir-to-file"),
        file("r/dir-to-file/in", b"x\n"), sym("r/link-to-dir", "dir-to-file"),
        file("r/file-to-fifo", b"f\n"), entry("3", "r/device-to-file", dev=(1, 5)),
        entry("6", "r/fifo-to-link"), sym("r/link-to-link", "one"), folder("r/dir-to-device"),
        file("h/by-folder", b"x\n"), file("h/by-fifo", b"x\n"), file("h/by-link", b"x\n"),
        file("h/by-device", b"x\n"), file("h/tree/a/b", b"x\n"), file("h/again", b"old\n"),
        entry("3", "h/a-device", dev=(1, 3)), entry("6", "h/a-fifo"), sym("h/a-link", "tree"),
        folder("opaque-first"), file("opaque-first/low", b"low\n"),
        folder("opaque-last"), file("opaque-last/low", b"low\n"), file("opaque-last/d/low", b"x\n"),
        file("keep/a", b"three names\n", mode=0o600, uid=7), hard("keep/b", "keep/a"),
        hard("keep/c", "/./keep//a"),
        file("dup/x", b"first\n"), hard("dup/y", "dup/x"), file("dup/x", b"second\n"),
        folder("dup/z"), file("dup/z/in", b"x\n"), file("dup/z", b"a file now\n"),
        file("dup/w", b"a folder then\n"), folder("dup/w", mode=0o700),
        file("dup/w/in", b"in\n"),
        gnu_long("L", LONGER), file("short", b"gnu name\n"),
        gnu_long("K", LONGER), sym("gnu-target", "short"),
        sparse_0_0("sparse-0.0", 300000, HOLES), sparse_0_1("sparse-0.1", 300000, HOLES),
        sparse("sparse-end", 5000000, [(0, b"start")]),
    ),
    tar(
        sym("r/file-to-link", "dir-to-file"), file("r/dir-to-file", b"a file now\n"),
        folder("r/link-to-dir", mode=0o711), file("r/link-to-dir/in", b"in\n"),
        entry("6", "r/file-to-fifo", mode=0o622), file("r/device-to-file", b"no device\n"),
        sym("r/fifo-to-link", "nowhere"), sym("r/link-to-link", "two"),
        entry("4", "r/dir-to-device", mode=0o640, dev=(8, 1)),
        folder("h/.wh.by-folder"), entry("6", "h/.wh.by-fifo"), sym("h/.wh.by-link", "x"),
        entry("3", "h/.wh.by-device", dev=(0, 0)), file("h/.wh.tree"), file("h/.wh.again"),
        file("h/again", b"new\n"), file("h/.wh.a-device"), file("h/.wh.a-fifo"),
        file("h/.wh.a-link"), file("h/.wh.not-there"),
        file("opaque-first/.wh..wh..opq"), file("opaque-first/high", b"high\n"),
        file("opaque-last/high", b"high\n"), sym("opaque-last/.wh..wh..opq", "x"),
        file("keep/.wh.a"),
    ),
    tar(
        hard("cross", "keep/b"), file("keep/.wh.b"),
        entry("3", "device-large", mode=0o600, dev=(259, 300000)), hard("device-too", "device-large"),
        entry("3", "device-zero", dev=(0, 0)),
        entry("6", "fifo-a"), hard("fifo-b", "fifo-a"), sym("link-a", "keep/c"),
        hard("link-b", "link-a"),
        file("closed", b"nobody may\n", mode=0), folder("closed-folder", mode=0),
        file("closed-folder/in", b"in\n", mode=0o4000), file("largest-id", uid=2**32 - 2, gid=65536),
        file("time-2038", mtime=2**31 + 5), pax({"mtime": b"1600000000.75"}, file("time-half")),
        pax({"SCHILY.xattr.user.binary": bytes(range(256))}, file("xattr-binary")),
        pax(libarchive_xattr("user.with space", b"\0\1=\n\xff"), file("xattr-libarchive")),
        pax({"SCHILY.xattr.user.on": b"folder"}, folder("xattr-folder")),
        pax({"SCHILY.xattr.trusted.seen": b"by CAP_SYS_ADMIN only"}, file("xattr-trusted")),
        pax({"SCHILY.xattr.security.capability": CAPABILITY}, file("suid-caps", mode=0o6755)),
        file("new\nline", b"1\n"), file('quo"te', b"2\n"), file("back\\slash", b"3\n"),
        file(" blanks ", b"4\n"), file("not-\udcff\udcfe-utf8", b"5\n"), file("-rf", b"6\n"),
        sym("target-\udcff", "\udcff\n"), folder("empty", mode=0o3777, uid=5, gid=6),
    ),
]
MORE_CODECS = [in_parts(gz, 3), in_parts(zstd, 3), lambda data: data]
# What umoci 0.4.7 refuses: GNU tar's own sparse files.
NOT_FOR_UMOCI = tar(sparse_gnu("sparse-gnu", 300000, HOLES),
                    sparse_gnu("sparse-many", 300000, [(i * 8192, b"%06d" % i) for i in range(30)]))


def hostile(canary):
    """Layers that reach for the folder canary: contained {what: blobs}, and refused {what: (blobs,
    error kind, text of the error)}."""
    up = "../" * 20 + canary.lstrip("/")
    contained = {
        "a link to the host": [tar(sym("p", canary), file("p/x", b"1"))],
        "a link upwards": [tar(sym("p", up), file("p/x", b"1"))],
        "a whiteout through a link": [tar(sym("d", canary)), tar(file("d/.wh.secret"))],
        "an opaque mark through a link": [tar(sym("d", canary)),
                                          tar(file("d/.wh..wh..opq"))],
        "a hard link to a link": [tar(sym("s", canary + "/secret"), hard("h", "s"))],
    }
    refused = {
        "..": ([tar(file(up + "/x", b"1"))], "invalid", 'layer 1: entry "../'),
        "a hard link to the host": ([tar(hard("h", canary + "/secret"))], "invalid",
                                    'entry "h": the hard link\'s target is not there'),
        "a hard link to ..": ([tar(hard("h", ".."))], "invalid", 'entry "h"'),
        "a loop": ([tar(sym("a", "b"), sym("b", "a"), file("a/x"))], "limit",
                   'entry "a/x": more than 40'),
        ".wh...": ([tar(file("x")), tar(file(".wh..."))], "invalid",
                   'layer 2: entry ".wh...": a whiteout of no name'),
        ".wh..": ([tar(file(".wh.."))], "invalid", 'entry ".wh.."'),
        ".wh.": ([tar(file(".wh."))], "invalid", 'entry ".wh."'),
        "100,000 folders deep": ([tar(pax({"path": b"d/" * 100000}, file("x")))], "limit",
                                 "4096 bytes"),
        "2^63 bytes": ([tar(header("0", "x", size=2 ** 63))], "corrupt",
                       'layer 1: entry "x": damaged tar'),
        "2^45 bytes": ([tar(header("0", "x", size=2 ** 45))], "limit", 'entry "x"'),
        "a zstd bomb": ([bomb(zstd)], "limit",
                        'layer 1: entry "x": the layer expands to more than 200 times its size'),
        "a window of 2 GiB": ([b"\x28\xb5\x2f\xfd\x00\xa8\x01\0\0"], "limit",
                              "layer 1: the layer's zstd window is larger than 128 MiB"),
        "a second layer that is cut": ([tar(file("x")), gz(tar(file("y", b"1")))[:-9]], "corrupt",
                                       "layer 2"),
        "a gzip bomb": ([bomb(gz)], "limit",
                        "200 times its size"),
        "a cut gzip": ([gz(tar(file("x", b"1")))[:-9]], "corrupt", "cut"),
        "no tar": ([b"<html>" * 1000], "corrupt", "not a tar"),
        "an unreadable name": ([tar(file("\udcff\x1b/..", b""))], "invalid", "\\x1b"),
    }
    return contained, refused
