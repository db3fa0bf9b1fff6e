"""A sample of random sets of files, each compared with what its values say. `make soak-join` runs more."""

import subprocess
import sys
from pathlib import Path

ORACLE = Path(__file__).with_name("oracle.py")


def test_random_files_become_what_their_values_say():
    done = subprocess.run([sys.executable, ORACLE, "--cases", "100", "--mounts", "20"], capture_output=True, text=True)
    assert done.returncode == 0, done.stdout + done.stderr
