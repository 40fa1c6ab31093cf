"""torch.compile of what surrounds kernels: autocast, checkpoints, operators of users."""

from collections import Counter

import pytest
import torch
import torch.nn.functional as F
from support import needs_a_compiler
from torch import nn
from torch.utils.checkpoint import checkpoint

pytestmark = pytest.mark.usefixtures("fresh_compiler")


def program_of(function, *args):
    from torch._inductor.utils import run_and_get_code

    result, programs = run_and_get_code(torch.compile(function, fullgraph=True), *args)
    return result, programs


@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16])
def test_autocast(device, dtype):
    def function(x, w):
        with torch.autocast("ocl", dtype):
            y = F.linear(x, w).relu() * 2
            z = F.softmax(y, -1)
        return y, z, z.to(w.dtype) @ w

    x, w = torch.randn(8, 16, device=device), torch.randn(16, 16, device=device)
    results, _ = program_of(function, x, w)
    expected = function(x, w)
    assert (
        [r.dtype for r in results] == [r.dtype for r in expected] == [dtype, *[torch.float32] * 2]
    )
    torch.testing.assert_close(results, expected, rtol=1e-2, atol=1e-2)


@pytest.mark.usefixtures("float64_on_the_cpu")
def test_training_under_autocast(device):
    x, target = torch.randn(6, 16, device=device), torch.arange(6, device=device) % 4
    states = []
    for compile in (False, True):
        torch.manual_seed(1)
        model = nn.Sequential(nn.Linear(16, 32), nn.LayerNorm(32), nn.GELU(), nn.Linear(32, 4))
        model.to(device)
        forward = torch.compile(model, fullgraph=True) if compile else model
        scaler = torch.amp.GradScaler("ocl")
        optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
        for _ in range(3):
            optimizer.zero_grad()
            with torch.autocast("ocl", torch.float16):
                loss = F.cross_entropy(forward(x), target)
            scaler.scale(loss).backward()
            scaler.step(optimizer)
            scaler.update()
        states.append([loss.detach(), *model.state_dict().values()])
    torch.testing.assert_close(*states, rtol=2e-2, atol=2e-3)


def in_checkpoints(block):
    def function(x, w):
        for _ in range(3):
            x = checkpoint(block, x, w, use_reentrant=False)
        return x

    return function


def test_checkpoint(device):
    def block(x, w):
        return F.layer_norm(torch.tanh(x @ w), (16,)) * x

    function = in_checkpoints(block)
    x, w = (torch.randn(*shape, device=device) for shape in ((8, 16), (16, 16)))
    gradients = []
    for run in (function, torch.compile(function, fullgraph=True)):
        inputs = x.clone().requires_grad_(), w.clone().requires_grad_()
        gradients.append(torch.autograd.grad(run(*inputs).square().sum(), inputs))
    torch.testing.assert_close(*gradients, rtol=1e-4, atol=1e-4)


def attend(x, w):
    y = (x @ w).view(4, 2, 16, -1)
    return x + F.scaled_dot_product_attention(y, y, y, dropout_p=0.3).view(x.shape)


@pytest.mark.parametrize(
    "block, states, sized",  # the dropouts' states and the tensors like x that a block keeps
    [
        (lambda x, w: F.gelu(F.dropout(x @ w, 0.3)) * x, 1, 1),
        (lambda x, w: F.dropout(x, 0.3) * torch.rand_like(x) + x @ w, 1, 2),
        (attend, 0, 1),
    ],
    ids=["dropout", "rand_like", "attention"],
)
def test_what_a_checkpoint_has_drawn_is_not_drawn_again(device, block, states, sized):
    function = in_checkpoints(block)
    x, w = (torch.randn(*shape, device=device) for shape in ((8, 16), (16, 16)))
    results = []
    for run in (function, torch.compile(function, fullgraph=True)):
        torch.manual_seed(6)
        inputs = x.clone().requires_grad_(), w.clone().requires_grad_()
        kept = Counter()

        def keep(tensor, kept=kept):
            kept[tuple(tensor.shape)] += 1
            return tensor

        with torch.autograd.graph.saved_tensors_hooks(keep, lambda tensor: tensor):
            result = run(*inputs)
        gradients = torch.autograd.grad(result.square().sum(), inputs)
        results.append((result, *gradients, torch.rand(4, device=device)))
    torch.testing.assert_close(*results, rtol=1e-4, atol=1e-4)
    assert (kept[(2,)], kept[(8, 16)]) == (3 * states, 3 * sized)  # graphs of the compiled run


def test_the_neighbours_of_an_operator_of_a_user_are_fused(device):
    @torch.library.custom_op("test_compile_regions::twice", mutates_args=())
    def twice(x: torch.Tensor) -> torch.Tensor:
        return x * 2

    twice.register_fake(torch.empty_like)

    @torch.library.custom_op("test_compile_regions::add_one_", mutates_args={"x"})
    def add_one_(x: torch.Tensor) -> None:
        x.add_(1)

    def function(x):
        y = twice((x + 1).relu().sin()).exp().tanh() * 3
        add_one_(y)
        return y.sqrt() + y

    x = torch.randn(8, 16, device=device)
    result, (program,) = program_of(function, x)
    torch.testing.assert_close(result, function(x), rtol=1e-5, atol=1e-5)
    assert program.count("generated_kernel(") == 3, program


def branches(x):
    def inner(x):
        return torch.cond(x.mean() > 1, lambda x: x.exp() * 2, lambda x: x.softmax(0) + 1, (x,))

    return torch.cond(x.sum() > 0, inner, lambda x: (x - 1).relu() @ x, (x,)) * 2


def loop(x):
    def step(count, x):
        return count + 1, x.sin() + x * 0.5

    zero = torch.zeros((), dtype=torch.int64, device=x.device)
    return torch.while_loop(lambda count, x: count < 5, step, (zero, x))


@pytest.mark.parametrize("in_cpp", [False, pytest.param(True, marks=needs_a_compiler)])
@pytest.mark.parametrize("function", [branches, loop])
def test_control_flow(device, function, in_cpp):
    with torch._inductor.config.patch(cpp_wrapper=in_cpp):
        compiled = torch.compile(function, fullgraph=True)
        for offset in (-1, 0, 2):
            x = torch.rand(6, 6, device=device) + offset
            torch.testing.assert_close(compiled(x), function(x), rtol=1e-4, atol=1e-5)


def test_control_flow_under_autocast(device):
    def function(x):
        return torch.cond(x.sum() > 0, lambda x: x @ x, lambda x: (x - 1) @ x, (x,))

    x = torch.rand(6, 6, device=device)
    with torch.autocast("ocl", torch.bfloat16):
        expected, actual = x @ x, torch.compile(function, fullgraph=True)(x)
        assert torch.equal(function(x), expected) and torch.equal(actual, expected)


def test_gradients_of_branches(device):
    x = torch.rand(6, 6, device=device).requires_grad_()
    gradients = [
        torch.autograd.grad(run(x).square().sum(), x)
        for run in (torch.compile(branches, fullgraph=True), branches)
    ]
    torch.testing.assert_close(*gradients, rtol=1e-4, atol=1e-5)


def on_two_streams(x):
    stream, current = torch.Stream(x.device), torch.accelerator.current_stream()
    stream.wait_stream(current)
    with stream:
        y = ((x @ x).sin() @ x).cos()
    z = x * 3
    z = z @ z
    current.wait_stream(stream)
    return y + z


@pytest.mark.parametrize("mode", ["default", "reduce-overhead"])
def test_streams(device, mode):
    with torch.ocl.device(device):
        x = torch.randn(300, 300, device=device) / 16
        expected = on_two_streams(x)
        compiled = torch.compile(on_two_streams, fullgraph=True, mode=mode)
        for _ in range(20):
            torch.testing.assert_close(compiled(x), expected, rtol=1e-4, atol=1e-4)
        with torch._inductor.config.patch(cpp_wrapper=True):
            torch.compiler.reset()
            with pytest.raises(RuntimeError, match=r"C\+\+ programs cannot switch streams"):
                torch.compile(on_two_streams)(x)


@pytest.mark.parametrize("dynamic", [False, True])
def test_map(device, dynamic):
    from torch._higher_order_ops.map import map as over_rows

    def function(x, y):
        return over_rows(lambda row, y: (row * y).sin(), x, y)

    x, y = torch.randn(3, 4, device=device), torch.randn(4, device=device)
    torch.testing.assert_close(torch.compile(function, dynamic=dynamic)(x, y), (x * y).sin())


def test_lstm_cell_without_biases(device):
    cell, x = nn.LSTMCell(4, 5, bias=False).to(device), torch.ones(2, 4, device=device)
    torch.testing.assert_close(torch.compile(cell, fullgraph=True)(x), cell(x))
    torch.testing.assert_close(torch.export.export(cell, (x,)).module()(x), cell(x))
