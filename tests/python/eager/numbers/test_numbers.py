"""Numbers at the edges of their types: what an operator makes of them is what CPU makes."""

import functools
import math
import re
import shutil

import pytest
import torch
from support import DTYPES, INTEGERS, ROOT, assert_agrees, has_fp64, output_of

HUGE = [1e6, 1e300, -1e300, 300, 255, -1, 2**31, 2**40, -(2**63), 65536, 0.1]


def elements(dtype):
    """Small numbers and the extremes of the type."""
    if dtype == torch.bool:
        return torch.tensor([True, False, True])
    if dtype.is_floating_point:
        most = torch.finfo(dtype).max
        numbers = [0.0, -0.0, 1, -1, 0.1, -2.5, 3, 1e4, most, -most, math.inf, -math.inf, math.nan]
        return torch.tensor(numbers, dtype=torch.float64).to(dtype)
    info = torch.iinfo(dtype)
    signed = [-1, -3, -100] if info.min < 0 else [200]
    return torch.tensor(
        [0, 1, 2, 7, 44, 100, info.max, info.max - 1, info.min, info.min + 1, *signed], dtype=dtype
    )


TENSOR_AND_NUMBER = {
    "add": lambda x, n: x + n,
    "sub": lambda x, n: x - n,
    "rsub": lambda x, n: n - x,
    "mul": lambda x, n: x * n,
    "lt": lambda x, n: x < n,
    "ge": lambda x, n: x >= n,
    "eq": lambda x, n: x == n,
    "ne": lambda x, n: x != n,
    "fmod": lambda x, n: torch.fmod(x, n),
    "clamp_max": lambda x, n: x.clamp(max=n),
    "clamp_min": lambda x, n: x.clamp(min=n),
    "fill": lambda x, n: x.fill_(n),
    "masked_fill": lambda x, n: x.masked_fill(x == x, n),
    "full": lambda x, n: torch.full_like(x, n),
    "where": lambda x, n: torch.where(x == x, n, x),
    "alpha": lambda x, n: torch.add(x, x, alpha=n),
    "threshold": lambda x, n: torch.nn.functional.threshold(x, n, n),
    "hardtanh": lambda x, n: torch.nn.functional.hardtanh(x, -1, n),
    "nan_to_num": lambda x, n: torch.nan_to_num(x, posinf=n),
    "maximum": lambda x, n: torch.maximum(x, torch.tensor(n)),
    "index_fill": lambda x, n: x.index_fill(0, torch.tensor([0], device=x.device), n),
    "set": lambda x, n: x.index_put((torch.tensor([0], device=x.device),), torch.tensor(n).to(x)),
    "wrapped": lambda x, n: x == torch.tensor(n, dtype=torch.float64),
    "foreach_add": lambda x, n: torch._foreach_add([x], n),
    "foreach_add_list": lambda x, n: torch._foreach_add([x], [n]),
    "foreach_mul": lambda x, n: torch._foreach_mul([x], n),
    "foreach_clamp": lambda x, n: torch._foreach_clamp_max([x], n),
}


@pytest.mark.parametrize("dtype", DTYPES, ids=str)
@pytest.mark.parametrize("name", TENSOR_AND_NUMBER)
def test_number_beyond_the_type(device, name, dtype):
    if dtype == torch.bool and name == "fmod":
        pytest.skip("the class of its error is tested below")
    if name == "wrapped" and not has_fp64(device):
        pytest.skip("the device has no float64, the type of the number")
    for number in HUGE:
        if name == "mul" and dtype.is_floating_point and abs(number) == 255:
            continue
        # The CPU rounds alpha * x to 16 bits in the elements that fill no vector.
        x = elements(dtype).repeat(64 if name == "alpha" else 1)
        assert_agrees(lambda x, n=number: TENSOR_AND_NUMBER[name](x, n), device, x)


@pytest.mark.parametrize("operator", ["floor_divide", "remainder", "fmod", "pow"])
def test_operators_that_bool_lacks(device, operator):
    x = torch.tensor([True, False])
    assert_agrees(lambda x: getattr(torch, operator)(x, x), device, x)


@pytest.mark.parametrize("dtype", INTEGERS, ids=str)
def test_shifts_by_any_count(device, dtype):
    x = elements(dtype)
    counts = [0, 1, 6, 7, 8, 15, 16, 31, 32, 63, 64, 65, 127]
    counts = torch.tensor(counts + ([-1, -8] if dtype.is_signed else [255]), dtype=dtype)
    values, counts = torch.cartesian_prod(x, counts).unbind(1)
    for shift in (torch.bitwise_left_shift, torch.bitwise_right_shift):
        assert_agrees(shift, device, values.contiguous(), counts.contiguous())


@pytest.mark.parametrize("dtype", [t for t in INTEGERS if t.is_signed], ids=str)
def test_least_integer_and_minus_one(device, dtype):
    """CPU computes the quotient of int32 and int64 with an instruction that stops the process."""
    least = torch.iinfo(dtype).min
    x = torch.tensor([least, least + 1, 7, 0] * 5, dtype=dtype)
    by = torch.full_like(x, -1)
    for operator in (torch.remainder, torch.fmod):
        assert_agrees(operator, device, x, by)
        assert_agrees(lambda x, f=operator: f(x, -1), device, x)
    negated = (-x).to(device)
    for mode in ("floor", "trunc"):
        assert torch.equal(torch.div(x.to(device), by.to(device), rounding_mode=mode), negated)
        assert torch.equal(torch.div(x.to(device), -1, rounding_mode=mode), negated)
    assert torch.equal(torch.lcm(x.to(device), by.to(device)).cpu(), torch.lcm(x, by))


@pytest.mark.parametrize("dtype", INTEGERS, ids=str)
@pytest.mark.parametrize("operator", ["floor_divide", "remainder", "fmod"])
def test_integer_division_by_zero(device, operator, dtype):
    function = getattr(torch, operator)
    x = torch.arange(37).to(dtype)
    for by in (x.flip(0).contiguous(), torch.zeros_like(x), x[:1], 0):
        with pytest.raises(RuntimeError, match=r"^ZeroDivisionError$"):
            function(x.to(device), by.to(device) if torch.is_tensor(by) else by).cpu()
    assert_agrees(function, device, x, x.flip(0).contiguous() + 1)


@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16, torch.float32], ids=str)
def test_quotient(device, dtype):
    x = torch.arange(1, 400, dtype=torch.float32)
    a, b = torch.cartesian_prod(x, torch.arange(1, 40) / 7).unbind(1)
    a, b = a.contiguous().to(dtype), b.contiguous().to(dtype)
    assert_agrees(lambda a, b: torch.div(a, b, rounding_mode="trunc"), device, a, b)
    assert_agrees(lambda a, b: torch.div(a, b, rounding_mode="floor"), device, a, b)
    assert_agrees(torch.remainder, device, a, b)


@pytest.mark.parametrize("mode", ["trunc", "floor"])
@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16, torch.float32], ids=str)
def test_quotient_by_one_number(device, dtype, mode):
    """The CPU does not round the number, nor the steps, to 16 bits."""
    x = torch.arange(-400, 400, dtype=torch.float32).to(dtype)
    for number in (0.1, 3, -7, 1 / 3, 1e-3, 0.0):
        assert_agrees(lambda x, n=number: torch.div(x, n, rounding_mode=mode), device, x)
        by = torch.tensor([number], dtype=dtype)
        assert_agrees(lambda x, y: torch.div(x, y, rounding_mode=mode), device, x, by)


LESS_EXACT = """
    #define ROUGH_DIVISION 1
    #define WRONG(q) (isfinite(q) && (q) != 0 ? AS(float, AS(int, q) + (ERROR)) : (q))
    #define DEVICE_QUOTIENT(x, y) WRONG((x) / (y))
"""


@pytest.mark.parametrize("error", [-2, -1, 1, 2])
def test_integers_by_less_exact_division(tmp_path, error):
    """Quotients of a device that are wrong by one or two units in the last place."""
    kernels = ROOT / "kernels"
    shutil.copytree(kernels, tmp_path / "kernels")
    math_text = tmp_path / "kernels/core/cl/math.clh"
    text = math_text.read_text()
    assert re.search("DEVICE_QUOTIENT", text)
    lines = [line.strip() for line in LESS_EXACT.replace("ERROR", str(error)).strip().splitlines()]
    math_text.write_text("\n".join([*lines, text]))
    code = """
        import torch
        import torch.nn.functional as F

        numbers = torch.Generator().manual_seed(0)
        x = torch.arange(1, 4000, dtype=torch.float32)
        wide = torch.rand(40000, generator=numbers) * 2.0 ** torch.arange(40000).remainder(25)
        tiny = (torch.arange(1, 4000) * 2.0**-140, torch.full((3999,), 3 * 2.0**-141))
        pairs = [(x * y, torch.full_like(x, y)) for y in (3, 7, 0.1, 10)]
        pairs += [(wide.round() * 3, torch.full_like(wide, 3)), (wide, wide.flip(0)), tiny]
        divided = []
        for a, b in pairs:
            for dtype in (torch.float32, torch.float16, torch.bfloat16):
                divided.append((a.to(dtype), b.to(dtype)))
        scales, zeros = torch.tensor([0.1, 0.3, 0.7]), torch.tensor([0, 3, 5], dtype=torch.int32)
        compiled = torch.compile(
            lambda a, b: [torch.div(a, b, rounding_mode=mode) for mode in ("trunc", "floor")],
            dynamic=True)
        has_fp64 = torch.ocl.get_device_properties().has_fp64
        one = torch.zeros(1, dtype=torch.float64, device="ocl" if has_fp64 else "cpu")
        with_double = torch.compile(
            lambda a, b: torch.div(a, b, rounding_mode="trunc") * torch.special.i0(one),
            dynamic=True)
        cases = {
            "compiled with a function of float64": lambda d: [
                (a / b).trunc().double() if d == "cpu" else with_double(a.to(d), b.to(d))
                for a, b in pairs],
            "compiled": lambda d: [
                part for a, b in pairs for part in (  # Inductor truncates the quotient
                    [(a / b).trunc(), torch.div(a, b, rounding_mode="floor")] if d == "cpu"
                    else compiled(a.to(d), b.to(d)))],
            "truncated": lambda d: [
                torch.div(a.to(d), b.to(d), rounding_mode="trunc") for a, b in divided],
            "floor": lambda d: [
                torch.div(a.to(d), b.to(d), rounding_mode="floor") for a, b in divided],
            "remainder": lambda d: [torch.remainder(a.to(d), b.to(d)) for a, b in divided],
            "fmod": lambda d: [torch.fmod(a.to(d), b.to(d)) for a, b in divided],
            "decimals": lambda d: [(x / 7).to(d).round(decimals=n) for n in (1, 3, -2)],
            "quantized": lambda d: [
                torch.fake_quantize_per_tensor_affine((x / 20).to(d), 0.1, 0, -128, 127),
                torch.fake_quantize_per_channel_affine(
                    (x.view(3, -1) / 70).to(d), scales.to(d), zeros.to(d), 0, 0, 255),
            ],
            "histogram": lambda d: [
                torch.histc((x / 10).to(d), 49, 0, 49), torch.histc((x % 70).to(d), 7, 0, 70)],
            "fractional pooling": lambda d: [
                F.fractional_max_pool2d(
                    torch.arange(n * n * 1.0).view(1, 1, n, n).to(d), 2, output_size=m,
                    _random_samples=torch.full((1, 1, 2), 0.25).to(d))
                for n in range(9, 24) for m in range(2, n - 1)],
            "reflections": lambda d: [
                F.grid_sample(
                    torch.arange(63.0).view(1, 1, 7, 9).to(d),
                    (torch.arange(-40.0, 40).view(1, 4, 10, 2) / 8).to(d),
                    padding_mode="reflection", align_corners=align) for align in (True, False)],
        }
        if not has_fp64:
            del cases["compiled with a function of float64"]
        for name, function in cases.items():
            for expected, actual in zip(function("cpu"), function("ocl"), strict=True):
                same = torch.isclose(actual.cpu(), expected, rtol=1e-5, atol=1e-5, equal_nan=True)
                wrong = (~same).nonzero()
                assert len(wrong) == 0, (name, expected.dtype, len(wrong), wrong[:3],
                                         actual.cpu()[~same][:3], expected[~same][:3])
        print("equal")
    """
    variables = {"OCL_KERNEL_DIR": str(tmp_path / "kernels"), "OCL_CACHE_DIR": "off"}
    assert output_of(code, **variables) == "equal"


@pytest.mark.parametrize("dtype", DTYPES[:-1], ids=str)
def test_logspace_of_each_type(device, dtype):
    exact = not dtype.is_floating_point
    for start, end, steps, base in ((0, 2, 3, 10), (0.5, 2.9, 5, 10), (0, 6, 13, 2), (1, 1, 1, 10)):
        for wrap in (lambda n: n, torch.tensor):

            def function(x, start=start, end=end, steps=steps, base=base, wrap=wrap):
                number = wrap(start), wrap(end)
                if torch.is_tensor(number[0]):
                    number = [n.to(x.device) for n in number]
                options = {"dtype": dtype, "device": x.device}
                return torch.logspace(*number, steps, base=base, **options)

            assert_agrees(function, device, torch.zeros(1), exact=exact)


def test_sign_of_zero_of_complex_numbers(device):
    """cosh and cos of real and imaginary numbers: the other part is a zero with a sign."""
    parts = torch.tensor([0.0, -0.0, 1.0, -1.0, 30.0])
    z = torch.complex(*torch.cartesian_prod(parts, parts).T.contiguous())
    for function in (torch.cosh, torch.sinh, torch.cos, torch.sin):
        assert_agrees(
            lambda z, function=function: torch.view_as_real(function(z)), device, z, exact=False
        )


def test_sign_of_truncated_zero(device):
    numbers = torch.tensor([0.0, -0.0, 0.3, -0.3, 1.0, -5.0, math.inf, -math.inf])
    a, b = torch.cartesian_prod(numbers, numbers).T.contiguous()
    assert_agrees(lambda a, b: torch.div(a, b, rounding_mode="trunc"), device, a, b)


def test_sign_of_zero_has_no_sign(device):
    for dtype in (torch.float32, torch.float16, torch.bfloat16):
        x = torch.tensor([-0.0, 0.0, -3.0, 2.0, math.nan, math.inf, -math.inf] * 3, dtype=dtype)
        assert_agrees(torch.sign, device, x)
        assert_agrees(torch.sgn, device, x)


def test_bessel_functions_of_large_numbers(device):
    x = torch.tensor([10.0, 100, 1e10, 1e30, 3e38, -3e38, math.nan])
    assert_agrees(torch.i0, device, x, exact=False)
    for name in ("i0e", "i1e", "i1"):
        assert_agrees(getattr(torch.special, name), device, x, exact=False)


def test_orders_of_norms(device):
    x = torch.tensor([[0.0, 1.0, -3.0], [0.5, 0.0, 1e-30]])
    # The order that is no number comes after another one: programs are found by their order.
    for order in (3.5, math.nan, -0.5, 1e300, -1e300, 1e-300, math.inf, -math.inf):
        for dim in (None, 1):
            norm = functools.partial(torch.linalg.vector_norm, ord=order, dim=dim)
            assert_agrees(norm, device, x, exact=False)


COMPLEX_TO_BOOL = {
    "bool": lambda x: x.bool(),
    "to": lambda x: x.to(torch.bool),
    "copy": lambda x: torch.zeros(x.shape, dtype=torch.bool, device=x.device).copy_(x),
    "strided": lambda x: x.flip(0)[::2].bool(),
    "conj": lambda x: x.conj().bool(),
    "neg": lambda x: x.imag.neg().bool(),
    "all": lambda x: x.all(),
    "any": lambda x: x.any(),
    "all_0": lambda x: x.view(2, -1).all(0),
    "any_0": lambda x: x.view(2, -1).any(1),
    "sum": lambda x: x.sum(dtype=torch.bool),
    "sum_0": lambda x: x.view(2, -1).sum(0, dtype=torch.bool),
    "prod": lambda x: x.prod(dtype=torch.bool),
    "logical_not": lambda x: torch.logical_not(x),
    "logical_and": lambda x: torch.logical_and(x, x.flip(0)),
    "logical_or": lambda x: torch.logical_or(x, x.flip(0)),
    "logical_xor": lambda x: torch.logical_xor(x, x.flip(0)),
    "logical_and_number": lambda x: torch.logical_and(x, torch.tensor(5j)),
    "nonzero": lambda x: x.nonzero(),
    "count_nonzero": lambda x: torch.count_nonzero(x),
    "where": lambda x: torch.where(x.bool(), 1, 0),
    "index_put": lambda x: torch.zeros(6, dtype=torch.bool, device=x.device).index_put(
        (torch.arange(6, device=x.device),), x.bool()
    ),
    "fill": lambda x: torch.zeros(6, dtype=torch.bool, device=x.device).fill_(5j),
    "fill_tensor": lambda x: torch.zeros(6, dtype=torch.bool, device=x.device).fill_(x[2]),
    "set": lambda x: torch.zeros(6, dtype=torch.bool, device=x.device).__setitem__(0, x[2]),
    "cat": lambda x: torch.cat([x, x.bool()]),
    "norm": lambda x: torch.linalg.vector_norm(x, 0),
    "host": lambda x: torch.zeros(6, dtype=torch.bool).copy_(x),
    "device": lambda x: torch.zeros(6, dtype=torch.bool, device=x.device).copy_(x.cpu()),
}


@pytest.mark.parametrize("name", COMPLEX_TO_BOOL)
def test_complex_numbers_are_true_unless_both_parts_are_zero(device, name):
    def function(x):
        result = COMPLEX_TO_BOOL[name](x)
        return torch.zeros(1) if result is None else result

    for numbers in ([5j, 0, 5j, 1, 1 + 1j, complex(math.nan, 0)], [5j] * 6, [0, 0, 0, 2j, 0, 0]):
        assert_agrees(function, device, torch.tensor(numbers, dtype=torch.complex64))


HALF = {
    "add": lambda x, y, out: torch.add(x, y, out=out),
    "sub": lambda x, y, out: torch.sub(x, -y, out=out),
    "mul": lambda x, y, out: torch.mul(x, y, out=out),
    "div": lambda x, y, out: torch.div(x, y * 1e-4, out=out),
    "exp": lambda x, y, out: torch.exp(x * 2e-4, out=out),
    "sigmoid": lambda x, y, out: torch.sigmoid(x * 1e-4, out=out),
    "addcmul": lambda x, y, out: torch.addcmul(x, x, y, out=out),
    "hypot": lambda x, y, out: torch.hypot(x, y, out=out),
    "sum": lambda x, y, out: torch.sum(x.view(2, -1), 0, out=out),
    "mean": lambda x, y, out: torch.mean(x.view(2, -1), 0, out=out),
    "amax": lambda x, y, out: torch.amax(x.view(2, -1), 0, out=out.to(x.dtype)),
}


@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16], ids=str)
@pytest.mark.parametrize("name", HALF)
def test_wider_result_is_rounded_first(device, name, dtype):
    x = torch.linspace(100, 65000, 34).to(dtype)
    y = torch.linspace(65000, 300, 34).to(dtype)
    for offset in (0, 1):

        def function(x, y, offset=offset):
            out = torch.empty(0, dtype=torch.float32, device=x.device)
            return HALF[name](x[offset * 2 :], y[offset * 2 :], out)

        exact = name in ("add", "sub", "mul", "div", "addcmul")
        assert_agrees(function, device, x, y, exact=exact)


@pytest.mark.parametrize("shape", [(3, 40), (40, 3), (2, 7000)], ids=str)
def test_variance_of_extreme_numbers(device, shape):
    """CPU sums float32 in float64; squares of these numbers are beyond float32."""
    near = {"exact": False, "rtol": 1e-4, "atol": 0}
    spread = 1 + torch.rand(shape)
    for scale in (1e38, 3e38, -3e38, 1e-19, 1e-25, 1e-36):
        numbers = spread * scale if abs(scale) < 2e38 else torch.full(shape, scale)
        for dim in (0, -1):
            for function in (torch.var, torch.std, torch.var_mean, torch.std_mean):
                assert_agrees(lambda x, f=function, d=dim: f(x, d), device, numbers, **near)
    special = torch.tensor([1e38, -1e38, math.inf, 1.0]).repeat(11)
    assert_agrees(torch.std, device, special)
    assert_agrees(torch.std, device, torch.zeros(40))


def test_addcmul_takes_a_cpu_scalar_last(device):
    a, b = torch.rand(2, 2).to(device), torch.rand(2, 2).to(device)
    scalar = torch.rand([])
    expected = torch.addcmul(a.cpu(), b.cpu(), scalar, value=0.5)
    torch.testing.assert_close(torch.addcmul(a, b, scalar, value=0.5).cpu(), expected)
    for tensors, name in (((a, scalar, b), "tensor1"), ((scalar, a, b), "self")):
        with pytest.raises(RuntimeError, match=f"CPU Scalar support for {name} argument"):
            torch.addcmul(*tensors, value=0.5)


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64], ids=str)
def test_remainders_of_equal_numbers(device, dtype):
    if dtype == torch.float64 and not has_fp64(device):
        pytest.skip("the device has no float64")
    tiny = torch.finfo(dtype).smallest_normal
    steps = torch.arange(1, 4000, dtype=dtype) * (tiny * torch.finfo(dtype).eps)
    x = torch.cat([steps, steps * 1001, torch.tensor([tiny, 1.0], dtype=dtype)])
    x = torch.cat([x, -x])
    for y in (x, -x):
        for function in (torch.fmod, torch.remainder):
            r = function(x.to(device), y.to(device)).cpu()
            assert torch.equal(r.abs(), torch.zeros_like(r))
