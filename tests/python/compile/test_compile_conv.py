"""torch.compile of convolutions whose tensors are in other orders of memory."""

import pytest
import torch
import torch.nn.functional as F
from test_compile import run
from torch import nn

pytestmark = pytest.mark.usefixtures("fresh_compiler")


def in_order(tensor, last):
    """With channels last in memory, or contiguous."""
    orders = {4: torch.channels_last, 5: torch.channels_last_3d}
    return tensor.to(memory_format=orders[tensor.dim()]) if last else tensor


def normalized():
    first, second = nn.Conv2d(4, 8, 3), nn.Conv2d(8, 4, 3)
    return nn.Sequential(first, nn.BatchNorm2d(8), nn.ReLU(), second).eval()


CASES = [
    pytest.param(lambda: nn.Conv2d(4, 8, 3), 2, marks=pytest.mark.sample, id="3x3"),
    pytest.param(lambda: nn.Conv2d(4, 8, 1), 2, id="1x1"),
    pytest.param(lambda: nn.ConvTranspose2d(4, 8, 3), 2, id="transposed"),
    pytest.param(lambda: nn.Conv2d(4, 4, 3, groups=4), 2, id="depthwise"),
    pytest.param(lambda: nn.Conv3d(4, 8, 3), 3, id="3d"),
    pytest.param(normalized, 2, id="normalized"),
]


@pytest.mark.parametrize("x_last, weights_last", [(True, False), (False, True), (True, True)])
@pytest.mark.parametrize("make, dimensions", CASES)
def test_values(device, make, dimensions, x_last, weights_last):
    model = make().to(device)
    for parameter in model.parameters():
        if parameter.dim() > 1:
            parameter.data = in_order(parameter.data, weights_last)
    x = in_order(torch.randn(2, 4, *[9] * dimensions, device=device), x_last)

    def function(x):
        return model(x).relu().flatten(2) + 1, model(x).sum(1)

    with torch.no_grad():
        result = torch.compile(function, fullgraph=True)(x)
        torch.testing.assert_close(result, function(x), rtol=1e-4, atol=1e-4)


SHAPES = [(2, 4, 9, 9), (2, 1, 9, 9), (2, 4, 5, 6, 7), (2, 4, 9)]


@pytest.mark.parametrize("backend", ["aot_eager", "inductor"])
@pytest.mark.parametrize("shape", SHAPES)
def test_results_are_in_the_order_of_eager_mode(device, shape, backend):
    """So are gradients. PyTorch assumes contiguous ones on devices that it does not know."""
    torch.manual_seed(0)
    name = f"conv{len(shape) - 2}d"
    x = in_order(torch.randn(shape, device=device), len(shape) > 3)
    weight = torch.randn(6, shape[1], *[3] * (len(shape) - 2), device=device, requires_grad=True)

    def function(x, weight):
        y = getattr(F, name)(x * 2, weight)
        return y, y.flatten(1) + 1, y.relu()

    results = []
    for call in (function, torch.compile(function, backend=backend, fullgraph=True)):
        found = call(x.requires_grad_(), weight)
        results.append(
            [*found, *torch.autograd.grad(sum(y.sin().sum() for y in found), (x, weight))]
        )
    for expected, result in zip(*results):
        torch.testing.assert_close(result, expected, rtol=1e-4, atol=1e-4, check_stride=True)


@pytest.mark.parametrize("options", [{"mode": "max-autotune-no-cudagraphs"}, {"dynamic": True}])
def test_values_with_options(device, options):
    def function(x, w):
        return F.conv2d(x.permute(0, 3, 1, 2) / 2, w).relu().flatten(1) * 2

    x, w = torch.randn(2, 9, 9, 4, device=device), torch.randn(8, 4, 3, 3, device=device)
    with torch.inference_mode():
        result = torch.compile(function, fullgraph=True, **options)(x, w)
        torch.testing.assert_close(result, function(x, w), rtol=1e-4, atol=1e-4)


def test_gradients_that_are_channels_last(device):
    def function(x, w, grad):
        arguments = [0, 0], [1, 1], [0, 0], [1, 1], False, [0, 0], 1, [True, True, False]
        grads = torch.ops.aten.convolution_backward(grad * 2, x + 1, w, *arguments)
        return grads[0].flatten(1) + 1, grads[1].flatten(1) + 1

    x, grad = torch.randn(2, 4, 9, 9, device=device), torch.randn(2, 8, 7, 7, device=device)
    w = torch.randn(8, 4, 3, 3, device=device)
    result = torch.compile(function, fullgraph=True)(in_order(x, True), w, in_order(grad, True))
    torch.testing.assert_close(result, function(x, w, grad), rtol=1e-4, atol=1e-4)


def test_images_of_a_number_that_only_the_device_knows(device):
    weight = in_order(torch.randn(8, 4, 3, 3, device=device), True)
    x = in_order(torch.randn(5, 4, 9, 9, device=device), True)
    chosen = torch.tensor([True, False, True, True, False], device=device)

    def function(x, chosen):
        return F.conv2d(x[chosen], weight).relu() + 1

    with torch.no_grad(), torch._dynamo.config.patch(capture_dynamic_output_shape_ops=True):
        result = torch.compile(function, fullgraph=True)(x, chosen)
        torch.testing.assert_close(result, function(x, chosen), rtol=1e-4, atol=1e-4)


def test_epilogues_of_frozen_weights(device):
    """Inductor would make the weights channels_last, which have no kernel with an epilogue."""
    from torch._inductor.utils import run_and_get_code

    x = torch.randn(2, 4, 9, 9, device=device)
    model = nn.Sequential(nn.Conv2d(4, 8, 3), nn.ReLU()).eval().to(device)
    options = {"freezing": True, "max_autotune": True}
    with torch.no_grad():
        result, (program,) = run_and_get_code(torch.compile(model, options=options), x)
        torch.testing.assert_close(result, model(x), rtol=1e-4, atol=1e-4)
    assert program.count("convolution_epilogue.default(") == 1


@pytest.mark.parametrize("weights", [torch.contiguous_format, torch.channels_last])
@pytest.mark.parametrize("order", [torch.contiguous_format, torch.channels_last])
def test_memory_format_of_convolutions(device, order, weights):
    """Wide ones, whose format Inductor changes on devices with kernels of its own."""
    x = torch.randn(2, 128, 6, 6, device=device).to(memory_format=order)
    weight = torch.randn(256, 128, 3, 3, device=device).to(memory_format=weights)
    weight.requires_grad_()

    def function(x, weight):
        return F.conv2d(x, weight).relu()

    result, (program,) = run(function, x, weight)
    assert ".copy_(" not in program
    expected = function(x, weight)
    torch.testing.assert_close(result, expected, rtol=1e-4, atol=1e-3)
    gradients = [torch.autograd.grad(y.sum(), weight)[0] for y in (result, expected)]
    torch.testing.assert_close(*gradients, rtol=1e-4, atol=1e-3)
