"""Random sets of files joined to one dataset, compared with what their values say.

    oracle.py [--cases N] [--mounts N] [--seed S] [--verbose]

A case is drawn from its seed alone: files, their order, options, batches. What the dataset has to be is worked
out here from the values that were written, by rules that fit on a page: values belong to coordinates, gaps
are missing, contradictions are refused. A case ends *equal*, *refused* (loudly, the rest equal), or *different*,
which is a defect. A refusal that nothing in the case explains is told as *unexplained*: a defect as well.
"""

import argparse
import collections
import json
import os
import random
import shutil
import subprocess
import sys
import tempfile
from concurrent.futures import ProcessPoolExecutor, ThreadPoolExecutor
from pathlib import Path

import cftime
import netCDF4
import numpy as np
import xarray as xr

REPOSITORY = Path(__file__).resolve().parents[2]
TARGET = Path(os.environ.get("CARGO_TARGET_DIR", REPOSITORY / "target")) / "debug"
BINARY = Path(os.environ.get("ZARRMOUNT", TARGET / "zarrmount"))
STEP_H = 6
BASE = {"year": 2000, "month": 1, "day": 1}
UNIT_H = {"days": 24, "hours": 1, "minutes": 1 / 60, "seconds": 1 / 3600}
GREGORIAN = {"standard", "gregorian", "proleptic_gregorian", None}
FILLS = {"i1": -99, "u1": 250, "i2": -999, "i4": -9999, "f4": -9999.0, "f8": 1e20}


class Variable:
    """A variable along the dimension: its values follow from name and place."""

    def __init__(self, draw, name):
        self.name = name
        self.kind = draw.choice(["i1", "u1", "i2", "i4", "f4", "f8", "f8", "packed", "text"])
        self.has_fill = self.kind == "packed" or (self.kind in FILLS and draw.random() < 0.6)
        self.width = draw.choice([0, 0, 3]) if self.kind != "text" else 0
        self.missing = 0.15 if self.has_fill or self.kind in ("f4", "f8") else 0.0
        self.presence = draw.choice([1.0, 1.0, 0.6])

    def values(self, key):
        """Decoded values at a place; NaN is missing."""
        draw = random.Random(f"{self.name} {key}")
        if self.kind == "text":
            return draw.choice(["", "a", "bcd", "é", "long text " * 3])
        one = lambda: float("nan") if draw.random() < self.missing else float(draw.randrange(1, 100))  # noqa: E731
        return np.array([one() for _ in range(self.width or 1)])


class File:
    def __init__(self, name, landing, keys, variables, options):
        self.name, self.landing, self.keys, self.variables = name, landing, keys, variables
        self.__dict__.update(options)
        self.changed = {}

    def value(self, variable, key):
        return self.changed.get((variable.name, key), variable.values(key))


class Case:
    def __init__(self, seed, mounted):
        self.seed, self.mounted = seed, mounted
        draw = self.draw = random.Random(f"{seed} {mounted}")
        self.format = draw.choice(["3", "2"])
        self.chunk = draw.randrange(1, 6)
        self.rule = draw.choice(["error", "error", "error", "keep", "replace"])
        self.strict = draw.random() < 0.1
        self.unpack = draw.random() < 0.25
        self.axis = draw.choice(["time", "time", "time", "x", "label", "bare"])
        self.descending = self.axis in ("time", "x") and draw.random() < 0.2
        self.has_bounds = self.axis == "time" and draw.random() < 0.3
        self.parallel = mounted and self.rule == "error" and draw.random() < 0.5
        self.statics = {"lat": [10.0, 20.0, 30.0], "scalar": 4.5}
        if draw.random() < 0.4:
            self.statics["mask"] = [1, 0, 2]
        self.empty = draw.random() < 0.2 and self.axis == "time"
        self.variables = [Variable(draw, f"v{n}") for n in range(draw.randrange(1, 4))]
        self.landings = draw.choice([[""], [""], [""], ["g"], ["g", "h"]]) if mounted else [""]
        self.same_encoding = draw.random() < 0.5
        self.calendars = draw.choice([[None], ["standard"], list(GREGORIAN), ["noleap"], ["360_day"]])
        self.files = []
        for landing in self.landings:
            self.draw_files(landing)
        draw.shuffle(self.files)
        self.draw_batches()

    def draw_files(self, landing):
        draw = self.draw
        count = draw.randrange(1, 6)
        shape = draw.choice(["side by side", "interleaved", "overlapping", "same", "random"])
        if self.axis == "bare":
            shape = "side by side"
        at = 0
        steps = [draw.randrange(1, 5) for _ in range(count)]
        for n in range(count):
            if shape == "side by side":
                keys = list(range(at, at + steps[n]))
                at += steps[n] + draw.choice([0, 0, 1])
            elif shape == "interleaved":
                keys = list(range(n, count * steps[0], count))
            elif shape == "overlapping":
                keys = list(range(at, at + steps[n]))
                at += draw.randrange(1, steps[n] + 1)
            elif shape == "same":
                keys = list(range(steps[0]))
            else:
                keys = sorted(draw.sample(range(12), steps[n]))
            variables = [v for v in self.variables if draw.random() < v.presence] or [draw.choice(self.variables)]
            if shape == "same" and draw.random() < 0.7:
                variables = [self.variables[n % len(self.variables)]]
            self.files.append(self.draw_file(f"{landing}f{n}.nc", landing, keys, variables))
        if draw.random() < 0.3:
            self.contradict(landing)
        if self.axis != "bare" and draw.random() < 0.15:
            self.files.append(self.draw_file(f"{landing}none.nc", landing, [], self.variables[:1]))

    def draw_file(self, name, landing, keys, variables):
        draw = random.Random(f"{self.seed} {name}") if not self.same_encoding else random.Random(f"{self.seed}")
        dense = any(key * STEP_H % 24 for key in range(64))
        units = draw.choice(list(UNIT_H))
        options = {
            "units": units,
            "time_type": draw.choice(["i4", "i8", "f8"]) if units != "days" or not dense else "f8",
            "since": draw.choice([0, 0, 4, -8]),
            "calendar": draw.choice(self.calendars),
            "packing": draw.choice([(0.5, 10.0), (0.5, 10.0), (0.25, 0.0)]) if self.unpack or draw.random() < 0.1 else (0.5, 10.0),
            "wide": draw.random() < 0.1,
            "chunk": draw.choice([None, 1, 2, 3]),
            "statics": dict(self.statics),
        }
        if draw.random() < 0.1:
            options["statics"]["lat"] = [10.0, 20.0 * (1 + 1e-8), 30.0]
        return File(name, landing, keys[::-1] if self.descending else keys, variables, options)

    def contradict(self, landing):
        """One value that another file has otherwise, or a variable that should be the same."""
        draw = self.draw
        file = draw.choice([file for file in self.files if file.landing == landing])
        if draw.random() < 0.2:
            file.statics["lat"] = [10.0, 20.0, 31.0]
        elif file.keys:
            variable, key = draw.choice(file.variables), draw.choice(file.keys)
            value = variable.values(key)
            other = "other" if variable.kind == "text" else np.where(np.isnan(value), 3.0, np.mod(value, 99) + 1)
            file.changed[variable.name, key] = other

    def draw_batches(self):
        draw = self.draw
        count = draw.choice([1, 1, 2, 3])
        files = list(self.files)
        if self.axis != "bare" and draw.random() < 0.6:
            files.sort(key=lambda file: min(file.keys, default=0) * (-1 if self.descending else 1))
        cuts = sorted(draw.randrange(len(files) + 1) for _ in range(count - 1))
        self.batches = [files[a:b] for a, b in zip([0, *cuts], [*cuts, len(files)]) if a < b]
        if draw.random() < 0.2 and self.axis != "bare":
            self.batches[-1].append(draw.choice(files))
        for number, batch in enumerate(self.batches):
            for file in batch:
                file.batch = number
        self.remounts = draw.random() < 0.5
        self.removes = self.mounted and draw.random() < 0.15

    # What is written.

    def write(self, folder, file):
        path = folder / file.name
        if path.exists():
            return path
        with netCDF4.Dataset(path, "w") as data:
            steps = len(file.keys)
            name = "time" if self.axis == "bare" else self.axis
            data.createDimension(name, None if self.axis in ("time", "bare") else max(steps, 1))
            keys = file.keys if steps or self.axis in ("time", "bare") else [99]
            file.keys = keys
            data.createDimension("lat", 3)
            self.write_axis(data, file, name, keys)
            for static, value in file.statics.items():
                dimensions = ("lat",) if isinstance(value, list) else ()
                data.createVariable(static, "i4" if static == "mask" else "f8", dimensions)[...] = value
            if self.empty:
                data.createDimension("none", 0)
                data.createVariable("hollow", "f4", (name, "none"))
            for variable in file.variables:
                self.write_variable(data, file, variable, name, keys)
        return path

    def write_axis(self, data, file, name, keys):
        if self.axis == "bare" or not len(keys):
            return
        if self.axis == "label":
            data.createVariable(name, str, (name,))[:] = np.array([f"k{key:03}" for key in keys], dtype=object)
            return
        if self.axis == "x":
            data.createVariable(name, "f8", (name,))[:] = np.array(keys) * 0.5
            return
        numbers = lambda hours: (np.array(hours) - file.since * 24) / UNIT_H[file.units]  # noqa: E731
        made = data.createVariable(name, file.time_type, (name,))
        since = cftime.datetime(2000, 1, 5, calendar=file.calendar or "standard")
        since = cftime.num2date(file.since - 4, f"days since {since.strftime('%Y-%m-%d')}", file.calendar or "standard")
        made.units = f"{file.units} since {since.strftime('%Y-%m-%d')}"
        if file.calendar:
            made.calendar = file.calendar
        hours = np.array(keys) * STEP_H
        made[:] = np.rint(numbers(hours)) if file.time_type != "f8" else numbers(hours)
        if self.has_bounds:
            made.bounds = "time_bnds"
            data.createDimension("nv", 2)
            bounds = np.stack([hours, hours + STEP_H], axis=1)
            made = data.createVariable("time_bnds", file.time_type, (name, "nv"))
            made[:] = np.rint(numbers(bounds)) if file.time_type != "f8" else numbers(bounds)

    def write_variable(self, data, file, variable, name, keys):
        dimensions = (name, "lat") if variable.width else (name,)
        values = [file.value(variable, key) for key in keys]
        if variable.kind == "text":
            made = data.createVariable(variable.name, str, dimensions)
            for step, text in enumerate(values):
                made[step] = text
            return
        kind = "i2" if variable.kind == "packed" else variable.kind
        if file.wide and kind in ("i1", "i2", "f4"):
            kind = {"i1": "i2", "i2": "i4", "f4": "f8"}[kind]
        fill = FILLS[kind] if variable.has_fill else None
        chunks = {"chunksizes": (file.chunk,) + (3,) * bool(variable.width)} if file.chunk and len(keys) >= file.chunk else {}
        made = data.createVariable(variable.name, kind, dimensions, fill_value=fill, zlib=bool(chunks), **chunks)
        made.set_auto_maskandscale(False)
        raw = np.array(values, dtype="f8").reshape(len(keys), max(variable.width, 1))
        if variable.kind == "packed":
            scale, offset = file.packing
            made.scale_factor, made.add_offset = scale, offset
            raw = (raw - offset) / scale
        if fill is not None:
            raw = np.where(np.isnan(raw), fill, raw)
        if len(keys):
            made[: len(keys)] = raw.reshape((len(keys), variable.width) if variable.width else len(keys)).astype(kind)

    # What has to come of it.

    def expect(self, landing, accepted):
        """Values by variable and key. `accepted` are files in the order of their arrival."""
        files = [file for file in accepted if file.landing == landing]
        expected = {variable.name: {} for file in files for variable in file.variables}
        for file in files:
            for variable in file.variables:
                for key in file.keys:
                    if self.rule != "keep" or key not in expected[variable.name]:
                        expected[variable.name][key] = file.value(variable, key)
        keys = sorted({key for file in files for key in file.keys}, reverse=self.descending)
        return keys, expected

    def shows_direction(self, landing):
        """Whether a file of the first batch says which way the coordinates run."""
        return any(len(file.keys) > 1 for file in self.batches[0] if file.landing == landing)

    def explanation(self):
        """Why something of this case may be refused; empty if nothing may."""
        reasons = set()
        for landing in self.landings:
            files = [file for file in self.files if file.landing == landing]
            if self.strict and len({tuple(v.name for v in file.variables) for file in files}) > 1:
                reasons.add("strict")
            if any(file.statics["lat"] == [10.0, 20.0, 31.0] for file in files):
                reasons.add("static")
            if any(file.changed for file in files) and self.rule == "error":
                reasons.add("contradiction")
            if not self.unpack and len({file.packing for file in files}) > 1:
                reasons.add("packing")
            if len({file.wide for file in files}) > 1 and len(self.batches) > 1:
                reasons.add("frozen type")
            if len(self.batches) > 1:
                if self.has_moves(landing):
                    reasons.add("insertion")
                if any(self.is_frozen(file) for file in files):
                    reasons.add("frozen encoding")
                if len({tuple(v.name for v in file.variables) for file in files}) > 1:
                    reasons.add("gap without fill")
                    if self.rule == "error":
                        reasons.add("published gap")
            if self.descending and not self.shows_direction(landing):
                reasons.add("direction unknown")
            # 64-bit integers and floats have no type in common.
            if self.has_bounds and {"f8", "i8"} <= {file.time_type for file in files}:
                reasons.add("type of the bounds")
            if self.axis == "x" and any(len(file.keys) == 1 for file in files) and self.descending:
                reasons.add("direction unknown")
        return reasons

    def has_moves(self, landing):
        if self.axis == "bare":
            return False
        sign, last, seen = (-1 if self.descending else 1), None, set()
        for batch in self.batches:
            keys = {key * sign for file in batch if file.landing == landing for key in file.keys}
            if last is not None and any(key < last for key in keys - seen):
                return True
            seen |= keys
            last = max(seen, default=last)
        return self.descending

    def is_frozen(self, file):
        first = next((other for other in self.batches[0] if other.landing == file.landing), file)
        return (file.units, file.time_type, file.since) != (first.units, first.time_type, first.since)


class Runner:
    def __init__(self, case, folder):
        self.case, self.folder = case, Path(folder)
        self.bucket, self.data, self.path = (self.folder / name for name in ["bucket", "data", "mnt"])
        for made in [self.bucket, self.data, self.path]:
            made.mkdir()
        self.environment = {**os.environ, "XDG_STATE_HOME": str(folder), "XDG_RUNTIME_DIR": str(folder)}
        self.environment.pop("ZARRMOUNT_SPOOL", None)
        self.refusals = []
        axis = "time" if case.axis == "bare" else case.axis
        self.options = ["--zarr-format", case.format, "--chunks", f"{axis}={case.chunk}", "--overlap", case.rule]
        self.options += ["--schema", "strict"] * case.strict + ["--unpack"] * case.unpack

    def command(self, *arguments):
        return subprocess.run([BINARY, *map(str, arguments)], env=self.environment, capture_output=True, text=True, timeout=300)

    def run(self):
        case = self.case
        for file in case.files:
            case.write(self.data, file)
        accepted = self.run_mounted() if case.mounted else self.run_imports()
        return self.compare(accepted)

    def run_imports(self):
        accepted = []
        for batch in self.case.batches:
            paths = [self.data / file.name for file in dict.fromkeys(batch)]
            done = self.command("import", f"file://{self.bucket}/o.zarr", *paths, *self.options)
            if done.returncode:
                self.refusals.append(done.stderr.strip())
            else:
                # What is there already is not imported again.
                accepted += [file for file in dict.fromkeys(batch) if file not in accepted or self.case.rule == "replace"]
        return accepted

    def mount(self):
        done = self.command("mount", f"file://{self.bucket}", self.path, *self.options)
        assert done.returncode == 0, done.stderr

    def umount(self):
        done = self.command("umount", self.path)
        if done.returncode:
            raise Different(f"umount: {done.stdout}{done.stderr}")

    def run_mounted(self):
        case = self.case
        self.mount()
        try:
            accepted = self.copy_batches()
            if case.removes and not self.refusals:
                shutil.rmtree(self.path / "o.zarr")
                accepted = self.copy_batches()
            self.umount()
        finally:
            if os.path.ismount(self.path):
                self.command("umount", self.path, "--timeout", "1s")
                subprocess.run(["umount", "-l", self.path], capture_output=True)
        return accepted

    def copy(self, file):
        folder = self.path / "o.zarr" / file.landing
        folder.mkdir(parents=True, exist_ok=True)
        done = subprocess.run(["cp", self.data / file.name, folder], capture_output=True, text=True)
        if done.returncode == 0:
            return True
        shown = self.path / ".zarrmount-status" / "refused" / "o.zarr" / file.landing / f"{file.name}.txt"
        self.refusals.append(shown.read_text().strip() if shown.exists() else f"no reason: {done.stderr}")
        return False

    def copy_batches(self):
        accepted, case = [], self.case
        for number, batch in enumerate(case.batches):
            batch_accepted = []
            if case.parallel:
                unique = list(dict.fromkeys(batch))
                for landing in case.landings:
                    (self.path / "o.zarr" / landing).mkdir(parents=True, exist_ok=True)
                with ThreadPoolExecutor(4) as pool:
                    batch_accepted = [file for file, ok in zip(unique, pool.map(self.copy, unique)) if ok]
            else:
                for file in batch:
                    if self.copy(file):
                        # A file of the same name takes the place of the one before.
                        batch_accepted = [other for other in batch_accepted if other is not file] + [file]
            failed = self.flush()
            batch_accepted = [file for file in batch_accepted if f"o.zarr/{file.landing}/{file.name}".replace("//", "/") not in failed]
            accepted += [file for file in batch_accepted if file not in accepted or case.rule == "replace"]
            if case.remounts and number + 1 < len(case.batches):
                self.umount()
                self.mount()
        return accepted

    def flush(self):
        """Publishes; files that fail then are told, and removed."""
        if self.command("flush", self.path).returncode == 0:
            return set()
        status = json.loads(self.command("status", self.path, "--json").stdout)
        failed = {}
        for file in status["files"]:
            if file["state"] == "failed":
                failed[file["path"]] = file["reason"]
                (self.path / file["path"]).unlink()
        if not failed:
            raise Different("flush failed and names no file")
        self.refusals += failed.values()
        return set(failed)

    def compare(self, accepted):
        case = self.case
        for landing in case.landings:
            keys, expected = case.expect(landing, accepted)
            files = [file for file in accepted if file.landing == landing]
            if not files:
                continue
            if not (self.bucket / "o.zarr").exists():
                raise Different("nothing is in the bucket")
            for consolidated in [True, False]:
                dataset = xr.open_zarr(
                    self.bucket / "o.zarr", group=landing or None, consolidated=consolidated if not landing else None,
                    decode_times=False,
                ).load()
                self.compare_dataset(dataset, keys, expected, files)
        return len(accepted)

    def compare_dataset(self, dataset, keys, expected, files):
        case = self.case
        if case.descending and not all(case.shows_direction(file.landing) for file in files):
            axis = dataset[case.axis].values
            keys = sorted(keys, reverse=bool(len(axis) > 1 and axis[0] > axis[-1]))
        self.compare_axis(dataset, keys)
        for name, values in expected.items():
            if name not in dataset:
                raise Different(f"{name} is missing")
            variable = next(variable for variable in case.variables if variable.name == name)
            got = dataset[name].values
            if len(got) != len(keys):
                raise Different(f"{name} has {len(got)} steps instead of {len(keys)}")
            order = keys if case.axis != "bare" else self.bare_order(files)
            for step, key in enumerate(order):
                want = values.get(key)
                if variable.kind == "text":
                    have = got[step] if isinstance(got[step], str) else ""
                    if have != (want or ""):
                        raise Different(f"{name} at {key}: {have!r} instead of {want!r}")
                    continue
                want = np.full(max(variable.width, 1), np.nan) if want is None else want
                have = np.asarray(got[step], dtype="f8").reshape(-1)
                if not np.array_equal(have, want, equal_nan=True):
                    raise Different(f"{name} at {key}: {have} instead of {want}")
        for static, value in case.statics.items():
            got = dataset[static].values
            accepted = [file.statics[static] for file in files]
            if not any(np.allclose(got, one, rtol=1e-6) for one in accepted) or static not in dataset:
                raise Different(f"{static}: {got} instead of {value}")

    def bare_order(self, files):
        return [key for file in sorted(files, key=lambda file: (file.batch, file.name)) for key in file.keys]

    def compare_axis(self, dataset, keys):
        case = self.case
        if case.axis == "bare" or not keys:
            return
        got = dataset[case.axis]
        if case.axis == "label":
            have = list(got.values)
            want = [f"k{key:03}" for key in keys]
        elif case.axis == "x":
            have, want = list(got.values), [key * 0.5 for key in keys]
        else:
            have = self.hours(got.values, got.attrs)
            want = [key * STEP_H for key in keys]
            if case.has_bounds:
                bounds = self.hours(dataset["time_bnds"].values.reshape(-1), {**got.attrs, **dataset["time_bnds"].attrs})
                expected = [hour for key in keys for hour in (key * STEP_H, key * STEP_H + STEP_H)]
                if bounds != expected:
                    raise Different(f"bounds {bounds} instead of {expected}")
        if have != want:
            raise Different(f"{case.axis} is {have} instead of {want}")

    @staticmethod
    def hours(values, attributes):
        calendar = attributes.get("calendar", "standard")
        dates = cftime.num2date(np.asarray(values), attributes["units"], calendar)
        hours = cftime.date2num(dates, "hours since 2000-01-01", calendar)
        return [float(hour) for hour in np.atleast_1d(hours)]


class Different(Exception):
    pass


def run_case(seed, mounted):
    """The outcome of a case, with words for it."""
    case = Case(seed, mounted)
    folder = tempfile.mkdtemp(prefix="oracle-")
    runner = Runner(case, folder)
    try:
        runner.run()
    except Different as different:
        return "different", str(different), describe(case)
    except Exception as error:  # noqa: BLE001 - whatever a reader says of it
        return "different", f"{type(error).__name__}: {error}", describe(case)
    finally:
        shutil.rmtree(folder, ignore_errors=True)
    if not runner.refusals:
        return "equal", "", ""
    why = case.explanation()
    return ("refused" if why else "unexplained"), f"{sorted(why)}: {runner.refusals[0]}", describe(case)


def describe(case):
    shown = {name: value for name, value in vars(case).items() if isinstance(value, (str, bool, int, list)) and name not in ("files", "batches", "variables")}
    lines = [f"  {shown}", f"  variables {[vars(variable) for variable in case.variables]}"]
    for number, batch in enumerate(case.batches):
        for file in batch:
            options = {name: value for name, value in vars(file).items() if name not in ("variables", "statics")}
            lines.append(f"  batch {number}: {options} {[variable.name for variable in file.variables]}")
    return "\n".join(lines)


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--cases", type=int, default=100, help="cases through `zarrmount import`")
    parser.add_argument("--mounts", type=int, default=20, help="cases through a mount")
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--jobs", type=int, default=2)
    parser.add_argument("--verbose", action="store_true", help="tell refusals too")
    arguments = parser.parse_args()
    cases = [(seed, False) for seed in range(arguments.seed, arguments.seed + arguments.cases)]
    cases += [(seed, True) for seed in range(arguments.seed, arguments.seed + arguments.mounts)]
    counts = collections.Counter()
    # The HDF5 library takes one thread at a time.
    with ProcessPoolExecutor(arguments.jobs) as pool:
        for (seed, mounted), (outcome, words, described) in zip(cases, pool.map(run_case, *zip(*cases))):
            counts[outcome] += 1
            if outcome in ("different", "unexplained") or (arguments.verbose and outcome == "refused"):
                print(f"{outcome}: --seed {seed} {'--cases 0 --mounts 1' if mounted else '--cases 1 --mounts 0'}: {words}")
                if outcome != "refused":
                    print(described, flush=True)
    print(", ".join(f"{counts[name]} {name}" for name in ["equal", "refused", "unexplained", "different"]))
    sys.exit(1 if counts["different"] or counts["unexplained"] else 0)


if __name__ == "__main__":
    main()
