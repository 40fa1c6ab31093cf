"""How far functions of complex64 are from the exact results (tests/accuracy), on a few numbers."""

import complex_functions
import pytest
import torch

NAMES = ["exp", "log", "sqrt", "sin", "tanh", "asin", "acosh", "atanh", "div", "pow"]


@pytest.mark.parametrize("name", NAMES)
def test_distance(device, name):
    arguments = complex_functions.arguments_of(name, 2000)
    row = complex_functions.measure(name, arguments, device)
    assert row["ocl"]["ulp"] <= max(6, 1.5 * row["cpu"]["ulp"]), row


def test_distance_is_of_lengths():
    exact = torch.tensor([3 + 4j, 1e-45j, complex("inf"), 3e38 + 3e38j], dtype=torch.complex128)
    actual = torch.tensor([3 + 4j + 2**-21, 0, 1, 1], dtype=torch.complex64)
    distance = complex_functions.distance(actual, exact)
    assert distance[0] == 1 and abs(distance[1] - 1e-45 * 2**149) < 1e-3
    assert distance[2:].isnan().all()
