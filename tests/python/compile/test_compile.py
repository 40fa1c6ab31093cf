"""torch.compile on ocl: the results of eager mode, in one graph and without a CPU kernel."""

import pytest
import torch
import torch.nn.functional as F
from models import BasicBlock, train_step, transformer_layer
from support import output_of
from torch import nn

pytestmark = pytest.mark.usefixtures("fresh_compiler")

BACKENDS = ["eager", "aot_eager", "inductor"]

# Text that Inductor writes into programs with kernels in C++ and Triton.
OWN_KERNELS = ["cpp_fused", "async_compile.cpp", "async_compile.triton"]


def run(function, *args, backend="inductor", **options):
    """The result of the compiled function, and Inductor's programs."""
    from torch._dynamo.utils import counters
    from torch._inductor.utils import run_and_get_code

    counters.clear()
    compiled = torch.compile(function, backend=backend, fullgraph=True, **options)
    result, programs = run_and_get_code(compiled, *args)
    assert not counters["graph_break"]
    assert bool(programs) == (backend == "inductor")
    for program in programs:
        assert not any(own in program for own in OWN_KERNELS), program
    return result, programs


def check(function, *args, **options):
    """Compares with eager mode: the same kernels run, from the same seed."""
    torch.manual_seed(5)
    expected = function(*args)
    torch.manual_seed(5)
    result, _ = run(function, *args, **options)
    torch.testing.assert_close(result, expected, rtol=1e-5, atol=1e-5)
    flat = [torch.utils._pytree.tree_leaves(r) for r in (result, expected)]
    for actual, wanted in zip(*flat):
        assert actual.stride() == wanted.stride() and actual.device == wanted.device


def arithmetic(x):
    return (x.sin() * 2 + 1).relu(), x.half() + 1, torch.where(x > 0, x, 0.0), x.lerp(x * x, 0.3)


def reductions(x):
    return x.sum(0), x.softmax(-1), x.var(1), x.argmax(-1), x.amax((0, 1))


def views(x):
    parts = x.chunk(2, 1)
    y = x.t()[1:].unsqueeze(0).expand(2, -1, -1).reshape(-1)
    return y, x[::2, 1::3], x.permute(1, 0).contiguous(), x.unfold(1, 4, 2), parts[1] + 1


def in_place(x):
    y = x.clone()
    y.add_(1)
    y[1:3] = 0
    y[:, 2].mul_(3)
    y.t().sub_(1)
    y[0, :2].copy_(y[1, 2:4])
    return y, y[0]


def constants(x):
    device = x.device
    columns = x[:, :3] * torch.tensor([1.0, 2.0, 3.0], device=device) + torch.tensor(2.0)
    made = torch.full((3,), 2.0, device=device), torch.arange(5, device=device)
    return columns, *made, torch.zeros_like(x), torch.tensor([1, 2], device=device)


def indexing(x):
    rows = torch.arange(3, device=x.device)
    y = x.index_put((rows,), torch.ones((), device=x.device), accumulate=True)
    z = torch.zeros_like(x).scatter_add(0, rows[:, None].expand(3, 16), x[:3])
    return x[rows], x.gather(1, rows.expand(8, 3)), x.masked_fill(x > 0, 1), y, z


def joined(x):
    """Inductor has shorter forms for such pairs, which leave it a copy to make."""
    y = torch.cat([x, x * 2], 1)
    return torch.cat([y, y[:, :7]], 1), torch.cat(x.split([4, 12], 1), 1), torch.stack([x, x])


def through_the_cpu(x):
    return x.cpu().add(1).to(x.device)


@pytest.mark.parametrize("backend", BACKENDS)
@pytest.mark.parametrize(
    "function",
    [
        pytest.param(arithmetic, marks=pytest.mark.sample),
        reductions,
        views,
        in_place,
        constants,
        indexing,
        joined,
        through_the_cpu,
    ],
)
def test_operators(device, function, backend):
    check(function, torch.randn(8, 16, device=device), backend=backend)


@pytest.mark.parametrize("backend", BACKENDS)
def test_random_numbers_are_those_of_eager_mode(device, backend):
    def numbers(x):
        size = (3, 5)
        made = torch.rand(size, device=device), torch.randn(size, device=device)
        return *made, torch.randint(2, 9, size, device=device), torch.rand_like(x), x.bernoulli()

    check(numbers, torch.rand(8, 16, device=device), backend=backend)


@pytest.mark.parametrize("backend", BACKENDS)
def test_inputs_are_changed(device, backend):
    def change(x, y):
        x.add_(y)
        y.t()[1:].zero_()
        return x.view(-1)[:4]

    results = []
    for compiled in (change, lambda *inputs: run(change, *inputs, backend=backend)[0]):
        inputs = [torch.arange(12.0, device=device).view(3, 4) + n for n in range(2)]
        results.append((*inputs, compiled(*inputs)))
        assert results[-1][2].data_ptr() == inputs[0].data_ptr()
    torch.testing.assert_close(*results, rtol=0, atol=0)


def test_a_cpu_scalar_beside_ocl_tensors(device):
    check(lambda x, scale: x * scale + 1, torch.randn(4, device=device), torch.tensor(3.0))


def test_views_of_inputs(device):
    check(lambda x: x.sin().t() + 1, torch.randn(9, 6, device=device)[1:, ::2].t())


@pytest.mark.parametrize("backend", BACKENDS)
def test_dynamic_shapes(device, backend):
    from torch._dynamo.utils import counters

    def function(x, w):
        y = x @ w
        return y[: x.shape[0] // 2] / x.shape[0], F.pad(y, (1, 1)), y.new_full((x.shape[0],), 2)

    w = torch.randn(6, 5, device=device)
    x = torch.randn(8, 6, device=device)
    check(function, x, w, backend=backend, dynamic=True)
    compiled = torch.compile(function, backend=backend, fullgraph=True, dynamic=True)
    for rows in (8, 5, 13):
        x = torch.randn(rows, 6, device=device)
        torch.testing.assert_close(compiled(x, w), function(x, w), rtol=1e-5, atol=1e-5)
    assert counters["stats"]["unique_graphs"] == 1, "one graph for all sizes"


def mlp():
    return nn.Sequential(nn.Linear(16, 32), nn.GELU(), nn.Dropout(0.3), nn.Linear(32, 4))


def cnn():
    """With normalisation, whose running statistics are changed in place."""
    pooled = nn.MaxPool2d(2), nn.AdaptiveAvgPool2d(1), nn.Flatten()
    return nn.Sequential(BasicBlock(3, 8, 2), *pooled, nn.Linear(8, 4))


def encoder():
    return nn.Sequential(transformer_layer(16, 2, dropout=0.1), nn.Flatten(), nn.Linear(80, 4))


NETWORKS = [
    pytest.param(mlp, (6, 16), marks=pytest.mark.sample),
    (cnn, (6, 3, 12, 12)),
    (encoder, (6, 5, 16)),
]


@pytest.mark.parametrize("backend", BACKENDS)
@pytest.mark.parametrize("network, shape", NETWORKS)
def test_training(device, network, shape, backend):
    """Two steps leave the same weights and buffers as in eager mode, dropout included."""
    x, target = torch.randn(shape, device=device), torch.arange(6, device=device) % 4
    states = []
    for compiled in (False, True):
        torch.manual_seed(1)
        model = network().to(device)
        optimizer = torch.optim.SGD(model.parameters(), lr=0.1)

        def step(model, optimizer=optimizer):
            return train_step(model, optimizer, x, target, F.cross_entropy)

        if compiled:
            fast = torch.compile(model, backend=backend, fullgraph=True)
            losses = [run_programs(step, fast, backend), step(fast)]
        else:
            losses = [step(model), step(model)]
        states.append([*losses, *model.state_dict().values()])
    torch.testing.assert_close(*states, rtol=1e-4, atol=1e-5)


def run_programs(step, model, backend):
    """The first step, in which forward and backward are compiled."""
    from torch._dynamo.utils import counters
    from torch._inductor.utils import run_and_get_code

    counters.clear()
    loss, programs = run_and_get_code(step, model)
    assert not counters["graph_break"]
    assert len(programs) == (2 if backend == "inductor" else 0)
    for program in programs:
        assert not any(own in program for own in OWN_KERNELS), program
    return loss


def test_operators_with_fast_kernels_are_not_taken_apart(device):
    def function(x, w):
        y = F.conv2d(x, w).relu()
        y = F.max_pool2d(y, 2).flatten(2)[None]
        return F.scaled_dot_product_attention(y, y, y) + 1

    x, w = torch.randn(2, 3, 9, 9, device=device), torch.randn(4, 3, 2, 2, device=device)
    _, (program,) = run(function, x, w)
    calls = [line for line in program.splitlines() if "= torch.ops.aten." in line]
    calls += [line for line in program.splitlines() if "extern_kernels." in line and "=" in line]
    names = sorted(line.split("(")[0].split(".")[-2 if "aten" in line else -1] for line in calls)
    attention = "_scaled_dot_product_fused_attention_overrideable"
    assert names == [attention, "convolution", "max_pool2d_with_indices"]


@pytest.mark.parametrize("optimizer", ["SGD", "AdamW"])
def test_compiled_optimizer(device, optimizer):
    """Foreach operators in place."""
    weights = []
    for compiled in (False, True):
        parameters = [nn.Parameter(torch.ones(3, 4, device=device)) for _ in range(3)]
        for parameter in parameters:
            parameter.grad = torch.full_like(parameter, 0.5)
        step = getattr(torch.optim, optimizer)(parameters, lr=0.1, foreach=True).step
        step = torch.compile(step) if compiled else step
        step()
        step()
        weights.append(parameters)
    torch.testing.assert_close(*weights)


def test_the_current_stream_in_a_compiled_function(device):
    def function(x):
        stream = torch.ocl.current_stream(device)
        return x + 1 if stream is not None else x

    x = torch.ones(4, device=device)
    assert torch.equal(torch.compile(function, fullgraph=True)(x), x + 1)


def test_another_current_device(two_devices):
    def function(x):
        y = torch.cat([x, x * 2], 1)
        return torch.cat([y, y[:, :3]], 1), torch.ones(3, device=x.device), torch.rand_like(x)

    for current, other in (two_devices, two_devices[::-1]):
        with torch.ocl.device(current):
            check(function, torch.randn(4, 4, device=other))
            assert torch.ocl.current_device() == torch.device(current).index


def test_both_devices_in_one_graph(two_devices):
    first, second = two_devices
    check(lambda x: (x + 1).to(second) * 2, torch.randn(4, device=first))


LOWERED = """
    import torch
    from torch._inductor.compile_fx import compile_fx, record_original_output_strides
    from torch._inductor.graph import GraphLowering
    from torch._inductor.virtualized import V

    def lower(graph_module, inputs, **options):
        print(graph_module.code)
        record_original_output_strides(graph_module)
        lowering = GraphLowering(graph_module, inputs)
        with V.set_graph_handler(lowering):
            lowering.run(*inputs)
        print([type(operation).__name__ for operation in lowering.operations])
        return graph_module.forward

    def backend(graph_module, inputs):
        return compile_fx(graph_module, inputs, inner_compile=lower)

    def function(x):
        return torch.rand_like(x) + torch.randn(8, 16) + torch.nn.functional.gelu(x).softmax(-1)

    torch.compile(function, backend=backend)(torch.ones(8, 16))
"""


def test_cpu_graphs_are_lowered_as_before():
    with_ocl = output_of(LOWERED)
    assert "inductor_random" in with_ocl and "aten.exp" in with_ocl
    assert "ComputedBuffer" in with_ocl and "FallbackKernel" not in with_ocl
    assert with_ocl == output_of(LOWERED, TORCH_DEVICE_BACKEND_AUTOLOAD="0")


CACHED = """
    import torch
    from torch._dynamo.utils import counters
    x = torch.arange(6.0, device="ocl").requires_grad_()
    (torch.compile(lambda x: x.sin() * 2, fullgraph=True)(x)).sum().backward()
    torch.testing.assert_close(x.grad, x.detach().cos() * 2)
    cache = counters["aot_autograd"]
    print(cache["autograd_cache_hit"], cache["autograd_cache_miss"])
"""


def test_another_process_uses_the_cache(device, tmp_path):
    variables = {"TORCHINDUCTOR_CACHE_DIR": str(tmp_path / "cache"), "OCL_FALLBACK": "error"}
    assert [output_of(CACHED, **variables) for _ in range(2)] == ["0 1", "1 0"]


def test_nothing_is_imported_or_started_early():
    code = """
        import sys, torch
        compilers = "torch._dynamo", "torch._inductor", "torch.fx.experimental.symbolic_shapes"
        compilers = [name for name in compilers if name in sys.modules]
        import torch._inductor.compile_fx
        from torch._dynamo.device_interface import get_interface_for_device
        from torch._inductor.async_compile import caching_device_properties
        interface = get_interface_for_device("ocl")
        caching_device_properties()
        print(compilers, interface.__name__, torch.ocl.is_initialized())
    """
    assert output_of(code) == "[] OclInterface False"


def test_imported_before_the_plugin():
    code = """
        import torch, torch._inductor.compile_fx, torch_ocl
        from torch._dynamo.device_interface import get_interface_for_device
        from torch._inductor.codegen.common import get_scheduling_for_device
        print(get_interface_for_device("ocl").__name__, get_scheduling_for_device("ocl").__name__)
    """
    off = {"TORCH_DEVICE_BACKEND_AUTOLOAD": "0"}
    assert output_of(code, **off) == "OclInterface OclScheduling"


def test_device_interface(device):
    from torch._dynamo.device_interface import get_interface_for_device
    from torch._inductor.runtime.hints import DeviceProperties

    interface = get_interface_for_device(device)
    assert interface is get_interface_for_device("ocl")
    properties = DeviceProperties.create(torch.device(device))
    own = torch.ocl.get_device_properties(device)
    assert properties.multi_processor_count == own.max_compute_units
    assert properties.max_threads_per_block == own.max_work_group_size
    assert interface.get_compute_capability(device).endswith(own.name)
    previous = interface.exchange_device(torch.device(device).index)
    assert interface.maybe_exchange_device(previous) == torch.device(device).index


def test_properties_in_a_fork(device):
    """Compile workers may be forks of a process that has used OpenCL."""
    code = """
        import os, torch
        from torch._dynamo.device_interface import get_interface_for_device
        torch.ones(1, device="ocl")
        interface = get_interface_for_device("ocl")
        expected = interface.Worker.get_device_properties()
        if (child := os.fork()) == 0:
            interface.Worker.set_device(0)
            os._exit(interface.Worker.get_device_properties() != expected)
        print(os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]))
    """
    assert output_of(code) == "0"


def test_softmax_multiplies_by_the_inverse_sum(device):
    """A row has one division, not one for each element."""
    x = torch.randn(7, 300)
    actual, (program,) = run(lambda x: (x * 2).softmax(-1), x.to(device))
    assert "inverse_" in program
    torch.testing.assert_close(actual.cpu(), (x * 2).softmax(-1))
