"""torch.device and what programs ask of it."""

import copy
import pickle

import pytest
import torch

INTERNAL = {"__name__": "torch.anything", "torch": torch}


def seen_by_pytorch(expression, **values):
    return eval(expression, {**INTERNAL, **values})


@pytest.mark.parametrize(
    ("made", "name"),
    [
        (lambda: torch.device("cuda"), "cuda"),
        (lambda: torch.device("cuda:0"), "cuda:0"),
        (lambda: torch.device("cuda", 0), "cuda:0"),
        (lambda: torch.device(type="cuda", index=0), "cuda:0"),
        (lambda: torch.device(0), "cuda:0"),
        (lambda: torch.device(torch.device("cuda:0")), "cuda:0"),
        (lambda: torch.ones(1, device="cuda").device, "cuda:0"),
    ],
)
def test_a_program_reads_cuda(made, name):
    device = made()
    assert device.type == "cuda" and str(device) == f"{device}" == name
    assert device == torch.device(name) and hash(device) == hash(torch.device(name))
    assert "type='cuda'" in repr(device) and isinstance(device, torch.device)
    assert eval(repr(device), {"device": torch.device}) == device
    assert torch.device(device.type) == torch.device("cuda")


def test_pytorch_reads_ocl():
    device = torch.device("cuda:0")
    assert seen_by_pytorch("device.type", device=device) == "ocl"
    assert seen_by_pytorch("str(device)", device=device) == "ocl:0"
    assert seen_by_pytorch("repr(device)", device=device) == "device(type='ocl', index=0)"
    assert device == torch.device("ocl:0")


def test_other_devices_are_as_they_were():
    assert str(torch.device("cpu")) == torch.device("cpu").type == "cpu"
    assert torch.device("meta").type == "meta" and torch.ones(1).device.type == "cpu"
    assert not torch.ones(1).is_cuda
    with pytest.raises(RuntimeError, match="Expected one of cpu, cuda"):
        torch.device("cudas")
    with pytest.raises(TypeError):
        torch.device(1.5)


def test_pickles_say_cuda():
    """They load where the program runs with CUDA."""
    device = torch.device("cuda:0")
    text = pickle.dumps(device)
    assert b"cuda" in text and b"ocl" not in text
    assert pickle.loads(text) == copy.deepcopy(device) == copy.copy(device) == device


def test_default_device():
    torch.set_default_device("cuda")
    try:
        assert torch.get_default_device().type == "cuda"
        made = torch.ones(2), torch.tensor([1.0]), torch.nn.Linear(2, 2).weight, torch.arange(3)
        assert all(each.is_cuda for each in made)
    finally:
        torch.set_default_device(None)
    with torch.device("cuda"):
        assert torch.ones(2).is_cuda and torch.nn.Linear(2, 2).weight.is_cuda
        assert torch.fft.fftfreq(4).is_cuda
    assert not torch.ones(2).is_cuda


def test_current_device():
    with torch.cuda.device("cuda:0"):
        assert torch.cuda.current_device() == 0
    with torch.cuda.device(torch.device("cuda")), torch.cuda.device_of(torch.ones(1).cuda()):
        torch.cuda.set_device("cuda:0")
    assert torch.get_device_module("cuda").current_device() == 0
    with pytest.raises(RuntimeError, match="ocl:9 does not exist"):
        torch.ones(1, device="cuda:9")


def test_threads():
    """Nothing is of one thread only."""
    import threading

    seen = []

    def work():
        x = torch.ones(2, device="cuda", requires_grad=True)
        (x.cuda() * 2).sum().backward()
        seen.append((x.device.type, x.is_cuda, x.grad.tolist()))

    threads = [threading.Thread(target=work) for _ in range(2)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert seen == [("cuda", True, [2, 2])] * 2


def test_operators_are_pytorchs_own():
    """No mode makes each call slower; only functions that take a device are replaced."""
    assert torch._C._len_torch_function_stack() == 0
    for name in ("add", "add_", "mul", "sum", "view"):
        assert getattr(torch.Tensor, name) is getattr(torch._C.TensorBase, name)
