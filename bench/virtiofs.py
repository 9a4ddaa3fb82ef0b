# SPDX-License-Identifier: Apache-2.0
"""Sequential read through virtiofs: the same kernel in a QEMU of kosa8's machine type, by hand. (The
kernel has no 9p.) Needs root, as virtiofsd of QEMU 7.2 does."""
import glob
import os
import socket
import subprocess
import time

import byhand

VIRTIOFSD = "/usr/lib/qemu/virtiofsd"
# Boots in place of the agent, with the agent's modules.
INIT = """#!/bin/busybox sh
PATH=/bin; /bin/busybox mkdir -p /dev /proc /mnt
/bin/busybox mount -t devtmpfs dev /dev
/bin/busybox mount -t proc proc /proc
for m in $(/bin/busybox cat /modules/list) virtiofs.ko; do /bin/busybox insmod /modules/$m; done
/bin/busybox mount -t virtiofs folder /mnt || echo failed > /dev/ttyS0
for n in $(/bin/busybox seq {rounds}); do
	echo 3 > /proc/sys/vm/drop_caches
	t=$(/bin/busybox cut -d' ' -f1 /proc/uptime)
	/bin/busybox dd if=/mnt/data of=/dev/null bs=1M 2>/dev/null
	echo "took $t $(/bin/busybox cut -d' ' -f1 /proc/uptime)" > /dev/ttyS0
done
echo end > /dev/ttyS0
while :; do /bin/busybox sleep 3600; done
"""


def can():
    return os.getuid() == 0 and os.path.exists(VIRTIOFSD)


def initramfs(build, folder, rounds):
    """The agent's, and a second archive whose /init wins."""
    cache = os.environ.get("KOSA8_CACHE") or os.path.expanduser("~/.cache/kosa8")
    package = max(glob.glob(os.path.join(cache, "linux-image-*.deb")), key=os.path.getmtime)
    tree = os.path.join(folder, "virtiofs-init")
    os.makedirs(os.path.join(tree, "bin"), exist_ok=True)
    os.makedirs(os.path.join(tree, "modules"), exist_ok=True)
    tar = subprocess.Popen(["dpkg", "--fsys-tarfile", package], stdout=subprocess.PIPE)
    with open(os.path.join(tree, "modules/virtiofs.ko"), "wb") as f:
        subprocess.run(["tar", "xO", "--wildcards", "*/fs/fuse/virtiofs.ko"], stdin=tar.stdout, stdout=f,
                       check=True)
    tar.stdout.close()
    tar.wait()
    with open(os.path.join(tree, "init"), "w") as f:
        f.write(INIT.format(rounds=rounds + 1))
    os.chmod(os.path.join(tree, "init"), 0o755)
    subprocess.run(["cp", "/bin/busybox", os.path.join(tree, "bin")], check=True)
    path = os.path.join(folder, "virtiofs.cpio")
    with open(path, "wb") as out:
        with open(os.path.join(build, "assets/initramfs"), "rb") as f:
            out.write(f.read())
        subprocess.run(["cpio", "-o", "-H", "newc", "--quiet"], stdout=out, cwd=tree, check=True,
                       input=b"init\nbin\nbin/busybox\nmodules\nmodules/virtiofs.ko\n")
    return path


def read_seconds(build, folder, shared, rounds):
    """Of a file `data` in the folder `shared`."""
    path = os.path.join(folder, "vfs.sock")
    server = subprocess.Popen([VIRTIOFSD, f"--socket-path={path}", "-o", f"source={shared}",
                               "-o", "cache=auto"], stdout=subprocess.DEVNULL,
                              stderr=subprocess.DEVNULL, preexec_fn=byhand.die_with_parent)
    try:
        while not os.path.exists(path):
            if server.poll() is not None:
                raise RuntimeError("virtiofsd ended")
            time.sleep(0.01)
        qemu = byhand.Qemu(build, folder, initramfs(build, folder, rounds), byhand.command_line(),
                           serial=True, more=[
                               "-object", f"memory-backend-memfd,id=ram,size={byhand.MEMORY_MB}M,share=on",
                               "-chardev", f"socket,id=vfs,path={path}",
                               "-device", "vhost-user-fs-pci,chardev=vfs,tag=folder"],
                           machine=byhand.MACHINE + ",memory-backend=ram")
        try:
            return times(qemu.port)
        finally:
            qemu.end()
    finally:
        server.kill()
        server.wait()


def times(port):
    port.settimeout(120)
    seen = b""
    while b"end" not in seen and b"failed" not in seen:
        data = port.recv(4096)
        if not data:
            break
        seen += data
    taken = [line.split()[1:] for line in seen.decode(errors="replace").splitlines() if line.startswith("took")]
    if not taken:
        raise RuntimeError(f"virtiofs cannot be mounted: {seen[-300:]!r}")
    return [float(after) - float(before) for before, after in taken][1:]
