"""Copies a folder of NetCDF and HDF5 files through a mount and says, by kind, what reads back the same.

    python tests/python/corpus.py FOLDER [--zarr-format 2] [--json FILE]

Every group is compared with what xarray shows of the source, decoded and raw. Where xarray cannot open
the source, the values are compared with what netCDF4-python or h5py reads. Files named `bad_*` are
expected to be refused. Readers run in a process of their own: some crash on odd files.
"""

import argparse
import collections
import json
import multiprocessing
import shutil
import subprocess
import tempfile
import warnings
from pathlib import Path

import h5py

try:
    import hdf5plugin  # noqa: F401, more filters for h5py
except ImportError:
    pass
import netCDF4
import numpy as np
import xarray as xr
import zarr
from conftest import Mount

ENDINGS = {".nc", ".nc4", ".h5", ".hdf5", ".cdf", ".mat"}
# `decode_cf=False` does nothing in xarray.open_groups.
RAW = {
    "mask_and_scale": False, "decode_times": False, "decode_timedelta": False,
    "concat_characters": False, "decode_coords": False,
}  # fmt: skip
OUTCOMES = ["identical", "same values", "refused", "differs", "no reader opens it", "placeholder"]


def features(path):
    """The kind of a file and what it uses."""
    magic = path.read_bytes()[:4]
    if magic[:3] == b"CDF":
        return {f"format CDF-{magic[3]}", "classic"}
    found = set()

    def visit(name, thing):
        if isinstance(thing, h5py.Group):
            found.add("groups")
            return
        if not isinstance(thing, h5py.Dataset):
            found.add("named types")
            return
        plist = thing.id.get_create_plist()
        layouts = {0: "compact", 1: "contiguous", 2: "chunked", 3: "virtual"}
        found.add("layout " + layouts[plist.get_layout()])
        for index in range(plist.get_nfilters()):
            found.add(f"filter {plist.get_filter(index)[0]}")
        if plist.get_external_count():
            found.add("external data")
        found.add("type " + kind(thing.id.get_type()))
        if None in thing.maxshape if thing.maxshape else False:
            found.add("unlimited")
        if thing.shape == ():
            found.add("scalar")
        elif thing.shape is None:
            found.add("empty dataspace")
        elif 0 in thing.shape:
            found.add("zero-length")

    with h5py.File(path, "r") as file:
        netcdf = "_NCProperties" in file.attrs
        found |= {f"superblock {file.id.get_create_plist().get_version()[0]}"}
        if file.userblock_size:
            found.add("user block")

        def links(group, prefix, seen):
            for name in group:
                link = group.get(name, getlink=True)
                if not isinstance(link, h5py.HardLink):
                    found.add("soft or external link")
                    continue
                try:
                    thing = group[name]
                except (KeyError, OSError):
                    continue
                visit(name, thing)
                if isinstance(thing, h5py.Dataset):
                    nonlocal netcdf
                    netcdf |= "_Netcdf4Dimid" in thing.attrs or "DIMENSION_LIST" in thing.attrs
                elif isinstance(thing, h5py.Group) and thing.id not in seen:
                    links(thing, f"{prefix}/{name}", seen | {thing.id})

        links(file, "", set())
    return found | {"NetCDF-4" if netcdf else "other HDF5"}


def kind(type_id):
    classes = {
        h5py.h5t.INTEGER: "integer", h5py.h5t.FLOAT: "float", h5py.h5t.STRING: "string",
        h5py.h5t.BITFIELD: "bit field", h5py.h5t.OPAQUE: "opaque", h5py.h5t.COMPOUND: "compound",
        h5py.h5t.REFERENCE: "reference", h5py.h5t.ENUM: "enumeration", h5py.h5t.VLEN: "vlen",
        h5py.h5t.ARRAY: "array",
    }  # fmt: skip
    name = classes.get(type_id.get_class(), "other")
    if name in ("integer", "float"):
        big = type_id.get_order() == h5py.h5t.ORDER_BE and type_id.get_size() > 1
        return f"{name}{type_id.get_size() * 8}{' big-endian' if big else ''}"
    if name == "string" and type_id.get_size() == 1 and not type_id.is_variable_str():
        return "char"
    return name


def compare_xarray(source, store, engine):
    """Every group as xarray shows it, decoded and raw. An error if it cannot read the source."""
    differences = []
    for decoding in ({}, RAW):
        options = {"phony_dims": "access"} if engine == "h5netcdf" else {}
        expected = xr.open_groups(source, engine=engine, **decoding, **options)
        expected = {name: group.load() for name, group in expected.items()}
        found = xr.open_groups(store, engine="zarr", **decoding)
        if set(expected) != set(found):
            differences.append(f"groups {sorted(expected)} and {sorted(found)}")
            continue
        for name, group in expected.items():
            try:
                xr.testing.assert_identical(found[name].load(), group)
            except AssertionError as error:
                differences.append(f"{name} {'raw' if decoding else 'decoded'}: {error}"[:900])
    return differences


def compare_netcdf4(source, store):
    """Raw values and shapes as netCDF-C reads them."""
    differences = []

    def walk(group, path):
        for name, variable in group.variables.items():
            variable.set_auto_maskandscale(False)
            variable.set_auto_chartostring(False)
            if not isinstance(variable.datatype, np.dtype) and variable.dtype is not str:
                differences.append(f"{path}{name} is of a user-defined type")
                continue
            differences.extend(same(f"{path}{name}", variable[...], zarr.open(store, mode="r")[path + name]))
        for name, child in group.groups.items():
            walk(child, f"{path}{name}/")

    with netCDF4.Dataset(source) as file:
        walk(file, "")
    return differences


def compare_h5py(source, store):
    """Raw values and shapes as libhdf5 reads them."""
    differences = []
    root = zarr.open(store, mode="r")

    def visit(name, thing):
        if isinstance(thing, h5py.Dataset):
            data = thing.asstr()[...] if h5py.check_string_dtype(thing.dtype) else thing[...]
            differences.extend(same(name, data, root[name]))

    with h5py.File(source, "r") as file:
        file.visititems(visit)
    return differences


def same(name, expected, array):
    found = array[...]
    expected = np.asarray(expected)
    if found.shape != expected.shape:
        return [f"{name}: shape {found.shape}, the source has {expected.shape}"]
    if expected.dtype.kind == "f":
        equal = np.array_equal(found, expected, equal_nan=True)
    elif expected.dtype.kind == "b":
        equal = np.array_equal(found, expected.astype("i1"))
    elif expected.dtype.kind in "OU":
        equal = [str(x) for x in found.ravel()] == [str(x) for x in expected.ravel()]
    else:
        equal = np.array_equal(found, expected)
    return [] if equal else [f"{name}: values differ"]


READERS = {
    "netCDF4": lambda source, store: compare_xarray(source, store, "netcdf4"),
    "h5netcdf": lambda source, store: compare_xarray(source, store, "h5netcdf"),
    "netCDF4 without xarray": compare_netcdf4,
    "h5py without xarray": compare_h5py,
}


def send_differences(reader, source, store, answer):
    warnings.filterwarnings("ignore")
    try:
        answer.send(READERS[reader](source, store))
    except Exception as error:
        answer.send(f"{reader}: {type(error).__name__}: {error}"[:200])


def judge(source, store):
    """The outcome by the first reader that opens the source, unless another finds it identical."""
    differing, closed = None, []
    for reader in READERS:
        with_xarray = "without" not in reader
        if differing and not with_xarray:
            break
        found = in_child(send_differences, reader, source, store)
        if isinstance(found, str):
            closed.append(found)
        elif not found:
            return ("identical" if with_xarray else "same values"), [reader, *closed]
        else:
            differing = differing or [reader, *found]
    return ("differs", differing) if differing else ("no reader opens it", closed)


def in_child(call, *arguments):
    """What `call` sends; a text if its process dies."""
    receiver, sender = multiprocessing.Pipe(duplex=False)
    child = multiprocessing.Process(target=call, args=(*arguments, sender))
    child.start()
    sender.close()
    try:
        said = receiver.recv()
    except EOFError:
        said = f"{arguments[0]}: its process died"
    child.join()
    return said


def send_features(path, answer):
    try:
        answer.send(sorted(features(path)))
    except Exception as error:
        answer.send([f"unreadable: {error}"[:60]])


def run(folder, zarr_format, work):
    bucket = work / "bucket"
    bucket.mkdir()
    mount = Mount(work, f"file://{bucket}", bucket)
    mount.mount("--zarr-format", zarr_format)
    rows = []
    try:
        for path in sorted(path for path in folder.rglob("*") if path.suffix in ENDINGS):
            name = f"{path.stem}.nc"
            done = subprocess.run(["cp", path, mount.path / name], capture_output=True, text=True)
            flushed = mount.run("flush", mount.path, check=False)
            row = {"file": path.name, "features": in_child(send_features, path)}
            refused = mount.path / ".zarrmount-status" / "refused" / f"{name}.txt"
            store = bucket / f"{path.stem}.zarr"
            if done.returncode:
                row["outcome"] = "refused"
                row["detail"] = [done.stderr.rsplit(":", 1)[-1].strip(), refused.read_text().strip()]
                row["at close"] = True
                if store.exists():
                    row["outcome"] = "LEFTOVER"
            elif not store.exists():
                row["outcome"] = "refused" if refused.exists() else "LOST"
                if path.stat().st_size == 0:
                    row["outcome"] = "placeholder"
                row["detail"] = [flushed.stdout, flushed.stderr]
                row["at close"] = False
                (mount.path / name).unlink(missing_ok=True)
            else:
                alias = work / "source.nc"
                alias.unlink(missing_ok=True)
                alias.symlink_to(path)
                row["outcome"], row["detail"] = judge(alias, store)
                shutil.rmtree(store)
            rows.append(row)
            print(f"{row['outcome']:12} {path.name} {' | '.join(row['detail'])[:200]}", flush=True)
    finally:
        mount.umount(check=False)
        mount.close()
    return rows


def table(rows):
    groups = collections.defaultdict(collections.Counter)
    for row in rows:
        damaged = row["file"].startswith("bad_")
        for name in ["damaged"] if damaged else ["all", *row["features"]]:
            groups[name][row["outcome"]] += 1
    outcomes = sorted({row["outcome"] for row in rows}, key=lambda o: (OUTCOMES + [o]).index(o))
    lines = ["| |" + "|".join(outcomes) + "|", "|---|" + "---|" * len(outcomes)]
    for name in sorted(groups):
        lines.append(f"| {name} |" + "|".join(str(groups[name][o] or "") for o in outcomes) + "|")
    return "\n".join(lines)


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("folder", type=Path)
    parser.add_argument("--zarr-format", default="3")
    parser.add_argument("--json", type=Path)
    arguments = parser.parse_args()
    with tempfile.TemporaryDirectory(prefix="zarrmount-corpus-") as work:
        rows = run(arguments.folder, arguments.zarr_format, Path(work))
    if arguments.json:
        arguments.json.write_text(json.dumps(rows, indent=1))
    print(table(rows))


if __name__ == "__main__":
    multiprocessing.set_start_method("fork")
    main()
