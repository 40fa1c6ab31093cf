"""nn.LSTM, nn.GRU, nn.RNN and their cells against the CPU, forwards and backwards."""

import pytest
import torch
from support import generator, output_of, random_tensor
from torch import nn
from torch.nn.utils.rnn import pack_sequence

from torch_ocl import _C

TOLERANCE = {
    torch.float32: {"rtol": 1e-4, "atol": 1e-5},
    torch.float64: {"rtol": 1e-9, "atol": 1e-10},
    torch.float16: {"rtol": 2e-2, "atol": 5e-3},
    torch.bfloat16: {"rtol": 1e-1, "atol": 4e-2},
}
LAYERS = {
    "lstm": (nn.LSTM, {}),
    "lstm_deep": (nn.LSTM, {"num_layers": 2, "bidirectional": True, "batch_first": True}),
    "lstm_no_bias": (nn.LSTM, {"bias": False}),
    "lstm_projection": (nn.LSTM, {"proj_size": 5}),
    "gru": (nn.GRU, {}),
    "gru_deep": (nn.GRU, {"num_layers": 2, "bidirectional": True}),
    "gru_no_bias": (nn.GRU, {"bias": False}),
    "rnn_tanh": (nn.RNN, {}),
    "rnn_relu": (nn.RNN, {"nonlinearity": "relu"}),
}
CELLS = {"lstm": nn.LSTMCell, "gru": nn.GRUCell, "rnn": nn.RNNCell}


def flat(output):
    """The tensors of nested tuples."""
    return [output] if isinstance(output, torch.Tensor) else [t for x in output for t in flat(x)]


def run(module, device, dtype, *inputs, call=None):
    """Outputs, and gradients of parameters and inputs for random gradients of the outputs."""
    module = module.to(device, dtype)
    inputs = [x.to(device, dtype).requires_grad_() for x in inputs]
    outputs = flat((call or (lambda m, *xs: m(*xs)))(module, *inputs))
    numbers = generator(7)
    gradients = [torch.randn(y.shape, generator=numbers).to(device, dtype) for y in outputs]
    torch.autograd.backward(outputs, gradients)
    leaves = [*module.parameters(), *inputs]
    return [t.detach().cpu() for t in (*outputs, *(leaf.grad for leaf in leaves))]


def make(kind, **options):
    torch.manual_seed(1)
    return kind(**options)


def compare(build, device, dtype, *inputs, call=None):
    # float16 and bfloat16 are compared with what float32 gives for the rounded numbers.
    actual = run(build(), device, dtype, *inputs, call=call)
    reference = dtype if dtype == torch.float64 else torch.float32
    rounded = build().to(dtype)
    inputs = [x.to(dtype) for x in inputs]
    expected = run(rounded, "cpu", reference, *inputs, call=call)
    for mine, theirs in zip(actual, expected, strict=True):
        torch.testing.assert_close(mine, theirs.to(dtype), **TOLERANCE[dtype])


@pytest.mark.parametrize("dtype", TOLERANCE)
@pytest.mark.parametrize("name", LAYERS)
def test_layers(device, name, dtype):
    kind, options = LAYERS[name]
    x = torch.randn(6, 3, 7, generator=generator())
    compare(lambda: make(kind, input_size=7, hidden_size=19, **options), device, dtype, x)


@pytest.mark.sample
@pytest.mark.parametrize("size", [1, 16, 37])
@pytest.mark.parametrize("name", CELLS)
def test_cells(device, name, size):
    numbers = generator()
    states = [torch.randn(3, size, generator=numbers) for _ in range(2 if name == "lstm" else 1)]

    def call(cell, x, *state):
        return cell(x, state if name == "lstm" else state[0])

    def build():
        return make(CELLS[name], input_size=5, hidden_size=size)

    x = torch.randn(3, 5, generator=numbers)
    compare(build, device, torch.float32, x, *states, call=call)


@pytest.mark.parametrize("which", ["hidden", "cell"])
def test_one_output_is_used(device, which):
    """The gradient of the other one is not there."""
    results = []
    for target in (device, "cpu"):
        cell = make(nn.LSTMCell, input_size=5, hidden_size=9).to(target)
        x = torch.randn(3, 5, generator=generator()).to(target).requires_grad_()
        cell(x)[which == "cell"].square().sum().backward()
        results.append([x.grad.cpu(), *(p.grad.cpu() for p in cell.parameters())])
    for mine, theirs in zip(*results):
        torch.testing.assert_close(mine, theirs, **TOLERANCE[torch.float32])


@pytest.mark.parametrize("kind", [nn.LSTM, nn.GRU])
def test_packed_sequences(device, kind):
    def call(layer, *sequences):
        packed, state = layer(pack_sequence(sequences))
        return packed.data, state

    sequences = [torch.randn(n, 7, generator=generator(n)) for n in (5, 3, 2)]
    build = lambda: make(kind, input_size=7, hidden_size=11)  # noqa: E731
    compare(build, device, torch.float32, *sequences, call=call)


def test_second_derivatives(device):
    """PyTorch's differentiable form of the gradient, which is made of other operators."""
    results = []
    for target in (device, "cpu"):
        cell = make(nn.LSTMCell, input_size=3, hidden_size=4).to(target)
        x = torch.randn(2, 3, generator=generator()).to(target).requires_grad_()
        (gradient,) = torch.autograd.grad(cell(x)[0].sum(), x, create_graph=True)
        (second,) = torch.autograd.grad(gradient.square().sum(), x)
        results.append(second.cpu())
    torch.testing.assert_close(*results, **TOLERANCE[torch.float32])


def test_views_and_empty_batches(device):
    cell = make(nn.GRUCell, input_size=5, hidden_size=9).to(device)
    x = torch.randn(5, 3, generator=generator())
    hidden = torch.randn(3, 18, generator=generator())[:, ::2]
    actual = cell(x.to(device).t(), hidden.to(device).t().contiguous().t())
    expected = cell.cpu()(x.t(), hidden)
    torch.testing.assert_close(actual.cpu(), expected, **TOLERANCE[torch.float32])
    assert cell.to(device)(torch.ones(0, 5, device=device)).shape == (0, 9)


def test_one_launch_for_a_cell(device):
    with torch.no_grad():
        gates = torch.ones(4, 24, device=device)
        state = torch.ones(4, 6, device=device)
        before = _C.launch_count()
        torch.ops.aten._thnn_fused_lstm_cell(gates, gates, state)
        assert _C.launch_count() - before == 1 and _C.last_kernel() == "lstm_cell"


def test_wrong_shapes_and_types(device):
    gates, state = torch.ones(4, 24, device=device), torch.ones(4, 6, device=device)
    with pytest.raises(RuntimeError, match=r"\[4, 24\]"):
        torch.ops.aten._thnn_fused_lstm_cell(gates, gates[:, :20], state)
    with pytest.raises(RuntimeError, match="all tensors must be of one type"):
        torch.ops.aten._thnn_fused_lstm_cell(gates, gates.half(), state)


@pytest.mark.parametrize("name", ["lstm_cell", "gru_cell"])
def test_cells_with_one_bias(device, name):
    cell, rows = getattr(torch, name), {"lstm_cell": 16, "gru_cell": 12}[name]
    x, h, bias = random_tensor((5, 3), torch.float32), torch.ones(5, 4), torch.arange(float(rows))
    weights = [random_tensor((rows, n), torch.float32, seed=n, low=-1, high=1) for n in (3, 4)]

    def run(device, *biases):
        state = h.to(device)
        state = (state, state + 1) if name == "lstm_cell" else state
        biases = [b if b is None else b.to(device) for b in biases]
        result = cell(x.to(device), state, *(w.to(device) for w in weights), *biases)
        return result[0] if name == "lstm_cell" else result

    for biases in ((bias, None), (None, bias)):
        torch.testing.assert_close(run(device, *biases).cpu(), run("cpu", *biases))
    results = []
    for place in ("cpu", device):
        leaf = bias.clone().requires_grad_()
        run(place, leaf, None).sum().backward()
        results.append(leaf.grad)
    torch.testing.assert_close(results[1], results[0])
    with pytest.raises(NotImplementedError, match="needs a bias of the input, too"):
        run(device, None, bias.clone().requires_grad_())


@pytest.mark.parametrize("bias", [True, False])
@pytest.mark.parametrize("kind", [nn.GRU, nn.LSTM, nn.GRUCell, nn.LSTMCell])
def test_forward_mode(device, kind, bias):
    """Tangents, and Hessians, which are forward over reverse mode. The CPU's LSTM has forward mode
    only with projections."""
    options = {"proj_size": 2} if kind is nn.LSTM else {}
    layer = make(kind, input_size=3, hidden_size=4, bias=bias, **options)
    x = torch.randn(5, 3, generator=generator())

    def results_on(target):
        module = layer.to(target)

        def function(x):
            return torch.cat([t.flatten() for t in flat(module(x))])

        moved = x.to(target)
        hessian = torch.func.hessian(lambda x: function(x).sin().sum())(moved)
        tangents = torch.func.jvp(function, (moved,), (moved.cos(),))
        return [*tangents, torch.func.jacfwd(function)(moved), hessian]

    expected = results_on("cpu")
    for actual, wanted in zip(results_on(device), expected, strict=True):
        assert actual.device.type == "ocl"
        torch.testing.assert_close(actual.cpu(), wanted, rtol=1e-4, atol=1e-5)


CELLS_IN_THREADS = """
    import threading, torch

    def run(cell, x, h):
        for _ in range(3000):
            cell(x, h)

    cells = [torch.nn.GRUCell(3, 4, device="ocl").requires_grad_() for _ in range(3)]
    x, h = torch.ones(1, 3, device="ocl"), torch.ones(1, 4, device="ocl")
    threads = [threading.Thread(target=run, args=(cell, x, h)) for cell in cells]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    print("done")
"""


def test_cells_in_threads():
    """The search for PyTorch's kernel is not safe among threads."""
    assert output_of(CELLS_IN_THREADS) == "done"
