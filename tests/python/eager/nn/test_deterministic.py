"""torch.use_deterministic_algorithms: the same bits every time, and no uninitialised memory."""

from functools import partial

import pytest
import torch
import torch.nn.functional as F
from support import HALVES, generator

COUNT = 2000


@pytest.fixture
def deterministic():
    torch.use_deterministic_algorithms(True)
    yield
    torch.use_deterministic_algorithms(False)


def map_to(device, *tensors):
    return [tensor.to(device) for tensor in tensors]


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
    """Adds numbers whose sum depends on the order: the order must be the CPU's."""
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


# More than a work-item of a GPU writes one after another, and more than a block of sorted writes.
MANY = 2300


@pytest.mark.sample
@pytest.mark.parametrize("targets", [1, 40, 5000])
@pytest.mark.parametrize("count", [900, MANY])
@pytest.mark.parametrize(
    "dtype", [torch.int64, torch.float32, torch.float16, torch.bfloat16, torch.bool], ids=str
)
def test_many_sums(device, deterministic, dtype, targets, count):
    if dtype in HALVES:
        targets = max(targets, 40)  # the CPU rounds after each addition
    numbers = generator()
    index = torch.randint(targets, (count,), generator=numbers)
    rows = torch.randint(-9, 9, (count, 3), generator=numbers).to(dtype)
    start = torch.ones(targets, 3, dtype=dtype)

    def results(where):
        i, r, x = index.to(where), rows.to(where), start.to(where)
        wide = i[:, None].expand_as(r)
        return [
            x.index_add(0, i, r),
            x.scatter_add(0, wide, r),
            x[:, 0].scatter_add(0, i, r[:, 1]),
            x.index_put((i,), r, accumulate=True),
            x.scatter_reduce(0, wide, r, "amax", include_self=False),
            x.put(i * 3, r[:, 2], accumulate=True),
            # every column of a row goes to one place
            x.t().contiguous().scatter_add(1, wide.t(), r.t()),
        ]

    actual = results(device)
    for a, e in zip(actual, results("cpu"), strict=True):
        tolerance = {torch.float16: 0.02, torch.bfloat16: 0.2}.get(dtype, 0)
        torch.testing.assert_close(a.cpu(), e, rtol=tolerance, atol=4 * tolerance)
    for a, again in zip(actual, results(device), strict=True):
        assert torch.equal(a, again)


@pytest.mark.sample
@pytest.mark.parametrize("dtype", [torch.float32, torch.int8, torch.complex128], ids=str)
def test_the_last_of_many_writes_stays(device, deterministic, dtype):
    index = torch.randint(70, (MANY,), generator=generator())
    source = (torch.arange(MANY) % 113).to(dtype)
    for kind in (
        lambda x, i, s: x.index_put((i,), s),
        lambda x, i, s: x.scatter(0, i, s),
        lambda x, i, s: x.index_copy(0, i, s),
    ):
        actual = kind(torch.zeros(70, dtype=dtype, device=device), *map_to(device, index, source))
        last = torch.zeros(70, dtype=dtype)
        last[index] = source  # the CPU writes in order
        assert torch.equal(actual.cpu(), last)


def test_rows_that_go_to_one_place(device, deterministic):
    """Work-items of a row would write one element: the last column stays."""
    index = torch.randint(9, (5,), generator=generator())
    source = torch.arange(5 * 700.0).view(5, 700)
    wide = index[:, None].expand_as(source)
    x = torch.zeros(5, 9)
    expected = x.scatter(1, wide, source), x.scatter_add(1, wide, source)
    wide = index.to(device)[:, None].expand_as(source)
    x, source = x.to(device), source.to(device)
    actual = x.scatter(1, wide, source), x.scatter_add(1, wide, source)
    for a, e in zip(actual, expected, strict=True):
        assert torch.equal(a.cpu(), e)


def test_new_memory_is_filled(device, deterministic):
    assert torch.empty(5, device=device).isnan().all()
    assert torch.empty_strided((2, 3), (1, 2), device=device).isnan().all()
    largest = torch.iinfo(torch.int16).max
    x = torch.zeros(2, dtype=torch.int16, device=device).resize_(4)
    assert x.tolist() == [0, 0, largest, largest]


def grid_sample(dims, device):
    image = torch.randn(1, 2, *[4] * dims, device=device, requires_grad=True)
    grid = torch.rand(1, *[30] * dims, dims, device=device)
    return image, partial(F.grid_sample, image, grid, align_corners=True)


def image_op(function, dims, *args, **kwargs):
    def make(device):
        image = torch.randn(2, 3, *[8] * dims, device=device, requires_grad=True)
        return image, partial(function, image, *args, **kwargs)

    return make


def fractional(function, dims):
    def make(device):
        image = torch.randn(2, 3, *[8] * dims, device=device, requires_grad=True)
        samples = torch.rand(2, 3, dims, device=device)
        return image, partial(function, image, 3, 5, _random_samples=samples)

    return make


def nll_loss(device):
    scores = torch.randn(2, 3, 9, 9, device=device, requires_grad=True)
    return scores, partial(F.nll_loss, scores, torch.randint(0, 3, (2, 9, 9), device=device))


def ctc_loss(device):
    scores = torch.randn(50, 3, 15, device=device, requires_grad=True)
    targets = torch.randint(1, 3, (3, 20), device=device)
    return scores, partial(F.ctc_loss, scores, targets, [50] * 3, [20] * 3)


def embedding_bag(device):
    weight = torch.randn(4, 3, device=device, requires_grad=True)
    bags = torch.randint(0, 4, (300, 3), device=device)
    return weight, partial(F.embedding_bag, bags, weight, mode="max")


def median(device):
    x = torch.randint(0, 9, (99, 5), device=device).float().requires_grad_()
    return x, lambda: x.median(0).values


def weighted(function):
    def make(device):
        weights = 10 ** torch.linspace(-6, 6, COUNT, device=device)
        return None, partial(function, torch.randint(0, 3, (COUNT,), device=device), weights)

    return make


def histogram(device):
    return None, partial(torch.histc, torch.rand(COUNT, device=device), 4)


def reduced(reduce):
    def make(device):
        x = torch.rand(3, device=device) + 1
        index = torch.randint(0, 3, (COUNT,), device=device)
        return None, partial(
            x.index_reduce, 0, index, 0.99 + 0.02 * torch.rand(COUNT, device=device), reduce
        )

    return make


# Calls that raise on CUDA according to PyTorch's documentation. None of them raises on the CPU.
IN_ORDER = {
    "grid_sampler_2d": partial(grid_sample, 2),
    "grid_sampler_3d": partial(grid_sample, 3),
    "avg_pool3d": image_op(F.avg_pool3d, 3, 3, 1),
    "adaptive_avg_pool2d": image_op(F.adaptive_avg_pool2d, 2, 3),
    "adaptive_avg_pool3d": image_op(F.adaptive_avg_pool3d, 3, 3),
    "max_pool3d": image_op(F.max_pool3d, 3, 3, 1),
    "adaptive_max_pool2d": image_op(F.adaptive_max_pool2d, 2, 5),
    "adaptive_max_pool3d": image_op(F.adaptive_max_pool3d, 3, 5),
    "fractional_max_pool2d": fractional(F.fractional_max_pool2d, 2),
    "fractional_max_pool3d": fractional(F.fractional_max_pool3d, 3),
    "linear": image_op(F.interpolate, 1, size=12, mode="linear"),
    "bilinear": image_op(F.interpolate, 2, size=12, mode="bilinear"),
    "bicubic": image_op(F.interpolate, 2, size=12, mode="bicubic"),
    "trilinear": image_op(F.interpolate, 3, size=12, mode="trilinear"),
    "reflection_pad1d": image_op(F.pad, 1, [3, 4], mode="reflect"),
    "reflection_pad2d": image_op(F.pad, 2, [3, 4] * 2, mode="reflect"),
    "reflection_pad3d": image_op(F.pad, 3, [3, 4] * 3, mode="reflect"),
    "replication_pad1d": image_op(F.pad, 1, [3, 4], mode="replicate"),
    "replication_pad2d": image_op(F.pad, 2, [3, 4] * 2, mode="replicate"),
    "replication_pad3d": image_op(F.pad, 3, [3, 4] * 3, mode="replicate"),
    "nll_loss2d": nll_loss,
    "ctc_loss": ctc_loss,
    "embedding_bag max": embedding_bag,
    "median with indices": median,
    "bincount with weights": weighted(torch.bincount),
    "histc": histogram,
    "index_reduce prod": reduced("prod"),
    "index_reduce mean": reduced("mean"),
}


@pytest.mark.parametrize("name", IN_ORDER)
@pytest.mark.filterwarnings("ignore:index_reduce")
def test_results_repeat(device, deterministic, name):
    source, call = IN_ORDER[name](device)
    results = []
    for _ in range(4):
        result = call()
        if source is not None:
            gradient = 10 ** torch.linspace(-6, 6, result.numel(), device=device)
            (result,) = torch.autograd.grad(result, source, gradient.view(result.shape))
        results.append(result.cpu())
    assert all(torch.equal(x, results[0]) for x in results)


@pytest.mark.parametrize("dims", [2, 3])
def test_gradient_of_images_in_order(device, deterministic, dims):
    gradients = []
    for where in ("cpu", device):
        torch.manual_seed(0)
        image, grid = torch.randn(2, 3, *[4] * dims), torch.rand(2, *[5] * dims, dims) * 2.4 - 1.2
        image, grid = image.to(where).requires_grad_(), grid.to(where)
        F.grid_sample(image, grid, align_corners=True).pow(2).sum().backward()
        gradients.append(image.grad.cpu())
    torch.testing.assert_close(gradients[1], gradients[0])
