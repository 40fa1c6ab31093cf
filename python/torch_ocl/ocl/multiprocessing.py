"""Raises an error, with advice, if ocl tensors are sent to other processes."""

from multiprocessing.reduction import ForkingPickler

import torch
from torch.multiprocessing.reductions import reduce_storage


def _reduce(storage):
    if storage.device.type == "ocl":
        raise RuntimeError(
            "ocl tensors cannot be sent to another process: OpenCL shares no device memory between "
            "processes. Send x.cpu(), or start from x.cpu().share_memory_() and use "
            "torch.ocl.from_host() in each process; see docs/interop.md"
        )
    return reduce_storage(storage)


def refuse_to_send() -> None:
    """Registers the error with Python's multiprocessing; other storages are sent by PyTorch."""
    ForkingPickler.register(torch.UntypedStorage, _reduce)
