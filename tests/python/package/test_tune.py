"""Choices among kernel variants: made, overruled, kept, and found again by another process."""

import pathlib
import subprocess
import sys

import pytest
import torch

from torch_ocl import _C, tune

SIZES = (150, 70, 600)  # no multiple of any tile, and sums longer than a part of them


def product(device, dtype=torch.float32):
    m, n, k = SIZES
    a, b = torch.randn(m, k).to(dtype), torch.randn(k, n).to(dtype)
    on_device = a.to(device), b.to(device)
    return lambda: on_device[0] @ on_device[1], (a.double() @ b.double())


@pytest.fixture
def problem(device):
    """The choice for a product. Forgets all measurements afterwards."""
    run, _ = product(device)
    _C.forget_tuned()
    run()
    found = _C.last_tuned()
    yield found
    _C.set_tuned(0, found.tunable, found.problem, -1)


@pytest.fixture
def prefer():
    """Prefers an algorithm of products where it applies."""
    yield _C.prefer_gemm_algorithm
    _C.prefer_gemm_algorithm("")


@pytest.mark.parametrize(
    ("dtype", "algorithm"),
    [
        (torch.float32, ""),
        (torch.bfloat16, "cpu_pairs"),
        (torch.bfloat16, "cpu_tiles"),
        (torch.int32, ""),
    ],
    ids=str,
)
def test_every_candidate(device, prefer, dtype, algorithm):
    """A matrix unit would be chosen before others, and has no candidates."""
    run, expected = product(device, dtype)
    prefer(algorithm)
    _C.forget_tuned()
    run()
    problem = _C.last_tuned()
    assert problem.candidates > 1
    ran = 0
    for candidate in range(problem.candidates):
        _C.set_tuned(0, problem.tunable, problem.problem, candidate)
        result = run()
        ran += _C.last_tuned().choice == candidate
        tolerance = {torch.float32: 1e-4, torch.bfloat16: 0.5, torch.int32: 0}[dtype]
        torch.testing.assert_close(
            result.cpu().double(), expected.double(), rtol=1e-2 if tolerance else 0, atol=tolerance
        )
    _C.set_tuned(0, problem.tunable, problem.problem, -1)
    assert ran > 1
    run()
    assert _C.last_tuned().choice == problem.choice


def test_tuner_keeps_a_measured_candidate(device, problem):
    run, _ = product(device)
    found, times, best = tune.tune(run, 0)
    assert (found.tunable, found.problem) == (problem.tunable, problem.problem)
    assert best in times and min(times.values()) > 0
    run()
    assert _C.last_tuned().choice == best
    assert tune.tune(run, 0, {(found.tunable, found.problem)}) is None
    assert tune.tune(lambda: torch.ones(3, device=device), 0) is None


IN_ANOTHER_PROCESS = """
import sys, torch
from torch_ocl import _C
if sys.argv[1] == "keep":
    _C.set_tuned(0, sys.argv[2], int(sys.argv[3]), int(sys.argv[4]))
    print(_C.save_tuned(0))
else:
    (torch.ones(150, 600, device="ocl") @ torch.ones(600, 70, device="ocl")).sum().item()
    print(_C.last_tuned().choice)
"""


def another_candidate(device, problem):
    """One that the device can have, too."""
    run, _ = product(device)
    for candidate in range(problem.candidates):
        _C.set_tuned(0, problem.tunable, problem.problem, candidate)
        run()
        if _C.last_tuned().choice == candidate != problem.choice:
            return str(candidate)
    raise AssertionError(f"{problem.tunable} has no other candidate")


def test_another_process_finds_what_was_kept(device, problem, tmp_path, monkeypatch):
    other = another_candidate(device, problem)

    def run(*arguments, folder):
        monkeypatch.setenv("OCL_CACHE_DIR", str(folder))
        command = [sys.executable, "-c", IN_ANOTHER_PROCESS, *arguments]
        return subprocess.run(command, capture_output=True, text=True)

    kept = run("keep", problem.tunable, str(problem.problem), other, folder=tmp_path)
    assert kept.stdout.startswith(str(tmp_path)), kept.stderr
    # By its name: candidates may move.
    assert (
        not pathlib.Path(kept.stdout.strip()).read_bytes().rstrip().endswith(b" " + other.encode())
    )
    assert run("use", folder=tmp_path).stdout.strip() == other
    assert run("use", folder=tmp_path / "empty").stdout.strip() == str(problem.choice)
    assert "OCL_CACHE_DIR" in run("keep", "gemm_cpu", "1", "1", folder="off").stderr
    # Measured on another processor, as far as it is known.
    monkeypatch.setenv("CL_CONFIG_CPU_TARGET_ARCH", "core-avx2")
    is_cpu = torch.ocl.get_device_properties(device).type == "cpu"
    assert (run("use", folder=tmp_path).stdout.strip() == other) != is_cpu


def test_unknown_names_are_refused():
    with pytest.raises(ValueError, match="'gem'"):
        _C.set_tuned(0, "gem", 1, 0)
    with pytest.raises(ValueError, match="not a 100th"):
        _C.set_tuned(0, "gemm_cpu", 1, 100)


def test_command(device, monkeypatch, tmp_path, capsys):
    """One case, without the file."""
    monkeypatch.setattr(_C, "save_tuned", lambda index: str(tmp_path))
    tune.main(["--only", "product 64x64x64$", "--dtypes", "float32"])
    text = capsys.readouterr().out
    assert "product 64x64x64" in text and "1 choices" in text
    run = lambda: torch.ones(64, 64, device=device) @ torch.ones(64, 64, device=device)  # noqa: E731
    run()
    problem = _C.last_tuned()
    _C.set_tuned(0, problem.tunable, problem.problem, -1)
