"""torch.save and torch.load: files name the devices as CUDA does.

Programs with CUDA load such files, and programs without CUDA load them with map_location. Files
that name ocl, written outside of this mode, load as well.
"""

import torch

from .words import to_cuda, to_ocl

_BEFORE_CUDA = 15  # PyTorch's own rule for CUDA has 20


def _tag(storage):
    if storage.device.type == "ocl":
        return to_cuda(str(storage.device))
    return None


def _restore(storage, location: str):
    name = to_ocl(location)
    if name == location:
        return None
    index, count = torch.device(name).index or 0, torch.ocl.device_count()
    if index >= count:
        raise RuntimeError(
            f'the file has tensors of "{location}", but there are {count} devices of ocl: use '
            "torch.load with map_location, as in map_location='cuda:0'"
        )
    return storage.to(device=torch.device(name))


def install() -> None:
    torch.serialization.register_package(_BEFORE_CUDA, _tag, _restore)
