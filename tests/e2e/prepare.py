# SPDX-License-Identifier: Apache-2.0
"""Readies the state directory that the groups share: the template is booted, the images pulled."""
from harness import BUSYBOX, PYTHON

SLOW = 240


def test_the_shared_state_directory_is_ready(t):
    box = t.create()
    for image in (PYTHON, BUSYBOX):
        t.home("sandbox", "pull", box, image, timeout=120)
    t.remove(box)
