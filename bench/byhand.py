# SPDX-License-Identifier: Apache-2.0
"""The same VM without kosa8: QEMU driven over QMP, to compare with."""
import json
import os
import signal
import socket
import subprocess
import time

MEMORY_MB = 2048
MACHINE = "q35,i8042=off,sata=off,smbus=off,vmport=off,smm=off,suppress-vmdesc=on"
CMDLINE = ("quiet console=ttyS0 panic=-1 reboot=t mitigations=off audit=0 random.trust_cpu=on "
           "cryptomgr.notests")
QBOOT = "/usr/share/qemu/qboot.rom"
# Boots in place of the agent: fills memory, says so on the serial port, stands still.
INIT = """#!/bin/busybox sh
/bin/busybox mkdir -p /dev /fill
/bin/busybox mount -t devtmpfs dev /dev
/bin/busybox mount -t tmpfs -o size=90% fill /fill
/bin/busybox dd if=/dev/urandom of=/fill/data bs=1M count={0} 2>/dev/null
echo filled > /dev/ttyS0
while :; do /bin/busybox sleep 3600; done
"""


class Qemu:
    """A QEMU of kosa8's machine type; .port is the host's end of a virtio-serial port."""

    def __init__(self, build, folder, initramfs, append, disk=None, serial=False, more=(),
                 machine=MACHINE):
        self.qmp, theirs = socket.socketpair()
        self.port, port = socket.socketpair()
        fds = [theirs.fileno(), port.fileno()]
        accel = ["-accel", "kvm", "-cpu", "host"] if kvm() else \
            ["-accel", "tcg,thread=multi,tb-size=128", "-cpu", "max,la57=off,erms=off,fsrm=off"]
        command = [
            "qemu-system-x86_64", "-M", machine, "-bios", QBOOT, *accel, "-m", str(MEMORY_MB),
            "-smp", "2", "-nodefaults", "-no-user-config", "-nographic", "-no-reboot",
            "-chardev", f"socket,id=qmp,fd={fds[0]}", "-mon", "chardev=qmp,mode=control",
            "-device", "virtio-serial-pci", "-device", "virtio-scsi-pci,id=scsi0",
            "-device", "virtio-rng-pci",
            "-chardev", f"socket,id=port,fd={fds[1]}",
            "-kernel", os.path.join(build, "assets/vmlinuz"), "-initrd", initramfs, "-append", append]
        if serial:
            command += ["-device", "isa-serial,chardev=port"]
        else:
            command += ["-chardev", "null,id=console", "-device", "isa-serial,chardev=console",
                        "-device", "virtserialport,chardev=port,name=kosa8.mux",
                        "-chardev", "null,id=none",
                        "-device", "virtserialport,chardev=none,name=kosa8.resume"]
        command += more
        if disk:
            command += ["-blockdev", f"driver=qcow2,node-name=d0,file.driver=file,file.filename={disk}",
                        "-device", "virtio-blk-pci,drive=d0"]
        self.process = subprocess.Popen(command, pass_fds=fds, stdin=subprocess.DEVNULL,
                                        preexec_fn=die_with_parent)
        theirs.close()
        port.close()
        self.lines = self.qmp.makefile("rw")
        self.lines.readline()
        self.command("qmp_capabilities")

    def command(self, name, **arguments):
        self.lines.write(json.dumps({"execute": name, "arguments": arguments}) + "\n")
        self.lines.flush()
        while True:
            answer = json.loads(self.lines.readline())
            if "error" in answer:
                raise RuntimeError(f"{name}: {answer['error']}")
            if "return" in answer:
                return answer["return"]

    def monitor(self, line):
        said = self.command("human-monitor-command", **{"command-line": line})
        if said.strip():
            raise RuntimeError(f"{line}: {said}")

    def end(self):
        self.process.kill()
        self.process.wait()
        self.qmp.close()
        self.port.close()


def die_with_parent():
    import ctypes
    ctypes.CDLL(None).prctl(1, signal.SIGKILL)


def kvm():
    if os.environ.get("KOSA8_ACCEL") == "tcg":
        return False
    with open("/proc/cpuinfo") as f:
        flags = f.read()
    return os.access("/dev/kvm", os.R_OK | os.W_OK) and (" vmx" in flags or " svm" in flags)


def command_line():
    return CMDLINE if kvm() else CMDLINE + " no_timer_check tsc=reliable"


def empty_disk(folder, name, size="16G"):
    path = os.path.join(folder, name)
    if os.path.exists(path):
        os.unlink(path)
    subprocess.run(["qemu-img", "create", "-q", "-f", "qcow2", path, size], check=True)
    return path


def cold_boot(build, folder):
    """Seconds from the start of QEMU to the first words of the agent."""
    disk = empty_disk(folder, "cold.qcow2")
    began = time.perf_counter()
    qemu = Qemu(build, folder, os.path.join(build, "assets/initramfs"),
                command_line(), disk)
    try:
        qemu.port.settimeout(60)
        if not qemu.port.recv(1):
            raise RuntimeError("QEMU ended before the agent said anything")
        return time.perf_counter() - began
    finally:
        qemu.end()


def filling_initramfs(folder, fill_mb):
    tree = os.path.join(folder, "init")
    os.makedirs(os.path.join(tree, "bin"), exist_ok=True)
    with open(os.path.join(tree, "init"), "w") as f:
        f.write(INIT.format(fill_mb))
    os.chmod(os.path.join(tree, "init"), 0o755)
    subprocess.run(["cp", "/bin/busybox", os.path.join(tree, "bin")], check=True)
    path = os.path.join(folder, "filling.cpio")
    with open(path, "wb") as out:
        names = b"init\nbin\nbin/busybox\n"
        subprocess.run(["cpio", "-o", "-H", "newc", "--quiet"], input=names, stdout=out, cwd=tree,
                       check=True)
    return path


def savevm_loadvm(build, folder, fill_mb, rounds):
    """Milliseconds of each savevm and each loadvm, into and from an internal qcow2 snapshot."""
    disk = empty_disk(folder, "savevm.qcow2")
    qemu = Qemu(build, folder, filling_initramfs(folder, fill_mb),
                command_line(), disk, serial=True)
    try:
        qemu.port.settimeout(120)
        seen = b""
        while b"filled" not in seen:
            data = qemu.port.recv(4096)
            if not data:
                raise RuntimeError("QEMU ended before memory was filled")
            seen = (seen + data)[-4096:]
        saved, loaded = [], []
        for n in range(rounds + 1):
            began = time.perf_counter()
            qemu.monitor(f"savevm s{n}")
            saved.append((time.perf_counter() - began) * 1000)
        for n in range(rounds + 1):
            began = time.perf_counter()
            qemu.monitor(f"loadvm s{n}")
            loaded.append((time.perf_counter() - began) * 1000)
        return saved[1:], loaded[1:]
    finally:
        qemu.end()
