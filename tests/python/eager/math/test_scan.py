"""Cumulative operators against the CPU."""

import itertools

import pytest
import torch
from support import COMPLEX, DTYPES, FLOATS, TOLERANCE, assert_same, has_fp64, random_tensor

from torch_ocl import _C

TOLERANCE |= {torch.complex64: 1e-5, torch.complex128: 1e-12}
SUMS = ["cumsum", "cumprod"]
EXTREMES = ["cummax", "cummin"]
CASES = [((1,), 0), ((7, 130), 1), ((7, 130), 0), ((3, 5, 70), 1), ((2, 3, 4), -3), ((), 0)]


def numbers(name, shape, dtype):
    """Products neither overflow nor vanish."""
    if name == "cumprod" and (dtype.is_floating_point or dtype.is_complex):
        return random_tensor(shape, dtype, low=0.8, high=1.2)
    return random_tensor(shape, dtype)


def compare(device, name, x, dim, **options):
    expected = getattr(torch, name)(x, dim, **options)
    actual = getattr(torch, name)(x.to(device), dim, **options)
    if not isinstance(expected, tuple):
        expected, actual = (expected,), (actual,)
    for e, a in zip(expected, actual):
        tolerance = TOLERANCE.get(e.dtype, 0)
        assert_same(a, e, exact=False, rtol=tolerance, atol=tolerance)


@pytest.mark.parametrize("dtype", [*DTYPES, *COMPLEX, torch.uint16])
@pytest.mark.parametrize("shape,dim", CASES)
@pytest.mark.parametrize("name", SUMS)
def test_sums(device, name, shape, dim, dtype):
    compare(device, name, numbers(name, shape, dtype), dim)


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("shape,dim", CASES)
@pytest.mark.parametrize("name", EXTREMES)
def test_extremes(device, name, shape, dim, dtype):
    compare(device, name, random_tensor(shape, dtype), dim)


@pytest.mark.parametrize("dtype", FLOATS)
@pytest.mark.parametrize("shape,dim", CASES)
def test_logcumsumexp(device, shape, dim, dtype):
    compare(device, "logcumsumexp", random_tensor(shape, dtype), dim)


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
@pytest.mark.parametrize("name", [*SUMS, "logcumsumexp", *EXTREMES])
def test_long_rows(device, name, dtype):
    """Rows that are cut into parts."""
    for shape, dim in [((70001,), 0), ((2, 40003), 1), ((20001, 3), 0), ((2, 801, 17), 1)]:
        x = torch.rand(shape, dtype=dtype)
        compare(device, name, 1 + (x - 0.5) / 1000 if name == "cumprod" else x, dim)


LENGTHS = [63, 64, 65, 129, 1023, 1024, 1025, 4097, 70_001]


@pytest.mark.parametrize("size", LENGTHS)
@pytest.mark.parametrize("name", ["cumsum", "logcumsumexp", *EXTREMES])
def test_rows_of_whole_and_of_broken_tiles(device, name, size):
    x = random_tensor((3, size), torch.float32, low=-3, high=3).round()  # with equal extremes
    x[1, size // 2] = float("nan")
    x[2, size - 1] = float("inf")
    compare(device, name, x, 1)
    if torch.ocl.get_device_properties(device).kernel_family == "gpu":
        assert _C.last_kernel() == ("scan_rows" if size >= 64 else "scan")


@pytest.mark.parametrize("name", ["cumsum", "logcumsumexp", *EXTREMES])
def test_few_long_columns(device, name):
    x = random_tensor((2, 5000, 3), torch.float32, low=0)
    compare(device, name, x, 1)
    compare(device, name, x.mT.contiguous().mT, 1)


def test_long_rows_of_float32(device):
    x = torch.rand(100003)
    torch.testing.assert_close(x.to(device).cumsum(0).cpu(), x.cumsum(0), rtol=1e-4, atol=0)
    counts = torch.ones(100003, dtype=torch.int32)
    assert torch.equal(counts.to(device).cumsum(0).cpu(), torch.arange(1, 100004))


@pytest.mark.parametrize("name", [*SUMS, "logcumsumexp", *EXTREMES])
def test_strided(operator_device, name):
    x = torch.rand(6, 8, 10).transpose(0, 2)[::2]
    for dim in range(3):
        compare(operator_device, name, x, dim)


@pytest.mark.parametrize("name", SUMS)
def test_out_in_place_and_types(device, name):
    x = torch.rand(5, 6)
    function = getattr(torch, name)
    if has_fp64(device):
        compare(device, name, x, 1, dtype=torch.float64)
    compare(device, name, torch.arange(4), 0, dtype=torch.float32)
    out = torch.empty(6, 5, device=device).t()
    function(x.to(device), 1, out=out)
    torch.testing.assert_close(out.cpu(), function(x, 1))
    long = torch.rand(3, 30000) / 30000 + (name == "cumprod")
    on_device = long.to(device)
    getattr(on_device, name + "_")(1)
    torch.testing.assert_close(on_device.cpu(), function(long, 1), rtol=1e-4, atol=1e-5)


@pytest.mark.parametrize("name", EXTREMES)
def test_extremes_out(device, name):
    x = torch.randint(0, 4, (5, 6))
    expected = getattr(torch, name)(x, 0)
    out = (
        torch.empty(6, 5, device=device, dtype=torch.long).t(),
        torch.empty(0, device=device, dtype=torch.long),
    )
    getattr(torch, name)(x.to(device), 0, out=out)
    for e, a in zip(expected, out):
        assert torch.equal(a.cpu(), e)


def test_logcumsumexp_out(device):
    x = torch.rand(5, 6)
    out = torch.empty(6, 5, device=device).t()
    torch.logcumsumexp(x.to(device), 1, out=out)
    torch.testing.assert_close(out.cpu(), torch.logcumsumexp(x, 1))


@pytest.mark.parametrize("name", [*SUMS, "logcumsumexp", *EXTREMES])
def test_not_a_number_and_infinities(device, name):
    nan, inf = float("nan"), float("inf")
    x = torch.tensor([[-inf, -inf, 1, 3, 3, nan, 2, nan, 5], [1, inf, 2, -inf, 3, inf, 1, 0, 0]])
    compare(device, name, x, 1)
    compare(device, name, x, 0)


@pytest.mark.parametrize("name", [*SUMS, "logcumsumexp", *EXTREMES])
def test_gradients(device, name):
    x = torch.rand(4, 7, 3)
    gradients = []
    for where in ("cpu", device):
        leaf = x.clone().to(where).requires_grad_()
        y = getattr(torch, name)(leaf, 1)
        (y[0] if isinstance(y, tuple) else y).pow(2).sum().backward()
        gradients.append(leaf.grad.cpu())
    torch.testing.assert_close(gradients[1], gradients[0], rtol=1e-4, atol=1e-5)


@pytest.mark.sample
@pytest.mark.parametrize("name", [*SUMS, "logcumsumexp", *EXTREMES])
def test_small(device, name):
    compare(device, name, torch.rand(3, 5, 4) + 0.5, 1)
    compare(device, name, torch.rand(2, 300) + 0.5, 1)


def test_empty(device):
    assert torch.empty(0, 3, device=device).cumsum(1).shape == (0, 3)
    assert torch.empty(3, 0, device=device).cummax(1).values.shape == (3, 0)


def test_logarithms_of_integers_are_an_error(device):
    with pytest.raises(NotImplementedError, match="not implemented for 'Long'"):
        torch.logcumsumexp(torch.arange(3, device=device), 0)


@pytest.mark.parametrize("name", ["cumsum", "cumprod", "logcumsumexp"])
def test_result_over_a_part_of_the_argument(device, name):
    """The CPU raises, for what is read may have been written."""
    memory = torch.ones(9, device=device)
    with pytest.raises(RuntimeError, match="single memory location"):
        getattr(torch, name)(memory[:8], 0, out=memory[1:])
    with pytest.raises(RuntimeError, match="single memory location"):
        getattr(torch, name)(memory, 0, out=memory[:1].expand(9))


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64, torch.complex64])
@pytest.mark.parametrize("size", [16, 40_000])
def test_products_that_overflow_after_zero(device, dtype, size):
    """Elements are not multiplied with each other before the running product is."""
    huge = 1e300 if dtype == torch.float64 else 1e30
    x = torch.ones(size, dtype=dtype)
    middle = slice(size // 2, size // 2 + 8)
    x[0], x[middle] = 0, huge
    assert torch.equal(x.to(device).cumprod(0).cpu(), torch.zeros_like(x))
    columns = x[:, None].expand(-1, 3).to(device)
    assert not columns.cumprod(0).cpu().any()
    x[0] = 1 / huge
    x[middle] = torch.tensor([huge, 1 / huge] * 4)
    compare(device, "cumprod", x, 0)


@pytest.mark.parametrize("dtype", [torch.float32, torch.complex64])
def test_sums_of_many_equal_numbers(device, dtype):
    x = torch.full((1_000_000,), 0.1, dtype=dtype)
    exact = 0.1 * torch.arange(1, 1_000_001, dtype=torch.float64)
    sums = x.to(device).cumsum(0).cpu()
    torch.testing.assert_close(sums.real.double(), exact, rtol=1e-6, atol=0)
    columns = x.view(-1, 2).to(device).cumsum(0).cpu()
    torch.testing.assert_close(columns[:, 1].real.double(), exact[:500_000], rtol=1e-6, atol=0)


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64, torch.bfloat16])
def test_products_that_left_the_range_stay_there(device, dtype):
    """Also in later parts of a row, even if the product of all would be in range again. The range
    is that of double (for bfloat16, of float). Also in place."""
    if dtype == torch.float64 and not has_fp64(device):
        pytest.skip("the device has no float64")
    family = torch.ocl.get_device_properties(device).kernel_family
    if dtype == torch.bfloat16 and family == "cpu":
        pytest.skip("the CPU family multiplies 16-bit numbers in float64, whose range is larger")
    least = {torch.float32: 1e-30, torch.float64: 1e-250, torch.bfloat16: 2.0**-100}[dtype]
    for size, at, times in itertools.product((64, 3000, 40_000), (0, 3, 50), (1, 6)):
        x = torch.ones(size, dtype=dtype)
        x[at : at + 2 * times] = least
        x[at + 2 * times : at + 4 * times] = 1 / least
        for numbers in (x, 1 / x):
            products = numbers.to(device).cumprod(0).cpu()
            torch.testing.assert_close(products, numbers.cumprod(0), rtol=1e-5, atol=0)
            products = numbers.to(device).cumprod_(0).cpu()
            torch.testing.assert_close(products, numbers.cumprod(0), rtol=1e-5, atol=0)


def test_a_product_written_over_its_numbers(device):
    """The product leaves the range within a tile, whose other work-items go on."""
    if not has_fp64(device):
        pytest.skip("the device has no float64")
    x = torch.ones(2000, dtype=torch.float64)
    x[0], x[401], x[402] = -1e300, 1e5, 1e5
    for _ in range(10):
        assert torch.equal(x.to(device).cumprod_(0).cpu(), x.cumprod(0))


def test_products_of_many_numbers_near_one(device):
    """Roundings of products that are hardly above 1 all have the same sign."""
    x = 1 + torch.rand(60_000) / 30_000
    exact = x.double().cumprod(0)
    products = x.to(device).cumprod(0).cpu()
    torch.testing.assert_close(products.double(), exact, rtol=1e-6, atol=0)
    columns = x.view(-1, 2).to(device).cumprod(0).cpu()
    exact = x.view(-1, 2).double().cumprod(0)
    torch.testing.assert_close(columns.double(), exact, rtol=1e-6, atol=0)


def test_products_keep_the_sign_of_zero(device):
    x = torch.tensor([-1.5, 0, 2, -3, 1]).repeat(2)
    products = x.to(device).cumprod(0).cpu()
    assert torch.equal(products.signbit(), x.cumprod(0).signbit())


@pytest.mark.sample
@pytest.mark.parametrize("dtype", [torch.int8, torch.uint8, torch.bool])
def test_positions_of_bytes(device, dtype):
    """Mesa 22 copied a struct of a char and a long without the long."""
    x = torch.tensor([3, 1, 2, 5, 4]).to(dtype)
    for name in EXTREMES:
        compare(device, name, x, 0)
    for name in ("max", "min"):
        compare(device, name, x, 0)


@pytest.mark.parametrize("columns", [1, 3])
@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16, torch.complex64])
def test_products_that_leave_the_range_inside_of_a_long_row(device, dtype, columns):
    """They stay zero, infinite or NaN, also where the next factors lead back."""
    up, down = [1e38] * 9, [1e-38] * 9
    for factors in (up + down, down + up, [*up, 0.0]):
        x = torch.ones(40_000, columns, dtype=dtype)
        x[15_000 : 15_000 + len(factors), 0] = torch.tensor(factors).to(dtype)
        expected = x.cumprod(0)[20_000:]
        products = x.to(device).cumprod(0).cpu()[20_000:]
        torch.testing.assert_close(products, expected, equal_nan=True)
