"""Is what arrived what was written? A run that this does not confirm counts for nothing."""

import json
from pathlib import Path

import numpy as np

import server


def zarr_store(place, name):
    from zarr.storage import ObjectStore

    return ObjectStore(server.store(place, "direct", name), read_only=True)


def expect(right, what):
    if not right:
        raise AssertionError(what)


def files(place, name, folder):
    """Every file of `folder` is an object of the same name and bytes, and nothing else is there."""
    import obstore

    want = {str(path.relative_to(folder)): path for path in Path(folder).rglob("*") if path.is_file()}
    got = server.sizes(place, name)
    expect(set(got) == set(want), f"objects differ: {sorted(set(got) ^ set(want))[:5]}")
    bucket = server.store(place, "direct", name)
    for key, path in want.items():
        expect(obstore.get(bucket, key).bytes().to_bytes() == path.read_bytes(), f"bytes of {key} differ")


def dataset(store, want, **how):
    """A dataset or tree that xarray wrote, read back: every value."""
    import xarray as xr

    if isinstance(want, xr.DataTree):
        xr.testing.assert_identical(xr.open_datatree(store, engine="zarr", **how).load(), want)
        return
    got = xr.open_zarr(store, **how)
    expect(set(got.variables) == set(want.variables), "variables differ")
    for name, variable in want.variables.items():
        for start in range(0, variable.shape[0], max(1, variable.shape[0] // 2)):
            part = {variable.dims[0]: slice(start, start + max(1, variable.shape[0] // 2))}
            expect(got[name].isel(part).load().equals(want[name].isel(part).load()), f"{name} differs")


def same_attributes(got, want):
    """Equal as JSON can carry it."""
    def plain(value):
        return value if isinstance(value, str) else np.asarray(value).ravel().tolist()

    return {key: plain(value) for key, value in got.items()} == {key: plain(value) for key, value in want.items()}


def netcdf(store, paths, chunks, codec):
    """A Zarr dataset against the NetCDF files it was made of: undecoded, bit for bit, all of it."""
    import xarray as xr
    import zarr

    got = xr.open_zarr(store, decode_cf=False, consolidated=True, chunks=None)
    want = xr.open_mfdataset(
        sorted(paths), chunks={}, combine="nested", concat_dim="time", data_vars="minimal", coords="minimal",
        compat="override", join="override", decode_cf=False,
    ) if len(paths) > 1 else xr.open_dataset(paths[0], decode_cf=False, chunks={})
    expect(set(got.variables) == set(want.variables), "variables differ")
    expect(dict(got.sizes) == dict(want.sizes), f"sizes are {dict(got.sizes)}, not {dict(want.sizes)}")
    expect(same_attributes(got.attrs, want.attrs), "attributes of the dataset differ")
    group = zarr.open_group(store, mode="r")
    for name, variable in want.variables.items():
        read = got[name]
        expect((read.dims, read.dtype) == (variable.dims, variable.dtype), f"{name} has another type")
        expect(same_attributes(read.attrs, variable.attrs), f"attributes of {name} differ")
        step = group[name].chunks[0] if read.ndim > 2 else max(1, read.shape[0])
        for start in range(0, read.shape[0], step):
            part = slice(start, start + step)
            expect(read[part].values.tobytes() == variable[part].values.tobytes(), f"{name}: values differ at {start}")
        if read.ndim > 2:
            grid = dict(zip(read.dims, group[name].chunks))
            expect(all(grid[dim] == size for dim, size in chunks.items()), f"{name}: chunks are {grid}")
            codecs = json.dumps(group[name].metadata.to_dict(), default=str)
            expect(all(word in codecs for word in codec), f"{name}: codecs are {codecs}")
