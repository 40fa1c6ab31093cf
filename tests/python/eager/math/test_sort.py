"""sort, topk and randperm."""

import pytest
import torch
from support import DTYPES, generator, output_of, random_tensor

SIZES = [1, 2, 63, 64, 65, 1000, 20_000]


def check_order(x, values, indices, dim, descending):
    """Values as on CPU, NaN included; indices lead to them, equal elements in their old order."""
    expected = torch.sort(x, dim=dim, descending=descending, stable=True)
    torch.testing.assert_close(values.cpu(), expected.values, equal_nan=True, rtol=0, atol=0)
    assert torch.equal(indices.cpu(), expected.indices)


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("descending", [False, True])
def test_sort(device, dtype, descending):
    for size in SIZES:
        x = random_tensor((3, size), dtype)
        result = torch.sort(x.to(device), dim=-1, descending=descending, stable=True)
        check_order(x, *result, -1, descending)


@pytest.mark.sample
@pytest.mark.parametrize("size", [40, 300])
def test_sort_special_values(device, size):
    special = [float("nan"), float("inf"), float("-inf"), 0.0, -0.0, 1e-40, -1e-40, 3.4e38]
    x = torch.tensor(special)[torch.randint(0, len(special), (size,), generator=generator())]
    x[3] = torch.tensor([-1], dtype=torch.int32).view(torch.float32)  # a NaN with its sign set
    for descending in (False, True):
        result = torch.sort(x.to(device), dim=0, descending=descending, stable=True)
        check_order(x, *result, 0, descending)
    extremes = torch.tensor([2**63 - 1, -(2**63), 0, -1, 1])[torch.randint(0, 5, (size,))]
    check_order(extremes, *torch.sort(extremes.to(device), stable=True), 0, False)


@pytest.mark.parametrize("dtype", [torch.uint8, torch.float32, torch.int64])
@pytest.mark.parametrize("tile", [512, 1024, 2048])
def test_sort_around_tiles(device, tile, dtype):
    """A work-group of a GPU sorts a tile. Equal elements keep their order across tiles, too."""
    for size in (tile - 1, tile, tile + 1, 2 * tile, 3 * tile + 1):
        few_values = random_tensor((3, size), torch.uint8, seed=size, high=3).to(dtype)
        check_order(few_values, *torch.sort(few_values.to(device), stable=True), 1, False)
    falling = torch.arange(3 * tile + 1).flip(0) // 3
    check_order(falling, *torch.sort(falling.to(device), stable=True), 0, False)


@pytest.mark.parametrize("descending", [False, True])
def test_sort_many_tiles(device, descending):
    x = random_tensor((140_001,), torch.float32, low=-40, high=40)
    x[::1000], x[1::1000], x[2::1000] = float("nan"), -0.0, float("-inf")
    x[-5000:] = 1.0
    result = torch.sort(x.to(device), descending=descending, stable=True)
    check_order(x, *result, 0, descending)
    all_equal = torch.full((140_001,), 7, dtype=torch.uint8)
    _, indices = torch.sort(all_equal.to(device), descending=descending, stable=True)
    assert torch.equal(indices.cpu(), torch.arange(140_001))


@pytest.mark.parametrize("shape", [(1, 1), (4097, 1), (70_001, 3), (1000, 5), (77, 100), (9, 257)])
def test_sort_many_rows(device, shape):
    """Several short rows are in one tile."""
    for dtype in (torch.int8, torch.float32):
        x = random_tensor(shape, torch.int8, low=-2, high=2).to(dtype)
        check_order(x, *torch.sort(x.to(device), stable=True), 1, False)
        x = x.t()  # rows that are not contiguous
        check_order(x, *torch.sort(x.to(device), dim=0, stable=True), 0, False)


@pytest.mark.parametrize("size, launches", [(2, 1), (300, 1), (3000, 12)])
def test_sort_launches_on_gpus(size, launches):
    """A short row takes one launch; a long one three for each 8 bits of the elements."""
    code = f"""
        import torch
        import torch_ocl._C as _C
        x = torch.randn(4, {size}, device="ocl")
        before = _C.launch_count()
        x.sort(stable=True)
        print(_C.launch_count() - before)
    """
    assert int(output_of(code, OCL_KERNEL_FAMILY="gpu").split()[-1]) == launches


@pytest.mark.parametrize("dim", [0, 1, 2])
def test_sort_dimensions_and_outputs(operator_device, dim):
    x = torch.randn(70, 5, 80)
    on_device = x.to(operator_device)
    check_order(x, *torch.sort(on_device, dim=dim, stable=True), dim, False)
    part = torch.sort(on_device[::2, :, 3:], dim=dim, stable=True)
    check_order(x[::2, :, 3:], *part, dim, False)
    values = torch.empty(80, 70, 5, device=operator_device).permute(1, 2, 0)
    indices = torch.empty(70, 5, 80, dtype=torch.int64, device=operator_device)
    torch.sort(on_device, dim=dim, stable=True, out=(values, indices))
    check_order(x, values, indices, dim, False)
    assert torch.equal(torch.argsort(on_device, dim=dim, stable=True).cpu(), indices.cpu())
    assert torch.sort(torch.empty(3, 0, device=operator_device)).values.shape == (3, 0)
    assert torch.sort(torch.tensor(2.0, device=operator_device)).indices.item() == 0


@pytest.mark.parametrize("size", [5, 300, 9000])
@pytest.mark.parametrize("shape", [(1,), (7,)], ids=str)
def test_sort_into_its_argument(device, shape, size):
    x = torch.randn(*shape, size)
    expected = torch.sort(x, stable=True)
    actual, indices = x.to(device), torch.empty(0, dtype=torch.int64, device=device)
    torch.sort(actual, stable=True, out=(actual, indices))
    assert torch.equal(actual.cpu(), expected.values)
    assert torch.equal(indices.cpu(), expected.indices)
    actual = x.t().to(device)
    assert torch.equal(torch.msort(actual, out=actual).cpu(), expected.values.t())
    numbers = (x * 9).long()
    expected = torch.sort(numbers, stable=True)
    actual, values = numbers.to(device), torch.empty(0, dtype=torch.int64, device=device)
    torch.sort(actual, stable=True, out=(values, actual))
    assert torch.equal(values.cpu(), expected.values)
    assert torch.equal(actual.cpu(), expected.indices)


@pytest.mark.sample
@pytest.mark.parametrize("largest", [True, False])
def test_topk(device, largest):
    for shape, dim in [((300,), 0), ((6, 200), 1), ((200, 6), 0)]:
        x = torch.randn(shape)
        expected = torch.topk(x, 7, dim, largest)
        actual = torch.topk(x.to(device), 7, dim, largest)
        torch.testing.assert_close(actual.values.cpu(), expected.values)
        assert torch.equal(actual.indices.cpu(), expected.indices)
    with pytest.raises(RuntimeError, match="out of range"):
        torch.topk(torch.ones(3, device=device), 4)


@pytest.mark.parametrize("largest", [True, False])
@pytest.mark.parametrize(
    "dtype", [torch.float32, torch.float16, torch.float64, torch.int64, torch.uint8]
)
def test_topk_of_many(device, dtype, largest):
    """Few of many: without sorting. Long rows have several chunks; the last row has few values."""
    shapes = [((50_000,), 0, 1), ((3, 30_001), 1, 100), ((2000, 9), 0, 200), ((200_003,), 0, 128)]
    for shape, dim, k in [*shapes, ((2, 70_000), 1, 513), ((40_000,), 0, 300)]:
        x = (torch.randn(shape) * (1 if k == 300 else 50)).to(dtype)
        if k == 300:
            x = x.to(torch.int8).to(dtype)
        if dtype.is_floating_point:
            x.view(-1)[[7, 11]] = torch.tensor([float("nan"), -float("inf")], dtype=dtype)
        order = torch.sort(x, dim=dim, descending=largest, stable=True)
        values, indices = torch.topk(x.to(device), k, dim, largest)
        expected = order.values.narrow(dim, 0, k), order.indices.narrow(dim, 0, k)
        torch.testing.assert_close(values.cpu(), expected[0], rtol=0, atol=0, equal_nan=True)
        assert torch.equal(indices.cpu(), expected[1]), "of equal elements, the first ones"
    rising = torch.arange(100_000, dtype=torch.float32, device=device)
    assert torch.topk(rising, 3).indices.tolist() == [99_999, 99_998, 99_997]


@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.int16, torch.int64])
def test_topk_of_equal_elements(device, dtype):
    """More of them than a work-group sorts, at the end of a long row; extremes; both zeros."""
    x = torch.zeros(3, 60_000, dtype=dtype)
    x[:, 50_000:] = 1
    if dtype.is_floating_point:
        x[1, [3, 59_999]] = torch.tensor([float("inf"), float("nan")], dtype=dtype)
        x[2, ::2] *= -1
    else:
        x[1, [3, 59_999]] = torch.tensor([torch.iinfo(dtype).min, torch.iinfo(dtype).max]).to(dtype)
    for largest in (True, False):
        order = torch.sort(x, dim=1, descending=largest, stable=True)
        values, indices = torch.topk(x.to(device), 300, 1, largest)
        assert torch.equal(indices.cpu(), order.indices[:, :300])
        expected = order.values[:, :300]
        torch.testing.assert_close(values.cpu(), expected, rtol=0, atol=0, equal_nan=True)


@pytest.mark.parametrize("size", [50_001, 65_535, 200_003])
def test_topk_at_the_ends_of_rows(device, size):
    """Sizes that chunks do not divide: the last chunks end at the end of the row."""
    x = torch.arange(size, dtype=torch.float32, device=device)
    for largest, expected in ((True, range(size - 1, size - 6, -1)), (False, range(5))):
        values, indices = torch.topk(x, 5, largest=largest)
        assert indices.tolist() == values.tolist() == [*expected]


def test_topk_refuses_results_in_its_input(device):
    for where in ("cpu", device):
        x = torch.randn(8000, device=where)
        indices = torch.empty(300, dtype=torch.int64, device=where)
        with pytest.raises(RuntimeError, match="refer to a single memory location"):
            torch.topk(x, 300, out=(x[:300], indices))


def test_gradient(device):
    x = torch.randn(5, 90)
    grads = []
    for where in ("cpu", device):
        leaf = x.clone().to(where).requires_grad_()
        values, _ = torch.sort(leaf, 1)
        (values * torch.arange(90.0, device=where)).sum().backward()
        grads.append(leaf.grad.cpu())
    torch.testing.assert_close(grads[1], grads[0])


@pytest.mark.sample
def test_randperm(device):
    for n in (0, 1, 2, 65, 5000):
        torch.manual_seed(4)
        x = torch.randperm(n, device=device)
        assert x.dtype == torch.int64 and torch.equal(x.cpu().sort().values, torch.arange(n))
        torch.manual_seed(4)
        assert torch.equal(torch.randperm(n, device=device), x)
        if n > 2:
            assert not torch.equal(torch.randperm(n, device=device), x)
    assert torch.randperm(300, dtype=torch.float16, device=device).cpu().long().sum() == 44850
    with pytest.raises(RuntimeError):
        torch.randperm(300, dtype=torch.uint8, device=device)


def test_randperm_is_uniform(device):
    counts = torch.stack([torch.randperm(4, device=device) for _ in range(400)]).cpu()
    for position in range(4):  # each element is at each position about equally often
        assert 60 < (counts[:, position] == 2).sum() < 140


def test_memory_of_many_short_rows(device):
    """The counts of all rows would take twice the memory of the indices."""
    x = random_tensor((1 << 17, 65), torch.int8)
    there = x.to(device)
    torch.ocl.synchronize(device)
    torch.ocl.reset_peak_memory_stats(device)
    before = torch.ocl.memory_allocated(device)
    values, indices = torch.sort(there, stable=True)
    assert torch.ocl.max_memory_allocated(device) - before < 25 * x.numel()
    check_order(x, values, indices, 1, False)
