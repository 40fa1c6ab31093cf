"""Kernels that are compiled ahead."""

import os
import subprocess
import sys

import pytest
import torch
from support import DEADLINE

from torch_ocl import prebuild


def run(folder, device, *arguments):
    """-> the exit status, and a line for each program"""
    command = [sys.executable, "-m", "torch_ocl.prebuild", "--device", str(device), *arguments]
    result = subprocess.run(
        command,
        env={**os.environ, "OCL_CACHE_DIR": str(folder)},
        capture_output=True,
        text=True,
        timeout=DEADLINE,
    )
    return result.returncode, result.stdout.splitlines()[1:-1]


def counts(line):
    """The numbers of "optimizers float32 4 compiled, 22 found"."""
    words = line.replace(",", "").split()
    return int(words[words.index("compiled") - 1]), int(words[words.index("found") - 1])


def test_later_processes_find_the_kernels(tmp_path, device):
    arguments = "--only", "^optimizers|precision", "--dtypes", "float32", "--jobs", "1"
    status, first = run(tmp_path, device, *arguments)
    assert status == 0 and len(first) == 2
    built, found = counts(first[0])
    assert built > 5 and found == 0
    status, second = run(tmp_path, device, *arguments)
    assert status == 0 and counts(second[0]) == (0, built)


def test_a_program_that_fails_is_named(tmp_path, device):
    status, lines = run(tmp_path, device, "--only", "optimizers", "--dtypes", "float32,bool")
    assert status == 1 and len(lines) == 2
    assert "failed" not in lines[0] and "failed: RuntimeError" in lines[1]


@pytest.mark.parametrize(
    "dtype", [torch.float32, pytest.param(torch.bfloat16, marks=pytest.mark.slow)], ids=str
)
@pytest.mark.parametrize("name", prebuild.PROGRAMS)
def test_every_program_runs(device, name, dtype):
    prebuild.PROGRAMS[name](torch.device(device), dtype)
    torch.ocl.synchronize()
