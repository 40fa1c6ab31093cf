"""mode="max-autotune": measures the best work-group size of a generated kernel, on GPUs.

On CPU devices there is nothing to measure: work-groups have one work-item, and the most lanes were
always fastest (0.2 to 0.6 of the time with a half or a quarter of the lanes).
"""

import contextlib
import hashlib
import logging
from pathlib import Path

import torch
from torch._inductor.codecache import write_atomic

from torch_ocl import ocl

from .codegen.shape import Shape
from .runtime import generated_kernel, source_file

log = logging.getLogger("torch._inductor.ocl")

_SIZES = 64, 128, 256
_ROUNDS = 5


class MeasuredKernel:
    """A generated kernel that measures its fastest work-group size at the first call.

    The size is kept next to the source, for each device.

    Args:
        written: the positions of the arguments that it writes; measuring restores them.
    """

    def __init__(self, name, signature, shape, written, source):
        self._name, self._source, self._written = name, source, written
        define = "#define LOCAL_SIZE {}\n"
        self._make = lambda size: generated_kernel(
            name,
            signature,
            shape,
            size,
            source.replace(define.format(Shape.local), define.format(size)),
        )
        self._default = self._make(Shape.local)
        self._kernels = {}  # by device

    def __call__(self, *args):
        index = args[0].device.index
        kernel = self._kernels.get(index)
        if kernel is None:
            if ocl.is_current_stream_capturing():
                return self._default(*args)
            kernel = self._kernels[index] = self._make(self._size(index, args))
        return kernel(*args)

    def _size(self, index, args) -> int:
        properties = ocl.get_device_properties(index)
        if not properties.has_profiling:
            return _SIZES[0]
        device = f"{properties.name} {properties.driver_version}"
        digest = hashlib.sha256(device.encode()).hexdigest()[:16]
        file = Path(f"{source_file(self._name, self._source)}.{digest}.size")
        sizes = [size for size in _SIZES if size <= properties.max_work_group_size]
        known = _stored_number(file)
        if known in sizes:
            return known
        times = self._measure(index, sizes, args)
        log.info("%s: seconds by size of work-groups: %s", self._name, times)
        best = min(times, key=times.get)
        with contextlib.suppress(OSError):  # the next process measures again
            write_atomic(str(file), str(best))
        return best

    def _measure(self, index, sizes, args) -> dict[int, float]:
        written = set(self._written)
        args = [_copy(arg) if n in written else arg for n, arg in enumerate(args)]
        kernels = {size: self._make(size) for size in sizes}
        times = dict.fromkeys(sizes, float("inf"))
        with torch.ocl.device(index):
            for iteration in range(_ROUNDS + 1):  # the first round builds
                for size, kernel in kernels.items():
                    start, end = (ocl.Event(enable_timing=True) for _ in range(2))
                    start.record()
                    kernel(*args)
                    end.record()
                    end.synchronize()
                    if iteration:
                        times[size] = min(times[size], start.elapsed_time(end) / 1000)
        return times


def _stored_number(file) -> int | None:
    """None where there is no such file, or it is damaged."""
    try:
        return int(file.read_text())
    except (OSError, ValueError):
        return None


def _copy(arg):
    """A copy with the same strides, and so with the same gaps."""
    last = sum((size - 1) * stride for size, stride in zip(arg.size(), arg.stride()))
    memory = arg.as_strided((last + 1 if arg.numel() else 0,), (1,)).clone()
    return memory.as_strided(arg.size(), arg.stride(), 0)
