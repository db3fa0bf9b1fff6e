"""Tables and the plot from the results of bench.py."""

import datetime
import math
import os
import platform
from html import escape
from statistics import median

from workloads import WORKLOADS

BEGIN, END = "<!-- results: written by make bench -->", "<!-- end of results -->"
COLOURS = {
    "zarrmount": "#d62728", "import": "#ff7f0e", "tmpfs": "#7f7f7f", "obstore": "#1f77b4", "icechunk": "#17becf",
    "tensorstore": "#9467bd", "s3fs": "#2ca02c", "rclone": "#8c564b", "s3fs-fuse": "#e377c2",
}


def machine():
    with open("/proc/cpuinfo") as file:
        names = [line.split(":", 1)[1].strip() for line in file if line.startswith("model name")]
    with open("/proc/meminfo") as file:
        memory = int(file.readline().split()[1]) / (1 << 20)
    return {
        "date": datetime.date.today().isoformat(), "cpu": names[0] if names else platform.machine(), "cores": os.cpu_count(),
        "memory_gib": round(memory), "kernel": platform.release(),
    }


def classes(requests):
    return ", ".join(f"{count} {name}" for name, count in sorted(requests.items(), key=lambda item: -item[1]))


def line(run):
    """One run as it is done."""
    head = f"{run['workload']:14} {run['client']:11}"
    if "wall_s" not in run:
        return f"{head} {run.get('missing') or 'ERROR ' + run.get('error', '')}"
    bound = f" bound {run['bound_s']:.3f}" if "bound_s" in run else ""
    parts = f" ({run['local_s']:.2f} + {run['put_s']:.2f})" if "local_s" in run else ""
    return (
        f"{head} {run['wall_s']:7.2f} s{parts}{bound} cpu {run['cpu_s']:.2f} server {run['server_cpu_s']:.2f} "
        f"foreign {run['foreign_cores']:.1f} peak {run['peak_mb']:.0f} MB conn {run['connections']} "
        f"tls {run['handshakes']}+{run['resumed']} | {classes(run['requests'])}"
    )


def grouped(results):
    """(workload, client) -> verified runs."""
    groups = {}
    for run in results["runs"]:
        if run.get("verified"):
            groups.setdefault((run["workload"], run["client"]), []).append(run)
    return groups


def middle(runs, key):
    values = [run[key] for run in runs if key in run]
    return median(values) if values else math.nan


def tables(results):
    groups, text = grouped(results), []
    for name, workload in WORKLOADS.items():
        rows = [(client, groups[name, client]) for client in workload.peers if (name, client) in groups]
        if not rows:
            continue
        ours = groups.get((name, "zarrmount"))
        net = workload.net
        wire = ", ".join(f"{value} {key.replace('_', ' ')}" for key, value in net.items()) + (", TLS" if workload.tls else "")
        text += [
            f"### {workload.title}", "", f"{wire}.", "",
            "| client | runs | wall s (min to max) | ÷ zarrmount | ÷ direct put | client CPU s | server CPU s | peak MB | requests | connections | handshakes | others' cores |",
            "|---|---|---|---|---|---|---|---|---|---|---|---|",
        ]
        for client, runs in rows:
            walls = [run["wall_s"] for run in runs]
            against = median(walls) / middle(ours, "wall_s") if ours else math.nan
            bound = median([run["wall_s"] / run["bound_s"] for run in runs if "bound_s" in run] or [math.nan])
            requests = classes(runs[len(runs) // 2]["requests"])
            text.append(
                f"| {client} | {len(runs)} | {median(walls):.2f} ({min(walls):.2f} to {max(walls):.2f}) | {against:.2f} | {bound:.2f} "
                f"| {middle(runs, 'cpu_s'):.2f} | {middle(runs, 'server_cpu_s'):.2f} | {middle(runs, 'peak_mb'):.0f} | {requests} "
                f"| {middle(runs, 'connections'):.0f} | {middle(runs, 'handshakes') + middle(runs, 'resumed'):.0f} | {middle(runs, 'foreign_cores'):.1f} |"
            )
        text.append("")
    failed = [run for run in results["runs"] if "error" in run]
    text += [f"- {run['workload']}, {run['client']}: {run['error']}" for run in failed]
    return "\n".join(text)


def plot(results):
    """One row a workload, one dot a client: seconds, on a logarithmic axis; a bar marks the direct put."""
    groups = grouped(results)
    names = [name for name in WORKLOADS if any(key[0] == name for key in groups)]
    walls = {key: middle(runs, "wall_s") for key, runs in groups.items()}
    bounds = {name: median([run["bound_s"] for key, runs in groups.items() if key[0] == name for run in runs if "bound_s" in run] or [math.nan]) for name in names}
    values = [value for value in [*walls.values(), *bounds.values()] if value > 0]
    low, high = math.floor(math.log10(min(values))), math.ceil(math.log10(max(values)))
    left, width, top, row = 330, 620, 70, 30

    def x(seconds):
        return left + width * (math.log10(seconds) - low) / (high - low)

    height = top + row * len(names) + 40
    parts = [
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {left + width + 30} {height}" font-family="sans-serif" font-size="12">',
        f'<rect width="100%" height="100%" fill="white"/>',
        f'<text x="10" y="20" font-size="14">Seconds until everything is in the bucket (median); | is one parallel put of the same objects</text>',
    ]
    used = [client for client in COLOURS if any(key[1] == client for key in groups)]
    for number, client in enumerate(used):
        parts.append(f'<circle cx="{20 + number * 100}" cy="42" r="5" fill="{COLOURS[client]}"/><text x="{30 + number * 100}" y="46">{client}</text>')
    for power in range(low, high + 1):
        at = x(10**power)
        parts.append(f'<line x1="{at:.1f}" y1="{top - 10}" x2="{at:.1f}" y2="{height - 30}" stroke="#ddd"/><text x="{at:.1f}" y="{height - 12}" text-anchor="middle">{10.0**power:g}</text>')
    for number, name in enumerate(names):
        y = top + row * number + 10
        parts.append(f'<text x="10" y="{y + 4}">{escape(WORKLOADS[name].title[:52])}</text><line x1="{left}" y1="{y}" x2="{left + width}" y2="{y}" stroke="#eee"/>')
        if bounds[name] > 0:
            parts.append(f'<line x1="{x(bounds[name]):.1f}" y1="{y - 9}" x2="{x(bounds[name]):.1f}" y2="{y + 9}" stroke="black" stroke-width="2"/>')
        for client in used:
            if (name, client) in walls:
                parts.append(f'<circle cx="{x(walls[name, client]):.1f}" cy="{y}" r="5" fill="{COLOURS[client]}" fill-opacity="0.85"/>')
    return "\n".join([*parts, "</svg>", ""])


def into_docs(results, folder):
    """Replaces the results in BENCHMARKS.md and the plot beside it."""
    (folder / "benchmarks.svg").write_text(plot(results))
    path = folder / "BENCHMARKS.md"
    before, _, rest = path.read_text().partition(BEGIN)
    after = rest.partition(END)[2]
    about = results["machine"]
    head = (
        f"Measured {about['date']} on {about['cores']} cores ({about['cpu']}), {about['memory_gib']} GiB, Linux {about['kernel']}, "
        f"scale {results['scale']}. Client, server and wire share the cores.\n\n![seconds by workload and client](benchmarks.svg)\n"
    )
    path.write_text(f"{before}{BEGIN}\n\n{head}\n{tables(results)}\n{END}{after}")
