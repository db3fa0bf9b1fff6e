"""What the workloads write: datasets for xarray, and folders of source files."""

import json
import shutil
from pathlib import Path

import numpy as np


def seven_variables():
    """W1: seven variables of five chunks and three coordinates, 49 objects, 18.7 MB."""
    import xarray as xr

    random = np.random.default_rng(0)
    sizes = {"time": 50, "lat": 100, "lon": 150}
    coords = {name: np.arange(size, dtype="f8") for name, size in sizes.items()}
    data = {f"v{n}": (tuple(sizes), random.random(tuple(sizes.values()), dtype="f4")) for n in range(7)}
    return xr.Dataset(data, coords).chunk(time=10)


def hundred_arrays():
    """W1 with a hundred arrays of one chunk."""
    import xarray as xr

    return xr.Dataset({f"v{n}": (("y", "x"), np.full((50, 50), n, "f8")) for n in range(1, 101)})


def deep_tree():
    """W1 as a tree, five groups deep."""
    import xarray as xr

    leaf = xr.Dataset({"v": (("y", "x"), np.random.default_rng(0).random((300, 300)))})
    return xr.DataTree.from_dict({"/".join(["", *"abcde"[:depth]]): leaf for depth in range(6)})


def ten_tiny():
    """W2: ten variables of a few numbers, numpy, no dask."""
    import xarray as xr

    return xr.Dataset({f"v{n}": (("x", "y"), np.arange(6.0).reshape(2, 3) + n) for n in range(10)})


def big_array(scale):
    """W3: one array in chunks of 18.7 MB, by dask; 50 chunks at scale 0.5."""
    import dask.array as da
    import xarray as xr

    base = np.random.default_rng(0).standard_normal((1080, 2160), dtype="f4").astype("f8")
    counts = (2, max(1, round(50 * scale)))

    def block(block_info=None):
        return (base + sum(block_info[None]["chunk-location"][:2]))[None, None]

    chunks = ((1,) * counts[0], (1,) * counts[1], (1080,), (2160,))
    return xr.Dataset({"v": (("t", "z", "y", "x"), da.map_blocks(block, dtype="f8", chunks=chunks))})


def large_files(folder, scale):
    """W4: eight NetCDF-4 files of two steps, zlib 4 and shuffle; 229 MB at scale 0.25."""
    import netCDF4

    depths = max(1, round(15 * scale))
    y, x = np.mgrid[0:1080, 0:2160].astype("f4")
    smooth = 15 + 10 * np.sin(x / 200) * np.cos(y / 150)
    noise = np.random.default_rng(0).standard_normal((1080, 2160), dtype="f4")
    for part in range(8):
        with netCDF4.Dataset(folder / f"part{part}.nc", "w") as file:
            for name, size in (("time", None), ("depth", depths), ("lat", 1080), ("lon", 2160)):
                file.createDimension(name, size)
            time = file.createVariable("time", "f8", ("time",))
            time.units = "days since 2020-01-01"
            time[:] = np.arange(2) + part * 2
            for name, size in (("depth", depths), ("lat", 1080), ("lon", 2160)):
                file.createVariable(name, "f4", (name,))[:] = np.arange(size)
            values = file.createVariable(
                "thetao", "f4", ("time", "depth", "lat", "lon"), zlib=True, complevel=4, shuffle=True,
                chunksizes=(1, 1, 540, 1080), fill_value=np.float32(9.96921e36),
            )
            values.units = "degC"
            for step in range(2):
                for depth in range(depths):
                    field = smooth - depth * 0.3 + 0.2 * np.roll(noise, step * 7 + depth, 0)
                    values[step, depth] = np.round(field * 512) / 512


def one_step_files(folder, count=1000):
    """W5: a thousand NetCDF-4 files of one step."""
    import netCDF4

    random = np.random.default_rng(0)
    for step in range(count):
        with netCDF4.Dataset(folder / f"step{step:04}.nc", "w") as file:
            for name, size in (("time", None), ("lat", 90), ("lon", 180)):
                file.createDimension(name, size)
            time = file.createVariable("time", "f8", ("time",))
            time.units = "hours since 2020-01-01"
            time[:] = [step]
            for name, size in (("lat", 90), ("lon", 180)):
                file.createVariable(name, "f4", (name,))[:] = np.arange(size)
            values = file.createVariable("t2m", "f4", ("time", "lat", "lon"), zlib=True, complevel=4, shuffle=True)
            values[0] = np.round(random.standard_normal((90, 180), dtype="f4") * 64) / 64


def many_chunks(folder, chunks):
    """A file of `chunks` chunks of 4 KiB: what a chunk costs beside its bytes."""
    import netCDF4

    with netCDF4.Dataset(folder / "many.nc", "w") as file:
        file.createDimension("x", chunks * 1024)
        values = file.createVariable("v", "f4", ("x",), zlib=True, complevel=1, chunksizes=(1024,))
        random = np.random.default_rng(0)
        for start in range(0, chunks, 1000):
            count = min(1000, chunks - start)
            values[start * 1024 : (start + count) * 1024] = random.integers(1, 100, count * 1024)


def chunk_files(folder, count, size):
    """W6: a Zarr v2 array, not compressed, its chunks random bytes."""
    document = {
        "zarr_format": 2, "shape": [count * size], "chunks": [size], "dtype": "|u1", "compressor": None,
        "fill_value": 0, "order": "C", "filters": None,
    }
    (folder / ".zarray").write_text(json.dumps(document))
    (folder / ".zattrs").write_text("{}")
    block = np.random.default_rng(0).bytes(size + count)
    for number in range(count):
        (folder / str(number)).write_bytes(block[number : number + size])


FOLDERS = {
    "w4": lambda folder, scale: large_files(folder, scale),
    "w5": lambda folder, scale: one_step_files(folder),
    "w6-small": lambda folder, scale: chunk_files(folder, 1000, 64 << 10),
    "w6-5000": lambda folder, scale: chunk_files(folder, 5000, 64 << 10),
    "w6-100": lambda folder, scale: chunk_files(folder, 100, 64 << 10),
    "w6-big": lambda folder, scale: chunk_files(folder, 25, 16 << 20),
    "grow-1k": lambda folder, scale: many_chunks(folder, 1_000),
    "grow-10k": lambda folder, scale: many_chunks(folder, 10_000),
    "grow-100k": lambda folder, scale: many_chunks(folder, 100_000),
}


def sources(work, name, scale):
    """The folder of a workload's source files; made once."""
    folder = Path(work) / "sources" / f"{name}-{scale}"
    if not folder.exists():
        making = folder.with_name(folder.name + ".making")
        shutil.rmtree(making, ignore_errors=True)
        making.mkdir(parents=True)
        FOLDERS[name](making, scale)
        making.rename(folder)
    return folder
