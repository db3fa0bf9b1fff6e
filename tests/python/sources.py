"""NetCDF files of every kind that is taken, written by netCDF-C."""

import netCDF4
import numpy as np

CLASSIC = {
    "NETCDF3_CLASSIC": ["i1", "i2", "i4", "f4", "f8"],
    "NETCDF3_64BIT_OFFSET": ["i1", "i2", "i4", "f4", "f8"],
    "NETCDF3_64BIT_DATA": ["i1", "u1", "i2", "u2", "i4", "u4", "i8", "u8", "f4", "f8"],
}


def values(dtype, shape):
    """Values that use the whole range of the type and never the default fill."""
    dtype, count = np.dtype(dtype), int(np.prod(shape, dtype=int))
    if dtype.kind == "f":
        data = np.linspace(-1e3, 1e3, max(count, 1))[:count]
        data[::7] = np.nan
    else:
        limits = np.iinfo(dtype)
        data = np.linspace(limits.min / 2, limits.max / 2, max(count, 1))[:count].round()
    return data.astype(dtype).reshape(shape)


def classic(path, form):
    with netCDF4.Dataset(path, "w", format=form) as ds:
        ds.title = "classic file"
        ds.setncattr("number", np.int32(7))
        ds.setncattr("list", np.array([1.5, 2.5], "f4"))
        ds.createDimension("time", None)
        ds.createDimension("lat", 4)
        ds.createDimension("lon", 5)
        time = ds.createVariable("time", "f8", ("time",))
        time.units = "days since 2000-01-01"
        time[:] = np.arange(3.0)
        lat = ds.createVariable("lat", "f4", ("lat",))
        lat.units = "degrees_north"
        lat[:] = np.linspace(-60, 60, 4)
        for kind in CLASSIC[form]:
            record = ds.createVariable(f"record_{kind}", kind, ("time", "lat", "lon"))
            record[:] = values(kind, (3, 4, 5))
            fixed = ds.createVariable(f"fixed_{kind}", kind, ("lat", "lon"))
            fixed[:] = values(kind, (4, 5))
        packed = ds.createVariable("packed", "i2", ("time", "lat"), fill_value=-32767)
        packed.setncatts({"scale_factor": 0.01, "add_offset": 273.15, "units": "K"})
        packed.set_auto_scale(False)
        packed[:] = np.array([[0, 1, 2, -32767]] * 3, "i2")
        scalar = ds.createVariable("scalar", "f8", ())
        scalar[...] = 42.0


def one_record_variable(path):
    """A single record variable of a short type has no padding between records."""
    with netCDF4.Dataset(path, "w", format="NETCDF3_CLASSIC") as ds:
        ds.createDimension("time", None)
        ds.createDimension("x", 3)
        only = ds.createVariable("only", "i2", ("time", "x"))
        only[:] = values("i2", (5, 3))


def netcdf4(path):
    with netCDF4.Dataset(path, "w", format="NETCDF4") as ds:
        ds.history = "made for a test"
        ds.setncattr("big", np.int64(2**60 + 1))
        ds.createDimension("time", None)
        ds.createDimension("lat", 6)
        ds.createDimension("lon", 7)
        ds.createDimension("empty", 0)
        time = ds.createVariable("time", "i8", ("time",))
        time.units = "hours since 1999-12-31 12:00"
        time.calendar = "gregorian"
        time[:] = [0, 6, 12, 18, 24]
        ds.createVariable("lat", "f8", ("lat",))[:] = np.linspace(-90, 90, 6)
        for kind in CLASSIC["NETCDF3_64BIT_DATA"]:
            plain = ds.createVariable(f"plain_{kind}", kind, ("lat", "lon"))
            plain[:] = values(kind, (6, 7))
            deflated = ds.createVariable(
                f"deflated_{kind}", kind, ("time", "lat", "lon"), zlib=True, complevel=4,
                shuffle=True, chunksizes=(2, 4, 3),
            )
            deflated[:] = values(kind, (5, 6, 7))
        checked = ds.createVariable(
            "checked", "f4", ("lat", "lon"), fletcher32=True, chunksizes=(4, 4), fill_value=-999.0
        )
        checked[:] = values("f4", (6, 7))
        big = ds.createVariable("big_endian", ">f4", ("lat",), endian="big")
        big[:] = np.arange(6)
        ds.createVariable("unwritten", "f4", ("time", "lat"), chunksizes=(1, 6))
        ds.createVariable("unwritten_int", "i4", ("time", "lat"), chunksizes=(1, 6))
        ds.createVariable("nothing", "f8", ("empty", "lat"))
        ds.createVariable("scalar", "i4", ())[...] = -5
        gaps = ds.createVariable("gaps", "i2", ("time", "lon"), chunksizes=(1, 7))
        gaps[3] = np.arange(7)


def texts(path):
    """Characters, strings, groups."""
    with netCDF4.Dataset(path, "w", format="NETCDF4") as ds:
        ds.createDimension("x", 3)
        ds.createDimension("strlen", 5)
        names = ds.createVariable("names", "S1", ("x", "strlen"))
        names[:] = netCDF4.stringtochar(np.array(["abc", "", "vwxyz"], "S5"))
        station = ds.createVariable("station", str, ("x",))
        station[:] = np.array(["Kiel", "", "Ærø"], object)
        group = ds.createGroup("deep").createGroup("deeper")
        inner = group.createVariable("inner", "f4", ("x",))
        inner.units = "m"
        inner[:] = [1, 2, 3]


def write_all(folder):
    """Writes every file and returns the paths."""
    paths = []
    for form in CLASSIC:
        paths.append(folder / f"{form.lower()}.nc")
        classic(paths[-1], form)
    paths.append(folder / "one_record_variable.nc")
    one_record_variable(paths[-1])
    paths.append(folder / "netcdf4.nc")
    netcdf4(paths[-1])
    paths.append(folder / "texts.nc")
    texts(paths[-1])
    return paths
