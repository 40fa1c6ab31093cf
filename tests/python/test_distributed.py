"""torch.distributed with the backend "occl": several processes, one device each.

What the ranks do is in distributed_cases.py and distributed_training_cases.py.
"""

import os
import subprocess
import sys
import time

import distributed_cases
import distributed_training_cases
import pytest
import torch
from support import output_of

DEADLINE = 200  # seconds

pytestmark = pytest.mark.skipif(
    not (torch.distributed.is_available() and torch.ocl.is_available()),
    reason="needs torch.distributed and an OpenCL device",
)


def run_ranks(folder, size, cases=(), module=distributed_cases):
    """{rank: (exit status, what it printed)}"""
    processes, outputs = [], []
    environment = {**os.environ, "OCL_FALLBACK": "error"}
    for rank in range(size):
        outputs.append(folder / f"output{rank}")
        with outputs[-1].open("w") as output:
            command = [sys.executable, module.__file__, str(rank), str(size), str(folder), *cases]
            processes.append(
                subprocess.Popen(command, env=environment, stdout=output, stderr=subprocess.STDOUT)
            )
    end = time.monotonic() + DEADLINE
    try:
        for process in processes:
            process.wait(max(0.1, end - time.monotonic()))
    except subprocess.TimeoutExpired:
        pass
    finally:
        for process in processes:
            process.kill()
    return {
        rank: (process.wait(), output.read_text())
        for rank, (process, output) in enumerate(zip(processes, outputs, strict=True))
    }


@pytest.mark.parametrize("size", [2, 4])
@pytest.mark.parametrize("module", [distributed_cases, distributed_training_cases])
def test_cases(tmp_path, module, size):
    """All of a file in one run, since processes take seconds to start."""
    for rank, (status, output) in run_ranks(tmp_path, size, module=module).items():
        left = [case for case in module.CASES if not (tmp_path / f"{case}.{rank}").exists()]
        assert not left, f"rank {rank} of {size}, at {left[0]}:\n{output[-4000:]}"
        assert status == 0, f"rank {rank} of {size} at its end:\n{output[-4000:]}"


def test_killed_peer(tmp_path):
    """The others get an error at once, not a hang, and the device stays usable."""
    started = time.monotonic()
    results = run_ranks(tmp_path, 2, ["killed_peer"])
    assert time.monotonic() - started < distributed_cases.TIMEOUT.total_seconds()
    assert results[0][0] == 0, results[0][1]
    assert results[1][0] != 0


def test_peer_that_never_comes(tmp_path):
    """A collective that one rank does not join ends with the time-out."""
    results = run_ranks(tmp_path, 2, ["late_peer"])
    assert [status for status, _ in results.values()] == [0, 0], results


def test_registered():
    backend = torch.distributed.Backend
    assert backend.backend_capability["occl"] == ["ocl", "cpu"]
    assert backend.default_device_backend_map["ocl"] == "occl"
    assert backend.default_device_backend_map["cpu"] == "gloo"


def test_import_without_opencl():
    """The backend is registered where no OpenCL is, and no process is forked for it."""
    code = """
    import torch
    print("occl" in torch.distributed.Backend.backend_list, torch.ocl.is_initialized())
    """
    assert output_of(code, OCL_ICD_VENDORS="/nonexistent") == "True False"
