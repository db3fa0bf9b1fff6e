"""The workloads: what is written, how long the wire is, and who takes part."""

from dataclasses import dataclass, field
from typing import Callable

import data


def blosc_zstd_5():
    from zarr.codecs import BloscCodec

    return {"compressors": [BloscCodec(cname="zstd", clevel=5, shuffle="shuffle")]}


def blosc_zstd_1():
    from zarr.codecs import BloscCodec

    return {"compressors": [BloscCodec(cname="zstd", clevel=1, shuffle="shuffle")]}


@dataclass
class Workload:
    name: str
    title: str
    kind: str  # xarray: to_zarr; netcdf: files become one dataset; folder: files as they are
    peers: tuple
    make: Callable | None = None
    net: dict = field(default_factory=lambda: {"rtt_ms": 20, "connection_mbps": 50})
    tls: bool = False
    chunks: dict = field(default_factory=dict)
    codec: tuple = ()
    encoding: Callable | None = None
    options: list = field(default_factory=list)
    source: str | None = None
    once: tuple = ()  # slow peers: measured in the first round only
    default: bool = True  # part of `make bench` without a choice of workloads


W4 = {
    "kind": "netcdf", "source": "w4", "chunks": {"time": 1, "depth": 1, "lat": 540, "lon": 1080},
    "options": ["--chunks", "time=1,depth=1,lat=540,lon=1080"],
}
TLS_100 = {"net": {"rtt_ms": 100, "connection_mbps": 50}, "tls": True}

WORKLOADS = {
    workload.name: workload
    for workload in [
        Workload("w1", "W1: seven variables by to_zarr, 49 objects, 18.7 MB", "xarray",
                 ("zarrmount", "tmpfs", "obstore", "icechunk", "s3fs", "rclone", "s3fs-fuse"), lambda scale: data.seven_variables(),
                 once=("rclone", "s3fs-fuse")),
        Workload("w1-tls", "W1 over TLS at 100 ms", "xarray", ("zarrmount", "tmpfs", "obstore"),
                 lambda scale: data.seven_variables(), **TLS_100),
        Workload("w1-hundred", "W1 with a hundred arrays", "xarray", ("zarrmount", "tmpfs", "obstore"), lambda scale: data.hundred_arrays()),
        Workload("w1-tree", "W1 as a DataTree, five groups deep", "xarray", ("zarrmount", "tmpfs", "obstore"), lambda scale: data.deep_tree()),
        Workload("w2", "W2: ten tiny variables, 1 s per request", "xarray", ("zarrmount", "tmpfs", "icechunk", "obstore", "s3fs"),
                 lambda scale: data.ten_tiny(), net={"service_ms": 1000}, once=("icechunk", "obstore", "s3fs")),
        Workload("w3", "W3: one big array by dask, chunks of 18.7 MB", "xarray", ("zarrmount", "tmpfs", "tensorstore", "obstore", "icechunk"),
                 lambda scale: data.big_array(scale * 2)),
        Workload("w4", "W4: eight NetCDF-4 files, zlib 4 to blosc zstd 5", peers=("zarrmount", "import", "obstore", "icechunk"),
                 codec=("blosc", "zstd", "5"), encoding=blosc_zstd_5, **W4),
        Workload("w4-zstd1", "W4 to blosc zstd 1", peers=("zarrmount", "import", "obstore"), codec=("blosc", "zstd"), encoding=blosc_zstd_1,
                 **W4 | {"options": [*W4["options"], "--codec", "blosc:zstd:1:shuffle"]}),
        Workload("w5", "W5: a thousand one-step NetCDF-4 files", "netcdf", ("zarrmount", "import", "obstore", "icechunk"),
                 chunks={"time": 100}, options=["--chunks", "time=100"]),
        Workload("w6-small", "W6 small: 1,000 files of 64 KiB", "folder", ("zarrmount", "obstore", "rclone"), once=("rclone",)),
        Workload("w6-100", "W6 small: 100 files of 64 KiB", "folder", ("zarrmount", "obstore", "s3fs-fuse"), once=("s3fs-fuse",)),
        Workload("w6-5000", "W6 small: 5,000 files of 64 KiB", "folder", ("zarrmount", "obstore"), default=False),
        Workload("w6-big", "W6 big: 25 files of 16 MiB", "folder", ("zarrmount", "obstore", "rclone", "s3fs-fuse"),
                 once=("rclone", "s3fs-fuse")),
        *(Workload(f"grow-{n}", f"Growth: one file of {n} chunks of 4 KiB", "netcdf", ("import", "zarrmount"), options=["--chunks", "x=1024"], default=False)
          for n in ("1k", "10k", "100k")),
        *(Workload(f"sweep-{rtt}{'-tls' if tls else ''}", f"W1 at {rtt} ms{' over TLS' if tls else ''}", "xarray", ("zarrmount", "obstore"),
                   lambda scale: data.seven_variables(), net={"rtt_ms": rtt, "connection_mbps": 50}, tls=tls)
          for rtt in (1, 20, 100, 300) for tls in (False, True)),
    ]
}
