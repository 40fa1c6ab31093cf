"""Convolutions and their three gradients against the CPU."""

import pytest
import torch
import torch.nn.functional as F
from support import output_of

# input, weight, stride, padding, dilation, groups
CASES = [
    ((2, 3, 8, 8), (4, 3, 3, 3), 1, 1, 1, 1),
    ((2, 4, 9, 7), (6, 2, 3, 3), 2, 1, 1, 2),
    ((1, 1, 5, 5), (1, 1, 1, 1), 1, 0, 1, 1),
    ((2, 6, 10, 12), (6, 1, 5, 3), (2, 1), (2, 1), (1, 2), 6),
    ((3, 16, 16, 16), (24, 16, 1, 1), 1, 0, 1, 1),
    ((2, 16, 7, 7), (8, 16, 1, 1), 2, 0, 1, 1),
    ((2, 3, 20), (5, 3, 4), 3, 2, 1, 1),
    ((2, 9, 5, 1), (16, 9, 3, 3), (1, 2), 1, 1, 1),
    ((2, 9, 21, 37), (10, 9, 3, 3), 1, 1, 1, 1),
    ((2, 5, 23, 70), (9, 5, 3, 5), 2, (1, 2), 1, 1),
    ((2, 9, 21, 37), (9, 1, 3, 3), 1, 1, 1, 9),
    ((2, 8, 19, 40), (16, 1, 3, 3), (1, 2), 1, 1, 8),
    ((2, 8, 23, 41), (8, 1, 5, 7), (2, 3), (2, 4), (2, 1), 8),
    ((1, 8, 90, 100), (8, 1, 7, 7), 1, 3, 1, 8),
    ((3, 33, 17, 39), (33, 1, 5, 5), 2, 2, 1, 33),
    ((2, 40, 14, 14), (40, 1, 3, 3), 2, 1, 1, 40),
    ((2, 8, 15, 90), (8, 1, 3, 4), (1, 2), (0, 2), (1, 2), 8),
    ((1, 8, 300, 70), (8, 1, 3, 3), 2, 1, 1, 8),
    ((2, 10, 7, 7), (10, 1, 3, 3), 1, 1, 1, 10),
    ((3, 20, 7, 7), (17, 20, 3, 3), 1, 1, 1, 1),
    ((1, 8, 24, 24), (12, 8, 1, 1), 1, 0, 1, 1),
    ((1, 2, 5, 6, 7), (3, 2, 2, 3, 3), (1, 2, 1), (0, 1, 1), 1, 1),
    ((4, 3, 6, 9, 20), (9, 3, 3, 3, 3), 1, 1, 1, 1),
    ((2, 4, 7, 8, 21), (6, 2, 3, 2, 3), (2, 3, 2), (1, 0, 2), (1, 2, 1), 2),
    ((3, 5, 4, 8, 8), (7, 5, 1, 1, 1), 1, 0, 1, 1),
    ((9, 8, 7, 7), (16, 1, 3, 3), 1, 1, 1, 8),
    ((70, 9, 5, 6), (9, 1, 5, 5), (2, 1), 2, 1, 9),
    ((3, 70, 7, 7), (130, 70, 3, 3), 1, 1, 1, 1),
    ((9, 36, 7, 9), (72, 36, 3, 3), (2, 1), 1, 1, 1),
    ((3, 33, 11, 9), (40, 33, 3, 3), (2, 1), 0, (1, 2), 1),
    ((2, 64, 14, 14), (64, 16, 3, 3), 1, (2, 1), 1, 4),
    ((5, 300, 6, 6), (48, 300, 1, 1), 1, 0, 1, 1),
    ((2, 32, 4, 9, 9), (64, 32, 3, 3, 3), 2, 1, 1, 1),
]


@pytest.mark.sample
@pytest.mark.parametrize("transposed", [False, True])
@pytest.mark.parametrize("case", CASES[:3], ids=str)
def test_sample(device, case, transposed):
    test_convolution(device, case, torch.float32, transposed)


@pytest.mark.parametrize("transposed", [False, True])
@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
@pytest.mark.parametrize("case", CASES, ids=str)
def test_convolution(device, case, dtype, transposed):
    shape, weight_shape, stride, padding, dilation, groups = case
    if transposed:
        shape = (shape[0], weight_shape[0], *shape[2:])
    channels = weight_shape[1] * groups if transposed else weight_shape[0]
    tensors = [torch.randn(s, dtype=dtype) for s in (shape, weight_shape, (channels,))]
    function = getattr(F, f"conv{'_transpose' if transposed else ''}{len(shape) - 2}d")
    results, grad = [], None
    for where in ("cpu", device):
        leaves = [t.detach().to(where).requires_grad_() for t in tensors]
        y = function(*leaves, stride=stride, padding=padding, dilation=dilation, groups=groups)
        grad = torch.randn_like(y) if grad is None else grad
        y.backward(grad.to(where))
        results.append([y.detach().cpu(), *(leaf.grad.cpu() for leaf in leaves)])
    for expected, actual in zip(*results):
        torch.testing.assert_close(actual, expected, rtol=5e-4, atol=5e-4)
        assert actual.stride() == expected.stride()


@pytest.mark.sample
@pytest.mark.parametrize("transposed", [False, True])
def test_convolution_sample(device, transposed):
    test_convolution(device, CASES[1], torch.float32, transposed)


# A plane that is small compared to a vector, a strided one, a pointwise one without a copy; then
# planes for conv_taps and conv_weight_grad.
CHOICE = """
    import torch
    from torch_ocl import _C

    def kernels(shape, weight_shape, *arguments):
        spread = [[a, a] if isinstance(a, int) else a for a in arguments]
        options = *spread, False, [0, 0], 1
        x, w = torch.randn(shape), torch.randn(weight_shape)
        y = torch.convolution(x.double(), w.double(), None, *options)
        grad = torch.randn(y.shape)
        masks = [True, False, False], [False, True, False]
        pairs, ran = [], []
        for mask in masks:
            expected = torch.ops.aten.convolution_backward(
                grad.double(), x.double(), w.double(), None, *options, mask)
            actual = torch.ops.aten.convolution_backward(
                grad.to("ocl"), x.to("ocl"), w.to("ocl"), None, *options, mask)
            ran.append(_C.last_kernel())
            pairs += [(e, a) for e, a in zip(expected, actual) if e is not None]
        pairs.append((y, torch.convolution(x.to("ocl"), w.to("ocl"), None, *options)))
        for e, a in pairs:
            torch.testing.assert_close(a.cpu().double(), e, rtol=1e-4, atol=2e-3)
        return [_C.last_kernel(), *ran]

    torch.manual_seed(0)
    _C.force_tuned("conv_cpu", 0)  # without Winograd's algorithm
    narrow = "conv_broadcast"
    assert kernels((3, 70, 7, 7), (130, 70, 3, 3), 1, 1, 1) == [narrow] * 3
    assert kernels((2, 64, 28, 28), (64, 64, 3, 3), 2, 1, 1) == [narrow, "conv_taps", narrow]
    assert kernels((2, 300, 6, 6), (80, 300, 1, 1), 1, 0, 1) == [narrow] * 3
    for case in ((2, 64, 56, 56), (64, 64, 3, 3), 1, 1, 1), ((9, 9, 7, 7), (32, 9, 3, 3), 1, 1, 1):
        ran = kernels(*case)
        assert ran[:2] == ["conv_taps"] * 2 and ran[2] in ("conv_weight_grad", "sum_parts"), ran
"""


def test_choice_of_kernel(device):
    output_of(CHOICE, OCL_KERNEL_FAMILY="cpu")


@pytest.mark.parametrize("padding, stride, dilation", [(1, 1, 1), (2, 2, 1), (1, 1, 2), (1, 2, 1)])
@pytest.mark.parametrize("dims", [1, 2, 3])
def test_output_padding(device, dims, padding, stride, dilation):
    """It has to be smaller than the stride or the dilation, as on the CPU."""
    x, weight = torch.ones(1, 2, *[5] * dims), torch.ones(2, 3, *[2] * dims)
    transposed = getattr(torch, f"conv_transpose{dims}d")
    options = {"stride": stride, "output_padding": padding, "dilation": dilation}
    if padding >= max(stride, dilation):
        for place in ("cpu", device):
            with pytest.raises(RuntimeError, match="output padding must be smaller"):
                transposed(x.to(place), weight.to(place), **options)
        return
    expected = transposed(x, weight, **options)
    torch.testing.assert_close(
        transposed(x.to(device), weight.to(device), **options).cpu(), expected
    )


FAR = [2**31 - 1, 2**31 + 1, 2**40, 2**62]


@pytest.mark.parametrize("dims", [1, 2, 3])
@pytest.mark.parametrize("step", FAR)
def test_steps_beyond_the_kernels_integers(device, dims, step):
    function = getattr(F, f"conv{dims}d")
    x, bias = torch.randn(2, 2, *[3] * dims), torch.randn(2)
    weights = [torch.randn(2, 2, *[size] * dims) for size in (1, 2)]
    cases = [(weights[1], {"stride": step}), (weights[0], {"dilation": step})]
    cases.append((weights[1], {"stride": 2**62, "padding": min(step, 2**60)}))
    for weight, options in cases:
        expected = function(x, weight, bias, **options)
        actual = function(x.to(device), weight.to(device), bias.to(device), **options)
        torch.testing.assert_close(actual.cpu(), expected, rtol=1e-4, atol=1e-4)


@pytest.mark.parametrize("dims", [1, 2, 3])
def test_dilation_of_zero(device, dims):
    for where in ("cpu", device):
        x = torch.ones(1, 2, *[3] * dims, device=where)
        for weight in (x[..., :2], x[..., :1]):
            with pytest.raises(RuntimeError, match="dilation"):
                getattr(F, f"conv{dims}d")(x, weight, dilation=0)


@pytest.mark.parametrize("channels", [4, 64])
def test_a_depth_of_one_between_paddings(device, channels):
    """The only tap of some outputs is in the padding: found by tests/fuzz."""
    x = torch.randint(-3, 4, (1, channels, 1, 5, 6)).float()
    weight = torch.randint(-2, 3, (channels, channels, 3, 3, 3)).float()
    expected = F.conv_transpose3d(x, weight, None, 3, 1)
    result = F.conv_transpose3d(x.to(device), weight.to(device), None, 3, 1)
    assert torch.equal(result.cpu(), expected)
    flat = weight[:, :, :1].contiguous()
    expected = F.conv3d(x, flat, None, 3, 1)
    assert torch.equal(F.conv3d(x.to(device), flat.to(device), None, 3, 1).cpu(), expected)


@pytest.mark.parametrize(
    "memory_format", [torch.contiguous_format, torch.channels_last_3d], ids=str
)
def test_a_depth_of_one_between_paddings_of_single_channels(device, memory_format):
    """All results are of padding, and so are all gradients: found by tests/fuzz."""
    x = torch.randint(1, 4, (1, 16, 1, 7, 5)).float().contiguous(memory_format=memory_format)
    x, weight = x.to(device).requires_grad_(), torch.ones(32, 1, 1, 2, 3, device=device)
    result = F.conv3d(x, weight.requires_grad_(), None, 3, 1, 1, 16)
    result.sum().backward()
    assert all(tensor.count_nonzero() == 0 for tensor in (result, x.grad, weight.grad))


@pytest.mark.parametrize("memory_format", [torch.contiguous_format, torch.channels_last], ids=str)
@pytest.mark.parametrize("width", [2, 64])
def test_a_single_result_of_a_wider_input(device, width, memory_format):
    """The stride is beyond the input, so no result uses it: found by tests/fuzz."""
    x = torch.randint(-4, 5, (2, 8, 1, width)).float()
    x = x.contiguous(memory_format=memory_format).requires_grad_()
    weight = torch.randint(-2, 3, (3, 8, 1, 1)).float().requires_grad_()
    inputs = [x, weight, *(tensor.detach().to(device).requires_grad_() for tensor in (x, weight))]
    results = [F.conv2d(*pair, stride=width + 1) for pair in (inputs[:2], inputs[2:])]
    for result in results:
        result.backward(torch.full(result.shape, 2.0, device=result.device))
    assert torch.equal(results[1].cpu(), results[0])
    for expected, actual in zip(inputs[:2], inputs[2:]):
        assert torch.equal(actual.grad.cpu(), expected.grad)
