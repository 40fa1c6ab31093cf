"""Fake quantization, quantized tensors, and products with weights of few bits, against the CPU."""

import math

import pytest
import torch
import torch.nn.functional as F
from support import has_fp64

DTYPES = [torch.float32, torch.float16, torch.bfloat16]


def both(device, function, *tensors, grad=True):
    """-> [result, gradients ...] of the CPU and of the device"""
    results = []
    for where in ("cpu", device):
        leaves = [t.detach().clone().to(where) for t in tensors]
        for leaf in leaves:
            leaf.requires_grad_(grad and leaf.is_floating_point())
        out = function(*leaves)
        result = [out.detach().cpu()]
        if grad:
            out.backward(torch.ones_like(out) * 0.5)
            result += [t.grad.cpu() for t in leaves if t.grad is not None]
        results.append(result)
    return results


def compare(device, function, *tensors, grad=True, **tolerance):
    expected, actual = both(device, function, *tensors, grad=grad)
    for left, right in zip(actual, expected, strict=True):
        torch.testing.assert_close(left, right, **tolerance)


def test_fake_quantize_of_one_number(device):
    """The switch that PyTorch passes along has one dimension, the input none."""

    def fake_quantize(t):
        scale, zero_point = (torch.tensor(n, device=t.device) for n in (0.25, 3))
        return torch.fake_quantize_per_tensor_affine(t, scale, zero_point, 0, 100)

    compare(device, fake_quantize, torch.tensor(0.6))


@pytest.mark.sample
def test_fake_quantize_per_tensor(device):
    x = torch.randn(3, 50) * 20
    compare(device, lambda t: torch.fake_quantize_per_tensor_affine(t, 0.25, 3, 0, 100), x)


@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16])
def test_fake_quantize_halves(device, dtype):
    if dtype == torch.bfloat16:
        pytest.skip("the CPU has no bfloat16 here")
    x = (torch.randn(3, 50) * 20).to(dtype)
    compare(device, lambda t: torch.fake_quantize_per_tensor_affine(t, 0.25, 3, 0, 100), x)


def test_fake_quantize_special_values(device):
    x = torch.tensor([float("nan"), float("-inf"), -1e30, 1e30, 0.0])
    compare(device, lambda t: torch.fake_quantize_per_tensor_affine(t, 0.5, 3, 0, 100), x)


def test_fake_quantize_parameters_as_tensors(device):
    x, scale, zero = torch.randn(3, 50) * 20, torch.tensor(0.25), torch.tensor(3, dtype=torch.int32)
    compare(
        device,
        lambda t, z: torch.fake_quantize_per_tensor_affine(t, scale.to(t.device), z, 0, 100),
        x,
        zero,
    )


@pytest.mark.parametrize("zero", [torch.int32, torch.float32])
def test_fake_quantize_per_channel(device, zero):
    x, scale = torch.randn(3, 5, 7) * 20, torch.rand(5) + 0.1
    zero_points = torch.tensor([0, 1, 2, 3, 4]).to(zero)

    def run(t):
        where = t.device
        return torch.fake_quantize_per_channel_affine(
            t, scale.to(where), zero_points.to(where), 1, 0, 100
        )

    compare(device, run, x)


def test_learnable_per_tensor(device):
    compare(
        device,
        lambda x, s, z: torch._fake_quantize_learnable_per_tensor_affine(x, s, z, 0, 100, 0.3),
        torch.randn(3, 50) * 20,
        torch.tensor([0.25]),
        torch.tensor([3.0]),
        rtol=1e-4,
        atol=1e-4,
    )


def test_learnable_per_channel(device):
    compare(
        device,
        lambda x, s, z: torch._fake_quantize_learnable_per_channel_affine(x, s, z, 1, 0, 100, 0.3),
        torch.randn(3, 5, 7) * 20,
        torch.rand(5) + 0.1,
        torch.tensor([0.0, 1, 2, 3, 4]),
        rtol=1e-4,
        atol=1e-4,
    )


@pytest.mark.parametrize("per_row", [False, True])
@pytest.mark.parametrize("symmetric", [False, True])
def test_observer(device, per_row, symmetric):
    batches = [torch.randn(6, 9) for _ in range(3)]
    states = []
    for where in ("cpu", device):
        size = 0 if per_row else 1
        low = torch.full((size,), float("inf"), device=where)
        high = torch.full((size,), float("-inf"), device=where)
        scale = torch.ones(size, device=where)
        zero = torch.zeros(size, dtype=torch.int32, device=where)
        on = torch.ones(1, dtype=torch.int64, device=where)
        for batch in batches:
            out = torch.fused_moving_avg_obs_fake_quant(
                batch.to(where), on, on, low, high, scale, zero, 0.01, -128, 127, 0, per_row,
                symmetric,
            )  # fmt: skip
        states.append([t.cpu() for t in (out, low, high, scale, zero)])
    for left, right in zip(states[1], states[0], strict=True):
        torch.testing.assert_close(left, right)


def test_observer_and_quantization_are_switched_apart(device):
    """Scale and zero point are chosen where the quantization is on, observed or not."""
    x = torch.tensor([0.3, 2.2, -0.7])
    for observes, quantizes in ((0, 1), (1, 0), (0, 0)):
        states = []
        for where in ("cpu", device):
            given = [torch.tensor([v], device=where) for v in (-1.0, 3.0, 1.0)]
            given.append(torch.zeros(1, dtype=torch.int32, device=where))
            flags = [torch.tensor([v], device=where) for v in (observes, quantizes)]
            out = torch.fused_moving_avg_obs_fake_quant(
                x.to(where), *flags, *given, 0.1, 0, 255, 0, False, False
            )
            states.append([t.cpu() for t in (out, *given)])
        for left, right in zip(states[1], states[0], strict=True):
            torch.testing.assert_close(left, right)


@pytest.mark.parametrize("limits", [(-1.0, math.nan), (math.nan, 3.0), (1.0, 0.0), (2.0, 3.0)])
@pytest.mark.parametrize("x", [[0.3, 2.2], [0.3, math.nan]], ids=str)
@pytest.mark.parametrize("observes", [0, 1])
def test_observed_range_that_is_none(device, limits, x, observes):
    states = []
    for where in ("cpu", device):
        given = [torch.tensor([v], device=where) for v in (*limits, 1.0)]
        given.append(torch.zeros(1, dtype=torch.int32, device=where))
        flags = [torch.tensor([v], device=where) for v in (observes, 1)]
        numbers = torch.tensor(x, device=where)
        out = torch.fused_moving_avg_obs_fake_quant(numbers, *flags, *given, 0.1, 0, 255, 0)
        states.append([t.cpu() for t in (out, *given)])
    for left, right in zip(states[1], states[0], strict=True):
        torch.testing.assert_close(left, right, equal_nan=True)


@pytest.mark.parametrize("scale", [3.0, 0.1])
def test_fake_quantize_of_doubles_between_two_numbers(device, scale):
    """The inverse of the scale is a float32, so that 1.5 is no tie of the scale 3."""
    if not has_fp64(device):
        pytest.skip("the device has no float64")
    x = torch.arange(-400, 400, dtype=torch.float64) * (scale / 2)
    scales, zeros = torch.tensor([scale]), torch.zeros(1, dtype=torch.int32)
    for function in (
        lambda t: torch.fake_quantize_per_tensor_affine(t, scale, 0, -128, 127),
        lambda t: torch.fake_quantize_per_tensor_affine(
            t, scales.to(t.device), zeros.to(t.device), -128, 127
        ),
        lambda t: torch.fake_quantize_per_channel_affine(
            t[None], scales.to(t.device), zeros.to(t.device), 0, -128, 127
        ),
    ):
        compare(device, function, x, rtol=1e-6, atol=0)


def test_quantization_aware_module(device):
    module = torch.ao.quantization.FakeQuantize.with_args(
        observer=torch.ao.quantization.MovingAverageMinMaxObserver
    )
    x = torch.randn(4, 9)
    expected = module()(x)
    torch.testing.assert_close(module().to(device)(x.to(device)).cpu(), expected)


@pytest.mark.sample
@pytest.mark.parametrize("dtype", [torch.qint8, torch.quint8, torch.qint32])
def test_quantize_per_tensor(device, dtype):
    x = torch.randn(4, 33) * 5
    expected = torch.quantize_per_tensor(x, 0.25, 3, dtype)
    actual = torch.quantize_per_tensor(x.to(device), 0.25, 3, dtype)
    assert actual.device.type == "ocl"
    assert actual.dtype == dtype
    assert actual.q_scale() == 0.25
    assert actual.q_zero_point() == 3
    assert torch.equal(actual.int_repr().cpu(), expected.int_repr())
    torch.testing.assert_close(actual.dequantize().cpu(), expected.dequantize())


@pytest.mark.parametrize("dtype", [torch.qint8, torch.quint8, torch.qint32])
@pytest.mark.parametrize("scale", [1.0, 0.1, 1 / 3, 0.7])
@pytest.mark.parametrize("zero_point", [0, 1, 7, 100])
def test_quantize_between_two_numbers(device, dtype, scale, zero_point):
    """The zero point is added before the rounding, so odd ones change the even neighbours."""
    x = ((torch.arange(-200, 200).double() + 0.5) * scale).float()
    expected = torch.quantize_per_tensor(x, scale, zero_point, dtype)
    actual = torch.quantize_per_tensor(x.to(device), scale, zero_point, dtype)
    assert torch.equal(actual.int_repr().cpu(), expected.int_repr())
    if not torch.ocl.get_device_properties(device).has_fp64:
        return  # the scales of channels are float64
    scales, zeros = torch.tensor([scale]).double(), torch.tensor([zero_point])
    expected = torch.quantize_per_channel(x[None], scales, zeros, 0, dtype)
    actual = torch.quantize_per_channel(
        x[None].to(device), scales.to(device), zeros.to(device), 0, dtype
    )
    assert torch.equal(actual.int_repr().cpu(), expected.int_repr())


@pytest.mark.parametrize("zero_point", [-1, 256, 2**32 + 1])
def test_zero_points_of_channels_beyond_the_type(device, zero_point):
    if not torch.ocl.get_device_properties(device).has_fp64:
        return  # the scales of channels are float64
    operands = torch.zeros(2, 3), torch.ones(2), torch.tensor([255, zero_point])
    for where, text in (("cpu", "bound"), (device, f"zero point {zero_point} is out of bounds")):
        moved = (x.to(where) for x in operands)
        with pytest.raises(RuntimeError, match=text):
            torch.quantize_per_channel(*moved, 0, torch.quint8).int_repr().cpu()


@pytest.mark.parametrize("zero_point", [2**24 + 1, 2**30 + 1])
def test_large_zero_points(device, zero_point):
    """The CPU adds them as float32."""
    x = torch.arange(-2000, 2000) * 0.013
    expected = torch.quantize_per_tensor(x, 0.01, zero_point, torch.qint32)
    actual = torch.quantize_per_tensor(x.to(device), 0.01, zero_point, torch.qint32)
    assert torch.equal(actual.int_repr().cpu(), expected.int_repr())


@pytest.mark.parametrize("axis", [0, 1])
def test_quantize_per_channel(device, axis):
    if not torch.ocl.get_device_properties(device).has_fp64:
        pytest.skip("the scales of channels are float64")
    x = torch.randn(4, 4) * 5
    scales, zeros = torch.tensor([0.25, 0.5, 0.125, 1]), torch.tensor([0, 1, 2, 3])
    expected = torch.quantize_per_channel(x, scales, zeros, axis, torch.qint8)
    actual = torch.quantize_per_channel(
        x.to(device), scales.to(device), zeros.to(device), axis, torch.qint8
    )
    assert torch.equal(actual.int_repr().cpu(), expected.int_repr())
    assert actual.q_per_channel_axis() == axis
    torch.testing.assert_close(actual.dequantize().cpu(), expected.dequantize())


def test_copies_of_quantized_tensors(device):
    x = torch.quantize_per_tensor(torch.randn(4, 33) * 5, 0.25, 3, torch.quint8)
    there = x.to(device)
    assert torch.equal(there.int_repr().cpu(), x.int_repr())
    back = there.cpu()
    assert back.q_scale() == 0.25
    assert torch.equal(back.int_repr(), x.int_repr())
    assert torch.equal(there.clone()[1:, ::2].dequantize().cpu(), x[1:, ::2].dequantize())


@pytest.mark.fallback_allowed
def test_other_operators_of_quantized_tensors(device):
    x = torch.quantize_per_tensor(torch.randn(4, 33), 0.25, 3, torch.quint8)
    actual = torch.relu(x.to(device))
    assert actual.device.type == "ocl"
    assert torch.equal(actual.int_repr().cpu(), torch.relu(x).int_repr())


@pytest.mark.fallback_allowed
def test_strides_of_quantized_results(device):
    """The CPU's convolutions give channels_last."""
    x = torch.quantize_per_tensor(torch.randn(2, 3, 5, 5), 0.1, 3, torch.quint8)
    weight = torch.quantize_per_tensor(torch.randn(4, 3, 3, 3), 0.1, 0, torch.qint8)
    ones, zeros = [1, 1], [0, 0]
    packed = torch.ops.quantized.conv2d_prepack(weight, torch.zeros(4), ones, zeros, ones, 1)
    expected, actual = (
        torch.ops.quantized.conv2d.new(t, packed, 0.2, 3) for t in (x, x.to(device))
    )
    assert actual.device.type == "ocl"
    assert actual.stride() == expected.stride() != actual.contiguous().stride()
    assert torch.equal(actual.int_repr().cpu(), expected.int_repr())


@pytest.mark.sample
def test_int_mm(device):
    a, b = (torch.randint(-128, 128, (20, 30), dtype=torch.int8) for _ in range(2))
    actual = torch._int_mm(a.to(device), b.t().to(device))
    assert torch.equal(actual.cpu(), a.int() @ b.int().t())
    # Not compared with the CPU: without VNNI its sums of uint8 with int8 saturate at 16 bits.
    unsigned = a.view(torch.uint8)
    actual = torch._int_mm(unsigned.to(device), b.t().to(device))
    assert torch.equal(actual.cpu(), unsigned.int() @ b.int().t())
    for x, y in ((a.int(), b), (a > 0, b), (a, b.view(torch.uint8)), (unsigned, b.int())):
        with pytest.raises(RuntimeError, match="int8"):
            torch._int_mm(x.to(device), y.t().to(device))


def quantized(shape=(2, 3), dtype=torch.quint8):
    return torch.quantize_per_tensor(torch.arange(6.0).view(shape), 0.5, 3, dtype)


def assign(x):
    x[0] = 1.0
    return x


QUANTIZED = {
    "flip": lambda x: x.flip(0),
    "flip both": lambda x: x.flip([0, 1]),
    "rot90": lambda x: x.rot90(),
    "view": lambda x: x.view(3, 2),
    "t": lambda x: x.t(),
    "slice": lambda x: x[:, 1:],
    "contiguous": lambda x: x[:, ::2].contiguous(),
    "unfold": lambda x: x.unfold(1, 2, 1),
    "clone": torch.clone,
    "assign": assign,
    "fill": lambda x: x.fill_(1.0),
    "cat": lambda x: torch.cat([x, x]),
    "stack": lambda x: torch.stack([x, x]),
    "index": lambda x: x[torch.tensor([1, 0], device=x.device)],
    "mask": lambda x: x[torch.tensor([True, False], device=x.device)],
    "index_select": lambda x: x.index_select(0, torch.tensor([1, 0], device=x.device)),
    "sort": lambda x: x.sort(),
    "topk": lambda x: x.topk(2),
    "eq": lambda x: x == x,
    "gt": lambda x: x > 1,
    "mean": lambda x: x.mean(),
    "max": lambda x: x.max(),
    "relu": torch.relu,
    "sigmoid": torch.sigmoid,
    "tanh": torch.tanh,
    "gelu": F.gelu,
    "clamp": lambda x: x.clamp(0.5, 1.5),
    "leaky_relu": F.leaky_relu,
    "hardtanh": lambda x: F.hardtanh(x, 0, 1),
    "avg_pool2d": lambda x: F.avg_pool2d(x.view(1, 1, 2, 3), 2),
    "max_pool2d": lambda x: F.max_pool2d(x.view(1, 1, 2, 3), 2),
    "interpolate": lambda x: F.interpolate(x.view(1, 1, 2, 3), scale_factor=2),
    "resize": lambda x: x.resize_(3, 1),
    "add": lambda x: x + x,
    "mul": lambda x: x * x,
    "sum": lambda x: x.sum(),
    "gather": lambda x: x.gather(1, torch.tensor([[1], [0]], device=x.device)),
    "add, mixed": lambda x: x + x.dequantize(),
    "copy to float": lambda x: x.dequantize().copy_(x),
    "where": lambda x: torch.where(x == x, x, x),
    "roll": lambda x: x.roll(1),
}


def described(function, x):
    """Numbers, integers, quantizer and strides of the results, or the class of the error."""
    try:
        results = function(x)
    except Exception as error:
        return type(error)
    texts = []
    for y in results if isinstance(results, (tuple, list)) else [results]:
        quantizer = (y.q_scale(), y.q_zero_point()) if y.is_quantized else ()
        strides = y.stride()
        y = y.cpu()
        whole = y.int_repr() if y.is_quantized else y
        texts.append((y.dtype, y.shape, strides, quantizer, whole.tolist()))
    return texts


@pytest.mark.fallback_allowed
@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("dtype", [torch.qint8, torch.quint8], ids=str)
@pytest.mark.parametrize("name", QUANTIZED)
def test_quantized_as_on_the_cpu(device, name, dtype):
    x = quantized(dtype=dtype)
    expected = described(QUANTIZED[name], x.clone())
    assert described(QUANTIZED[name], x.to(device)) == expected
