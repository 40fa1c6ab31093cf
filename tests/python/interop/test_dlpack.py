"""DLPack from and to ocl."""

import ctypes

import numpy as np
import pytest
import torch
from torch.utils import dlpack

EXT, OPENCL, CPU = 12, 4, 1


class Foreign:
    """An object such as another library would give."""

    def __init__(self, capsule, device):
        self.capsule, self.device = capsule, device

    def __dlpack__(self, **_):
        return self.capsule

    def __dlpack_device__(self):
        return self.device


@pytest.fixture
def x(device):
    return torch.arange(24.0, device=device).view(4, 6)


def test_what_pytorch_offers_for_itself(x):
    """When __dlpack_device__ works on ocl, so does torch.from_dlpack(x); docs/interop.md is old."""
    shared = torch.from_dlpack(dlpack.to_dlpack(x))
    assert shared.data_ptr() == x.data_ptr() and torch.equal(shared, x)
    with pytest.raises(ValueError, match="Unknown device type ocl"):
        torch.from_dlpack(x)


@pytest.mark.parametrize("opencl", [False, True])
def test_round_trip(x, opencl):
    part = x[1:3, ::2]
    exported = torch.ocl.to_dlpack(part, opencl=opencl)
    assert exported.__dlpack_device__() == (OPENCL if opencl else EXT, x.device.index)
    shared = torch.ocl.from_dlpack(exported)
    assert shared.device == x.device and shared.dtype == x.dtype
    assert torch.equal(shared, part) and shared.stride() == part.stride()
    shared.fill_(-1)
    assert x[1:3].cpu()[:, ::2].unique().item() == -1 and x[0, 0].item() == 0
    copied = torch.ocl.from_dlpack(exported, copy=True)
    copied.zero_()
    assert part.unique().item() == -1


def test_torch_takes_the_object(x):
    shared = torch.from_dlpack(torch.ocl.to_dlpack(x))
    assert shared.data_ptr() == x.data_ptr()
    assert torch.ocl.from_dlpack(x).data_ptr() == x.data_ptr()


@pytest.mark.parametrize("opencl", [False, True])
def test_numpy_takes_a_copy(x, opencl):
    exported = torch.ocl.to_dlpack(x, opencl=opencl)
    array = np.from_dlpack(exported, device="cpu")
    assert (array == x.cpu().numpy()).all()
    with pytest.raises((BufferError, RuntimeError, ValueError)):
        np.from_dlpack(exported)
    with pytest.raises(BufferError, match="cannot export to DLPack's device"):
        torch.ocl.to_dlpack(x, opencl=True).__dlpack__(dl_device=(2, 0))


class Tensor(ctypes.Structure):
    _fields_ = [
        ("data", ctypes.c_void_p),
        ("device", ctypes.c_int32 * 2),
        ("ndim", ctypes.c_int32),
        ("type", ctypes.c_uint8 * 4),
        ("shape", ctypes.POINTER(ctypes.c_int64)),
        ("strides", ctypes.POINTER(ctypes.c_int64)),
        ("offset", ctypes.c_uint64),
    ]


def tensor_in(capsule):
    get = ctypes.pythonapi.PyCapsule_GetPointer
    get.restype, get.argtypes = ctypes.c_void_p, [ctypes.py_object, ctypes.c_char_p]
    return Tensor.from_address(get(capsule, b"dltensor"))


def test_what_other_opencl_code_sees(x):
    part = x[1:, 2:4]
    capsule = torch.ocl.to_dlpack(part, opencl=True).__dlpack__()
    seen, buffer = tensor_in(capsule), torch.ocl.buffer(part)
    assert (seen.data, seen.offset) == (buffer.int_ptr, buffer.offset)
    assert list(seen.device) == [OPENCL, x.device.index]
    assert (seen.shape[:2], seen.strides[:2]) == ([3, 2], [6, 1])
    assert list(seen.type) == [2, 32, 1, 0]  # float, 32 bits, one lane


def test_lifetime(device):
    memory = torch.ocl.memory_allocated(device)
    x = torch.ones(1 << 20, device=device)
    capsules = [torch.ocl.to_dlpack(x, opencl=True).__dlpack__() for _ in range(2)]
    del x
    assert torch.ocl.memory_allocated(device) == memory + (4 << 20)
    shared = torch.ocl.from_dlpack(capsules.pop())
    assert shared.sum().item() == 1 << 20
    capsules.clear()  # an export that nobody imports
    assert torch.ocl.memory_allocated(device) == memory + (4 << 20)
    with pytest.raises(ValueError, match="was not used yet"):
        capsule = torch.ocl.to_dlpack(shared, opencl=True).__dlpack__()
        torch.ocl.from_dlpack(capsule)
        torch.ocl.from_dlpack(capsule)
    del shared, capsule
    assert torch.ocl.memory_allocated(device) == memory


def test_of_the_host(device):
    array = np.arange(6.0, dtype=np.float32).reshape(2, 3)
    copied = torch.ocl.from_dlpack(array, device=device)
    copied.zero_()
    assert copied.device == torch.device(device) and array.sum() == 15
    assert torch.from_dlpack(array, device=torch.device(device)).sum().item() == 15
    if torch.ocl.get_device_properties(device).host_unified_memory:
        shared = torch.ocl.from_dlpack(torch.arange(64.0), device=device, copy=False)
        assert shared.sum().item() == 63 * 32


def test_capsules_of_torch(x):
    assert torch.ocl.from_dlpack(dlpack.to_dlpack(x)).data_ptr() == x.data_ptr()
    capsule = dlpack.to_dlpack(torch.ones(3))
    assert torch.ocl.from_dlpack(capsule).device.type == "ocl"


def test_wrong_sources(x, device):
    with pytest.raises(TypeError, match="list has no __dlpack_device__"):
        torch.ocl.from_dlpack([1, 2])
    with pytest.raises(ValueError, match="takes a tensor on ocl, got one on cpu"):
        torch.ocl.to_dlpack(torch.ones(3))
    for opencl in (False, True):
        with pytest.raises(BufferError, match="require gradient"):
            torch.ocl.to_dlpack(
                torch.ones(3, device=device, requires_grad=True), opencl
            ).__dlpack__()
        imaginary = torch.ones(3, dtype=torch.complex64, device=device).conj().imag
        with pytest.raises(BufferError, match="negated"):
            torch.ocl.to_dlpack(imaginary, opencl)
    # The address of another library's device memory.
    capsule = dlpack.to_dlpack(torch.ones(3))
    tensor_in(capsule).device[0] = EXT
    with pytest.raises(RuntimeError, match="does not belong to memory of an ocl device"):
        torch.ocl.from_dlpack(Foreign(capsule, (EXT, 0)))
    # Beyond the buffer, refused and given back.
    capsule = torch.ocl.to_dlpack(x, opencl=True).__dlpack__()
    tensor_in(capsule).shape[0] = 1 << 40
    with pytest.raises(ValueError, match=r"needs .* bytes, but the memory has"):
        torch.ocl.from_dlpack(Foreign(capsule, (OPENCL, 0)))


def test_two_devices(two_devices):
    x = torch.ones(3, device=two_devices[1])
    assert torch.ocl.from_dlpack(x).device == x.device
    moved = torch.ocl.from_dlpack(x, device=two_devices[0])
    assert moved.device == torch.device(two_devices[0]) and moved.tolist() == [1, 1, 1]
    with pytest.raises(ValueError, match="cannot move from ocl:1 to ocl:0 without a copy"):
        torch.ocl.from_dlpack(x, device=two_devices[0], copy=False)
