"""Odd kinds of NetCDF files: the same in xarray, or refused by name when they are closed."""

import base64
import json
import struct
import subprocess

import h5py
import netCDF4
import numpy as np
import odd_sources
import pytest
import xarray as xr
import zarr
from conftest import open_mount
from corpus import RAW, compare_h5py, compare_netcdf4, compare_xarray


@pytest.fixture
def mount(tmp_path):
    """On a local folder: what becomes of a file does not depend on the store."""
    made = open_mount("file", tmp_path, None)
    yield made
    made.close()


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
    for decoding in ({}, RAW):
        expected = xr.open_groups(source, engine=engine, **decoding)
        found = xr.open_groups(store, engine="zarr", **decoding)
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


def half_precision(path):
    """float16 in all that a file can have of it: attributes, fills, unwritten chunks, both byte orders."""
    with h5py.File(path, "w") as file:
        x = file.create_dataset("x", data=np.arange(5, dtype="f4"))
        x.make_scale("x")
        values = np.array([1.5, np.nan, -2, 65504, 6e-8], "f2")
        every = np.arange(65536, dtype="u2").view("f2")
        made = {
            "plain": file.create_dataset("plain", data=values),
            "big_endian": file.create_dataset("big_endian", data=values.astype(">f2")),
            "masked": file.create_dataset("masked", data=values),
            "gaps": file.create_dataset("gaps", (5,), "f2", chunks=(2,), fillvalue=7),
        }
        made["masked"].attrs["_FillValue"] = np.float16(-2)
        made["masked"].attrs["valid_range"] = np.array([-3, 0.1], "f2")
        made["gaps"][2:4] = [8, 9]
        for variable in made.values():
            variable.dims[0].attach_scale(x)
        pattern = file.create_dataset("pattern", data=np.arange(65536, dtype="i4"))
        pattern.make_scale("pattern")
        every = file.create_dataset("every", data=every, chunks=(10000,), compression="gzip", shuffle=True)
        every.dims[0].attach_scale(pattern)
        file.create_dataset("scalar", data=np.float16(0.1))


@pytest.mark.parametrize("zarr_format", [2, 3])
def test_half_precision_floats_are_kept(mount, tmp_path, zarr_format):
    source = tmp_path / "half.nc"
    half_precision(source)
    mount.mount("--zarr-format", zarr_format)
    assert copy(source, mount) is None
    mount.umount()
    store = mount.bucket / "half.zarr"
    # netCDF-C takes them for something else; h5netcdf is right.
    assert_same(store, source, "h5netcdf")
    root = zarr.open_group(store, mode="r")
    assert root["every"].dtype == "float16"
    np.testing.assert_array_equal(root["every"][...].view("u2"), np.arange(65536))


@pytest.mark.parametrize("zarr_format", [2, 3])
def test_half_precision_floats_are_joined_with_others(mount, tmp_path, zarr_format):
    """Two files of which the second needs a wider type."""
    for step, (kind, value) in enumerate([("f2", 0.5), ("f4", 1e9)]):
        with h5py.File(tmp_path / f"{step}.nc", "w") as file:
            time = file.create_dataset("time", data=np.array([step], "i4"), maxshape=(None,))
            time.make_scale("time")
            t = file.create_dataset("t", data=np.array([value], kind), maxshape=(None,))
            t.dims[0].attach_scale(time)
            h = file.create_dataset("h", data=np.array([value / 1e6], "f2"), maxshape=(None,))
            h.dims[0].attach_scale(time)
    mount.mount("--zarr-format", zarr_format)
    (mount.path / "all.zarr").mkdir()
    for step in (1, 0):
        subprocess.run(["cp", tmp_path / f"{step}.nc", mount.path / "all.zarr"], check=True)
    mount.umount()
    root = zarr.open_group(mount.bucket / "all.zarr", mode="r")
    assert (root["t"].dtype, root["h"].dtype) == ("float32", "float16")
    np.testing.assert_array_equal(root["t"][...], np.array([0.5, 1e9], "f4"))
    np.testing.assert_array_equal(root["h"][...], np.array([5e-7, 1e3], "f2"))


@pytest.mark.parametrize("zarr_format", [2, 3])
def test_attributes_of_several_dimensions_are_lists_of_lists(mount, tmp_path, zarr_format):
    source = tmp_path / "nested.nc"
    with h5py.File(source, "w") as file:
        x = file.create_dataset("x", data=np.arange(3, dtype="f4"))
        x.make_scale("x")
        x.attrs["matrix"] = np.arange(6, dtype="i4").reshape(2, 3)
        x.attrs["big"] = np.array([[2**60 + 1], [-1]])
        file.attrs["row"] = np.array([[1.5, np.float32(0.1)]], ">f4")
        file.attrs["cube"] = np.arange(8, dtype="u1").reshape(2, 2, 2)
        file.attrs["one"] = np.array([[[5]]])
    mount.mount("--zarr-format", zarr_format)
    assert copy(source, mount) is None
    mount.umount()
    # netCDF-C cannot open them.
    assert_same(mount.bucket / "nested.zarr", source, "h5netcdf")
    assert zarr.open(mount.bucket / "nested.zarr/x").attrs["matrix"] == [[0, 1, 2], [3, 4, 5]]


def test_what_holds_nothing_is_an_empty_attribute_and_a_refused_variable(mount, tmp_path):
    source = tmp_path / "null.nc"
    with h5py.File(source, "w") as file:
        file.create_dataset("x", data=np.arange(3, dtype="f4")).make_scale("x")
        file.attrs["number"] = h5py.Empty("f4")
        file.attrs["text"] = h5py.Empty(h5py.string_dtype())
        file.attrs["characters"] = h5py.Empty("S5")
    mount.mount()
    assert copy(source, mount) is None
    mount.run("flush", mount.path)
    assert_same(mount.bucket / "null.zarr", source)
    with h5py.File(source, "a") as file:
        file.create_dataset("nothing", data=h5py.Empty("f4"))
    assert copy(source, mount) == "null.nc: variable /nothing: an empty dataspace"
    mount.umount()


def test_names_that_format_3_reserves_are_refused_there_and_kept_in_format_2(mount, tmp_path):
    """What xarray calls a variable without a name, among others."""
    source = tmp_path / "name.nc"
    xr.DataArray(np.arange(3.0), dims="x").to_netcdf(source)
    mount.mount()
    assert copy(source, mount) == (
        "name.nc: the name `__xarray_dataarray_variable__` in / cannot be used in Zarr: names that "
        "start with `__` are reserved in Zarr format 3; format 2 takes them"
    )
    mount.umount()
    assert not list(mount.bucket.glob("name*"))
    mount.mount("--zarr-format", "2")
    assert copy(source, mount) is None
    mount.umount()
    assert_same(mount.bucket / "name.zarr", source)
    with xr.open_dataarray(mount.bucket / "name.zarr", engine="zarr") as found:
        xr.testing.assert_identical(found.load(), xr.load_dataarray(source))


@pytest.mark.parametrize("zarr_format", [2, 3])
def test_numbers_that_json_lacks_become_null_and_texts_and_real_texts_are_marked(mount, tmp_path, zarr_format):
    source = tmp_path / "marks.nc"
    with netCDF4.Dataset(source, "w") as ds:
        ds.createDimension("x", 3)
        variable = ds.createVariable("v", "f8", ("x",))
        variable[:] = [1, np.nan, np.inf]
        variable.setncatts({
            "missing_value": np.nan, "limits": np.array([-np.inf, 0, np.inf]), "word": "Infinity",
            "name": "NaN", "nothing": "null", "single": np.float32("-inf"),
        })
    mount.mount("--zarr-format", zarr_format)
    assert copy(source, mount) is None
    mount.umount()
    store = mount.bucket / "marks.zarr"
    text = (store / "v" / ("zarr.json" if zarr_format == 3 else ".zattrs")).read_text()
    # Strict: Python itself would read bare NaN and Infinity.
    written = json.loads(text, parse_constant=lambda name: pytest.fail(f"a bare {name}"))
    attributes = written["attributes"] if zarr_format == 3 else written
    attributes.pop("_ARRAY_DIMENSIONS", None)
    assert attributes == {
        "missing_value": None, "limits": ["-Infinity", 0.0, "Infinity"], "word": "Infinity",
        "name": "NaN", "nothing": "null", "single": "-Infinity",
        "_zarrmount_text_attributes": ["word"],
    }
    with xr.open_dataset(source) as expected, xr.open_zarr(store, chunks=None) as found:
        np.testing.assert_array_equal(found["v"], expected["v"])


@pytest.mark.parametrize("zarr_format", [2, 3])
def test_readers_mask_the_same_as_in_the_file(mount, tmp_path, zarr_format):
    """Every number type with each kind of fill and missing value, of the type's own edges as well."""
    source = tmp_path / "masks.nc"
    default = netCDF4.default_fillvals
    with netCDF4.Dataset(source, "w") as ds:
        ds.createDimension("x", 6)
        for kind in ("i1", "u1", "i2", "u2", "i4", "u4", "i8", "u8", "f4", "f8"):
            edges = np.iinfo(kind) if kind[0] in "iu" else np.finfo(kind)
            fills = [edges.min, edges.max, 0, default[kind]] + ([np.nan, np.inf] if kind[0] == "f" else [])
            for index, fill in enumerate(fills):
                for missing in (None, 1):
                    variable = ds.createVariable(f"{kind}_{index}_{missing}", kind, ("x",), fill_value=fill)
                    variable.set_auto_mask(False)
                    variable[:5] = np.array([0, 1, edges.min, edges.max, default[kind]], kind)
                    if missing:
                        variable.missing_value = np.array(missing, kind)
    mount.mount("--zarr-format", zarr_format)
    assert copy(source, mount) is None
    mount.umount()
    assert_same(mount.bucket / "masks.zarr", source)
    with xr.open_dataset(source) as expected, xr.open_zarr(mount.bucket / "masks.zarr", chunks=None) as found:
        assert sum(int(variable.isnull().sum()) for variable in expected.values()) > 100
        for name in expected.variables:
            np.testing.assert_array_equal(found[name].isnull(), expected[name].isnull(), name)


# Files that xarray cannot open, with what reads them instead.
WITHOUT_XARRAY = {
    "committed_types_earliest.h5": compare_h5py,
    "committed_types_latest.h5": compare_h5py,
    "scalar_named_like_a_dimension.nc": compare_netcdf4,
}


@pytest.mark.parametrize("zarr_format", [2, 3])
def test_odd_files_are_the_same_or_refused_by_name(mount, tmp_path, zarr_format):
    folder = tmp_path / "odd"
    folder.mkdir()
    sources = {path.name: path for path in odd_sources.write_all(folder)}
    assert set(odd_sources.REFUSED) < set(sources)
    mount.mount("--zarr-format", zarr_format)
    wrong = []
    for name, source in sources.items():
        # Under a name that is taken for NetCDF.
        copied = source.rename(source.with_suffix(".nc"))
        sentence = copy(copied, mount)
        reason = odd_sources.REFUSED.get(name)
        if reason is None and sentence is not None:
            wrong.append(sentence)
        elif reason is not None and (sentence is None or reason not in sentence):
            wrong.append(f"{name} is to be refused with `{reason}`: {sentence}")
    mount.umount()
    for name, source in sources.items():
        store = mount.bucket / f"{source.stem}.zarr"
        if name in odd_sources.REFUSED:
            wrong += [f"{name} left {path}" for path in mount.bucket.glob(f"{source.stem}.zarr*")]
        elif store.exists():
            compare = WITHOUT_XARRAY.get(name, lambda source, store: compare_xarray(source, store, "netcdf4"))
            wrong += [f"{name}: {difference}" for difference in compare(source.with_suffix(".nc"), store)]
    assert not wrong, "\n".join(wrong)


def test_what_is_missing_along_an_unlimited_dimension_is_fill(mount, tmp_path):
    """Variables shorter than two unlimited dimensions: netCDF-C 4.10 shows memory that nobody wrote there."""
    source = tmp_path / "short.nc"
    with netCDF4.Dataset(source, "w") as ds:
        ds.createDimension("time", None)
        ds.createDimension("station", None)
        ds.createVariable("both", "f4", ("time", "station"))[:] = np.ones((4, 3))
        ds.createVariable("one", "f8", ("time", "station"))[0:1, 0:2] = [[1, 2]]
        ds.createVariable("own", "i2", ("station", "time"), fill_value=-5)[0:2, 0:1] = [[7], [8]]
        ds.createVariable("none", "u1", ("time", "station"), fill_value=False)
    mount.mount()
    assert copy(source, mount) is None
    mount.umount()
    root = zarr.open_group(mount.bucket / "short.zarr", mode="r")
    one = np.full((4, 3), netCDF4.default_fillvals["f8"])
    one[0, :2] = [1, 2]
    own = np.full((3, 4), -5)
    own[:2, 0] = [7, 8]
    np.testing.assert_array_equal(root["one"][...], one)
    np.testing.assert_array_equal(root["own"][...], own)
    np.testing.assert_array_equal(root["none"][...], np.full((4, 3), 255))


def test_a_small_file_of_endless_values_is_refused_unless_it_needs_no_chunks(mount, tmp_path):
    """2^45 elements in a file of 12 KiB. With a fill value that is nothing to write."""
    for name, fill in (("endless", None), ("sparse", np.float32(5))):
        with h5py.File(tmp_path / f"{name}.nc", "w") as file:
            options = {} if fill is None else {"fillvalue": fill}
            variable = file.create_dataset("v", (2**45,), "f4", chunks=(1024,), **options)
            if fill is not None:
                variable.attrs["_FillValue"] = fill
            variable[2**44] = 2
    mount.mount()
    sentence = copy(tmp_path / "endless.nc", mount)
    assert sentence.startswith("endless.nc: variable /v: its shape [35184372088832] has values that were never written")
    assert copy(tmp_path / "sparse.nc", mount) is None
    mount.umount()
    assert not list(mount.bucket.glob("endless*"))
    array = zarr.open(mount.bucket / "sparse.zarr/v", mode="r")
    assert (array[2**44], array[2**44 + 1], array[0]) == (2, 5, 5)
