"""Graphs: their memory, what cannot be captured, streams, and interfaces."""

import gc

import pytest
import torch
from graph_support import attention, capture, network
from support import run_python
from torch import nn

# ---- memory


def test_memory_of_a_graph_is_handed_out_to_nobody(device):
    x = torch.ones(1000, device=device)
    graph, y = capture(lambda: (x * 2 + 1) * 3)  # with temporaries
    others = [torch.full((1000,), -1.0, device=device) for _ in range(50)]
    graph.replay()
    assert y.eq(9).all()
    assert all(other.eq(-1).all() for other in others)


def test_a_graph_frees_its_memory(device):
    gc.collect()
    torch.ocl.synchronize()
    torch.ocl.empty_cache()
    before = torch.ocl.memory_reserved()
    x = torch.ones(4 << 20, device=device)
    graph, y = capture(lambda: x * 2 + 1)
    torch.ocl.empty_cache()
    # The memory of the sum, and of the product, although no tensor has it.
    assert torch.ocl.memory_reserved() - before >= 2 * x.nbytes
    graph.replay()
    assert y.eq(3).all()
    del y, graph
    x = None  # not `del`: the closure above has it
    torch.ocl.synchronize()
    torch.ocl.empty_cache()
    assert torch.ocl.memory_reserved() == before


def test_two_graphs_share_a_pool(device):
    x = torch.ones(4 << 20, device=device)
    pool = torch.ocl.graph_pool_handle()
    first, y = capture(lambda: x * 2 + 1, pool=pool)
    reserved = torch.ocl.memory_reserved()
    second, z = capture(lambda: y * 2 + 1, pool=first.pool())
    assert first.pool() == second.pool() == pool
    # The first one's temporary is the second one's result.
    assert torch.ocl.memory_reserved() - reserved <= x.nbytes
    pools = {each["segment_pool_id"] for each in torch.ocl.memory_snapshot()}
    assert pool in pools
    del first
    gc.collect()
    torch.ocl.empty_cache()
    y.fill_(4)
    second.replay()
    assert z.eq(9).all()


def test_reset_and_capture_again(device):
    x = torch.zeros(4, device=device)
    graph, _ = capture(lambda: x.add_(1), warm_up=False)
    with pytest.raises(RuntimeError, match=r"call reset\(\)"), torch.ocl.graph(graph):
        pass
    graph.reset()
    with pytest.raises(RuntimeError, match="must be captured before"):
        graph.replay()
    with torch.ocl.graph(graph):
        x.sub_(1)
    graph.replay()
    assert x.tolist() == [-1] * 4


# ---- what cannot be captured

REFUSED = {
    "item": lambda x: x.sum().item(),
    "cpu": lambda x: x.cpu(),
    "to_device": lambda x: x.copy_(torch.zeros(4)),
    "synchronize": lambda x: torch.ocl.synchronize(),
    "stream_synchronize": lambda x: torch.ocl.current_stream().synchronize(),
    "stream_query": lambda x: torch.ocl.current_stream().query(),
    "event_synchronize": lambda x: torch.ocl.current_stream().record_event().synchronize(),
    "event_query": lambda x: torch.ocl.current_stream().record_event().query(),
    "wait_outside": lambda x: torch.ocl.current_stream().wait_stream(torch.ocl.default_stream()),
    "default_stream": lambda x: torch.ocl.default_stream().wait_stream(torch.ocl.current_stream()),
    "nonzero": lambda x: x.nonzero(),
}


@pytest.mark.parametrize("accelerator", [False, True])
@pytest.mark.parametrize("name", REFUSED)
def test_what_waits_for_the_device_is_refused(device, name, accelerator):
    if accelerator and not hasattr(torch.accelerator, "Graph"):
        pytest.skip("this torch has no torch.accelerator.Graph")
    x = torch.ones(4, device=device)
    x.mul(3)
    with pytest.raises(RuntimeError, match="while a graph is captured"):
        if accelerator:
            with torch.ocl.stream(torch.ocl.Stream()), torch.accelerator.Graph():
                x.mul_(3)
                REFUSED[name](x)
        else:
            with torch.ocl.graph(torch.ocl.Graph()):
                x.mul_(3)
                REFUSED[name](x)
    # All is as before: nothing ran, nothing is captured, and the next capture works.
    assert not torch.ocl.is_current_stream_capturing()
    assert torch.ocl.current_stream() == torch.ocl.default_stream()
    assert x.tolist() == [1] * 4
    graph, _ = capture(lambda: x.mul_(3), warm_up=False)
    graph.replay()
    assert x.tolist() == [3] * 4


@pytest.mark.fallback_allowed
def test_operators_that_run_on_the_cpu_are_refused(device):
    x = torch.eye(3, device=device)
    with (
        pytest.raises(RuntimeError, match=r"run aten::.* on the CPU"),
        torch.ocl.graph(torch.ocl.Graph()),
    ):
        torch.linalg.eig(x)


def test_a_refusal_that_is_caught_ends_the_capture_all_the_same(device):
    x = torch.ones(4, device=device)
    graph = torch.ocl.Graph()
    with pytest.raises(RuntimeError, match=r"was not captured.*read a result"):  # noqa: SIM117
        with torch.ocl.graph(graph):
            with pytest.raises(RuntimeError):
                x.sum().item()
    with pytest.raises(RuntimeError, match="must be captured before"):
        graph.replay()
    assert x.sum().item() == 4


def test_capture_on_the_default_stream_is_refused(device):
    graph = torch.ocl.Graph()
    with pytest.raises(RuntimeError, match="default stream"):
        graph.capture_begin()
    assert torch.ones(2, device=device).sum().item() == 2


def test_errors_of_the_user_leave_the_stream_usable(device):
    graph = torch.ocl.Graph()
    with pytest.raises(KeyError), torch.ocl.graph(graph):
        torch.ones(3, device=device)
        raise KeyError
    assert not torch.ocl.is_current_stream_capturing()
    with torch.ocl.graph(graph):
        x = torch.ones(3, device=device) * 2
    graph.replay()
    assert x.tolist() == [2] * 3


# ---- streams


def test_streams_that_wait_for_a_captured_one_are_captured(device):
    x = torch.ones(1000, device=device)
    side = torch.ocl.Stream()
    assert not torch.ocl.is_current_stream_capturing()
    graph = torch.ocl.Graph()
    with torch.ocl.graph(graph):
        main = torch.ocl.current_stream()
        assert main.is_capturing() and torch.ocl.is_current_stream_capturing()
        y = x + 1
        side.wait_stream(main)
        with torch.ocl.stream(side):
            assert torch.ocl.is_current_stream_capturing()
            z = y * 2
        main.wait_stream(side)
        y.record_stream(side)
        result = z + y
        del y, z
        reused = torch.zeros(1000, device=device)
    assert not side.is_capturing()
    x.fill_(4)
    graph.replay()
    assert result.eq(15).all() and reused.eq(0).all()
    with torch.ocl.stream(side):
        assert torch.ones(3, device=device).sum().item() == 3


def test_events_of_a_capture_are_of_no_use_after_it(device):
    graph = torch.ocl.Graph()
    with torch.ocl.graph(graph):
        torch.ones(3, device=device)
        event = torch.ocl.current_stream().record_event()
    with pytest.raises(RuntimeError, match="part of the graph"):
        event.synchronize()
    with pytest.raises(RuntimeError, match="part of the graph"):
        torch.ocl.current_stream().wait_event(event)


def test_other_streams_run_during_a_capture(device):
    x, y = torch.zeros(4, device=device), torch.zeros(4, device=device)
    other = torch.ocl.Stream()
    graph = torch.ocl.Graph()
    with torch.ocl.graph(graph):
        x.add_(1)
        if other == torch.ocl.current_stream(device):  # the pool gives its streams out again
            other = torch.ocl.Stream()
        with torch.ocl.stream(other):
            assert y.add_(1).sum().item() == 4
    graph.replay()
    assert x.sum().item() == 4


# ---- interfaces


def test_accelerator_graph(device):
    if not hasattr(torch.accelerator, "Graph"):
        pytest.skip("this torch has no torch.accelerator.Graph")
    x = torch.zeros(4, device=device)
    graph = torch.accelerator.Graph()
    with torch.Stream(device=device), graph:
        y = x + 1
    x.fill_(5)
    graph.replay()
    assert y.tolist() == [6] * 4
    other = torch.accelerator.Graph(pool=graph.pool(), keep_graph=True)
    with torch.Stream(device=device), other:
        z = y * 2
    other.replay()
    assert z.tolist() == [12] * 4


def test_debug_dump_lists_the_commands(device, tmp_path):
    x = torch.zeros(4, device=device)
    graph, _ = capture(lambda: x.add_(1))
    graph.debug_dump(tmp_path / "graph.txt")
    lines = (tmp_path / "graph.txt").read_text().splitlines()
    assert len(lines) == len(graph) == 1
    assert lines[0].startswith("add")


@pytest.mark.parametrize("dropout", [0.0, 0.3])
def test_make_graphed_callables(device, dropout):
    models = [network(device), network(device)]
    head = nn.Dropout(dropout).to(device)
    x = torch.randn(6, 2, 8, 8, device=device)
    sample = torch.zeros_like(x)
    out = torch.zeros(6, 3, device=device, requires_grad=True)
    state = [each.clone() for each in models[1].state_dict().values()]
    body, tail = torch.ocl.make_graphed_callables(
        (models[1], lambda y: (head(y) * 2,)), ((sample,), (out,))
    )
    # The warm-up changed the statistics of batch normalisation.
    for each, value in zip(models[1].state_dict().values(), state, strict=True):
        each.data.copy_(value)
    for _ in range(3):
        seed = torch.initial_seed() + 1
        torch.manual_seed(seed)
        expected = head(models[0](x)) * 2
        expected.square().sum().backward()
        torch.manual_seed(seed)
        (actual,) = tail(body(x))
        actual.square().sum().backward()
        torch.testing.assert_close(actual, expected)
        for one, other in zip(models[0].parameters(), models[1].parameters(), strict=True):
            torch.testing.assert_close(other.grad, one.grad, rtol=1e-4, atol=1e-5)
            one.grad = other.grad = None


def test_graphed_attention_draws_the_same_mask_in_its_backward_pass(device):
    q = torch.randn(1, 2, 20, 16, device=device, requires_grad=True)
    graphed = torch.ocl.make_graphed_callables(attention, (torch.zeros_like(q).requires_grad_(),))
    gradients = []
    for function in (attention, graphed):
        torch.manual_seed(11)
        function(q)
        (gradient,) = torch.autograd.grad(function(q).square().sum(), q)
        gradients.append(gradient)
    torch.testing.assert_close(gradients[1], gradients[0], rtol=1e-4, atol=1e-5)


def test_without_opencl_nothing_is_captured():
    code = """
        import torch
        assert not torch.ocl.is_current_stream_capturing()
        assert not torch.ocl.is_initialized()
        assert torch.ocl.graph_pool_handle() != torch.ocl.graph_pool_handle()
    """
    assert run_python(code).returncode == 0
