"""The backend "occl" of torch.distributed: collectives of ocl tensors, and of CPU tensors.

    torch.distributed.init_process_group("occl")

Gloo moves the bytes, on device memory that is mapped for the host.
"""

import os
import time
import uuid

import torch.distributed

_meeting = None  # the name of this run, if torchrun's agent owns the store


def _meet(store, rank, size, timeout):
    """A name that these processes share, and that no earlier processes used.

    The store of torchrun's agent outlives restarts of the workers. Without a new name, Gloo would
    find the addresses of dead workers there, and wait for five time-outs.
    """
    store.set(f"member/{rank}", uuid.uuid4().hex)
    members = [f"member/{other}" for other in range(size)]
    deadline = time.monotonic() + timeout.total_seconds()
    joined, present = None, 0
    while time.monotonic() < deadline:
        names = b"".join(store.multi_get(members))
        meeting = f"meeting/{uuid.uuid5(uuid.NAMESPACE_OID, names.decode()).hex}"
        present = store.add(meeting, int(meeting != joined))
        joined = meeting
        if present == size:
            return meeting
        time.sleep(0.01)
    raise torch.distributed.DistStoreError(
        f"occl: rank {rank} met {present} of {size} ranks within {timeout.total_seconds():.0f} s"
    )


def _store_of_this_run(options):
    """The group's store, without entries of workers that torchrun has replaced."""
    global _meeting
    if os.environ.get("TORCHELASTIC_USE_AGENT_STORE") != "True":
        return options.store
    if not torch.distributed.is_initialized():
        arguments = options.group_rank, options.group_size, options.timeout
        _meeting = _meet(options.store, *arguments)
    return torch.distributed.PrefixStore(_meeting, options.store)


def _make_backend(options, gloo_options=None):
    """The c10d::Backend of a process group; it accepts Gloo's options."""
    from torch.distributed import ProcessGroupGloo

    from . import _C

    arguments = _store_of_this_run(options), options.group_rank, options.group_size
    if gloo_options is None:
        gloo = ProcessGroupGloo(*arguments, timeout=options.timeout)
    else:
        gloo = ProcessGroupGloo(*arguments, gloo_options)
    gloo.options.global_ranks_in_group = options.global_ranks_in_group
    gloo.options.group_name = options.group_id
    gloo._set_sequence_number_for_group()
    return _C.distributed_backend(gloo)


def register() -> None:
    """Registers "occl", and makes it the default for ocl tensors."""
    if torch.distributed.is_available() and torch.distributed.is_gloo_available():
        torch.distributed.Backend.register_backend(
            "occl", _make_backend, extended_api=True, devices=["ocl", "cpu"]
        )
