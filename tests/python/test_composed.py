"""Operators made of other operators, against the CPU."""

import pytest
import torch
from support import DTYPES, FLOATS, INTEGERS, assert_same, random_tensor

TOLERANCE = {torch.float32: 1e-5, torch.float64: 1e-12, torch.float16: 4e-3, torch.bfloat16: 3e-2}
NAN = float("nan")


def compare(device, function, *tensors):
    expected = function(*tensors)
    actual = function(*(x.to(device) for x in tensors))
    if isinstance(expected, torch.Tensor):
        expected, actual = (expected,), (actual,)
    for e, a in zip(expected, actual):
        tolerance = TOLERANCE.get(e.dtype, 0)
        assert_same(a, e, exact=False, rtol=tolerance, atol=tolerance)


@pytest.mark.parametrize("dtype", [*DTYPES, torch.complex64])
@pytest.mark.parametrize("shifts,dims", [(1, 0), (-7, 2), (3, ()), ((1, -2), (0, 1)), (0, 1)])
def test_roll(device, shifts, dims, dtype):
    x = random_tensor((3, 4, 5), dtype)
    compare(device, lambda x: x.roll(shifts, dims), x)
    compare(device, lambda x: x.transpose(0, 2).roll(shifts, dims), x)


@pytest.mark.parametrize("dtype", DTYPES)
def test_eye(device, dtype):
    for n, m in [(3, 3), (2, 5), (5, 2), (0, 3)]:
        actual = torch.eye(n, m, dtype=dtype, device=device)
        assert_same(actual, torch.eye(n, m, dtype=dtype))
    out = torch.ones(4, 4, device=device).t()
    torch.eye(3, out=out)
    assert torch.equal(out.cpu(), torch.eye(3))
    with pytest.raises(RuntimeError, match="n must be greater or equal to 0, got -1"):
        torch.eye(-1, device=device)


@pytest.mark.parametrize("dtype", DTYPES)
def test_aminmax(device, dtype):
    x = random_tensor((3, 7, 5), dtype)
    compare(device, torch.aminmax, x)
    for dim in (0, 1, -1):
        for keepdim in (False, True):
            compare(device, lambda x, d=dim, k=keepdim: torch.aminmax(x, dim=d, keepdim=k), x)
    compare(device, lambda x: torch.aminmax(x.transpose(0, 1), dim=1), x)


def test_aminmax_of_not_a_number(device):
    x = torch.tensor([[1.0, NAN, 2.0], [3.0, 4.0, 5.0]])
    compare(device, torch.aminmax, x)
    compare(device, lambda x: torch.aminmax(x, dim=1), x)


@pytest.mark.parametrize("dtype", [*FLOATS, *INTEGERS, torch.complex64])
def test_cross(operator_device, dtype):
    a, b = random_tensor((4, 3, 5), dtype), random_tensor((1, 3, 5), dtype, seed=1)
    tolerance = {torch.float16: 0.2, torch.bfloat16: 1.0, torch.float32: 1e-4}.get(dtype, 1e-4)
    expected = torch.linalg.cross(a, b, dim=-2)
    actual = torch.linalg.cross(a.to(operator_device), b.to(operator_device), dim=-2)
    torch.testing.assert_close(actual.cpu(), expected, rtol=1e-2, atol=tolerance)
    assert actual.stride() == expected.stride()


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64, torch.float16])
@pytest.mark.parametrize("p", [1, 2, 3.5])
def test_renorm(device, p, dtype):
    x = torch.randn(4, 5, 6).to(dtype)
    for dim in range(3):
        compare(device, lambda x, d=dim: torch.renorm(x, p, d, 4.0), x)


@pytest.mark.parametrize("dtype", [*FLOATS, *INTEGERS])
@pytest.mark.parametrize("name", ["median", "nanmedian"])
def test_median(device, name, dtype):
    x = torch.stack([torch.randperm(101) for _ in range(4)]).to(dtype).view(2, 2, 101)
    function = getattr(torch, name)
    compare(device, lambda x: function(x[..., :51]), x)
    for size in (101, 100, 1):
        compare(device, lambda x, s=size: function(x[..., :s], -1).values, x)
        compare(device, lambda x, s=size: function(x.transpose(0, 2)[:s], 0, True).values, x)
    values, indices = function(x.to(device), 2)
    assert torch.equal(x.gather(2, indices.cpu()[..., None])[..., 0], values.cpu())


@pytest.mark.parametrize("name", ["median", "nanmedian"])
def test_median_of_not_a_number(device, name):
    x = torch.tensor([[3, NAN, 1, NAN, 2], [NAN] * 5, [5, 4, 3, 2, 1], [NAN, 1, 2, 3, 4]])
    function = getattr(torch, name)
    compare(device, function, x)
    compare(device, lambda x: function(x, 1).values, x)
    if name == "median":
        compare(device, lambda x: function(x, 1).indices, x)
    compare(device, function, torch.empty(0))
    compare(device, lambda x: function(x, 0), torch.tensor(3.0))
    with pytest.raises(IndexError):
        function(torch.empty(2, 0, device=device), 1)


@pytest.mark.parametrize("function", [torch.median, torch.nanmedian, torch.aminmax])
def test_gradients(device, function):
    x = torch.randperm(20).float().view(4, 5)
    gradients = []
    for where in ("cpu", device):
        leaf = x.clone().to(where).requires_grad_()
        result = function(leaf, dim=1)
        (result[0] * result[0]).sum().backward()
        gradients.append(leaf.grad.cpu())
    assert torch.equal(*gradients)


@pytest.mark.sample
def test_small(device):
    x = torch.randn(3, 5)
    compare(device, lambda x: x.roll(2, 1), x)
    compare(device, torch.aminmax, x)
    compare(device, lambda x: torch.linalg.cross(x, x.flip(1), dim=0), x)
    compare(device, lambda x: x.renorm(2, 0, 1.0), x)
    compare(device, lambda x: x.median(1), x)
    assert torch.equal(torch.eye(3, device=device).cpu(), torch.eye(3))
