"""A rank that ends while a collective of it is in flight, which ends while the interpreter does.

usage: python distributed_exit.py RANK STORE
"""

import atexit
import sys
import time

SECONDS_OF_THE_EXIT = 3


def keep_the_lock():
    """No other thread gets Python's lock until the interpreter ends."""
    sys.setswitchinterval(1000)
    end = time.monotonic() + SECONDS_OF_THE_EXIT
    while time.monotonic() < end:
        pass


rank, store = int(sys.argv[1]), sys.argv[2]
if rank == 0:
    atexit.register(keep_the_lock)  # called after what the following imports register

import torch  # noqa: E402
import torch.distributed as dist  # noqa: E402

import torch_ocl  # noqa: E402, F401 (the device, also where PyTorch has a GPU of its own)

dist.init_process_group("occl", init_method=f"file://{store}", rank=rank, world_size=2)
x = torch.ones(4, device="ocl")
dist.all_reduce(x)
dist.barrier()
if rank == 0:
    dist.all_reduce(x, async_op=True)
    del x
else:
    time.sleep(SECONDS_OF_THE_EXIT / 2)
    dist.all_reduce(x)
    dist.destroy_process_group()
