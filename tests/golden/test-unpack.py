#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""kosa8-unpack as a program: test-unpack.py PROGRAM

Awkward layers against a golden list (unpack-awkward.txt) and, as root where umoci is installed,
against umoci's own unpacking of the same layers; hostile layers beside a canary folder; the report
and the exit code. Prints TAP.
"""
import functools
import hashlib
import json
import os
import resource
import shutil
import select
import signal
import stat
import subprocess
import sys
import tempfile
import time

sys.dont_write_bytecode = True  # the source folder stays as it is
import layers as l  # noqa: E402

PROGRAM = os.path.abspath(sys.argv[1])
HERE = os.path.dirname(os.path.abspath(__file__))
tests = failures = 0


def ok(condition, what, detail=""):
    global tests, failures
    tests += 1
    print(f"{'ok' if condition else 'not ok'} {tests} - {what}")
    if not condition:
        failures += 1
        print("# " + str(detail).replace("\n", "\n# "))


def start(work, blobs, argument=None, output=None, limit=None):
    """Starts the program on these layers; (process, report's read end)."""
    os.makedirs(work, exist_ok=True)
    fds = [output if output is not None
           else os.open(f"{work}/out.sqfs", os.O_RDWR | os.O_CREAT | os.O_TRUNC)]
    for i, blob in enumerate(blobs):
        with open(f"{work}/layer{i}", "wb") as f:
            f.write(blob)
        fds.append(os.open(f"{work}/layer{i}", os.O_RDONLY))
    read, write = os.pipe()
    log = os.open(f"{work}/log", os.O_WRONLY | os.O_CREAT | os.O_TRUNC)
    child = os.fork()
    if child == 0:
        # Move all up first, so that no target is still a source.
        high = [os.dup2(fd, 200 + i) for i, fd in enumerate([write, log] + fds)]
        for i, fd in enumerate(high):
            os.dup2(fd, i + 1, inheritable=True)
        os.dup2(os.open("/dev/null", os.O_RDONLY), 0, inheritable=True)
        if limit:
            resource.setrlimit(limit[0], (limit[1], limit[1]))
        os.execv(PROGRAM, [PROGRAM, str(len(blobs) if argument is None else argument)])
    for fd in fds + [write, log]:
        os.close(fd)
    return child, read


def finish(child, read):
    with os.fdopen(read, "rb") as f:
        lines = f.read().splitlines()
    code = os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])
    return code, [json.loads(line) for line in lines]


def unpack(work, blobs, **options):
    return finish(*start(work, blobs, **options))


def tool(*argv):
    return subprocess.run(argv, capture_output=True, check=True).stdout


def digest(data):
    return hashlib.sha256(data).hexdigest()


# ---- one text line for each name of an image ----

def image_paths(image):
    for line in tool("rdsquashfs", "-d", image).decode().splitlines():
        kind, rest = line.split(" ", 1)
        yield kind, rest[1:].split('"')[0] if rest[0] == '"' else rest.split(" ")[0]


def image_fields(image, path):
    fields = {}
    for line in tool("rdsquashfs", "-s", path, image).decode().splitlines():
        key, _, value = line.partition(": ")
        fields.setdefault(key.strip(), value.strip())
    return fields


def image_xattrs(image, path):
    # key=0xHEX or key=text a line: only what the lists need to tell apart.
    lines = tool("rdsquashfs", "-x", path, image).decode("latin-1").splitlines()
    return ",".join(sorted(x.split("=")[0] for x in lines if "=" in x))


def image_list(image):
    groups, lines = {}, []
    for kind, path in image_paths(image):
        f = image_fields(image, path)
        number = f["Inode number"]
        group = f"#{groups.setdefault(number, len(groups) + 1)}" \
            if kind != "dir" and int(f.get("Hard link count", 1)) > 1 else "-"
        content = "-"
        if kind == "file":
            content = digest(tool("rdsquashfs", "-c", path, image))[:16]
        elif kind == "slink":
            content = f["Link target"]
        elif kind == "nod" and "Device number" in f:
            content = f["Device number"].split(" ")[0]
        mtime = f["Last modified"].split("(")[-1].rstrip(")")
        lines.append(f"{path} {kind} {f['Access']} {f['UID'].split()[0]}:{f['GID'].split()[0]} "
                     f"{group} {mtime} {image_xattrs(image, path) or '-'} {content}")
    return sorted(lines)


def disk_tree(root):
    """The same facts of a folder, for comparing two: no times of folders (made ones have none)."""
    tree, groups = {}, {}
    for base, dirs, files in os.walk(root):
        for name in dirs + files + ([""] if base == root else []):
            path = os.path.join(base, name) if name else base
            st = os.lstat(path)
            kind = stat.S_IFMT(st.st_mode)
            facts = [kind, oct(st.st_mode), st.st_uid, st.st_gid]
            if not stat.S_ISDIR(st.st_mode):
                facts += [st.st_nlink, int(st.st_mtime)]
                groups.setdefault(st.st_ino, []).append(os.path.relpath(path, root))
            if stat.S_ISREG(st.st_mode):
                with open(path, "rb") as f:
                    facts.append(digest(f.read()))
            if stat.S_ISLNK(st.st_mode):
                facts.append(os.readlink(path))
            if stat.S_ISBLK(st.st_mode) or stat.S_ISCHR(st.st_mode):
                facts.append(st.st_rdev)
            facts.append({k: os.getxattr(path, k, follow_symlinks=False)
                          for k in os.listxattr(path, follow_symlinks=False)})
            tree[os.path.relpath(path, root)] = facts
    return tree, sorted(sorted(g) for g in groups.values() if len(g) > 1)


# ---- tests ----

def test_awkward(work):
    blobs = [codec(data) for codec, data in zip(l.AWKWARD_CODECS, l.AWKWARD)]
    code, report = unpack(work, blobs)
    ok(code == 0 and report[-1].get("ok") is True, "awkward layers: unpacked", report)
    last = report[-1]
    ok(last["layer_diff_ids"] == ["sha256:" + digest(d) for d in l.AWKWARD], "diff ids", last)
    ok(last["tar_bytes"] == sum(map(len, l.AWKWARD)), "bytes of the tars", last)
    ok(last["size"] == os.path.getsize(f"{work}/out.sqfs"), "size", last)
    got = image_list(f"{work}/out.sqfs")
    with open(f"{HERE}/unpack-awkward.txt", encoding="utf-8") as f:
        want = [x for x in f.read().splitlines() if not x.startswith("#")]
    ok(got == want, "awkward layers: the golden list",
       "\n".join(["- " + x for x in want if x not in got] +
                 ["+ " + x for x in got if x not in want]))
    with open(f"{work}/out.sqfs", "rb") as f:
        first = digest(f.read())
    unpack(work + "/again", l.AWKWARD)
    with open(f"{work}/again/out.sqfs", "rb") as f:
        ok(digest(f.read()) == first, "the same bytes from other compressions")


# Where umoci takes a layer, so do we: layers that change nothing, and ends of tars.
FILE = l.file("file", b"content")
ENDS = [b"", l.ZEROS, 2 * l.ZEROS, 20 * l.ZEROS, bytes(1 << 20), l.file("no-end", b"1"),
        l.file("one-block", b"2") + l.ZEROS, l.file("no-padding", b"3")[:513], l.folder("folder")]


def test_ends(work):
    names = ["/file", "/folder", "/no-end", "/no-padding", "/one-block"]
    tars = [FILE + 2 * l.ZEROS, *ENDS]
    for what, codec in (("plain", bytes), ("gzip", l.gz), ("zstd", l.zstd),
                        ("gzip members, some empty", l.in_parts(l.gz, 3)),
                        ("zstd frames, some empty", l.in_parts(l.zstd, 3))):
        code, report = unpack(work, [codec(tar) for tar in tars])
        ok(code == 0 and report[-1]["layer_diff_ids"] == ["sha256:" + digest(x) for x in tars],
           f"ends of tars, {what}", report[-1])
        paths = ["/" + path.strip("/") for _, path in image_paths(f"{work}/out.sqfs")] if code == 0 else []
        ok(sorted(x for x in paths if x != "/") == names, f"all files are there, {what}", paths)
    after = FILE + 2 * l.ZEROS + b"x" + FILE
    code, report = unpack(work, [l.in_parts(l.gz, 3)(after)])
    ok(code == 0 and report[-1]["layer_diff_ids"] == ["sha256:" + digest(after)],
       "what follows the end is hashed", report[-1])
    code, report = unpack(work, [b"", l.gz(b""), l.zstd(b"")])
    ok(code == 0 and report[-1]["entries"] == 1 and report[-1]["tar_bytes"] == 0,
       "layers of no bytes alone: an empty image", report[-1])
    for what, tar in (("a cut content", FILE[:515]), ("a cut header", FILE + FILE[:300]),
                      ("a byte behind a zero block", FILE + l.ZEROS + b"x"),
                      ("a cut end block", FILE + bytes(100)), ("less than a block", bytes(100)),
                      ("an entry behind a zero block", FILE + l.ZEROS + FILE)):
        code, report = unpack(work, [FILE, l.in_parts(l.gz, 3)(tar)])
        ok(code == 1 and report[-1]["error"]["kind"] == "corrupt" and
           report[-1]["error"]["what"].startswith("layer 2: "), f"{what}: refused", report[-1])


def umoci_rootfs(work, tars):
    layout = f"{work}/layout"
    tool("umoci", "init", "--layout", layout)
    tool("umoci", "new", "--image", f"{layout}:t")
    for i, data in enumerate(tars):
        with open(f"{work}/{i}.tar", "wb") as f:
            f.write(data)
        tool("umoci", "raw", "add-layer", "--image", f"{layout}:t", f"{work}/{i}.tar")
    tool("umoci", "raw", "unpack", "--image", f"{layout}:t", f"{work}/rootfs")
    return f"{work}/rootfs"


def compare_umoci(work, tars, what):
    """unsquashfs makes devices with wrong minors over 255; these layers have none."""
    unpack(work, tars)
    tool("unsquashfs", "-q", "-n", "-d", f"{work}/ours", f"{work}/out.sqfs")
    ours, our_groups = disk_tree(f"{work}/ours")
    theirs, their_groups = disk_tree(umoci_rootfs(work, tars))
    different = [(k, ours.get(k), theirs.get(k)) for k in sorted(set(ours) | set(theirs))
                 if ours.get(k) != theirs.get(k)]
    ok(ours and not different, f"{what}: as umoci unpacks them", different)
    ok(our_groups == their_groups, f"{what}: the same hard links", (our_groups, their_groups))


def snapshot(path):
    return [(p, os.lstat(p).st_mtime_ns, os.lstat(p).st_size, sorted(os.listdir(p))
             if os.path.isdir(p) else open(p, "rb").read())
            for p in (path, path + "/secret")]


def test_hostile(work):
    canary = f"{work}/canary"
    os.mkdir(canary)
    with open(canary + "/secret", "wb") as f:
        f.write(b"secret\n")
    before = snapshot(canary)
    contained, refused = l.hostile(canary)
    for what, blobs in contained.items():
        code, report = unpack(work, blobs)
        paths = [p for _, p in image_paths(f"{work}/out.sqfs")] if code == 0 else []
        ok(code == 0 and paths, f"{what}: contained", report)
    for what, (blobs, kind, text) in refused.items():
        code, report = unpack(work, blobs)
        e = report[-1].get("error", {})
        ok(code == 1 and e.get("kind") == kind and text in e.get("what", ""), f"{what}: refused",
           report[-1])
        ok(os.path.getsize(f"{work}/out.sqfs") == 0, f"{what}: nothing is left")
    ok(snapshot(canary) == before, "the canary is unchanged")


def test_descriptors(work):
    def refused(what, text, **options):
        code, report = unpack(work, [l.tar()], **options)
        ok(code == 1 and text in report[-1]["error"]["what"], what, report)

    null = os.open("/dev/null", os.O_RDWR)
    refused("an output that is no file", "no regular file", output=null)
    with open(f"{work}/full", "wb") as f:
        f.write(b"something")
    refused("an output that is not empty", "not empty", output=os.open(f"{work}/full", os.O_RDWR))
    ok(os.path.getsize(f"{work}/full") == 9, "is left as it was")
    open(f"{work}/read", "wb").close()
    refused("an output that is read-only", "wrong way", output=os.open(f"{work}/read", os.O_RDONLY))
    refused("a layer that is not there", "a layer", argument=2)
    code, report = unpack(work, [])
    ok(code == 0 and report[-1]["entries"] == 1, "no layers: an empty image", report)
    child, read = start(work, [], argument="-1")
    ok(finish(child, read)[0] == 2, "a wrong argument")


def worker_of(monitor, read):
    """The worker's process, once it has reported something: then it is at work."""
    while os.read(read, 1) not in (b"\n", b""):
        pass
    with open(f"/proc/{monitor}/task/{monitor}/children", encoding="ascii") as f:
        return int(f.read().split()[0])


@functools.cache
def slow_layer():
    """Seconds of the processor's time: each name is found by a long way through a link."""
    return l.tar(l.folder("a"), l.pax({"linkpath": b"a/../" * 500}, l.sym("s", "x")),
                 *[l.file(f"s/{i}") for i in range(80000)])


def gone(pid):
    """True when it ends soon: waits on its pidfd."""
    try:
        fd = os.pidfd_open(pid)
    except ProcessLookupError:
        return True
    poll = select.poll()
    poll.register(fd, select.POLLIN)
    return bool(poll.poll(10000))


def test_killed(work):
    blob = slow_layer()
    child, read = start(work, [blob])
    os.kill(worker_of(child, read), signal.SIGKILL)
    code, report = finish(child, read)
    ok(code == 1 and report[-1]["error"]["kind"] == "cancelled", "a killed worker: reported",
       (code, report))
    ok(os.path.getsize(f"{work}/out.sqfs") == 0, "a killed worker: nothing is left")
    child, read = start(work, [blob])
    worker = worker_of(child, read)
    os.kill(child, signal.SIGKILL)
    ok(gone(worker), "the worker goes with its monitor")
    finish(child, read)


def test_limits(work):
    """Lower limits of the caller's are kept: how their ends are reported."""
    code, report = unpack(work, [slow_layer()], limit=(resource.RLIMIT_CPU, 2))
    ok(code == 1 and "more than 2 s of the processor's time" in report[-1]["error"]["what"], "CPU time", report[-1])
    ok(os.path.getsize(f"{work}/out.sqfs") == 0, "nothing is left")
    names = l.tar(*[l.file(f"{i:099}") for i in range(100000)])
    code, report = unpack(work, [names])
    ok(code == 0, "many names", report[-1])
    with open(PROGRAM, "rb") as f:
        sanitized = b"__asan_init" in f.read()
    if sanitized:
        ok(True, "memory # SKIP a sanitizer's own is larger")
    else:
        code, report = unpack(work, [names], limit=(resource.RLIMIT_DATA, 40 << 20))
        e = report[-1].get("error", {})
        ok(code == 1 and e["kind"] == "limit" and "out of memory" in e["what"] and
           "it may take 40 MiB" in e["what"], "memory", report[-1])
    code, report = unpack(work, [l.tar(l.file("x", os.urandom(1 << 20)))],
                          limit=(resource.RLIMIT_FSIZE, 1 << 19))
    e = report[-1].get("error", {})
    ok(code == 1 and e["kind"] == "limit" and "output file" in e["what"] and
       "it may have 524288 bytes" in e["what"], "the output's size", report[-1])


def test_time(work):
    """A worker that neither reads nor computes."""
    os.environ["KOSA8_UNPACK_SECONDS"] = "1"
    child, read = start(work, [slow_layer()])
    del os.environ["KOSA8_UNPACK_SECONDS"]
    worker = worker_of(child, read)
    os.kill(worker, signal.SIGSTOP)
    code, report = finish(child, read)
    e = report[-1].get("error", {})
    ok(code == 1 and e["kind"] == "limit" and "more than 1 s" in e["what"], "time", report[-1])
    ok(gone(worker), "the worker is gone")
    ok(os.path.getsize(f"{work}/out.sqfs") == 0, "nothing is left")


def test_progress(work):
    blob = os.urandom(1 << 20) * 60
    began = time.monotonic()
    code, report = unpack(work, [l.tar(l.file("x", blob)), l.tar(l.file("y"))])
    took = time.monotonic() - began
    progress = [r["progress"] for r in report[:-1]]
    ok(code == 0 and all(set(p) == {"layer", "bytes"} for p in progress), "progress lines")
    ok(len(progress) <= took * 10 + 4, "are at most ten a second", len(progress))
    ok([p["bytes"] for p in progress if p["layer"] == 0][-1] == len(blob) + 1536,
       "the last one of a layer says all of it", progress)
    ok(progress[-1]["layer"] == 1, "layers count from 0", progress)


def main():
    with tempfile.TemporaryDirectory(prefix="test-unpack-") as top:
        def work(name):
            os.makedirs(f"{top}/{name}")
            return f"{top}/{name}"
        test_awkward(work("awkward"))
        test_hostile(work("hostile"))
        test_ends(work("ends"))
        test_descriptors(work("descriptors"))
        test_killed(work("killed"))
        test_limits(work("limits"))
        test_time(work("time"))
        test_progress(work("progress"))
        if os.geteuid() == 0 and shutil.which("umoci"):
            compare_umoci(work("umoci"), l.AWKWARD, "awkward layers")
            compare_umoci(work("umoci-ends"), [FILE, *ENDS], "ends of tars")
        else:
            ok(True, "compared with umoci # SKIP not root, or no umoci")
    print(f"1..{tests}")
    return 1 if failures else 0


sys.exit(main())
