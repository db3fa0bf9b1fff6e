"""Runs the workloads with the product and its peers, interleaved, and reports. `make bench` is the way in.

    bench.py --zarrmount BINARY --server BINARY [--scale 0.25] [--runs 3] [--workloads w1 w4] [--clients zarrmount obstore]
             [--options='--connections 32'] [--docs FOLDER]

Results go to bench/results/latest.json and latest.md; with --docs the tables and the plot there are replaced, too.
"""

import argparse
import json
import os
import shlex
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path

import report
from server import Server
from workloads import WORKLOADS

HERE = Path(__file__).resolve().parent
# Sources, spool and bucket of the largest workload, twice.
ROOM_BYTES = 8 << 30


def work_folder():
    """On tmpfs where that has room: a disk would be measured otherwise."""
    shm = Path("/dev/shm")
    fits = shm.is_dir() and shutil.disk_usage(shm).free > ROOM_BYTES
    return Path(tempfile.mkdtemp(prefix="zarrmount-bench-", dir=shm if fits else None))


def one(task, seconds_max):
    command = [sys.executable, "-W", "ignore", HERE / "run.py", json.dumps(task)]
    try:
        done = subprocess.run(command, stdout=subprocess.PIPE, timeout=seconds_max, text=True)
    except subprocess.TimeoutExpired:
        return {"error": f"not done after {seconds_max} s"}
    if done.returncode or not done.stdout.strip():
        return {"error": f"exit code {done.returncode}"}
    return json.loads(done.stdout.strip().splitlines()[-1])


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--zarrmount", required=True, type=Path)
    parser.add_argument("--server", required=True, type=Path)
    parser.add_argument("--scale", type=float, default=0.25, help="size of W3 and W4; 1 is about 2 GB")
    parser.add_argument("--runs", type=int, default=3)
    parser.add_argument("--workloads", nargs="+", choices=list(WORKLOADS), metavar="NAME")
    parser.add_argument("--clients", nargs="+")
    parser.add_argument("--options", default="", help="more options for the product")
    parser.add_argument("--net", default="", help="rtt_ms=20,connection_mbps=50,service_ms=0 instead of the workload's")
    parser.add_argument("--docs", type=Path, help="folder of BENCHMARKS.md")
    parser.add_argument("--work", type=Path, help="folder to work in, kept")
    parser.add_argument("--no-bound", action="store_true", help="leave out the direct put after each run")
    arguments = parser.parse_args()
    chosen = arguments.workloads or [name for name, workload in WORKLOADS.items() if workload.default]
    net = {name: int(value) for name, value in (pair.split("=") for pair in arguments.net.split(",") if pair)}
    work = arguments.work or work_folder()
    results = {"machine": report.machine(), "scale": arguments.scale, "runs": []}
    try:
        with Server(arguments.server.resolve(), work / "server") as place:
            for number in range(arguments.runs):
                for name in chosen:
                    workload = WORKLOADS[name]
                    for client in arguments.clients or workload.peers:
                        if client not in workload.peers or (number and client in workload.once):
                            continue
                        task = {
                            "workload": name, "client": client, "place": place, "tls": workload.tls, "work": str(work),
                            "scale": arguments.scale, "binary": str(arguments.zarrmount.resolve()),
                            "options": shlex.split(arguments.options), "net": net, "bound": not arguments.no_bound,
                        }
                        result = {"workload": name, "client": client, "round": number, **one(task, 600)}
                        results["runs"].append(result)
                        print(report.line(result), flush=True)
    finally:
        if not arguments.work:
            shutil.rmtree(work, ignore_errors=True)
    out = HERE / "results"
    out.mkdir(exist_ok=True)
    (out / "latest.json").write_text(json.dumps(results, indent=1))
    text = report.tables(results)
    (out / "latest.md").write_text(text)
    print(text)
    if arguments.docs:
        report.into_docs(results, arguments.docs)
    failed = [run for run in results["runs"] if "error" in run]
    sys.exit(1 if failed else 0)


if __name__ == "__main__":
    main()
