"""The clients that are measured: the product and its peers, each with its defaults."""

import asyncio
import os
import shutil
import subprocess
import sys
import time
from pathlib import Path

import server

PEERS = {
    "obstore": "xarray through zarr-python's ObjectStore and obstore; for folders: obstore puts the files",
    "s3fs": "xarray through fsspec and s3fs",
    "icechunk": "xarray into an Icechunk session, repository and commit included",
    "tensorstore": "TensorStore's zarr3 and s3 drivers, one write per chunk",
    "rclone": "rclone mount --vfs-cache-mode writes, waited for until nothing is queued",
    "s3fs-fuse": "Debian's s3fs, a file is uploaded when it is closed",
    "zarrmount": "the mount; NetCDF files are copied in; umount included",
    "import": "zarrmount import, without a mount",
    "tmpfs": "the same into a folder on tmpfs, and then one parallel put of what it left",
}
MOUNTS = ("zarrmount", "rclone", "s3fs-fuse")


class Missing(Exception):
    """The client is not installed."""


async def put_all(store, items):
    """Puts (key, bytes or path) pairs, 64 at a time: as fast as the wire and the server are."""
    import obstore

    gate = asyncio.Semaphore(64)

    async def put(key, value):
        async with gate:
            data = value.read_bytes() if isinstance(value, Path) else value
            await obstore.put_async(store, key, data, use_multipart=False)

    await asyncio.gather(*(put(key, value) for key, value in items))


def program(name):
    beside = Path(sys.executable).parent / name
    found = str(beside) if beside.exists() else shutil.which(name)
    if not found:
        raise Missing(f"{name} is not installed")
    return found


class Mount:
    """A mounted bucket in a folder of its own, with a cache of its own."""

    def __init__(self, client, place, at, work, binary, options):
        self.client, self.place, self.at, self.work = client, place, at, Path(work)
        self.binary, self.options = binary, options
        self.path = self.work / "mount"
        self.path.mkdir()
        self.control_port = 5579
        self.environment = environment(place, self.work)
        with open(self.work / "log", "w") as log:
            command = [str(word) for word in getattr(self, f"{client.replace('-', '_')}_command")()]
            self.process = subprocess.Popen(command, env=self.environment, stdin=subprocess.DEVNULL, stdout=log, stderr=log)
        until = time.monotonic() + 30
        while not os.path.ismount(self.path):
            if self.process.poll() is not None or time.monotonic() > until:
                raise RuntimeError(f"{client} does not mount: {(self.work / 'log').read_text()[-400:]}")
            time.sleep(0.02)

    def zarrmount_command(self):
        return [
            self.binary, "mount", f"s3://{self.place['bucket']}", self.path, "--foreground",
            "--spool-dir", self.work / "spool", *store_options(self.place, self.at), *self.options,
        ]

    def rclone_command(self):
        (self.work / "rclone.conf").write_text(
            "[s]\ntype = s3\nprovider = Other\n"
            f"access_key_id = {self.place['access_key']}\nsecret_access_key = {self.place['secret_key']}\n"
            f"endpoint = {self.place[self.at]}\nregion = us-east-1\nforce_path_style = true\n"
        )
        return [
            program("rclone"), "mount", f"s:{self.place['bucket']}", self.path, "--vfs-cache-mode", "writes",
            "--cache-dir", self.work / "cache", "--rc", "--rc-no-auth", "--rc-addr", f"127.0.0.1:{self.control_port}",
        ]

    def s3fs_fuse_command(self):
        password = self.work / "password"
        password.write_text(f"{self.place['access_key']}:{self.place['secret_key']}\n")
        password.chmod(0o600)
        options = f"url={self.place[self.at]},use_path_request_style,passwd_file={password},endpoint=us-east-1"
        return [program("s3fs"), self.place["bucket"], self.path, "-f", "-o", options]

    def unmount(self):
        """Returns when the daemon has ended; the product's exit code has to say that all is stored."""
        if self.client == "zarrmount":
            subprocess.run([self.binary, "umount", self.path], env=self.environment, check=True, stderr=subprocess.PIPE)
        else:
            if self.client == "rclone":
                self.wait_for_rclone()
            while os.path.ismount(self.path) and subprocess.run(["fusermount3", "-u", self.path], stderr=subprocess.DEVNULL).returncode:
                time.sleep(0.1)
        self.process.wait(120)

    def wait_for_rclone(self):
        """Unmounting does not wait for uploads."""
        import json
        import urllib.request

        url = f"http://127.0.0.1:{self.control_port}/vfs/stats"
        while True:
            stats = json.load(urllib.request.urlopen(urllib.request.Request(url, method="POST")))["diskCache"]
            if not stats["uploadsInProgress"] and not stats["uploadsQueued"]:
                return
            time.sleep(0.05)

    def abandon(self):
        """After a failure."""
        if os.path.ismount(self.path):
            subprocess.run(["fusermount3", "-uz", self.path])
        if self.process.poll() is None:
            self.process.kill()
            self.process.wait()


def environment(place, work):
    return dict(
        os.environ, AWS_ACCESS_KEY_ID=place["access_key"], AWS_SECRET_ACCESS_KEY=place["secret_key"], AWS_REGION="us-east-1",
        AWS_EC2_METADATA_DISABLED="true", XDG_STATE_HOME=str(work / "state"), RCLONE_CONFIG=str(work / "rclone.conf"),
    )


def store_options(place, at):
    options = ["--endpoint-url", place[at], "--region", "us-east-1"]
    return options + (["--ca-bundle", place["certificates"]] if at == "tls" else [])


def write_xarray(client, place, at, name, data, encoding=None):
    """`to_zarr` of a dataset or a tree, by one of the libraries."""
    import xarray as xr

    how = {"mode": "w", "zarr_format": 3, "encoding": encoding}
    if client == "icechunk":
        session = repository(place, at, name).writable_session("main")
        data.to_zarr(session.store, consolidated=False, **how)
        session.commit("bench")
        return
    if client == "s3fs":
        options = {
            "key": place["access_key"], "secret": place["secret_key"], "skip_instance_cache": True,
            "client_kwargs": {"endpoint_url": place[at], "region_name": "us-east-1", "verify": place["certificates"] if at == "tls" else None},
            "config_kwargs": {"s3": {"addressing_style": "path"}},
        }
        data.to_zarr(f"s3://{place['bucket']}/{name}", storage_options=options, **how)
        return
    from zarr.storage import ObjectStore

    if isinstance(data, xr.DataTree):
        how.pop("encoding")
    data.to_zarr(ObjectStore(server.store(place, at, name)), **how)


def repository(place, at, name):
    import icechunk

    storage = icechunk.s3_storage(
        bucket=place["bucket"], prefix=name, region="us-east-1", endpoint_url=place[at], allow_http=True, force_path_style=True,
        access_key_id=place["access_key"], secret_access_key=place["secret_key"],
    )
    return icechunk.Repository.open_or_create(storage)


def write_tensorstore(place, at, name, data):
    """The array of W3 with the codec that zarr-python uses; a few writes under way bound the memory."""
    import tensorstore as ts

    os.environ.update(AWS_ACCESS_KEY_ID=place["access_key"], AWS_SECRET_ACCESS_KEY=place["secret_key"])
    base = {"driver": "s3", "bucket": place["bucket"], "endpoint": place[at], "aws_region": "us-east-1", "aws_credentials": {"type": "environment"}}
    values = data["v"]
    array = ts.open({
        "driver": "zarr3", "kvstore": {**base, "path": f"{name}/v/"}, "create": True, "metadata": {
            "shape": values.shape, "data_type": "float64", "dimension_names": values.dims, "fill_value": "NaN",
            "chunk_grid": {"name": "regular", "configuration": {"chunk_shape": [sizes[0] for sizes in values.chunks]}},
            "codecs": [{"name": "bytes", "configuration": {"endian": "little"}}, {"name": "zstd", "configuration": {"level": 0}}],
        },
    }).result()
    waiting = []
    for t in range(values.shape[0]):
        for z in range(values.shape[1]):
            block = values.data.blocks[t, z].compute(scheduler="sync")
            waiting.append(array[t : t + 1, z : z + 1].write(block, can_reference_source_data_indefinitely=True).commit)
            while sum(not write.done() for write in waiting) >= 8:
                time.sleep(0.001)
    for write in waiting:
        write.result()
    root = ts.KvStore.open({**base, "path": f"{name}/"}).result()
    root.write("zarr.json", b'{"zarr_format":3,"node_type":"group","attributes":{}}').result()


def open_sources(paths):
    import xarray as xr

    return xr.open_mfdataset(
        paths, chunks={}, combine="nested", concat_dim="time", data_vars="minimal", coords="minimal", compat="override", join="override",
    )
