"""Graphs: captures and replays, their memory, their random numbers, and what cannot be captured."""

import math
import threading
import time

import pytest
import torch
from graph_support import attention, capture, network
from support import has_fp64, skip_on_the_stern_device
from torch import nn


def chain(x, weight):
    """Broadcasting, reductions, a product and new tensors."""
    for _ in range(3):
        y = torch.relu(x @ weight + x.mean(dim=1, keepdim=True))
        x = (y - y.amax(dim=1, keepdim=True)).exp() / y.std()
    return x.sum(dim=0), x


def test_replays_compute_with_new_inputs(device):
    torch.manual_seed(0)
    x, weight = torch.randn(33, 33, device=device), torch.randn(33, 33, device=device) / 6
    graph, results = capture(lambda: chain(x, weight))
    for seed in range(4):
        x.copy_(torch.randn(33, 33, generator=torch.Generator().manual_seed(seed)))
        graph.replay()
        for actual, expected in zip(results, chain(x, weight), strict=True):
            torch.testing.assert_close(actual, expected, rtol=0, atol=0)


def test_nothing_runs_during_the_capture(device):
    x = torch.zeros(5, device=device)
    graph, _ = capture(lambda: x.add_(1), warm_up=False)
    assert x.tolist() == [0] * 5
    for count in range(1, 4):
        graph.replay()
        assert x.tolist() == [count] * 5


def test_more_commands_than_one_gate_holds(device):
    x = torch.zeros(5, device=device)

    def work():
        for _ in range(600):
            x.add_(1)

    graph, _ = capture(work, warm_up=False)
    assert len(graph) == 600
    before = torch.ocl._C.launch_count()
    graph.replay()
    graph.replay()
    assert x.tolist() == [1200] * 5
    assert torch.ocl._C.launch_count() - before == 1200


def test_copies_fills_and_strided_views(device):
    x = torch.arange(24.0, device=device).view(4, 6)
    graph, y = capture(
        lambda: torch.cat([x.t().contiguous().view(-1), torch.zeros(3, device=device), x[1]])
    )
    x.neg_()
    graph.replay()
    expected = torch.cat([x.cpu().t().reshape(-1), torch.zeros(3), x.cpu()[1]])
    torch.testing.assert_close(y.cpu(), expected, rtol=0, atol=0)


def test_pinned_copies_are_part_of_the_graph(device):
    source, target = torch.zeros(7).pin_memory(), torch.zeros(7).pin_memory()
    x = torch.zeros(7, device=device)

    def work():
        x.copy_(source, non_blocking=True)
        target.copy_(x * 2, non_blocking=True)

    graph, _ = capture(work)
    for value in (3, 4):
        source.fill_(value)
        graph.replay()
        torch.ocl.synchronize()
        assert target.tolist() == [2 * value] * 7


def test_replay_on_another_stream_and_thread(device):
    x = torch.zeros(16, device=device)
    graph, _ = capture(lambda: x.add_(1), warm_up=False)
    with torch.ocl.stream(torch.ocl.Stream()):
        graph.replay()
        torch.ocl.synchronize()
    thread = threading.Thread(target=graph.replay)
    thread.start()
    thread.join()
    assert x.tolist() == [2] * 16


def test_tables_that_operators_make_need_no_warm_up(device):
    """Convolutions and transforms keep tables on the device; they outlive the graph."""
    x, weight = torch.randn(2, 3, 37, 31, device=device), torch.randn(5, 3, 3, 3, device=device)

    def work():
        return torch.conv2d(x, weight), torch.fft.fft(x[..., :29]), torch.fft.fft(x[..., :23])

    graph, results = capture(work, warm_up=False)
    graph.replay()
    for actual, expected in zip(results, work(), strict=True):
        torch.testing.assert_close(actual, expected, rtol=0, atol=0)


def test_indices_out_of_range_are_reported_by_the_stream_of_the_replay(device):
    x, index = torch.randn(8, device=device), torch.zeros(3, dtype=torch.long, device=device)
    graph, _ = capture(lambda: x[index])
    graph.replay()
    torch.ocl.synchronize()
    index.fill_(99)
    torch.ocl.synchronize()
    with torch.ocl.stream(torch.ocl.Stream()):
        graph.replay()
        with pytest.raises(IndexError, match="99 is out of bounds"):
            torch.ocl.current_stream().synchronize()
    torch.ocl.synchronize()


# ---- training


OPTIMIZERS = {
    "sgd": lambda p: torch.optim.SGD(p, lr=0.1, momentum=0.9),
    "adam": lambda p: torch.optim.Adam(p, lr=0.01, capturable=True),
    "adam_loop": lambda p: torch.optim.Adam(p, lr=0.01, capturable=True, foreach=False),
    "adamw_fused": lambda p: torch.optim.AdamW(p, lr=0.01, capturable=True, fused=True),
}


def batches(count):
    generator = torch.Generator().manual_seed(7)
    for _ in range(count):
        yield (
            torch.randn(6, 2, 8, 8, generator=generator),
            torch.randint(3, (6,), generator=generator),
        )


@pytest.mark.parametrize("name", OPTIMIZERS)
def test_training_steps_equal_eager_ones(device, name):
    models = [network(device), network(device)]
    optimizers = [OPTIMIZERS[name](model.parameters()) for model in models]
    x, target = torch.zeros(6, 2, 8, 8, device=device), torch.zeros(6, device=device).long()

    def step(model, optimizer, x, target):
        optimizer.zero_grad(set_to_none=True)
        loss = nn.functional.cross_entropy(model(x), target)
        loss.backward()
        optimizer.step()
        return loss

    graph = None
    for i, (images, labels) in enumerate(batches(6)):
        expected = step(models[0], optimizers[0], images.to(device), labels.to(device))
        x.copy_(images)
        target.copy_(labels)
        if i < 2:  # the warm-up
            with torch.ocl.stream(torch.ocl.Stream()):
                loss = step(models[1], optimizers[1], x, target)
                torch.ocl.synchronize()
        else:
            if graph is None:
                optimizers[1].zero_grad(set_to_none=True)
                graph = torch.ocl.Graph()
                with torch.ocl.graph(graph):
                    loss = step(models[1], optimizers[1], x, target)
            graph.replay()
        torch.testing.assert_close(loss, expected, rtol=1e-5, atol=1e-6)
    for one, other in zip(models[0].parameters(), models[1].parameters(), strict=True):
        torch.testing.assert_close(one, other, rtol=1e-4, atol=1e-5)


def test_scaled_loss_under_autocast(device):
    if not has_fp64(device):
        pytest.skip("GradScaler computes in float64: on the CPU, which a graph cannot capture")
    model = network(device)
    scaler = torch.amp.GradScaler("ocl", init_scale=1024.0)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    x = torch.randn(6, 2, 8, 8, device=device)

    def backward():
        with torch.autocast("ocl", torch.bfloat16, cache_enabled=False):
            loss = model(x).square().mean()
        optimizer.zero_grad(set_to_none=True)
        scaler.scale(loss).backward()

    backward()
    expected = [parameter.grad.clone() for parameter in model.parameters()]
    graph, _ = capture(backward)
    graph.replay()
    for parameter, each in zip(model.parameters(), expected, strict=True):
        torch.testing.assert_close(parameter.grad, each, rtol=1e-3, atol=1e-2)
    before = model[0].weight.clone()
    scaler.step(optimizer)
    scaler.update()
    assert not torch.equal(before, model[0].weight)


# ---- random numbers


def test_random_numbers_continue_the_sequence(device):
    p = torch.full((40,), 0.5, device=device)

    def work():
        x = torch.rand(100, device=device)
        return x, torch.nn.functional.dropout(x, 0.5), torch.poisson(p), torch.bernoulli(p)

    work()
    torch.manual_seed(5)
    expected = [work() for _ in range(3)]
    torch.manual_seed(5)
    graph, results = capture(work, warm_up=False)
    for each in expected:
        graph.replay()
        for actual, eager in zip(results, each, strict=True):
            torch.testing.assert_close(actual, eager, rtol=0, atol=0)
    torch.manual_seed(5)  # counts for replays
    graph.replay()
    torch.testing.assert_close(results[0], expected[0][0], rtol=0, atol=0)
    torch.testing.assert_close(torch.rand(100, device=device), expected[1][0], rtol=0, atol=0)


def test_attention_with_dropout_and_its_gradient(device):
    q = torch.randn(1, 2, 20, 16, device=device, requires_grad=True)

    def work():
        out = attention(q)
        (gradient,) = torch.autograd.grad(out.square().sum(), q)
        return out.detach(), gradient

    work()
    torch.manual_seed(5)
    expected = [work() for _ in range(2)]
    torch.manual_seed(5)
    graph, results = capture(work, warm_up=False)
    for each in expected:
        graph.replay()
        for actual, eager in zip(results, each, strict=True):
            torch.testing.assert_close(actual, eager, rtol=1e-5, atol=1e-6)


def test_a_generator_of_ones_own(device):
    own = torch.Generator(device).manual_seed(3)
    graph, x = capture(lambda: torch.rand(9, device=device, generator=own), warm_up=False)
    assert own.get_state().equal(torch.Generator(device).manual_seed(3).get_state())
    graph.replay()
    first = x.clone()
    graph.replay()
    again = torch.Generator(device).manual_seed(3)
    for actual in (first, x):
        assert actual.equal(torch.rand(9, device=device, generator=again))


# ---- speed


def test_replays_cost_the_host_less_than_enqueueing(device):
    """About a third, as docs/graphs.md says; the bound leaves room for a busy machine."""
    skip_on_the_stern_device("what the layer itself costs is in both")
    x, bias = torch.zeros(8, 16, device=device), torch.ones(16, device=device)

    def work():
        y = x
        for _ in range(50):
            y = (y + bias).relu_()
            y = y.sub(y.mean(dim=1, keepdim=True)).mul_(0.5)
        return y

    graph, _ = capture(work)
    graph.replay()
    least = {work: math.inf, graph.replay: math.inf}
    for _ in range(50):
        for function in least:
            torch.ocl.synchronize()
            begin = time.thread_time()  # counts neither waits nor other processes
            function()
            least[function] = min(least[function], time.thread_time() - begin)
    eager, replayed = least.values()
    assert eager > 1.5 * replayed, (eager, replayed)


def test_a_replay_at_once_reads_tables_that_its_capture_made(device):
    """They are written on the captured stream, and read on another one."""
    weight = torch.randn(3, 4, 2, device=device)
    for pixels in range(41, 61):
        x = torch.randn(2, 4, pixels, device=device)
        graph, result = capture(lambda: torch.conv1d(x, weight), warm_up=False)  # noqa: B023
        graph.replay()
        torch.testing.assert_close(result, torch.conv1d(x, weight), rtol=0, atol=0)
