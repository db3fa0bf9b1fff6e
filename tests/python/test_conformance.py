"""Test suites of others, pointed at a folder of a mount: they fare as in a local folder.

What fails in the mount is run again locally and has to fail there too: some tests of one project do
not fit the version of another. `make conformance` runs all of it, `make test` a part.
"""

import os
import re
import subprocess
import sys
from pathlib import Path

import pytest
from conftest import open_mount

HERE = Path(__file__).parent / "conformance"
FULL = "ZARRMOUNT_CONFORMANCE" in os.environ

XARRAY = ["--pyargs", "xarray.tests.test_backends", "xarray.tests.test_backends_datatree"]
# Name: arguments of pytest, options of the mount, how many tests pass at least.
SUITES = {
    "zarr-python's stores": ([HERE / "zarr_local_store.py"], [], 75),
    "xarray's Zarr files": (
        [*XARRAY, "-k", "Zarr" if FULL else "TestZarrDirectoryStore and not 2"],
        [],
        1500 if FULL else 150,
    ),
}
if FULL:
    SUITES["xarray's NetCDF files"] = ([*XARRAY, "-k", "not Zarr"], ["--ingest", "off"], 1200)


def run(arguments, folder, note):
    """Runs a suite with its temporary files in `folder`; answers what it said, and which tests failed."""
    folder.mkdir()
    plugins = ["-p", "outcomes", "-p", "no:cacheprovider", "-o", "asyncio_mode=auto"]
    done = subprocess.run(
        [sys.executable, "-m", "pytest", "-q", "-W", "ignore", *plugins]
        + [f"--rootdir={HERE}", f"--basetemp={folder}/base", *arguments],
        env={
            **os.environ,
            "PYTHONPATH": str(HERE),
            "TMPDIR": str(folder),
            "CONFORMANCE_FAILED": str(note),
            "CONFORMANCE_EXAMPLES": "100" if FULL else "5",
        },
        capture_output=True,
        text=True,
    )
    return done.stdout, set(note.read_text().splitlines())


@pytest.mark.parametrize("suite", SUITES)
def test_a_suite_fares_as_in_a_local_folder(tmp_path, s3_server, suite):
    arguments, options, passing_min = SUITES[suite]
    mount = open_mount("file", tmp_path, s3_server)
    try:
        mount.mount(*options)
        said, failed = run(arguments, mount.path / "t", tmp_path / "failed")
        counts = said.strip().splitlines()[-1]
        print(counts)
        passed = re.search(r"(\d+) passed", counts)
        assert passed and int(passed[1]) >= passing_min, said
        if failed:
            _, failed_too = run(arguments, tmp_path / "t", tmp_path / "failed")
            assert failed - failed_too == set(), said
        mount.umount()
    finally:
        mount.close()
