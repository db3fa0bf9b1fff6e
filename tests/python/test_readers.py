"""Every implementation of Zarr that is installed reads the same values, of every type and layout.

What netCDF-C cannot do in Zarr is known and not asked of it: half-precision floats, characters, strings,
scalars and dimensions of length zero.
"""

import base64
import json
import re
import subprocess

import netCDF4
import numpy as np
import pytest
import sources
import tensorstore
import xarray as xr
import zarr
from conftest import TARGET, open_mount
from corpus import RAW
from test_fidelity import copy, half_precision

def numbers(path):
    """Every number type with every kind of fill, chunks that end inside of the array and some that were
    never written, in a group as well. Nothing that netCDF-C cannot read from Zarr."""
    with netCDF4.Dataset(path, "w", format="NETCDF4") as ds:
        ds.title = "numbers"
        ds.setncattr("count", np.int32(3))
        ds.createDimension("time", None)
        ds.createDimension("y", 5)
        ds.createDimension("x", 7)
        ds.createVariable("time", "f8", ("time",))[:] = np.arange(3) / 7
        inner = ds.createGroup("inner")
        for group in (ds, inner):
            for kind in sources.CLASSIC["NETCDF3_64BIT_DATA"]:
                shape, chunks = (3, 5, 7), (2, 2, 4)
                data = sources.values(kind, shape)
                for name, fill in (("plain", None), ("filled", np.array(7, kind)), ("off", False)):
                    variable = group.createVariable(
                        f"{name}_{kind}", kind, ("time", "y", "x"), fill_value=fill, chunksizes=chunks
                    )
                    variable.set_auto_mask(False)
                    # The last chunks along y and x are never written. Without a fill value netCDF-C
                    # shows anything there.
                    y, x = (5, 7) if fill is False else (4, 4)
                    for step in (0, 2) if fill is not False else range(3):
                        variable[step, :y, :x] = data[step, :y, :x]
                whole = group.createVariable(f"whole_{kind}", kind, ("y", "x"))
                whole.set_auto_mask(False)
                whole[:] = data[0]


def everything(path):
    """All that `numbers` has, and what only readers of Zarr know."""
    with netCDF4.Dataset(path, "w", format="NETCDF4") as ds:
        ds.createDimension("x", 5)
        ds.createDimension("none", 0)
        ds.createDimension("length", 4)
        ds.createVariable("scalar_f4", "f4", ())[...] = 1.5
        ds.createVariable("scalar_u8", "u8", ())[...] = 2**64 - 3
        ds.createVariable("scalar_text", str, ())[...] = "Ærø"
        ds.createVariable("scalar_char", "S1", ())[...] = b"q"
        ds.createVariable("nothing", "i2", ("none", "x"))
        texts = ds.createVariable("texts", str, ("x",), chunksizes=(2,))
        texts[:] = np.array(["Kiel", "", "température", "x" * 1000, "日本"], object)
        chars = ds.createVariable("chars", "S1", ("x", "length"), chunksizes=(2, 3))
        chars[:] = netCDF4.stringtochar(np.array(["abcd", "", "x", "yz", "q"], "S4"))
        ds.createVariable("unwritten_texts", str, ("x",))
        ds.createVariable("unwritten_chars", "S1", ("x", "length"), chunksizes=(2, 4))


def expected_values(source, engine="netcdf4"):
    """What the source holds by its path, undecoded."""
    found = {}
    for group, data in xr.open_groups(source, engine=engine, **RAW).items():
        for name, variable in data.variables.items():
            found[f"{group}/{name}".lstrip("/")] = variable.values
        data.close()
    return found


def same(found, expected, name):
    if expected.dtype.kind in "OU":
        found = np.asarray(found, object)
        assert found.shape == expected.shape, name
        assert [str(text) for text in found.ravel()] == [str(text) for text in expected.ravel()], name
        return
    found = np.asarray(found)
    assert found.dtype.newbyteorder("=") == expected.dtype.newbyteorder("="), name
    np.testing.assert_array_equal(found, expected, name)


def written(mount, source, *options):
    mount.mount(*options)
    assert copy(source, mount) is None
    mount.umount()
    return mount.bucket / f"{source.stem}.zarr"


@pytest.fixture
def mount(tmp_path):
    """On a local folder: readers do not see which store it was."""
    made = open_mount("file", tmp_path, None)
    yield made
    made.close()


@pytest.fixture(params=["numbers", "everything", "half_precision"])
def source(request, tmp_path):
    path = tmp_path / f"{request.param}.nc"
    {"numbers": numbers, "everything": everything, "half_precision": half_precision}[request.param](path)
    return path


def engine_of(source):
    # netCDF-C does not know half-precision floats.
    return "h5netcdf" if source.stem == "half_precision" else "netcdf4"


@pytest.mark.parametrize("codec", ["blosc:zstd:5:shuffle", "gzip:1"])
def test_four_readers_of_format_3_agree_with_the_source(mount, source, codec):
    bucket = written(mount, source, "--codec", codec, "--chunks", "x=3,y=2,time=2")
    expected = expected_values(source, engine_of(source))
    shown = xr.open_groups(bucket, engine="zarr", **RAW)
    root = zarr.open_group(bucket, mode="r")
    for path, values in expected.items():
        group, _, name = path.rpartition("/")
        same(shown[f"/{group}"][name].values, values, path)
        same(root[path][...], values, path)
        # TensorStore has no strings, and characters are a type of zarr-python's own.
        if root[path].dtype.kind in "iuf":
            spec = {"driver": "zarr3", "kvstore": {"driver": "file", "path": f"{bucket}/{path}"}}
            same(tensorstore.open(spec).result().read().result(), values, path)
    paths = [path for path in expected if root[path].dtype.kind != "S"]
    done = subprocess.run(
        [TARGET / "examples" / "zarrs_values", bucket, *paths], capture_output=True, text=True, check=True
    )
    lines = [json.loads(line) for line in done.stdout.splitlines()]
    assert [line["path"] for line in lines] == paths
    for line in lines:
        values = expected[line["path"]]
        if "texts" in line:
            found = np.array([*line["texts"], None], object)[:-1]
        else:
            kind = values.dtype.newbyteorder("<")
            found = np.frombuffer(base64.b64decode(line["bytes"]), kind)
        same(found.reshape(line["shape"]), values, line["path"])


@pytest.mark.parametrize("codec", ["blosc:zstd:5:shuffle", "zstd:3"])
def test_readers_of_format_2_agree_with_the_source(mount, source, codec):
    bucket = written(mount, source, "--zarr-format", "2", "--codec", codec)
    expected = expected_values(source, engine_of(source))
    shown = xr.open_groups(bucket, engine="zarr", **RAW)
    root = zarr.open_group(bucket, mode="r")
    for path, values in expected.items():
        group, _, name = path.rpartition("/")
        same(shown[f"/{group}"][name].values, values, path)
        same(root[path][...], values, path)


def dumped(url):
    """What ncdump prints for every variable, by its path, with all digits."""
    done = subprocess.run(["ncdump", "-p", "9,17", url], capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    found, groups = {}, []
    for token in re.finditer(r"\ngroup: (\w+) {|\n(}) // group|\n\s*(\w+) =([^;]*);", done.stdout):
        opened, closed, name, values = token.groups()
        if opened:
            groups.append(opened)
        elif closed:
            groups.pop()
        else:
            # Lengths of dimensions come first and are replaced by the values of their variables.
            found["/".join([*groups, name])] = values.split()
    return found


def test_ncdump_prints_the_same_of_format_2_as_of_the_source(mount, tmp_path):
    """Without codecs: Debian's ncdump has none, and prints compressed bytes as if they were values."""
    source = tmp_path / "numbers.nc"
    numbers(source)
    bucket = written(mount, source, "--zarr-format", "2", "--codec", "none")
    # ncdump takes no fill value from Zarr, and marks none.
    expected = {
        path: [value.replace("_", "7") for value in values] if "filled_" in path else values
        for path, values in dumped(source).items()
    }
    assert len(expected) > 80
    assert dumped(f"file://{bucket}#mode=zarr,file") == expected


@pytest.mark.parametrize("codec", ["blosc:zstd:5:shuffle", "zstd:3"])
def test_a_netcdf_c_with_codecs_reads_the_same_from_format_2(mount, tmp_path, codec):
    """The library that comes with netCDF4-python."""
    source = tmp_path / "numbers.nc"
    numbers(source)
    bucket = written(mount, source, "--zarr-format", "2", "--codec", codec)
    with netCDF4.Dataset(f"file://{bucket}#mode=zarr,file") as root:
        for path, values in expected_values(source).items():
            variable = root[path]
            variable.set_auto_maskandscale(False)
            same(variable[...], values, path)
