"""Every way in which a mount can end: what it waits for, what it keeps, what it says."""

import json
import os
import signal
import subprocess
from pathlib import Path

import pytest
from conftest import open_mount
from namespace import Namespace

DIR = "/mnt/archive"
FILES = 200


@pytest.fixture
def namespace():
    made = Namespace()
    yield made
    made.close()


class Place:
    """A bucket and a mount point in the namespace, for one user."""

    def __init__(self, namespace, user):
        self.namespace, self.user = namespace, user
        namespace.folder("/mnt/bucket", user)
        namespace.folder(DIR, user)
        self.url = "file:///mnt/bucket"

    def run(self, *command, **how):
        return self.namespace.run(*command, user=self.user, **how)

    def fill(self):
        """Many files, among them documents, which wait for quiet or a flush; returns their names."""
        script = f"cd {DIR}; mkdir a.zarr; for i in $(seq {FILES}); do echo $i > a.zarr/c$i; done; echo {{}} > a.zarr/zarr.json"
        self.run("sh", "-c", script)
        return {f"a.zarr/c{i + 1}" for i in range(FILES)} | {"a.zarr/zarr.json"}

    def objects(self):
        bucket = self.namespace.path("/mnt/bucket")
        return {str(path.relative_to(bucket)) for path in bucket.rglob("*") if path.is_file()}

    def daemon(self):
        return json.loads(self.run("zarrmount", "status", DIR, "--json", check=False).stdout)["mount"]["pid"]

    def is_gone(self):
        """Neither a mount nor an entry of mount(8) is left."""
        return DIR not in self.namespace.mounts() and DIR not in self.namespace.utab()


def await_end(pid):
    """Waits until a process is gone, or a zombie that nobody has collected yet."""
    process = Path("/proc") / str(pid)
    while process.exists() and (process / "stat").read_text().rsplit(")", 1)[1].split()[0] != "Z":
        os.sched_yield()


@pytest.mark.parametrize(
    ("command", "user"),
    [
        (["zarrmount", "umount", DIR], None),
        (["zarrmount", "umount", DIR], "nobody"),
        (["umount", DIR], None),
        (["umount", DIR], "nobody"),
        (["umount", "-c", DIR], None),
        (["umount", "file:///mnt/bucket"], None),
    ],
    ids=lambda value: " ".join(value) if isinstance(value, list) else value or "root",
)
def test_an_unmount_waits_until_everything_is_in_the_bucket(namespace, command, user):
    place = Place(namespace, user)
    place.run("zarrmount", "mount", place.url, DIR)
    daemon = place.daemon()
    names = place.fill()
    place.run(*command)
    assert place.objects() == names
    assert place.is_gone()
    await_end(daemon)


@pytest.mark.parametrize(
    ("command", "user"),
    [
        (["umount", "-l", DIR], None),
        (["umount", "-f", DIR], None),
        (["umount", "-i", DIR], None),
        (["fusermount3", "-u", DIR], "nobody"),
        (["umount", "-l", DIR], "nobody"),
    ],
    ids=lambda value: " ".join(value) if isinstance(value, list) else value or "root",
)
def test_an_unmount_that_does_not_wait_leaves_the_daemon_to_send_the_rest(namespace, command, user):
    place = Place(namespace, user)
    place.run("zarrmount", "mount", place.url, DIR)
    daemon = place.daemon()
    names = place.fill()
    place.run(*command)
    assert place.is_gone()
    await_end(daemon)
    assert place.objects() == names


def test_a_sync_of_the_mount_waits_so_that_a_lazy_unmount_need_not(namespace):
    place = Place(namespace, None)
    place.run("zarrmount", "mount", place.url, DIR)
    names = place.fill()
    place.run("sync", DIR)
    assert place.objects() == names
    place.run("umount", "-l", DIR)
    assert place.is_gone()


def test_a_line_of_fstab_mounts_and_unmounts(namespace):
    place = Place(namespace, None)
    namespace.path("/mnt/fstab").write_text(
        f"{place.url} {DIR} fuse.zarrmount noauto,_netdev,nofail,x-systemd.automount,codec=zstd:3 0 0\n"
    )
    place.run("mount", DIR)
    assert namespace.mounts() == [DIR]
    names = place.fill()
    place.run("umount", DIR)
    assert place.objects() == names and place.is_gone()


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
def test_a_signal_sends_what_is_staged_and_unmounts(namespace, number):
    place = Place(namespace, None)
    daemon = namespace.popen("zarrmount", "mount", "--foreground", place.url, DIR, stdout=subprocess.PIPE)
    assert "is mounted" in daemon.stdout.readline()
    names = place.fill()
    # nsenter and env have become the daemon.
    daemon.send_signal(number)
    assert daemon.wait() == 0
    assert place.objects() == names and place.is_gone()


@pytest.mark.parametrize("command", [["zarrmount", "umount", DIR], ["umount", DIR], ["umount", "-c", DIR]], ids=" ".join)
def test_an_open_file_keeps_the_mount_and_is_named_with_its_process(namespace, command):
    place = Place(namespace, None)
    place.run("zarrmount", "mount", place.url, DIR)
    (namespace.path(DIR) / "closed").write_text("closed")
    with open(namespace.path(DIR) / "open", "w") as file:
        file.write("half")
        file.flush()
        refused = place.run(*command, check=False)
        assert refused.returncode in (4, 32)
        assert f"(process {os.getpid()}): " in refused.stderr and f"{DIR}/open" in refused.stderr
        assert namespace.mounts() == [DIR] and DIR in namespace.utab()
        assert place.objects() == {"closed"}
    place.run(*command)
    assert place.objects() == {"closed", "open"} and place.is_gone()


def test_a_daemon_that_outlives_its_mount_never_harms_another_mount_at_the_same_path(namespace):
    place = Place(namespace, None)
    namespace.folder("/mnt/bucket2")
    other = ["env", "XDG_STATE_HOME=/mnt/other-state", "zarrmount"]
    place.run("zarrmount", "mount", place.url, DIR)
    old = place.daemon()
    with open(namespace.path(DIR) / "late", "w") as file:
        file.write("late")
        file.flush()
        place.run("umount", "-l", DIR)
        assert place.is_gone()
        # Still alive, since a file is open.
        place.run(*other, "mount", "file:///mnt/bucket2", DIR)
        for command in (["zarrmount", "umount", DIR], ["zarrmount", "mount", place.url, DIR]):
            refused = place.run(*command, check=False)
            assert refused.returncode != 0 and namespace.mounts() == [DIR], refused.stderr
        (namespace.path(DIR) / "new").write_text("new")
    await_end(old)
    assert place.objects() == {"late"}
    assert (namespace.path(DIR) / "new").read_text() == "new"
    place.run(*other, "umount", DIR)
    assert os.listdir(namespace.path("/mnt/bucket2")) == ["new"] and place.is_gone()


def test_a_signal_to_a_daemon_that_outlives_its_mount_takes_no_other_mount_away(namespace):
    place = Place(namespace, None)
    other = ["env", "XDG_STATE_HOME=/mnt/other-state", "zarrmount"]
    place.run("zarrmount", "mount", place.url, DIR)
    old = place.daemon()
    file = os.open(namespace.path(DIR) / "half", os.O_WRONLY | os.O_CREAT)
    os.write(file, b"half")
    place.run("umount", "-l", DIR)
    place.run(*other, "mount", "file:///mnt/bucket", DIR)
    os.kill(old, signal.SIGTERM)
    await_end(old)
    with pytest.raises(OSError):
        os.close(file)
    assert namespace.mounts() == [DIR]
    (namespace.path(DIR) / "new").write_text("new")
    place.run(*other, "umount", DIR)
    assert place.objects() == {"new"}
    assert "half" in place.run("zarrmount", "recover", check=False).stdout


@pytest.fixture
def mount(tmp_path, s3_server):
    """A mount, not mounted yet, of an empty local folder."""
    made = open_mount("file", tmp_path, s3_server)
    yield made
    made.close()


def test_a_signal_with_a_file_open_keeps_it_as_partial_and_the_next_mount_never_sends_it(mount):
    mount.mount()
    (mount.path / "whole").write_bytes(b"whole")
    half = os.open(mount.path / "half", os.O_WRONLY | os.O_CREAT)
    os.write(half, bytes(3 << 20))
    pid = mount.status()["mount"]["pid"]
    os.kill(pid, signal.SIGTERM)
    await_end(pid)
    mount.mounted = False
    with pytest.raises(OSError):
        os.write(half, b"more")
    with pytest.raises(OSError):
        os.close(half)

    said = mount.run("mount", mount.url, mount.path, *mount.options)
    mount.mounted = True
    assert "cut short" in said.stderr and "half" in said.stderr
    [left] = mount.status()["files"]
    assert (left["path"], left["state"], left["bytes"]) == ("half", "partial", 3 << 20)
    assert os.listdir(mount.path) == ["whole"]
    mount.umount()
    assert [path.name for path in mount.bucket.iterdir()] == ["whole"]
    assert "half" in mount.run("recover", check=False).stdout
