"""How many requests it costs the bucket when xarray writes into a mount."""

from pathlib import Path

import numpy as np
import pytest
import xarray as xr


def seven_variables():
    """Seven variables of five chunks and three coordinates."""
    sizes = {"time": 50, "lat": 20, "lon": 30}
    coords = {name: np.arange(size, dtype="f8") for name, size in sizes.items()}
    shape = tuple(sizes.values())
    data = {f"v{n}": (tuple(sizes), np.random.default_rng(n).random(shape, "f4")) for n in range(7)}
    return xr.Dataset(data, coords).chunk(time=10)


def a_hundred_arrays():
    return xr.Dataset({f"v{n}": (("y", "x"), np.full((50, 50), n, "f8")) for n in range(1, 101)})


def a_deep_tree():
    leaf = xr.Dataset({"v": ("x", np.arange(1.0, 5.0))})
    return xr.DataTree.from_dict({"/".join(["", *"abcde"[:depth]]): leaf for depth in range(6)})


@pytest.mark.parametrize("make", [seven_variables, a_hundred_arrays, a_deep_tree])
def test_xarray_writes_cost_one_put_per_object_and_one_listing(mount, make):
    data = make()
    mount.mount()
    before = mount.status()["requests"]
    data.to_zarr(mount.path / "new.zarr")
    mount.run("flush", mount.path)
    after = mount.status()["requests"]
    spent = {name: after[name] - before[name] for name in ("get", "head", "list", "delete", "copy")}
    # Whether `new.zarr` is there: the listing of the mounted folder.
    assert spent == {"get": 0, "head": 0, "list": 1, "delete": 0, "copy": 0}
    objects = [path for path in Path(mount.bucket).rglob("*") if path.is_file()]
    assert after["put"] - before["put"] == len(objects)
    assert after["multipart"] == after["retried"] == 0
    # With many requests at once, some connect while a connection becomes free.
    assert after["connections_opened"] <= (100 if make is a_hundred_arrays else 64)
    mount.umount()
    find = xr.open_datatree if isinstance(data, xr.DataTree) else xr.open_dataset
    xr.testing.assert_identical(find(mount.bucket / "new.zarr", engine="zarr").load(), data.load())
