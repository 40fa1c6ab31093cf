"""Kernels that torch.compile generates: types, loop shapes and kinds of access, against eager."""

import logging

import pytest
import torch
import torch.nn.functional as F
from support import FLOATS, INTEGERS, has_fp64, output_of

pytestmark = pytest.mark.usefixtures("fresh_compiler")

GENERATED = "generated_kernel("


def check(function, *args, kernels=None, calls=0, rtol=1e-5, atol=1e-5, **options):
    """Compares with eager mode and the CPU; counts generated kernels, and calls of eager ones."""
    from torch._inductor.utils import run_and_get_code

    expected = function(*(arg.clone() for arg in args))
    compiled = torch.compile(function, fullgraph=True, **options)
    on_cpu = function(*(arg.cpu() for arg in args))
    result, (program,) = run_and_get_code(compiled, *args)
    torch.testing.assert_close(result, expected, rtol=rtol, atol=atol, equal_nan=True)
    result = torch.utils._pytree.tree_map(torch.Tensor.cpu, result)
    torch.testing.assert_close(result, on_cpu, rtol=rtol, atol=atol, equal_nan=True)
    if kernels is not None:
        assert program.count(GENERATED) == kernels, program
        assert program.count("= torch.ops.aten.") == calls, program
    return program


def randn(*shape, device, dtype=torch.float32):
    return torch.randn(shape, generator=torch.Generator().manual_seed(1)).to(device, dtype)


@pytest.mark.sample
@pytest.mark.parametrize("shape", [(5,), (64, 100), (3, 7, 50), (1000, 3), ()])
def test_a_chain_is_one_kernel(device, shape):
    def chain(x, y):
        z = (x * 2 + y).relu().sin() * 0.5
        return z - y.exp().tanh()

    last = shape[-1:]
    x, y = randn(*shape, device=device), randn(*last, device=device)
    check(chain, x, y, kernels=1, dynamic=False)


OF_ONE = """
    sigmoid reciprocal rsqrt logical_not isposinf isneginf logit sinc square bitwise_not expm1 log1p
    arctan arcsinh nan_to_num hardsigmoid hardswish leaky_relu logsigmoid softplus tanhshrink
    softshrink hardshrink gelu silu mish selu celu hardtanh relu6 deg2rad erfc digamma signbit frac
"""


def test_names_of_long_chains(device):
    """PoCL would end the process: it names a file after the kernel."""
    functions = [getattr(torch, name, None) or getattr(F, name) for name in OF_ONE.split()]

    def function(x):
        return [f(x > 0 if f is torch.bitwise_not else x) for f in functions]

    check(function, randn(5, 9, device=device).abs(), kernels=1)


def test_a_result_larger_than_the_caches(device):
    x = torch.arange((1 << 23) + 5, device=device, dtype=torch.float32)
    check(lambda x: x * 2 + 1, x, kernels=1)


def test_normalisation_is_one_kernel(device):
    def block(x, w, b):
        return F.gelu(F.layer_norm(x, (100,), w, b)), x.softmax(-1)

    x, w = randn(33, 100, device=device), randn(100, device=device)
    check(block, x, w, w, kernels=1)


@pytest.mark.parametrize("dtype", FLOATS)
def test_floating_point(device, dtype):
    wide = torch.float64 if has_fp64(device) else torch.float32

    def function(x, y):
        small = (x + y).float() * 2, x.abs().sqrt(), torch.maximum(x, y), torch.pow(x.abs(), 1.5)
        return *small, x.sum(0), x.softmax(-1), x > y, x.to(wide).sin(), x.half(), x.to(torch.int32)

    x = randn(9, 37, device=device, dtype=dtype)
    tolerance = 1e-2 if dtype.itemsize == 2 else 1e-5
    check(function, x, x[:1].clone(), rtol=tolerance, atol=tolerance)


@pytest.mark.parametrize("dtype", INTEGERS)
def test_integers(device, dtype):
    def function(x):
        arithmetic = x + 100, x * 3, x // 3, x % 3, x / 3, x << 1, x >> 1, ~x, x.abs(), -x
        return *arithmetic, x.clamp(1, 4), x.sum(0), x.amax(1), x.float(), x > 2, x.bool()

    check(function, (randn(9, 37, device=device) * 9).abs().to(dtype))


def test_negative_integers(device):
    x = (randn(9, 37, device=device) * 9).int()
    check(lambda x: (x // 3, x % 3, x // -4, x % -4, x >> 1), x)


def test_booleans(device):
    def function(x):
        some = x | (x.sum(1) > 20)[:, None]
        return some, ~x, x & True, x ^ some, x.any(1), x.all(0), x.int() + 1, x.float(), x.half()

    check(function, randn(9, 37, device=device) > 0)


@pytest.mark.parametrize("shape", [(33, 100), (100, 3), (3, 100), (1, 40)])
def test_reductions(device, shape):
    def function(x):
        whole = x.sum(), x.amax(), x.mean(), (x > 2).any()
        rows = x.sum(1), x.amin(1), x.prod(1), x.argmax(1), x.var(1), x.max(1)
        return *whole, *rows, x.sum(0), x.amax(0), x.argmin(0), x.std(0), x.norm(dim=0)

    check(function, randn(*shape, device=device))


def test_large_reductions_are_split(device):
    x = randn(300, 1000, device=device)
    check(lambda x: (x.sum(), x.mean(0), x.var()), x, rtol=1e-4, atol=1e-4)


def test_nan_and_infinity(device):
    x = torch.tensor([[1.0, float("nan"), 3.0], [float("-inf")] * 3, [float("inf"), 2.0, 1.0]])

    def function(x):
        single = x.relu(), x.clamp(0, 2), torch.maximum(x, x.t()), x.isnan(), x.isinf(), x.sign()
        return *single, x.amax(1), x.amin(1), x.argmax(1), x.argmin(0), x.softmax(1)

    with_nan = x.to(device)
    expected, result = function(with_nan), torch.compile(function, fullgraph=True)(with_nan)
    torch.testing.assert_close(result, expected, equal_nan=True)


def test_numbers_that_are_rounded_to_the_same(device):
    def function(x):
        near = torch.full((), 0.001, device=x.device)  # 0.001 as a float32
        return x * 0.001 + near * x.sqrt(), x.clamp(0.1, 0.10000000001)

    check(function, randn(9, 37, device=device).abs())


def test_access(device):
    """Strides, transposes, masks and padding."""

    def function(x):
        cut = F.pad(x, (1, 2), value=3.0), torch.tril(x), torch.roll(x, 3, 1), x.flip(0)
        moved = x.t().contiguous() + 1, x.view(3, 11, 50).permute(2, 0, 1) * 2, x[::2, 1::3] + 1
        return *cut, *moved, torch.cat([x, x * 2], 1) + 1, x.unfold(1, 5, 3).sum(-1)

    check(function, randn(33, 50, device=device))


def test_indirect_access(device):
    def function(x, rows):
        read = x[rows] + 1, x[:, rows] * 2, x[rows, rows], x.gather(1, rows.expand(33, 6)) + 1
        y = x.clone()
        y[rows] = 0
        return *read, F.embedding(rows, x) * 2, y

    check(function, randn(33, 50, device=device), torch.tensor([1, 5, 2, 3, 0, 9], device=device))


def test_an_index_outside_is_reported(device):
    x, rows = randn(33, 50, device=device), torch.tensor([1, 40], device=device)
    compiled = torch.compile(lambda x, rows: x[rows] * 2, fullgraph=True)
    with pytest.raises(IndexError, match="40 is out of bounds for dimension of size 33"):
        compiled(x, rows)
        torch.ocl.synchronize()


CONSTANT_INDICES = {
    "full": lambda x: x[torch.full((3,), 33, device=x.device)] * 2,
    "negative": lambda x: x[torch.full((3,), -34, device=x.device)] * 2,
    "arange": lambda x: x[torch.arange(34, device=x.device)] * 2,
    "put": lambda x: x.index_put((torch.full((1,), 40, device=x.device),), x[0]) * 2,
}


@pytest.mark.parametrize("name", CONSTANT_INDICES)
@pytest.mark.parametrize("dynamic", [False, True])
def test_a_constant_index_outside_is_reported(device, name, dynamic):
    x = randn(33, 50, device=device)
    compiled = torch.compile(CONSTANT_INDICES[name], dynamic=dynamic)
    with pytest.raises(IndexError, match="is out of bounds for dimension of size 33"):
        compiled(x)
        torch.ocl.synchronize()


def test_inputs_are_updated(device):
    def update(x, y):
        x.mul_(2).add_(y)
        return x.sum(1)

    x, y = randn(9, 37, device=device), randn(37, device=device)
    expected = x.clone()
    sums = update(expected, y)
    torch.testing.assert_close(torch.compile(update, fullgraph=True)(x, y), sums)
    torch.testing.assert_close(x, expected)


def test_dynamic_shapes_use_one_kernel(device):
    torch._dynamo.utils.counters.clear()

    def function(x, y):
        return (x * y).softmax(-1), x.sum(0), x.t() + 1

    compiled = torch.compile(function, fullgraph=True, dynamic=True)
    for shape in [(8, 16), (5, 33), (70, 7)]:
        x, y = randn(*shape, device=device), randn(shape[1], device=device)
        torch.testing.assert_close(compiled(x, y), function(x, y), rtol=1e-5, atol=1e-5)
    assert torch._dynamo.utils.counters["stats"]["unique_graphs"] == 1


def test_operators_whose_eager_kernels_give_other_strides(device):
    """Strides other than those of PyTorch's meta functions, which programs assert."""

    def function(x, pooled, places):
        found = [torch.nonzero_static(x > 0.5, size=n, fill_value=-3) for n in (0, 7, 200)]
        found += [torch.nonzero_static(y, size=2) for y in (x[0, 0, 0, 0], x[:, :0])]
        return F.max_unpool2d(pooled, places, 2) + 1, *found

    x = randn(2, 3, 4, 6, device=device).contiguous(memory_format=torch.channels_last)
    check(function, x, *F.max_pool2d(x, 2, return_indices=True))


def test_gradients(device):
    def function(x, w):
        return F.gelu(F.layer_norm(x, (37,), w)).softmax(-1).square().sum()

    gradients = []
    for run in (function, torch.compile(function, fullgraph=True)):
        x, w = randn(9, 37, device=device), randn(37, device=device)
        run(x.requires_grad_(), w.requires_grad_()).backward()
        gradients.append((x.grad, w.grad))
    torch.testing.assert_close(*gradients, rtol=1e-4, atol=1e-5)


def test_special_functions(device):
    def function(x):
        some = torch.lgamma(x), torch.digamma(x), torch.erfinv(x.tanh()), torch.special.i0(x)
        return *some, torch.special.bessel_j0(x), torch.special.zeta(x + 2, x + 1), torch.erf(x)

    check(function, randn(3, 20, device=device).abs() + 0.1, rtol=1e-4, atol=1e-5)


def test_what_cannot_be_generated_calls_eager_kernels(device, caplog):
    log = logging.getLogger("torch._inductor.ocl")
    log.setLevel(logging.INFO)
    log.addHandler(caplog.handler)
    try:
        check(lambda x: x.t().argmax() + 1, randn(9, 37, device=device), kernels=1, calls=1)
    finally:
        log.removeHandler(caplog.handler)
    assert "aten.argmax.default calls its eager kernel" in caplog.text


def test_sums_into_a_tensor_call_eager_kernels(device):
    accumulate = torch.ops.aten._unsafe_masked_index_put_accumulate

    def function(x, rows):
        put = x.index_put((rows,), torch.ones((), device=x.device), accumulate=True)
        added = x.index_add(0, rows, x[:3]), x.scatter_add(0, rows[:, None].expand(3, 37), x[:3])
        return put, *added, accumulate(x[:, 0], rows > 0, [rows], x[:3, 0]) * 2

    rows = torch.tensor([1, 5, 1], device=device)
    check(function, randn(9, 37, device=device), rows)


@pytest.mark.parametrize("safe", [True, False])
def test_gradients_of_indexing_keep_their_memory(device, safe):
    """Inductor makes index_put_() of index_put(): the result has the argument's memory."""

    def function(x, w, b):
        y = F.layer_norm(x, (32,), w, b)
        places = [torch.arange(2, device=device), torch.tensor([3, 8], device=device)]
        return (
            (y[tuple(places)] if safe else torch.ops.aten._unsafe_index(y, places)).square().sum()
        )

    inputs = [randn(*shape, device=device).requires_grad_() for shape in ((2, 9, 32), (32,), (32,))]
    results = [
        torch.autograd.grad(run(*inputs), inputs) for run in (function, torch.compile(function))
    ]
    torch.testing.assert_close(*results, rtol=1e-4, atol=1e-4)


def test_a_kernel_that_cannot_be_built(device):
    from torch_ocl.inductor.runtime import generated_kernel

    kernel = generated_kernel("broken", "bl", "t", 1, "__kernel void KERNEL_NAME() { nonsense; }")
    with pytest.raises(RuntimeError, match=r"cannot build /.*\.cl for ocl:0(.|\n)*nonsense"):
        kernel(torch.ones(1, device=device), 1, 1, 1)


def test_wrong_arguments_of_a_kernel(device):
    from torch_ocl.inductor.runtime import generated_kernel

    kernel = generated_kernel("unused", "bl", "t", 1, "__kernel void KERNEL_NAME() {}")
    with pytest.raises(TypeError, match=r"unused\(\): takes 4 arguments, not 1"):
        kernel(torch.ones(1, device=device))
    with pytest.raises(TypeError, match=r"unused\(\): the first argument must be a tensor"):
        kernel(1, 1, 1, 1)


CACHED = """
    import torch, torch_ocl
    x = torch.arange(60.0, device="ocl").view(6, 10)
    y = torch.compile(lambda x: (x.sin() * 2).softmax(1), fullgraph=True)(x)
    torch.testing.assert_close(y.cpu(), (x.cpu().sin() * 2).softmax(1))
    torch.ocl.synchronize()
    from torch._dynamo.utils import counters
    stats = torch_ocl._C.program_cache_stats()
    print(counters["inductor"]["fxgraph_cache_hit"], counters["aot_autograd"]["autograd_cache_hit"])
    print(stats["built"])
"""


def test_another_process_builds_nothing(device, tmp_path):
    variables = {
        "TORCHINDUCTOR_CACHE_DIR": str(tmp_path / "graphs"),
        "OCL_CACHE_DIR": str(tmp_path / "programs"),
    }
    first, second = (output_of(CACHED, **variables).split() for _ in range(2))
    assert int(first[-1]) > 0 and int(second[-1]) == 0
    assert second[1] == "1"


@pytest.mark.sample
@pytest.mark.parametrize(
    "shape", [(64, 256), (37, 77), (5,), (3, 1000), (2, 9, 100), (), (1, 1)], ids=str
)
@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16])
def test_dropout_is_fused_and_draws_what_eager_mode_draws(device, shape, dtype):
    def function(x):
        torch.manual_seed(4)
        return F.dropout(x + 1, 0.3) * 2, F.dropout(x, 0.9)

    x = randn(*shape, device=device, dtype=dtype)
    expected = function(x)
    program = check_draws(function, x, expected)
    assert program.count("= torch.ops.ocl.draw_philox") == 2
    assert "= torch.ops.aten.native_dropout" not in program


def check_draws(function, x, expected):
    from torch._inductor.utils import run_and_get_code

    results, (program,) = run_and_get_code(torch.compile(function), x)
    for result, wanted in zip(results, expected):
        assert torch.equal(result == 0, wanted == 0)
        torch.testing.assert_close(result, wanted)
    return program


def test_dropout_in_a_row_and_its_gradient(device):
    def function(x, w):
        return F.dropout(F.gelu(F.layer_norm(x, (100,), w)), 0.1)

    results = []
    x, w = (randn(*shape, device=device).requires_grad_() for shape in ((33, 100), (100,)))
    for run in (function, torch.compile(function, fullgraph=True)):
        torch.manual_seed(4)
        first, second = run(x, w), run(x, w)
        assert not torch.equal(first, second)
        results.append((first, second, *torch.autograd.grad((first * second).sum(), (x, w))))
    torch.testing.assert_close(*results, rtol=1e-4, atol=1e-5)


def test_the_mask_behind_a_reduction_is_not_stored(device):
    def function(x):
        torch.manual_seed(4)
        return (F.dropout(F.layer_norm(x, (100,)), 0.3),)

    x = randn(33, 100, device=device)
    program = check_draws(function, x, function(x))
    assert program.count(GENERATED) == 1
    assert "(b8, " not in program  # its type in loads and stores


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16])
def test_eager_kernel_of_dropout_from_a_drawn_state(device, dtype):
    x = randn(37, 77, device=device, dtype=dtype)
    torch.manual_seed(4)
    expected = torch.native_dropout(x, 0.3, True)
    torch.manual_seed(4)
    state = torch.ops.ocl.draw_philox((x.numel() + 63) // 64 * 16, x.device, 0)
    results = torch.ops.ocl.philox_dropout(x, 0.3, state)
    for result, wanted in zip(results, expected, strict=True):
        assert torch.equal(result, wanted)


def test_dropout_of_another_order_in_memory_calls_the_eager_kernel(device):
    x = randn(40, 30, device=device).t()
    torch.manual_seed(4)
    expected = F.dropout(x, 0.5)

    def function(x):
        torch.manual_seed(4)
        return (F.dropout(x, 0.5),)

    assert "= torch.ops.aten.native_dropout" in check_draws(function, x, (expected,))
