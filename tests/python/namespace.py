"""A mount namespace of its own, in which zarrmount is installed with its helpers for mount(8) and umount(8).

What mount(8) keeps in /run, helpers in /sbin, lines of /etc/fstab and the rights of /dev/fuse are those of
the namespace: nothing of the machine is touched.
"""

import os
import subprocess
from pathlib import Path

from conftest import BINARY, PATIENCE_S, REPOSITORY

# Everything lies below /mnt, which every user may enter, unlike the folders of pytest.
SETUP = """
set -eu
# Copies of mounts that others have made would keep their daemons alive.
sed -n 's/^[^ ]* [^ ]* [^ ]* [^ ]* \\([^ ]*\\) .* - fuse[^ ]* .*/\\1/p' /proc/self/mountinfo | while read -r dir; do
    umount -i -l "$dir"
done
mount -t tmpfs tmpfs /mnt
mount -t tmpfs tmpfs /run
mkdir /mnt/upper /mnt/work
mount -t overlay overlay -o lowerdir=/usr/sbin,upperdir=/mnt/upper,workdir=/mnt/work /usr/sbin
mknod -m 666 /mnt/fuse c 10 229
mount --bind /mnt/fuse /dev/fuse
: > /mnt/fstab
mount --bind /mnt/fstab /etc/fstab
# umount(8) takes HOME away from its helpers: what /etc/passwd says counts.
mkdir /mnt/home-root /mnt/home-nobody
chown nobody /mnt/home-nobody
mount --bind /mnt/home-root /root
sed 's|^\\(nobody:.*\\):[^:]*\\(:[^:]*\\)$|\\1:/mnt/home-nobody\\2|' /etc/passwd > /mnt/passwd
mount --bind /mnt/passwd /etc/passwd
make -s -C "$1" install BUILT="$2" PREFIX=/mnt/usr > /mnt/install.log 2>&1
echo ready
exec cat
"""


class Namespace:
    """Runs commands in it, as root or as `nobody`; `path` finds what lies below /mnt there."""

    def __init__(self):
        command = ["unshare", "--mount", "--propagation", "private", "sh", "-c", SETUP, "sh"]
        self.holder = subprocess.Popen(
            [*command, REPOSITORY, BINARY], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
        )
        assert self.holder.stdout.readline() == "ready\n"
        self.root = Path("/proc") / str(self.holder.pid) / "root"

    def path(self, path):
        return self.root / str(path).lstrip("/")

    def folder(self, path, user=None):
        """Makes a folder that belongs to a user."""
        self.path(path).mkdir(parents=True)
        if user:
            os.chown(self.path(path), 65534, 65534)
        return path

    def command(self, *command, user=None):
        home = f"/mnt/home-{user or 'root'}"
        become = ["setpriv", "--reuid=65534", "--regid=65534", "--clear-groups"] if user else []
        environment = ["env", "-i", f"HOME={home}", "PATH=/mnt/usr/bin:/usr/bin:/bin:/usr/sbin:/sbin"]
        return ["nsenter", "-t", str(self.holder.pid), "-m", *become, *environment, *map(str, command)]

    def run(self, *command, user=None, check=True):
        # A working folder in the mount would keep it in use.
        done = subprocess.run(
            self.command(*command, user=user), capture_output=True, text=True, timeout=PATIENCE_S, cwd="/"
        )
        if check and done.returncode:
            raise AssertionError(f"{command}: {done.returncode}\n{done.stdout}{done.stderr}")
        return done

    def popen(self, *command, user=None, **how):
        return subprocess.Popen(self.command(*command, user=user), text=True, cwd="/", **how)

    def mounts(self):
        """Mounts of ours: their folders."""
        table = Path("/proc") / str(self.holder.pid) / "mountinfo"
        mounts = [line.split()[4] for line in table.read_text().splitlines() if " fuse.zarrmount " in line]
        return [mount for mount in mounts if mount.startswith("/mnt/")]

    def utab(self):
        table = self.path("/run/mount/utab")
        return table.read_text() if table.exists() else ""

    def close(self):
        for folder in self.mounts():
            self.run("umount", "-i", "-l", folder)
        self.holder.stdin.close()
        self.holder.wait(timeout=10)
