"""`zarrmount check`: what it says of good datasets, of damaged ones, and of files that differ."""

import json
import os
import shutil
import subprocess

import netCDF4
import numpy as np
import pytest
import xarray as xr

from conftest import BINARY

FORMATS = ["3", "2"]


class Archive:
    """A folder with a bucket, and files beside it."""

    def __init__(self, folder):
        self.bucket, self.data = folder / "bucket", folder / "data"
        self.bucket.mkdir()
        self.data.mkdir()
        self.dataset = self.bucket / "o.zarr"
        self.url = f"file://{self.dataset}"
        self.environment = {**os.environ, "XDG_STATE_HOME": str(folder / "state")}
        self.environment.pop("ZARRMOUNT_SPOOL", None)

    def run(self, *arguments, code=0):
        done = subprocess.run(
            [BINARY, *map(str, arguments)], env=self.environment, capture_output=True, text=True, timeout=120
        )
        assert done.returncode == code, done.stdout + done.stderr
        return done.stdout

    def imports(self, *files, options=()):
        return self.run("import", self.url, *files, *options)

    def check(self, *arguments, code=0):
        """Its output; the bucket must be as before."""
        before = self.state()
        out = self.run("check", self.url, *arguments, code=code)
        assert self.state() == before
        return out

    def state(self):
        return {p: (p.stat().st_mtime_ns, p.stat().st_size) for p in self.bucket.rglob("*") if p.is_file()}

    def file(self, name, times, offset=0.0, history=None, **encoding):
        times = np.asarray(times)
        values = (times[:, None, None] * 100.0 + np.arange(6).reshape(2, 3) + offset).astype("f4")
        dataset = xr.Dataset(
            {"sst": (("time", "lat", "lon"), values, {"units": "K"}), "depth": (("lat", "lon"), np.ones((2, 3)))},
            coords={
                "time": ("time", times, {"units": "days since 2000-01-01"}),
                "lat": [10.0, 20.0],
                "lon": [1.0, 2.0, 3.0],
                "station": ("lat", np.array(["nord", "süd"], dtype=object)),
            },
            attrs={"history": history} if history else {},
        )
        encoding = {"sst": {"chunksizes": (1, 2, 3), "zlib": True, **encoding}}
        path = self.data / name
        dataset.to_netcdf(path, unlimited_dims=["time"], encoding=encoding)
        return path


@pytest.fixture
def archive(tmp_path):
    return Archive(tmp_path)


@pytest.mark.parametrize("zarr_format", FORMATS)
def test_a_good_dataset_is_good_and_holds_all_of_its_files(archive, zarr_format):
    files = [
        archive.file("a.nc", [0, 1, 2], history="one"),
        archive.file("b.nc", [3, 4], history="two"),
        archive.file("c.nc", [5, 8, 9], history="one"),
        # Its steps lie between those of the one before.
        archive.file("d.nc", [6, 7, 10], history="one"),
    ]
    archive.imports(*files, options=["--zarr-format", zarr_format, "--chunks", "time=4"])
    out = archive.check("--against", *files)
    assert f"Zarr version {zarr_format}, consolidated; 1 group, 6 arrays" in out
    assert "4 files compared: 24 variables" in out
    assert "`history` is another in 1 of 4 files" in out
    assert "nothing is wrong: all that the files hold is in the dataset" in out
    # Folders and lists of files do the same.
    assert "4 files compared" in archive.check("--against", archive.data)
    (archive.data / "list").write_text("\n".join(map(str, files)))
    assert "4 files compared" in archive.check("--files-from", archive.data / "list")


@pytest.mark.parametrize("zarr_format", FORMATS)
def test_a_single_changed_value_is_found_and_named(archive, zarr_format):
    file = archive.file("a.nc", range(10))
    archive.imports(file, options=["--zarr-format", zarr_format, "--chunks", "time=4"])
    with xr.open_dataset(file, decode_times=False) as ds:
        changed = ds.load()
    changed["sst"][7, 1, 2] += 0.5
    other = archive.data / "other.nc"
    changed.to_netcdf(other)
    out = archive.check("--against", other, code=1)
    assert "variable `/sst`: 1 of 60 values differ; the first at [7, 1, 2]: the file has 705.5, the dataset 705.0" in out
    assert "1 problem found" in out


def test_values_are_compared_in_what_they_mean_whatever_they_are_encoded_in(archive):
    hours = archive.data / "hours.nc"
    xr.Dataset(
        {"t": ("time", np.array([1.5, np.nan, 3.5]))},
        coords={"time": ("time", np.array([24, 30, 48], "i4"), {"units": "hours since 2000-01-03"})},
    ).to_netcdf(hours, unlimited_dims=["time"], encoding={"t": {"_FillValue": -1.0}})
    days = archive.data / "days.nc"
    xr.Dataset(
        {"t": ("time", np.array([0.5, 1.0]))},
        coords={"time": ("time", np.array([0, 1], "i4"), {"units": "days since 2000-01-01"})},
    ).to_netcdf(days, unlimited_dims=["time"], encoding={"t": {"_FillValue": -1.0}})
    archive.imports(hours, days)
    assert "nothing is wrong" in archive.check("--against", hours, days)
    shifted = archive.data / "shifted.nc"
    xr.Dataset(
        {"t": ("time", np.array([1.5, 2.5, 3.5]))},
        coords={"time": ("time", np.array([24, 30, 48], "i4"), {"units": "hours since 2000-01-03"})},
    ).to_netcdf(shifted, unlimited_dims=["time"], encoding={"t": {"_FillValue": -1.0}})
    out = archive.check("--against", shifted, code=1)
    assert "variable `/t`: 1 of 3 values differ; the first at [1]" in out


def test_what_the_dataset_lacks_is_named(archive):
    file = archive.file("a.nc", range(4))
    archive.imports(file)
    later = archive.file("later.nc", range(3, 6))
    out = archive.check("--against", later, code=1)
    assert "variable `/sst`: `time` = 2000-01-05" in out and "is not in the dataset" in out
    with xr.open_dataset(file, decode_times=False) as ds:
        more = ds.load().assign(extra=("lat", [1, 2])).assign_attrs(title="new")
    more.to_netcdf(archive.data / "more.nc")
    out = archive.check("--against", archive.data / "more.nc", code=1)
    assert "variable `/extra`: it is not in the dataset" in out
    assert 'attribute `title`: ' in out and 'has "new", the dataset none' in out


def test_a_packed_file_is_compared_with_the_values_that_it_means(archive):
    files = [
        archive.file("a.nc", [0, 1], dtype="i2", scale_factor=0.01, add_offset=270.0, _FillValue=-32767),
        archive.file("b.nc", [2, 3], dtype="i2", scale_factor=0.02, add_offset=200.0, _FillValue=-32767),
    ]
    archive.imports(*files, options=["--unpack"])
    assert "nothing is wrong" in archive.check("--against", *files)


@pytest.mark.parametrize("zarr_format", FORMATS)
def test_what_is_damaged_or_does_not_belong_is_named(archive, zarr_format):
    file = archive.file("a.nc", range(8))
    archive.imports(file, options=["--zarr-format", zarr_format, "--chunks", "time=4"])
    keys = {"3": ["sst/c/0/0/0", "sst/c/1/0/0", "sst/c/2/0/0"], "2": ["sst/0.0.0", "sst/1.0.0", "sst/2.0.0"]}
    first, second, beyond = (archive.dataset / key for key in keys[zarr_format])
    beyond.parent.mkdir(parents=True, exist_ok=True)
    shutil.copy(second, beyond)
    out = archive.check(code=1)
    assert f"`{keys[zarr_format][2]}` is no chunk of `/sst`" in out
    beyond.unlink()
    first.write_bytes(first.read_bytes()[:-3])
    (archive.dataset / "README").write_text("hello")
    out = archive.check(code=1)
    assert f"chunk `{keys[zarr_format][0]}`: " in out
    assert "note: `README` is not part of the hierarchy" in out
    # Without fetching chunks nobody can know.
    assert "nothing is wrong" in archive.check("--metadata-only")
    # A chunk that is missing reads as fill value: only the sources tell.
    first.unlink()
    assert "nothing is wrong" in archive.check()
    out = archive.check("--against", file, code=1)
    assert "variable `/sst`: 24 of 48 values differ" in out


def test_views_of_the_metadata_that_disagree_are_named(archive):
    archive.imports(archive.file("a.nc", range(4)))
    own = archive.dataset / "sst" / "zarr.json"
    document = json.loads(own.read_text())
    document["shape"][0] = 5
    own.write_text(json.dumps(document))
    out = archive.check(code=1)
    assert "`/sst`: the consolidated metadata says shape [4, 2, 3], its own document shape [5, 2, 3]" in out
    assert "dimension `time` has" in out
    own.unlink()
    out = archive.check(code=1)
    assert "the consolidated metadata has `/sst`, which has no document of its own" in out
    own.write_text("{")
    assert "`sst/zarr.json`: " in archive.check(code=1)


def test_datasets_of_other_programs_are_checked_too(archive):
    xr.Dataset({"v": (("x", "y"), np.arange(12).reshape(3, 4))}).to_zarr(archive.dataset, zarr_format=3)
    assert "nothing is wrong" in archive.check()
    shutil.rmtree(archive.dataset)
    xr.Dataset({"v": ("x", np.array(["a", "bc"], object))}).to_zarr(archive.dataset, zarr_format=2)
    assert "Zarr version 2, consolidated" in archive.check()
    shutil.rmtree(archive.dataset)
    done = subprocess.run(
        [BINARY, "check", archive.url], env=archive.environment, capture_output=True, text=True
    )
    assert done.returncode == 1 and "there is no Zarr dataset" in done.stderr


def test_an_empty_group_that_the_dataset_lacks_is_named(archive):
    file = archive.file("a.nc", range(4))
    archive.imports(file)
    with netCDF4.Dataset(file, "a") as more:
        more.createGroup("notes").author = "somebody"
    out = archive.check("--against", file, code=1)
    assert "group `/notes`: it is not in the dataset" in out


def test_what_was_left_out_is_not_said_to_be_there(archive):
    file = archive.file("a.nc", range(4))
    with netCDF4.Dataset(file, "a") as more:
        kind = more.createVLType("i4", "lists")
        more.createVariable("odd", kind, ("time",))
    archive.imports(file, options=["--skip-unsupported"])
    assert "odd" in archive.check("--against", file, code=1)
    out = archive.check("--against", file, "--skip-unsupported")
    assert "all that can be stored of the files" in out and "all that the files hold" not in out
