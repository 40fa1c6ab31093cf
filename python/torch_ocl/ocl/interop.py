"""Sharing contexts, queues and buffers with other OpenCL code in the process."""

import numpy as np
import torch

from torch_ocl import _C

from .devices import _index
from .streams import Stream, current_stream


def _pointer(handle) -> int:
    """The address of an OpenCL object, which is an address or an object of pyopencl."""
    if isinstance(handle, int) and not isinstance(handle, bool):
        return handle
    pointer = getattr(handle, "int_ptr", None)
    if pointer is None:
        raise TypeError(
            "expected an OpenCL object: its address as an int, or an object of pyopencl, "
            f"not {type(handle).__name__}"
        )
    return pointer


def _tensor(tensor, function: str) -> torch.Tensor:
    if not isinstance(tensor, torch.Tensor):
        raise TypeError(f"{function} takes a tensor, not {type(tensor).__name__}")
    if tensor.device.type != "ocl":
        raise ValueError(f"{function} takes a tensor on ocl, got one on {tensor.device}")
    return tensor


def use_context(context) -> torch.device:
    """Makes torch use your OpenCL context, so that its buffers and queues can be shared.

    Args:
        context: a pyopencl.Context, or the address of a cl_context.

    Returns the first of torch's devices in the context. Raises ValueError when one of them is
    already in use with another context: call this before the first tensor is made there.
    """
    return torch.device("ocl", _C.use_context(_pointer(context)))


def context(device=None) -> int:
    """Address of the device's cl_context: `pyopencl.Context.from_int_ptr(torch.ocl.context())`."""
    return _C.context(_index(device))


def device_id(device=None) -> int:
    """Address of the cl_device_id: `pyopencl.Device.from_int_ptr(torch.ocl.device_id())`."""
    return _C.device_id(_index(device))


def queue(stream: torch.Stream | None = None) -> int:
    """Address of a stream's cl_command_queue; of the current stream by default.

    Commands that you enqueue there run in order with torch's:
    `pyopencl.CommandQueue.from_int_ptr(torch.ocl.queue())`.
    """
    stream = current_stream() if stream is None else stream
    _index(stream.device)  # raises for another device's stream
    return _C.queue(stream.device_index, stream.stream_id)


class ExternalStream(Stream):
    """The stream of a command queue that was made elsewhere.

    Args:
        stream_ptr: a pyopencl.CommandQueue, or the address of a cl_command_queue. It must run its
            commands in order, and belong to the device's context (torch.ocl.context,
            torch.ocl.use_context). If it was made without profiling, events cannot be timed.
        device: the queue's, checked where it is given.

    torch keeps the queue until the process ends.
    """

    def __new__(cls, stream_ptr, device=None, **kwargs):
        index, stream_id = _C.external_stream(_pointer(stream_ptr))
        if device is not None and _index(device) != index:
            raise ValueError(f"the queue is of ocl:{index}, not of ocl:{_index(device)}")
        kind = current_stream(index).device_type
        return super().__new__(cls, stream_id=stream_id, device_index=index, device_type=kind)


def get_stream_from_external(data_ptr, device=None) -> ExternalStream:
    """The stream of a command queue that was made elsewhere: ExternalStream(data_ptr, device)."""
    return ExternalStream(data_ptr, device)


class Buffer:
    """A tensor's memory: `size` bytes from `offset` on in the cl_mem `int_ptr`.

    The object keeps the tensor's memory alive and prevents a resize; the address alone does not.
    """

    def __init__(self, tensor: torch.Tensor):
        self.int_ptr, self.offset, self._memory = _C.buffer(tensor)
        reach = sum((size - 1) * step for size, step in zip(tensor.shape, tensor.stride()))
        self.size = (reach + 1) * tensor.element_size() if tensor.numel() else 0

    def pyopencl(self):
        """The pyopencl.Buffer with the tensor's memory from self.offset on; keeps the memory."""
        import pyopencl

        if not self.int_ptr:
            raise ValueError("a tensor without elements has no buffer")
        found = pyopencl.Buffer.from_int_ptr(self.int_ptr)
        found.memory = self._memory
        return found

    def __repr__(self):
        return (
            f"torch.ocl.Buffer(int_ptr={self.int_ptr:#x}, offset={self.offset}, size={self.size})"
        )


def buffer(tensor: torch.Tensor) -> Buffer:
    """The OpenCL buffer that contains the tensor's memory, for other OpenCL code.

    torch's commands run on torch.ocl.queue(): use that queue, or synchronize first.
    """
    return Buffer(_tensor(tensor, "torch.ocl.buffer"))


def from_buffer(buffer, shape, dtype=torch.float32, *, offset=0, strides=None, device=None):
    """A tensor over the memory of an OpenCL buffer, without a copy.

    Args:
        buffer: a pyopencl.Buffer, a torch.ocl.Buffer, or the address of a cl_mem. An object is kept
            until torch does not use the memory any more; a cl_mem is retained.
        shape, dtype: of the tensor.
        offset: the position of its first byte in the buffer.
        strides: in elements; dense by default.
        device: one of torch's devices, if several use the buffer's context.

    The buffer must be readable and writable and of the device's context (torch.ocl.context,
    torch.ocl.use_context), else ValueError is raised.
    """
    owner = None if isinstance(buffer, int) else buffer
    shape = (shape,) if isinstance(shape, int) else tuple(shape)
    if not isinstance(dtype, torch.dtype):
        raise TypeError(f"dtype must be a torch.dtype, not {dtype!r}")
    if offset < 0:
        raise ValueError(f"the offset must not be negative, got {offset}")
    strides = None if strides is None else tuple(strides)
    device = None if device is None else _index(device)
    return _C.from_buffer(_pointer(buffer), offset, shape, dtype, strides, device, owner)


def from_host(array, device=None) -> torch.Tensor:
    """An ocl tensor over the memory of a NumPy array or CPU tensor, without a copy.

    Only for CPU devices, which use host memory in place; else ValueError. Both sides
    see each other's changes: call torch.ocl.synchronize() before the host reads the memory, and do
    not touch the memory while the device works on it. The CPU tensor cannot be resized any more.
    """
    if isinstance(array, np.ndarray):
        if not array.flags.writeable:
            raise ValueError("from_host needs an array that can be written to: torch may write")
        array = torch.from_numpy(array)
    if not isinstance(array, torch.Tensor):
        raise TypeError(f"from_host takes a NumPy array or CPU tensor, not {type(array).__name__}")
    return _C.from_host(array, _index(device))


class host_view:
    """Context manager: the memory of an ocl tensor as a CPU tensor, without a copy.

        with torch.ocl.host_view(x) as host:
            host.numpy()[...] = 1

    Only for devices that share the host's memory (host_unified_memory); ValueError elsewhere.
    Waits for the device at the beginning. Inside, only the host may use the memory, afterwards only
    the device: copy the data that you want to keep.

    Args:
        tensor: on ocl, of any strides.
        writable: False when you only read.
    """

    def __init__(self, tensor: torch.Tensor, writable: bool = True):
        self._map = _C.HostMap(_tensor(tensor, "torch.ocl.host_view"), writable)

    def __enter__(self) -> torch.Tensor:
        return self._map.enter()

    def __exit__(self, *_):
        self._map.exit()
        return False
