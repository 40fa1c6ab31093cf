"""torch.compile(mode="reduce-overhead"): programs that are replayed as graphs."""

import gc
import logging
import threading

import pytest
import torch
import torch.nn.functional as F
from torch import nn

from torch_ocl.inductor.replay import Replayed

pytestmark = pytest.mark.usefixtures("fresh_compiler")


@pytest.fixture
def replays(monkeypatch):
    """A list to which each replay adds the number of its launches."""
    found, replay = [], torch.ocl.Graph.replay

    def counted(graph):
        found.append(len(graph))
        replay(graph)

    monkeypatch.setattr(torch.ocl.Graph, "replay", counted)
    return found


def compiled(function, **options):
    return torch.compile(function, mode="reduce-overhead", fullgraph=True, **options)


def chain(x, w):
    return F.layer_norm((x @ w).cumsum(1).relu(), (8,)), x.sum(0)


@pytest.mark.sample
def test_calls_are_replayed(device, replays):
    x, w = torch.randn(5, 8, device=device), torch.randn(8, 8, device=device)
    function = compiled(chain)
    for n in range(5):
        x.add_(n)
        torch.testing.assert_close(function(x, w), chain(x, w), rtol=1e-4, atol=1e-4)
    assert len(replays) == 4 and min(replays) >= 3


def test_the_memory_goes_with_the_function(device):
    """As with torch.cuda, the program's module stays, but its graphs do not."""

    def pools():
        gc.collect()
        torch.ocl.empty_cache()
        segments = torch.ocl.memory_snapshot()
        return {s["segment_pool_id"] for s in segments if s["segment_pool_id"] != (0, 0)}

    before = pools()
    x, w = torch.randn(5, 8, device=device), torch.randn(8, 8, device=device)
    function = compiled(chain)
    for _ in range(4):
        results = function(x, w)
    assert pools() > before
    del function, results
    torch._dynamo.reset()
    assert pools() <= before


def test_inputs_that_move_are_copied(device, replays):
    w, function = torch.randn(8, 8, device=device), compiled(chain)
    kept = []  # so that each has memory of its own
    for _ in range(5):
        kept.append(torch.randn(5, 8, device=device))
        result = function(kept[-1], w)
        torch.testing.assert_close(result, chain(kept[-1], w), rtol=1e-4, atol=1e-4)
    assert len(replays) == 4
    moved = w.clone()  # an address that has not changed before
    for _ in range(2):
        torch.testing.assert_close(
            function(kept[0], moved), chain(kept[0], moved), rtol=1e-4, atol=1e-4
        )
    assert len(replays) == 6


def test_results_in_use_are_not_overwritten(device, replays):
    w, function = torch.randn(8, 8, device=device), compiled(chain)
    inputs = [torch.randn(5, 8, device=device) for _ in range(6)]
    results = [function(x, w) for x in inputs]
    assert len(replays) == 2, "of the second call and the third, which has another graph"
    for x, result in zip(inputs, results):
        torch.testing.assert_close(result, chain(x, w), rtol=1e-4, atol=1e-4)
    view = results[1][0][0]
    expected = view.clone()
    del results, result
    for _ in range(3):
        last = function(inputs[0], w)
    assert len(replays) == 4, "one graph is left, whose results are in use at every other call"
    assert torch.equal(view, expected)
    torch.testing.assert_close(last, chain(inputs[0], w), rtol=1e-4, atol=1e-4)


def test_a_result_that_is_kept_as_its_storage_is_not_overwritten(device, replays):
    function, x, kept = compiled(lambda x: x * 2 + 1), torch.zeros(8, device=device), []
    for number in range(6):
        kept.append(function(x.fill_(number)).untyped_storage())
    for number, storage in enumerate(kept):
        assert torch.empty(0, device=device).set_(storage, 0, (8,))[0] == 2 * number + 1
    launched = len(replays)
    del kept, storage
    for _ in range(4):
        function(x)
    assert len(replays) == launched + 4


def test_a_result_that_users_resize_leaves_its_graph(device):
    function, x = compiled(lambda x: (x * 2, x + 1)), torch.zeros(4, device=device)
    for number in range(6):
        doubled, following = function(x.fill_(number))
        assert (doubled[0], following[0]) == (2 * number, number + 1)
        doubled.resize_(5000), following.untyped_storage().resize_(0)
        del doubled, following


def test_what_runs_on_the_cpu_runs_at_each_call(device, replays):
    function = compiled(lambda x: (x * 2, torch.rand(3), torch.ones(3) + 1))
    draws = []
    for _ in range(5):
        _, drawn, two = function(torch.arange(4.0, device=device))
        assert torch.equal(two, torch.full((3,), 2.0))
        draws.append(drawn.clone())
        two.add_(100)
    assert len(torch.stack(draws).unique()) == 15 and not replays


def test_what_runs_on_another_device_runs_at_each_call(two_devices):
    function = compiled(lambda x: (x * 2, torch.ones(3, device=two_devices[1]) + 1))
    for _ in range(5):
        _, two = function(torch.arange(4.0, device=two_devices[0]))
        assert torch.equal(two.cpu(), torch.full((3,), 2.0))
        two.add_(100)


def replayed(device, n=64):
    """A program that doubles its input, which moves, and the input of the last call."""
    function = Replayed(lambda args: (args[0] * 2,), ())
    kept = [torch.full((n,), float(i), device=device) for i in range(3)]
    for x in kept:
        assert function([x])[0][0] == 2 * x[0]
    return function, kept


def test_threads_do_not_share_a_replay(device, monkeypatch):
    """A second thread calls while the first has copied its inputs, and has no results yet."""
    function, kept = replayed(device)
    results, threads, replay = {}, [], torch.ocl.Graph.replay

    def call(name, x):
        results[name] = function([x])[0]

    def interrupted(graph):
        if not threads:
            threads.append(threading.Thread(target=call, args=("second", kept[2])))
            threads[0].start()
            threads[0].join(timeout=1)  # it ends here, or waits for this replay
        replay(graph)

    monkeypatch.setattr(torch.ocl.Graph, "replay", interrupted)
    call("first", kept[1])
    threads[0].join()
    torch.testing.assert_close(results["first"], 2 * kept[1])
    torch.testing.assert_close(results["second"], 2 * kept[2])


def test_another_stream_waits_for_the_last_replay(device):
    """Its consumers still run when the results are deleted; the next call is on another stream."""
    n = 1 << 16
    function, kept = replayed(device, n)
    streams, slow = [torch.ocl.Stream() for _ in range(2)], torch.ones(600, 600, device=device)
    torch.ocl.synchronize()
    for turn in range(4):
        first, second = kept[1 + turn % 2], kept[2 - turn % 2]
        with torch.ocl.stream(streams[turn % 2]):
            result = function([first])[0]
            for _ in range(10):
                slow @ slow
            consumed = result + 1
            del result
        with torch.ocl.stream(streams[1 - turn % 2]):
            other = function([second])[0].clone()
        torch.ocl.synchronize()
        torch.testing.assert_close(consumed, 2 * first + 1)
        torch.testing.assert_close(other, 2 * second)


def test_memory_of_a_dropped_graph_waits_for_its_last_replay(device):
    """Copies of inputs are of the capture's stream; another stream still replays the graph."""

    def program(args):
        x, w, slow = args
        for _ in range(20):
            slow.sin()
        return (x * w,)

    n, function = 1 << 16, Replayed(program, ())
    kept = [torch.full((n,), float(i), device=device) for i in range(4)]
    w = torch.ones((), device=device)
    slow = torch.ones(1 << 22, device=device)
    for x in kept[:3]:
        function([x, w, slow])
    torch.ocl.synchronize()
    with torch.ocl.stream(torch.ocl.Stream()):
        result = function([kept[3], w, slow])[0]
    del function
    fresh = [torch.full((n,), -1.0, device=device) for _ in range(20)]
    torch.ocl.synchronize()
    torch.testing.assert_close(result, kept[3])
    del fresh


def test_training_with_dropout(device, replays):
    x, target = torch.randn(6, 16, device=device), torch.arange(6, device=device) % 4
    states = []
    for compile in (False, True):
        torch.manual_seed(1)
        layers = nn.Linear(16, 32), nn.GELU(), nn.Dropout(0.3), nn.BatchNorm1d(32), nn.Linear(32, 4)
        model = nn.Sequential(*layers).to(device)
        optimizer = torch.optim.Adam(model.parameters(), lr=0.01)
        forward = compiled(model) if compile else model
        losses = []
        for _ in range(6):
            optimizer.zero_grad()
            loss = F.cross_entropy(forward(x), target)
            loss.backward()
            optimizer.step()
            losses.append(loss.detach().clone())
        states.append([*losses, *model.state_dict().values()])
    torch.testing.assert_close(*states, rtol=1e-4, atol=1e-5)
    assert len(replays) == 10  # five forward and five backward passes


def test_gradients_that_are_added_up(device, replays):
    x = torch.randn(6, 16, device=device)
    model = nn.Sequential(nn.Linear(16, 16), nn.Tanh(), nn.Linear(16, 4)).to(device)
    forward = compiled(model)
    for _ in range(2):
        model.zero_grad()
        for run in (forward, forward, forward):
            run(x).square().sum().backward()
    actual = [parameter.grad.clone() for parameter in model.parameters()]
    model.zero_grad()
    for _ in range(3):
        model(x).square().sum().backward()
    torch.testing.assert_close(actual, [parameter.grad for parameter in model.parameters()])
    assert replays


def test_gradients_that_are_kept(device, replays):
    model = nn.Sequential(nn.Linear(16, 16), nn.Tanh(), nn.Linear(16, 4)).to(device)
    forward, parameters = compiled(model), tuple(model.parameters())
    kept = []
    for number in range(5):
        x = torch.full((6, 16), float(number), device=device, requires_grad=True)
        loss = forward(x).square().sum()
        first = torch.autograd.grad(loss, (x, *parameters), retain_graph=True)
        kept.append((x, first, torch.autograd.grad(loss, (x, *parameters))))
    for x, *found in kept:
        expected = torch.autograd.grad(model(x).square().sum(), (x, *parameters))
        for gradients in found:
            torch.testing.assert_close(gradients, expected, rtol=1e-4, atol=1e-5)
    assert replays


def test_inputs_are_changed(device, replays):
    def function(x, y):
        x.add_(y)
        return x * 2

    states = []
    for run in (function, compiled(function)):
        x = torch.zeros(4, device=device)
        results = [run(x, torch.full((4,), n, device=device)).clone() for n in range(4)]
        states.append((x, *results))
    torch.testing.assert_close(*states)
    assert len(replays) == 3
    moving = [torch.ones(4, device=device) for _ in range(3)]
    run = compiled(function)
    for x in moving:
        torch.testing.assert_close(run(x, moving[0].clone()), 2 * x)


def test_a_graph_for_each_size(device, replays):
    w, function = torch.randn(8, 8, device=device), compiled(chain, dynamic=True)
    for rows in (5, 6, 7) * 3:
        x = torch.randn(rows, 8, device=device)
        torch.testing.assert_close(function(x, w), chain(x, w), rtol=1e-4, atol=1e-4)
    assert len(replays) == 6


def test_what_cannot_be_captured_runs_as_before(device, replays, caplog):
    @torch.library.custom_op("test_compile_replay::through_the_host", mutates_args=())
    def through_the_host(x: torch.Tensor) -> torch.Tensor:
        return (x.cpu() + 1).to(x.device)

    through_the_host.register_fake(torch.empty_like)
    run, x = compiled(lambda x: through_the_host(x * 2).sin()), torch.randn(50, device=device)
    with caplog.at_level(logging.INFO, "torch._inductor.ocl"):
        for _ in range(4):
            torch.testing.assert_close(run(x), (x * 2 + 1).sin())
    assert not replays and "runs without a graph" in caplog.text


def test_without_the_mode_nothing_is_replayed(device, replays):
    x, w = torch.randn(5, 8, device=device), torch.randn(8, 8, device=device)
    function = torch.compile(chain)
    for _ in range(4):
        function(x, w)
    assert not replays
