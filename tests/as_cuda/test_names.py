"""Each public name of torch.cuda is answered, kept or refused with a reason."""

import importlib
import types

import pytest
import torch

from torch_ocl.as_cuda import answers, cuda_module, names

MODULES = """amp comm gds graphs green_contexts jiterator memory nccl nvtx profiler random sparse
streams tunable"""
# Names that PyTorch's modules import for their own use.
HELPERS = """
    Any Callable Device Literal NewType Optional ParamSpec Self Sequence Storage TYPE_CHECKING
    Tensor TypeAlias TypeVar Union Iterable annotations cast classproperty contextmanager
    deprecated dtype lru_cache overload signature"""


def public_names():
    """{"memory.name": value}; a name that torch.cuda has, too, is written without the module."""
    found = {}
    for module in ["", *MODULES.split()]:
        loaded = importlib.import_module(f"torch.cuda.{module}".rstrip("."))
        for name, value in vars(loaded).items():
            if name.startswith("_") or name in HELPERS.split():
                continue
            if isinstance(value, types.ModuleType) and name not in MODULES.split():
                continue
            key = name if not module or hasattr(torch.cuda, name) else f"{module}.{name}"
            found.setdefault(key, value)
    return found


def described():
    groups = [*names.KEPT, *names.REFUSED]
    tables = [names.OWN, *names.RENAMED, *groups]
    return [*cuda_module.shared(), *(name for table in tables for name in table.split())]


def test_each_name_is_described_once():
    rows = described()
    assert len(rows) == len(set(rows)), sorted({name for name in rows if rows.count(name) > 1})
    assert public_names().keys() - set(rows) == set()


@pytest.mark.parametrize("name", [n for group in names.REFUSED for n in group.split()])
def test_a_refusal_says_the_reason_and_what_to_do(name):
    value = cuda_module._own(name)
    if value is None:
        pytest.skip("another release of PyTorch has it")
    with pytest.raises(NotImplementedError, match=f'torch.cuda.{name}: here "cuda" means ocl'):
        value()


def test_ocl_answers():
    for name in cuda_module.shared():
        assert getattr(torch.cuda, name) is getattr(torch.ocl, name), name
    assert torch.cuda.CUDAGraph is torch.ocl.Graph
    assert torch.cuda.memory.memory_allocated is torch.ocl.memory_allocated
    assert torch.cuda.random.get_rng_state is torch.ocl.get_rng_state
    assert torch.cuda.streams.Stream is torch.cuda.Stream is torch.ocl.Stream


def test_what_programs_ask_first():
    assert torch.cuda.is_available() and torch.cuda.device_count() == torch.ocl.device_count()
    assert (
        torch.cuda.get_device_capability() == (8, 0) == torch.cuda.get_device_capability("cuda:0")
    )
    assert torch.cuda.is_bf16_supported() and not torch.cuda.is_tf32_supported()
    assert torch.cuda.get_arch_list() == [] and torch.cuda.get_gencode_flags() == ""
    free, total = torch.cuda.mem_get_info()
    assert 0 < free <= total
    assert torch.cuda.current_device() == 0 and torch.cuda.get_device_name(0)
    torch.cuda.init()
    assert torch.cuda.is_initialized()
    assert issubclass(torch.cuda.OutOfMemoryError, RuntimeError)


def test_pytorch_itself_sees_no_cuda():
    """Inductor would choose Triton, checkpoint CUDA's generators."""
    asked = {"__name__": "torch.anything", "torch": torch}
    exec("found = torch.cuda.is_available(), torch.backends.cuda.is_built()", asked)
    assert asked["found"] == (False, False)
    assert torch.backends.cuda.is_built()
    assert torch.accelerator.current_accelerator() == torch.device("cuda")


def test_properties():
    properties = torch.cuda.get_device_properties("cuda:0")
    assert (properties.major, properties.minor) == answers.CAPABILITY
    assert properties.total_memory > 0 and properties.multi_processor_count > 0
    assert properties.name == torch.cuda.get_device_name()
    assert properties.warp_size == 32 and properties.max_threads_per_block > 0
    with pytest.raises(AttributeError, match="whose devices do not tell it"):
        _ = properties.pci_bus_id
    assert torch.cuda.get_device_properties(torch.device("cuda")).name in repr(properties)


def test_memory_functions():
    x = torch.ones(1000, device="cuda")
    assert torch.cuda.memory_allocated("cuda:0") >= x.nbytes
    assert torch.cuda.max_memory_reserved(0) >= torch.cuda.memory_reserved() > 0
    torch.cuda.reset_peak_memory_stats()
    torch.cuda.empty_cache()
    torch.cuda.memory._set_allocator_settings("expandable_segments:True")
    torch.cuda.memory._record_memory_history()
    assert torch.cuda.memory._snapshot()["segments"]
    torch.cuda.memory._record_memory_history(enabled=None)
    with pytest.raises(NotImplementedError, match="OCL_MEMORY_CACHING=0"):
        torch.cuda.memory.caching_allocator_enable(False)


def test_nvtx_and_profilers_do_nothing():
    assert torch.cuda.nvtx.range_push("a") == 0 and torch.cuda.nvtx.range_push("b") == 1
    assert torch.cuda.nvtx.range_pop() == 1 and torch.cuda.nvtx.range_pop() == 0
    torch.cuda.nvtx.mark("c")
    with torch.cuda.nvtx.range("d"), torch.cuda.profiler.profile():
        torch.cuda.nvtx.range_end(torch.cuda.nvtx.range_start("e"))


def test_streams_and_events():
    side = torch.cuda.Stream(device="cuda:0")
    x = torch.ones(3, device="cuda")
    start, end = (torch.cuda.Event(enable_timing=True) for _ in range(2))
    start.record()
    side.wait_stream(torch.cuda.current_stream())
    with torch.cuda.stream(side):
        assert torch.cuda.current_stream() == side
        y = x + 1
        y.record_stream(side)
    torch.cuda.current_stream().wait_stream(side)
    end.record()
    torch.cuda.synchronize()
    assert y.tolist() == [2, 2, 2] and start.elapsed_time(end) >= 0
    assert isinstance(torch.Stream("cuda"), torch.cuda.Stream)
    assert isinstance(torch.Event("cuda"), torch.cuda.Event)
    assert not torch.cuda.default_stream().query() or torch.cuda.default_stream().query()
    with pytest.raises(NotImplementedError, match=r"torch.ocl.queue\(stream\)"):
        _ = side.cuda_stream


def test_graphs():
    model = torch.nn.Linear(4, 4).cuda()
    x = torch.ones(2, 4, device="cuda")
    with torch.no_grad():
        model(x)
        captured = torch.cuda.CUDAGraph()
        with torch.cuda.graph(cuda_graph=captured, pool=torch.cuda.graph_pool_handle()):
            y = model(x)
        x.fill_(2)
        captured.replay()
        torch.testing.assert_close(y, model(x))
    assert not torch.cuda.is_current_stream_capturing()
    callable = torch.cuda.make_graphed_callables(model, (x.clone().requires_grad_(),))
    callable(x.requires_grad_()).sum().backward()
    assert x.grad.is_cuda


def test_generators():
    generator = torch.Generator("cuda").manual_seed(3)
    assert isinstance(generator, torch.Generator) and generator.device == torch.device("cuda:0")
    a = torch.rand(4, device="cuda", generator=generator)
    b = torch.rand(4, device="cuda", generator=torch.Generator(device="cuda:0").manual_seed(3))
    assert torch.equal(a, b)
    torch.cuda.manual_seed_all(5)
    c = torch.rand(4, device="cuda")
    torch.manual_seed(5)
    assert torch.equal(c, torch.rand(4, device="cuda"))
    assert torch.cuda.default_generators[0].device.type == "cuda"
    state = torch.cuda.get_rng_state("cuda")
    d = torch.rand(4, device="cuda")
    torch.cuda.set_rng_state(state, "cuda:0")
    assert torch.equal(d, torch.rand(4, device="cuda"))


def test_backends():
    torch.backends.cudnn.benchmark = torch.backends.cudnn.deterministic = True
    torch.backends.cuda.matmul.allow_tf32 = torch.backends.cudnn.allow_tf32 = True
    torch.backends.cuda.matmul.allow_fp16_reduced_precision_reduction = False
    with torch.backends.cuda.sdp_kernel(enable_flash=False):
        pass
    torch.backends.cuda.enable_flash_sdp(True)
    assert torch.backends.cuda.flash_sdp_enabled()
    torch.backends.cuda.cufft_plan_cache.max_size = 4
    torch.backends.cuda.cufft_plan_cache[0].clear()
    torch.backends.cuda.preferred_linalg_library("default")
    assert torch.backends.cudnn.version() is None
    with pytest.raises(NotImplementedError, match="workspaces"):
        torch.backends.cuda.cublas_workspace_size()


def test_communication():
    from torch.cuda import comm

    (copy,) = comm.broadcast(torch.ones(2), devices=[0])
    assert copy.is_cuda and comm.gather([copy], destination="cpu").tolist() == [1, 1]
    assert comm.reduce_add([copy], 0).is_cuda
    assert torch.cuda._utils._get_device_index("cuda:0") == 0
