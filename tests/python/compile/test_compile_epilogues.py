"""mode="max-autotune": what follows matrix products and convolutions is done by their operators."""

import pytest
import torch
import torch.nn.functional as F
from models import BasicBlock, transformer_layer
from test_epilogues import ACTIVATIONS, HALVES
from torch import nn

pytestmark = pytest.mark.usefixtures("fresh_compiler")

MODES = ["max-autotune-no-cudagraphs", "max-autotune"]


def run(function, *args, mode=MODES[0], **options):
    """-> the compiled function's result, and the calls of the operators in Inductor's programs"""
    from torch._inductor.utils import run_and_get_code

    compiled = torch.compile(function, mode=mode, fullgraph=True, **options)
    result, programs = run_and_get_code(compiled, *args)
    lines = [line for program in programs for line in program.splitlines()]
    return result, [line for line in lines if "_epilogue.default(" in line]


def kernels(function, *args):
    """Names of the kernels that the compiled function launches."""
    from torch.profiler import ProfilerActivity, profile

    with profile(activities=[ProfilerActivity.CPU, ProfilerActivity.PrivateUse1]) as profiled:
        function(*args)
        torch.ocl.synchronize()
    device = torch.autograd.DeviceType.PrivateUse1
    return [event.name for event in profiled.events() if event.device_type == device]


def check(function, *args, fused, dtype=torch.float32, **options):
    """Compares with eager mode; `fused`: how many calls of the operators there are."""
    expected = function(*args)
    result, calls = run(function, *args, **options)
    tolerance = {torch.float16: 1e-2, torch.bfloat16: 6e-2}.get(dtype, 1e-4)
    torch.testing.assert_close(result, expected, rtol=tolerance, atol=tolerance)
    flat = [torch.utils._pytree.tree_leaves(r) for r in (result, expected)]
    assert [a.stride() for a in flat[0]] == [e.stride() for e in flat[1]]
    assert len(calls) == fused, calls
    return calls


def linear(inputs, outputs, device, dtype=torch.float32, bias=True):
    return nn.Linear(inputs, outputs, bias=bias).to(device, dtype).requires_grad_(False)


@pytest.mark.parametrize("dtype", [torch.float32, HALVES[0]], ids=str)
def test_activations(dtype, device):
    layer = linear(24, 40, device, dtype)
    image = nn.Conv2d(3, 10, 3).to(device, dtype).requires_grad_(False)
    x = torch.randn(2, 5, 24).to(device, dtype)
    y = torch.randn(2, 3, 9, 9).to(device, dtype)
    for name, activation in ACTIVATIONS.items():
        if name == "none":
            continue

        def model(x, y, activation=activation):
            return activation(layer(x)), activation(image(y))

        calls = check(model, x, y, fused=2, dtype=dtype)
        assert all(f"'{name}')" in call for call in calls), calls


def test_no_kernel_is_left(device):
    first, second = linear(24, 40, device), linear(40, 24, device)

    def model(x):
        return x + second(F.gelu(first(x)))

    x = torch.randn(2, 5, 24, device=device)
    check(model, x, fused=2)
    torch._dynamo.reset()
    compiled = torch.compile(model, mode=MODES[0])
    compiled(x)
    assert len(kernels(compiled, x)) == 2
    torch._dynamo.reset()
    assert len(kernels(torch.compile(model), x)) > 2


@pytest.mark.parametrize("mode", MODES)
def test_models(mode, device):
    layer = transformer_layer().to(device).eval()
    block = BasicBlock(8, 16, 2).to(device).eval()
    with torch.no_grad():
        check(block, torch.randn(2, 8, 14, 14, device=device), fused=0, mode=mode)
        x = torch.randn(2, 10, 64, device=device)
        check(layer._ff_block, x, fused=1, mode=mode)
        torch._dynamo.reset()
        compiled = torch.compile(layer._ff_block, mode=mode)
        for y in (x, x * 2, x - 1):  # the second call records a graph, the third replays it
            torch.testing.assert_close(compiled(y), layer._ff_block(y), rtol=1e-4, atol=1e-4)


def test_residual_of_convolutions(device):
    first = nn.Conv2d(8, 8, 3, padding=1).to(device).requires_grad_(False)
    second = nn.Conv2d(8, 8, 3, padding=1, bias=False).to(device).requires_grad_(False)

    def model(x):
        return F.relu(x + second(F.relu(first(x))))

    for x in (torch.randn(2, 8, 14, 14), torch.randn(1, 8, 5, 37)):
        calls = check(model, x.to(device), fused=2)
        assert all("'relu')" in call for call in calls)
        torch._dynamo.reset()


@pytest.mark.parametrize("first", [True, False])
def test_order_of_summands(first, device):
    layer, x = linear(24, 24, device, bias=False), torch.randn(3, 24, device=device)
    bias = torch.randn(24, device=device)

    def model(x):
        y = x + layer(x) if first else layer(x) + x
        return torch.tanh(bias + y if first else y + bias)

    check(model, x, fused=1)


def test_other_users(device):
    """A result that is also used elsewhere must exist, so at most the operations after it are
    fused."""
    layer, x = linear(24, 40, device), torch.randn(6, 24, device=device)
    residual = torch.randn(6, 40, device=device)
    image = nn.Conv2d(3, 10, 3).to(device).requires_grad_(False)

    def product(x):
        y = layer(x)
        return F.relu(y), y

    def total(x):
        y = layer(x) + residual
        return F.gelu(y), y.sum()

    def twice(x):
        y = layer(x)
        return y + y

    def convolution(x):
        y = image(x)
        return F.silu(y), y.amax()

    check(product, x, fused=0)
    assert all("'none')" in call for call in check(total, x, fused=1))
    check(twice, x, fused=0)
    check(convolution, torch.randn(2, 3, 8, 8, device=device), fused=0)


def test_what_does_not_fit(device):
    """Other formulas and factors, broadcast summands, other types, and kernels without a place."""
    # In three dimensions: of a matrix Inductor makes an addmm, whose factor it forgets.
    layer, x = linear(24, 40, device, bias=False), torch.randn(2, 3, 24, device=device)
    depthwise = nn.Conv2d(4, 4, 3, groups=4).to(device).requires_grad_(False)
    transposed = nn.ConvTranspose2d(4, 5, 3).to(device).requires_grad_(False)
    column, half = torch.randn(3, 1, device=device), torch.randn(2, 3, 40, device=device).half()

    def formulas(x):
        y = layer(x)
        return y * 0.5 * (1 + torch.erf(y * 0.7))

    def scaled(x):
        return torch.add(half.float(), layer(x), alpha=2).relu()

    def broadcast(x):
        return layer(x) + column

    def other_type(x):
        return layer(x) + half

    for model in (formulas, scaled, broadcast, other_type):
        check(model, x, fused=0)
    image = torch.randn(2, 4, 9, 9, device=device)
    for convolution in (depthwise, transposed):
        check(lambda x, convolution=convolution: convolution(x).relu(), image, fused=0)


def test_default_mode_and_other_devices(device):
    model = nn.Sequential(nn.Linear(8, 8), nn.ReLU()).requires_grad_(False)
    x = torch.randn(3, 8)
    _, calls = run(model, x)
    assert not calls
    torch._dynamo.reset()
    _, calls = run(model.to(device), x.to(device), mode="default")
    assert not calls


@pytest.mark.parametrize("activation", ["relu", "gelu"])
def test_training(activation, device):
    """Gradients need what relu returns, but the argument of gelu."""
    function = ACTIVATIONS[activation]
    first, second = nn.Linear(24, 40).to(device), nn.Linear(40, 24).to(device)
    image = nn.Conv2d(1, 8, 3, padding=1).to(device)

    def model(x):
        y = x + second(function(first(x)))
        return function(image(y[None, None])).mean()

    def gradients(function, x):
        parameters = [*first.parameters(), *second.parameters(), *image.parameters(), x]
        return torch.autograd.grad(function(x), parameters)

    x = torch.randn(6, 24, device=device, requires_grad=True)
    expected = gradients(model, x)
    from torch._inductor.utils import run_and_get_code

    compiled = torch.compile(model, mode=MODES[0], fullgraph=True)
    actual, programs = run_and_get_code(gradients, compiled, x)
    torch.testing.assert_close(actual, expected, rtol=1e-3, atol=1e-5)
    calls = sum(program.count("_epilogue.default(") for program in programs)
    assert calls == (3 if activation == "relu" else 1)


def test_dynamic_shapes(device):
    layer = linear(24, 24, device)
    image = nn.Conv2d(3, 12, 3, stride=2).to(device).requires_grad_(False)

    def model(x, y):
        return F.gelu(layer(x) + x), F.silu(image(y))

    compiled = torch.compile(model, mode=MODES[0], dynamic=True, fullgraph=True)
    for m, size in ((6, 9), (1, 10), (17, 31)):
        x = torch.randn(2, m, 24, device=device)
        y = torch.randn(m, 3, size, size + 1, device=device)
        torch.testing.assert_close(compiled(x, y), model(x, y), rtol=1e-4, atol=1e-4)
    torch._dynamo.reset()
    check(model, x, y, fused=2, dynamic=True)


def test_autocast(device):
    first, second = linear(24, 40, device), linear(40, 24, device)

    def model(x):
        with torch.autocast("ocl", torch.bfloat16):
            return second(F.relu(first(x)))

    x = torch.randn(6, 24, device=device)
    check(model, x, fused=1, dtype=torch.bfloat16)


def test_residual_with_gaps(device):
    """A summand that is a view, transposed: the result has its strides in eager mode."""
    layer, x = linear(24, 40, device), torch.randn(6, 24, device=device)
    columns = torch.randn(40, 6, device=device).t()
    wide = torch.randn(6, 80, device=device)[:, ::2]
    image = nn.Conv2d(3, 6, 3).to(device).requires_grad_(False)
    rows = torch.randn(2, 6, 5, 14, device=device)[..., ::2]

    def model(x, y):
        return F.relu(layer(x) + columns), F.relu(layer(x) + wide), F.relu(rows + image(y))

    y = torch.randn(2, 3, 7, 9, device=device)
    expected = model(x, y)
    result, _ = run(model, x, y)
    torch.testing.assert_close(result, expected, rtol=1e-4, atol=1e-4)
