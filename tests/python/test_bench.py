"""tests/bench runs, and writes what docs/performance.md is made of."""

import json
import pathlib
import subprocess
import sys

import pytest
from support import DEADLINE

BENCH = pathlib.Path(__file__).parents[1] / "bench"


@pytest.mark.slow
def test_bench(tmp_path):
    found = tmp_path / "found.json"
    command = [sys.executable, BENCH / "bench.py", "--only", "^Adam", "--rounds", "1"]
    command += ["--json", found, "--plot", tmp_path / "roofline.png"]
    printed = subprocess.run(
        command, check=True, capture_output=True, text=True, timeout=DEADLINE
    ).stdout
    results = json.loads(found.read_text())
    case = results["cases"]["Adam step 1M"]
    assert case["ratio"] == pytest.approx(case["ocl_ms"] / case["reference_ms"])
    assert all(results["limits"][kind] > 0 for kind in ("flops", "bytes"))
    assert "Adam step 1M" in printed
    assert (tmp_path / "roofline.png").stat().st_size > 1000
