"""Reductions against the CPU, over each dimension, several, and all."""

import pytest
import torch
from support import name_of, random_tensor

NAMES = [
    "sum",
    "mean",
    "prod",
    "all",
    "any",
    "amax",
    "amin",
    "argmax",
    "argmin",
    "max",
    "min",
    "nansum",
    "norm",
]
SHAPES = [(5,), (33, 65), (7, 30), (4, 5, 6), (2000, 64), ()]
DTYPES = [torch.float32, torch.float64, torch.bfloat16, torch.int64, torch.bool]


@pytest.mark.parametrize("dtype", DTYPES, ids=name_of)
@pytest.mark.parametrize("name", NAMES)
def test_reduction(device, name, dtype):
    compared = 0
    for shape in SHAPES:
        x = random_tensor(shape, dtype, low=-2, high=2)
        for tensor in (x, x.mT.contiguous().mT if x.dim() > 1 else x):
            for arguments in [(), *((d, k) for d in range(x.dim()) for k in (False, True))]:
                if name == "norm" and arguments:
                    arguments = (2, *arguments)
                try:
                    expected = getattr(tensor, name)(*arguments)
                except (RuntimeError, NotImplementedError):
                    continue  # the CPU refuses this type
                actual = getattr(tensor.to(device), name)(*arguments)
                if isinstance(expected, torch.Tensor):
                    expected, actual = (expected,), (actual,)
                for e, a in zip(expected, actual):
                    assert (a.dtype, a.shape) == (e.dtype, e.shape)
                    # The CPU rounds partial products to bfloat16, eight bits, on the way.
                    loose = 5e-2 if dtype == torch.bfloat16 else 1e-4
                    torch.testing.assert_close(a.cpu(), e, rtol=loose, atol=loose)
                    compared += 1
    assert compared or dtype in (torch.int64, torch.bool)


@pytest.mark.sample
@pytest.mark.parametrize("name", ["sum", "amax", "any", "argmax", "max", "norm"])
def test_sample(device, name):
    test_reduction(device, name, torch.float32)


def test_equal(operator_device):
    """torch.equal: one answer; NaN differs from itself unless it is the same tensor."""
    x = torch.randn(300, 7)
    on_device = x.to(operator_device)
    assert torch.equal(on_device, x.to(operator_device))
    assert torch.equal(on_device.t(), x.to(operator_device).t())
    assert not torch.equal(on_device, on_device[:299])
    x[299, 6] = float("nan")
    assert not torch.equal(on_device, x.to(operator_device))
    assert not torch.equal(x.to(operator_device), x.to(operator_device))
    assert torch.equal(
        torch.empty(0, device=operator_device), torch.empty(0, device=operator_device)
    )
    assert torch.equal(on_device[:1, :1] * 0, torch.zeros(1, 1, device=operator_device).long())


@pytest.mark.parametrize("name", ["max", "min"])
def test_extremes_of_many_dimensions(device, name):
    """More than a kernel takes, unless they are joined."""
    x = torch.randn(2, 3, 2)
    for shape, dim in [
        ((1,) * 28 + (2, 3, 2), 29),
        ((2,) + (1,) * 40 + (3, 2), 41),
        ((1,) * 30, 3),
    ]:
        y = x.reshape(shape) if 2 in shape else x[:1, :1, :1].reshape(shape)
        for expected, actual in zip(
            getattr(y, name)(dim), getattr(y.to(device), name)(dim), strict=True
        ):
            assert torch.equal(actual.cpu(), expected)
    y = x[:, :1, :1].expand(2, 3, 2).movedim(2, 0)
    for dim in range(3):
        expected = getattr(y, name)(dim).values
        assert torch.equal(getattr(y.to(device), name)(dim).values.cpu(), expected)
    joined = torch.zeros((2,) * 17, device=device).movedim(0, 8)
    assert getattr(joined, name)(8).values.shape == (2,) * 16
    with pytest.raises(RuntimeError, match="that cannot be joined"):
        separate = torch.zeros(11, device=device).as_strided((2,) * 20, (0, 1) * 10)
        getattr(separate, name)(0)


@pytest.mark.parametrize(
    "shape,dim",
    [((1 << 24,), 0), ((1 << 21, 3), 0), ((2, 1 << 21), 1), ((1 << 19, 5, 2), (0, 1))],
    ids=str,
)
def test_means_of_many_equal_numbers(device, shape, dim):
    """A sum is not so far above its elements that their last digits are lost."""
    mean = torch.full(shape, 0.1, device=device).mean(dim).cpu()
    torch.testing.assert_close(mean, torch.full_like(mean, 0.1), rtol=2e-5, atol=0)


@pytest.mark.parametrize("dim", [0, 1])
def test_every_length_around_a_loop_of_four(device, dim):
    """Work-items of GPUs share a row, and load four elements at a time; the last ones are left."""
    for length in [*range(1, 19), 63, 65, 1023, 1030]:
        x = torch.arange(37 * length, dtype=torch.int64).view(37, length)
        tensor = x if dim == 1 else x.t().contiguous()
        torch.testing.assert_close(tensor.to(device).sum(dim).cpu(), tensor.sum(dim))
        torch.testing.assert_close(tensor.to(device).amin(dim).cpu(), tensor.amin(dim))


@pytest.mark.parametrize("dtype", [torch.float32, torch.int32, torch.float16])
def test_positions_in_long_rows(device, dtype):
    """Their parts are joined, by work-groups on GPUs: the first of equal elements, NaN before."""
    x = (torch.randn(2, 300_001) * 3).to(torch.int8).to(dtype)
    for row in (x, x.t().contiguous().t()):
        for name in ("argmax", "argmin"):
            expected = getattr(row, name)(1)
            assert torch.equal(getattr(row.to(device), name)(1).cpu(), expected)
            assert getattr(row.to(device), name)().item() == getattr(row, name)().item()
    if dtype.is_floating_point:
        x[1, [200_000, 299_999]] = float("nan")
        assert x.to(device).argmax(1)[1].item() == x.to(device).argmin(1)[1].item() == 200_000
    values, positions = x.to(device).max(1)
    expected = x.max(1)
    assert torch.equal(positions.cpu(), expected.indices)
    torch.testing.assert_close(values.cpu(), expected.values, equal_nan=True)


@pytest.mark.parametrize("dtype", [torch.bool, torch.uint8, torch.int8, torch.int16, torch.int32])
def test_sums_of_small_integers(device, dtype):
    x = random_tensor((3, 700, 70), dtype, low=-100, high=100)
    for tensor in (x, x.mT, x[:, ::3], x[:0], x[0, 0, 0]):
        for arguments in [(), (0,), (-1,), ((0, -1), True)]:
            if tensor.dim() == 0 and arguments:
                continue
            expected = tensor.sum(*arguments)
            actual = tensor.to(device).sum(*arguments)
            assert actual.dtype == expected.dtype and torch.equal(actual.cpu(), expected)
            if len(arguments) < 2:
                expected = tensor.count_nonzero(*arguments)
                actual = tensor.to(device).count_nonzero(*arguments)
                assert actual.dtype == expected.dtype and torch.equal(actual.cpu(), expected)
    for other in (torch.int8, torch.int32, torch.float32, torch.bool):
        expected = x.sum(0, dtype=other)
        assert torch.equal(x.to(device).sum(0, dtype=other).cpu(), expected)


@pytest.mark.parametrize("function", [torch.sum, torch.count_nonzero])
@pytest.mark.parametrize("dtype", [torch.bool, torch.uint8])
def test_memory_of_sums_of_small_integers(device, function, dtype):
    """Without a copy of eight bytes for each element."""
    x = torch.ones(1 << 20, dtype=dtype, device=device)
    function(x)
    before = torch.ocl.memory_allocated(device)
    torch.ocl.reset_peak_memory_stats(device)
    assert function(x).item() == 1 << 20
    assert torch.ocl.max_memory_allocated(device) - before < 1 << 18


@pytest.mark.parametrize("shape", [(2, 3), (4,), (), (2, 1, 3)])
def test_aminmax_of_all_keeps_dimensions(device, shape):
    x = torch.randn(shape)
    for keepdim in (False, True):
        expected, actual = (torch.aminmax(t, keepdim=keepdim) for t in (x, x.to(device)))
        for a, e in zip(actual, expected):
            assert a.shape == e.shape and torch.equal(a.cpu(), e)
