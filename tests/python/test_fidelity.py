"""Odd kinds of NetCDF files: the same in xarray, or refused by name when they are closed."""

import base64
import json
import struct
import subprocess

import h5py
import netCDF4
import numpy as np
import pytest
import xarray as xr
import zarr


def copy(source, mount):
    """Copies a file into the mount. `None` if it was taken, else the sentence of the refusal."""
    done = subprocess.run(["cp", source, mount.path], capture_output=True, text=True)
    if not done.returncode:
        return None
    mount.run("flush", mount.path)
    refused = mount.path / ".zarrmount-status" / "refused" / f"{source.name}.txt"
    return refused.read_text().strip()


def document(array):
    return json.loads((array / "zarr.json").read_text())


def assert_same(store, source, engine=None):
    """Every group, decoded and undecoded."""
    for decode in (True, False):
        expected = xr.open_groups(source, engine=engine, decode_cf=decode)
        found = xr.open_groups(store, engine="zarr", decode_cf=decode)
        assert set(found) == set(expected)
        for name, group in expected.items():
            xr.testing.assert_identical(found[name].load(), group.load())
            group.close()


def user_defined_types(path):
    """Two variables and a group attribute of types that Zarr does not have, among plain ones."""
    with netCDF4.Dataset(path, "w") as ds:
        ds.createDimension("x", 2)
        ds.createVariable("plain", "f4", ("x",))[:] = [1, 2]
        point = ds.createCompoundType(np.dtype([("i", "i2"), ("f", "f8")]), "point")
        ds.createVariable("points", point, ("x",))
        inner = ds.createGroup("a").createGroup("b")
        inner.title = "kept"
        ragged = inner.createVLType("i4", "ragged")
        inner.createVariable("rows", ragged, ("x",))
        inner.createVariable("kept", "i1", ("x",))[:] = [3, 4]
    with h5py.File(path, "a") as file:
        file["a/b"].attrs["where"] = np.void(b"opaque")


def test_a_refusal_names_each_unsupported_thing_with_its_type(mount, tmp_path):
    source = tmp_path / "types.nc"
    user_defined_types(source)
    mount.mount()
    sentence = copy(source, mount)
    for part in (
        "3 things cannot be stored",
        "variable /points: a compound type (i, f)",
        "variable /a/b/rows: variable-length arrays",
        "attribute `where` of /a/b: an opaque type",
    ):
        assert part in sentence, sentence
    mount.umount()
    assert not list(mount.bucket.glob("types*"))


def test_skip_unsupported_takes_the_rest_and_warns_for_each(mount, tmp_path):
    source = tmp_path / "types.nc"
    user_defined_types(source)
    log = tmp_path / "log"
    mount.mount("--skip-unsupported", "--log-file", log)
    assert copy(source, mount) is None
    mount.umount()
    root = zarr.open_group(mount.bucket / "types.zarr", mode="r")
    assert sorted(root) == ["a", "plain"]
    assert sorted(root["a/b"]) == ["kept"]
    assert dict(root["a/b"].attrs) == {"title": "kept"}
    np.testing.assert_array_equal(root["a/b/kept"][...], [3, 4])
    lines = [line.split("WARN ", 1)[-1] for line in log.read_text().splitlines() if "left out" in line]
    warned = set(lines)
    assert len(warned) == 3, warned
    for part in ("/points", "/a/b/rows", "`where`"):
        assert sum(part in line for line in warned) == 1, warned


@pytest.mark.parametrize("libver", ["earliest", "latest"])
def test_strings_that_are_not_utf8_are_refused_at_close_by_name(mount, tmp_path, libver):
    source = tmp_path / "latin.nc"
    with h5py.File(source, "w", libver=libver) as file:
        group = file.create_group("g")
        texts = np.array([b"ok"] * 9 + [b"K\xf8ln"], object)
        group.create_dataset("bad", data=texts, dtype=h5py.string_dtype("ascii"), chunks=(4,))
        file.create_dataset("good", data=["Kiel", "Ærø"], dtype=h5py.string_dtype())
    mount.mount()
    assert copy(source, mount) == "latin.nc: variable /g/bad: a string that is not UTF-8, element [9]"
    mount.umount()
    assert not list(mount.bucket.glob("latin*"))
    mount.mount("--skip-unsupported")
    assert copy(source, mount) is None
    mount.umount()
    root = zarr.open_group(mount.bucket / "latin.zarr", mode="r")
    assert list(root["good"][...]) == ["Kiel", "Ærø"]
    assert "bad" not in root["g"]


@pytest.mark.parametrize("libver", ["earliest", "latest"])
def test_strings_behind_filters_are_read_as_libhdf5_reads_them(mount, tmp_path, libver):
    source = tmp_path / "strings.nc"
    texts = np.array(["a", "", "température", "x" * 300] * 10, object)
    with h5py.File(source, "w", libver=libver) as file:
        for name, chunks in (("many", (7,)), ("one", (40,))):
            file.create_dataset(
                name, data=texts, dtype=h5py.string_dtype(), chunks=chunks,
                compression="gzip", shuffle=True,
            )
    mount.mount()
    assert copy(source, mount) is None
    mount.umount()
    assert_same(mount.bucket / "strings.zarr", source)


@pytest.mark.parametrize("zarr_format", [2, 3])
def test_enumerations_are_the_integers_that_xarray_shows_and_keep_their_names(mount, tmp_path, zarr_format):
    source = tmp_path / "enum.nc"
    with netCDF4.Dataset(source, "w") as ds:
        ds.createDimension("x", 3)
        sky = ds.createEnumType("u1", "sky_t", {"clear": 0, "cumulus": 3, "missing": 255})
        ds.createVariable("sky", sky, ("x",), fill_value=255)[:] = [0, 3, 255]
    with h5py.File(source, "a") as file:
        flag = file.create_dataset("flag", data=[True, False, True])
        flag.dims[0].attach_scale(file["x"])
    mount.mount("--zarr-format", zarr_format)
    assert copy(source, mount) is None
    mount.umount()
    store = mount.bucket / "enum.zarr"
    assert_same(store, source)
    root = zarr.open_group(store, mode="r")
    assert root["flag"].dtype == "int8"
    assert json.loads(root.attrs["_nc_enumerations"]) == {
        "sky": {"clear": 0, "cumulus": 3, "missing": 255},
        "flag": {"FALSE": 0, "TRUE": 1},
    }


def test_the_default_fill_value_of_floats_masks_as_in_the_file(mount, tmp_path):
    """netCDF's default, 9.969209968386869e36 as a float32, stands in many files."""
    source = tmp_path / "fill.nc"
    default = netCDF4.default_fillvals["f4"]
    with netCDF4.Dataset(source, "w") as ds:
        ds.createDimension("x", 4)
        for name, fill in (("said", default), ("unsaid", None), ("off", False)):
            variable = ds.createVariable(name, "f4", ("x",), fill_value=fill)
            variable[:2] = [1, np.float32(default)]
    mount.mount()
    assert copy(source, mount) is None
    mount.umount()
    store = mount.bucket / "fill.zarr"
    said = document(store / "said")
    assert said["attributes"]["_FillValue"] == "AAAAAAAAnkc="
    assert struct.unpack("<d", base64.b64decode("AAAAAAAAnkc=")) == (float(np.float32(default)),)
    assert np.float32(said["fill_value"]) == np.float32(default)
    assert "_FillValue" not in document(store / "unsaid")["attributes"]
    with xr.open_dataset(source) as expected, xr.open_zarr(store, chunks=None) as found:
        for name in expected.variables:
            np.testing.assert_array_equal(found[name].isnull(), expected[name].isnull(), name)
        np.testing.assert_array_equal(found["said"].isnull(), [False, True, True, True])
        assert not found["unsaid"].isnull().any()
        xr.testing.assert_identical(found[["said", "unsaid"]].load(), expected[["said", "unsaid"]].load())
