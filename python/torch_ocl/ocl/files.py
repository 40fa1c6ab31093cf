"""torch.load: storages of files keep their size, as on the CPU.

A file names the sizes of its tensors, too. If those are beyond its storage, the storage must not
grow over memory that the file does not fill.
"""

import torch

from torch_ocl import _C


def fix_storages_of_files() -> None:
    """Fixes the sizes of storages, also if torch.load(..., map_location=function) moves them."""
    original = torch.serialization._get_restore_location

    def _get_restore_location(map_location):
        restore = original(map_location)

        def restore_location(storage, location):
            restored = restore(storage, location)
            if restored.device.type == "ocl":
                _C.fix_storage_size(getattr(restored, "_untyped_storage", restored))
            return restored

        return restore_location

    torch.serialization._get_restore_location = _get_restore_location
