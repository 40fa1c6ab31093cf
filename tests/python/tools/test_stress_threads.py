"""Many threads on all devices: a short form of `make stress-threads`, and what it finds."""

import re

import pytest
import torch
from support import ROOT, run_python, skip_in_a_simulator

pytestmark = pytest.mark.skipif(not torch.ocl.is_available(), reason="no OpenCL device is visible")

STRESS = ROOT / "tests" / "stress"


def run_stress(*arguments, change=""):
    """The finished process of threads.py, after a change of its modules."""
    return run_python(
        f"import sys, threading, torch\n"
        f"sys.path.insert(0, {str(STRESS)!r})\n"
        f"import jobs, threads\n{change}\n"
        f"sys.argv[1:] = {arguments!r}\n"
        f"sys.exit(threads.main())"
    )


def test_results_are_those_of_one_thread_and_errors_reach_their_thread():
    skip_in_a_simulator()
    result = run_stress("--threads", "16", "--steps", "6", "--seed", "1")
    assert result.returncode == 0, result.stderr + result.stdout
    assert result.stdout.startswith("96 steps of 16 threads")
    assert re.search("index_(out_of_range|in_a_gradient)", result.stdout)


def test_a_result_that_differs_is_found():
    change = "jobs.JOBS.clear(), jobs.JOBS.update(wrong=lambda *_: [torch.rand(3)])"
    result = run_stress("--threads", "2", "--steps", "100", change=change)
    assert result.returncode == 1 and "differs" in result.stderr, result.stderr


HANG = """
both = threading.Barrier(2)

def hang(worker):
    both.wait()
    worker.stress.watchdog = threads.Watchdog(1)
    threading.Event().wait()

threads.Worker.step = hang
"""


def test_a_hang_shows_the_stacks_of_all_threads():
    result = run_stress("--threads", "2", change=HANG)
    assert result.returncode == 1, result.stderr
    assert "Timeout" in result.stderr and result.stderr.count("in hang") == 2, result.stderr
