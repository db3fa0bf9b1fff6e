"""What lands in the bucket reads back the same in xarray, zarr-python and TensorStore."""

import os
import random
import subprocess
from pathlib import Path

import numpy as np
import pytest
import sources
import tensorstore
import xarray as xr
import zarr
from conftest import BINARY


def copy(source, target):
    return subprocess.run(["cp", "-r", source, target], capture_output=True, text=True)


def assert_same(bucket, source, engine=None):
    """Decoded and undecoded, values, dimensions and attributes."""
    for decode in (True, False):
        with (
            xr.open_dataset(source, decode_cf=decode, engine=engine) as expected,
            xr.open_zarr(bucket, decode_cf=decode, chunks=None) as found,
        ):
            xr.testing.assert_identical(found.load(), expected.load())


def objects(folder):
    """Every object of a bucket with its bytes, without receipts."""
    return {name: (Path(folder) / name).read_bytes() for name in names(folder)}


def names(folder):
    """The names of the objects of a bucket, which may be written to meanwhile."""
    found = []
    for here, folders, files in os.walk(folder):
        folders[:] = [name for name in folders if not name.startswith(".zarrmount")]
        found += [os.path.relpath(os.path.join(here, name), folder) for name in files]
    return sorted(found)


def test_copied_files_read_back_identical(mount, tmp_path):
    paths = sources.write_all(tmp_path)
    mount.mount()
    for path in paths:
        done = copy(path, mount.path)
        assert done.returncode == 0, done.stderr
    mount.umount()
    for path in paths:
        assert_same(mount.bucket / f"{path.stem}.zarr", path)


@pytest.mark.parametrize("zarr_format", [2, 3])
def test_groups_read_back_identical(mount, tmp_path, zarr_format):
    source = tmp_path / "texts.nc"
    sources.texts(source)
    mount.mount("--zarr-format", zarr_format)
    assert copy(source, mount.path).returncode == 0
    mount.umount()
    expected = xr.open_groups(source)
    found = xr.open_groups(mount.bucket / "texts.zarr", engine="zarr")
    assert list(found) == list(expected) == ["/", "/deep", "/deep/deeper"]
    for name, group in expected.items():
        xr.testing.assert_identical(found[name].load(), group.load())


def test_other_readers_see_the_same_values(mount, tmp_path):
    source = tmp_path / "netcdf4.nc"
    sources.netcdf4(source)
    mount.mount("--chunks", "time=2,lat=4", "--codec", "zstd:3")
    assert copy(source, mount.path).returncode == 0
    mount.umount()
    bucket = mount.bucket / "netcdf4.zarr"
    group = zarr.open_consolidated(bucket)
    with xr.open_dataset(source, decode_cf=False) as expected:
        assert sorted(group.array_keys()) == sorted(expected.variables)
        for name, variable in expected.variables.items():
            np.testing.assert_array_equal(group[name][...], variable.values, name)
            spec = {"driver": "zarr3", "kvstore": {"driver": "file", "path": f"{bucket}/{name}"}}
            found = tensorstore.open(spec).result().read().result()
            np.testing.assert_array_equal(found, variable.values, name)
        assert group["deflated_f4"].chunks[:2] == (2, 4)


def test_a_second_copy_of_the_same_file_sends_nothing_and_stat_is_exact(mount, tmp_path):
    source = tmp_path / "netcdf4.nc"
    sources.netcdf4(source)
    os.utime(source, ns=(10**18 + 1, 10**18 + 123456789))
    mount.mount()
    subprocess.run(["cp", "-p", source, mount.path], check=True)
    mount.umount()
    before = {path: path.stat().st_mtime_ns for path in mount.bucket.rglob("*") if path.is_file()}
    mount.mount()
    copied = (mount.path / "netcdf4.nc").stat()
    assert copied.st_size == source.stat().st_size
    assert copied.st_mtime_ns == source.stat().st_mtime_ns
    requests = mount.status()["requests"]
    subprocess.run(["cp", "-p", source, mount.path], check=True)
    mount.run("flush", mount.path)
    after = mount.status()["requests"]
    assert after["put"] == requests["put"]
    assert after["multipart"] == requests["multipart"]
    mount.umount()
    assert before == {
        path: path.stat().st_mtime_ns for path in mount.bucket.rglob("*") if path.is_file()
    }


def test_a_newer_version_of_the_file_replaces_its_dataset(mount, tmp_path):
    source = tmp_path / "a.nc"
    sources.netcdf4(source)
    mount.mount()
    assert copy(source, mount.path).returncode == 0
    mount.run("flush", mount.path)
    sources.classic(source, "NETCDF3_CLASSIC")
    assert copy(source, mount.path).returncode == 0
    mount.umount()
    assert_same(mount.bucket / "a.zarr", source)
    nodes = {name.split("/")[0] for name in names(mount.bucket / "a.zarr")}
    with xr.open_dataset(source) as expected:
        assert nodes == {"zarr.json", *expected.variables}


def test_a_dataset_made_by_others_is_never_replaced(mount, tmp_path):
    source = tmp_path / "a.nc"
    sources.netcdf4(source)
    xr.Dataset({"mine": ("x", np.arange(3))}).to_zarr(mount.bucket / "a.zarr", zarr_format=3)
    before = objects(mount.bucket)
    mount.mount()
    done = copy(source, mount.path)
    assert done.returncode != 0
    assert "File exists" in done.stderr
    mount.umount()
    assert objects(mount.bucket) == before


def test_a_file_that_is_not_netcdf_is_refused_and_the_next_good_copy_works(mount, tmp_path):
    good, bad = tmp_path / "good.nc", tmp_path / "bad.nc"
    sources.netcdf4(good)
    bad.write_bytes(b"not a NetCDF file at all" * 100)
    truncated = tmp_path / "truncated.nc"
    truncated.write_bytes(good.read_bytes()[: good.stat().st_size * 2 // 3])
    mount.mount()
    for path in (bad, truncated):
        done = copy(path, mount.path)
        assert done.returncode != 0, path
        assert "Bad message" in done.stderr
    refused = mount.path / ".zarrmount-status" / "refused" / "bad.nc.txt"
    assert refused.read_text().startswith("bad.nc: this is neither a classic NetCDF")
    assert copy(good, mount.path).returncode == 0
    mount.umount()
    assert {name.split("/")[0] for name in objects(mount.bucket)} == {"good.zarr"}
    assert_same(mount.bucket / "good.zarr", good)


def test_a_local_zarr_arrives_byte_for_byte_with_one_put_per_file(mount, tmp_path):
    local = tmp_path / "local.zarr"
    data = xr.Dataset(
        {
            "t": (("time", "x"), np.arange(40.0).reshape(8, 5)),
            "température": ("x", np.arange(5, dtype="i2")),
            "a b%20#~": ("x", np.arange(5)),
        },
        coords={"time": np.arange(8)},
    )
    data.to_zarr(local, encoding={"t": {"chunks": (1, 5)}})
    files = [path for path in local.rglob("*") if path.is_file()]
    mount.mount()
    assert copy(local, mount.path).returncode == 0
    mount.run("flush", mount.path)
    assert mount.status()["requests"]["put"] == len(files)
    mount.umount()
    assert objects(mount.bucket / "local.zarr") == objects(local)
    xr.testing.assert_identical(xr.open_zarr(mount.bucket / "local.zarr").load(), data)


def test_xarray_writes_straight_into_the_mount(mount, tmp_path):
    data = xr.Dataset({"t": (("time", "x"), np.arange(40.0).reshape(8, 5))})
    mount.mount()
    data.to_zarr(mount.path / "new.zarr", encoding={"t": {"chunks": (2, 5)}})
    xr.testing.assert_identical(xr.open_zarr(mount.path / "new.zarr").load(), data)
    mount.umount()
    xr.testing.assert_identical(xr.open_zarr(mount.bucket / "new.zarr").load(), data)


SEEDS = int(os.environ.get("ZARRMOUNT_KILLS", "4"))


@pytest.mark.parametrize("seed", range(SEEDS))
def test_a_killed_daemon_loses_nothing_that_was_closed(mount, tmp_path, seed):
    """kill -9 at a random moment after the copies; the next mount brings the bucket to the same."""
    moment = random.Random(seed)
    netcdf, local = tmp_path / "netcdf4.nc", tmp_path / "local.zarr"
    sources.netcdf4(netcdf)
    data = xr.Dataset({"t": (("time", "x"), np.arange(400.0).reshape(80, 5))})
    data.to_zarr(local, encoding={"t": {"chunks": (1, 5)}})
    mount.mount()
    assert copy(netcdf, mount.path).returncode == 0
    assert copy(local, mount.path).returncode == 0
    if moment.random() < 0.8:
        # Somewhere in the flush: the moment is counted in objects that have arrived.
        flush = subprocess.Popen(
            [BINARY, "flush", mount.path],
            env=mount.environment, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL,
        )
        wanted = moment.randrange(1, 100)
        while flush.poll() is None and len(names(mount.bucket)) < wanted:
            pass
        mount.kill()
        flush.wait()
    else:
        mount.kill()
    mount.mount()
    mount.umount()
    assert_same(mount.bucket / "netcdf4.zarr", netcdf)
    assert objects(mount.bucket / "local.zarr") == objects(local)


# Where JSON, or xarray's own decoding, cannot keep what the source has.
KNOWN_DIFFERENCES = {
    "netcdf-c__ref_nc_test_netcdf4_4_0.nc": "infinities in attributes have no place in JSON",
    "netcdf4-python__test_gold.nc": "xarray hides the attribute _NCPROPERTIES in Zarr",
    "gen_nc4_strings.nc": "the fill value of strings becomes missing_value in format 3",
    "netcdf4-python__issue671.nc": "a float32 scale_factor reads back as the float64 of its value",
    "netcdf4-python__CRM032_test1.nc": "xarray cannot decode the time of the source either",
    "gen_nc4_attrs.nc": "NaN and infinities in attributes have no place in JSON",
}

CORPUS = os.environ.get("ZARRMOUNT_CORPUS")


def xarray_opens(path):
    """Some files of the corpus are beyond xarray's own readers."""
    try:
        xr.open_dataset(path).close()
    except (ValueError, OSError):
        return False
    return True


@pytest.mark.skipif(not CORPUS, reason="ZARRMOUNT_CORPUS names no folder of collected files")
def test_collected_files_read_back_identical_or_are_refused(mount, tmp_path):
    """Every file of a corpus: identical, or refused by name; at least 20 numeric ones identical."""
    identical, refused = [], []
    mount.mount()
    for path in sorted(Path(CORPUS).rglob("*.nc*")):
        target = mount.path / f"{path.stem}.nc"
        done = copy(path, target)
        mount.run("flush", mount.path, check=False)
        if done.returncode:
            refused.append(path.name)
            assert not (mount.bucket / f"{path.stem}.zarr").exists()
            continue
        if path.name in KNOWN_DIFFERENCES or not xarray_opens(path):
            continue
        assert_same(mount.bucket / f"{path.stem}.zarr", path)
        identical.append(path.name)
    mount.umount(check=False)
    print(f"identical: {len(identical)}, refused: {len(refused)}")
    assert len(identical) >= 20
