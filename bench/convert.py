#!/usr/bin/python3
# SPDX-License-Identifier: Apache-2.0
"""Measures kosa8-unpack: one layer, a Debian tree of about 240 MB, to a file system image.

    bench/convert.py [--build DIR] [--rounds N] [--json FILE] [--check] [TAR]

Plain, gzip and zstd, on one core and on two: medians, and the peak memory of the worker. Layer and
image are in memory (/dev/shm), so that no disk is measured. Without TAR the tree is made by
mmdebstrap once and kept in ~/.cache/kosa8. --check: exit status 1 when a plain tar on one core does
not come to TARGET_MB_S of the processor's time, which other load changes least.
"""
import argparse
import json
import os
import shutil
import statistics
import subprocess
import sys
import tempfile
import time

ROOT = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))
CACHE = os.path.join(os.environ.get("XDG_CACHE_HOME") or os.path.expanduser("~/.cache"), "kosa8")
TARGET_MB_S = 300
PACKAGES = ("python3,perl,git,bash,coreutils,libc-bin,base-files,apt,openssl,curl,ca-certificates,"
            "vim-tiny,tar,gzip,util-linux,procps,passwd")


def debian_tree():
    path = os.path.join(CACHE, "bench-tree.tar")
    if not os.path.exists(path):
        os.makedirs(CACHE, exist_ok=True)
        with tempfile.TemporaryDirectory(dir=CACHE) as work:
            made = os.path.join(work, "tree.tar")
            subprocess.run(["mmdebstrap", "--quiet", "--mode=chrootless", "--variant=extract",
                            "--include=" + PACKAGES, "bookworm", made], check=True,
                           stderr=subprocess.DEVNULL, env={**os.environ, "TMPDIR": work})
            os.rename(made, path)
    return path


def unpack(program, layer, output, cpus):
    """(seconds, processor's seconds, peak MB, the report's last line); the worker's contract is
    src/image/unpack/unpack.h. The monitor's figures contain its worker's, which it waits for."""
    out = os.open(output, os.O_RDWR | os.O_CREAT | os.O_TRUNC)
    fd = os.open(layer, os.O_RDONLY)
    read, write = os.pipe()
    began = time.perf_counter()
    pid = os.fork()
    if pid == 0:
        os.sched_setaffinity(0, cpus)
        null = os.open("/dev/null", os.O_RDWR)
        high = [os.dup2(x, 100 + i) for i, x in enumerate((null, write, null, out, fd))]
        for i, x in enumerate(high):
            os.dup2(x, i, inheritable=True)
        os.execv(program, [program, "1"])
    os.close(write)
    with os.fdopen(read, "rb") as f:
        last = json.loads(f.read().splitlines()[-1])
    usage = os.wait4(pid, 0)[2]
    taken = time.perf_counter() - began
    os.close(out)
    os.close(fd)
    if not last["ok"]:
        sys.exit(f"bench: {layer}: {last['error']['what']}")
    return taken, usage.ru_utime + usage.ru_stime, usage.ru_maxrss / 1024, last


def measure(program, name, layer, output, cpus, rounds):
    runs = [unpack(program, layer, output, cpus) for _ in range(rounds + 1)][1:]
    size = runs[0][3]["tar_bytes"] / 1e6
    speeds = [size / run[0] for run in runs]
    row = {"layer": name, "cores": len(cpus), "mb_s": statistics.median(speeds), "min": min(speeds),
           "max": max(speeds), "n": rounds, "tar_mb": size,
           "cpu_mb_s": size / statistics.median(run[1] for run in runs),
           "image_mb": runs[0][3]["size"] / 1e6, "peak_mb": max(run[2] for run in runs)}
    print(f"{name:<6} {row['cores']} core{'s' if row['cores'] > 1 else ' '} {row['mb_s']:6.0f} MB/s "
          f"({row['min']:.0f} to {row['max']:.0f}, n={rounds})  {row['cpu_mb_s']:.0f} MB/s of "
          f"processor's time  image {row['image_mb']:.1f} MB  peak {row['peak_mb']:.0f} MB",
          flush=True)
    return row


def main():
    parser = argparse.ArgumentParser(usage=__doc__.splitlines()[2].strip())
    parser.add_argument("--build", default=os.path.join(ROOT, "build"))
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--json")
    parser.add_argument("--check", action="store_true")
    parser.add_argument("tar", nargs="?")
    options = parser.parse_args()
    program = os.path.abspath(os.path.join(options.build, "kosa8-unpack"))
    source, rows = options.tar or debian_tree(), []
    all_cpus = sorted(os.sched_getaffinity(0))
    with tempfile.TemporaryDirectory(dir="/dev/shm", prefix="kosa8-bench.") as work:
        layers = {"plain": os.path.join(work, "t.tar"), "gzip": os.path.join(work, "t.tar.gz"),
                  "zstd": os.path.join(work, "t.tar.zst")}
        shutil.copy(source, layers["plain"])
        subprocess.run(["gzip", "-6nk", layers["plain"]], check=True)
        subprocess.run(["zstd", "-q3k", layers["plain"]], check=True)
        print(f"{os.path.getsize(layers['plain']) / 1e6:.1f} MB of tar, {os.getloadavg()[0]:.1f} load")
        for cores in (1, 2):
            if len(all_cpus) >= cores:
                rows += [measure(program, name, path, os.path.join(work, "out"),
                                 set(all_cpus[:cores]), options.rounds)
                         for name, path in layers.items()]
    if options.json:
        with open(options.json, "w") as f:
            json.dump(rows, f, indent=1)
    return 1 if options.check and rows[0]["cpu_mb_s"] < TARGET_MB_S else 0


sys.exit(main())
