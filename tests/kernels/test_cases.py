"""Each case with three sizes, against the CPU."""

import cases
import convolution_cases
import matrix_cases
import pytest
import torch
from case_support import SIZES, Maker

CASES = cases.CASES + matrix_cases.CASES + convolution_cases.CASES


@pytest.mark.parametrize("size", SIZES)
@pytest.mark.parametrize("case", CASES, ids=lambda case: case.__name__)
def test_case(case, size):
    expected = case(Maker("cpu"), size)
    actual = case(Maker("ocl"), size)
    assert len(actual) == len(expected) > 0
    for a, b in zip(actual, expected, strict=True):
        torch.testing.assert_close(a.cpu(), b, rtol=1e-3, atol=1e-3, equal_nan=True)
