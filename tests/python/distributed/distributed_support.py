"""Helpers for the cases of test_distributed.py."""

import datetime

import torch

CASES = {}
LAST_CASES = {}
TIMEOUT = datetime.timedelta(seconds=300)


def case(function):
    """A function of rank and size, which runs on each rank."""
    CASES[function.__name__] = function
    return function


def last_case(function):
    """A case after which no group is left for other cases; runs alone."""
    LAST_CASES[function.__name__] = function
    return function


def numbers(rank, shape=(3, 5), dtype=torch.float32):
    """A rank's contribution, on the CPU; all ranks know it. Sums are exact in every type."""
    generator = torch.Generator().manual_seed(rank + 1)
    return torch.randint(1, 9, shape, generator=generator).to(dtype)


def same(actual, expected, device="ocl"):
    assert actual.device.type == device, actual.device
    torch.testing.assert_close(actual.cpu(), expected, rtol=0, atol=0)


def close(actual, expected, rtol=1e-4, atol=1e-5):
    torch.testing.assert_close(actual.cpu(), expected.cpu(), rtol=rtol, atol=atol)


def fails(function, text):
    try:
        function()
    except RuntimeError as error:
        assert text in str(error), error
    else:
        raise AssertionError("no error")


def random(*shape):
    return torch.randn(shape, generator=torch.Generator().manual_seed(len(shape))).to("ocl")


def network():
    torch.manual_seed(5)
    return torch.nn.Sequential(
        torch.nn.Conv2d(3, 8, 3, padding=1),
        torch.nn.BatchNorm2d(8).eval(),
        torch.nn.ReLU(),
        torch.nn.Flatten(),
        torch.nn.Linear(8 * 36, 64),
        torch.nn.ReLU(),
        torch.nn.Linear(64, 10),
    ).to("ocl")


def train(model, images, labels, steps):
    optimizer = torch.optim.SGD(model.parameters(), lr=0.05, momentum=0.9)
    for _ in range(steps):
        optimizer.zero_grad()
        torch.nn.functional.cross_entropy(model(images), labels).backward()
        optimizer.step()
