"""Every way in which a mount can end: what it waits for, what it keeps, what it says."""

import os
import signal
from pathlib import Path

import pytest
from conftest import open_mount


def objects(bucket):
    """Names of the objects in a bucket."""
    return sorted(str(path.relative_to(bucket)) for path in bucket.rglob("*") if path.is_file())


def await_end(pid):
    """Waits until a process is gone, or a zombie that nobody has collected yet."""
    process = Path("/proc") / str(pid)
    while process.exists() and (process / "stat").read_text().rsplit(")", 1)[1].split()[0] != "Z":
        os.sched_yield()


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
    assert objects(mount.bucket) == ["whole"]
    assert "half" in mount.run("recover", check=False).stdout
