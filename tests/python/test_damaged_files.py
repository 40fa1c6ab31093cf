"""A short form of tests/failures/damaged_files.py."""

import pathlib
import subprocess
import sys

from support import DEADLINE, child_environment

TOOL = pathlib.Path(__file__).resolve().parents[1] / "failures" / "damaged_files.py"


def test_damaged_files_are_not_used(device):
    result = subprocess.run(
        [sys.executable, TOOL, "--every", "60000", "--flips", "1"],
        env=child_environment(),
        capture_output=True,
        text=True,
        timeout=DEADLINE,
    )
    assert result.returncode == 0, result.stdout + result.stderr
