"""torch.ocl.make_graphed_callables: what calls return is the caller's to keep, and what a replay
would compute wrongly is computed without one."""

import copy

import pytest
import torch
import torch.nn.functional as F
from torch import nn


@pytest.fixture
def replays(monkeypatch):
    """A list to which each replay adds its graph."""
    found, replay = [], torch.ocl.Graph.replay

    def counted(graph):
        found.append(graph)
        replay(graph)

    monkeypatch.setattr(torch.ocl.Graph, "replay", counted)
    return found


def pair(
    device, make=lambda: nn.Sequential(nn.Linear(4, 5), nn.Tanh(), nn.Linear(5, 3)), **options
):
    """A graphed module and an ordinary one with the same parameters."""
    torch.manual_seed(0)
    plain = make().to(device)
    sample = (torch.ones(2, 4, device=device, requires_grad=True),)
    return torch.ocl.make_graphed_callables(copy.deepcopy(plain), sample, **options), plain


def numbers(device, count, requires_grad=True):
    return [torch.randn(2, 4, device=device).requires_grad_(requires_grad) for _ in range(count)]


def agree(graphed, plain):
    for one, other in zip(graphed.parameters(), plain.parameters(), strict=True):
        torch.testing.assert_close(one.grad, other.grad)


@pytest.mark.sample
def test_gradients_add_up(device, replays):
    models, inputs = pair(device), numbers(device, 3)
    copies = [x.detach().clone().requires_grad_() for x in inputs]
    for model, given in zip(models, (inputs, copies)):
        for factor, x in enumerate(given):
            (model(x) * (factor + 1)).sum().backward()
    agree(*models)
    for x, y in zip(inputs, copies):
        torch.testing.assert_close(x.grad, y.grad)
    assert len(replays) == 6


@pytest.mark.parametrize("to_none", [False, True])
def test_training_with_gradients_that_are_kept(device, to_none, replays):
    models, inputs = pair(device), numbers(device, 4, requires_grad=False)
    for model in models:
        optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
        for x in inputs:
            loss = model(x).square().sum()
            optimizer.zero_grad(set_to_none=to_none)
            loss.backward()
            optimizer.step()
    agree(*models)
    torch.testing.assert_close(models[0].state_dict(), models[1].state_dict())
    assert len(replays) == 8


def test_results_and_gradients_that_are_kept(device, replays):
    (graphed, plain), inputs = pair(device), numbers(device, 3)
    kept = []
    for x in inputs:
        y = graphed(x)
        kept.append((y, *torch.autograd.grad(y.sum(), [x, *graphed.parameters()])))
    for x, found in zip(inputs, kept):
        y = plain(x)
        expected = (y, *torch.autograd.grad(y.sum(), [x, *plain.parameters()]))
        torch.testing.assert_close(found, expected)
    assert len(replays) == 6


def test_hooks_keep_gradients(device):
    models, inputs = pair(device), numbers(device, 2, requires_grad=False)
    found = []
    for model in models:
        kept = []
        model[0].weight.register_hook(kept.append)
        for x in inputs:
            model(x).sum().backward()
        found.append(kept)
    torch.testing.assert_close(*found)


def test_the_sample_is_only_read(device):
    sample = torch.full((2, 4), 7.0, device=device)
    graphed = torch.ocl.make_graphed_callables(lambda x: x * 2, (sample,))
    assert graphed(torch.zeros(2, 4, device=device)).sum() == 0
    assert (sample == 7).all()


def test_a_second_call_before_the_backward_pass_of_the_first(device, replays):
    models, (a, b) = pair(device), numbers(device, 2)
    for model in models:
        first, second = model(a), model(b)
        (first * 2 + second).square().sum().backward()
    agree(*models)
    assert len(replays) == 2, "the second call runs without graphs"
    for model in models:
        model(a).sum().backward()
    agree(*models)
    assert len(replays) == 4


def test_backward_twice(device, replays):
    models, (a, b) = pair(device), numbers(device, 2)
    for model in models:
        loss = model(a).square().sum()
        loss.backward(retain_graph=True)
        model(b).sum().backward()
        loss.backward()
    agree(*models)
    assert len(replays) == 3
    with pytest.raises(RuntimeError, match="a second time"):
        loss = models[0](a).sum()
        loss.backward()
        loss.backward()
    graphed = torch.ocl.make_graphed_callables(torch.sin, (a,))
    (y,) = (graphed(a),)
    torch.autograd.grad(y, a, torch.ones_like(y))
    with pytest.raises(RuntimeError, match="a second time"):
        torch.autograd.grad(y, a, torch.ones_like(y))


def test_an_earlier_part_runs_before_the_backward_pass_of_a_later_one(device, replays):
    """Its intermediate results may be where the later part has its saved values."""
    torch.manual_seed(0)
    models = [nn.Sequential(*[nn.Linear(4, 4), nn.GELU()] * 3).to(device) for _ in range(2)]
    x, y = numbers(device, 2)
    expected = torch.autograd.grad(models[1](y).square().sum(), y)
    one, other = torch.ocl.make_graphed_callables(
        tuple(models), ((torch.zeros_like(x),), (torch.zeros_like(y).requires_grad_(),))
    )
    result = other(y)
    for _ in range(3):
        one(x)
    torch.testing.assert_close(torch.autograd.grad(result.square().sum(), y), expected)
    assert len(replays) == 2


def test_calls_that_differ_from_the_capture(device, replays):
    graphed, plain = pair(device)
    x = torch.randn(2, 4, device=device)
    for other in (x[:1], torch.cat([x, x]), x[0], torch.randn(3, 2, 4, device=device)):
        torch.testing.assert_close(graphed(other), plain(other))
    with pytest.raises(RuntimeError):
        graphed(x.double())
    with pytest.raises(TypeError):
        graphed()
    with torch.autocast("ocl", torch.bfloat16):
        assert graphed(x).dtype == torch.bfloat16
    torch.testing.assert_close(graphed(input=x), plain(x))
    assert not replays
    torch.testing.assert_close(graphed(x), plain(x))
    assert len(replays) == 1


def test_an_argument_that_needs_a_gradient_only_later(device):
    graphed = torch.ocl.make_graphed_callables(torch.sin, (torch.ones(2, 4, device=device),))
    x = numbers(device, 1)[0]
    graphed(x).sum().backward()
    torch.testing.assert_close(x.grad, x.detach().cos())


def test_parameters_that_are_replaced(device, replays):
    graphed, plain = pair(device)
    x = torch.randn(2, 4, device=device)
    for model in (graphed, plain):
        model[0].weight.data = torch.ones_like(model[0].weight)
    torch.testing.assert_close(graphed(x), plain(x))
    state = {key: torch.zeros_like(value) for key, value in plain.state_dict().items()}
    graphed.load_state_dict(state, assign=True)
    assert not graphed(x).any() and not replays


def test_a_copy_of_the_module_has_parameters_of_its_own(device, replays):
    graphed, plain = pair(device)
    other = copy.deepcopy(graphed)
    for model in (other, plain):
        nn.init.ones_(model[2].weight)
        model(torch.ones(2, 4, device=device)).sum().backward()
    agree(other, plain)
    assert graphed[0].weight.grad is None and not replays


def test_modes_of_inner_modules(device, replays):
    def make():
        return nn.Sequential(nn.Linear(4, 4), nn.BatchNorm1d(4), nn.Dropout(0.5))

    graphed, plain = pair(device, make)
    plain.load_state_dict(graphed.state_dict())
    x = torch.randn(2, 4, device=device)
    for model in (graphed, plain):
        model[1].eval()
        model[2].eval()
    torch.testing.assert_close(graphed(x), plain(x))
    assert not replays


def test_a_parameter_that_changes_before_the_backward_pass(device):
    graphed, _ = pair(device)
    loss = graphed(numbers(device, 1)[0]).sum()
    with torch.no_grad():
        graphed[2].weight.add_(1)
    with pytest.raises(RuntimeError, match="modified by an inplace operation"):
        loss.backward()


def test_arguments_that_are_changed(device, replays):
    def count(x, total):
        total.add_(x.sum())
        return x * total

    total, x = torch.zeros((), device=device), torch.ones(3, device=device)
    graphed = torch.ocl.make_graphed_callables(count, (x, total))
    assert total == 0
    for k in range(1, 4):
        assert graphed(x, total).tolist() == [3.0 * k] * 3 and total == 3 * k
    assert len(replays) == 3


def test_results_without_gradients(device):
    def function(x):
        return x * 2, (x * 3).detach(), x.argmax()

    x = numbers(device, 1)[0]
    graphed = torch.ocl.make_graphed_callables(function, (x,))
    assert [y.requires_grad for y in graphed(x)] == [True, False, False]


def test_what_graphs_cannot_do_is_refused(device):
    weight, x = torch.ones(4, device=device, requires_grad=True), torch.ones(2, 4, device=device)
    with pytest.raises(ValueError, match=r"uses a tensor \(4,\)"):
        torch.ocl.make_graphed_callables(lambda x: x * weight, (x,))

    class Mean(nn.Module):
        def __init__(self):
            super().__init__()
            self.register_buffer("mean", torch.zeros(4))

        def forward(self, x):
            self.mean = self.mean * 0.5 + x.mean(0)
            return x - self.mean

    with pytest.raises(ValueError, match="replaces a parameter or buffer"):
        torch.ocl.make_graphed_callables(Mean().to(device), (x,))


def test_streams_and_threads(device):
    """Replays share memory: each waits for the one before, wherever it runs."""
    graphed = torch.ocl.make_graphed_callables(
        lambda x: F.gelu(x).cumsum(0), (torch.zeros(1 << 14, device=device),)
    )
    inputs = [torch.full((1 << 14,), float(k), device=device) for k in range(4)]
    expected = [F.gelu(x).cumsum(0) for x in inputs]
    streams = [torch.ocl.Stream() for _ in inputs]
    torch.ocl.synchronize()
    for _ in range(3):
        found = []
        for x, stream in zip(inputs, streams):
            with torch.ocl.stream(stream):
                found.append(graphed(x))
        torch.ocl.synchronize()
        torch.testing.assert_close(found, expected)
