"""Cases of test_distributed.py: TORCH_DISTRIBUTED_DEBUG=DETAIL compares what the ranks call."""

import torch
import torch.distributed as dist
from distributed_support import case, fails, numbers, same


def detailed_group():
    dist.set_debug_level(dist.DebugLevel.DETAIL)
    group = dist.new_group()
    dist.set_debug_level(dist.DebugLevel.OFF)
    return group


@case
def debug_mode(rank, size):
    group = detailed_group()
    x = numbers(rank).to("ocl")
    dist.all_reduce(x, group=group)
    same(x, sum(numbers(r) for r in range(size)))
    work = dist.broadcast(x, 1, group=group, async_op=True)
    work.wait()
    whole = torch.zeros(3 * size, 5, device="ocl")
    dist.all_gather_into_tensor(whole, numbers(rank).to("ocl"), group=group)
    same(whole, torch.cat([numbers(r) for r in range(size)]))
    dist.barrier(group=group)
    other = torch.zeros(2 + (rank == 1), device="ocl")
    fails(lambda: dist.all_reduce(other, group=group), "mismatch")


class Exchange:
    """An all-to-all of rows, by one of its two functions."""

    def __init__(self, rank, single, group):
        self.rank, self.single, self.group = rank, single, group

    def __call__(self, sent, expected, dtype=torch.float32):
        """Exchanges these numbers of rows with each rank: -> the received rows."""
        rows = numbers(self.rank, (sum(sent), 3), dtype).to("ocl")
        received = torch.zeros(sum(expected), 3, dtype=dtype, device="ocl")
        if self.single:
            call, parts = dist.all_to_all_single, (received, rows, expected, sent)
        else:
            call, parts = dist.all_to_all, ([*received.split(expected)], [*rows.split(sent)])
        call(*parts, group=self.group, async_op=True).wait()
        return received


@case
def debug_mode_all_to_all(rank, size):
    """PyTorch does not compare the parts; the backend does. The group goes on after an error."""
    group, liar = detailed_group(), rank == size - 1
    sent, expected = [*range(size)], [rank] * size
    more = [1 + expected[0], *expected[1:]]
    result = torch.cat([numbers(r, (sum(sent), 3)).split(sent)[rank] for r in range(size)])
    nothing = [[0] * size] * 2
    for single in True, False:
        exchange = Exchange(rank, single, group)
        for lie in [
            (sent, more),
            ([1, *sent[1:]], expected),
            nothing,
            (sent, expected, torch.int32),
            ([*sent, 1], expected),
        ]:
            try:
                exchange(*(lie if liar else (sent, expected)))
            except RuntimeError as error:
                assert "Detected mismatch between collectives" in str(error), error
            else:
                raise AssertionError(f"no error: {lie}")
            same(exchange(sent, expected), result)
        exchange(*nothing, torch.int32 if liar else torch.float32)  # no bytes: any type
