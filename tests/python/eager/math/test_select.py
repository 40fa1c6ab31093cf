"""Selecting elements by rank, mask, place and segment, against the CPU."""

import pytest
import torch
from agreement import assert_agreement
from support import COMPLEX, DTYPES, FLOATS, INTEGERS, assert_same, random_tensor

NUMBERS = [*FLOATS, *INTEGERS]


def distinct(*shape, dtype=torch.float32):
    count = int(torch.tensor(shape).prod())
    order = torch.randperm(count, generator=torch.Generator().manual_seed(2))
    return order.view(shape).to(dtype)


@pytest.mark.parametrize("dtype", NUMBERS)
@pytest.mark.parametrize("keepdim", [False, True])
@pytest.mark.parametrize("dim", [0, -1])
def test_kthvalue(device, dim, keepdim, dtype):
    x = distinct(5, 7, dtype=dtype)
    assert_agreement(device, lambda x: x.kthvalue(3, dim, keepdim), x)


def test_kthvalue_of_a_number_and_with_nan(device):
    assert_agreement(device, lambda x: x.kthvalue(1), torch.tensor(2.5), differentiate=False)
    x = torch.tensor([3, float("nan"), 1, 2])
    for k in range(1, 5):
        assert_agreement(device, lambda x, k=k: x.kthvalue(k), x, differentiate=False)
    with pytest.raises(RuntimeError, match="out of range"):
        x.to(device).kthvalue(5)


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("dim", [0, 1])
def test_mode(device, dim, dtype):
    x = random_tensor((6, 9), dtype, low=0, high=4)
    expected, actual = x.mode(dim), x.to(device).mode(dim)
    assert torch.equal(actual.values.cpu(), expected.values)
    at = x.gather(dim, actual.indices.cpu().unsqueeze(dim)).squeeze(dim)
    assert torch.equal(at, expected.values)


@pytest.mark.parametrize("dtype", [*DTYPES, *COMPLEX])
def test_masked_scatter(device, dtype):
    mask = random_tensor((4, 5), torch.bool, seed=3)
    x, source = random_tensor((2, 4, 5), dtype), random_tensor((7, 9), dtype, seed=1)
    if dtype == torch.bool:
        source = ~source
    assert_agreement(
        device,
        lambda x, s: x.masked_scatter(mask.to(x.device), s),
        x,
        source,
        differentiate=dtype.is_floating_point,
    )


def test_masked_scatter_needs_enough_numbers(device):
    mask = torch.ones(3, dtype=torch.bool, device=device)
    with pytest.raises(RuntimeError, match="Number of elements of source"):
        torch.zeros(3, device=device).masked_scatter_(mask, torch.ones(2, device=device))


@pytest.mark.parametrize("reduce", ["prod", "mean", "amax", "amin"])
@pytest.mark.parametrize("include_self", [False, True])
@pytest.mark.parametrize("dim", [0, 1])
def test_index_reduce(device, dim, include_self, reduce):
    index = torch.tensor([2, 0, 2, 1])
    x, source = distinct(3, 3), distinct(4, 4)[:, :3] + 1
    source = source if dim == 0 else source.t().contiguous()
    for dtype in (torch.float32, torch.int64):
        assert_agreement(
            device,
            lambda x, s: x.index_reduce(
                dim, index.to(x.device), s, reduce, include_self=include_self
            ),
            x.to(dtype),
            source.to(dtype),
            tolerance=1e-5,
        )


@pytest.mark.parametrize("dtype", FLOATS)
@pytest.mark.parametrize("initial", [None, 2])
@pytest.mark.parametrize("reduce", ["sum", "mean", "max", "min", "prod"])
def test_segment_reduce(device, reduce, initial, dtype):
    x = (distinct(6, 3) % 5 - 2).to(dtype)
    lengths = torch.tensor([2, 0, 3, 1])
    for axis, given in ((0, lengths), (1, torch.tensor([[1, 2], [0, 3]]))):
        data = x if axis == 0 else x[:2].contiguous()
        assert_agreement(
            device,
            lambda d, a=axis, n=given: torch.segment_reduce(
                d, reduce, lengths=n.to(d.device), axis=a, initial=initial
            ),
            data,
        )
    offsets = torch.tensor([0, 2, 2, 5, 6])
    assert_agreement(
        device,
        lambda d: torch.segment_reduce(
            d, reduce, offsets=offsets.to(d.device), unsafe=True, initial=initial
        ),
        x,
    )


@pytest.mark.parametrize("dtype", NUMBERS)
@pytest.mark.parametrize("right", [False, True])
@pytest.mark.parametrize("out_int32", [False, True])
def test_searchsorted(device, out_int32, right, dtype):
    options = {"right": right, "out_int32": out_int32}
    rows = random_tensor((3, 6), dtype).sort(-1).values
    values = random_tensor((3, 4), dtype, seed=5)
    search = lambda r, v: torch.searchsorted(r, v, **options)  # noqa: E731
    assert_agreement(device, search, rows, values, differentiate=False)
    assert_agreement(device, search, rows[0].clone(), values, differentiate=False)
    bucketize = lambda v, r: torch.bucketize(v, r, **options)  # noqa: E731
    assert_agreement(device, bucketize, values, rows[0].clone(), differentiate=False)
    assert_agreement(device, lambda r: torch.bucketize(2, r, **options), rows[0].clone())


def test_searchsorted_by_a_sorter_and_by_other_types(device):
    row = torch.tensor([3.0, 1.0, 2.0])
    assert_agreement(
        device,
        lambda r, v: torch.searchsorted(r, v, sorter=r.argsort(), side="right"),
        row,
        torch.tensor([1.0, 2.5, float("nan"), float("-inf")]),
        differentiate=False,
    )
    integers = torch.tensor([1, 3, 5])
    assert_agreement(device, lambda i: torch.searchsorted(i, 3.5), integers)
    assert_agreement(
        device, torch.searchsorted, integers, torch.tensor([0.5, 3.5]), differentiate=False
    )


@pytest.mark.parametrize("dtype", [torch.int64, torch.int32])
def test_repeat_interleave(device, dtype):
    repeats = torch.tensor([2, 0, 3, 1], dtype=dtype)
    assert_agreement(device, torch.repeat_interleave, repeats)
    assert_agreement(
        device, lambda x, r: x.repeat_interleave(r, 0, output_size=6), torch.rand(4, 2), repeats
    )
    with pytest.raises(RuntimeError, match="negative"):
        torch.repeat_interleave(torch.tensor([2, -1, 3], device=device))


@pytest.mark.parametrize("offset", [-3, 0, 2])
@pytest.mark.parametrize("shape", [(3, 5), (4, 2), (0, 3)])
@pytest.mark.parametrize("dtype", [torch.int64, torch.int32])
@pytest.mark.parametrize("name", ["tril_indices", "triu_indices"])
def test_indices_of_triangles(device, name, dtype, shape, offset):
    function = getattr(torch, name)
    expected = function(*shape, offset, dtype=dtype)
    actual = function(*shape, offset, dtype=dtype, device=device)
    assert actual.device.type == "ocl" and actual.dtype == dtype
    assert torch.equal(actual.cpu(), expected) and actual.stride() == expected.stride()


@pytest.mark.parametrize("dtype", [*DTYPES, torch.complex64])
def test_channel_shuffle(device, dtype):
    x = random_tensor((2, 6, 3, 2), dtype)
    assert_agreement(device, lambda x: torch.channel_shuffle(x, 3), x, differentiate=False)


@pytest.mark.sample
def test_small(device):
    x = distinct(3, 4)
    mask = torch.tensor([True, False, True, True])
    assert_agreement(device, lambda x: x.kthvalue(2), x)
    assert_agreement(device, lambda x: x.masked_scatter(mask.to(x.device), x * 2), x)
    assert_agreement(
        device, lambda x: torch.searchsorted(x, x[:2]), x[0].sort().values, differentiate=False
    )
    lengths = torch.tensor([2, 1])
    assert_agreement(
        device, lambda x: torch.segment_reduce(x, "max", lengths=lengths.to(x.device)), x
    )
    assert torch.equal(torch.tensor([1, 2, 2], device=device).mode().values.cpu(), torch.tensor(2))


@pytest.mark.filterwarnings("default")
def test_warnings(device):
    rows = torch.arange(6.0, device=device).view(3, 2).t()
    index = torch.zeros(1, dtype=torch.long, device=device)
    torch.set_warn_always(True)
    try:
        with pytest.warns(UserWarning, match="boundary tensor is non-contiguous"):
            torch.searchsorted(rows, torch.ones(2, 1, device=device))
        with pytest.warns(UserWarning, match="is in beta"):
            rows.index_reduce(0, index, rows[:1], "prod")
    finally:
        torch.set_warn_always(False)


@pytest.mark.parametrize("groups", [1, 2, 6])
def test_channel_shuffle_keeps_the_format(device, groups):
    for x in [
        torch.randn(2, 6, 3, 4).to(memory_format=torch.channels_last),
        torch.randn(2, 6, 3, 4),
        torch.randn(0, 6, 3, 4),
        torch.randn(2, 6, 3, 1).expand(2, 6, 3, 4),
    ]:
        for function in (torch.channel_shuffle, torch.native_channel_shuffle):
            assert_same(function(x.to(device), groups), function(x, groups))


def test_channel_shuffle_of_a_view_and_of_a_vector(device):
    x = torch.randn(2, 6, 3, 4)
    reverse = (3, 2, 1, 0)
    for function in (torch.channel_shuffle, torch.native_channel_shuffle):
        moved = x.to(device).permute(reverse).contiguous().permute(reverse)
        assert_same(function(moved, 2), function(x, 2))
        for size in (0, 6):
            with pytest.raises(RuntimeError, match="> 2 dims"):
                function(torch.ones(size, device=device), 2)


def test_masked_scatter_of_nothing_checks_the_mask(device):
    for place in ("cpu", device):
        mask = torch.ones(5, 5, dtype=torch.bool, device=place)
        with pytest.raises(RuntimeError, match="must be greater or equal"):
            torch.ones(0, device=place).masked_scatter_(mask, torch.ones(25, device=place))


@pytest.mark.parametrize("factor", [1, 2])
@pytest.mark.parametrize("name", ["pixel_shuffle", "pixel_unshuffle"])
def test_shuffles_of_pixels_keep_the_format(device, name, factor):
    x = torch.arange(384.0).view(2, 8, 4, 6)
    for format in (torch.contiguous_format, torch.channels_last):
        expected = getattr(torch, name)(x.to(memory_format=format), factor)
        actual = getattr(torch, name)(x.to(device, memory_format=format), factor)
        assert actual.stride() == expected.stride() and torch.equal(actual.cpu(), expected)
    leaf = x.to(device, memory_format=torch.channels_last).requires_grad_()
    getattr(torch, name)(leaf, factor).square().sum().backward()
    assert torch.equal(leaf.grad, 2 * leaf)


@pytest.mark.parametrize("shape", [(2, 6, 3, 2), (0, 6, 3, 2), (2, 0, 3, 2), (2, 6, 0, 2)])
@pytest.mark.parametrize("channels_last", [False, True])
def test_native_channel_shuffle(device, shape, channels_last):
    x = torch.arange(float(torch.Size(shape).numel())).view(shape)
    if channels_last:
        x = x.to(memory_format=torch.channels_last)
    assert_same(torch.native_channel_shuffle(x.to(device), 3), torch.native_channel_shuffle(x, 3))
