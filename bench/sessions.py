# SPDX-License-Identifier: Apache-2.0
"""Programs in a container that runs already, and how much of a program's output comes through."""
import subprocess
import threading
import time

CLIENTS = 4
STDOUT_MB = 300


def exec_rate(home, box, container, seconds=3):
    """Commands a second, from CLIENTS clients that each start the next when one has ended."""
    counts = [0] * CLIENTS
    end = time.perf_counter() + seconds

    def client(n):
        while time.perf_counter() < end:
            home("sandbox", "exec", box, container, "true")
            counts[n] += 1
    threads = [threading.Thread(target=client, args=(n,)) for n in range(CLIENTS)]
    began = time.perf_counter()
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    return sum(counts) / (time.perf_counter() - began)


def stdout_rate(home, box):
    """MB/s of a program that writes zeros, from the first byte to the last."""
    process = home.start("sandbox", "run", box, "busybox", "dd", "if=/dev/zero", "bs=64k",
                         f"count={STDOUT_MB * 16}", stderr=subprocess.DEVNULL, bufsize=0)
    total = len(process.stdout.read(1))
    began = time.perf_counter()
    while data := process.stdout.read(1 << 20):
        total += len(data)
    taken = time.perf_counter() - began
    if process.wait() != 0 or total != STDOUT_MB << 20:
        raise RuntimeError(f"{total} bytes, exit {process.returncode}")
    return total / 1e6 / taken


def measure(home, box, rounds, repeat, table):
    home("sandbox", "run", "-d", "--name", "bench", box, "busybox", "sleep", "3600")

    def one():
        began = time.perf_counter()
        home("sandbox", "exec", box, "bench", "true")
        return (time.perf_counter() - began) * 1000
    table.add("exec true in a running container", repeat(rounds * 4, 3, one), "ms", 25)
    table.add(f"exec true, {CLIENTS} clients", repeat(rounds, 1, lambda: exec_rate(
        home, box, "bench")), "1/s", at_least=100)
    table.add("stdout of a run", repeat(rounds, 1, lambda: stdout_rate(home, box)), "MB/s",
              at_least=80)
    home("sandbox", "rm", "--force", f"{box}/bench")
