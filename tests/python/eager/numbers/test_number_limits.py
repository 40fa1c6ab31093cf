"""Python numbers at and beyond the limits of a type, as arguments of operators: as on the CPU."""

import math

import pytest
import torch
import torch.nn.functional as F
from support import DTYPES, HALVES, assert_agrees, has_fp64

FLOATS = [*HALVES, torch.float32]


@pytest.mark.parametrize("shape", [(), (1,), (2,)], ids=str)
@pytest.mark.parametrize("dtype", DTYPES, ids=str)
def test_fill(device, dtype, shape):
    """The CPU checks the number unless it fills one element of 16 bits."""
    for number in (1e6, 1e300, 300, -1, 2**31, -(2**63), 1.5, math.inf, math.nan):
        assert_agrees(lambda x, n=number: x.fill_(n), device, torch.ones(shape).to(dtype))


def holds(dtype, number):
    """Whether a number can be converted to the type without leaving it."""
    if dtype == torch.bool or dtype.is_floating_point:
        return True
    return torch.iinfo(dtype).min <= number <= torch.iinfo(dtype).max


@pytest.mark.parametrize("dtype", DTYPES, ids=str)
def test_fill_with_a_tensor(device, dtype):
    """It is converted as by a copy. What is beyond an integer depends on the processor."""
    for number in (1e6, 300, -1, 2**31, 1.5):
        value = torch.tensor(number)
        if dtype.is_floating_point or abs(number) < 2**31:
            x = torch.ones(3).to(dtype)
            if number == 1.5 or holds(dtype, number):
                assert_agrees(lambda x, v=value: x.fill_(v), device, x)
                assert_agrees(lambda x, v=value: x.fill_(v.to(x.device)), device, x)
            assert_agrees(lambda x, n=number: x.index_fill(0, x.new_zeros(1).long(), n), device, x)


UNSIGNED = ["add", "mul", "sub", "eq", "ne", "bitwise_and", "bitwise_or", "true_divide"]
SHIFTS = ["bitwise_left_shift", "bitwise_right_shift"]


@pytest.mark.parametrize("name", [*UNSIGNED, *SHIFTS, "copysign"])
@pytest.mark.parametrize("dtype", DTYPES, ids=str)
def test_number_of_64_bits_without_sign(device, dtype, name):
    for number in (2**63, 2**64 - 1):
        x = torch.tensor([0, 1, 3, 0, 1]).to(dtype)
        assert_agrees(lambda x, n=number: getattr(torch, name)(x, n), device, x)


DRAWN = {
    "exponential": lambda x: x.exponential_(1e-45),
    "geometric": lambda x: x.geometric_(1e-45),
    "log_normal": lambda x: x.log_normal_(1e300, 1),
    "normal_mean": lambda x: x.normal_(1e300, 1),
    "normal_mean_below": lambda x: x.normal_(-1e300, 1),
    "normal_negative_deviation": lambda x: x.normal_(0, -1),
    "normal_of_tensors": lambda x: torch.normal(x, -1.0),
    "cauchy_median": lambda x: x.cauchy_(1e300, 1),
}


@pytest.mark.parametrize("name", DRAWN)
@pytest.mark.parametrize("dtype", FLOATS, ids=str)
def test_draws_beyond_float32(device, dtype, name):
    """All elements are infinite, or an error is raised."""
    assert_agrees(DRAWN[name], device, torch.zeros(6, dtype=dtype))


@pytest.mark.parametrize("dtype", FLOATS, ids=str)
def test_deviation_beyond_float32(device, dtype):
    for draw in (lambda x: x.normal_(0, 1e300), lambda x: x.cauchy_(0, 1e300)):
        assert draw(torch.zeros(9, dtype=dtype, device=device)).isinf().all()


NORMS = {
    "layer_norm": lambda x, n: F.layer_norm(x.view(2, 3), (3,), eps=n).abs(),
    "group_norm": lambda x, n: F.group_norm(x.view(1, 2, 3), 2, eps=n).abs(),
    "instance_norm": lambda x, n: F.instance_norm(x.view(1, 2, 3), eps=n).abs(),
    "batch_norm": lambda x, n: F.batch_norm(x.view(2, 3), x[:3], abs(x[3:]), eps=n).abs(),
    "renorm": lambda x, n: x.view(2, 3).renorm(2, 0, abs(n)),
    "cdist": lambda x, n: torch.cdist(x.view(2, 3).float(), x.view(2, 3).float(), abs(n)),
    "pdist": lambda x, n: torch.pdist(x.view(2, 3).float(), abs(n)),
}


@pytest.mark.parametrize("name", NORMS)
@pytest.mark.parametrize("dtype", FLOATS, ids=str)
def test_norms_with_numbers_beyond_float32(device, dtype, name):
    x = torch.tensor([0.0, 1, -1, 2.5, -3, 0.3]).to(dtype)
    for number in (1e300, -1e300):
        assert_agrees(lambda x, n=number: NORMS[name](x, n), device, x)
    if name.endswith("dist"):
        assert_agrees(lambda x: NORMS[name](x, 1e-300), device, x)


@pytest.mark.parametrize("dtype", [*FLOATS, torch.float64], ids=str)
def test_exponents(device, dtype):
    """Enough elements for the CPU's vectors: it takes a double for the rest."""
    x = torch.tensor([0.0, 1, -1, 2.5, -3, 0.25, -0.0, math.inf]).repeat(16).to(dtype)
    for number in (1e300, -1e300, math.inf, -math.inf, math.nan, 1e-50):
        assert_agrees(lambda x, n=number: x**n, device, x)


@pytest.mark.parametrize("dtype", FLOATS, ids=str)
def test_slopes_that_are_not_finite(device, dtype):
    x = torch.tensor([0.0, -0.0, 1, -1, 2.5, -3, math.nan, math.inf, -math.inf]).to(dtype)
    for number in (math.inf, math.nan, 0.0, -2.0):
        for function in (F.elu, F.celu):
            near = {"exact": False, "rtol": 1e-2, "atol": 1e-2}
            assert_agrees(lambda x, n=number, f=function: f(x, n), device, x, **near)


def test_orders_that_are_no_number(device):
    x = torch.tensor([0.0, 1, -1, 2.5])
    assert_agrees(lambda x: torch.linalg.vector_norm(x, 3), device, x, exact=False)
    assert_agrees(lambda x: torch.linalg.vector_norm(x, math.nan), device, x)
    assert_agrees(lambda x: torch.linalg.vector_norm(x, 4), device, x, exact=False)
    assert_agrees(lambda x: torch.dist(x, -x, math.nan), device, x)


MUST_FIT = {
    "linspace": lambda x, n: torch.linspace(0, n, 3, dtype=x.dtype, device=x.device),
    "index_add": lambda x, n: x.index_add(0, x.new_zeros(1).long(), x[:1], alpha=n),
    "threshold": lambda x, n: F.threshold(x, n, 1),
    "addmv": lambda x, n: torch.addmv(x, x.outer(x), x, beta=n),
    "addmv, alpha": lambda x, n: torch.addmv(x, x.outer(x), x, alpha=n),
    "addr": lambda x, n: torch.addr(x.outer(x), x, x, beta=n),
    "segment_reduce": lambda x, n: torch.segment_reduce(
        x, "sum", lengths=torch.tensor([1, 2], device=x.device), initial=n
    ),
    "sparse_add": lambda x, n: torch.add(x.to_sparse(), x.to_sparse(), alpha=n).to_dense(),
}


@pytest.mark.parametrize("name", MUST_FIT)
@pytest.mark.parametrize("dtype", FLOATS, ids=str)
def test_numbers_that_must_fit(device, dtype, name):
    if name == "sparse_add" and dtype == torch.float16:
        pytest.skip("CPU does not add sparse tensors of float16")
    x = torch.tensor([0.5, 1, 2]).to(dtype)
    for number in (1e300, -1e300):
        assert_agrees(lambda x, n=number: MUST_FIT[name](x, n), device, x)


@pytest.mark.parametrize("dtype", [*FLOATS, torch.float64], ids=str)
def test_next_number(device, dtype):
    info = torch.finfo(dtype)
    numbers = [0.0, -0.0, 1, -1, 2, 0.3, info.tiny, -info.tiny, info.max, -info.max]
    numbers += [math.inf, -math.inf, math.nan, 1.5, -4, info.tiny * 2, info.smallest_normal / 4]
    x = torch.tensor(numbers, dtype=torch.float64).to(dtype)
    a, b = torch.cartesian_prod(x, x).unbind(1)
    assert_agrees(torch.nextafter, device, a.contiguous(), b.contiguous())


@pytest.mark.parametrize("decimals", [255, -255, 40, -40, 3, -3])
def test_round_to_decimals_beyond_the_type(device, decimals):
    x = torch.tensor([0.0, -0.0, 1.2345678, -98765.4321, 1e30, math.inf, math.nan])
    assert_agrees(lambda x: torch.round(x, decimals=decimals), device, x, exact=False)


@pytest.mark.parametrize("number", [-1, 1e5, 2**40, 2**65, 1j, math.inf])
@pytest.mark.parametrize("dtype", [torch.uint16, torch.uint32, torch.uint64, torch.bool], ids=str)
def test_fill_of_empty_unsigned_tensors(device, dtype, number):
    assert_agrees(lambda x: x.fill_(number), device, torch.zeros(0, dtype=dtype))


@pytest.mark.parametrize("number", [1e300, -1e39, 1e5, 2**31, 2**63, -129, 256, 1 + 1j, math.inf])
@pytest.mark.parametrize("dtype", DTYPES, ids=str)
def test_numbers_for_empty_tensors(device, dtype, number):
    if dtype == torch.float64 and not has_fp64(device):
        pytest.skip("the device has no float64")
    x = torch.zeros(0, dtype=dtype)
    assert_agrees(lambda x: torch.full_like(x, number), device, x)
    assert_agrees(lambda x: x.new_full((2, 0), number), device, x)
    assert_agrees(lambda x: x.fill_(number), device, x)
    assert_agrees(lambda x: x.masked_fill(x == 0, number), device, x)
    assert_agrees(lambda x: x.index_fill(0, x.long(), number), device, x)


def test_arange_over_all_integers(device):
    """If the distance overflows int64, so does the CPU."""
    limits = torch.iinfo(torch.int64)
    for arguments in ((limits.min, limits.max, 2**62), (limits.max, limits.min, -(2**62))):
        assert torch.arange(*arguments, device=device).tolist() == list(range(*arguments))
    for arguments in ((limits.min, limits.max), (0, limits.min, -1), (0.0, 2.0**63)):
        with pytest.raises(RuntimeError, match="invalid size, possible overflow"):
            torch.arange(*arguments, device=device)
