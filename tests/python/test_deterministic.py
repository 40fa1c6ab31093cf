"""torch.use_deterministic_algorithms: the same bits every time, and no uninitialised memory."""

from functools import partial

import pytest
import torch
import torch.nn.functional as F

COUNT = 2000


@pytest.fixture
def deterministic():
    torch.use_deterministic_algorithms(True)
    yield
    torch.use_deterministic_algorithms(False)


def accumulate(kind, target, index, source):
    if kind == "index_add":
        return target.index_add(0, index, source)
    if kind == "scatter_add":
        return target.scatter_add(0, index[:, None].expand_as(source), source)
    if kind == "index_put":
        return target.index_put((index,), source, accumulate=True)
    return target.put(index * target.size(1), source[:, 0], accumulate=True)


@pytest.mark.sample
@pytest.mark.parametrize("columns", [1, 4])
@pytest.mark.parametrize("kind", ["index_add", "scatter_add", "index_put", "put"])
def test_sums_are_in_order(device, deterministic, kind, columns):
    """Of numbers whose sum depends on the order: that of the CPU."""
    index = torch.randint(0, 3, (COUNT,))
    source = (
        torch.randn(COUNT, columns) * torch.logspace(-6, 6, COUNT)[torch.randperm(COUNT)][:, None]
    )
    target = torch.zeros(3, columns)
    expected = torch.zeros(3, columns)
    for row, values in zip(index.tolist(), source):
        expected[row] += values
    if kind == "put":
        expected[:, 1:] = 0
    actual = accumulate(kind, target.to(device), index.to(device), source.to(device))
    assert torch.equal(actual.cpu(), expected)


@pytest.mark.sample
def test_the_last_write_stays(device, deterministic):
    index = torch.randint(0, 3, (COUNT,))
    source = torch.randn(COUNT)
    last = torch.stack([source[index == k][-1] for k in range(3)])
    actual = torch.zeros(3, device=device).index_put((index.to(device),), source.to(device))
    assert torch.equal(actual.cpu(), last)


def test_new_memory_is_filled(device, deterministic):
    assert torch.empty(5, device=device).isnan().all()
    assert torch.empty_strided((2, 3), (1, 2), device=device).isnan().all()
    largest = torch.iinfo(torch.int16).max
    x = torch.zeros(2, dtype=torch.int16, device=device).resize_(4)
    assert x.tolist() == [0, 0, largest, largest]


def grid_sample(dims, device):
    image = torch.randn(1, 2, *[4] * dims, device=device, requires_grad=True)
    grid = torch.rand(1, *[3] * dims, dims, device=device)
    return F.grid_sample(image, grid, align_corners=True)


def pool(function, dims, device):
    image = torch.randn(1, 2, *[6] * dims, device=device, requires_grad=True)
    return function(image, 2, 2) if "fractional" in function.__name__ else function(image, 2)


@pytest.mark.parametrize(
    "name,call",
    [
        ("grid_sampler_2d_backward_ocl", partial(grid_sample, 2)),
        ("grid_sampler_3d_backward_ocl", partial(grid_sample, 3)),
        ("fractional_max_pool2d_backward_ocl", partial(pool, F.fractional_max_pool2d, 2)),
        ("fractional_max_pool3d_backward_ocl", partial(pool, F.fractional_max_pool3d, 3)),
        ("max_pool3d_with_indices_backward_ocl", partial(pool, F.max_pool3d, 3)),
        ("adaptive_max_pool3d_backward_ocl", partial(pool, F.adaptive_max_pool3d, 3)),
    ],
)
def test_alerts_name_the_device(device, name, call):
    """PyTorch's names of such operators end in the device's."""
    result = call(device)
    torch.use_deterministic_algorithms(True)
    try:
        with pytest.raises(RuntimeError, match=f"{name} does not have a deterministic"):
            result.sum().backward()
    finally:
        torch.use_deterministic_algorithms(False)
