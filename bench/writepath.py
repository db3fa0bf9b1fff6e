"""What writing into the mount costs before anything is sent: beside the same `cp` into a folder on tmpfs.

    writepath.py --zarrmount BINARY --server BINARY [--runs 5]

The server answers no request while it is measured, so nothing is uploaded. CPU seconds are those of cp and of the
daemon: other programs change them less than times, but not nothing.
"""

import argparse
import os
import shutil
import subprocess
import tempfile
import time
from pathlib import Path
from statistics import median

import clients
import measure
from server import Server, control

BIG_BYTES = 1 << 30
SMALL_FILES = 2000
# Longer than any measurement.
NEVER_MS = 3_600_000


def copied(source, target):
    """CPU seconds and time of `cp -r`."""
    cpu, start = measure.own_cpu(), time.perf_counter()
    subprocess.run(["cp", "-r", source, target], check=True)
    return measure.own_cpu() - cpu, time.perf_counter() - start


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--zarrmount", required=True, type=Path)
    parser.add_argument("--server", required=True, type=Path)
    parser.add_argument("--runs", type=int, default=5)
    arguments = parser.parse_args()
    work = Path(tempfile.mkdtemp(dir="/dev/shm", prefix="zarrmount-writepath-"))
    block = os.urandom(1 << 20)
    sources = {"big": BIG_BYTES / 1e9, "small-4k": SMALL_FILES, "small-64k": SMALL_FILES}
    (work / "big").write_bytes(block * (BIG_BYTES >> 20))
    for name, size in (("small-4k", 4096), ("small-64k", 65536)):
        (work / name).mkdir()
        for number in range(SMALL_FILES):
            (work / name / str(number)).write_bytes(block[number : number + size])
    try:
        with Server(arguments.server.resolve(), work / "server") as place:
            run = work / "run"
            run.mkdir()
            mount = clients.Mount("zarrmount", place, "endpoint", run, arguments.zarrmount.resolve(), ["--metadata-ttl", "1h"])
            try:
                os.listdir(mount.path)
                control(place, "set", service_ms=NEVER_MS)
                for name, amount in sources.items():
                    report(name, amount, [both(work, mount, name, number) for number in range(arguments.runs)])
            finally:
                mount.abandon()
    finally:
        shutil.rmtree(work)


def both(work, mount, name, number):
    """The same copy into the mount and into tmpfs."""
    daemon = measure.cpu_of(mount.process.pid)
    cp, wall = copied(work / name, mount.path / f"{name}-{number}")
    daemon = measure.cpu_of(mount.process.pid) - daemon
    local = work / "local"
    local_cpu, local_wall = copied(work / name, local)
    shutil.rmtree(local) if local.is_dir() else local.unlink()
    return {"cpu": cp + daemon, "daemon": daemon, "wall": wall, "local_cpu": local_cpu, "local_wall": local_wall}


def report(name, amount, runs):
    middle = {key: median(run[key] for run in runs) for key in runs[0]}
    unit, factor = ("CPU s/GB", 1) if name == "big" else ("CPU us/file", 1e6)
    rate = "" if name == "big" else f"; {amount / middle['wall']:.0f} files/s, tmpfs {amount / middle['local_wall']:.0f}"
    print(
        f"{name}: {middle['cpu'] / amount * factor:.2f} {unit} (daemon {middle['daemon'] / amount * factor:.2f}), "
        f"tmpfs {middle['local_cpu'] / amount * factor:.2f}; wall {middle['wall'] / middle['local_wall']:.1f} times tmpfs{rate}",
        flush=True,
    )


if __name__ == "__main__":
    main()
