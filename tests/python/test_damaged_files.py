"""A short form of tests/failures/damaged_files.py, and sources in the cache of torch.compile."""

import pathlib
import subprocess
import sys

import pytest
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


@pytest.mark.parametrize("damaged", [b"", b"kernel void f(", b"kernel void f() { int i; }\xff"])
def test_a_damaged_source_is_written_again(fresh_compiler, damaged):
    """PyTorch keeps the file that is there, and it would be built, whatever it is now."""
    from torch_ocl.inductor.runtime import source_file

    source = "kernel void KERNEL_NAME() {}"
    path = pathlib.Path(source_file("f", source))
    path.write_bytes(damaged)
    assert source_file("f", source) == str(path)
    assert path.read_text() == "kernel void f() {}"
