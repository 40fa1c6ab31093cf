"""Pooling of images against the CPU."""

import pytest
import torch
import torch.nn.functional as F
from agreement import assert_agreement
from support import FLOATS

SHAPES = [(2, 3, 9, 8), (3, 7, 7), (1, 40, 5, 6), (2, 1, 6, 6), (1, 2, 5, 41), (1, 85, 9, 70)]
FORMATS = [torch.contiguous_format, torch.channels_last]


def compare(device, function, shape, dtype=torch.float32, memory_format=torch.contiguous_format):
    x = torch.randn(shape).to(dtype)
    if len(shape) == 4:
        x = x.contiguous(memory_format=memory_format)
    elif memory_format == torch.channels_last:
        pytest.skip("channels_last has four dimensions")
    assert_agreement(device, function, x)


@pytest.mark.parametrize("dtype", FLOATS)
@pytest.mark.parametrize("memory_format", FORMATS)
@pytest.mark.parametrize("shape", SHAPES)
@pytest.mark.parametrize(
    "options",
    [
        {"kernel_size": 2},
        {"kernel_size": 3, "stride": 2, "padding": 1},
        {"kernel_size": (2, 3), "stride": 1, "dilation": 2, "padding": (0, 1)},
        {"kernel_size": 3, "stride": 2, "ceil_mode": True},
        {"kernel_size": (3, 2), "stride": (2, 3), "padding": 1, "dilation": 2},
    ],
    ids=str,
)
def test_max_pool2d(device, shape, memory_format, dtype, options):
    compare(
        device,
        lambda x: F.max_pool2d(x, return_indices=True, **options),
        shape,
        dtype,
        memory_format,
    )


@pytest.mark.parametrize("dtype", FLOATS)
@pytest.mark.parametrize("memory_format", FORMATS)
@pytest.mark.parametrize("shape", SHAPES)
@pytest.mark.parametrize(
    "options",
    [
        {"kernel_size": 2},
        {"kernel_size": 3, "stride": 2, "padding": 1},
        {"kernel_size": 3, "stride": 2, "padding": 1, "count_include_pad": False},
        {"kernel_size": (2, 3), "stride": 2, "ceil_mode": True},
        {"kernel_size": 2, "divisor_override": -3},
        {"kernel_size": (3, 5), "stride": 1, "padding": (1, 2), "count_include_pad": False},
        {"kernel_size": (2, 5), "stride": (1, 3), "padding": (0, 2), "ceil_mode": True},
        {"kernel_size": 1, "stride": 2},
        {"kernel_size": 2, "stride": 3},
    ],
    ids=str,
)
def test_avg_pool2d(device, shape, memory_format, dtype, options):
    compare(device, lambda x: F.avg_pool2d(x, **options), shape, dtype, memory_format)


@pytest.mark.parametrize("dtype", FLOATS)
@pytest.mark.parametrize("memory_format", FORMATS)
@pytest.mark.parametrize("shape", SHAPES)
@pytest.mark.parametrize("size", [(2, 3), (7, 5), (13, 1), (5, 77)])
def test_adaptive_avg_pool2d(device, shape, memory_format, dtype, size):
    compare(device, lambda x: F.adaptive_avg_pool2d(x, size), shape, dtype, memory_format)


@pytest.mark.parametrize("dtype", FLOATS)
@pytest.mark.parametrize("memory_format", FORMATS)
@pytest.mark.parametrize("shape", SHAPES)
@pytest.mark.parametrize("size", [(2, 3), (7, 5), (13, 1)])
def test_adaptive_max_pool2d(device, shape, memory_format, dtype, size):
    compare(
        device,
        lambda x: F.adaptive_max_pool2d(x, size, return_indices=True),
        shape,
        dtype,
        memory_format,
    )


@pytest.mark.sample
@pytest.mark.parametrize("memory_format", FORMATS)
def test_small(device, memory_format):
    shape = (2, 3, 6, 6)
    compare(device, lambda x: F.max_pool2d(x, 3, 2), shape, memory_format=memory_format)
    compare(device, lambda x: F.avg_pool2d(x, 2), shape, memory_format=memory_format)
    compare(device, lambda x: F.adaptive_max_pool2d(x, 4), shape, memory_format=memory_format)
    compare(device, lambda x: F.adaptive_avg_pool2d(x, 4), shape, memory_format=memory_format)


@pytest.mark.parametrize("stride", [1, 2, 3, None])
@pytest.mark.parametrize("memory_format", FORMATS)
@pytest.mark.parametrize("width", [5, 60])
def test_max_pool_of_equals_infinities_and_not_a_number(device, width, memory_format, stride):
    x = torch.randint(0, 3, (2, 20, 6, width)).float()
    x[:, 1, 1, 1] = x[:, 0, 3, width // 2] = x[:, 0, 4, width // 2 - 1 :] = float("nan")
    x[:, 2, :5, 1:] = float("-inf")
    x = x.contiguous(memory_format=memory_format)

    def pool(x):
        if stride is None:
            return F.adaptive_max_pool2d(x, (3, 4), return_indices=True)
        return F.max_pool2d(x, 3, stride, 1, return_indices=True)

    for actual, expected in zip(pool(x.to(device)), pool(x)):
        torch.testing.assert_close(actual.cpu(), expected, equal_nan=True)


def test_out_of_another_layout(device):
    x = torch.randn(2, 4, 6, 6)
    out = torch.empty(2, 4, 3, 3, device=device).contiguous(memory_format=torch.channels_last)
    torch._C._nn.avg_pool2d(x.to(device), 2, out=out)
    torch.testing.assert_close(out.cpu(), F.avg_pool2d(x, 2))


def outcome(function, *arguments):
    """The shape of what the function gives, or its error."""
    try:
        return tuple(function(*arguments).shape)
    except RuntimeError as error:
        return str(error).split("\n")[0]


@pytest.mark.parametrize("dims", [2, 3])
def test_empty_adaptive_averages(device, dims):
    """Calls that raise on the CPU raise the same errors here."""
    name = f"_adaptive_avg_pool{dims}d"
    forward, backward = getattr(torch.ops.aten, name), getattr(torch.ops.aten, name + "_backward")
    image, pooled, none = [6] * dims, [4] * dims, [0] * dims
    thin = [*image[1:], 0]
    for lead in ([0, 2], [0], [2, 0], [0, 0], [2, 2], []):
        for tail in (image, thin):
            x = torch.ones(*lead, *tail)
            assert outcome(forward, x.to(device), pooled) == outcome(forward, x, pooled)
        x = torch.ones(*lead, *image)
        for tail in (pooled, none) if lead else ():
            grad = torch.ones(*lead, *tail)
            expected = outcome(backward, grad, x)
            assert outcome(backward, grad.to(device), x.to(device)) == expected


@pytest.mark.parametrize("dims", [2, 3])
def test_adaptive_average_of_another_type(device, dims):
    backward = getattr(torch.ops.aten, f"_adaptive_avg_pool{dims}d_backward")
    grad = torch.ones(2, *[4] * dims, dtype=torch.float16, device=device)
    image = torch.ones(2, *[6] * dims, device=device)
    with pytest.raises(RuntimeError, match="expected dtype"):
        backward(grad, image)


@pytest.mark.parametrize(
    "options",
    [
        {"kernel_size": 2, "stride": 2**31},
        {"kernel_size": 2, "stride": 2**63 - 1, "ceil_mode": True},
        {"kernel_size": 3, "stride": 2**32 + 1, "padding": 1},
        {"kernel_size": 1, "stride": 1, "dilation": 2**32 + 1},
        {"kernel_size": 2, "stride": 1, "dilation": 2**31},
    ],
    ids=str,
)
@pytest.mark.parametrize("needs_gradient", [False, True])
def test_steps_of_max_pool1d_beyond_32_bits(device, options, needs_gradient):
    """The call is a max_pool2d, as on CUDA; on the CPU only where gradients are needed."""

    def refusal(where, needs_gradient):
        x = torch.arange(12.0, device=where).reshape(1, 2, 6).requires_grad_(needs_gradient)
        with pytest.raises(RuntimeError) as error:
            F.max_pool1d(x, **options)
        return str(error.value)

    assert refusal(device, needs_gradient) == refusal("cpu", True)


@pytest.mark.parametrize("count_include_pad", [False, True])
def test_windows_and_divisors_of_more_than_32_bits(device, count_include_pad):
    """GPUs compute with 32 bits where those suffice."""
    large, wide = 1 << 20, (1 << 33) + 8
    for options in (
        {"kernel_size": large, "padding": large // 2, "count_include_pad": count_include_pad},
        {"kernel_size": 2, "stride": 1, "divisor_override": wide},
    ):
        gradients = []
        for place in (device, "cpu"):
            x = torch.arange(1.0, 13.0).view(1, 1, 3, 4).mul(wide).to(place).requires_grad_()
            y = F.avg_pool2d(x, **options)
            y.backward(torch.full_like(y, wide))
            gradients.append((y.detach().cpu(), x.grad.cpu()))
        torch.testing.assert_close(*gradients, rtol=1e-6, atol=0)
