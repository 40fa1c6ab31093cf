"""The search for data races of kernels: Oclgrind, and the tool that runs each kernel there."""

import pathlib
import subprocess
import sys

import pytest
from support import DEADLINE, ROOT, child_environment

OCLGRIND = pathlib.Path("/usr/lib/oclgrind/liboclgrind-rt-icd.so")
STORE = """
import torch
kernel = torch.ocl.compile_kernel("kernel void store(global int *x) {{ x[{place}] = 1; }}")
x = torch.zeros(40, dtype=torch.int32, device="ocl")
kernel.store(x)
torch.ocl.synchronize()
"""


def in_oclgrind(*command):
    if not OCLGRIND.exists():
        pytest.skip("Oclgrind is not installed")
    return subprocess.run(
        [sys.executable, ROOT / "tools/with_runtime.py", "oclgrind", sys.executable, *command],
        env=child_environment(OCLGRIND_UNIFORM_WRITES="1"),
        capture_output=True,
        text=True,
        timeout=DEADLINE,
    )


@pytest.mark.parametrize(
    "place, message",
    [
        ("get_global_id(0)", ""),
        ("0", "Write-write data race"),
        ("get_global_id(0) + 1", "Invalid write of size 4"),
    ],
)
def test_what_oclgrind_reports(place, message):
    """Also where the work-items write the same value, and next to the end of a tensor."""
    result = in_oclgrind("-c", STORE.format(place=place))
    assert message in result.stderr, result.stderr
    assert result.returncode == bool(message), result.stderr


@pytest.mark.parametrize(
    "family, case, kernel",
    [
        ("gpu", "scaler", "amp_unscale"),
        ("cpu", "convolution_broadcast-3", "conv_broadcast of cpu"),  # this kernel once had a race
    ],
)
def test_the_tool_counts_launches_and_names_kernels(family, case, kernel):
    if not OCLGRIND.exists():
        pytest.skip("Oclgrind is not installed")
    tool = ROOT / "tests/kernels/run.py"
    result = subprocess.run(
        [sys.executable, tool, "--family", family, "--", "-k", case],
        env=child_environment(),
        capture_output=True,
        text=True,
        timeout=DEADLINE,
    )
    assert result.returncode == 0, result.stdout + result.stderr
    never = result.stdout.split("never: ")[1].strip().split(", ")
    assert f"{family}: " in result.stdout and "gemm_plain" in never and kernel not in never
