"""tests/bench runs, and writes what docs/performance.md is made of."""

import json
import subprocess
import sys

import pytest
from support import DEADLINE, ROOT

BENCH = ROOT / "tests" / "bench"


def rows_of_table(program, *arguments):
    """-> the cells of each row below the head of the table that a program prints"""
    pytest.importorskip("transformers", reason="the model is one of the package transformers")
    command = [sys.executable, BENCH / program, "--size", "small", "--rounds", "1", *arguments]
    result = subprocess.run(command, check=True, capture_output=True, text=True, timeout=DEADLINE)
    _, _, *rows = result.stdout.splitlines()
    return [[cell.strip() for cell in row.strip("|").split("|")] for row in rows]


@pytest.mark.slow
def test_language():
    arguments = "--types", "int8,int4", "--tokens", "64", "--prompt", "16"
    cells = rows_of_table("language.py", *arguments)
    assert [row[0] for row in cells] == ["int8", "int4"]
    assert all(float(rate) > 0 for row in cells for way in row[1:4] for rate in way.split(";"))


@pytest.mark.slow
def test_fine_tuning():
    arguments = "--ways", "full", "--optimizer", "adamw", "--tokens", "16"
    [[way, *numbers]] = rows_of_table("fine_tuning.py", *arguments)
    assert way == "full" and all(float(number) > 0 for number in numbers)


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
