"""Real mounts of the built binary on a local folder and on an S3 protocol server."""

import itertools
import json
import os
import shutil
import signal
import subprocess
from pathlib import Path

import pytest

REPOSITORY = Path(__file__).resolve().parents[2]
TARGET = Path(os.environ.get("CARGO_TARGET_DIR", REPOSITORY / "target")) / "debug"
BINARY = Path(os.environ.get("ZARRMOUNT", TARGET / "zarrmount"))
S3_SERVER = TARGET / "examples" / "s3_server"
PREFIXES = itertools.count()
PATIENCE_S = int(os.environ.get("ZARRMOUNT_TEST_PATIENCE_S", "120"))


def pytest_configure(config):
    if not BINARY.exists():
        pytest.exit(f"{BINARY} is not built: run `make test`", returncode=1)
    if not os.access("/dev/fuse", os.R_OK | os.W_OK):
        pytest.exit("these tests mount file systems and need /dev/fuse", returncode=1)


class Mount:
    """A mount with its own state folder; `bucket` is the folder in which the objects lie."""

    def __init__(self, folder, url, bucket, environment=(), options=()):
        self.url, self.bucket, self.options = url, Path(bucket), list(options)
        self.path = Path(folder) / "mnt"
        self.path.mkdir(exist_ok=True)
        state = Path(folder) / "state"
        self.environment = {
            **os.environ,
            "XDG_STATE_HOME": str(state),
            "XDG_RUNTIME_DIR": str(state),
            **dict(environment),
        }
        self.mounted = False

    def run(self, *arguments, check=True):
        done = subprocess.run(
            [BINARY, *map(str, arguments)],
            env=self.environment,
            capture_output=True,
            text=True,
            timeout=PATIENCE_S,
        )
        if check and done.returncode:
            raise AssertionError(f"zarrmount {arguments}: {done.returncode}\n{done.stdout}{done.stderr}")
        return done

    def mount(self, *options):
        self.run("mount", self.url, self.path, *self.options, *options)
        self.mounted = True
        return self

    def umount(self, check=True):
        done = self.run("umount", self.path, check=check)
        self.mounted = bool(done.returncode)
        return done

    def status(self):
        return json.loads(self.run("status", self.path, "--json", check=False).stdout)

    def kill(self):
        """kill -9 of the daemon, as a crash."""
        daemon = Path("/proc") / str(self.status()["mount"]["pid"])
        os.kill(int(daemon.name), signal.SIGKILL)
        # Dead is gone, or a zombie that nobody has collected yet.
        while daemon.exists() and (daemon / "stat").read_text().rsplit(")", 1)[1].split()[0] != "Z":
            pass
        subprocess.run(["umount", "-l", self.path], check=True)
        self.mounted = False

    def close(self):
        if self.mounted:
            self.run("umount", self.path, "--timeout", "5s", check=False)
            subprocess.run(["umount", "-l", self.path], check=False, capture_output=True)


@pytest.fixture(scope="session")
def s3_server():
    """An S3 protocol server over a folder; yields its environment, URL and folder."""
    server = subprocess.Popen(
        [S3_SERVER], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    )
    said = json.loads(server.stdout.readline())
    yield said
    server.stdin.close()
    server.wait(timeout=10)


def open_mount(kind, folder, s3_server):
    """A mount, not mounted yet, of an empty place in a store of this kind."""
    if kind == "file":
        bucket = folder / "bucket"
        bucket.mkdir()
        return Mount(folder, f"file://{bucket}", bucket)
    # The server keeps keys base64 in file names, so that long ones do not fit.
    prefix = f"p{next(PREFIXES)}"
    return Mount(
        folder,
        f"s3://{s3_server['bucket']}/{prefix}",
        Path(s3_server["folder"]) / prefix,
        environment={
            "AWS_ACCESS_KEY_ID": s3_server["access_key"],
            "AWS_SECRET_ACCESS_KEY": s3_server["secret_key"],
        },
        options=["--endpoint-url", s3_server["endpoint"], "--region", "us-east-1"],
    )


@pytest.fixture(params=["file", "s3"])
def mount(request, tmp_path, s3_server):
    """A mount, not mounted yet, of an empty place in either kind of store."""
    made = open_mount(request.param, tmp_path, s3_server)
    yield made
    made.close()
    shutil.rmtree(tmp_path / "mnt", ignore_errors=True)
