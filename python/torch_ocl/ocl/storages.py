"""A method of storages that PyTorch implements only for the host's memory."""

import torch

_byteswap_on_host = torch.UntypedStorage._byteswap


def _byteswap(storage, element_size):
    if storage.device.type != "ocl":
        return _byteswap_on_host(storage, element_size)
    host = storage.cpu()
    _byteswap_on_host(host, element_size)
    storage.copy_(host)


def swap_bytes_of_ocl_storages() -> None:
    """Lets `storage.byteswap(dtype)` accept storages on ocl, which it would access as host
    memory."""
    torch.UntypedStorage._byteswap = _byteswap
