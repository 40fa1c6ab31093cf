"""var, std, batch, layer, group and instance normalisation against the CPU."""

import math

import pytest
import torch
from support import assert_same, has_fp64
from torch.nn import functional as F
from traces import profiled

CHANNELS_LAST = torch.channels_last
TOLERANCE = {
    torch.float32: {"rtol": 1e-4, "atol": 2e-5},
    torch.float64: {"rtol": 1e-9, "atol": 1e-10},
    torch.float16: {"rtol": 1e-2, "atol": 1e-2},
    torch.bfloat16: {"rtol": 5e-2, "atol": 1e-1},
}


def gradients(function, tensors, device, dtype):
    """Result and gradients of the tensors; a tensor that is None stays one."""
    leaves = [None if t is None else t.detach().clone().to(device) for t in tensors]
    for leaf in leaves:
        if leaf is not None:
            leaf.requires_grad_()
    y = function(*leaves)
    torch.manual_seed(1)
    y.backward(torch.randn(y.shape).to(dtype).to(device))
    return [y.detach(), *(leaf.grad for leaf in leaves if leaf is not None)]


def compare(function, tensors, device, dtype=torch.float32):
    """In half precision the reference is computed in float32, which both round to."""
    half = dtype in (torch.float16, torch.bfloat16)
    tensors = [None if t is None else t.to(dtype) for t in tensors]
    wide = [None if t is None else t.float() for t in tensors] if half else tensors
    expected = gradients(function, wide, "cpu", torch.float32 if half else dtype)
    actual = gradients(function, tensors, device, dtype)
    for a, e in zip(actual, expected, strict=True):
        assert a.dtype == dtype and a.device.type == "ocl"
        torch.testing.assert_close(a.cpu().to(e.dtype), e, **TOLERANCE[dtype])


def dtypes(device):
    return [t for t in TOLERANCE if t != torch.float64 or has_fp64(device)]


# ---- variance


@pytest.mark.parametrize("dims", [(), (0,), (1,), (2,), (0, 1), (1, 2), (0, 2), (0, 1, 2)])
@pytest.mark.parametrize("layout", ["dense", "transposed", "sliced", "expanded"])
def test_variance(device, dims, layout):
    x = torch.randn(7, 40, 35) * 2 + 100
    on_device = x.to(device)
    change = {
        "dense": lambda t: t,
        "transposed": lambda t: t.permute(2, 0, 1),
        "sliced": lambda t: t[1:, ::3, 2:30],
        "expanded": lambda t: t[:, :1].expand(-1, 9, -1),
    }[layout]
    x, on_device = change(x), change(on_device)
    dim = dims or None
    for correction in (0, 1):
        for function in (torch.var, torch.std):
            for keepdim in (False, True):
                expected = function(x, dim, correction=correction, keepdim=keepdim)
                actual = function(on_device, dim, correction=correction, keepdim=keepdim)
                assert_same(actual, expected, exact=False, rtol=2e-5, atol=2e-5)
    for a, e in zip(torch.var_mean(on_device, dim), torch.var_mean(x, dim), strict=True):
        assert_same(a, e, exact=False, rtol=2e-5, atol=2e-5)


def test_variance_does_not_cancel(device):
    """One far element does not hide the spread of the others, nor does a mean far from 0."""
    x = torch.randn(5, 70000)
    x += 1e3
    x[0, 0] = 1e4
    for dim in (0, 1):
        expected = torch.var(x.double(), dim)
        actual = torch.var(x.to(device), dim).cpu().double()
        torch.testing.assert_close(actual, expected, rtol=2e-3, atol=0)


@pytest.mark.parametrize("number", [math.nan, math.inf])
@pytest.mark.parametrize("scale", [1.0, 1e25, 1e-25])
def test_variance_of_long_rows_with_one_number_that_is_none(device, number, scale):
    """The squares leave float32's range or not; the number is in the last part of the first row."""
    x = torch.randn(2, 70000) * scale
    x[0, -1] = number
    for rows, dim in (x, 1), (x.t().contiguous(), 0):
        expected = torch.std(rows.double(), dim).float()
        actual = torch.std(rows.to(device), dim).cpu()
        torch.testing.assert_close(actual, expected, rtol=1e-4, atol=0, equal_nan=True)


@pytest.mark.parametrize("dim", [0, 1])
def test_variance_of_lengths(device, dim):
    """Work-items of GPUs share a row, and join four elements at a time; the last ones are left."""
    for length in [*range(2, 19), 63, 65, 1023, 1030]:
        x = torch.randn(37, length) + 3
        tensor = x if dim == 1 else x.t().contiguous()
        for a, e in zip(torch.var_mean(tensor.to(device), dim), torch.var_mean(tensor, dim)):
            torch.testing.assert_close(a.cpu(), e, rtol=1e-4, atol=1e-5)


@pytest.mark.parametrize("number", [1e20, 1e25, 2e38])
@pytest.mark.parametrize("order", [torch.contiguous_format, CHANNELS_LAST])
def test_means_of_large_numbers(device, number, order):
    """Their squares and sums leave float32, but not their means.

    Nor does the variance of equal numbers in the GPU family; the CPU family's mean is rounded.
    """
    equal = torch.full((4, 3, 7, 5), number)
    mixed = equal.clone()
    mixed.view(-1)[::3] = 0
    for x in equal, mixed:
        arranged = x.to(device).contiguous(memory_format=order)
        _, mean, rstd = torch.native_batch_norm(arranged, *[None] * 4, True, 0.1, 1e-4)
        expected = x.double().mean((0, 2, 3)).float()
        torch.testing.assert_close(mean.cpu(), expected, rtol=1e-5, atol=0)
        if x is mixed or torch.ocl.get_device_properties(device).kernel_family == "gpu":
            expected = torch.full((3,), 100.0 if x is equal else 0.0)
            torch.testing.assert_close(rstd.cpu(), expected)


def test_variance_of_types(device):
    for dtype in dtypes(device):
        x = torch.randn(33, 65).to(dtype)
        for dim in (0, 1):
            actual = torch.var(x.to(device), dim)
            torch.testing.assert_close(actual.cpu(), torch.var(x, dim), **TOLERANCE[dtype])
    out = torch.empty(40, device=device)[::2]
    x = torch.randn(20, 9)
    torch.std(x.to(device), 1, out=out)
    torch.testing.assert_close(out.cpu(), torch.std(x, 1))


@pytest.mark.filterwarnings("ignore:.*degrees of freedom")
def test_variance_of_little(device):
    for shape, dim in [((0, 3), 0), ((3, 0), 0), ((1, 3), 0), ((), None), ((0,), None)]:
        x = torch.zeros(shape)
        assert_same(torch.var(x.to(device), dim), torch.var(x, dim))


# ---- batch norm

SHAPES = [(6, 5), (4, 20, 7), (8, 16, 7, 7), (3, 70, 5, 6), (2, 3, 33, 40), (2, 5, 3, 4, 6)]


@pytest.mark.parametrize("affine", ["both", "none", "weight", "bias"])
@pytest.mark.parametrize("training", [True, False])
@pytest.mark.parametrize("shape", SHAPES)
def test_batch_norm(device, shape, training, affine):
    x = torch.randn(shape) * 2 + 3
    channels = shape[1]
    weight = torch.rand(channels) + 0.5 if affine in ("both", "weight") else None
    bias = torch.randn(channels) if affine in ("both", "bias") else None
    mean, var = torch.randn(channels), torch.rand(channels) + 0.5
    running = []

    def function(x, weight, bias):
        m, v = mean.clone().to(x.device), var.clone().to(x.device)
        y = F.batch_norm(x, m, v, weight, bias, training, 0.3, 1e-4)
        running.append((m.cpu(), v.cpu()))
        return y

    compare(function, [x, weight, bias], device)
    (m0, v0), (m1, v1) = running
    torch.testing.assert_close(m1, m0)
    torch.testing.assert_close(v1, v0)
    assert training == (not torch.equal(m1, mean))


def test_batch_norm_with_one_running_statistic(device):
    x, statistic = torch.ones(2, 3, device=device), torch.ones(3, device=device)
    for running in ((None, statistic), (statistic, None)):
        with pytest.raises(ValueError, match="must either both be None or neither be None"):
            F.batch_norm(x, *running, training=True)


@pytest.mark.sample
def test_batch_norm_types_and_orders(device):
    for dtype in dtypes(device):
        weight, bias = torch.rand(9) + 0.5, torch.randn(9)
        for shape in [(6, 9), (4, 9, 5, 6)]:
            x = torch.randn(shape)
            for training in (True, False):
                wide = torch.float64 if dtype == torch.float64 else torch.float32
                running = [torch.zeros(9, dtype=wide), torch.ones(9, dtype=wide)]

                def function(x, w, b, running=running, training=training):
                    m, v = (t.to(x.device) for t in running)
                    return F.batch_norm(x, m, v, w, b, training)

                compare(function, [x, weight, bias], device, dtype)
    x = torch.randn(4, 9, 5, 6).to(memory_format=CHANNELS_LAST)
    y = F.batch_norm(x.to(device), None, None, training=True)
    assert y.is_contiguous(memory_format=CHANNELS_LAST)
    torch.testing.assert_close(
        y.cpu(), F.batch_norm(x, None, None, training=True), rtol=1e-4, atol=1e-5
    )
    compare(lambda x: F.batch_norm(x, None, None, training=True), [x], device)


def test_batch_norm_half_with_float_parameters(device):
    x = torch.randn(4, 6, 5, 5).bfloat16()
    layer = torch.nn.BatchNorm2d(6)
    on_device = torch.nn.BatchNorm2d(6).to(device)
    y = on_device(x.to(device))
    assert y.dtype == torch.bfloat16
    torch.testing.assert_close(y.cpu(), layer(x), rtol=2e-2, atol=2e-2)
    torch.testing.assert_close(on_device.running_var.cpu(), layer.running_var, rtol=1e-3, atol=1e-4)


def test_batch_norm_module(device):
    """Several steps in training, then evaluation; the double backward works, too."""
    torch.manual_seed(3)
    layers = [torch.nn.BatchNorm2d(5), torch.nn.BatchNorm2d(5).to(device)]
    for step in range(3):
        x = torch.randn(4, 5, 6, 6) + step
        outputs = [layer(x.to(layer.weight.device)) for layer in layers]
        torch.testing.assert_close(outputs[1].cpu(), outputs[0], rtol=1e-4, atol=1e-5)
    for name, buffer in layers[0].named_buffers():
        torch.testing.assert_close(dict(layers[1].named_buffers())[name].cpu(), buffer)
    x = torch.randn(3, 5, 4, 4)
    torch.testing.assert_close(
        layers[1].eval()(x.to(device)).cpu(), layers[0].eval()(x), rtol=1e-4, atol=1e-5
    )
    instance = [torch.nn.InstanceNorm2d(5, affine=True).to(d)(x.to(d)) for d in ("cpu", device)]
    torch.testing.assert_close(instance[1].cpu(), instance[0], rtol=1e-4, atol=1e-5)


def test_batch_norm_operators(device):
    """The forms that functionalisation and torch.export use."""
    x, w, b = torch.randn(4, 6, 5), torch.rand(6), torch.randn(6)
    m, v = torch.randn(6), torch.rand(6) + 0.5

    def call(op, *numbers):
        expected = op(x, w, b, m.clone(), v.clone(), *numbers)
        actual = op(*(t.to(device) for t in (x, w, b, m, v)), *numbers)
        for a, e in zip(actual[:3], expected[:3], strict=True):
            torch.testing.assert_close(a.cpu(), e, rtol=1e-4, atol=1e-5)

    for training in (True, False):
        call(torch.ops.aten.native_batch_norm, training, 0.1, 1e-5)
        call(torch.ops.aten._native_batch_norm_legit, training, 0.1, 1e-5)
    call(torch.ops.aten._batch_norm_with_update, 0.1, 1e-5)
    call(torch.ops.aten._batch_norm_no_update, 0.1, 1e-5)
    stats = [t.to(device) for t in (m, v)]
    expected = torch.batch_norm_update_stats(x, m, v, 0.2)
    actual = torch.batch_norm_update_stats(x.to(device), *stats, 0.2)
    for a, e in zip([*actual, *stats], [*expected, m, v], strict=True):
        torch.testing.assert_close(a.cpu(), e)


# ---- layer, group and RMS norm


@pytest.mark.parametrize("affine", ["both", "none", "weight"])
@pytest.mark.parametrize(
    "shape, normalized",
    [((4, 7), 1), ((3, 5, 64), 1), ((2, 3, 1000), 1), ((2, 30, 37), 2), ((7,), 1)],
)
def test_layer_norm(device, shape, normalized, affine):
    inner = shape[len(shape) - normalized :]
    weight = torch.rand(inner) + 0.5 if affine != "none" else None
    bias = torch.randn(inner) if affine == "both" else None
    x = torch.randn(shape) * 3 + 2
    compare(lambda x, w, b: F.layer_norm(x, inner, w, b, 1e-4), [x, weight, bias], device)


def test_layer_norm_of_row_lengths(device):
    """The more work-items of GPUs take a row the longer it is. They keep it in registers or not."""
    for size in (2, 7, 8, 9, 31, 33, 64, 255, 257, 2048, 2049, 4096, 4097):
        tensors = [torch.randn(5, size), torch.randn(size), torch.randn(size)]
        compare(lambda x, w, b, n=size: F.layer_norm(x, (n,), w, b, 1e-2), tensors, device)


@pytest.mark.parametrize("affine", [True, False])
@pytest.mark.parametrize("size, rows", [(9, 9001), (70, 2001), (600, 515), (1500, 333)])
def test_layer_norm_of_many_rows(device, size, rows, affine):
    """Work-groups of GPUs take rows in rounds, and sum up the parameters' gradients meanwhile."""
    x, g = torch.randn(rows, size) + 2, torch.randn(rows, size)
    weight, bias = (torch.rand(size) + 0.5, torch.randn(size)) if affine else (None, None)
    found = []
    for where in ("cpu", device):
        leaves = [t if t is None else t.clone().to(where) for t in (x, weight, bias)]
        for leaf in filter(lambda t: t is not None, leaves):
            leaf.requires_grad_()
        F.layer_norm(leaves[0], (size,), *leaves[1:]).backward(g.to(where))
        found.append([leaf.grad.cpu() for leaf in leaves if leaf is not None])
    for expected, actual in zip(*found, strict=True):
        torch.testing.assert_close(actual, expected, rtol=1e-4, atol=2e-4)


@pytest.mark.sample
def test_layer_norm_types(device):
    for dtype in dtypes(device):
        tensors = [torch.randn(6, 70), torch.rand(70) + 0.5, torch.randn(70)]
        compare(lambda x, w, b: F.layer_norm(x, (70,), w, b), tensors, device, dtype)
    x = torch.randn(70, 6).t()
    torch.testing.assert_close(F.layer_norm(x.to(device), (70,)).cpu(), F.layer_norm(x, (70,)))
    assert F.layer_norm(torch.zeros(0, 4, device=device), (4,)).shape == (0, 4)
    with pytest.raises(RuntimeError, match="normalized_shape"):
        F.layer_norm(x.to(device), (5,))


@pytest.mark.parametrize("affine", [True, False])
@pytest.mark.parametrize(
    "shape, groups", [((2, 6), 3), ((3, 8, 5), 4), ((2, 12, 7, 9), 3), ((1, 4, 40, 40), 1)]
)
def test_group_norm(device, shape, groups, affine):
    weight = torch.rand(shape[1]) + 0.5 if affine else None
    bias = torch.randn(shape[1]) if affine else None
    x = torch.randn(shape) * 2 - 1
    compare(lambda x, w, b: F.group_norm(x, groups, w, b), [x, weight, bias], device)


@pytest.mark.sample
def test_group_norm_types(device):
    for dtype in dtypes(device):
        tensors = [torch.randn(3, 6, 5, 4), torch.rand(6) + 0.5, torch.randn(6)]
        compare(lambda x, w, b: F.group_norm(x, 2, w, b), tensors, device, dtype)


def test_group_norm_rounds_once(device):
    x = (torch.randn(2, 8, 33) * 3 + 20).bfloat16()
    weight, bias = torch.rand(8).bfloat16() + 0.5, torch.randn(8).bfloat16()
    exact = F.group_norm(x.double(), 2, weight.double(), bias.double())
    y = F.group_norm(x.to(device), 2, weight.to(device), bias.to(device)).cpu()
    half_step = exact.abs() * 2**-8 + 1e-4
    assert bool(((y.double() - exact).abs() <= half_step).all())


@pytest.mark.parametrize("weighted", [True, False])
@pytest.mark.parametrize(
    "shape", [(5, 40), (4, 1), (3, 5000), (5000, 48), (2, 3, 8), (0, 8), (3, 0)], ids=str
)
def test_rms_norm(device, shape, weighted):
    """Many short rows: GPUs sum up the gradient of the weight while they read the rows."""
    x, w = torch.randn(shape), torch.rand(shape[-1:]) + 0.5 if weighted else None
    for dtype in dtypes(device):
        compare(lambda x, w: F.rms_norm(x, shape[-1:], w, 1e-5), [x, w], device, dtype)


def test_rms_norm_is_one_kernel(device, tmp_path):
    x, w = torch.randn(6, 40, device=device), torch.rand(40, device=device)
    assert profiled(lambda: F.rms_norm(x, (40,), w), tmp_path).names() == ["layer_norm"]


def test_rms_norm_of_extremes(device):
    inf, nan = float("inf"), float("nan")
    x = torch.tensor([[1e30, 1.0, -1e30], [inf, 1, 2], [nan, 1, 2], [0, 0, 0], [1e-30, 0, 0]])
    for eps in (None, 1e-6, 0.0):
        expected = F.rms_norm(x, (3,), None, eps)
        assert_same(F.rms_norm(x.to(device), (3,), None, eps), expected, exact=False)


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16], ids=str)
@pytest.mark.parametrize(
    ("shape", "memory_format"),
    [
        ((2, 6, 3, 5), torch.channels_last),
        ((2, 6, 1, 1), torch.channels_last),
        ((2, 6, 16, 10), torch.channels_last),
        ((1, 96, 16, 8), torch.channels_last),
        ((0, 6, 3, 3), torch.channels_last),
        ((2, 6, 2, 3, 4), torch.channels_last_3d),
    ],
    ids=str,
)
@pytest.mark.parametrize("affine", [False, True])
def test_group_norm_of_channels_last(device, shape, memory_format, affine, dtype):
    x = torch.randn(shape, dtype=dtype).to(memory_format=memory_format)
    parameters = [torch.rand(shape[1], dtype=dtype) if affine else None for _ in range(2)]
    weights, results = torch.randn(shape, dtype=dtype), []
    for where in ("cpu", device):
        leaf = x.clone().to(where).requires_grad_()
        given = [p if p is None else p.clone().to(where).requires_grad_() for p in parameters]
        y = torch.nn.functional.group_norm(leaf, 3, *given)
        y.backward(weights.to(where))
        pixels = torch.Size(shape[2:]).numel()
        raw = torch.native_group_norm(leaf.detach(), None, None, *shape[:2], pixels, 3, 0)
        results.append([y.detach(), raw[0], leaf.grad, *(p.grad for p in given if p is not None)])
    near = {"rtol": 3e-2, "atol": 1e-2} if dtype == torch.bfloat16 else {}
    for expected, actual in zip(*results, strict=True):
        assert actual.stride() == expected.stride()
        torch.testing.assert_close(actual.cpu(), expected, equal_nan=True, **near)


def test_group_norm_of_integers(device):
    with pytest.raises(NotImplementedError):
        torch.nn.functional.group_norm(torch.ones(2, 4, 3, dtype=torch.int64, device=device), 2)


@pytest.mark.parametrize(
    ("x", "parameter"),
    [
        (torch.float32, torch.float16),
        (torch.float32, torch.float64),
        (torch.float16, torch.bfloat16),
        (torch.float16, torch.float32),
    ],
    ids=str,
)
def test_mixed_types(device, x, parameter):
    if parameter == torch.float64 and not has_fp64(device):
        pytest.skip("no float64 on this device")
    image = torch.rand(2, 4, 3, 3).to(device, x)
    numbers = torch.rand(4).to(device, parameter)
    for function in (
        lambda: F.instance_norm(image, weight=numbers, bias=numbers),
        lambda: F.batch_norm(image, None, None, numbers, numbers, training=True),
    ):
        if parameter == torch.float32:
            assert function().dtype == x
        else:
            with pytest.raises(RuntimeError, match="mixed dtype"):
                function()
