"""Tensors, storages and modules, made and moved by the word cuda."""

import pickle

import pytest
import torch

from torch_ocl.as_cuda import functions


def test_all_functions_with_a_device_are_known():
    """Factory functions in PyTorch's schemas, without names that begin with an underscore."""
    with_device = set()
    for name in dir(torch._C._VariableFunctions):
        packet = getattr(torch.ops.aten, name, None)
        for overload in packet.overloads() if hasattr(packet, "overloads") else ():
            schema = getattr(packet, overload)._schema
            if not name.startswith("_") and "device" in [a.name for a in schema.arguments]:
                with_device.add(name)
    known = functions.FACTORIES[torch].split()
    assert with_device - set(known) == set()
    for name in known:
        assert type(getattr(torch, name)) is functions.Function, name


@pytest.mark.parametrize(
    "make",
    [
        lambda d: torch.empty(2, device=d),
        lambda d: torch.tensor([1, 2], device=d),
        lambda d: torch.as_tensor([1, 2], device=d),
        lambda d: torch.asarray([1, 2], device=d),
        lambda d: torch.arange(3, device=d),
        lambda d: torch.randn(2, device=d),
        lambda d: torch.randint(3, (2,), device=d),
        lambda d: torch.randperm(3, device=d),
        lambda d: torch.full((2,), 1.0, device=d),
        lambda d: torch.zeros_like(torch.ones(2), device=d),
        lambda d: torch.eye(2, device=d),
        lambda d: torch.hann_window(4, device=d),
        lambda d: torch.normal(0.0, 1.0, (2,), device=d),
        lambda d: torch.sparse_coo_tensor([[0]], [1.0], (2,), device=d),
        lambda d: torch.fft.fftfreq(4, device=d),
        lambda d: torch.signal.windows.hann(4, device=d),
        lambda d: torch.nested.nested_tensor([torch.ones(2)], device=d),
        lambda d: torch.ones(2).to(d),
        lambda d: torch.ones(2).to(device=d, dtype=torch.float16),
        lambda d: torch.ones(2).new_zeros(2, device=d),
        lambda d: torch.ones(2).new_tensor([1], device=d),
        lambda d: torch.ones(2).to(torch.ones(1, device=d)),
        lambda d: torch.nn.Linear(2, 2, device=d).weight,
        lambda d: torch.nn.Linear(2, 2).to(d).weight,
        lambda d: torch.nn.Linear(2, 2).to(device=d, dtype=torch.float16).weight,
        lambda d: torch.nn.Linear(2, 2, device="meta").to_empty(device=d).weight,
        lambda d: torch.nn.utils.rnn.pack_sequence([torch.ones(2)]).to(d).data,
        lambda d: torch.ops.aten.empty([2], device=d),
        lambda d: torch.ops.aten.zeros([2], device=torch.device(d)),
    ],
)
@pytest.mark.parametrize("device", ["cuda", "cuda:0"])
def test_made_on_the_device(make, device):
    x = make(device)
    assert x.is_cuda and x.is_ocl and x.device.type == "cuda" and x.get_device() == 0


def test_numbers_are_devices():
    assert torch.ones(2, device=0).is_cuda and torch.tensor([1], device=0).is_cuda
    assert torch.ones(2).to(0).is_cuda and torch.ones(2).cuda(0).is_cuda


def test_cuda():
    x = torch.ones(2)
    for moved in (
        x.cuda(),
        x.cuda("cuda:0"),
        x.cuda(torch.device("cuda")),
        x.cuda(non_blocking=True),
    ):
        assert moved.is_cuda and moved.cuda() is moved
    model = torch.nn.Linear(2, 2).cuda()
    assert next(model.parameters()).is_cuda and model.cuda(0) is model
    assert not model.cpu().weight.is_cuda
    packed = torch.nn.utils.rnn.pack_sequence([torch.ones(2, 1)]).cuda()
    assert packed.is_cuda


def test_types():
    x = torch.ones(2, device="cuda")
    assert x.type() == "torch.cuda.FloatTensor" and isinstance(x, torch.cuda.FloatTensor)
    assert torch.ones(2).type("torch.cuda.HalfTensor").dtype == torch.float16
    assert torch.ones(2).type(torch.cuda.IntTensor).is_cuda
    assert torch.cuda.LongTensor([1, 2]).is_cuda and torch.cuda.FloatTensor(2, 3).shape == (2, 3)
    assert torch.cuda.FloatTensor.is_cuda and x.double().type() == "torch.cuda.DoubleTensor"
    try:
        torch.set_default_tensor_type("torch.cuda.FloatTensor")
        assert torch.ones(1).is_cuda
    finally:
        torch.set_default_tensor_type(torch.FloatTensor)


def test_storages():
    storage = torch.ones(2, device="cuda").untyped_storage()
    assert storage.is_cuda and storage.device.type == "cuda" and not storage.cpu().is_cuda
    assert storage.cpu().cuda().is_cuda and torch.UntypedStorage(4, device="cuda").is_cuda
    assert torch.cuda.FloatStorage(2).is_cuda


def test_pinned_memory():
    x = torch.ones(4).pin_memory("cuda")
    assert x.is_pinned() and x.is_pinned("cuda") and not torch.ones(4).is_pinned()
    data = torch.utils.data.TensorDataset(torch.arange(4.0))
    loader = torch.utils.data.DataLoader(data, 2, pin_memory=True, pin_memory_device="cuda")
    assert [batch[0].is_pinned() for batch in loader] == [True, True]


def test_functions_are_equal_to_pytorchs_own():
    """PyTorch gives __torch_function__ the function in C."""
    calls = []

    class Watched(torch.Tensor):
        @classmethod
        def __torch_function__(cls, function, types, args=(), kwargs=None):
            table = {torch.zeros_like: "zeros_like", torch.Tensor.to: "to"}
            calls.append(table.get(function))
            return super().__torch_function__(function, types, args, kwargs or {})

    x = torch.ones(2).as_subclass(Watched)
    torch.zeros_like(x, device="cuda")
    x.to("cuda")
    assert calls == ["zeros_like", "to"]
    assert pickle.loads(pickle.dumps(torch.zeros)) is torch.zeros


def test_torchscript():
    @torch.jit.script
    def made(x):
        return torch.zeros(2, device="cuda") + torch.ones_like(x)

    assert made(torch.ones(2, device="cuda")).is_cuda


def test_data_parallel():
    model = torch.nn.DataParallel(torch.nn.Linear(2, 2).cuda(), device_ids=[0])
    assert model(torch.ones(3, 2).cuda()).is_cuda


def test_wrong_uses_are_errors():
    with pytest.raises(RuntimeError):
        torch.ones(2, device="cuda") + torch.ones(2)
    with pytest.raises(TypeError, match="can't convert"):
        torch.ones(2, device="cuda").numpy()
