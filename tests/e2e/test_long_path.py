# SPDX-License-Identifier: Apache-2.0
"""A state directory whose path is longer than a socket's name may be."""
import os

from harness import BUSYBOX, Home, check, equal

HOME = "own"
SLOW = 180


def setup(t):
    path = os.path.join(t.folder, "a" * 40 + " with spaces", "b" * 60)
    while len(path) < 150:
        path += "c"
    os.makedirs(os.path.dirname(path))
    t.home = Home(path)
    check(len(path) >= 150, "control: it is that long")


def test_all_of_a_sandbox_life(t):
    box = t.create()
    equal(t.home.sh(box, "echo 42"), "42")
    t.home("checkpoint", box, "--label", "one")
    t.home.sh(box, "echo x > /workspace/x")
    t.home("rewind", box, "--to", "one", "--yes")
    equal(t.home.sh(box, "ls /workspace"), "")
    t.home("sandbox", "stop", box)
    t.home("sandbox", "start", box)
    t.home("sandbox", "run", box, BUSYBOX, "true")
    t.home("audit", "verify")
