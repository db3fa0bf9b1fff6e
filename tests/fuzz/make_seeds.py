"""Writes the small files that the fuzz tests begin with. Run it again only to add kinds.

    python tests/fuzz/make_seeds.py
"""

import sys
from pathlib import Path

import h5py
import hdf5plugin
import netCDF4
import numpy as np

HERE = Path(__file__).resolve().parent
sys.path.insert(0, str(HERE.parent / "python"))
import odd_sources  # noqa: E402

SEEDS = HERE / "seeds"
# Most bytes of a seed: damage is to hit something.
BYTES_MAX = 8_500


def indexes(path, version):
    data = np.arange(30, dtype="f4").reshape(6, 5)
    with h5py.File(path, "w", libver=version) as file:
        for name, chunks, maxshape, filters in [
            ("single", (6, 5), None, {}), ("single_f", (6, 5), None, {"shuffle": True}), ("fixed", (2, 3), None, {}),
            ("growing", (2, 3), (None, 5), {"shuffle": True}), ("both", (2, 3), (None, None), {"shuffle": True}),
        ]:  # fmt: skip
            file.create_dataset(name, data=data, chunks=chunks, maxshape=maxshape, **filters)
        plist = h5py.h5p.create(h5py.h5p.DATASET_CREATE)
        plist.set_chunk((2, 3))
        plist.set_alloc_time(h5py.h5d.ALLOC_TIME_EARLY)
        early = h5py.h5d.create(file.id, b"early", h5py.h5t.IEEE_F32LE, h5py.h5s.create_simple((6, 5)), plist)
        early.write(h5py.h5s.ALL, h5py.h5s.ALL, data)


def dense(path, version):
    with h5py.File(path, "w", libver=version) as file:
        for index in range(12):
            file.create_dataset(f"v{index:02}", data=np.int8(index))
            file.attrs[f"a{index:02}"] = np.arange(index % 3, dtype="i2")


def texts(path, version):
    with h5py.File(path, "w", libver=version) as file:
        text = h5py.string_dtype()
        file.create_dataset("flat", data=np.array(["a", "", "ü" * 9], object), dtype=text)
        file.create_dataset("chunked", data=np.array(["a", "bcd"] * 3, object), dtype=text, chunks=(2,), compression="gzip")
        file["fixed"] = np.array([b"ab", b"cde"], "S3")
        file.attrs["list"] = np.array(["x", "yz"], object)
        file.attrs["matrix"] = np.arange(6).reshape(2, 3)


def types(path, version):
    with h5py.File(path, "w", libver=version) as file:
        for kind in ("u1", ">i2", "u4", ">i8", "f2", ">f4", "f8", "?", "V3", "c8"):
            file.create_dataset(f"t_{kind.strip('>')}".replace("?", "bool"), data=np.zeros(3, kind), fillvalue=None)
        file.create_dataset("ragged", (2,), h5py.vlen_dtype("f4"))
        file["kind"] = np.dtype(">f4")
        file.create_dataset("committed", data=np.arange(3), dtype=file["kind"])


CODECS = {
    "deflate": {"compression": "gzip", "shuffle": True, "fletcher32": True},
    "lzf": {"compression": "lzf"},
    "szip": {"compression": "szip"},
    "scaleoffset": {"scaleoffset": 0},
    "zstd": dict(hdf5plugin.Zstd()),
    "bzip2": dict(hdf5plugin.BZip2()),
    "lz4": dict(hdf5plugin.LZ4()),
    "bitshuffle_lz4": dict(hdf5plugin.Bitshuffle(cname="lz4")),
    "bitshuffle_zstd": dict(hdf5plugin.Bitshuffle(cname="zstd")),
    "bitshuffle": dict(hdf5plugin.Bitshuffle(cname="none")),
    "blosc_lz4": dict(hdf5plugin.Blosc(cname="lz4", shuffle=hdf5plugin.Blosc.BITSHUFFLE)),
    "blosc_zstd": dict(hdf5plugin.Blosc(cname="zstd")),
    "blosc_zlib": dict(hdf5plugin.Blosc(cname="zlib")),
    "blosc_lz": dict(hdf5plugin.Blosc(cname="blosclz")),
    "blosc_snappy": dict(hdf5plugin.Blosc(cname="snappy")),
}


def codec(path, options):
    data = (np.arange(1200, dtype="i4") // 7 % 50).reshape(40, 30)
    with h5py.File(path, "w", libver="latest") as file:
        file.create_dataset("v", data=data, chunks=(20, 20), **options)


def dimensions(path):
    with netCDF4.Dataset(path, "w") as ds:
        for name, length in {"t": None, "x": 2, "y": 3}.items():
            ds.createDimension(name, length)
        ds.createVariable("x", "f4", ("y",))[:] = 1
        ds.createVariable("t", "f8", ("t",))[:] = [1, 2]
        inner = ds.createGroup("g")
        inner.createVariable("v", "i2", ("t", "x"), fill_value=-5)[:] = 3


def main():
    SEEDS.mkdir(exist_ok=True)
    for old in SEEDS.iterdir():
        old.unlink()
    for version in ("earliest", "latest"):
        for write in (indexes, dense, texts, types):
            write(SEEDS / f"hdf5_{write.__name__}_{version}", version)
    for name, options in CODECS.items():
        codec(SEEDS / f"filters_{name}", options)
    dimensions(SEEDS / "netcdf4_dimensions")
    for name, write in odd_sources.WRITERS.items():
        stem = name.split(".")[0]
        if name in odd_sources.REFUSED or stem.startswith("classic_only_classic"):
            continue
        kind = "classic" if stem.startswith("classic") else "netcdf4" if name.endswith(".nc") else "hdf5"
        path = SEEDS / f"{kind}_{stem.removeprefix('classic_')}"
        write(path)
        if path.stat().st_size > BYTES_MAX:
            path.unlink()



main()
