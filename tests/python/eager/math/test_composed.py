"""Operators made of other operators, against the CPU."""

import pytest
import torch
from support import DTYPES, FLOATS, INTEGERS, TOLERANCE, assert_same, random_tensor

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


@pytest.mark.parametrize("dtype", [torch.float32, torch.int64])
def test_a_median_keeps_its_number_only(device, dtype):
    median = torch.arange(1000, device=device).to(dtype).median()
    assert median.untyped_storage().nbytes() == dtype.itemsize


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


def test_counts_and_traces(device):
    x = random_tensor((4, 5), torch.int32)
    for dtype in (torch.float32, torch.int32):
        compare(device, lambda x: x.trace(), x.to(dtype))
        compare(device, lambda x: x.count_nonzero(1), x.to(dtype))
    compare(device, lambda x: torch.nonzero_static(x, size=30, fill_value=-3).contiguous(), x)
    compare(device, lambda x: torch.nonzero_static(x, size=2).contiguous(), x)
    assert torch.nonzero_static(x.to(device), size=7).stride() == (1, 7)  # as traced
    with pytest.raises(RuntimeError, match="expected a matrix"):
        torch.ones(3, device=device).trace()


@pytest.mark.sample
@pytest.mark.parametrize("dtype", [torch.int64, torch.float32, torch.float16])
def test_logspace(device, dtype):
    for start, end, steps, base in ((0, 3, 4, 10.0), (-1, 2, 5, 2.0), (1, 1, 0, 3.0)):
        expected = torch.logspace(start, end, steps, base, dtype=dtype)
        actual = torch.logspace(start, end, steps, base, dtype=dtype, device=device)
        assert_same(actual, expected, exact=False, rtol=1e-3, atol=0)


def test_narrow_copy_and_set(device):
    x = random_tensor((4, 5), torch.float32)
    compare(device, lambda x: torch.narrow_copy(x, 1, 2, 2), x)
    out = torch.empty(0, device=device)
    torch.narrow_copy(x.to(device), 0, 1, 2, out=out)
    assert torch.equal(out.cpu(), x[1:3])
    mine = x.to(device)
    assert mine.view(2, 10).is_set_to(mine.view(2, 10)) and not mine.is_set_to(mine.clone())
    assert mine.set_().shape == (0,)


def test_renormalised_embedding(device):
    rows, index = torch.randn(6, 3), torch.tensor([1, 4, 1])
    for i in (index, index.int()):
        compare(
            device, lambda r, i: torch.nn.functional.embedding(i, r, max_norm=0.5), rows.clone(), i
        )
    for place in ("cpu", device):
        with pytest.raises(
            RuntimeError, match="'indices' to have one of the following scalar types"
        ):
            torch.embedding_renorm_(rows.to(place), index.short().to(place), 0.5, 2.0)
    mine = rows.to(device)
    torch.nn.functional.embedding(index.to(device), mine, max_norm=0.5)
    norms = mine.norm(dim=1).cpu()
    assert (norms[[1, 4]] <= 0.5001).all()
    assert torch.equal(mine.cpu()[[0, 2, 3, 5]], rows[[0, 2, 3, 5]])


@pytest.mark.parametrize("dim", [0, 1])
@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16])
def test_weight_norm(device, dim, dtype):
    def gradients(v, g):
        v, g = v.clone().requires_grad_(), g.clone().requires_grad_()
        w = torch._weight_norm(v, g, dim)
        w.sin().sum().backward()
        return w.detach(), v.grad, g.grad

    g = torch.rand((5, 1) if dim == 0 else (1, 4))
    compare(device, gradients, torch.randn(5, 4).to(dtype), g.to(dtype))


def test_assertions(device):
    torch._assert_async(torch.ones(1, device=device))
    with pytest.raises(RuntimeError, match="too small"):
        torch._assert_async(torch.zeros((), device=device), "too small")


def test_forward_derivatives(device):
    """They need tensors of zeros without memory."""
    x, tangent = torch.randn(4), torch.randn(4)

    def derivative(x, tangent):
        def f(x):
            return torch.where(x > 0, x.sin(), torch.zeros_like(x)) + x.max()

        return torch.func.jvp(f, (x,), (tangent,))[1]

    compare(device, derivative, x, tangent)
    zeros = torch._efficientzerotensor((4,), device=device)
    assert torch.equal((zeros + x.to(device)).cpu(), x)


def test_shuffle_and_remainder(device):
    x = random_tensor((2, 6, 3, 3), torch.float32)
    compare(device, lambda x: torch.nn.functional.channel_shuffle(x, 3), x)
    compare(device, lambda x: torch.remainder(7, x.abs() + 1), x)
    out = torch.empty((), device=device)
    assert torch.equal(torch.max(x.to(device), out=out).cpu(), x.max())


def test_operands_without_elements(device):
    """Strides of an empty matrix may be strides that no other matrix has."""
    x = torch.empty_strided((5, 0), (2, 2), device=device)
    y = torch.empty_strided((0, 10), (20, 2), device=device)
    assert torch.equal((x @ y).cpu(), torch.zeros(5, 10))
    point = torch.ones(1, 3, device=device, requires_grad=True)
    torch.nn.functional.pdist(point).sum().backward()
    assert torch.equal(point.grad.cpu(), torch.zeros(1, 3))


@pytest.mark.parametrize("shape", [(5, 7), (3, 6, 4), (2, 3, 1, 5)])
def test_triangles_of_transposed_matrices(device, shape):
    x = torch.randn(shape).mT
    y, limit = x.mT.contiguous().to(device).mT, 2**63
    for diagonal in (-limit, -6, -2, 0, 1, 6, limit - 1):
        for function in (torch.tril, torch.triu):
            assert torch.equal(function(y, diagonal).cpu(), function(x, diagonal))
            z = y.clone()
            assert not z.is_contiguous() or 1 in shape
            getattr(z, f"{function.__name__}_")(diagonal)
            assert torch.equal(z.cpu(), function(x, diagonal))


MOST_BYTES = {  # bytes of temporary memory per element, by function
    "isin": (lambda x: torch.isin(x, x[:40:2]), 6),
    "isin, inverted": (lambda x: torch.isin(x, x[:40:2], invert=True), 6),
    "masked_scatter_": (lambda x: x.masked_scatter_(x % 3 == 0, x + 1), 20),
}


@pytest.mark.parametrize("name", MOST_BYTES)
def test_memory_of_compositions(device, name):
    function, limit = MOST_BYTES[name]
    x = torch.arange(2**22, dtype=torch.int32)
    y = x.to(device)
    before = torch.ocl.memory_allocated(device)
    torch.ocl.reset_peak_memory_stats(device)
    actual = function(y)
    assert torch.ocl.max_memory_allocated(device) - before <= limit * x.numel()
    assert torch.equal(actual.cpu(), function(x))
