"""Many NetCDF files copied into one dataset, through real mounts."""

import itertools
import shutil
import subprocess
from concurrent.futures import ThreadPoolExecutor

import netCDF4
import numpy as np
import pytest
import xarray as xr

from conftest import open_mount

PLACES = [("file", "2"), ("s3", "3")]
NAN = float("nan")


@pytest.fixture(params=PLACES, ids=["-".join(place) for place in PLACES])
def place(request, tmp_path, s3_server):
    """A mount of an empty bucket, not mounted yet, and the options of the format."""
    kind, zarr_format = request.param
    mount = open_mount(kind, tmp_path, s3_server)
    mount.options += ["--zarr-format", zarr_format]
    yield mount
    mount.close()
    shutil.rmtree(mount.path, ignore_errors=True)


@pytest.fixture
def data(tmp_path):
    folder = tmp_path / "data"
    folder.mkdir()
    return folder


def variable(file, name, dimensions, values, dtype="f8", fill=None, **attributes):
    made = file.createVariable(name, dtype, dimensions, fill_value=fill)
    made.set_auto_maskandscale(False)
    made.setncatts(attributes)
    made[:] = values
    return made


def write(path, times=None, units="days since 2000-01-01", time_type="i4", unlimited=True, calendar=None, **arrays):
    """A file of steps. An array is its values, or these with options of `variable`; all lie along time."""
    with netCDF4.Dataset(path, "w") as file:
        if times is not None:
            file.createDimension("time", None if unlimited else len(times))
            extra = {"calendar": calendar} if calendar else {}
            variable(file, "time", ("time",), times, time_type, units=units, **extra)
        for name, given in arrays.items():
            values, options = given if isinstance(given, tuple) else (given, {})
            values = np.asarray(values)
            dimensions = options.pop("dimensions", None)
            if dimensions is None:
                dimensions = ("time", "y", "x")[: values.ndim]
            for dimension, length in zip(dimensions, values.shape):
                if dimension not in file.dimensions:
                    file.createDimension(dimension, length)
            variable(file, name, dimensions, values, options.pop("dtype", values.dtype), **options)
    return path


def put(mount, *files, into="o.zarr", check=True):
    folder = mount.path / into
    folder.mkdir(parents=True, exist_ok=True)
    done = subprocess.run(["cp", *map(str, files), f"{folder}/"], capture_output=True, text=True)
    assert not check or done.returncode == 0, done.stderr
    return done


def refused(mount, file, into="o.zarr"):
    """The reason why a copy is refused; it can be read as soon as the copy has failed."""
    done = put(mount, file, into=into, check=False)
    assert done.returncode != 0, f"{file.name} was taken"
    return (mount.path / ".zarrmount-status" / "refused" / into / f"{file.name}.txt").read_text()


def opened(mount, name="o.zarr", **options):
    """The dataset in the bucket: both views of the metadata say the same."""
    dataset = xr.open_zarr(mount.bucket / name, consolidated=True, **options).load()
    other = xr.open_zarr(mount.bucket / name, consolidated=False, **options).load()
    xr.testing.assert_identical(dataset, other)
    return dataset


def objects(mount):
    """All objects with what would change if they were put again."""
    files = (path for path in mount.bucket.rglob("*") if path.is_file())
    return {str(path.relative_to(mount.bucket)): (path.stat().st_mtime_ns, path.read_bytes()) for path in files}


def chunks(mount, array, name="o.zarr"):
    folder = mount.bucket / name / array
    return [path for path in folder.rglob("*") if path.is_file() and not path.name.startswith((".z", "zarr.json"))]


def cells(first, steps):
    return np.arange(first, first + steps * 6, dtype="f8").reshape(steps, 2, 3)


def test_files_stand_in_the_order_of_their_times_and_fill_whole_chunks(place, data):
    a = write(data / "a.nc", [0, 1, 2], t=cells(0, 3))
    b = write(data / "b.nc", [3, 4], t=cells(18, 2))
    place.mount("--chunks", "time=2")
    put(place, b)
    put(place, a)
    place.umount()
    dataset = opened(place, decode_times=False)
    assert list(dataset.time) == [0, 1, 2, 3, 4]
    assert np.array_equal(dataset.t.values.ravel(), np.arange(30))
    assert len(chunks(place, "t")) == 3
    c = write(data / "c.nc", [5], t=cells(30, 1))
    place.mount()
    put(place, c)
    place.umount()
    assert np.array_equal(opened(place).t.values.ravel(), np.arange(36))


def test_times_of_different_units_are_told_in_one_that_holds_them_exactly(place, data):
    a = write(data / "a.nc", [0, 1], v=[1.0, 2.0])
    b = write(data / "b.nc", [0, 6], units="hours since 2000-01-03", v=[3.0, 4.0])
    place.mount()
    put(place, b)
    put(place, a)
    place.umount()
    times = opened(place).time.values.astype("datetime64[h]")
    assert list(times.astype(str)) == ["2000-01-01T00", "2000-01-02T00", "2000-01-03T00", "2000-01-03T06"]
    assert np.issubdtype(xr.open_zarr(place.bucket / "o.zarr", decode_times=False).time.dtype, np.integer)


def test_packings_that_differ_are_refused_or_unpacked(place, data):
    packed = {"dtype": "i2", "fill": -32767}
    a = write(data / "a.nc", [0, 1, 2], t=([0, 100, -32767], {**packed, "scale_factor": 0.01, "add_offset": 273.15}))
    b = write(data / "b.nc", [3, 4, 5], t=([0, 50, -32767], {**packed, "scale_factor": 0.02, "add_offset": 270.0}))
    place.mount()
    put(place, a)
    assert "scale_factor" in refused(place, b)
    put(place, a, b, into="unpacked.zarr", check=False)
    place.umount()
    assert np.allclose(opened(place).t, [273.15, 274.15, NAN], equal_nan=True)
    shutil.rmtree(place.bucket / "unpacked.zarr", ignore_errors=True)
    place.mount("--unpack")
    put(place, a, b, into="both.zarr")
    place.umount()
    values = opened(place, "both.zarr").t
    assert np.allclose(values, [273.15, 274.15, NAN, 270, 271, NAN], equal_nan=True)


def test_the_same_content_again_sends_nothing(place, data):
    a = write(data / "a.nc", [0, 1, 2], t=cells(0, 3))
    place.mount()
    put(place, a)
    place.umount()
    before = objects(place)
    place.mount()
    subprocess.run(["cp", "-p", a, place.path / "o.zarr/"], check=True)
    put(place, shutil.copy(a, data / "other.nc"))
    subprocess.run(["rsync", "-u", a, f"{place.path}/o.zarr/"], check=True)
    place.umount()
    assert objects(place) == before
    assert len(opened(place).time) == 3


@pytest.mark.parametrize("published", [False, True], ids=["together", "published"])
def test_other_values_at_the_same_times_are_refused_kept_or_taken(place, data, published):
    a = write(data / "a.nc", [0, 1, 2], t=[1.0, 2.0, 3.0])
    b = write(data / "b.nc", [1, 2, 3], t=[2.0, 30.0, 4.0])

    def both(rule):
        place.mount("--overlap", rule)
        put(place, a, into=f"{rule}.zarr")
        if published:
            place.run("flush", place.path)

    both("error")
    done = put(place, b, into="error.zarr", check=False)
    if published:
        # The comparison may need the bucket: then it is told later, and the bytes are kept.
        done = place.run("flush", place.path, check=False)
    else:
        assert done.returncode != 0
    text = place.run("status", place.path, check=False).stdout
    assert "2000-01-03" in text and "other values of /t" in text, text
    if published:
        (place.path / "error.zarr" / "b.nc").unlink()
    place.umount()
    assert list(opened(place, "error.zarr").t) == [1, 2, 3]
    for rule, expected in [("keep", [1, 2, 3, 4]), ("replace", [1, 2, 30, 4])]:
        both(rule)
        put(place, b, into=f"{rule}.zarr")
        place.umount()
        assert list(opened(place, f"{rule}.zarr").t) == expected


@pytest.mark.parametrize("repeat", range(3))
def test_parallel_copies_of_files_across_the_chunk_grid_lose_nothing(place, data, repeat):
    files = [write(data / f"{n}.nc", np.arange(3 * n, 3 * n + 3), t=np.arange(3.0) + 3 * n) for n in range(6)]
    place.mount("--chunks", "time=4")
    (place.path / "o.zarr").mkdir()
    with ThreadPoolExecutor(6) as pool:
        list(pool.map(lambda file: put(place, file), files))
    place.umount()
    assert list(opened(place).t) == list(range(18))
    assert len(chunks(place, "t")) == 5


def test_variables_without_the_dimension_must_be_the_same(place, data):
    lat = lambda *values: (list(values), {"dimensions": ("lat",)})  # noqa: E731
    a = write(data / "a.nc", [0], t=[1.0], lat=lat(10.0, 20.0))
    b = write(data / "b.nc", [1], t=[2.0], lat=lat(20.0, 10.0))
    c = write(data / "c.nc", [2], t=[3.0], lat=lat(10.0000001, 20.0))
    place.mount()
    put(place, a)
    assert "lat" in refused(place, b)
    put(place, c)
    place.umount()
    dataset = opened(place)
    assert list(dataset.t) == [1, 3] and list(dataset.lat) == [10, 20]


def test_what_a_file_lacks_is_missing_and_never_zero(place, data):
    a = write(data / "a.nc", [0, 1], p=[1.0, 2.0], q=([0, 7], {"dtype": "i4"}))
    b = write(data / "b.nc", [2, 3], p=[3.0, 4.0])
    c = write(data / "c.nc", [4, 5], p=[5.0, 6.0], q=([8, 9], {"dtype": "i4"}), r=[0.5, 1.5])
    place.mount()
    put(place, a, b, c)
    place.umount()
    dataset = opened(place)
    assert list(dataset.p) == [1, 2, 3, 4, 5, 6]
    assert np.array_equal(dataset.q, [0, 7, NAN, NAN, 8, 9], equal_nan=True)
    assert np.array_equal(dataset.r, [NAN] * 4 + [0.5, 1.5], equal_nan=True)
    place.mount("--schema", "strict")
    put(place, a, into="strict.zarr")
    assert "/q" in refused(place, b, into="strict.zarr")
    assert "/r" in refused(place, c, into="strict.zarr")
    place.umount()


@pytest.mark.parametrize("published", [False, True], ids=["together", "published"])
def test_files_of_the_same_times_and_different_variables_are_merged(place, data, published):
    a = write(data / "a.nc", [0, 1, 2], t=[1.0, 2.0, 3.0])
    b = write(data / "b.nc", [0, 1, 2], s=[4.0, 5.0, 6.0], n=([7, 8, 9], {"dtype": "i2"}))
    c = write(data / "c.nc", [1, 2, 3], u=[1.5, 2.5, 3.5])
    place.mount("--chunks", "time=2")
    put(place, a)
    if published:
        place.run("flush", place.path)
    put(place, b, c)
    place.umount()
    dataset = opened(place, decode_times=False)
    assert list(dataset.time) == [0, 1, 2, 3]
    assert np.array_equal(dataset.t, [1, 2, 3, NAN], equal_nan=True)
    assert np.array_equal(dataset.s, [4, 5, 6, NAN], equal_nan=True)
    assert np.array_equal(dataset.n, [7, 8, 9, NAN], equal_nan=True)
    assert np.array_equal(dataset.u, [NAN, 1.5, 2.5, 3.5], equal_nan=True)


def test_overlaps_along_a_fixed_dimension_must_agree(place, data):
    along_x = lambda *values: (list(values), {"dimensions": ("x",)})  # noqa: E731
    a = write(data / "a.nc", x=along_x(0.0, 1.0), v=along_x(1.0, 2.0))
    b = write(data / "b.nc", x=along_x(1.0, 2.0), v=along_x(99.0, 3.0))
    c = write(data / "c.nc", x=along_x(1.0, 2.0), v=along_x(2.0, 3.0))
    place.mount()
    put(place, a)
    assert "other values of /v" in refused(place, b)
    put(place, c)
    place.umount()
    dataset = opened(place)
    assert list(dataset.x) == [0, 1, 2] and list(dataset.v) == [1, 2, 3]


def test_a_third_file_is_compared_with_all_files_before(place, data):
    a = write(data / "a.nc", [0, 1], p=[1.0, 2.0])
    b = write(data / "b.nc", [0, 1], q=[3.0, 4.0])
    c = write(data / "c.nc", [1, 2], p=[2.0, 5.0], q=[99.0, 6.0])
    place.mount()
    put(place, a, b)
    assert "other values of /q" in refused(place, c)
    place.umount()
    dataset = opened(place)
    assert list(dataset.p) == [1, 2] and list(dataset.q) == [3, 4]


def test_contradicting_files_that_are_copied_at_once_are_not_both_taken(place, data):
    files = [write(data / f"{n}.nc", [0, 1], t=np.full((2, 40), float(n))) for n in range(6)]
    place.mount()
    (place.path / "o.zarr").mkdir()
    with ThreadPoolExecutor(6) as pool:
        codes = list(pool.map(lambda file: put(place, file, check=False).returncode, files))
    place.umount()
    assert codes.count(0) == 1
    assert (opened(place).t == codes.index(0)).all()


def test_a_file_goes_into_each_group_that_it_is_copied_into(place, data):
    a = write(data / "a.nc", [0, 1], t=[1.0, 2.0])
    place.mount()
    put(place, a, into="o.zarr/north")
    place.run("flush", place.path)
    put(place, a, into="o.zarr/south")
    place.umount()
    for group in ["north", "south"]:
        assert list(opened(place, group=group).t) == [1, 2]


@pytest.mark.parametrize("published", [False, True], ids=["together", "published"])
def test_files_without_coordinates_go_into_a_group_one_after_the_other(place, data, published):
    def steps(path, values):
        with netCDF4.Dataset(path, "w") as file:
            file.createDimension("time", None)
            variable(file, "t", ("time",), values)
        return path

    a, b = steps(data / "a.nc", [1.0, 2.0]), steps(data / "b.nc", [3.0])
    place.mount()
    put(place, a, into="o.zarr/north")
    if published:
        place.run("flush", place.path)
    put(place, b, into="o.zarr/north")
    place.umount()
    assert list(opened(place, group="north").t) == [1, 2, 3]


def test_a_coordinate_without_an_order_stands_alone(place, data):
    times = {"time_type": "f8", "units": "days since 2000-01-01"}
    a = write(data / "a.nc", [0.0, NAN, 2.0], t=[1.0, 2.0, 3.0], **times)
    b = write(data / "b.nc", [3.0], t=[4.0], **times)
    twice = write(data / "twice.nc", [0.0, 1.0, 1.0], t=[1.0, 2.0, 3.0], **times)
    place.mount()
    put(place, a)
    assert "a.nc" in refused(place, b)
    put(place, twice, into="twice.zarr")
    assert "twice.nc" in refused(place, b, into="twice.zarr")
    place.umount()
    assert list(opened(place, decode_times=False).t) == [1, 2, 3]
    assert list(opened(place, "twice.zarr", decode_times=False).t) == [1, 2, 3]


def test_a_file_without_steps_puts_nothing_out_of_order(place, data):
    a = write(data / "a.nc", [3, 4], t=[4.0, 5.0])
    with netCDF4.Dataset(data / "b.nc", "w") as file:
        file.createDimension("time", None)
        file.createVariable("t", "f8", ("time",))
    c = write(data / "c.nc", [0, 1], t=[1.0, 2.0])
    place.mount()
    put(place, a, data / "b.nc", c)
    place.umount()
    dataset = opened(place, decode_times=False)
    assert list(dataset.time) == [0, 1, 3, 4] and list(dataset.t) == [1, 2, 4, 5]


def remove_tree(mount, name):
    subprocess.run(["rm", "-r", mount.path / name], check=True)


def rename_tree(mount, name):
    (mount.path / name).rename(mount.path / "gone.zarr")


def remove_array(mount, name):
    subprocess.run(["rm", "-r", mount.path / name / "t"], check=True)


@pytest.mark.parametrize("again", ["at once", "remounted"])
@pytest.mark.parametrize("remove", [remove_tree, rename_tree])
def test_a_dataset_that_was_removed_and_copied_again_is_complete(place, data, remove, again):
    files = [write(data / f"{n}.nc", [2 * n, 2 * n + 1], t=cells(12 * n, 2)) for n in range(2)]
    place.mount()
    put(place, *files)
    place.run("flush", place.path)
    if again == "remounted":
        place.umount()
        place.mount()
    remove(place, "o.zarr")
    put(place, *files)
    place.umount()
    assert np.array_equal(opened(place).t.values.ravel(), np.arange(24))
    # Receipts of what was removed are gone: a file of then that is not there now is not there.
    place.mount()
    remove(place, "o.zarr") if remove is remove_tree else remove_tree(place, "o.zarr")
    put(place, files[0])
    place.umount()
    place.mount()
    put(place, files[1])
    place.umount()
    assert np.array_equal(opened(place).t.values.ravel(), np.arange(24))


def test_a_dataset_that_another_program_removed_is_complete_when_copied_again(place, data):
    a = write(data / "a.nc", [0, 1], t=cells(0, 2))
    b = write(data / "b.nc", [2, 3], t=cells(12, 2))
    c = write(data / "c.nc", [2, 3], t=cells(50, 2))
    place.mount()
    put(place, a, b)
    place.umount()
    shutil.rmtree(place.bucket / "o.zarr")
    # Its metadata is the same as before: what receipts said of b would seem to hold.
    place.mount()
    put(place, a, c)
    place.umount()
    place.mount()
    put(place, b, check=False)
    done = place.umount(check=False)
    assert done.returncode != 0 and "b.nc" in done.stdout + done.stderr
    assert np.array_equal(opened(place).t.values[2:].ravel(), np.arange(50, 62))


@pytest.mark.parametrize("published", [False, True], ids=["together", "published"])
def test_with_replace_the_last_arrival_holds(place, data, published):
    a = write(data / "a.nc", [0, 1, 2], t=[1.0, 2.0, 3.0])
    b = write(data / "b.nc", [1, 2, 3], t=[20.0, 30.0, 40.0])
    place.mount("--overlap", "replace")
    for file in [a, b, a]:
        put(place, file)
        if published:
            place.run("flush", place.path)
    place.umount()
    assert list(opened(place).t) == [1, 2, 3, 40]


def test_a_correction_by_missing_values_leaves_no_stale_chunk(place, data):
    filled = {"fill": -1.0}
    a = write(data / "a.nc", [0, 1, 2, 3], t=([1.0, 2.0, 3.0, 4.0], dict(filled)))
    b = write(data / "b.nc", [0, 1], t=([-1.0, -1.0], dict(filled)))
    place.mount("--chunks", "time=2", "--overlap", "replace")
    put(place, a)
    place.run("flush", place.path)
    assert len(chunks(place, "t")) == 2
    put(place, b)
    place.umount()
    assert np.array_equal(opened(place).t, [NAN, NAN, 3, 4], equal_nan=True)
    assert len(chunks(place, "t")) == 1


def test_a_dataset_that_did_not_come_from_this_file_is_never_replaced(place, data):
    many = [write(data / f"{n}.nc", [n], t=[float(n)]) for n in range(2)]
    sst = write(data / "sst.nc", [7], t=[7.0])
    place.mount()
    put(place, *many, into="sst.zarr")
    place.umount()
    xr.Dataset({"t": ("x", [1.0])}).to_zarr(
        place.bucket / "own.zarr", zarr_format=int(place.options[-1]), consolidated=True
    )
    own = shutil.copy(sst, data / "own.nc")
    before = objects(place)
    place.mount()
    for file in [sst, own]:
        assert subprocess.run(["cp", file, place.path], capture_output=True).returncode != 0
    place.umount()
    assert objects(place) == before


def test_published_texts_are_compared_as_texts(place, data):
    def texts(path, times, words, static=("a", "b")):
        with netCDF4.Dataset(path, "w") as file:
            file.createDimension("time", None)
            file.createDimension("y", 2)
            variable(file, "time", ("time",), times, "i4", units="days since 2000-01-01")
            word = file.createVariable("word", str, ("time", "y"))
            label = file.createVariable("label", str, ("y",))
            for step, row in enumerate(words):
                word[step] = np.array(row, dtype=object)
            label[:] = np.array(static, dtype=object)
        return path

    a = texts(data / "a.nc", [0, 1], [["x", "yy"], ["zzz", ""]])
    b = texts(data / "b.nc", [1, 2], [["zzz", ""], ["new", "é"]])
    other = texts(data / "other.nc", [1, 3], [["zzz", "?"], ["new", "é"]])
    static = texts(data / "static.nc", [4], [["q", "r"]], static=("a", "c"))
    place.mount()
    put(place, a)
    place.run("flush", place.path)
    put(place, b)
    place.run("flush", place.path)
    assert [list(row) for row in opened(place).word.values] == [["x", "yy"], ["zzz", ""], ["new", "é"]]
    for file, named in [(other, "/word"), (static, "/label")]:
        put(place, file, check=False)
        place.run("flush", place.path, check=False)
        text = place.run("status", place.path, check=False).stdout
        assert named in text and file.name in text, text
    place.umount(check=False)
    assert len(opened(place).time) == 3


def test_calendars_that_agree_on_all_values_are_one(place, data):
    names = ["standard", "proleptic_gregorian", "gregorian", None]
    files = [
        write(data / f"{n}.nc", [n], t=[float(n)], calendar=name, units="days since 1900-01-01")
        for n, name in enumerate(names)
    ]
    early = write(data / "early.nc", [-200_000], t=[1.0], calendar="proleptic_gregorian", units="days since 1900-01-01")
    noleap = write(data / "noleap.nc", [9], t=[1.0], calendar="noleap", units="days since 1900-01-01")
    place.mount()
    put(place, *files)
    assert "calendar" in refused(place, early)
    assert "calendar" in refused(place, noleap)
    place.umount()
    dataset = opened(place)
    assert list(dataset.t) == [0, 1, 2, 3]
    assert list(dataset.time.dt.day) == [1, 2, 3, 4]


def test_static_coordinates_are_compared_as_what_they_mean(place, data):
    def reference(path, time, since, value):
        with netCDF4.Dataset(path, "w") as file:
            file.createDimension("time", None)
            file.createDimension("ref", 1)
            variable(file, "time", ("time",), [time], "i4", units="days since 2000-01-01")
            variable(file, "ref", ("ref",), [value], "i4", units=f"days since {since}")
            variable(file, "t", ("time",), [float(time)])
        return path

    a = reference(data / "a.nc", 0, "2000-01-01", 0)
    same = reference(data / "b.nc", 1, "1999-12-31", 1)
    other = reference(data / "c.nc", 2, "2001-01-01", 0)
    place.mount()
    put(place, a)
    assert "/ref" in refused(place, other)
    put(place, same)
    place.umount()
    assert list(opened(place).t) == [0, 1]


def test_bounds_whose_units_differ_are_taken_or_refused_at_close(place, data):
    def bounded(path, time, bounds, units):
        with netCDF4.Dataset(path, "w") as file:
            file.createDimension("time", None)
            file.createDimension("nv", 2)
            variable(file, "time", ("time",), [time], "i4", units=units, bounds="time_bnds")
            variable(file, "time_bnds", ("time", "nv"), [bounds], "i4")
            variable(file, "t", ("time",), [float(time)])
        return path

    days = bounded(data / "c.nc", 1, [0, 2], "days since 2000-01-01")
    hours = bounded(data / "a.nc", 24 * 5, [24 * 4 + 12, 24 * 5 + 12], "hours since 2000-01-01")
    minutes = bounded(data / "b.nc", 60 * 24 * 3, [60 * 24 * 2 + 30, 60 * 24 * 3], "minutes since 2000-01-01")
    for order in itertools.permutations([days, hours, minutes]):
        place.mount()
        name = "".join(file.stem for file in order) + ".zarr"
        taken = [file for file in order if put(place, file, into=name, check=False).returncode == 0]
        # Whatever was taken is published.
        place.umount()
        dataset = opened(place, name)
        assert len(dataset.time) == len(taken) > 0
        bounds = dataset.time_bnds.values.astype("datetime64[m]").astype(str)
        expected = {
            days: ["2000-01-01T00:00", "2000-01-03T00:00"],
            minutes: ["2000-01-03T00:30", "2000-01-04T00:00"],
            hours: ["2000-01-05T12:00", "2000-01-06T12:00"],
        }
        assert [list(row) for row in bounds] == [expected[file] for file in expected if file in taken]
