#!/usr/bin/python3
# SPDX-License-Identifier: Apache-2.0
"""Stands in for kosa8-supervisor and kosa8-image, by the name it is started under.

The supervisor speaks the client protocol (src/proto/client.h) and does on demand what a real one
will not: end without a result, send more than was granted, not answer. What a run does is told by
its first argument. The catalog is kept up as far as the command line looks at it. KOSA8_FAKE makes
the start fail in the ways named below. Ends by itself after two minutes.
"""
import hashlib
import json
import os
import select
import signal
import socket
import sqlite3
import struct
import sys
import threading
import time

import fake_copy

HEADER = struct.Struct("<IHHII")
MAGIC = 0x38C0
REQUEST, STDIN, STDIN_EOF, SIGNAL, WINDOW, DETACH, RESIZE = range(1, 8)
NOTICE, RESULT, STARTED, STDOUT, STDERR = range(65, 70)
HOME = os.environ["KOSA8_HOME"]
CREATING, RUNNING, STOPPED, CRASHED = range(4)


def sql(text, *args):
    db = sqlite3.connect(f"{HOME}/catalog.db", timeout=10)
    with db:
        db.execute(text, args)
    db.close()


class Connection:
    STARTED, STDOUT, STDERR = STARTED, STDOUT, STDERR

    def __init__(self, sock):
        self.sock = sock
        self.windows = {STDOUT: 0, STDERR: 0}
        self.changed = threading.Condition()
        self.signals = []
        self.stdin = []
        self.stdin_end = False
        self.events = []  # what came, in its order: of a terminal
        self.request = {}
        self.closed = False
        self.lock = threading.Lock()

    def exactly(self, n):
        data = b""
        while len(data) < n:
            more = self.sock.recv(n - len(data))
            if not more:
                return None
            data += more
        return data

    def frame(self):
        head = self.exactly(HEADER.size)
        if head is None:
            return None
        length, kind, magic, _, _ = HEADER.unpack(head)
        assert magic == MAGIC
        payload = self.exactly(length) if length else b""
        return None if payload is None else (kind, payload)

    def send(self, kind, payload=b""):
        with self.lock:
            self.sock.sendall(HEADER.pack(len(payload), kind, MAGIC, 0, 0) + payload)

    def send_json(self, kind, value):
        self.send(kind, json.dumps(value).encode())

    def result(self, **members):
        self.send_json(RESULT, {"ok": True, **members})

    def run_result(self, how, code=0, oom=False):
        self.result(how=how, code=code, oom=oom)

    def error(self, kind, what, hint=""):
        self.send_json(RESULT, {"ok": False, "error": {
            "kind": kind, "errno": 0, "what": what, "hint": hint}})

    def reader(self):
        """After the request: what the client sends while its run is at work."""
        while True:
            try:
                frame = self.frame()
            except OSError:
                frame = None
            with self.changed:
                if frame is None:
                    self.closed = True
                else:
                    self.take(*frame)
                self.changed.notify_all()
            if frame is None:
                return

    def take(self, kind, payload):
        if kind in (STDIN, SIGNAL, DETACH, RESIZE):
            self.events.append((kind, payload))
        if kind == WINDOW:
            which, count = struct.unpack("<II", payload)
            self.windows[{1: STDOUT, 2: STDERR}[which]] += count
        elif kind == SIGNAL:
            self.signals.append(struct.unpack("<I", payload)[0])
        elif kind == STDIN:
            self.stdin.append(payload)
        elif kind == STDIN_EOF:
            self.stdin_end = True

    def start_reader(self):
        threading.Thread(target=self.reader, daemon=True).start()

    def wait(self, condition):
        with self.changed:
            self.changed.wait_for(lambda: condition() or self.closed)
            return not self.closed or condition()

    def write(self, kind, data):
        """Honours the window. False when the client has gone."""
        view = memoryview(data)
        while len(view):
            if not self.wait(lambda: self.windows[kind] > 0) or self.closed:
                return False
            n = min(len(view), self.windows[kind], 32768 - 16)
            with self.changed:
                self.windows[kind] -= n
                self.changed.notify_all()
            try:
                self.send(kind, view[:n].tobytes())
            except OSError:
                return False
            view = view[n:]
        return True

    def grant_stdin(self, count):
        self.send(WINDOW, struct.pack("<II", 0, count))


def run_spew(c, args):
    left = int(args[0])
    while left:
        n = min(left, 1 << 20)
        if not c.write(STDOUT, b"x" * n):
            return
        left -= n
    c.run_result("exited")


def run_both(c, args):
    """Floods stdout, and says one thing on stderr once stdout's window was used up or all is out."""
    over = []

    def flood():
        c.write(STDOUT, b"x" * int(args[0]))
        with c.changed:
            over.append(True)
            c.changed.notify_all()

    thread = threading.Thread(target=flood)
    thread.start()
    c.wait(lambda: c.windows[STDOUT] == 0 or over)
    c.write(STDERR, b"stderr is alive\n")
    thread.join()
    c.run_result("exited")


def run_cat(c, _args):
    c.grant_stdin(65536)
    while c.wait(lambda: c.stdin or c.stdin_end):
        with c.changed:
            data, c.stdin = c.stdin, []
            end = c.stdin_end
        for piece in data:
            if not c.write(STDOUT, piece):
                return
            c.grant_stdin(len(piece))
        if end and not data:
            break
    c.run_result("exited")


def run_signal(c, _args):
    c.write(STDOUT, b"ready\n")
    if c.wait(lambda: c.signals):
        c.run_result("signaled", c.signals[0])


def run_hang(c, _args):
    c.write(STDOUT, b"ready\n")
    if c.wait(lambda: c.signals):
        c.write(STDOUT, b"signal %d\n" % c.signals[0])
    c.wait(lambda: False)
    with open(f"{HOME}/client-gone", "w", encoding="ascii") as f:
        f.write("yes")


def run_lost(c, _args):
    c.write(STDOUT, b"part")
    c.sock.shutdown(socket.SHUT_RDWR)


def run_lie(c, _args):
    for _ in range(40):
        c.send(STDOUT, b"x" * 32000)


def run_junk(c, _args):
    c.sock.sendall(b"this is not a frame at all")


def run_argv(c, args):
    c.write(STDOUT, b"\0".join(os.fsencode(a) for a in args) + b"\0")
    c.run_result("exited")


def run_terminal(c, args):
    """Tells what comes, a line each: STDIN in hex, sizes, signals; "q" ends it, "k" the engine, "j"
    sends what is no frame, "l" hangs up. With "deaf" as an argument it grants no stdin."""
    r = c.request
    env = dict(e.split("=", 1) for e in r["env"])
    if "deaf" not in args:
        c.grant_stdin(65536)
    c.write(STDOUT, f"start {r.get('rows')}x{r.get('columns')} tty={r.get('tty')} "
            f"{env.get('TERM')} {env.get('COLORTERM')}\n".encode())
    while c.wait(lambda: c.events):
        with c.changed:
            kind, payload = c.events.pop(0)
        if kind == STDIN:
            c.write(STDOUT, f"in {payload.hex()}\n".encode())
            if payload[-1:] == b"q":
                return c.run_result("exited", 5)
            if payload[-1:] == b"k":
                os.kill(os.getpid(), signal.SIGKILL)
            if payload[-1:] == b"j":
                return c.sock.sendall(b"this is not a frame at all")
            if payload[-1:] == b"l":
                return c.sock.shutdown(socket.SHUT_RDWR)
        elif kind == RESIZE:
            c.write(STDOUT, "size {}x{}\n".format(*struct.unpack("<HH", payload)).encode())
        elif kind == SIGNAL:
            c.write(STDOUT, b"signal %d\n" % struct.unpack("<I", payload))
        elif kind == DETACH:
            return c.result(how="detached", code=0, oom=False, id="0123456789ab")


def run_failed(c, _args):
    c.write(STDOUT, b"before\n")
    c.error("cancelled", "the sandbox was rewound\x1b[2J while this ran")


def handle_run(c, request):
    argv = [a if isinstance(a, str) else bytes.fromhex(a["hex"]).decode("utf-8", "surrogateescape")
            for a in request["argv"]] or ["exit", "0"]
    what, args = argv[0], argv[1:]
    if what == "notfound":
        return c.error("cmd_not_found", "notfound: there is no such program")
    if what == "notexec":
        return c.error("cmd_not_exec", "notexec: cannot be executed")
    c.request = request
    c.start_reader()
    if what == "slowstart":
        c.wait(lambda: False)
        return None
    if request.get("detach"):
        return c.result(how="detached", code=0, oom=False, id="0123456789ab")
    c.send(STARTED)
    if what == "/bin/sh" and args[:1] == ["-c"]:
        return run_terminal(c, args)
    if what == "/bin/sh":
        return run_cat(c, args)
    ends = {"exit": "exited", "signaled": "signaled", "timeout": "timeout", "killed": "killed"}
    if what in ends:
        return c.run_result(ends[what], int(args[0]) if args else 0)
    if what == "oom":
        return c.run_result("signaled", 9, True)
    return globals()[f"run_{what}"](c, args)


class Supervisor:
    def __init__(self, sandbox):
        self.sandbox = sandbox
        self.number = 0
        self.stops = []

    def op_start(self, c, request):
        fake = os.environ.get("KOSA8_FAKE", "")
        if fake == "fail":
            c.error("unavailable", "QEMU is missing", "kosa8 doctor")
            os._exit(1)
        if fake == "die":
            sys.stderr.write("something broke\nthe engine fell over\n")
            sys.stderr.flush()
            os._exit(1)
        c.send_json(NOTICE, {"text": "making the template \x1b[31m(once)"})
        sql("UPDATE sandbox SET state = ?, epoch = epoch + 1 WHERE id = ?", RUNNING, self.sandbox)
        if request["mode"] == "new":
            layer = os.urandom(8).hex()
            sql("INSERT INTO layer (id, sandbox) VALUES (?, ?)", layer, self.sandbox)
            sql("UPDATE sandbox SET layer = ? WHERE id = ?", layer, self.sandbox)
        if request["mode"] == "rewind":
            self.set_checkpoint(request["checkpoint"])
        c.result(epoch=1)

    def set_checkpoint(self, checkpoint):
        sql("UPDATE sandbox SET checkpoint = ? WHERE id = ?", checkpoint, self.sandbox)

    def op_status(self, c, _request):
        c.result(live={"epoch": 1, "runs": 0, "cmdline": "\x1b[31mred", "mounts": [
            {"guest": "/good", "state": "mounted", "error": None},
            {"guest": "/bad", "state": "failed", "error": "it \x1b[31mended"}]})

    def op_mount_add(self, c, _request):
        c.result(id=7)

    def op_mount_rm(self, c, _request):
        c.result()

    def op_port_add(self, c, request):
        c.result(host_port=request["host_port"] or 45678)

    def op_port_rm(self, c, request):
        if request["host_port"] == 9:
            return c.error("not_found", "127.0.0.1:9 is not published")
        return c.result()

    def op_attach(self, c, _request):
        c.result()

    def op_checkpoint(self, c, request):
        checkpoint, layer = os.urandom(8).hex(), os.urandom(8).hex()
        sql("INSERT INTO layer (id, sandbox) VALUES (?, ?)", layer, self.sandbox)
        sql("INSERT INTO checkpoint (id, sandbox, label, parent, layer, created_ns, size_bytes,"
            " pause_us, hash, durable) VALUES (?, ?, ?,"
            " (SELECT checkpoint FROM sandbox WHERE id = ?), ?, ?, 25000000, 41500, ?, 1)",
            checkpoint, self.sandbox, request.get("label"), self.sandbox, layer,
            time.time_ns(), hashlib.sha256(checkpoint.encode()).hexdigest())
        self.set_checkpoint(checkpoint)
        os.makedirs(f"{HOME}/sandboxes/{self.sandbox}/checkpoints/{checkpoint}")
        c.result(id=checkpoint, label=request.get("label"), pause_ms=41.5, size_bytes=25000000)

    def op_copy(self, c, request):
        fake_copy.op_copy(c, request, HOME)

    def op_rewind(self, c, request):
        self.set_checkpoint(request["checkpoint"])
        c.result(id=request["checkpoint"], epoch=2)

    def op_stop(self, c, _request):
        """With KOSA8_FAKE=stops at the start: the first of three does it, as the others are told."""
        self.stops.append(c)
        if os.environ.get("KOSA8_FAKE") == "stops" and len(self.stops) < 3:
            return threading.Event().wait()
        sql("UPDATE sandbox SET state = ? WHERE id = ?", STOPPED, self.sandbox)
        for other in self.stops[1:]:
            other.error("cancelled", "the sandbox was stopped")
        self.stops[0].result(clean=True)
        os._exit(0)

    def op_destroy(self, c, _request):
        if os.environ.get("KOSA8_FAKE") == "deaf":
            threading.Event().wait()
        c.result()
        os._exit(0)

    def op_exec(self, c, request):
        if request["container"] == "gone":
            return c.error("not_found", "there is no container gone in box", "did you mean gold?")
        return handle_run(c, request)

    def op_container_attach(self, c, request):
        """As a run; then the types of what came are a line of a file."""
        request.update(argv=["terminal"], env=[])
        kinds = []
        take = c.take
        c.take = lambda kind, payload: (kinds.append(kind), take(kind, payload))
        try:
            return handle_run(c, request)
        finally:
            c.wait(lambda: False)
            with open(f"{HOME}/attach-events", "a", encoding="ascii") as f:
                f.write(" ".join(str(k) for k in kinds) + "\n")

    def op_wait(self, c, request):
        threading.Thread(target=c.reader, daemon=True).start()
        if request["container"] == "never":
            return c.wait(lambda: False)
        with open(f"{HOME}/wait.json", encoding="utf-8") as f:
            return c.result(**json.load(f))

    def op_ps(self, c, _request):
        with open(f"{HOME}/ps.json", encoding="utf-8") as f:
            c.result(containers=json.load(f))

    def op_logs(self, c, request):
        """The bytes of a file; then, when it is followed, of another, and no end without one."""
        threading.Thread(target=c.reader, daemon=True).start()
        c.send(STARTED)
        name = f"{HOME}/log-{request['container']}"
        with open(name, "rb") as f:
            c.write(STDOUT, f.read())
        if request["follow"]:
            if not os.path.exists(name + ".live"):
                return c.wait(lambda: False)
            with open(name + ".live", "rb") as f:
                c.write(STDOUT, f.read())
        return c.result(how="exited", code=0, oom=False)

    def op_kill(self, c, request):
        if request["container"] == "gone":
            return c.error("not_found", "there is no container gone in box", "did you mean gold?")
        return c.result()

    def op_container_rm(self, c, request):
        if request["container"] == "busy" and not request["force"]:
            return c.error("state", "the container busy runs")
        return c.result()

    def serve(self, sock):
        c = Connection(sock)
        kind, payload = c.frame()
        assert kind == REQUEST
        request = json.loads(payload)
        with open(f"{HOME}/requests.jsonl", "a", encoding="utf-8") as f:
            f.write(json.dumps(request) + "\n")
        if request["op"] == "run":
            handle_run(c, request)
        else:
            getattr(self, "op_" + request["op"].replace("-", "_"))(c, request)
        # Closed by the client: it has all then.
        try:
            while c.sock.recv(65536):
                pass
        except OSError:
            pass
        sock.close()


def supervisor(sandbox):
    with open("/proc/self/comm", "w", encoding="ascii") as f:
        f.write("kosa8-superviso")
    with open(f"{HOME}/fake-pids", "a", encoding="ascii") as f:
        f.write(f"{os.getpid()}\n")
    signal.alarm(120)
    s = Supervisor(sandbox)
    listener = socket.socket(fileno=4)
    starter = socket.socket(fileno=5)
    s.serve(starter)
    while True:
        sock, _ = listener.accept()
        threading.Thread(target=s.serve, args=(sock,), daemon=True).start()


def say(**members):
    print(json.dumps(members), flush=True)


def image_worker(argv):
    verb, images_dir, operand = argv[0], argv[2], argv[-1]
    if "missing" in operand:
        say(ok=False, error={"kind": "not_found", "errno": 0, "hint": "",
                             "what": "registry says \x1b[2J 404"})
        return 1
    if "dies" in operand:
        say(event="notice", text="about to die")
        os.kill(os.getpid(), signal.SIGKILL)
    if "junk" in operand:
        print("this is no JSON")
        return 0
    if "endless" in operand:
        sys.stdout.write('{"event":"' + "x" * (10 << 20))
        return 0
    if verb == "show":
        say(ok=True, **json.loads(os.environ["KOSA8_FAKE_SHOW"]))
        return 0
    if verb == "save":
        if "full" in os.environ.get("KOSA8_FAKE", ""):
            say(ok=False, error={"kind": "no_space", "errno": 28, "what": "no space on the host",
                                 "hint": "set KOSA8_HOME"})
            return 1
        os.write(3, b"archive of " + " ".join(argv[argv.index("--") + 1:]).encode())
        if "saves" in os.environ.get("KOSA8_FAKE", ""):
            os.kill(os.getpid(), signal.SIGKILL)
        say(ok=True, size=7)
        return 0
    if "waits" in operand:
        say(event="notice", text="waiting")
        threading.Event().wait(60)
    data = sys.stdin.buffer.read() if operand == "-" else operand.encode()
    digest = hashlib.sha256(data).hexdigest()
    with open(f"{images_dir}/{digest}.sqfs", "wb") as f:
        f.write(b"s" * 5000)
    say(event="layer", digest=f"sha256:{digest}", size=1000, done=500)
    say(event="layer", digest=f"sha256:{digest}", size=1000, done=1000)
    say(event="convert", layer=0, bytes=5000)
    if "waited" in operand:
        say(event="waiting", text="waiting for another process")
    if "notice" in operand:
        say(event="notice", text="mirror \x1b[31mused")
    config = {"Cmd": ["sh"]}
    if "arm" in operand:
        config = {"os": "linux", "architecture": "arm64", "config": config}
    one = {"digest": f"sha256:{'0' * 64 if 'baddigest' in operand else digest}",
           "ref": "example.com/loaded:1" if verb == "load" else operand, "config": config,
           "size": 5000, "cached": False, "blobs": image_blobs(images_dir, operand)}
    if verb == "load":
        refs = json.loads(os.environ.get("KOSA8_FAKE_REFS", "[]"))
        more = [{**one, "ref": r.replace("OWN", one["digest"])} for r in refs]
        if "--platform" in argv:
            more = [{**one, "ref": "example.com/" + argv[argv.index("--platform") + 1]}]
        say(ok=True, images=[one, {**one, "ref": "NOT A NAME\x1b[2J"}, *more])
    else:
        say(ok=True, **one)
    if "--hold" in argv:
        poll = select.poll()
        poll.register(1, 0)
        poll.poll(60000)
    return 0


def image_blobs(images_dir, operand):
    """A blob that all images share; or one that is not there, or not as large as is said."""
    data = b"blob"
    digest = hashlib.sha256(data).hexdigest()
    os.makedirs(f"{images_dir}/blobs/sha256", exist_ok=True)
    with open(f"{images_dir}/blobs/sha256/{digest}", "wb") as f:
        f.write(data)
    if "noblob" in operand:
        digest = "1" * 64
    return [{"digest": f"sha256:{digest}", "size": 5 if "badsize" in operand else 4}]


def main():
    name = os.path.basename(sys.argv[0])
    if name == "kosa8-image":
        return image_worker(sys.argv[1:])
    if sys.argv[1] == "--doctor":
        say(checks=[{"name": "qemu", "status": "ok", "text": "QEMU 7.2.0", "hint": ""},
                    {"name": "accelerator", "status": os.environ.get("KOSA8_FAKE", "warn"),
                     "text": "emulation", "hint": "enable virtualisation"}],
            qemu_version="7.2.0")
        return 0
    return supervisor(sys.argv[1])


if __name__ == "__main__":
    sys.exit(main())
