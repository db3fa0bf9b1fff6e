"""Files of the local disk into one dataset, without a mount."""

import os
import re
import signal
import subprocess
import time
from pathlib import Path

import netCDF4
import numpy as np
import pytest
import xarray as xr

from conftest import BINARY, REPOSITORY, Mount

FORMATS = ["3", "2"]


def write(path, times, offset=0.0, scale=1):
    """Steps of a small ocean; values tell where they stand."""
    times = np.asarray(times)
    values = (times[:, None, None] * 100.0 + np.arange(6).reshape(2, 3) + offset).astype("f4")
    xr.Dataset(
        {"sst": (("time", "lat", "lon"), values), "depth": (("lat", "lon"), np.ones((2, 3)))},
        coords={
            "time": ("time", times * scale, {"units": f"{'hours' if scale > 1 else 'days'} since 2000-01-01"}),
            "lat": [10.0, 20.0],
            "lon": [1.0, 2.0, 3.0],
        },
    ).to_netcdf(path, unlimited_dims=["time"], encoding={"sst": {"chunksizes": (1, 2, 3), "zlib": True}})
    return path


class Importer:
    def __init__(self, folder):
        self.folder = folder
        self.bucket = folder / "bucket"
        self.data = folder / "data"
        self.bucket.mkdir()
        self.data.mkdir()
        self.environment = {**os.environ, "XDG_STATE_HOME": str(folder / "state")}
        self.environment.pop("ZARRMOUNT_SPOOL", None)

    def command(self, *arguments):
        return [str(BINARY), "import", f"file://{self.bucket}/o.zarr", *map(str, arguments)]

    def run(self, *arguments, code=0):
        done = subprocess.run(
            self.command(*arguments), env=self.environment, capture_output=True, text=True, timeout=120
        )
        assert done.returncode == code, done.stdout + done.stderr
        return done

    def open(self, **options):
        return xr.open_zarr(self.bucket / "o.zarr", **options)

    def state(self):
        files = (path for path in self.bucket.rglob("*") if path.is_file())
        return {path: path.stat().st_mtime_ns for path in files}


@pytest.fixture
def importer(tmp_path):
    return Importer(tmp_path)


def same(actual, expected):
    xr.testing.assert_identical(
        actual.load().drop_attrs().drop_encoding(), expected.load().drop_attrs().drop_encoding()
    )


@pytest.mark.parametrize("zarr_format", FORMATS)
def test_a_folder_becomes_what_xarray_makes_of_its_files(importer, zarr_format):
    for number in [3, 0, 2, 1]:
        write(importer.data / f"{number}.nc", [3 * number, 3 * number + 1, 3 * number + 2])
    options = ["--zarr-format", zarr_format, "--chunks", "time=5"]
    shown = importer.run(importer.data, *options, "--dry-run").stdout
    assert "time: 12" in shown and "4 files" in shown and "nothing was sent" in shown
    assert importer.state() == {}
    importer.run(importer.data, *options)
    sources = sorted(importer.data.glob("*.nc"))
    expected = xr.open_mfdataset(sources, data_vars="minimal", coords="minimal", compat="override")
    same(importer.open(), expected)
    assert importer.open().sst.encoding["chunks"] == (5, 2, 3)
    # Again: nothing is new, and nothing is sent.
    before = importer.state()
    assert "4 are in it already" in importer.run(importer.data).stdout
    assert importer.state() == before


def test_later_files_are_appended_and_may_be_named_in_any_way(importer):
    write(importer.data / "a.nc", [0, 1, 2])
    importer.run(importer.data / "a.nc", "--chunks", "time=2")
    write(importer.data / "b.nc", [3, 4], scale=24)
    (importer.folder / "list").write_text(f"{importer.data}/b.nc\n")
    importer.run("--files-from", importer.folder / "list")
    write(importer.data / "c.nc", [5])
    importer.run(f"{importer.data}/*.nc")
    sources = sorted(importer.data.glob("*.nc"))
    expected = xr.open_mfdataset(sources, data_vars="minimal", coords="minimal", compat="override")
    same(importer.open(), expected)
    same(importer.open(consolidated=False), expected)


def test_files_that_do_not_fit_are_named_before_anything_is_sent(importer):
    write(importer.data / "a.nc", [0, 1])
    write(importer.data / "other.nc", [1, 2], offset=1)
    (importer.data / "bad.nc").write_bytes(b"no")
    error = importer.run(importer.data, code=1).stderr
    assert "bad.nc: this is neither a classic NetCDF" in error
    (importer.data / "bad.nc").unlink()
    error = importer.run(importer.data, code=1).stderr
    assert "other.nc" in error and "time 2000-01-02 is in a.nc already" in error
    assert importer.state() == {}


def test_an_interrupted_import_goes_on_where_it_was(importer):
    for number in range(40):
        write(importer.data / f"{number:02}.nc", [number])
    running = subprocess.Popen(
        importer.command(importer.data, "--chunks", "time=1", "--connections", "1"), env=importer.environment
    )
    chunks = importer.bucket / "o.zarr" / "sst"
    while running.poll() is None and len(list(chunks.rglob("0"))) < 5:
        pass
    running.send_signal(signal.SIGKILL)
    running.wait()
    before = {path: at for path, at in importer.state().items() if "/c/" in str(path)}
    importer.run(importer.data, "--chunks", "time=1")
    assert (importer.open().sst.values[:, 0, 0] == np.arange(40) * 100).all()
    after = importer.state()
    again = [path for path, at in before.items() if after[path] != at]
    # What was put while the process died may be put again; the rest is not.
    assert len(again) <= 8, (len(again), len(before))


def test_the_commands_of_the_page_on_big_files_work(importer):
    page = (REPOSITORY / "docs" / "BIG-FILES.md").read_text()
    commands = re.findall(r"```sh\n(.*?)```", page, re.S)
    program = re.search(r"```python\n(.*?)```", page, re.S).group(1)
    for number in range(3):
        write(importer.data / f"{number}.nc", [number])
    latest = write(importer.folder / "latest.nc", [4])
    mount = Mount(importer.folder, f"file://{importer.bucket}", importer.bucket)
    environment = {
        **mount.environment,
        "PATH": f"{BINARY.parent}:{os.environ['PATH']}",
        "BUCKET": f"file://{importer.bucket}",
        "DATA": str(importer.data),
        "MOUNT": str(mount.path),
        "LATEST": str(latest),
    }
    for position, command in enumerate(commands):
        if position == 3:
            write(importer.data / "3.nc", [3])
        subprocess.run(["sh", "-e", "-c", command], env=environment, check=True, timeout=120)
    names = {"BUCKET": str(importer.bucket)}
    exec(program, names)  # noqa: S102 - the page's own program
    assert (names["dataset"].sst.values[:, 0, 0] == np.arange(5) * 100).all()


def test_a_slow_codec_is_named_with_what_a_faster_one_would_give(importer):
    noise = np.random.default_rng(7).normal(size=(96, 160, 160)).round(2).astype("f4")
    xr.Dataset({"t": (("time", "y", "x"), noise)}).to_netcdf(importer.data / "a.nc")
    done = importer.run(importer.data, "--chunks", "time=1", "--codec", "zstd:19")
    line = next(line for line in done.stdout.splitlines() if line.startswith("it waited for"))
    assert re.match(r"it waited for encoding, \d+ % of \d+\.\d s", line), line
    times, bytes_ = re.search(
        r"blosc:zstd:1:shuffle would encode ([\d.]+) times as fast, into ([\d.]+) times the bytes", line
    ).groups()
    assert float(times) > 2 and 0.5 < float(bytes_) < 2
    np.testing.assert_array_equal(importer.open().t, noise)


MEMORY_MIB = 64


@pytest.fixture(scope="module")
def maps(tmp_path_factory):
    """A file of maps, a chunk for each step, with four times the bytes that `--memory` allows."""
    path = tmp_path_factory.mktemp("maps") / "maps.nc"
    steps = 4 * MEMORY_MIB * 4
    with netCDF4.Dataset(path, "w") as file:
        for name, length in [("time", steps), ("y", 256), ("x", 256)]:
            file.createDimension(name, length)
        t = file.createVariable("t", "f4", ("time", "y", "x"), zlib=True, complevel=1, shuffle=False, chunksizes=(1, 256, 256))
        cell = np.arange(256 * 256, dtype="f4").reshape(256, 256)
        for first in range(0, steps, 64):
            t[first : first + 64] = cell + np.arange(first, first + 64, dtype="f4")[:, None, None]
    return path


def test_maps_become_time_series_within_the_memory_that_is_allowed(importer, maps):
    options = ["--memory", f"{MEMORY_MIB}MiB", "--chunks", "time=-1,y=2,x=-1", "--codec", "blosc:lz4:1"]
    started = subprocess.Popen(
        importer.command(maps, *options), env=importer.environment, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
    )
    peak_kib = 0
    while started.poll() is None:
        # The high-water mark: what is seen last counts.
        peak = re.search(r"VmHWM:\s+(\d+) kB", Path(f"/proc/{started.pid}/status").read_text())
        peak_kib = int(peak.group(1)) if peak else peak_kib
        time.sleep(0.05)
    said, told = started.stdout.read(), started.stderr.read()
    assert started.returncode == 0, told
    times = float(re.search(r"chunk of /t in the files is decoded ([\d.]+) times", told).group(1))
    chunks = 4 * MEMORY_MIB * 4
    decoded = int(re.search(r"(\d+) source chunks were decoded", said).group(1))
    assert 4 <= times <= 8 and decoded == times * chunks, told + said
    assert 0 < peak_kib < (MEMORY_MIB + 100) * 1024
    for first in range(0, 256, 32):
        np.testing.assert_array_equal(
            importer.open().t[:, first : first + 32], xr.open_dataset(maps).t[:, first : first + 32]
        )
    # As much memory as it asks for is enough.
    enough = re.search(r"once with --memory (\d+MiB)", told).group(1)
    again = importer.run(maps, "--dry-run", "--memory", enough, *options[2:])
    assert "is decoded" not in again.stderr


def test_a_mount_refuses_at_close_what_would_be_decoded_again_and_again(tmp_path, importer, maps):
    bucket = tmp_path / "mounted"
    bucket.mkdir()
    mount = Mount(tmp_path, f"file://{bucket}", bucket)
    try:
        mount.mount("--memory", f"{MEMORY_MIB}MiB", "--chunks", "time=-1,y=2,x=-1")
        done = subprocess.run(["cp", maps, mount.path / "maps.nc"], capture_output=True, text=True)
        assert done.returncode, "a close that is refused"
        reason = (mount.path / ".zarrmount-status/refused/maps.nc.txt").read_text()
        assert re.search(r"variable /t: .* decoded [\d.]+ times. Needed are [\d.]+ [MG]iB of memory", reason), reason
        fitting = re.search(r"chunks of at most (time=\d+,y=2,x=256)", reason).group(1)
        mount.umount()
        assert not any(bucket.iterdir())
    finally:
        mount.close()
    options = ["--memory", f"{MEMORY_MIB}MiB", "--chunks", fitting]
    assert "is decoded" not in importer.run(maps, *options, "--dry-run").stderr
