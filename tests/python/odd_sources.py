"""Odd but legal NetCDF and HDF5 files, one feature a file.

`write_all(folder)` writes them; `REFUSED` says of those that cannot become Zarr what the refusal names.
"""

import h5netcdf
import h5py
import netCDF4
import numpy as np
import sources

TEXT = h5py.string_dtype()
NUMBERS = sources.CLASSIC["NETCDF3_64BIT_DATA"]
WRITERS = {}
REFUSED = {}


def odd(ending="nc", refused=None):
    """Registers a writer under its name."""

    def register(write):
        name = f"{write.__name__}.{ending}"
        WRITERS[name] = write
        if refused:
            REFUSED[name] = refused
        return write

    return register


def write_all(folder):
    paths = []
    for name, write in WRITERS.items():
        paths.append(folder / name)
        write(paths[-1])
    return paths


def create(path, form="NETCDF4"):
    return netCDF4.Dataset(path, "w", format=form)


def dimensions(ds, **lengths):
    for name, length in lengths.items():
        ds.createDimension(name, length)


def add(ds, name, kind, dims, values=None, **options):
    variable = ds.createVariable(name, kind, dims, **options)
    variable.set_auto_maskandscale(False)
    if values is not None:
        variable[...] = values
    return variable


# Classic formats.


@odd()
def classic_record_padding(path):
    """Records of odd sizes are padded to four bytes."""
    with create(path, "NETCDF3_CLASSIC") as ds:
        dimensions(ds, time=None, a=3, b=1, c=5)
        for name, kind, dims in [
            ("bytes", "i1", ("time", "a")), ("shorts", "i2", ("time", "a")), ("one", "i1", ("time",)),
            ("chars", "S1", ("time", "c")), ("doubles", "f8", ("time", "b")), ("short", "i2", ("time",)),
        ]:  # fmt: skip
            shape = (7, *[{"a": 3, "b": 1, "c": 5}[d] for d in dims[1:]])
            if kind == "S1":
                add(ds, name, kind, dims, np.frombuffer(b"abcdefghijklmnopqrstuvwxyz012345678", "S1").reshape(7, 5))
            else:
                add(ds, name, kind, dims, sources.values(kind, shape))


def _one_record_variable(form, kind, inner):
    def write(path):
        with create(path, form) as ds:
            dimensions(ds, time=None, x=inner)
            data = sources.values(kind, (9, inner)) if kind != "S1" else np.full((9, inner), b"z")
            add(ds, "only", kind, ("time", "x"), data)

    write.__name__ = f"classic_only_{form[8:]}_{kind}_{inner}".lower()
    odd()(write)


for _form in sources.CLASSIC:
    for _kind, _inner in [("i1", 1), ("i1", 3), ("i2", 1), ("i2", 3), ("S1", 5)]:
        _one_record_variable(_form, _kind, _inner)


@odd()
def classic_without_records(path):
    with create(path, "NETCDF3_64BIT_OFFSET") as ds:
        dimensions(ds, time=None, x=3)
        add(ds, "time", "f8", ("time",))
        add(ds, "t", "f4", ("time", "x"))
        add(ds, "x", "i4", ("x",), [1, 2, 3])


@odd()
def classic_without_variables(path):
    with create(path, "NETCDF3_CLASSIC") as ds:
        ds.title = "nothing"
        dimensions(ds, x=3)


@odd()
def classic_unwritten(path):
    """Prefilled with the default or the own fill value; without prefilling with zeros."""
    with create(path, "NETCDF3_64BIT_DATA") as ds:
        dimensions(ds, time=None, x=3)
        for kind in [*NUMBERS, "S1"]:
            add(ds, f"default_{kind}", kind, ("x",))
            if kind != "S1":
                add(ds, f"own_{kind}", kind, ("x",), fill_value=np.array(5, kind))
            add(ds, f"record_{kind}", kind, ("time", "x"))
        ds["record_i1"][2] = 1


@odd()
def classic_scalars(path):
    with create(path, "NETCDF3_64BIT_DATA") as ds:
        for kind in NUMBERS:
            add(ds, f"s_{kind}", kind, (), sources.values(kind, (1,))[0])
        add(ds, "s_char", "S1", (), b"x")


def _attributes(ds, variable):
    for owner in (ds, variable):
        for kind in NUMBERS:
            owner.setncattr(f"one_{kind}", np.array(sources.values(kind, (3,))[1], kind))
            owner.setncattr(f"many_{kind}", sources.values(kind, (4,))[1:])
        owner.setncattr("empty_text", "")
        owner.setncattr("text", "Länge, 長さ\nsecond line\t")
        owner.setncattr("long", "x" * 70000)
        owner.setncattr("blank", "  ")
        owner.setncattr("looks_like_a_number", "1.5")
        owner.setncattr("negative_zero", -0.0)
        owner.setncattr("tiny", np.float32(1e-45))


@odd()
def classic_attributes(path):
    with create(path, "NETCDF3_64BIT_DATA") as ds:
        dimensions(ds, x=2)
        _attributes(ds, add(ds, "v", "i4", ("x",), [1, 2]))


@odd()
def netcdf4_attributes(path):
    with create(path) as ds:
        dimensions(ds, x=2)
        _attributes(ds, add(ds, "v", "i4", ("x",), [1, 2]))
        ds.setncattr_string("string", "Ærø")
        ds.setncattr_string("strings", ["a", "", "長"])
        ds.setncattr_string("one_string", ["only"])
        ds.setncattr("extremes", np.array([-(2**63), 2**63 - 1]))
        ds.setncattr("unsigned_extreme", np.uint64(2**64 - 1))


ODD_NAMES = ["a b", "x#y", "a%20b", "a.b", "my data [v1]~", "température", "変数", "_under", "A", "a", "c", "0",
             "0.0", ".hidden", "zarr", "x" * 255, "a+b=c", "q?", "star*", "co:lon", "quote'\"",
             "percent%", "e\u0301", "-dash", "@at", "n&m", "pipe|", "semi;colon", "<x>", "tilde~1"]  # fmt: skip


@odd()
def names(path):
    with h5py.File(path, "w") as file:
        for index, name in enumerate(ODD_NAMES):
            file.create_dataset(name, data=np.array([index], "i4")).make_scale(name)
        group = file.create_group("grüppe %41")
        group.create_dataset("innen", data=np.arange(3))
        group.attrs["größe"] = 3


@odd(refused="a metadata document of Zarr has that name")
def name_of_a_document(path):
    with create(path) as ds:
        dimensions(ds, x=2)
        add(ds, "zarr.json", "i4", ("x",), [1, 2])


@odd("h5", refused="it contains `\\`, which zarr-python takes for `/`")
def name_with_a_backslash(path):
    with h5py.File(path, "w") as file:
        file["back\\slash"] = np.arange(3)


@odd("h5", refused="it contains a control character")
def name_with_a_tab(path):
    with h5py.File(path, "w") as file:
        file["a\tb"] = np.arange(3)


@odd(refused="it is longer than 255 bytes")
def name_too_long(path):
    with create(path) as ds:
        dimensions(ds, x=2)
        add(ds, "é" * 128, "i4", ("x",), [1, 2])


@odd()
def normalized_names(path):
    """netCDF-C composes characters, HDF5 keeps them as they are."""
    with create(path) as ds:
        dimensions(ds, x=2)
        add(ds, "a\u0308", "i4", ("x",), [1, 2])
        ds.setncattr("o\u0308", "composed")


# Dimensions and groups.


@odd()
def groups_by_scope(path):
    """Dimensions of enclosing groups, shadowed and of the same name in sisters."""
    with create(path) as ds:
        dimensions(ds, x=2, y=3)
        add(ds, "x", "f4", ("x",), [1, 2])
        one, two = ds.createGroup("one"), ds.createGroup("two")
        dimensions(one, z=4)
        add(one, "inherits", "i2", ("y", "x", "z"), sources.values("i2", (3, 2, 4)))
        add(one, "z", "f8", ("z",), np.arange(4))
        dimensions(two, z=5, y=6)
        add(two, "shadows", "i2", ("y", "z"), sources.values("i2", (6, 5)))
        deep = two.createGroup("a").createGroup("b").createGroup("c")
        add(deep, "deep", "f4", ("z", "y", "x"), sources.values("f4", (5, 6, 2)))
        deep.comment = "down here"
        ds.createGroup("empty")


@odd()
def groups_deep(path):
    with create(path) as ds:
        group = ds
        for level in range(40):
            group = group.createGroup(f"g{level}")
        dimensions(group, x=2)
        add(group, "v", "i4", ("x",), [1, 2])


@odd()
def several_unlimited(path):
    with create(path) as ds:
        dimensions(ds, t=None)
        add(ds, "a", "u1", ("t",), np.arange(5000) % 255, chunksizes=(7,))
        add(ds, "b", "u1", ("t",), np.arange(3), chunksizes=(7,))
        add(ds, "c", "S1", ("t",), np.frombuffer(b"abc", "S1"), chunksizes=(2,))


@odd()
def not_a_coordinate(path):
    """Variables that are called like dimensions and are none of their coordinates."""
    with create(path) as ds:
        dimensions(ds, x=2, y=3, time=None)
        add(ds, "x", "f4", ("y",), [1, 2, 3])
        add(ds, "time", "f8", ("time", "y"), sources.values("f8", (2, 3)))
        add(ds, "v", "f4", ("y", "x"), sources.values("f4", (3, 2)))


@odd()
def scalar_named_like_a_dimension(path):
    with create(path) as ds:
        dimensions(ds, x=2)
        add(ds, "x", "f4", (), 3)
        add(ds, "v", "f4", ("x",), [1, 2])


@odd()
def coordinate_of_strings(path):
    with create(path) as ds:
        dimensions(ds, station=3, n=4)
        add(ds, "station", str, ("station",))[:] = np.array(["a", "bb", "Ærø"], object)
        add(ds, "v", "f4", ("station",), [1, 2, 3])
        add(ds, "code", "S1", ("station", "n"), netCDF4.stringtochar(np.array(["abcd", "", "x"], "S4")))


@odd()
def dimension_twice(path):
    with create(path) as ds:
        dimensions(ds, x=3)
        ds.createDimension("unused", 7)
        add(ds, "covariance", "f8", ("x", "x"), sources.values("f8", (3, 3)))


@odd()
def dimension_order(path):
    with create(path) as ds:
        dimensions(ds, c=2, b=3, a=4)
        add(ds, "abc", "i4", ("a", "b", "c"), sources.values("i4", (4, 3, 2)))
        add(ds, "cab", "i4", ("c", "a", "b"), sources.values("i4", (2, 4, 3)))
        for name in "abc":
            add(ds, name, "f4", (name,), np.arange(len(ds.dimensions[name])))


@odd("h5")
def zero_lengths(path):
    with h5py.File(path, "w") as file:
        none = file.create_dataset("none", (0,), "f4")
        none.make_scale("none")
        x = file.create_dataset("x", data=np.arange(3.0))
        x.make_scale("x")
        for name, kind in (("f", "f4"), ("i", ">i2"), ("t", TEXT), ("s", "S4"), ("c", "S1")):
            variable = file.create_dataset(name, (0, 3), kind)
            variable.dims[0].attach_scale(none)
            variable.dims[1].attach_scale(x)
        file.create_dataset("grows", (0, 5), "i4", maxshape=(None, 5), chunks=(2, 5))


@odd("h5")
def anonymous_dimensions(path):
    with h5py.File(path, "w") as file:
        file["a"] = np.arange(6).reshape(2, 3)
        file["b"] = np.arange(9).reshape(3, 3)
        file["c"] = np.arange(4)
        file["g/d"] = np.arange(3)
        file["g/e"] = np.arange(10).reshape(2, 5)
        file["g/h/f"] = np.arange(25).reshape(5, 5)
        file.create_dataset("grows", data=np.arange(2), maxshape=(None,))


@odd("h5")
def half_attached_scales(path):
    with h5py.File(path, "w") as file:
        x = file.create_dataset("x", data=np.arange(3.0))
        x.make_scale("x")
        unnamed = file.create_dataset("y", data=np.arange(2.0))
        unnamed.make_scale()
        v = file.create_dataset("v", data=np.arange(6.0).reshape(2, 3))
        v.dims[0].attach_scale(unnamed)
        v.dims[1].attach_scale(x)
        w = file.create_dataset("w", data=np.arange(3))
        w.dims[0].attach_scale(x)
        deep = file.create_dataset("g/deep", data=np.arange(3))
        deep.dims[0].attach_scale(x)


@odd()
def h5netcdf_new_and_legacy(path):
    with h5netcdf.File(path, "w") as file:
        file.dimensions = {"x": 3, "y": None}
        file.create_variable("x", ("x",), data=np.arange(3.0))
        v = file.create_variable("g/v", ("y", "x"), "f4", chunks=(1, 3))
        file.resize_dimension("y", 4)
        v[:2] = 1
        v.attrs["units"] = "m"
        file.create_variable("text", ("x",), TEXT)[:] = ["a", "b", "ü"]


# Types and values.


@odd()
def big_endian(path):
    with create(path) as ds:
        dimensions(ds, time=None, x=5)
        for name in NUMBERS:
            kind, order = np.dtype(name).newbyteorder(">"), {"endian": "big"}
            chunks = {"chunksizes": (2, 2)}
            add(ds, f"flat_{name}", kind, ("x",), sources.values(name, (5,)), **order)
            add(ds, f"filled_{name}", kind, ("time", "x"), fill_value=np.array(3, kind), **chunks, **order)[1] = 1
            add(ds, f"default_{name}", kind, ("time", "x"), zlib=True, **chunks, **order)[2, 1:3] = 1


@odd()
def fills(path):
    """Every kind of fill over chunks of which some were never written."""
    special = {"f4": [np.nan, np.inf, -0.0, 1e-45], "f8": [np.nan, -np.inf, -0.0, 5e-324]}
    with create(path) as ds:
        dimensions(ds, time=None, x=5)
        for kind in NUMBERS:
            extremes = [0, 1] if kind[0] == "f" else [0, np.iinfo(kind).min, np.iinfo(kind).max]
            for index, fill in enumerate([None, *extremes, *special.get(kind, [])]):
                for layout in ({"chunksizes": (1, 3)}, {"contiguous": True}):
                    dims = ("time", "x") if "chunksizes" in layout else ("x",)
                    value = None if fill is None else np.array(fill, kind)
                    name = f"{kind}_{index}_{len(dims)}d"
                    variable = add(ds, name, kind, dims, fill_value=value, **layout)
                    if len(dims) == 2:
                        variable[1, 1:2] = 1
                        variable[3, 4] = 2
        add(ds, "length", "f8", ("time",), np.arange(4))


@odd()
def unsigned_attribute(path):
    with create(path) as ds:
        dimensions(ds, x=4)
        for kind in ("i1", "i2", "i4"):
            variable = add(ds, f"u_{kind}", kind, ("x",), np.array([-1, 0, 1, -2], kind), fill_value=np.array(-1, kind))
            variable.setncattr("_Unsigned", "true")
            variable.valid_range = np.array([0, -3], kind)
        packed = add(ds, "packed", "i1", ("x",), [-1, 0, 1, -2], fill_value=np.int8(-1))
        packed.setncatts({"_Unsigned": "true", "scale_factor": 0.5, "add_offset": 10.0})
        signed = add(ds, "signed", "u1", ("x",), [255, 0, 1, 128])
        signed.setncattr("_Unsigned", "false")


@odd()
def missing_values(path):
    with create(path) as ds:
        dimensions(ds, x=4)
        for name, kind, fill, missing in [
            ("both", "f4", 1e20, np.float32(-999)), ("list", "i2", -1, np.array([-1, -2], "i2")),
            ("nan", "f8", None, np.nan), ("fill_nan", "f4", np.nan, None), ("same", "i4", -9, np.int32(-9)),
            ("other_type", "i2", None, np.int16(3)),
        ]:  # fmt: skip
            variable = add(ds, name, kind, ("x",), np.array([-1, -2, 3, -9], kind), fill_value=fill)
            if missing is not None:
                variable.missing_value = missing


@odd()
def times(path):
    with create(path) as ds:
        dimensions(ds, time=4)
        for name, units, calendar, kind in [
            ("standard", "days since 1582-10-01", "standard", "f8"), ("noleap", "days since 2000-02-27", "noleap", "i4"),
            ("days360", "hours since 1900-01-01 06:30:00", "360_day", "i8"), ("seconds", "seconds since 1970-01-01T00:00:00Z", None, "i8"),
            ("milli", "milliseconds since 2001-01-01", "proleptic_gregorian", "i8"), ("small", "days since 2000-01-01", None, "f4"),
        ]:  # fmt: skip
            variable = add(ds, name, kind, ("time",), np.arange(4))
            variable.units = units
            if calendar:
                variable.calendar = calendar
        span = add(ds, "span", "i4", ("time",), np.arange(4))
        span.units = "days"
        add(ds, "number", "i4", ("time",), np.arange(4)).units = np.int32(1)


@odd()
def special_attributes(path):
    """Attributes that mean something to readers."""
    with create(path) as ds:
        dimensions(ds, x=2, n=2)
        flag = add(ds, "flag", "i1", ("x",), [0, 1])
        flag.dtype_note = "bool"
        flag.flag_values = np.array([0, 1], "i1")
        flag.flag_meanings = "no yes"
        v = add(ds, "v", "f4", ("x",), [1, 2])
        v.coordinates = "flag lat"
        v.grid_mapping = "crs"
        v.cell_methods = "x: mean"
        add(ds, "lat", "f4", ("x",), [1, 2]).bounds = "lat_bnds"
        add(ds, "lat_bnds", "f4", ("x", "n"), [[0, 1], [1, 2]])
        add(ds, "crs", "i4", ()).grid_mapping_name = "latitude_longitude"
        ds.Conventions = "CF-1.11"
        ds.setncattr("coordinates", "flag")


@odd()
def characters(path):
    with create(path) as ds:
        dimensions(ds, x=3, one=1, odd=5, seven=7)
        text = netCDF4.stringtochar(np.array(["abcde", "", "x"], "S5"))
        add(ds, "plain", "S1", ("x", "odd"), text)
        add(ds, "flat", "S1", ("odd",), text[0])
        add(ds, "one", "S1", ("x", "one"), text[:, :1])
        add(ds, "scalar", "S1", (), b"q")
        add(ds, "encoded", "S1", ("x", "odd"), text).setncattr("_Encoding", "utf-8")
        add(ds, "gaps", "S1", ("x", "seven"))[0, :3] = text[0, :3]
        add(ds, "deflated", "S1", ("x", "odd", "seven"), np.full((3, 5, 7), b"y"), zlib=True, chunksizes=(2, 3, 4))
        inner = np.array([[b"a", b"\0", b"b", b"\0", b"\0"]] * 3, "S1")
        add(ds, "nul", "S1", ("x", "odd"), inner)
        add(ds, "high", "S1", ("x", "odd"), np.array([[b"\xff", b"\xc3", b"\xa9", b"\x80", b"\x01"]] * 3, "S1"))


@odd()
def strings(path):
    with create(path) as ds:
        dimensions(ds, time=None, x=3)
        add(ds, "flat", str, ("x",))[:] = np.array(["a", "", "長さ"], object)
        add(ds, "table", str, ("time", "x"), chunksizes=(1, 2))[0:2] = np.array([["a", "b", "c"], ["d", "", "f" * 500]], object)
        add(ds, "scalar", str, ())[...] = "one"
        add(ds, "unwritten", str, ("x",))
        add(ds, "length", "i4", ("time",), [1, 2, 3])


@odd("h5")
def fixed_strings(path):
    with h5py.File(path, "w") as file:
        file["nul_padded"] = np.array([b"abc", b"", b"defgh"], "S5")
        file["table"] = np.array([[b"ab", b"c"], [b"", b"d"]], "S3")
        utf8 = h5py.h5t.C_S1.copy()
        utf8.set_size(8)
        utf8.set_cset(h5py.h5t.CSET_UTF8)
        made = h5py.h5d.create(file.id, b"utf8", utf8, h5py.h5s.create_simple((2,)))
        made.write(h5py.h5s.ALL, h5py.h5s.ALL, np.array(["é".encode(), b"x"], "S8"), utf8)
        file.create_dataset("scalar", data=np.bytes_("text"))
        file.attrs["fixed"] = np.bytes_("abc")
        file.attrs["fixed_list"] = np.array([b"a", b"bcd"], "S3")


@odd("h5")
def text_attributes(path):
    with h5py.File(path, "w") as file:
        file["x"] = np.arange(2)
        file.attrs["vlen"] = "Ærø"
        file.attrs["vlen_list"] = np.array(["a", "", "ü"], object)
        file.attrs.create("table", np.array([["a", "b"], ["c", "d"]], object), dtype=TEXT)
        file.attrs["fixed_utf8"] = np.bytes_("é".encode())
        file.attrs["none"] = np.zeros((0,), "f4")
        file.attrs["empty"] = ""
        file.attrs["nul"] = np.bytes_(b"a\0b")
        file.attrs["newline"] = "a\nb\r\n"


@odd()
def enumerations(path):
    with create(path) as ds:
        dimensions(ds, x=3)
        for kind in ("i1", "u1", "i2", "u2", "i4", "u4", "i8", "u8"):
            members = {"low": 0, "high": int(np.iinfo(kind).max)}
            made = ds.createEnumType(kind, f"enum_{kind}", members)
            add(ds, f"v_{kind}", made, ("x",), [0, members["high"], 0])
        inner = ds.createGroup("g")
        add(inner, "inherited", ds.enumtypes["enum_u1"], ("x",), [0, 255, 0])


@odd("h5")
def booleans(path):
    with h5py.File(path, "w") as file:
        file["flags"] = np.array([True, False, True])
        file.create_dataset("chunked", data=np.array([[True, False], [False, True]]), chunks=(1, 2), compression="gzip")
        file["scalar"] = np.bool_(True)
        file.attrs["flag"] = np.bool_(True)
        big = h5py.enum_dtype({"a": 1, "b": 256}, basetype=">i2")
        file.create_dataset("big", data=np.array([1, 256], ">i2"), dtype=big)


@odd()
def unused_types(path):
    """Types that the file defines and no variable has."""
    with create(path) as ds:
        dimensions(ds, x=2)
        ds.createCompoundType(np.dtype([("a", "i4")]), "compound")
        ds.createVLType("f4", "ragged")
        ds.createEnumType("u1", "enum", {"a": 1})
        add(ds, "v", "f4", ("x",), [1, 2])


def _refused(name, kind, **options):
    def write(path):
        with h5py.File(path, "w") as file:
            file["good"] = np.arange(3)
            file.create_dataset("bad", dtype=kind, **options)

    write.__name__ = f"type_{name.replace(' ', '_')}"
    return write


for _name, _kind, _says in [
    ("compound", np.dtype([("re", "f4"), ("im", "f4")]), "a compound type (re, im)"),
    ("complex", np.dtype("c16"), "a compound type (r, i)"),
    ("ragged", h5py.vlen_dtype("f4"), "variable-length arrays"),
    ("array", np.dtype("(3,)f4"), "an array type"),
    ("reference", h5py.ref_dtype, "references"),
    ("region", h5py.regionref_dtype, "references"),
    ("opaque", np.dtype("V5"), "an opaque type"),
    ("long_double", np.dtype("g"), "floating-point numbers of 16 bytes"),
]:
    odd("h5", f"variable /bad: {_says}")(_refused(_name, _kind, shape=(2,)))


# Layouts and indexes.


def _libver(write):
    for version in ("earliest", "latest"):

        def run(path, version=version):
            with h5py.File(path, "w", libver=version) as file:
                write(file)

        run.__name__ = f"{write.__name__}_{version}"
        odd("h5")(run)
    return write


@_libver
def chunk_indexes(file):
    """One chunk, fixed, growing along one and two dimensions, early allocated; few and many chunks."""
    data = np.arange(6000, dtype="f4").reshape(60, 100)
    for name, chunks, maxshape in [
        ("single", (60, 100), None), ("fixed", (7, 9), None), ("fixed_many", (1, 2), None),
        ("growing", (7, 9), (None, 100)), ("growing_last", (7, 9), (60, None)), ("growing_many", (1, 3), (None, 100)),
        ("both", (7, 9), (None, None)), ("bounded", (7, 9), (200, 300)),
    ]:  # fmt: skip
        for filters in ({}, {"compression": "gzip", "shuffle": True, "fletcher32": True}):
            variable = file.create_dataset(
                f"{name}_{len(filters)}", data.shape, "f4", chunks=chunks, maxshape=maxshape, fillvalue=-1, **filters
            )
            if name.endswith("many"):
                variable[...] = data
            else:
                variable[:30, 20:] = data[:30, 20:]
                variable[50:, :3] = 5
    plist = h5py.h5p.create(h5py.h5p.DATASET_CREATE)
    plist.set_chunk((7, 9))
    plist.set_alloc_time(h5py.h5d.ALLOC_TIME_EARLY)
    plist.set_fill_value(np.array(3, "f4"))
    early = h5py.h5d.create(file.id, b"early", h5py.h5t.IEEE_F32LE, h5py.h5s.create_simple((60, 100)), plist)
    early.write(h5py.h5s.ALL, h5py.h5s.ALL, data)
    shrunk = file.create_dataset("shrunk", data=data, chunks=(7, 9), maxshape=(None, None))
    shrunk.resize((20, 31))
    shrunk.resize((25, 60))
    file.create_dataset("large_chunk", data=data[:3, :3], chunks=(50, 50), maxshape=(None, None))


@_libver
def filter_masks(file):
    """Chunks that were stored without some of the filters."""
    import zlib

    raw = [np.arange(start, start + 8, dtype="i4") for start in (0, 8, 16, 24)]
    shuffled = [np.frombuffer(part.tobytes(), "u1").reshape(8, 4).T.tobytes() for part in raw]
    variable = file.create_dataset("v", (32,), "i4", chunks=(8,), compression="gzip", shuffle=True)
    for index, (mask, content) in enumerate(
        [(0, zlib.compress(shuffled[0])), (1, zlib.compress(raw[1].tobytes())), (2, shuffled[2]), (3, raw[3].tobytes())]
    ):
        variable.id.write_direct_chunk((index * 8,), content, mask)


@_libver
def layouts(file):
    for name, kind in (("compact", h5py.h5d.COMPACT), ("contiguous", h5py.h5d.CONTIGUOUS)):
        plist = h5py.h5p.create(h5py.h5p.DATASET_CREATE)
        plist.set_layout(kind)
        made = h5py.h5d.create(file.id, name.encode(), h5py.h5t.IEEE_F64BE, h5py.h5s.create_simple((3, 4)), plist)
        made.write(h5py.h5s.ALL, h5py.h5s.ALL, np.arange(12.0).reshape(3, 4))
    for time in (h5py.h5d.FILL_TIME_ALLOC, h5py.h5d.FILL_TIME_IFSET):
        plist = h5py.h5p.create(h5py.h5p.DATASET_CREATE)
        plist.set_fill_time(time)
        plist.set_fill_value(np.array(9, "i2"))
        plist.set_chunk((2,))
        h5py.h5d.create(file.id, f"fill_time_{time}".encode(), h5py.h5t.STD_I16LE, h5py.h5s.create_simple((5,)), plist)


@_libver
def links(file):
    """Hard and soft links: the same thing under several names."""
    file["first"] = np.arange(3)
    file["second"] = file["first"]
    file["soft"] = h5py.SoftLink("/first")
    group = file.create_group("group")
    group["inner"] = np.arange(4)
    group["up"] = file["first"]
    group["relative"] = h5py.SoftLink("inner")
    file["chain"] = h5py.SoftLink("/soft")


@_libver
def many_links(file):
    for index in range(300):
        file.create_dataset(f"v{index:03}", data=np.array([index]))
    group = file.create_group("ordered", track_order=True)
    for index in reversed(range(20)):
        group.create_dataset(f"o{index}", data=np.array([index]))


@_libver
def many_attributes(file):
    variable = file.create_dataset("v", data=np.arange(2))
    for index in range(100):
        variable.attrs[f"a{index:02}"] = np.arange(index % 5, dtype="i4")
        file.attrs[f"text{index:02}"] = "é" * index


@odd("h5")
def large_attributes(path):
    with h5py.File(path, "w", libver="latest") as file:
        file["v"] = np.arange(2)
        file.attrs["large"] = np.arange(20000, dtype="f8")
        file.attrs["text"] = np.bytes_("y" * 200000)
        file["v"].attrs.create("strings", np.array(["ab"] * 5000, object), dtype=TEXT)


@_libver
def committed_types(file):
    file["kind"] = np.dtype(">f4")
    file["name"] = h5py.string_dtype("ascii", 4)
    file.create_dataset("v", data=np.arange(3), dtype=file["kind"])
    file.create_dataset("s", data=np.array([b"ab", b"c"], "S4"), dtype=file["name"])
    file["v"].attrs.create("a", np.arange(3), dtype=file["kind"])
    file["v"].attrs.create("b", np.bytes_("abcd"), dtype=file["name"])


@odd("h5")
def user_block(path):
    with h5py.File(path, "w", userblock_size=4096) as file:
        file["v"] = np.arange(1000)
        file.create_dataset("c", data=np.arange(1000), chunks=(100,), compression="gzip")
        file.create_dataset("s", data=np.array(["a", "ü"], object), dtype=TEXT)
    with open(path, "r+b") as raw:
        raw.write(b"something in front")


@odd("h5", refused="contains itself")
def link_to_itself(path):
    with h5py.File(path, "w") as file:
        file["g/v"] = np.arange(3)
        file["g/again"] = file["/"]


@odd("h5", refused="variable /nowhere: a soft link to `/gone`")
def dangling_link(path):
    with h5py.File(path, "w") as file:
        file["v"] = np.arange(3)
        file["nowhere"] = h5py.SoftLink("/gone")


@odd("h5", refused="a link to `/v` in the file `other.h5`")
def external_link(path):
    with h5py.File(path, "w") as file:
        file["v"] = np.arange(3)
        file["elsewhere"] = h5py.ExternalLink("other.h5", "/v")


@odd("h5", refused="variable /v: values in external files")
def external_data(path):
    with h5py.File(path, "w") as file:
        file.create_dataset("v", (3,), "f4", external=[("other.bin", 0, 12)])


@odd("h5", refused="variable /v: a virtual dataset")
def virtual(path):
    with h5py.File(path, "w") as file:
        layout = h5py.VirtualLayout((3,), "f4")
        layout[:] = h5py.VirtualSource("other.h5", "v", (3,))
        file.create_virtual_dataset("v", layout)


@odd("h5")
def scaled_integers(path):
    with h5py.File(path, "w") as file:
        file.create_dataset("s", data=np.arange(100, 200, dtype="i4"), chunks=(30,), scaleoffset=0)
        file.create_dataset("f", data=np.arange(100, dtype="f4") / 10, chunks=(30,), scaleoffset=1)


@odd()
def every_codec(path):
    with create(path) as ds:
        dimensions(ds, x=128, y=64)
        for name, options in {
            "zlib": {"compression": "zlib", "complevel": 9}, "zstd": {"compression": "zstd"},
            "bzip2": {"compression": "bzip2"}, "szip": {"compression": "szip"},
            "blosc_lz": {"compression": "blosc_lz"}, "blosc_lz4": {"compression": "blosc_lz4", "blosc_shuffle": 2},
            "blosc_zstd": {"compression": "blosc_zstd"}, "checked": {"compression": "zlib", "fletcher32": True},
        }.items():  # fmt: skip
            for kind in ("f4", "i2", "u1", "f8"):
                data = (np.arange(128 * 64).reshape(128, 64) // 100 % 50).astype(kind)
                add(ds, f"{name}_{kind}", kind, ("x", "y"), data, chunksizes=(48, 32), **options)
