"""The backend "occl" of torch.distributed: collectives of ocl tensors, and of CPU tensors.

    torch.distributed.init_process_group("occl")

It lets Gloo move the bytes, on memory of the device that is mapped for the host.
"""

import torch.distributed


def _make_backend(options, gloo_options=None):
    """c10d::Backend of a process group; Gloo's options are taken where they are given."""
    from torch.distributed import ProcessGroupGloo

    from . import _C

    arguments = options.store, options.group_rank, options.group_size
    if gloo_options is None:
        gloo = ProcessGroupGloo(*arguments, timeout=options.timeout)
    else:
        gloo = ProcessGroupGloo(*arguments, gloo_options)
    gloo.options.global_ranks_in_group = options.global_ranks_in_group
    gloo.options.group_name = options.group_id
    gloo._set_sequence_number_for_group()
    return _C.distributed_backend(gloo)


def register() -> None:
    """Makes "occl" known, and the default for ocl tensors."""
    if torch.distributed.is_available() and torch.distributed.is_gloo_available():
        torch.distributed.Backend.register_backend(
            "occl", _make_backend, extended_api=True, devices=["ocl", "cpu"]
        )
