"""Every row of pointwise_table.h against CPU: types, layouts, in-place and out= forms."""

import pytest
import torch
from pointwise_cases import Case, operators
from support import assert_agrees, assert_same, generator

TYPES = [
    torch.float32,
    torch.float16,
    torch.bfloat16,
    torch.int64,
    torch.int32,
    torch.uint8,
    torch.bool,
]
# OpenCL's pow() may be 16 units in the last place away from the exact result.
TOLERANCE = {
    torch.float32: {"rtol": 1e-5, "atol": 1e-6},
    torch.float16: {"rtol": 2e-3, "atol": 1e-4},
    torch.bfloat16: {"rtol": 2e-2, "atol": 1e-3},
}
SPECIAL = [0.0, -0.0, 1.0, -1.0, 0.5, 2.5, -2.5, 1e-6, 300.0, float("inf"), -float("inf")]
SPECIAL.append(float("nan"))
# CPU's vector and scalar code differ at NaN.
NAN_IS_OPEN = ["elu_backward", "hardswish_backward"]

# Operators whose CPU result for integers is not that of their formula.
FLOATS_ONLY = ["smooth_l1_loss_backward"]

every_operator = pytest.mark.parametrize("name", operators())


def make(shape, dtype, position):
    """A tensor for the argument at this position; divisors are not zero where they are integers."""
    numbers = torch.rand(shape, generator=generator(position))
    if dtype.is_floating_point:
        return (numbers * 6 - 3).to(dtype)
    if dtype == torch.bool:
        return numbers < 0.5 if position == 0 else torch.ones(shape, dtype=torch.bool)
    if position == 0:
        return (numbers * 18 - 9 * dtype.is_signed).to(dtype)
    return (numbers * 4 + 1).to(dtype)


def check(actual, expected):
    assert_same(
        actual, expected, exact=expected.dtype not in TOLERANCE, **TOLERANCE.get(expected.dtype, {})
    )


def compare(case, tensors, device):
    """The functional form; returns the CPU's result, or None where CPU has none."""
    try:
        expected = case.call(tensors)
    except (RuntimeError, NotImplementedError):
        return None
    check(case.call([t.to(device) for t in tensors]), expected)
    return expected


@every_operator
def test_types(operator_device, name):
    case = Case(name)
    compared = 0
    for dtype in TYPES:
        tensors = [make((41,), dtype, i) for i in range(case.inputs)]
        if name in FLOATS_ONLY and not dtype.is_floating_point:
            continue
        expected = compare(case, tensors, operator_device)
        if expected is None:
            continue
        compared += 1
        if case.out and expected.dtype == dtype:
            out = torch.empty_like(expected).to(operator_device)
            assert case.call_out([t.to(operator_device) for t in tensors], out) is out
            check(out, expected)
        if case.in_place and expected.dtype == dtype:
            on_device = [t.to(operator_device) for t in tensors]
            assert case.call_in_place(on_device) is on_device[0]
            check(on_device[0], expected)
    assert compared > 0


@pytest.mark.sample
@every_operator
def test_special_values(device, name):
    """Each special number meets each other one."""
    case = Case(name)
    special = torch.tensor(SPECIAL[:-1] if name in NAN_IS_OPEN else SPECIAL)
    grid = torch.cartesian_prod(*[special] * min(case.inputs, 2)).view(-1, min(case.inputs, 2))
    columns = list(grid.unbind(1)) + [special[:1].expand(len(grid))] * (case.inputs - 2)
    columns = [column.contiguous() for column in columns]
    if compare(case, columns, device) is None:
        integers = [make((41,), torch.int64, i) for i in range(case.inputs)]
        assert compare(case, integers, device) is not None


# Views of tensors of shape (3, 4, 5, 6): the arguments of an operator.
LAYOUTS = {
    "strided": lambda xs: [x[:, ::2, 1:4, ::2] for x in xs],
    "transposed": lambda xs: [xs[0].transpose(0, 3), *(x.permute(3, 1, 2, 0) for x in xs[1:])],
    "mixed": lambda xs: [xs[0][:, :3, :5, :3].transpose(1, 3), *(x[:, :3, :5, :3] for x in xs[1:])],
    "channels_last": lambda xs: [x.contiguous(memory_format=torch.channels_last) for x in xs],
    "offset": lambda xs: [x[1:] for x in xs],
    "broadcast": lambda xs: [xs[0], *(x[0, 0] for x in xs[1:2]), *(x[:, :1] for x in xs[2:])],
    "broadcast_first": lambda xs: [xs[0][:1, :, :1], *xs[1:]],
    "0-dim": lambda xs: [x[1, 1, 1, 1] for x in xs],
    "scalar": lambda xs: [xs[0], *(x[0, 0, 0, 0] for x in xs[1:])],
    "cpu_scalar": lambda xs: [*xs[:-1], torch.tensor(2, dtype=xs[0].dtype)] if len(xs) == 2 else xs,
    "empty": lambda xs: [x[:, 2:2] for x in xs],
}


INTEGERS_ONLY = [name for name in operators() if name.startswith(("bitwise", "__"))]
# The skeleton's work is the same for every row, so a few rows are tested in all layouts.
FULL = ["neg", "add", "clamp.Tensor", "addcmul", "bitwise_not", "lt"]


@every_operator
def test_layouts(operator_device, name):
    case = Case(name)
    dtype = torch.int64 if name in INTEGERS_ONLY else torch.float32
    bases = [make((3, 4, 5, 6), dtype, i) for i in range(case.inputs)]
    for layout in LAYOUTS if name in FULL else ["mixed", "empty"]:
        tensors = LAYOUTS[layout](bases)
        on_device = LAYOUTS[layout]([base.to(operator_device) for base in bases])
        expected = case.call(tensors)
        check(case.call(on_device), expected)
        if case.out:
            out = torch.zeros(2, *expected.shape, dtype=expected.dtype).to(operator_device)
            case.call_out(on_device, out[1])
            check(out[1].flatten(), expected.flatten())
            assert not out[0].cpu().any(), "wrote outside of the view"
        if case.in_place and (tensors[0].shape, dtype) == (expected.shape, expected.dtype):
            case.call_in_place(on_device)
            check(on_device[0].flatten(), expected.flatten())


@pytest.mark.parametrize("begin", [0, 1], ids=["aligned", "unaligned"])
def test_results_beyond_the_caches(operator_device, begin):
    """Results of more than 32 MB: kernels of CPU devices store them past the caches if they are
    aligned."""
    size = (8 << 20) + 37
    x, y = torch.randn(size), torch.randn(size)
    out = torch.zeros(size + begin, device=operator_device)[begin:]
    a, b = x.to(operator_device), y.to(operator_device)
    assert torch.equal(torch.sub(a, b, out=out).cpu(), x - y)
    assert torch.equal((out * b).cpu(), (x - y) * y)
    assert torch.equal(out.add_(b).cpu(), x - y + y)


@pytest.mark.parametrize("exponent", [2, 3, -2, -1, 0.5, -0.5, 0, 1.5])
def test_power_of_a_number(device, exponent):
    """Exponents for which PyTorch takes another function: the root of -inf is NaN."""
    x = torch.tensor([-float("inf"), -2, -0.0, 0, 3, float("inf"), float("nan")] * 5)
    torch.testing.assert_close((x.to(device) ** exponent).cpu(), x**exponent, equal_nan=True)


TO_ANOTHER_TYPE = {
    "lt": lambda x, y, **out: torch.lt(x, y, **out),
    "eq": lambda x, y, **out: torch.eq(x, y, **out),
    "logical_or": lambda x, y, **out: torch.logical_or(x, y, **out),
    "logical_not": lambda x, y, **out: torch.logical_not(x, **out),
    "signbit": lambda x, y, **out: torch.signbit(x, **out),
    "max": lambda x, y, **out: torch.max(x, **out),
    "min": lambda x, y, **out: torch.min(x, **out),
}


@pytest.mark.parametrize("out", [torch.bfloat16, torch.float16, torch.float32, torch.uint8])
@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16, torch.float32])
@pytest.mark.parametrize("name", TO_ANOTHER_TYPE)
def test_result_of_another_type(device, name, dtype, out):
    x = torch.linspace(-2, 2, 40).to(dtype)

    def function(x, y):
        shape = () if name in ("max", "min") else x.shape
        return TO_ANOTHER_TYPE[name](x, y, out=torch.empty(shape, dtype=out, device=x.device))

    assert_agrees(function, device, x, x.flip(0))


@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16, torch.float32])
def test_compared_with_a_complex_number(device, dtype):
    x = torch.tensor([0.0, 1, -1, 2]).to(dtype)
    for number in (1 + 0j, 1j, -1 + 1e-3j):
        assert_agrees(lambda x, n=number: torch.eq(x, n), device, x)
        assert_agrees(lambda x, n=number: torch.ne(x, n), device, x)


def test_frexp_into_its_argument(device):
    def function(x):
        x = x.clone()
        exponents = torch.empty(3, dtype=torch.int32, device=x.device)
        torch.frexp(x, out=(x, exponents))
        return torch.cat([x, exponents.float()])

    assert_agrees(function, device, torch.tensor([8.0, 3.0, 100.0]))


@pytest.mark.parametrize(
    "end, dtype", [(300, torch.uint8), (1e6, torch.float16), (1e300, torch.complex64)]
)
def test_linspace_beyond_the_type(device, end, dtype):
    for where in ("cpu", device):
        with pytest.raises(RuntimeError, match="without overflow"):
            torch.linspace(0, end, 7, dtype=dtype, device=where)
