"""Numbers that generated kernels compute, against those of the CPU."""

import math

import pytest
import torch
from support import generator, has_fp64, name_of

pytestmark = pytest.mark.usefixtures("fresh_compiler")


def check(device, function, *args, dynamic=False, **tolerance):
    """Compares with the CPU the result, and arguments that the function changes."""
    on_device = [arg.to(device) for arg in args]
    actual = torch.compile(function, fullgraph=True, dynamic=dynamic)(*on_device)
    expected = function(*args)
    results = torch.utils._pytree.tree_map(torch.Tensor.cpu, (actual, on_device))
    torch.testing.assert_close(results, (expected, list(args)), equal_nan=True, **tolerance)


def randn(*shape):
    return torch.randn(shape, generator=generator(1))


@pytest.mark.sample
def test_numbers_computed_from_sizes(device):
    def function(x):
        n = x.shape[0]
        filled = x.new_full((3,), n / 4), x.new_full((), math.sqrt(n)), x.new_full((2,), n**-0.5)
        return *filled, x * (1 / n), x * (n / 3), x * n, x + n // 3, x * (n * 1e18), x * (n * 1e20)

    check(device, function, randn(10), dynamic=True)
    check(device, function, randn(21), dynamic=True)


def test_a_clamp_on_the_cpu_in_a_program_of_the_device(device):
    here = torch.randn(4)
    compiled = torch.compile(lambda x: (x.clamp(min=0), here.clamp(min=0, max=1)))
    x = randn(5)
    actual, on_cpu = compiled(x.to(device))
    assert torch.equal(actual.cpu(), x.clamp(min=0))
    assert torch.equal(on_cpu, here.clamp(min=0, max=1))


@pytest.mark.usefixtures("float64_on_the_cpu")
def test_numbers_read_from_tensors(device):
    def function(x):
        mean, total = x.mean().item(), x.sum().item()
        filled = torch.full((4,), mean, device=x.device), x * int(total), x * (total / 3)
        return *filled, x.clamp(max=mean), torch.where(x > 1, mean, x), x**mean, x.half() + mean

    with torch._dynamo.config.patch(capture_scalar_outputs=True):
        check(device, function, torch.arange(21.0) / 8 + 0.25, rtol=1e-5, atol=1e-5)


def test_sizes_in_floating_point_next_to_vectors(device):
    def function(x):
        return torch.nn.functional.interpolate(x, scale_factor=1.5, mode="nearest") * 2

    check(device, function, randn(1, 3, 7, 5), dynamic=True)


@pytest.mark.parametrize("shape", [(33, 64), (64, 33), (5, 21)])
@pytest.mark.parametrize("dim", [0, 1])
def test_results_of_reductions_are_indices(device, shape, dim):
    def function(x, table):
        places = x.argmax(dim)
        written = table.clone()
        written[places] = 7
        rows = x.gather(dim, x.argmin(dim, keepdim=True)) * 2
        return table[places], table[places] + x.sum(dim), rows, written

    check(device, function, randn(*shape), torch.arange(64.0) * 10)


@pytest.mark.parametrize("n", [21, 100, 5000])
@pytest.mark.parametrize("safe", [True, False])
def test_indices_are_replaced_by_what_they_find(device, n, safe):
    def function(places, table):
        found = table[places] if safe else torch.ops.aten._unsafe_index(table, [places])
        return places.copy_(found)

    check(device, function, torch.randperm(n, generator=generator(1)), torch.arange(n) << 50)


def test_a_tail_reads_what_the_vector_before_changed(device):
    def function(x, y):
        x.add_(1)
        y.sub_(y.sum(1, keepdim=True))
        return x.sum(), x.argmax(), y.amax(1), y.sum(0)

    check(device, function, torch.arange(21.0), torch.arange(105.0).view(5, 21))


@pytest.mark.parametrize("source", [torch.float32, torch.float64, torch.float16], ids=name_of)
@pytest.mark.parametrize("narrow", [torch.uint8, torch.int8, torch.int16], ids=name_of)
def test_floats_lose_high_bits_as_narrow_integers(device, source, narrow):
    def function(x):
        return (x * 1).to(narrow), (x * 1).to(narrow).float() / 2

    inside = [-2.5, -0.5, -300, 255.9, 256, 128, -129, 32768, 70000, -70000]
    x = torch.tensor(inside * 3, dtype=source)
    check(device, function, x[x.isfinite()])
    if narrow == torch.uint8:
        infinity = float("inf")
        x = torch.tensor([float("nan"), infinity, -infinity, 3e9, -1e10, 1e20] * 3, dtype=source)
        x = x.to(device)
        assert torch.equal(torch.compile(function, fullgraph=True)(x)[0], x.to(narrow))


def test_quotients_by_reductions_of_rows(device):
    def floors(x):
        largest = (x / x.amax(-1, keepdim=True)).floor().sum(-1)
        return largest, (x / x.sum(-1, keepdim=True) * 40).floor()

    check(device, floors, torch.rand(50, 40, generator=generator(1)) * 100, rtol=0, atol=0)
    check(device, lambda x: x / x.sum(-1, keepdim=True), torch.full((4, 40), 1e-41))


@pytest.mark.parametrize("exponent", [-99.0, -95.0, 0.0, 84.0, 99.0])
def test_quotients_by_tiny_and_huge_sums_of_exponentials(device, exponent):
    def function(x):
        return x.exp() / x.exp().sum(-1, keepdim=True)

    check(device, function, torch.full((4, 40), exponent), rtol=1e-2, atol=0)


def rounded(mode):
    return lambda x, y: torch.div(x, y, rounding_mode=mode)


@pytest.mark.parametrize("dtype", [torch.int8, torch.int16, torch.int32, torch.int64], ids=name_of)
@pytest.mark.parametrize(
    "function, expected",
    [
        pytest.param(torch.remainder, [0, 1, -1, 0], id="remainder"),
        pytest.param(torch.fmod, [0, -1, -1, 0], id="fmod"),
        pytest.param(rounded("floor"), [None, -4, 2, -7], id="floor"),
        pytest.param(rounded("trunc"), [None, -3, 2, -7], id="trunc"),
    ],
)
def test_smallest_integers_by_minus_one(device, function, expected, dtype):
    """Some processors stop the process, others take any remainder."""
    smallest = torch.iinfo(dtype).min
    x = torch.tensor([[smallest], [-7], [-7], [7]], dtype=dtype, device=device).repeat(1, 21)
    y = torch.tensor([[-1], [2], [-3], [-1]], dtype=dtype, device=device).repeat(1, 21)
    result = torch.compile(function, fullgraph=True)(x, y)
    expected = [smallest if value is None else value for value in expected]
    assert result.tolist() == [[value] * 21 for value in expected]


def test_types_without_generated_kernels(device):
    def function(x):
        small = x.to(torch.float8_e4m3fn)
        return small.float() * 2, small.t().float() + 1, small.float().sum(0)

    check(device, function, randn(9, 21))
    check(device, lambda x: x.float() * 2, randn(9, 21).to(torch.float8_e5m2))


def test_bytes_as_float8(device):
    def function(x):
        return (x + 1).view(torch.float8_e4m3fn).float() * 2

    check(device, function, torch.arange(9 * 11, dtype=torch.uint8).view(9, 11))


@pytest.mark.usefixtures("float64_on_the_cpu")
def test_doubles_that_only_eager_kernels_change(device, monkeypatch):
    """Tests what happens on devices without float64."""
    from torch._inductor.utils import run_and_get_code

    from torch_ocl.inductor.lowering import lowerings

    monkeypatch.setattr(lowerings, "has_fp64", lambda device: False)

    def function(x, places):
        x.add_(1)
        x[places] = x[:3] * 2
        x[4:].zero_()
        return x.clone().index_put_((places,), x[:3], accumulate=True)

    x, places = torch.arange(7.0, dtype=torch.float64, device=device), torch.tensor([1, 3, 3])
    copy, places = x.clone(), places.to(device)
    compiled = torch.compile(function, fullgraph=True)
    result, (program,) = run_and_get_code(compiled, copy, places)
    torch.testing.assert_close((result, copy), (function(x, places), x))
    assert "generated_kernel(" not in program


@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16], ids=name_of)
def test_bits_of_types_with_other_values_in_kernels(device, dtype):
    def function(x):
        bits = (x + 1).view(torch.int16) + 1
        return bits, bits.view(dtype) * 2, (x > 0).view(torch.uint8) + 1

    check(device, function, randn(9, 21).to(dtype))


def test_special_functions_of_several_types(device):
    def function(x, y, places):
        mantissa, exponent = torch.frexp(y)
        special = x.sin() + torch.digamma(y), torch.special.i0(x), torch.special.i0(y) * 2
        return *special, mantissa * 2, exponent + 1, x.index_add(0, places, torch.lgamma(y).float())

    x = randn(21).abs() + 1
    y = x.double() if has_fp64(device) else x
    check(device, function, x, y, torch.arange(21) // 2, rtol=1e-5, atol=1e-5)


@pytest.mark.parametrize(
    "factor",
    [
        lambda n: max(n / 8, 1.75),
        lambda n: min(n / 8, 1.75),
        lambda n: abs(n / 8 - 3),
        lambda n: 2**n,
        lambda n: round(n / 7, 2),
    ],
)
def test_real_numbers_of_sizes(device, factor):
    check(device, lambda x: x * factor(x.shape[0]), randn(13, 5), dynamic=True)


def test_sign_of_negative_zero(device):
    check(device, lambda x: 1 / torch.sign(x), torch.tensor([-0.0, 0.0, -3.0, 2.0]))
    check(device, torch.sign, torch.tensor([math.nan, -math.inf, math.inf]))


@pytest.mark.parametrize("dynamic", [False, True])
def test_repeated_reductions(device, dynamic):
    """Inductor may not write repeat()'s result through an inverted index: half would be missing."""

    def function(x):
        return x.sum(1).repeat(2), x.argmin(1).tile(3)

    x = torch.arange(31 * 65.0).sin().view(31, 65).to(device)
    actual = torch.compile(function, dynamic=dynamic, fullgraph=True)(x)
    torch.testing.assert_close(actual, function(x))


ZEROS = torch.tensor([-0.0, 0.0, 1.0, -1.0, math.nan, math.inf])
DIVIDENDS = torch.tensor([1.0, 0.5, 6.0, math.inf, -math.inf, -1.0, -0.0, 7.5])
DIVISORS = torch.tensor([0.1, 0.1, 0.2, 2.0, 2.0, 0.1, 3.0, -2.5])
AS_EAGER = {
    "//": (lambda x, y: x // y, DIVIDENDS, DIVISORS),
    "// whole numbers": (lambda x, y: x.long() // y, DIVISORS * 7, DIVISORS),
    "// number": (lambda x: x // 0.1, DIVIDENDS),
    "// half": (lambda x, y: x // y, DIVIDENDS.half(), DIVISORS.half()),
    "/ number": (lambda x: x / 3.0, torch.arange(99.0)),
    "clamp": (
        lambda x: (x.clamp(min=0), x.clamp(0, 5), x.clamp(max=0), x.half().clamp(0, 5)),
        ZEROS,
    ),
    "clamp by -0.0": (lambda x: (x.clamp(-0.0, 3), x.clamp(-3, -0.0), x.clamp(max=-0.0)), ZEROS),
    "plus zeros": (lambda x: (x + torch.zeros_like(x), torch.zeros_like(x) + x.half()), ZEROS),
    "plus 0": (lambda x: (x + 0, 0.0 + x.half(), x - 0, x * 1), ZEROS),
    "any of bytes": (lambda x: (x.any() * 200 + 100, x.any(0), x.all()), ZEROS.nan_to_num().byte()),
    "ldexp": (
        lambda x, n: (torch.ldexp(x, n), torch.ldexp(x.half(), n), torch.ldexp(x, n.half())),
        torch.arange(8) * 3,
        DIVISORS,
    ),
    "softmax of nan": (
        lambda x: torch.full((2, 2), math.nan, device=x.device).softmax(1) + x[:2],
        ZEROS,
    ),
    "hardtanh": (lambda x: torch.nn.functional.hardtanh(x, 0.0, 6.0), ZEROS),
}


@pytest.mark.parametrize("dynamic", [False, True])
@pytest.mark.parametrize("name", AS_EAGER)
def test_as_eager(device, name, dynamic):
    """Every bit, also the signs of zeros."""
    function, *args = AS_EAGER[name]
    args = [arg.to(device) for arg in args]
    results = torch.compile(function, fullgraph=True, dynamic=dynamic)(*args), function(*args)
    actual, expected = (torch.utils._pytree.tree_leaves(result) for result in results)
    for one, other in zip(actual, expected):
        torch.testing.assert_close(one, other, rtol=0, atol=0, equal_nan=True)
        assert torch.equal(one.signbit() & ~one.isnan(), other.signbit() & ~other.isnan())


@pytest.mark.parametrize(
    "function",
    [
        lambda x: torch.nn.functional.pad(x.half(), (1, 1), value=1e9),
        lambda x: torch.nn.functional.pad(x.char(), (0, 1), value=300),
        lambda x: x.half().fill_(1e9),
    ],
)
def test_number_that_the_type_does_not_have(device, function):
    with pytest.raises(RuntimeError, match="cannot be converted to type") as error:
        torch.compile(function, fullgraph=True)(torch.ones(3, device=device))
    assert error.type is RuntimeError


def counted(*dtypes, end=300):
    """torch.arange(end) * 3 - 150, converted to each of these types."""

    def function(x):
        value = torch.arange(end, device=x.device) * 3 - 150
        for dtype in dtypes:
            value = value.to(dtype)
        return value + x.to(dtypes[-1])

    return function


@pytest.mark.parametrize("dynamic", [False, True])
@pytest.mark.parametrize(
    "function",
    [
        counted(torch.int8, torch.int64),
        counted(torch.uint8, torch.float32),
        counted(torch.bool, torch.int64),
        counted(torch.float16, torch.int64, end=5000),
        counted(torch.bfloat16, torch.float32),
        lambda x: (torch.arange(99, dtype=torch.uint8, device=x.device) * 3).long() + x.long(),
        lambda x: (torch.arange(9, dtype=torch.int32, device=x.device) * 10**9).long() + x.long(),
        lambda x: (-torch.arange(9, dtype=torch.uint8, device=x.device)).int() + x.int(),
        lambda x: (torch.arange(9, device=x.device) + (1 << 24)).float().long() + x.long(),
        lambda x: (torch.arange(x.shape[0] * 40, device=x.device) * 9).to(torch.int8).int(),
    ],
)
def test_counted_numbers_wrap_and_round_as_their_types(device, function, dynamic):
    x = torch.ones(7, 1, device=device)
    actual = torch.compile(function, fullgraph=True, dynamic=dynamic)(x)
    torch.testing.assert_close(actual, function(x), rtol=0, atol=0)


@pytest.mark.parametrize(
    "function",
    [
        lambda x: torch.as_strided(x.repeat(3, 2)[:, ::2], (3, 2), (4, 1)),
        lambda x: torch.as_strided((x.t() * 2)[1:], (3,), (1,)) + 1,
        lambda x: torch.as_strided((x + 1)[1:, 1].view(torch.int32), (2,), (1,)),
        lambda x: torch.as_strided(x.sort(0)[0][1:], (2,), (1,), 1) * 2,
    ],
)
def test_as_strided_of_a_view(device, function):
    x = torch.arange(6.0).view(3, 2).to(device)
    assert torch.equal(torch.compile(function, fullgraph=True)(x), function(x))


def test_size_that_a_guard_says_is_one(device):
    """Inductor read other elements of an intermediate result that is broadcast."""
    x, y = randn(3, 60, 8), randn(3, 4, 8)
    check(device, lambda x, y: x * (1 + y.chunk(4, 1)[1]), x, y, dynamic=True)
