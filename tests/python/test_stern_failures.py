"""What a program sees when calls of OpenCL fail: a sample of `make stern-failures`."""

import pathlib

from stern import on_stern

CAMPAIGN = pathlib.Path(__file__).resolve().parents[1] / "failures" / "run.py"


def test_failing_calls():
    """Cases that were wrong once, and some that a seed draws."""
    printed = on_stern(
        "nvidia_ampere",
        str(CAMPAIGN),
        *("--profiles", "nvidia_ampere", "--modes", "warm"),
        *("--scenarios", "tensors", "fallback", "kernels", "--sample", "6", "--seed", "0"),
    )
    assert " 0 defects" in printed.splitlines()[-1], printed
