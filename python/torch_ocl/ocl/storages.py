"""A method of storages that PyTorch writes for the host's memory only."""

import torch

_byteswap_on_host = torch.UntypedStorage._byteswap


def _byteswap(storage, element_size):
    if storage.device.type != "ocl":
        return _byteswap_on_host(storage, element_size)
    host = storage.cpu()
    _byteswap_on_host(host, element_size)
    storage.copy_(host)


def swap_bytes_of_ocl_storages() -> None:
    """Lets `storage.byteswap(dtype)` take storages of ocl, which it would read as the host's."""
    torch.UntypedStorage._byteswap = _byteswap
