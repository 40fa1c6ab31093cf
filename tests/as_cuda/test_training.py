"""Mixed precision, compiled programs, the profiler, checkpoints and operators of programs."""

import io
import pickle
import zipfile

import pytest
import torch


@pytest.mark.parametrize(
    "autocast",
    [
        lambda: torch.autocast("cuda"),
        lambda: torch.autocast(device_type="cuda", dtype=torch.float16),
        lambda: torch.amp.autocast("cuda"),
        lambda: torch.cuda.amp.autocast(),
        lambda: torch.autocast(torch.ones(1, device="cuda").device.type),
    ],
)
@pytest.mark.filterwarnings("ignore:.*deprecated:FutureWarning")
def test_autocast(autocast):
    a = torch.ones(2, 2, device="cuda")
    with autocast():
        assert torch.is_autocast_enabled("cuda") and torch.is_autocast_enabled()
        assert torch.get_autocast_dtype("cuda") == torch.get_autocast_gpu_dtype() == torch.float16
        assert (a @ a).dtype == torch.float16
    assert not torch.is_autocast_enabled("cuda") and not torch.is_autocast_enabled()
    assert torch.amp.is_autocast_available("cuda")


def test_autocast_state():
    torch.set_autocast_enabled("cuda", True)
    torch.set_autocast_gpu_dtype(torch.bfloat16)
    try:
        assert torch.is_autocast_enabled() and torch.get_autocast_dtype("cuda") == torch.bfloat16
    finally:
        torch.set_autocast_dtype("cuda", torch.float16)
        torch.set_autocast_enabled(False)
    assert not torch.is_autocast_enabled("cuda")


@pytest.mark.filterwarnings("ignore:.*deprecated:FutureWarning")
def test_custom_functions():
    class Scale(torch.autograd.Function):
        @staticmethod
        @torch.amp.custom_fwd(device_type="cuda", cast_inputs=torch.float32)
        def forward(ctx, x):
            assert not torch.is_autocast_enabled("cuda")
            return x * 2

        @staticmethod
        @torch.cuda.amp.custom_bwd
        def backward(ctx, gradient):
            return gradient * 2

    x = torch.ones(2, device="cuda", dtype=torch.float16, requires_grad=True)
    with torch.autocast("cuda"):
        y = Scale.apply(x)
    y.sum().backward()
    assert y.dtype == torch.float32 and x.grad.tolist() == [2, 2]


@pytest.mark.filterwarnings("ignore:.*deprecated:FutureWarning")
@pytest.mark.parametrize(
    "make",
    [
        lambda: torch.amp.GradScaler("cuda"),
        lambda: torch.amp.GradScaler(),
        lambda: torch.GradScaler(device="cuda", init_scale=2.0**16),
        lambda: torch.cuda.amp.GradScaler(),
    ],
)
def test_scaler(make):
    model = torch.nn.Linear(4, 1).cuda()
    optimizer, scaler = torch.optim.SGD(model.parameters(), 0.1), make()
    before = model.weight.detach().clone()
    with torch.autocast("cuda", torch.float16):
        loss = model(torch.ones(2, 4, device="cuda")).float().mean() / 4
    scaler.scale(loss).backward()
    assert scaler.get_scale() == 2.0**16 and model.weight.grad.abs().max() > 1000
    scaler.step(optimizer)
    scaler.update()
    torch.testing.assert_close(model.weight, before - 0.025)


def test_an_overflow_skips_the_step():
    x = torch.ones(2, device="cuda", requires_grad=True)
    optimizer, scaler = torch.optim.SGD([x], 0.1), torch.amp.GradScaler("cuda")
    scaler.scale(x.sum() * float("inf")).backward()
    scaler.step(optimizer)
    scaler.update()
    assert x.tolist() == [1, 1] and scaler.get_scale() == 2.0**15


def test_checkpoints_name_cuda(tmp_path):
    model = torch.nn.Linear(2, 2).cuda()
    torch.save({"model": model.state_dict(), "device": torch.device("cuda")}, tmp_path / "x.pt")
    with zipfile.ZipFile(tmp_path / "x.pt") as file:
        (name,) = [each for each in file.namelist() if each.endswith("data.pkl")]
        text = file.read(name)
    assert b"cuda:0" in text and b"ocl" not in text
    for where, expected in [
        (None, True),
        ("cuda", True),
        ("cuda:0", True),
        (torch.device("cuda:0"), True),
        ({"cuda:0": "cpu"}, False),
        ("cpu", False),
        (lambda storage, location: storage.cuda(), True),
    ]:
        loaded = torch.load(tmp_path / "x.pt", map_location=where)
        assert loaded["model"]["weight"].is_cuda == expected, where
        torch.testing.assert_close(loaded["model"]["weight"].cpu(), model.weight.cpu().detach())
    assert loaded["device"] == torch.device("cuda")


def test_a_checkpoint_of_a_device_that_is_not_here():
    storage = torch.UntypedStorage(4)
    with pytest.raises(RuntimeError, match='"cuda:7", but there'):
        torch.serialization.default_restore_location(storage, "cuda:7")


def test_whole_modules_in_pickles():
    model = torch.nn.Sequential(torch.nn.Linear(2, 2), torch.nn.ReLU()).cuda()
    buffer = io.BytesIO()
    torch.save(model, buffer)
    buffer.seek(0)
    assert torch.load(buffer, weights_only=False)[0].weight.is_cuda
    assert pickle.loads(pickle.dumps(model.state_dict()))["0.weight"].is_cuda


def test_profiler():
    from torch.profiler import ProfilerActivity, profile

    assert ProfilerActivity.CUDA in torch.profiler.supported_activities()
    x = torch.ones(64, 64, device="cuda")
    with profile(activities=[ProfilerActivity.CPU, ProfilerActivity.CUDA]) as profiler:
        (x @ x).sum().item()
    averages = profiler.key_averages()
    assert sum(event.self_device_time_total for event in averages) > 0
    averages.table(sort_by="cuda_time_total", row_limit=3)


@pytest.mark.parametrize("backend", ["eager", "inductor"])
def test_compiled(backend):
    @torch.compile(backend=backend, fullgraph=True)
    def compiled(x):
        scale = 2 if x.device.type == "cuda" and x.is_cuda else 3
        available = torch.cuda.is_available()
        with torch.autocast("cuda", enabled=False):
            y = (x * scale + torch.ones(4, device="cuda")).relu()
        return y.to("cuda") + torch.arange(4, device=x.device) + (1 if available else 100)

    x = torch.linspace(-1, 1, 4, device="cuda")
    expected = (x * 2 + 1).relu() + torch.arange(4, device="cuda") + 1
    torch.testing.assert_close(compiled(x), expected)
    assert str(compiled(x).device) == "cuda:0"


def test_compiled_training():
    model = torch.nn.Sequential(
        torch.nn.Linear(8, 8), torch.nn.GELU(), torch.nn.Linear(8, 1)
    ).cuda()
    x = torch.randn(4, 8, device="cuda")
    wanted = torch.autograd.grad(model(x).sum(), model.parameters())
    compiled = torch.compile(model, mode="reduce-overhead")
    for _ in range(3):
        gradients = torch.autograd.grad(compiled(x).sum(), model.parameters())
    torch.testing.assert_close(gradients, wanted)


def test_recomputation():
    from torch.utils.checkpoint import checkpoint

    layer = torch.nn.Dropout(0.5)
    x = torch.ones(64, device="cuda", requires_grad=True)
    y = checkpoint(lambda x: layer(x) * x, x, use_reentrant=False)
    y.sum().backward()
    assert torch.equal(x.grad, y.detach() * 2)


def test_operators_of_the_program():
    library = torch.library.Library("as_cuda_test", "FRAGMENT")
    library.define("double(Tensor x) -> Tensor")
    library.impl("double", lambda x: x * 2, "CUDA")
    x = torch.ones(2, device="cuda")
    assert torch.ops.as_cuda_test.double(x).tolist() == [2, 2]

    torch.library.define("as_cuda_test::triple", "(Tensor x) -> Tensor")
    torch.library.impl("as_cuda_test::triple", "cuda", lambda x: x * 3)
    assert torch.ops.as_cuda_test.triple(x).tolist() == [3, 3]

    @torch.library.custom_op("as_cuda_test::add", mutates_args=(), device_types="cpu")
    def add(x: torch.Tensor, y: float) -> torch.Tensor:
        raise AssertionError("the kernel of the CPU")

    @add.register_kernel("cuda")
    def _(x, y):
        return x + y

    @add.register_fake
    def _(x, y):
        return torch.empty_like(x)

    assert add(x, 2.0).tolist() == [3, 3]
    assert torch.compile(add, backend="eager")(x, 1.0).tolist() == [2, 2]


def test_flex_attention_and_dlpack():
    from torch.nn.attention.flex_attention import flex_attention

    q = torch.randn(1, 1, 4, 8, device="cuda")
    assert flex_attention(q, q, q).is_cuda
    assert torch.from_dlpack(q).is_cuda


def test_kernels_in_cuda_are_refused():
    from torch.utils import cpp_extension

    for call in (
        lambda: cpp_extension.load("x", ["x.cpp", "x.cu"]),
        lambda: cpp_extension.load_inline("x", "", cuda_sources="__global__ void f() {}"),
        lambda: cpp_extension.CUDAExtension("x", ["x.cu"]),
        lambda: torch.cuda.jiterator._create_jit_fn("template <typename T> T f(T x) { return x; }"),
    ):
        with pytest.raises(NotImplementedError, match=r"torch\.ocl\.compile_kernel"):
            call()


def test_memory_of_processes_is_refused():
    from multiprocessing.reduction import ForkingPickler

    with pytest.raises(RuntimeError, match="cannot be sent to another process"):
        ForkingPickler.dumps(torch.ones(2, device="cuda"))
