"""Memory that other code has the address of stays, whatever becomes of the tensor."""

import ctypes
import gc

import pytest
import torch
from support import needs_lazy_clones

COUNT = 1 << 16


def with_buffer(x):
    memory = torch.ocl.buffer(x)
    return memory, lambda: torch.ocl.from_buffer(memory, (COUNT,), offset=memory.offset)


def with_dlpack(x):
    capsule = torch.ocl.to_dlpack(x, opencl=True).__dlpack__()
    return capsule, lambda: torch.ocl.from_dlpack(capsule)


def with_dlpack_tensor(x):
    y = torch.ocl.from_dlpack(torch.ocl.to_dlpack(x, opencl=True))
    return y, lambda: y


EXPORTS = [with_buffer, with_dlpack, with_dlpack_tensor]
CHANGES = {
    "data": lambda x: setattr(x, "data", torch.zeros(3, device=x.device)),
    "set_": lambda x: x.set_(torch.zeros(3, device=x.device)),
    "deleted": lambda x: None,
}
REFUSED = {
    "resize_": lambda x: x.resize_(2 * COUNT),
    "storage": lambda x: x.untyped_storage().resize_(0),
    "set_ beyond": lambda x: x.set_(x.untyped_storage(), 0, (2 * COUNT,)),
}


@pytest.mark.sample
@pytest.mark.parametrize("change", CHANGES)
@pytest.mark.parametrize("export", EXPORTS)
def test_the_memory_stays(device, export, change):
    x = torch.ones(COUNT, device=device)
    kept, again = export(x)
    CHANGES[change](x)
    if change == "deleted":
        del x
    others = [torch.full((COUNT,), 7.0, device=device) for _ in range(4)]
    assert again().sum().item() == COUNT
    assert all(each.eq(7).all() for each in others)
    del kept


@pytest.mark.parametrize("change", REFUSED)
@pytest.mark.parametrize("export", [with_buffer, with_dlpack_tensor])
def test_the_memory_cannot_be_resized_meanwhile(device, export, change):
    x = torch.ones(COUNT, device=device)
    first, second = export(x), export(x)
    for exported in (first, second):
        with pytest.raises(RuntimeError, match="not resizable: from"):
            REFUSED[change](x)
        assert x.shape == (COUNT,) and exported[1]().sum().item() == COUNT
    del first, exported
    with pytest.raises(RuntimeError, match="not resizable"):
        REFUSED[change](x)
    del second
    gc.collect()
    REFUSED[change](x)


@needs_lazy_clones
@pytest.mark.parametrize("export", EXPORTS)
def test_lazy_clones_do_not_take_the_memory(device, export):
    x = torch.ones(COUNT, device=device)
    kept, again = export(x)
    clone = x._lazy_clone()
    x.add_(1)
    del clone
    others = torch.full((COUNT,), 7.0, device=device)
    assert again().sum().item() == 2 * COUNT and others.eq(7).all()
    del kept


@pytest.fixture
def cpu_device(device):
    properties = torch.ocl.get_device_properties(device)
    if properties.type != "cpu" or properties.platform == "rusticl":
        pytest.skip("the device uses no memory of the host in place")
    return device


@pytest.mark.parametrize("change", CHANGES)
def test_host_memory_stays(cpu_device, change):
    x = torch.ones(COUNT)
    y = torch.ocl.from_host(x, cpu_device)
    CHANGES[change](x)
    del x
    gc.collect()
    others = [torch.full((COUNT,), 7.0) for _ in range(4)]
    assert y.sum().item() == COUNT
    y.fill_(2)
    torch.ocl.synchronize()
    assert all(each.eq(7).all() for each in others)


@pytest.mark.parametrize("change", REFUSED)
def test_host_memory_cannot_be_resized(cpu_device, change):
    """A tensor whose memory another owner has is fixed, as after Tensor.numpy()."""
    x = torch.ones(COUNT)
    y = torch.ocl.from_host(x, cpu_device)
    with pytest.raises(RuntimeError, match="not resizable"):
        REFUSED[change](x)
    assert y.sum().item() == COUNT


@pytest.mark.parametrize("change", ["data", "set_"])
def test_views_of_the_host_keep_the_memory(device, change):
    if not torch.ocl.get_device_properties(device).host_unified_memory:
        pytest.skip("the device has memory of its own")
    x = torch.ones(COUNT, device=device)
    same = x.view(COUNT)
    with torch.ocl.host_view(x) as host:
        array = host.numpy()
        CHANGES[change](x)
        with pytest.raises(RuntimeError, match="not resizable"):
            same.untyped_storage().resize_(0)
        others = torch.full((COUNT,), 7.0, device=device)
        array[:] = 2
    assert same.eq(2).all() and others.eq(7).all()
    del host, array
    same.untyped_storage().resize_(0)


def test_dlpack_of_more_than_was_allocated(device):
    """A library that changes the shape of what torch gave it."""
    x = torch.ones(COUNT, device=device)
    others = torch.full((COUNT,), 7.0, device=device)

    class Longer:
        def __dlpack_device__(self):
            return torch.ocl.to_dlpack(x).__dlpack_device__()

        def __dlpack__(self, **_):
            longer = torch.empty(0, device=device).set_(x.untyped_storage(), 0, (COUNT,))
            capsule = torch.ocl.to_dlpack(longer).__dlpack__()
            change_size(capsule, 4 * COUNT)
            return capsule

    with pytest.raises(ValueError, match=r"needs .* bytes, but the memory has"):
        torch.ocl.from_dlpack(Longer())
    assert others.eq(7).all()


def change_size(capsule, size):
    """Sets the first size of a DLPack tensor."""

    class Tensor(ctypes.Structure):
        _fields_ = [
            ("data", ctypes.c_void_p),
            ("device", ctypes.c_int32 * 2),
            ("ndim", ctypes.c_int32),
            ("dtype", ctypes.c_uint8 * 4),
            ("shape", ctypes.POINTER(ctypes.c_int64)),
        ]

    get = ctypes.pythonapi.PyCapsule_GetPointer
    get.restype, get.argtypes = ctypes.c_void_p, [ctypes.py_object, ctypes.c_char_p]
    Tensor.from_address(get(capsule, b"dltensor")).shape[0] = size
