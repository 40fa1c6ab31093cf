"""Channels_last convolutions of the CPU family: which kernel runs, without copies, and what it
computes; the reference is the CPU's convolution in float64."""

import itertools

import pytest
import torch
from stern import stern_output_of

from torch_ocl import _C

# input, weight, stride, padding, dilation, groups
CASES = [
    ((2, 16, 9, 11), (32, 16, 3, 3), 1, 1, 1, 1),
    ((3, 20, 7, 7), (17, 20, 3, 3), 1, 1, 1, 1),
    ((2, 9, 2, 1), (8, 9, 3, 3), 1, 1, 1, 1),
    ((2, 8, 5, 1), (16, 8, 3, 3), (1, 2), 1, 1, 1),
    ((2, 24, 13, 10), (40, 24, 3, 3), 2, 1, 1, 1),
    ((2, 16, 14, 12), (48, 16, 5, 3), (3, 2), (2, 1), (1, 2), 1),
    ((2, 16, 12, 13), (33, 16, 2, 3), (2, 3), 0, (3, 2), 1),
    ((2, 16, 9, 9), (64, 16, 1, 1), 2, 0, 1, 1),
    ((1, 16, 6, 300), (16, 16, 3, 3), 1, 1, 1, 1),
    ((1, 16, 40, 25), (16, 16, 3, 3), 1, (2, 0), 1, 1),
    ((9, 70, 5, 5), (96, 70, 3, 3), 1, 1, 1, 1),
    ((2, 36, 9, 7), (24, 12, 3, 3), 1, 1, 1, 3),
    ((2, 64, 9, 7), (64, 32, 3, 3), 2, 1, 1, 2),
    ((2, 1024, 3, 3), (16, 1024, 2, 2), 1, 0, 1, 1),
    ((2, 130, 4, 3), (20, 130, 2, 2), 1, 0, 1, 1),
    ((2, 8, 4, 6, 7), (16, 8, 3, 3, 3), 1, 1, 1, 1),
    ((1, 16, 5, 6, 7), (8, 16, 2, 3, 3), (2, 2, 1), (0, 1, 1), (1, 1, 2), 1),
]
FEW_CHANNELS = [
    ((2, 3, 30, 31), (20, 3, 7, 7), 2, 3, 1, 1),
    ((2, 2, 9, 12), (8, 2, 3, 3), 1, 1, 1, 1),
    ((2, 4, 9, 12), (8, 4, 3, 3), 1, 1, 1, 1),
    ((1, 5, 8, 9), (34, 5, 3, 2), (1, 3), 0, (2, 1), 1),
    ((2, 3, 4, 9, 8), (9, 3, 3, 3, 3), 1, 1, 1, 1),
]
DEPTHWISE = [
    ((2, 96, 9, 11), (96, 1, 3, 3), 1, 1, 1, 96),
    ((2, 16, 7, 3), (16, 1, 3, 3), 1, 1, 1, 16),
    ((2, 33, 17, 20), (33, 1, 5, 4), 2, 2, 1, 33),
    ((1, 40, 20, 9), (40, 1, 3, 3), (1, 2), (0, 3), (2, 3), 40),
    ((2, 20, 4, 9, 9), (20, 1, 2, 3, 3), 1, (0, 1, 1), 1, 20),
]
PRODUCTS = [
    ((2, 16, 9, 7), (24, 16, 1, 1), 1, 0, 1, 1),
    ((3, 5, 4, 8, 8), (7, 5, 1, 1, 1), 1, 0, 1, 1),
]


def spread(value, dims):
    return list(value) if isinstance(value, tuple) else [value] * dims


class Problem:
    """A convolution on the CPU (float64, contiguous) and on the device (float32, channels_last)."""

    def __init__(self, device, case, transposed, weight_last):
        shape, weight_shape, stride, padding, dilation, groups = case
        dims = len(shape) - 2
        self.last = torch.channels_last if dims == 2 else torch.channels_last_3d
        self.options = [
            *(spread(value, dims) for value in (stride, padding, dilation)),
            transposed,
            [0] * dims,
            groups,
        ]
        if transposed:
            shape = (shape[0], weight_shape[0], *shape[2:])
        channels = weight_shape[1] * groups if transposed else weight_shape[0]
        self.dense = [
            torch.randn(s, dtype=torch.float64) for s in (shape, weight_shape, (channels,))
        ]
        x, weight, bias = (tensor.float().to(device) for tensor in self.dense)
        self.x = x.contiguous(memory_format=self.last)
        self.weight = weight.contiguous(memory_format=self.last) if weight_last else weight
        self.bias = bias

    def backward(self, grad, x, weight, mask):
        return torch.ops.aten.convolution_backward(grad, x, weight, None, *self.options, mask)

    def expected(self):
        y = torch.convolution(*self.dense, *self.options)
        self.grad = torch.randn_like(y)
        grads = self.backward(self.grad, *self.dense[:2], [True, True, False])
        return [y, *grads[:2]]

    def actual(self):
        """-> the output and both gradients, and for each the last kernel and the launches"""
        grad = self.grad.float().to(self.x.device).contiguous(memory_format=self.last)
        calls = [
            lambda: torch.convolution(self.x, self.weight, self.bias, *self.options),
            lambda: self.backward(grad, self.x, self.weight, [True, False, False])[0],
            lambda: self.backward(grad, self.x, self.weight, [False, True, False])[1],
        ]
        results, ran = [], []
        for call in calls:
            before = _C.launch_count()
            results.append(call())
            ran.append((_C.last_kernel(), _C.launch_count() - before))
        return results, ran


def check(problem, tolerance=2e-5):
    expected = problem.expected()
    results, ran = problem.actual()
    for e, a in zip(expected, results):
        scale = max(1.0, e.abs().max().item())
        torch.testing.assert_close(a.cpu().double(), e, rtol=tolerance, atol=tolerance * scale)
    for result in results:
        assert result.is_contiguous(memory_format=problem.last)
    return ran


def gradient_passes(case):
    strides = spread(case[2], len(case[0]) - 2)
    sizes = case[0][2:]
    count = 1
    for stride, size in zip(strides, sizes):
        count *= min(stride, size)
    return count


@pytest.fixture
def cpu_family(device):
    if torch.ocl.get_device_properties(device).kernel_family != "cpu":
        pytest.skip("the GPU family copies channels_last tensors")
    _C.force_tuned("conv_cpu", 0)  # without Winograd's algorithm (test_conv_winograd.py)
    yield device
    _C.force_tuned("conv_cpu", -1)


LAYOUTS = pytest.mark.parametrize("weight_last", [False, True], ids=["dense", "last"])
DIRECTIONS = pytest.mark.parametrize("transposed", [False, True], ids=["", "transposed"])


@LAYOUTS
@DIRECTIONS
@pytest.mark.parametrize("case", CASES, ids=str)
def test_convolution(cpu_family, case, transposed, weight_last):
    """Each pass packs its weights and multiplies: no launch is left for a copy."""
    forward, data, weight = check(Problem(cpu_family, case, transposed, weight_last))
    if transposed:
        forward, data = data, forward
    assert forward == ("conv_channels_last", 2)
    assert data[0] == "conv_channels_last"
    assert data[1] <= 2 * gradient_passes(case)
    assert weight == ("unpack_channels_last", 2)


@LAYOUTS
@pytest.mark.parametrize("case", FEW_CHANNELS, ids=str)
def test_few_channels(cpu_family, case, weight_last):
    """The image is copied to pad its rows with zeros. Its gradient takes the contiguous way."""
    forward, _, weight = check(Problem(cpu_family, case, False, weight_last))
    padded = spread(case[3], len(case[0]) - 2)[-1] > 0
    assert forward == ("conv_channels_last", 3 if padded else 2)
    assert weight == ("unpack_channels_last", 2)


@LAYOUTS
@DIRECTIONS
@pytest.mark.parametrize("case", DEPTHWISE, ids=str)
def test_depthwise(cpu_family, case, transposed, weight_last):
    forward, data, weight = check(Problem(cpu_family, case, transposed, weight_last))
    if transposed:
        forward, data = data, forward
    assert forward == ("depthwise", 2)
    if gradient_passes(case) == 1:
        assert data == ("depthwise", 2)
    assert weight == ("unpack_depthwise", 2)


@LAYOUTS
@DIRECTIONS
@pytest.mark.parametrize("case", PRODUCTS, ids=str)
def test_product(cpu_family, case, transposed, weight_last):
    """A kernel of 1 is one matrix product on views of the tensors."""
    ran = check(Problem(cpu_family, case, transposed, weight_last))
    assert ran == [("gemm", 1)] * 3


@pytest.mark.parametrize(
    "case",
    [
        ((2, 16, 6, 6), (4, 16, 3, 3), 1, 1, 1, 1),
        ((2, 16, 6, 6), (16, 4, 3, 3), 1, 1, 1, 4),
        ((1, 8, 20, 20), (8, 8, 12, 11), 1, 0, 1, 1),
        ((2, 16, 30, 30), (16, 16, 3, 3), 1, 1, 13, 1),
    ],
    ids=str,
)
def test_others_take_the_contiguous_way(device, case):
    """Few filters, many taps or far ones: the results have the same layout."""
    check(Problem(device, case, False, False))


@pytest.mark.parametrize("x_last", [False, True])
def test_gradient_of_another_layout(device, x_last):
    """If the incoming gradient has another layout than the input, the input's layout decides."""
    x, w, grad = (
        torch.randn(s, device=device) for s in ((2, 16, 6, 7), (24, 16, 3, 3), (2, 24, 4, 5))
    )
    expected = torch.ops.aten.convolution_backward(
        grad, x, w, None, [1, 1], [0, 0], [1, 1], False, [0, 0], 1, [True, True, True]
    )
    if x_last:
        x = x.contiguous(memory_format=torch.channels_last)
    else:
        grad = grad.contiguous(memory_format=torch.channels_last)
    actual = torch.ops.aten.convolution_backward(
        grad, x, w, [24], [1, 1], [0, 0], [1, 1], False, [0, 0], 1, [True, True, True]
    )
    for e, a in zip(expected, actual):
        torch.testing.assert_close(a, e, rtol=1e-4, atol=1e-4)
    assert actual[0].stride() == x.stride()


def test_weight_view(device):
    """Weights of neither layout, as of a tied or cut parameter, are copied."""
    x = torch.randn(2, 16, 6, 7, device=device).contiguous(memory_format=torch.channels_last)
    w = torch.randn(24, 32, 3, 3, device=device)[:, ::2]
    actual = torch.conv2d(x, w)
    expected = torch.conv2d(x.cpu().double(), w.cpu().double())
    torch.testing.assert_close(actual.cpu().double(), expected, rtol=1e-4, atol=1e-4)


@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16])
def test_narrow_types(device, dtype):
    """They are computed in float32, as contiguous ones are, and keep their layout."""
    x = torch.randn(2, 16, 6, 7, device=device).to(dtype)
    w = torch.randn(24, 16, 3, 3, device=device).to(dtype)
    expected = torch.conv2d(x, w, padding=1)
    actual = torch.conv2d(x.contiguous(memory_format=torch.channels_last), w, padding=1)
    assert actual.is_contiguous(memory_format=torch.channels_last) and actual.dtype == dtype
    torch.testing.assert_close(actual, expected, rtol=2e-2, atol=2e-2)


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64, torch.float16])
@pytest.mark.parametrize("groups", [1, 2])
@pytest.mark.parametrize("transposed", [False, True])
@pytest.mark.parametrize("dims", [2, 3])
def test_format_of_results(device, dims, transposed, groups, dtype):
    """One argument whose channels are last is enough for the result and both gradients."""
    # Without AVX-512 the CPU's library refuses float16; its other kernels have other formats.
    cpu_dtype = torch.float32 if dtype == torch.float16 else dtype
    last = torch.channels_last if dims == 2 else torch.channels_last_3d
    operator = getattr(torch, f"conv_transpose{dims}d" if transposed else f"conv{dims}d")

    def strides(device, dtype, x_format, weight_format):
        x = torch.ones((2, 4) + (6,) * dims, dtype=dtype).to(memory_format=x_format)
        weight = torch.ones((4, 4 // groups) + (3,) * dims, dtype=dtype)
        weight = weight.to(memory_format=weight_format)
        leaves = [t.to(device).requires_grad_() for t in (x, weight)]
        result = operator(*leaves, groups=groups)
        gradients = torch.autograd.grad(result, leaves, torch.ones_like(result))
        return [t.stride() for t in (result, *gradients)]

    for formats in itertools.product((torch.contiguous_format, last), repeat=2):
        assert strides(device, dtype, *formats) == strides("cpu", cpu_dtype, *formats)


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16])
def test_format_of_a_single_channel(device, dtype):
    """It is contiguous in both formats, but later operators look at the strides."""
    x = torch.ones(3, 2, 9, 8, dtype=dtype).to(memory_format=torch.channels_last)
    weight = torch.ones(1, 2, 1, 1, dtype=dtype)
    expected = torch.nn.functional.pad(torch.conv2d(x, weight), [0, 3])
    actual = torch.nn.functional.pad(torch.conv2d(x.to(device), weight.to(device)), [0, 3])
    assert actual.stride() == expected.stride()


def test_little_local_memory():
    """The weights' gradient takes less than the 36 KiB that it would use."""
    stern_output_of(
        "smallest",
        """
        import torch
        from torch_ocl import _C
        x, w = torch.randn(2, 16, 9, 11), torch.randn(32, 16, 3, 3)
        grad = torch.randn(2, 32, 9, 11)
        options = None, [1, 1], [1, 1], [1, 1], False, [0, 0], 1, [False, True, False]
        expected = torch.ops.aten.convolution_backward(grad, x, w, *options)[1]
        last = [t.to("ocl").to(memory_format=torch.channels_last) for t in (grad, x)]
        actual = torch.ops.aten.convolution_backward(*last, w.to("ocl"), *options)[1]
        assert _C.last_kernel() == "unpack_channels_last", _C.last_kernel()
        torch.testing.assert_close(actual.cpu(), expected, rtol=1e-4, atol=1e-3)
        """,
        OCL_KERNEL_FAMILY="cpu",
    )
