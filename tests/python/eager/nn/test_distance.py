"""cdist and pdist against the CPU."""

import pytest
import torch
from support import needs_refused_operators

NORMS = [0, 0.5, 1, 1.5, 2, 3, float("inf")]
SHAPES = [((5, 7), (6, 7)), ((2, 1, 5, 3), (4, 6, 3)), ((3, 30, 40), (3, 2, 40)), ((4, 1), (3, 1))]


def compare(device, function, *tensors, tolerance=1e-5):
    gradient, results = None, []
    for where in ("cpu", device):
        leaves = [x.detach().clone().to(where).requires_grad_() for x in tensors]
        y = function(*leaves)
        gradient = torch.randn_like(y) if gradient is None else gradient
        y.backward(gradient.to(where))
        results.append([y.detach().cpu(), *(leaf.grad.cpu() for leaf in leaves)])
    for expected, actual in zip(*results):
        torch.testing.assert_close(actual, expected, rtol=tolerance, atol=tolerance)


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
@pytest.mark.parametrize("p", NORMS)
@pytest.mark.parametrize("shapes", SHAPES, ids=str)
def test_cdist(device, shapes, p, dtype):
    tensors = [torch.randn(shape, dtype=dtype) for shape in shapes]
    mode = "donot_use_mm_for_euclid_dist"
    tolerance = 1e-4 if dtype == torch.float32 else 1e-10
    compare(
        device,
        lambda a, b: torch.cdist(a, b, p=p, compute_mode=mode),
        *tensors,
        tolerance=tolerance,
    )


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
@pytest.mark.parametrize("p", NORMS)
@pytest.mark.parametrize("shape", [(6, 5), (2, 3), (40, 9)])
def test_pdist(operator_device, shape, p, dtype):
    tolerance = 1e-4 if dtype == torch.float32 else 1e-10
    compare(
        operator_device,
        lambda x: torch.pdist(x, p=p),
        torch.randn(shape, dtype=dtype),
        tolerance=tolerance,
    )


@pytest.mark.parametrize("p", NORMS)
def test_equal_rows(device, p):
    """Where the norm has no derivative, the gradient is 0, as on the CPU."""
    x = torch.randn(3, 4).repeat(2, 1)
    compare(device, lambda x: torch.pdist(x, p=p), x, tolerance=1e-4)
    mode = "donot_use_mm_for_euclid_dist"
    compare(
        device, lambda a, b: torch.cdist(a, b, p=p, compute_mode=mode), x, x[:4], tolerance=1e-4
    )


def test_strided_and_empty(device):
    x, y = torch.randn(7, 5).t(), torch.randn(4, 14)[:, ::2]
    compare(device, lambda a, b: torch.cdist(a, b, p=1), x, y)
    empty = torch.cdist(torch.empty(0, 3, device=device), torch.empty(2, 3, device=device), p=1)
    assert empty.shape == (0, 2)


@needs_refused_operators
@pytest.mark.sample
@pytest.mark.parametrize("p", [1, 2, 3])
def test_small(device, p):
    compare(device, lambda x: torch.pdist(x, p=p), torch.randn(5, 6), tolerance=1e-4)
    x, y = torch.randn(3, 6), torch.randn(4, 6)
    compare(device, lambda a, b: torch.cdist(a, b, p=p), x, y, tolerance=1e-4)
