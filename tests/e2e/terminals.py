# SPDX-License-Identifier: Apache-2.0
"""A kosa8 command with a terminal of its own, typed at and read as a person does."""
import fcntl
import os
import pty
import select
import struct
import subprocess
import termios
import time

from harness import Failure, KOSA8, check, short


class Terminal:
    def __init__(self, home, *args, rows=37, columns=111, env=None):
        self.master, self.slave = pty.openpty()
        self.out = b""
        self.seen = 0  # what expect() has passed
        self.resize(rows, columns)
        self.before = termios.tcgetattr(self.slave)
        self.process = subprocess.Popen(
            [KOSA8, *map(str, args)], stdin=self.slave, stdout=self.slave, stderr=self.slave,
            env={**home.env, "TERM": "xterm-256color", **(env or {})}, start_new_session=True,
            preexec_fn=lambda: fcntl.ioctl(0, termios.TIOCSCTTY, 0))

    def __enter__(self):
        return self

    def __exit__(self, *_):
        if self.process.poll() is None:
            self.process.kill()
        self.process.wait()
        os.close(self.master)
        os.close(self.slave)

    def resize(self, rows, columns):
        fcntl.ioctl(self.slave, termios.TIOCSWINSZ, struct.pack("HHHH", rows, columns, 0, 0))

    def type(self, text):
        os.write(self.master, text if isinstance(text, bytes) else text.encode())

    def read(self, seconds):
        if not select.select([self.master], [], [], seconds)[0]:
            return False
        self.out += os.read(self.master, 65536)
        return True

    def expect(self, what, seconds=60):
        """Reads until it was shown, after what was expected before."""
        what = what if isinstance(what, bytes) else what.encode()
        end = time.monotonic() + seconds
        while (at := self.out.find(what, self.seen)) < 0:
            check(time.monotonic() < end,
                  f"not shown within {seconds} s: {what!r}; {short(self.out[self.seen:])}")
            self.read(0.1)
        self.seen = at + len(what)

    def is_raw(self):
        return not termios.tcgetattr(self.slave)[3] & (termios.ECHO | termios.ICANON)

    def is_restored(self):
        return termios.tcgetattr(self.slave) == self.before

    def end(self, code=0, seconds=60):
        """Waits for its end, with this status and the terminal as it was."""
        end = time.monotonic() + seconds
        while self.process.poll() is None:
            if time.monotonic() > end:
                raise Failure(f"no end within {seconds} s: {short(self.out[-600:])}")
            self.read(0.05)
        while self.read(0):
            pass
        check(self.process.returncode == code,
              f"exit {self.process.returncode}, want {code}: {short(self.out[-600:])}")
        check(self.is_restored(), "the terminal is not as it was")
        return self.out
