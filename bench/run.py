"""One run of one client on one workload, in a process of its own: prints one line of JSON.

Not started by hand: bench.py gives it the run as JSON.
"""

import asyncio
import json
import os
import shutil
import subprocess
import sys
import time
import uuid
from pathlib import Path

import clients
import data
import measure
import server
import verify
from workloads import WORKLOADS

KEEP_ENCODING = ("_FillValue", "scale_factor", "add_offset", "units", "calendar")


class Run:
    """What a run knows: the task, where the server is, and a folder of its own."""

    def __init__(self, task):
        self.task, self.place = task, task["place"]
        self.workload = WORKLOADS[task["workload"]]
        self.client = task["client"]
        self.at = "tls" if task["tls"] else "endpoint"
        self.name = f"{task['workload']}-{uuid.uuid4().hex[:8]}" + (".zarr" if self.workload.kind == "netcdf" else "")
        self.work = Path(task["work"]) / f"run-{uuid.uuid4().hex[:8]}"
        self.work.mkdir(parents=True)
        self.mount = None
        self.data = None

    def prepare(self):
        """Everything that is not timed: imports, data, the mount."""
        import xarray as xr

        if self.client == "icechunk":
            import icechunk  # noqa: F401
        warm = self.work / "warm.zarr"
        xr.Dataset({"x": ("x", [1.0])}).chunk().to_zarr(warm)
        shutil.rmtree(warm)
        if self.workload.kind == "xarray":
            self.data = self.workload.make(self.task["scale"])
        else:
            self.sources = data.sources(self.task["work"], self.workload.source or self.workload.name, self.task["scale"])
        if self.client in clients.MOUNTS:
            options = self.workload.options if self.client == "zarrmount" else []
            options = options + self.task["options"]
            self.mount = clients.Mount(self.client, self.place, self.at, self.work, self.task["binary"], options)

    def target(self):
        """Where a folder stands for the bucket."""
        return (self.mount.path if self.mount else self.work / "local") / self.name

    def write(self):
        """What is timed, without unmounting."""
        kind, client = self.workload.kind, self.client
        if kind == "xarray":
            if client == "tensorstore":
                clients.write_tensorstore(self.place, self.at, self.name, self.data)
            elif self.mount or client == "tmpfs":
                self.data.to_zarr(self.target(), zarr_format=3)
            else:
                clients.write_xarray(client, self.place, self.at, self.name, self.data)
        elif kind == "netcdf":
            self.write_netcdf()
        elif client == "obstore":
            files = [(path.name, path) for path in self.sources.iterdir()]
            asyncio.run(clients.put_all(server.store(self.place, self.at, self.name), files))
        else:
            subprocess.run(["cp", "-r", self.sources, self.target()], check=True)

    def write_netcdf(self):
        paths = sorted(self.sources.glob("*.nc"))
        if self.client == "zarrmount":
            self.target().mkdir()
            subprocess.run(["cp", *paths, self.target()], check=True)
        elif self.client == "import":
            url = f"s3://{self.place['bucket']}/{self.name}"
            options = [*clients.store_options(self.place, self.at), *self.workload.options, *self.task["options"]]
            command = [self.task["binary"], "import", url, *paths, "--spool-dir", self.work / "spool", *options]
            subprocess.run(command, env=clients.environment(self.place, self.work), check=True, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE)
        else:
            ds = clients.open_sources(paths).chunk(self.workload.chunks)
            for variable in ds.variables.values():
                variable.encoding = {key: value for key, value in variable.encoding.items() if key in KEEP_ENCODING}
            encoding = {name: self.workload.encoding() for name in ds.data_vars} if self.workload.encoding else None
            if self.client == "tmpfs":
                ds.to_zarr(self.target(), zarr_format=3, encoding=encoding)
            else:
                clients.write_xarray(self.client, self.place, self.at, self.name, ds, encoding)

    def verify(self):
        kind = self.workload.kind
        if kind == "folder":
            verify.files(self.place, self.name, self.sources)
        elif self.client == "icechunk":
            read = clients.repository(self.place, "direct", self.name).readonly_session("main").store
            verify.dataset(read, self.wanted(), consolidated=False)
        elif kind == "netcdf" and self.client not in ("zarrmount", "import"):
            # xarray has attributes of its own.
            verify.dataset(verify.zarr_store(self.place, self.name), self.wanted())
        elif kind == "netcdf":
            store, paths = verify.zarr_store(self.place, self.name), sorted(self.sources.glob("*.nc"))
            verify.netcdf(store, paths, self.workload.chunks, self.workload.codec)
        else:
            how = {"consolidated": False} if self.client == "tensorstore" else {}
            verify.dataset(verify.zarr_store(self.place, self.name), self.data, **how)

    def wanted(self):
        """The dataset that xarray wrote."""
        return self.data if self.workload.kind == "xarray" else clients.open_sources(sorted(self.sources.glob("*.nc")))

    def measured(self):
        """Times, CPU, memory and requests of write and unmount."""
        place = self.place
        server.control(place, "set", **self.workload.net | self.task["net"])
        server.control(place, "reset")
        before_all = measure.own_cpu()
        daemon = None
        self.prepare()
        if self.mount:
            daemon = measure.cpu_of(self.mount.process.pid)
        before = server.control(place, "counts")["classes"]
        cpu, server_cpu, machine = measure.own_cpu(), measure.cpu_of(place["pid"]), measure.machine_cpu()
        start = time.perf_counter()
        self.write()
        written = time.perf_counter()
        local = self.put_local() if self.client == "tmpfs" else None
        if self.mount:
            self.mount.unmount()
        wall = time.perf_counter() - start
        own, others = measure.own_cpu() - cpu - (daemon or 0), measure.cpu_of(place["pid"]) - server_cpu
        foreign = measure.machine_cpu() - machine - own - others
        counts = server.control(place, "counts")
        classes = {name: count - before.get(name, 0) for name, count in counts["classes"].items()}
        peak = measure.children_peak_mb() if self.mount or self.client == "import" else measure.own_peak_mb()
        return {
            "wall_s": wall, "write_s": written - start, "cpu_s": own, "server_cpu_s": others,
            "foreign_cores": max(0.0, foreign / wall), "peak_mb": peak, "prepare_cpu_s": cpu - before_all,
            "requests": {name: count for name, count in classes.items() if count},
            **{name: counts[name] for name in ("connections", "handshakes", "resumed", "in_flight_max", "refused", "bytes_in")},
            **({"local_s": written - start, "put_s": local} if local is not None else {}),
        }

    def put_local(self):
        """The parallel put of what the write into tmpfs left."""
        start, top = time.perf_counter(), self.target()
        files = [(str(path.relative_to(top)), path) for path in top.rglob("*") if path.is_file()]
        asyncio.run(clients.put_all(server.store(self.place, self.at, self.name), files))
        return time.perf_counter() - start

    def bound(self):
        """One parallel put of objects of the same sizes; the best of three where it is short."""
        sizes, times = list(server.sizes(self.place, self.name).values()), []
        block = os.urandom(1 << 20) * (max(sizes) // (1 << 20) + 1)
        cpu = measure.cpu_of(self.place["pid"])
        while len(times) < 3 and sum(times) < 1.5:
            store = server.store(self.place, self.at, f"{self.name}-bound{len(times)}")
            start = time.perf_counter()
            asyncio.run(clients.put_all(store, [(str(n), memoryview(block)[:size]) for n, size in enumerate(sizes)]))
            times.append(time.perf_counter() - start)
        spent = (measure.cpu_of(self.place["pid"]) - cpu) / len(times)
        return {"bound_s": min(times), "bound_server_cpu_s": spent, "objects": len(sizes), "object_mb": sum(sizes) / 1e6}

    def run(self):
        result = {"load": os.getloadavg()[0]}
        try:
            result |= self.measured()
            self.verify()
            result["verified"] = True
            if self.task["bound"]:
                result |= self.bound()
        finally:
            if self.mount:
                self.mount.abandon()
            shutil.rmtree(self.work, ignore_errors=True)
            server.control(self.place, "set")
            for prefix in (self.name, *(f"{self.name}-bound{n}" for n in range(3))):
                server.clear(self.place, prefix)
        return result


def main():
    task = json.loads(sys.argv[1])
    run, result = Run(task), {}
    try:
        result = run.run()
    except clients.Missing as error:
        result = {"missing": str(error)}
    except subprocess.CalledProcessError as error:
        said = error.stderr.decode(errors="replace") if error.stderr else ""
        result = {"error": f"{error.cmd[:2]} exit code {error.returncode}: {said[-600:]}"}
    except Exception as error:  # whatever it is, the run counts for nothing and the next one begins
        result = {"error": f"{type(error).__name__}: {str(error)[-600:]}"}
    print(json.dumps(result))


if __name__ == "__main__":
    main()
