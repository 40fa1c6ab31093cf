"""Cases of test_distributed.py: collectives that begin on the thread that calls them."""

import concurrent.futures

import torch
import torch.distributed as dist
from distributed_support import case, numbers, same


@case
def begun_by_the_caller(rank, size):
    """Small collectives on idle streams begin on the caller's thread, which waits for no peer."""
    torch.ocl.synchronize()
    token = torch.zeros(1, device="ocl")
    xs = [numbers(rank + i).to("ocl") for i in range(20)]
    torch.ocl.synchronize()
    if rank:
        dist.recv(token, 0)  # comes once rank 0 has called all
    works = [dist.all_reduce(x, async_op=True) for x in xs for _ in range(2)]
    if rank == 0:
        for peer in range(1, size):
            dist.send(token, peer)
    for work in works:
        work.wait()
    for i, x in enumerate(xs):
        same(x, size * sum(numbers(r + i) for r in range(size)))


@case
def begun_in_inference_mode(rank, size):
    """Buffers of the backend are not tensors of the caller's mode, which other threads may not
    write."""
    whole = torch.cat([numbers(r) for r in range(size)])
    with torch.inference_mode():
        mine = numbers(rank).to("ocl")
        parts = [torch.zeros(3, 5, device="ocl") for _ in range(size)]
        torch.ocl.synchronize()
        dist.all_to_all(parts, [mine] * size)
        same(torch.cat(parts), whole)
        share = torch.zeros(3, 5, device="ocl")
        torch.ocl.synchronize()
        dist.reduce_scatter_tensor(share, torch.cat([mine] * size))
        same(share, sum(numbers(r) for r in range(size)))


@case
def groups_in_threads(rank, size):
    groups = [dist.new_group() for _ in range(3)]

    def calls(group):
        for i in range(30):
            x = numbers(rank + i).to("ocl")
            if i % 2:
                torch.ocl.current_stream().synchronize()
            dist.all_reduce(x, group=group)
            same(x, sum(numbers(r + i) for r in range(size)))

    with concurrent.futures.ThreadPoolExecutor(len(groups)) as threads:
        list(threads.map(calls, groups))
