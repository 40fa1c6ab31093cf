"""Complex tensors against CPU: the rows with a second expression, creation, conversion, views."""

import math

import pytest
import torch
from pointwise_cases import Case, complex_operators
from support import COMPLEX, assert_same, generator, has_fp64, name_of

every_operator = pytest.mark.parametrize("name", complex_operators())
every_type = pytest.mark.parametrize("dtype", COMPLEX, ids=name_of)

TOLERANCE = {
    torch.float32: {"rtol": 2e-5, "atol": 1e-6},
    torch.complex64: {"rtol": 2e-5, "atol": 1e-6},
    torch.float64: {"rtol": 1e-10, "atol": 1e-12},
    torch.complex128: {"rtol": 1e-10, "atol": 1e-12},
}


def make(shape, dtype, position):
    real, imaginary = torch.rand(2, *shape, generator=generator(position), dtype=torch.float64)
    return torch.complex(real * 6 - 3, imaginary * 6 - 3).to(dtype)


def check(actual, expected):
    tolerance = TOLERANCE.get(expected.dtype)
    assert_same(actual, expected, exact=tolerance is None, **(tolerance or {}))


@pytest.mark.sample
@every_operator
@every_type
def test_operators(device, name, dtype):
    case = Case(name)
    tensors = [make((37,), dtype, i) for i in range(case.inputs)]
    expected = case.call(tensors)
    check(case.call([t.to(device) for t in tensors]), expected)
    if case.in_place and expected.dtype == dtype:
        on_device = [t.to(device) for t in tensors]
        assert case.call_in_place(on_device) is on_device[0]
        check(on_device[0], expected)


@every_operator
def test_layouts(device, name):
    case = Case(name)
    bases = [make((4, 5, 6), torch.complex64, i) for i in range(case.inputs)]
    views = [lambda x: x.transpose(0, 2)[1:], lambda x: x.permute(2, 1, 0)[1:]]
    views += [lambda x: x[0, :, :4]]
    tensors = [views[i](base) for i, base in enumerate(bases)]
    on_device = [views[i](base.to(device)) for i, base in enumerate(bases)]
    expected = case.call(tensors)
    check(case.call(on_device), expected)
    if case.out:
        out = torch.zeros(2, *expected.shape, dtype=expected.dtype).to(device)
        case.call_out(on_device, out[1])
        check(out[1].contiguous(), expected.contiguous())


UNARY = ["exp", "log", "sqrt", "sin", "cos", "tanh", "asin", "acos", "atan", "asinh", "acosh"]
UNARY += ["atanh", "sinh", "cosh", "tan", "log1p", "expm1", "reciprocal", "sgn", "log2", "log10"]


@pytest.mark.parametrize("name", UNARY)
@every_type
def test_branch_cuts_and_ranges(device, name, dtype):
    """Both sides of the cuts, and numbers large and small."""
    numbers = torch.tensor([0.0, -0.0, 1.0, -1.0, 0.5, -2.0, 1e-4, 10.0, -10.0])
    z = torch.cartesian_prod(numbers, numbers)
    z = torch.view_as_complex(z).to(dtype)
    z = z[z != 0]
    expected = getattr(torch, name)(z)
    actual = getattr(torch, name)(z.to(device)).cpu()
    finite = torch.isfinite(expected)
    tolerance = {"rtol": 1e-4, "atol": 1e-5}
    if dtype == torch.complex128:
        tolerance = {"rtol": 1e-9, "atol": 1e-9}
    torch.testing.assert_close(actual[finite], expected[finite], **tolerance)


@pytest.mark.sample
@every_type
def test_creation(device, dtype):
    check(torch.zeros(3, dtype=dtype, device=device), torch.zeros(3, dtype=dtype))
    check(torch.ones(2, 3, dtype=dtype, device=device), torch.ones(2, 3, dtype=dtype))
    check(
        torch.full((5,), 2 - 3j, dtype=dtype, device=device), torch.full((5,), 2 - 3j, dtype=dtype)
    )
    real = torch.float64 if dtype == torch.complex128 else torch.float32
    x, y = torch.rand(2, 7, generator=generator(), dtype=real)
    check(torch.complex(x.to(device), y.to(device)), torch.complex(x, y))
    check(torch.polar(x.to(device), y.to(device)), torch.polar(x, y))


@pytest.mark.sample
@pytest.mark.parametrize("other", [torch.float32, torch.float16, torch.int64, torch.bool])
def test_conversion(device, other):
    z = make((5, 6), torch.complex64, 0)
    x = torch.arange(30).reshape(5, 6).to(other)
    assert_same(x.to(device).to(torch.complex64), x.to(torch.complex64))
    assert_same(x.to(device).t().to(torch.complex64), x.t().to(torch.complex64))
    real = z.real.contiguous().to(other)
    target = torch.empty(5, 6, dtype=other).to(device)
    assert_same(target.copy_(z.to(device)), real)


@every_type
def test_between_complex_types(device, dtype):
    if not has_fp64(device):
        pytest.skip("the device has no float64")
    z = make((5, 6), dtype, 0)
    for other in COMPLEX:
        assert_same(z.to(device).to(other), z.to(other))
        assert_same(z.to(device)[:, ::2].to(other), z[:, ::2].to(other))


@pytest.mark.sample
def test_promotion(device):
    z, x = make((6,), torch.complex64, 0), torch.arange(6.0)
    w, y = z.to(device), x.to(device)
    check(y * w, x * z)
    check(w / (y + 1), z / (x + 1))
    check(w + 2, z + 2)
    check(w * (1 + 2j), z * (1 + 2j))
    check(y * 2j, x * 2j)
    check(y.to(torch.int64) - w, x.to(torch.int64) - z)
    check(y + w.to(torch.complex64) * torch.tensor(0.5j), x + z * torch.tensor(0.5j))
    check(torch.add(w, y, alpha=1 - 1j), torch.add(z, x, alpha=1 - 1j))
    check(1 - w, 1 - z)
    check(w**2, z**2)
    check(2**w, 2**z)
    check(y**0.5j, x**0.5j)


@pytest.mark.sample
def test_views(device):
    z = make((4, 6), torch.complex64, 0)
    w = z.to(device)
    assert_same(w.real, z.real)
    assert_same(w.imag, z.imag)
    assert_same(torch.view_as_real(w), torch.view_as_real(z))
    check(w.conj() * w, z.conj() * z)
    check(w.mT.conj().resolve_conj(), z.mT.conj().resolve_conj())
    w, z = w.clone(), z.clone()
    w.imag.mul_(2)
    z.imag.mul_(2)
    assert_same(w, z)


@pytest.mark.sample
def test_choice_and_flags(device):
    z = make((9,), torch.complex64, 0)
    z[2], z[3], z[4] = math.nan, complex(1, math.inf), 0
    w = z.to(device)
    for function in (torch.isnan, torch.isinf, torch.isfinite):
        assert_same(function(w), function(z))
    condition = torch.arange(9) % 2 == 0
    expected = torch.where(condition, z, 2 * z)
    assert_same(torch.where(condition.to(device), w, 2 * w), expected)
    assert_same(torch.nan_to_num(w), torch.nan_to_num(z))
    assert_same(w.clone().logical_not_(), z.clone().logical_not_())


def test_gradients(device):
    x = make((5,), torch.complex64, 0).requires_grad_()
    y = x.detach().to(device).requires_grad_()
    for z in (x, y):
        result = (z * z.conj() + torch.sin(z) / (1 + z)).abs()
        torch.autograd.backward(result, torch.ones_like(result))
    check(y.grad, x.grad)


@pytest.mark.fallback_allowed
def test_without_complex_kernel(device):
    """An operator without a complex form runs on the CPU, or fails as it does there."""
    z = make((5,), torch.complex64, 0)
    torch.ocl.reset_fallback_stats()
    mask = torch.arange(5) % 2 == 0
    backward = torch.ops.aten.native_dropout_backward
    check(backward(z.to(device), mask.to(device), 2.0), backward(z, mask, 2.0))
    assert torch.ocl.fallback_stats()
    with pytest.raises(RuntimeError, match="not implemented for 'ComplexFloat'"):
        torch.lt(z.to(device), z.to(device))


HYPERBOLIC = {
    "sinh": torch.sinh,
    "cosh": torch.cosh,
    "sin": torch.sin,
    "cos": torch.cos,
    "log1p": torch.log1p,
    "exp": torch.exp,
    "acos": torch.acos,
}


@pytest.mark.parametrize("name", HYPERBOLIC)
def test_signs_of_zeros(device, name):
    parts = [0.0, -0.0, 1.0, -1.0, 0.5]
    z = torch.tensor([complex(a, b) for a in parts for b in parts], dtype=torch.complex64)
    expected = torch.view_as_real(HYPERBOLIC[name](z))
    actual = torch.view_as_real(HYPERBOLIC[name](z.to(device))).cpu()
    torch.testing.assert_close(actual, expected)
    zero = expected == 0
    assert torch.equal(actual[zero].signbit(), expected[zero].signbit())


@pytest.mark.parametrize("name", ["sinh", "cosh"])
def test_hyperbolic_functions_of_infinity(device, name):
    """The sign of a zero is not compared where the other part is NaN."""
    parts = [0.0, -0.0, math.inf, -math.inf, math.nan]
    z = torch.tensor([complex(a, b) for a in parts for b in parts[2:]], dtype=torch.complex64)
    expected = torch.view_as_real(HYPERBOLIC[name](z))
    actual = torch.view_as_real(HYPERBOLIC[name](z.to(device))).cpu()
    torch.testing.assert_close(actual, expected, equal_nan=True)
