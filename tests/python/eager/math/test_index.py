"""Indexing, gathering and scattering against the CPU; sequences, triangles, cat, flip."""

import itertools

import pytest
import torch
import torch.nn.functional as F
from support import DTYPES, FLOATS, has_fp64, output_of, random_tensor, result_of
from traces import profiled

ADDABLE = [torch.float32, torch.float64, torch.float16, torch.bfloat16, torch.int64, torch.int8]


def same(device, function, *tensors, **tolerances):
    """function on the device and on the CPU: values, types and strides."""
    expected = function(*tensors)
    actual = function(*(t.to(device) for t in tensors))
    torch.testing.assert_close(actual.cpu(), expected, **tolerances)
    assert actual.device.type == "ocl"
    assert actual.stride() == expected.stride()


INDEXINGS = [
    lambda x, i, j: x[i],
    lambda x, i, j: x[:, j],
    lambda x, i, j: x[i, j],
    lambda x, i, j: x[i, :, j],
    lambda x, i, j: x[i[:, None], j],
    lambda x, i, j: x[..., j],
    lambda x, i, j: x.transpose(0, 1)[j, 1:],
    lambda x, i, j: x[i.int()],
]


@pytest.mark.parametrize("dtype", DTYPES)
def test_index(device, dtype):
    x = random_tensor((6, 4, 40), dtype)
    i, j = torch.tensor([0, 5, -6, 2, -1]), torch.tensor([3, -4, 1, 1, 0])
    for indexing in INDEXINGS:
        same(device, indexing, x, i, j)


@pytest.mark.parametrize("dtype", DTYPES)
def test_index_put(device, dtype):
    x, i, j = torch.zeros(6, 4, 20).to(dtype), torch.tensor([0, 5, -3]), torch.tensor([3, -4, 1])

    def put(x, values, i, j):
        x = x.clone()
        x[i, j] = values
        x[i, :, 3] = values[:, :1]
        x[4, j] = x[4, j] if x.dtype == torch.bool else x[4, j] + 1
        return x

    same(device, put, x, random_tensor((3, 20), dtype), i, j)


@pytest.mark.parametrize("dtype", [*ADDABLE, torch.bool])
def test_index_put_accumulates(device, dtype):
    x = random_tensor((5, 3, 7), dtype)
    values = random_tensor((60, 7), dtype, seed=1, low=-2, high=3)
    i = torch.randint(0, 5, (60,), generator=torch.Generator().manual_seed(0))

    def put(x, values, i):
        return x.clone().index_put_((i, torch.zeros_like(i)), values, accumulate=True)

    tolerance = {torch.bfloat16: 0.2, torch.float16: 0.02}.get(dtype, 1e-5)
    same(device, put, x, values, i, rtol=tolerance, atol=tolerance * 10)


@pytest.mark.sample
def test_gather_and_scatter(device):
    x = torch.randn(4, 5, 6)
    index = torch.randint(0, 4, (3, 5, 2))
    same(device, lambda x, i: x.gather(0, i), x, index)
    unique = torch.argsort(torch.rand(4, 5, 6), 1)[:, :3]
    same(device, lambda x, i, s: x.scatter(1, i, s), x, unique, torch.randn(4, 5, 6))
    same(device, lambda x, i: x.scatter(1, i, 2.5), x, unique)
    same(device, lambda x, i, s: x.scatter_add(0, i, s), x, index, torch.randn(3, 5, 2))
    same(device, lambda x, i: x.gather(0, i), torch.tensor(3.0), torch.tensor(0))


@pytest.mark.parametrize("dtype", ADDABLE)
@pytest.mark.parametrize("reduce", ["sum", "prod", "amax", "amin"])
def test_scatter_reduce(device, dtype, reduce):
    x, source = random_tensor((3, 9), dtype), random_tensor((3, 9), dtype, seed=1, low=-2, high=3)
    index = torch.randint(0, 9, (3, 9), generator=torch.Generator().manual_seed(0))

    def scatter(x, index, source):
        return x.scatter_reduce(1, index, source, reduce)

    tolerance = {torch.bfloat16: 3e-2, torch.float16: 4e-3}.get(dtype, 1e-5)
    same(device, scatter, x, index, source, rtol=tolerance, atol=tolerance * 10)


@pytest.mark.parametrize("dtype", DTYPES)
def test_index_select_and_its_like(device, dtype):
    x, index = random_tensor((7, 5, 33), dtype), torch.tensor([0, 6, 6, 2])
    for dim in (0, 2):
        same(device, lambda x, i, d=dim: x.index_select(d, i), x, index)
    same(device, lambda x, i: x.t().index_select(0, i), x[:, 0], index)
    same(device, lambda x, i: x.index_fill(0, i, 1), x, index)
    same(device, lambda x, i: x.index_copy(0, i, x[2:5]), x, index[[0, 1, 3]])
    # Two values for one element: in an order of their own.
    tolerance = {torch.bfloat16: 3e-2, torch.float16: 4e-3}.get(dtype, 1e-5)
    same(device, lambda x, i: x.index_add(0, i, x[:4]), x, index, rtol=tolerance, atol=tolerance)
    same(device, lambda x, i: x.take(i * 9 - 5), x, index)


@pytest.mark.parametrize("dtype", FLOATS)
@pytest.mark.parametrize("options", [{}, {"padding_idx": 2}, {"scale_grad_by_freq": True}], ids=str)
def test_embedding(device, dtype, options):
    weight, indices = torch.randn(11, 20).to(dtype), torch.randint(0, 11, (3, 15))
    grad, results = torch.randn(3, 15, 20).to(dtype), []
    for where in ("cpu", device):
        leaf = weight.detach().clone().to(where).requires_grad_()
        y = F.embedding(indices.to(where), leaf, **options)
        y.backward(grad.to(where))
        results.append((y.detach().cpu(), leaf.grad.cpu()))
    tolerance = {torch.bfloat16: 6e-2, torch.float16: 8e-3}.get(dtype, 1e-5)
    for expected, actual in zip(*results):
        torch.testing.assert_close(actual, expected, rtol=tolerance, atol=tolerance)


def test_scaled_gradients_of_frequent_rows():
    """On GPUs the terms, a 10,000th of 0.001, are added in float32."""
    code = """
        import torch
        import torch.nn.functional as F

        weight = torch.zeros(3, 8, dtype=torch.float16, device="ocl", requires_grad=True)
        rows = F.embedding(torch.ones(10000, dtype=torch.int64, device="ocl"), weight,
                           scale_grad_by_freq=True)
        rows.backward(torch.full_like(rows, 1e-3))
        torch.testing.assert_close(
            weight.grad[1].cpu().float(), torch.full((8,), 1e-3), rtol=2e-3, atol=0)
    """
    output_of(code, OCL_KERNEL_FAMILY="gpu")


@pytest.mark.parametrize("dtype", DTYPES)
def test_masked_fill(device, dtype):
    x, mask = random_tensor((5, 1, 9), dtype), torch.rand(5, 1, 1) > 0.5
    same(device, lambda x, m: x.masked_fill(m, 1), x, mask)
    same(device, lambda x, m: x.masked_fill(m, x[0, 0, 0]), x, mask)
    same(device, lambda x, m: x.transpose(0, 2).clone().masked_fill_(m.transpose(0, 2), 0), x, mask)


@pytest.mark.parametrize("dtype", DTYPES)
def test_cat_flip_and_triangles(device, dtype):
    x = random_tensor((3, 4, 18), dtype)
    same(device, lambda x: torch.cat([x, x[:1], x[:0]]), x)
    same(device, lambda x: torch.cat([x, x[..., 1:3], x], -1), x)
    same(device, lambda x: torch.stack([x, x], 1), x)
    same(device, lambda x: torch.cat([x, x.float()], 1), x)
    same(device, lambda x: x.flip(0, 2), x)
    rows = random_tensor((3, 75), dtype)  # more than a vector, and a rest
    same(device, lambda x: x.flip(1), rows)
    same(device, lambda x: x[:, ::2].flip(0, 1), rows)
    for diagonal in (-2, 0, 3):
        same(device, lambda x, d=diagonal: x.tril(d), x)
        same(device, lambda x, d=diagonal: x.transpose(0, 2).triu(d), x)
        same(device, lambda x, d=diagonal: x.clone().transpose(1, 2).tril_(d), x)


CAT_TYPES = [torch.uint8, torch.float16, torch.float32, torch.int64, torch.complex64]
CAT_TYPES.append(torch.complex128)


@pytest.mark.parametrize("dtype", CAT_TYPES, ids=str)
def test_cat_of_many(device, dtype):
    """Contiguous inputs share launches, eight each. Sizes and offsets allow words of several bytes;
    inputs that are not contiguous, of another type or empty come between."""
    x = random_tensor((3, 24, 4), dtype)
    cuts = [0, 8, 8, 9, 12, 13, 14, 15, 16, 17, 18, 24]
    parts = [x[:, a:b].contiguous() for a, b in itertools.pairwise(cuts)]
    there = [part.to(device) for part in parts]
    memory = torch.cat([t.flatten() for t in there])
    at = 0
    for i, part in enumerate(parts):  # views that begin anywhere in one buffer
        there[i] = memory[at : at + part.numel()].view(part.shape)
        at += part.numel()
    assert torch.equal(torch.cat(there, 1).cpu(), x)
    there[4] = there[4].mT.contiguous().mT
    there.insert(2, torch.empty(0, device=device, dtype=dtype))
    assert torch.equal(torch.cat(there, 1).cpu(), x)
    rows = list(x.to(device).flatten(0, 1))
    assert torch.equal(torch.stack(rows).cpu(), x.flatten(0, 1))
    if dtype.is_complex:
        assert torch.equal(torch.cat([t.conj() for t in there], 1).cpu(), x.conj().resolve_conj())
    else:
        assert torch.cat([*there, x[:, :1].to(device, torch.float64)], 1).dtype == torch.float64


def test_launches_of_cat(device, tmp_path):
    tensors = [torch.ones(5, device=device) for _ in range(17)]
    events = profiled(lambda: torch.cat(tensors), tmp_path).on_device
    assert len(events) == 3 and [e["name"] for e in events[:2]] == ["join_rows", "join_rows"]


@pytest.mark.sample
def test_sequences(device):
    for make in (
        lambda d: torch.arange(1000, device=d),
        lambda d: torch.arange(-3, 40, 7, dtype=torch.int16, device=d),
        lambda d: torch.arange(0, 1, 0.001, device=d),
        lambda d: torch.arange(5, 0, -0.5, dtype=torch.bfloat16, device=d),
        lambda d: torch.linspace(-1, 1, 777, device=d),
        lambda d: torch.linspace(0, 50, 18, dtype=torch.int64, device=d),
        lambda d: torch.linspace(3, 4, 1, device=d),
        lambda d: torch.arange(4, 4, device=d),
    ):
        torch.testing.assert_close(make(device).cpu(), make("cpu"))


@pytest.mark.parametrize("dtype", DTYPES)
def test_masks(device, dtype):
    x = random_tensor((5, 6, 70), dtype)
    mask = torch.rand(5, 6, 70, generator=torch.Generator().manual_seed(0)) > 0.7
    same(device, lambda x: x.nonzero(), x)
    same(device, lambda x: x.transpose(0, 2).nonzero(), x)
    same(device, lambda x: (x != x).nonzero(), x)
    same(device, lambda x: x[0, 0, 1].nonzero(), x)
    same(device, lambda x, m: x[m], x, mask)
    same(device, lambda x, m: x[m[..., 0]], x, mask)
    same(device, lambda x, m: x.masked_select(m[:, :1]), x, mask)

    def put(x, mask):
        x = x.clone()
        x[mask] = x[mask].flip(0)
        x[mask[:, 0, 0]] = 1
        return x.put_(torch.tensor([3, -1], device=x.device), x[0, 0, :2].clone())

    same(device, put, x, mask)


@pytest.mark.parametrize("share", [0.001, 0.5, 1])
@pytest.mark.parametrize("count", [1, 1023, 1025, 3 << 10, (4 << 20) + 3])
def test_nonzero_of_shares(device, count, share):
    """The shares of work-groups end within the tensor, and are longer in a large one."""
    same(device, lambda x: x.nonzero(), torch.rand(count) < share)


@pytest.mark.parametrize("dtype", [torch.int64, torch.int8, torch.uint8])
@pytest.mark.parametrize("alpha", [1.5, 2.9])
def test_index_add_of_whole_numbers_takes_a_whole_alpha(device, dtype, alpha):
    x, source, index = (
        torch.ones(4, 3).to(dtype),
        torch.ones(3, 3).to(dtype),
        torch.tensor([2, 0, 2]),
    )
    same(device, lambda x, s, i: x.index_add(0, i, s, alpha=alpha), x, source, index)
    same(device, lambda x, s, i: x[:, 0].index_add(0, i, s[:, 0], alpha=alpha), x, source, index)


MASKS = {
    "whole": lambda m: (m,),
    "rows": lambda m: (m[:, 0],),
    "columns": lambda m: (slice(None), m[0]),
    "host": lambda m: (m.cpu(),),
}


@pytest.mark.parametrize("name", MASKS)
@pytest.mark.parametrize("dtype", DTYPES)
def test_a_mask_takes_a_number_of_any_type(device, dtype, name):
    """A call with a mask and a number is a fill, as on the CPU."""

    def fill(x, mask, number):
        x[MASKS[name](mask)] = number
        return x

    x, mask = random_tensor((3, 4), dtype), torch.arange(12).view(3, 4) % 5 < 2
    for number in (torch.tensor(3), torch.tensor([1.0]), torch.tensor([[True]])):
        same(device, lambda x, m, n: fill(x.clone(), m, n), x, mask, number)
    same(device, lambda x, m: fill(x.clone(), m, 1), x, mask)


@pytest.mark.parametrize(
    "dtype, number",
    [
        (torch.uint8, torch.tensor(300)),
        (torch.int32, torch.tensor(float("inf"))),
        (torch.float16, torch.tensor(1e6)),
        (torch.float32, torch.tensor(1 + 2j)),
        (torch.int64, torch.tensor(2.5)),
    ],
    ids=str,
)
def test_a_mask_takes_no_number_beyond_the_type(device, dtype, number):
    x, mask = torch.zeros(4, dtype=dtype), torch.tensor([True, False, True, False])

    def fill(x, mask, number):
        x = x.clone()
        x[mask] = number
        return x

    expected, error = result_of(fill, x, mask, number)
    actual, our_error = result_of(fill, x.to(device), mask.to(device), number.to(device))
    assert type(our_error) is type(error)
    if expected:
        assert torch.equal(actual[0], expected[0])


def test_a_mask_of_another_device(two_devices):
    first, second = two_devices
    x = torch.zeros(4, device=first)
    with pytest.raises(RuntimeError, match="device"):
        x[torch.ones(4, dtype=torch.bool, device=second)] = 1.0


def test_a_mask_and_a_number_do_not_wait_for_the_device(device):
    """Positions would have to be counted, which a capture refuses."""
    x, mask = torch.zeros(6, device=device), torch.arange(6, device=device) > 3
    graph = torch.ocl.Graph()
    with torch.ocl.graph(graph):
        x[mask] = 2.0
    graph.replay()
    assert x.tolist() == [0, 0, 0, 0, 2, 2]


def test_masks_of_bytes_take_no_number(device):
    with pytest.raises(RuntimeError, match="boolean masks"):
        torch.zeros(3, device=device)[torch.ones(3, dtype=torch.uint8, device=device)] = 1


@pytest.mark.sample
@pytest.mark.parametrize("dtype", [torch.uint8, torch.bfloat16, torch.float32, torch.int64])
@pytest.mark.parametrize("width", [16, 17, 64])
@pytest.mark.parametrize("shift", [0, 1])
def test_rows_at_aligned_and_other_addresses(device, dtype, width, shift):
    """A GPU moves 16 bytes of a row at once where rows begin at multiples of 16 bytes."""
    storage = torch.arange(40 * width + 1) % 101
    rows = storage[shift : shift + 40 * width].view(40, width).to(dtype)
    there = storage.to(device, dtype)[shift : shift + 40 * width].view(40, width)
    index = torch.tensor([39, 0, 7, 7, -1])
    assert torch.equal(there[index.to(device)].cpu(), rows[index])
    index = index.abs()
    assert torch.equal(there.index_select(0, index.to(device)).cpu(), rows.index_select(0, index))
    index = torch.tensor([3, 39, 0])
    values = rows[10:13].clone()
    rows[index], there[index.to(device)] = values, values.to(device)
    assert torch.equal(there.cpu(), rows)
    assert torch.equal(there[:, : width - 1][index.to(device)].cpu(), rows[:, : width - 1][index])


@pytest.mark.parametrize("dtype", [torch.float32, torch.float16, torch.float64])
@pytest.mark.parametrize("rows, size", [(1, 1), (256, 64), (257, 64), (4096, 3), (70_000, 1)])
def test_sorted_writes(device, dtype, rows, size):
    """GPUs sort them by the bits in which their targets differ, and add up blocks of them."""
    if dtype == torch.float64 and not has_fp64(device):
        pytest.skip("the device has no float64")
    index = torch.randint(rows, (5000,))
    index[:3], index[-2:] = rows - 1, 0
    crowded = torch.where(torch.rand(5000) < 0.5, rows // 2, index)
    grad = torch.randint(-3, 4, (5000, size)).to(dtype)
    for chosen in (index, crowded):
        for padding in (rows // 2, -1):  # an index without a gradient, or none
            expected = torch.ops.aten.embedding_dense_backward(grad, chosen, rows, padding, False)
            arguments = grad.to(device), chosen.to(device), rows, padding, False
            actual = torch.ops.aten.embedding_dense_backward(*arguments)
            assert torch.equal(actual.cpu(), expected)
        x = torch.zeros(rows, size, dtype=dtype, device=device)
        last = torch.zeros_like(x)
        torch.use_deterministic_algorithms(True)
        try:
            x.index_put_((chosen.to(device),), grad.to(device), accumulate=True)
            last.index_put_((chosen.to(device),), grad.to(device))
        finally:
            torch.use_deterministic_algorithms(False)
        assert torch.equal(x.cpu(), expected)
        of_cpu = torch.zeros(rows, size, dtype=dtype)
        for i, row in zip(chosen.tolist(), grad, strict=True):
            of_cpu[i] = row
        assert torch.equal(last.cpu(), of_cpu), "the last one of several writes stays"


def test_masked_fill_of_expanded_memory(device):
    """An element is filled where the mask has any of its places: found by tests/fuzz."""
    mask = torch.rand(2, 3, 4, generator=torch.Generator().manual_seed(0)) > 0.6

    def fill(x, mask, value):
        x = x.clone()
        x.expand(2, 3, 4).masked_fill_(mask, value)
        return x

    same(device, lambda x, m: x.expand(5, 0).masked_fill_(m, 7), torch.ones(1, 0), mask[:1, 0, :1])
    for shape in [(3, 1), (1, 4), (2, 1, 1), (1,)]:
        same(device, lambda x, m: fill(x, m, 7), torch.zeros(shape), mask)
        same(device, lambda x, m, v: fill(x, m, v), torch.zeros(shape), mask, torch.tensor(7.0))


@pytest.mark.parametrize(
    "dtype, value",
    [
        (torch.uint8, 300),
        (torch.int64, float("nan")),
        (torch.float16, 1e6),
        (torch.float32, 3 + 0j),
    ],
)
def test_masked_fill_by_an_element_of_another_type(device, dtype, value):
    x, value = torch.tensor([1, 2]).to(dtype), torch.tensor(value)
    mask = torch.tensor([True, False])
    if value.is_complex():
        return same(device, lambda x, m: x.masked_fill(m, value.to(x.device)), x, mask)
    for where in ("cpu", device):
        with pytest.raises(RuntimeError, match="cannot be converted"):
            x.to(where).masked_fill(mask.to(where), value.to(where))


@pytest.mark.parametrize("count", [9, 13, 20])
def test_many_index_tensors(device, count):
    """Index tensors of 32 and 64 bits, for most of the dimensions and for all."""
    torch.manual_seed(0)
    x = torch.randn(2, 3, *[1] * (count - 4), 2, 3)
    indices = [torch.randint(-n, n, (5,)) for n in x.shape]
    indices[1], indices[-1] = indices[1].int(), indices[-1].int()
    same(device, lambda x, *i: x[i], x, *indices)
    same(device, lambda x, *i: x[i[:-1]], x, *indices)

    def put(x, values, *i):
        x = x.clone().index_put_(i, values, accumulate=True)
        x[i[:-1]] = 3
        return x

    same(device, put, x, torch.arange(5.0), *indices)


def test_too_many_index_tensors(device):
    x, i = torch.zeros([1] * 40, device=device), torch.zeros(1, dtype=torch.int64, device=device)
    with pytest.raises(NotImplementedError, match="index tensors"):
        x[(i,) * 40]
