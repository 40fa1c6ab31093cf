"""Short forms of sweeps in tests/failures, and sources in the cache of torch.compile."""

import pathlib
import subprocess
import sys

import pytest
from support import DEADLINE, ROOT, child_environment

FAILURES = ROOT / "tests" / "failures"
SWEEPS = {
    "damaged_files.py": ["--every", "60000", "--flips", "1"],
    "mutated_files.py": ["--sample", "3"],
    "variables.py": ["--variables", "OCL_TIMEOUT", "OCL_MEMORY_MB", "--values", "7", "8"],
}


@pytest.mark.parametrize("sweep", SWEEPS)
def test_sample_of_a_sweep(device, sweep):
    result = subprocess.run(
        [sys.executable, FAILURES / sweep, *SWEEPS[sweep]],
        env=child_environment() | {"OCL_FALLBACK": "allow"},
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
