"""Cases of test_distributed.py: what each rank of a process group does and checks.

usage: python distributed_cases.py RANK SIZE FOLDER [CASE...]
Each rank leaves a file CASE.RANK in the folder for each case that it has passed.
"""

import datetime
import os
import pathlib
import signal
import sys
import time
import traceback

import torch
import torch.distributed as dist

CASES = {}
TIMEOUT = datetime.timedelta(seconds=60)
TYPES = [torch.float32, torch.float16, torch.bfloat16, torch.int64, torch.int32, torch.uint8]


def case(function):
    CASES[function.__name__] = function
    return function


def numbers(rank, shape=(3, 5), dtype=torch.float32):
    """What a rank contributes, on the CPU: known to all. Sums are exact in every type."""
    generator = torch.Generator().manual_seed(rank + 1)
    return torch.randint(1, 9, shape, generator=generator).to(dtype)


def same(actual, expected, device="ocl"):
    assert actual.device.type == device, actual.device
    torch.testing.assert_close(actual.cpu(), expected, rtol=0, atol=0)


def reduction(op, tensors):
    stack = torch.stack(tensors)
    return {
        dist.ReduceOp.SUM: lambda: stack.sum(0).to(stack.dtype),
        dist.ReduceOp.AVG: lambda: stack.sum(0) / len(tensors),
        dist.ReduceOp.PRODUCT: lambda: stack.prod(0).to(stack.dtype),
        dist.ReduceOp.MIN: lambda: stack.amin(0),
        dist.ReduceOp.MAX: lambda: stack.amax(0),
    }[op]()


@case
def all_reduce(rank, size):
    R = dist.ReduceOp
    for dtype in TYPES:
        for op in R.SUM, R.PRODUCT, R.MIN, R.MAX:
            x = numbers(rank, dtype=dtype).to("ocl")
            assert dist.all_reduce(x, op) is None
            same(x, reduction(op, [numbers(r, dtype=dtype) for r in range(size)]))
    x = numbers(rank).to("ocl")
    dist.all_reduce(x, R.AVG)
    same(x, reduction(R.AVG, [numbers(r) for r in range(size)]))


@case
def all_reduce_of_views(rank, size):
    """Only the bytes of the view change; neighbours are left alone."""
    base = torch.arange(40.0, device="ocl").view(8, 5)
    expected = torch.arange(40.0).view(8, 5)
    works = [dist.all_reduce(base[rows], async_op=True) for rows in (slice(0, 2), slice(4, 7))]
    for work in works:
        work.wait()
    expected[0:2] *= size
    expected[4:7] *= size
    same(base, expected)
    empty = torch.empty(0, 4, device="ocl")
    dist.all_reduce(empty)
    images = numbers(rank, (2, 3, 4, 4)).to(memory_format=torch.channels_last).to("ocl")
    dist.all_reduce(images)
    same(images, sum(numbers(r, (2, 3, 4, 4)) for r in range(size)))


@case
def refusals(rank, size):
    for tensor, kind, text in [
        (torch.zeros(4, 6, device="ocl")[:, ::2], ValueError, "must be contiguous"),
        (torch.zeros(4, dtype=torch.int64, device="ocl"), TypeError, "floating point"),
    ]:
        try:
            dist.all_reduce(tensor, dist.ReduceOp.AVG)
        except kind as error:
            assert text in str(error), error
        else:
            raise AssertionError(f"no {kind}")


@case
def broadcast(rank, size):
    for root in range(size):
        x = numbers(rank).to("ocl")
        dist.broadcast(x, src=root)
        same(x, numbers(root))


@case
def reduce(rank, size):
    for root in range(size):
        for op in dist.ReduceOp.SUM, dist.ReduceOp.AVG:
            x = numbers(rank).to("ocl")
            dist.reduce(x, dst=root, op=op)
            total = reduction(op, [numbers(r) for r in range(size)])
            same(x, total if rank == root else numbers(rank))


@case
def all_gather(rank, size):
    parts = [torch.zeros(3, 5, device="ocl") for _ in range(size)]
    dist.all_gather(parts, numbers(rank).to("ocl"))
    for other, part in enumerate(parts):
        same(part, numbers(other))
    whole = torch.zeros(size * 3, 5, device="ocl")
    dist.all_gather_into_tensor(whole, numbers(rank).to("ocl"))
    same(whole, torch.cat([numbers(r) for r in range(size)]))
    # In place: the input is a part of the output.
    whole = torch.zeros(size * 3, 5, device="ocl")
    mine = whole[rank * 3 : rank * 3 + 3]
    mine.copy_(numbers(rank))
    dist.all_gather_into_tensor(whole, mine)
    same(whole, torch.cat([numbers(r) for r in range(size)]))


@case
def gather_and_scatter(rank, size):
    for root in range(size):
        parts = [torch.zeros(3, 5, device="ocl") for _ in range(size)] if rank == root else None
        dist.gather(numbers(rank).to("ocl"), parts, dst=root)
        for other, part in enumerate(parts or []):
            same(part, numbers(other))
        x = torch.zeros(3, 5, device="ocl")
        dist.scatter(x, parts, src=root)
        same(x, numbers(rank))


@case
def reduce_scatter(rank, size):
    inputs = [[numbers(10 * r + i) for i in range(size)] for r in range(size)]
    R = dist.ReduceOp
    for op in R.SUM, R.AVG, R.MAX:
        expected = reduction(op, [inputs[r][rank] for r in range(size)])
        x = torch.zeros(3, 5, device="ocl")
        dist.reduce_scatter(x, [part.to("ocl") for part in inputs[rank]], op)
        same(x, expected)
        x = torch.zeros(3, 5, device="ocl")
        dist.reduce_scatter_tensor(x, torch.cat(inputs[rank]).to("ocl"), op)
        same(x, expected)
        # In place: the output is a part of the input.
        whole = torch.cat(inputs[rank]).to("ocl")
        part = whole[3 * rank : 3 * rank + 3]
        dist.reduce_scatter_tensor(part, whole, op)
        same(part, expected)
    for dtype in TYPES:
        for op in R.SUM, R.PRODUCT, R.MIN, R.MAX:
            x = torch.zeros(3, 5, dtype=dtype, device="ocl")
            dist.reduce_scatter(x, [part.to(dtype).to("ocl") for part in inputs[rank]], op)
            same(x, reduction(op, [inputs[r][rank].to(dtype) for r in range(size)]))
    x = torch.zeros(3, 5, dtype=torch.int32, device="ocl")
    dist.reduce_scatter(x, [part.int().to("ocl") for part in inputs[rank]], R.BXOR)
    expected = torch.zeros(3, 5, dtype=torch.int32)
    for r in range(size):
        expected ^= inputs[r][rank].int()
    same(x, expected)


@case
def all_to_all(rank, size):
    inputs = [[numbers(10 * r + i, (2 + i, 4)) for i in range(size)] for r in range(size)]
    expected = [inputs[r][rank] for r in range(size)]
    outputs = [torch.zeros(2 + rank, 4, device="ocl") for _ in range(size)]
    dist.all_to_all(outputs, [part.to("ocl") for part in inputs[rank]])
    for output, part in zip(outputs, expected, strict=True):
        same(output, part)
    output = torch.zeros(size * (2 + rank), 4, device="ocl")
    rows = [2 + i for i in range(size)]
    dist.all_to_all_single(output, torch.cat(inputs[rank]).to("ocl"), [2 + rank] * size, rows)
    same(output, torch.cat(expected))
    output = torch.zeros(size, 3, device="ocl")
    dist.all_to_all_single(output, torch.full((size, 3), float(rank), device="ocl"))
    same(output, torch.arange(float(size))[:, None].expand(size, 3))


@case
def coalesced(rank, size):
    """Many tensors in one call; some are neighbours in one storage."""
    everyone = range(size)
    base = torch.cat([numbers(rank), numbers(rank + 20)]).to("ocl")
    parts = [base[:3], base[3:], numbers(rank, (7,)).to("ocl")]
    dist.all_reduce_coalesced(parts)
    same(base, sum(torch.cat([numbers(r), numbers(r + 20)]) for r in everyone))
    same(parts[2], sum(numbers(r, (7,)) for r in everyone))

    with dist._coalescing_manager(device=torch.device("ocl"), async_ops=True) as manager:
        wholes = [torch.zeros(size * 3, 5, device="ocl") for _ in range(3)]
        for i, whole in enumerate(wholes):
            dist.all_gather_into_tensor(whole, numbers(rank + i).to("ocl"))
    manager.wait()
    for i, whole in enumerate(wholes):
        same(whole, torch.cat([numbers(r + i) for r in everyone]))

    with dist._coalescing_manager(device=torch.device("ocl")):
        shares = [torch.zeros(3, 5, device="ocl") for _ in range(3)]
        for i, share in enumerate(shares):
            dist.reduce_scatter_tensor(share, torch.cat([numbers(rank + i)] * size).to("ocl"))
    for i, share in enumerate(shares):
        same(share, sum(numbers(r + i) for r in everyone))


@case
def point_to_point(rank, size):
    following, former = (rank + 1) % size, (rank - 1) % size
    # All send first: the sends may not wait for each other.
    sent = numbers(rank).to("ocl")
    received = torch.zeros(3, 5, device="ocl")
    works = [dist.isend(sent, following, tag=3), dist.irecv(received, former, tag=3)]
    for work in works:
        work.wait()
    same(received, numbers(former))
    if rank == 0:
        dist.send(sent, 1)
    if rank == 1:
        received.zero_()
        assert dist.recv(received) == 0
        same(received, numbers(0))
    operations = [
        dist.P2POp(dist.isend, numbers(rank + 5).to("ocl"), following),
        dist.P2POp(dist.irecv, received, former),
    ]
    for work in dist.batch_isend_irecv(operations):
        work.wait()
    same(received, numbers(former + 5))
    # Works of one rank complete in any order, and can be asked without waiting.
    first, second = torch.zeros(2, device="ocl"), torch.zeros(2, device="ocl")
    works = [dist.irecv(first, former, tag=1), dist.irecv(second, former, tag=2)]
    dist.send(torch.full((2,), 2.0, device="ocl"), following, tag=2)
    works[1].wait()
    same(second, torch.full((2,), 2.0))
    assert not works[0].is_completed()
    dist.barrier()
    dist.send(torch.full((2,), 1.0, device="ocl"), following, tag=1)
    works[0].wait()
    same(first, torch.full((2,), 1.0))


@case
def follows_the_streams(rank, size):
    """Inputs are what kernels before the call left, and kernels after wait() see the result."""
    n = 1 << 18
    side = torch.ocl.Stream()
    for turn in range(4):
        with torch.ocl.stream(side if turn % 2 else torch.ocl.current_stream()):
            x = torch.zeros(n, device="ocl")
            for _ in range(30):
                x += 1
            work = dist.all_reduce(x, async_op=True)
            work.wait()
            y = x * 2
            del x
            z = torch.full((n,), -1.0, device="ocl")  # may get x's memory
            same(y, torch.full((n,), 60.0 * size))
            same(z, torch.full((n,), -1.0))


@case
def futures(rank, size):
    x = numbers(rank).to("ocl")
    work = dist.all_reduce(x, async_op=True)
    total = sum(numbers(r) for r in range(size))
    doubled = work.get_future().then(lambda future: future.value()[0] * 2)
    same(doubled.wait(), total * 2)
    assert work.is_completed() and work.is_success()
    same(work.result()[0], total)
    works = [dist.all_reduce(torch.ones(9, device="ocl"), async_op=True) for _ in range(50)]
    for work in reversed(works):
        work.wait()
        same(work.result()[0], torch.full((9,), float(size)))


@case
def barriers_and_objects(rank, size):
    dist.barrier()
    dist.barrier(async_op=True).wait()
    x = numbers(rank)
    dist.all_reduce(x)
    same(x, sum(numbers(r) for r in range(size)), "cpu")
    everything = [None] * size
    dist.all_gather_object(everything, {"rank": rank})
    assert everything == [{"rank": r} for r in range(size)]
    shared = [torch.full((2,), float(rank), device="ocl")]
    dist.broadcast_object_list(shared, src=1)
    assert shared[0].tolist() == [1, 1]


@case
def groups(rank, size):
    assert dist.get_backend() == "occl"
    last = dist.new_group([size - 1])
    both = dist.new_group([0, 1], backend="cpu:gloo,ocl:occl")
    x = torch.full((2,), rank + 1.0, device="ocl")
    if rank == size - 1:
        dist.all_reduce(x, group=last)
        same(x, torch.full((2,), float(size)))
    if rank < 2:
        x = torch.full((2,), rank + 1.0, device="ocl")
        dist.all_reduce(x, group=both)
        same(x, torch.full((2,), 3.0))
        y = torch.full((2,), rank + 1.0)
        dist.all_reduce(y, group=both)
        same(y, torch.full((2,), 3.0), "cpu")


def fails(function, text):
    try:
        function()
    except RuntimeError as error:
        assert text in str(error), error
    else:
        raise AssertionError("no error")


def killed_peer(rank, size):
    """Not among CASES, since nobody is left."""
    x = torch.ones(1 << 20, device="ocl")
    dist.all_reduce(x)
    if rank == 1:
        os.kill(os.getpid(), signal.SIGKILL)
    y = torch.ones(1 << 20, device="ocl")
    fails(lambda: dist.all_reduce(y), "onnection")
    work = dist.irecv(y, 1)
    fails(work.wait, "onnection")
    assert not work.is_success()
    fails(lambda: dist.all_reduce(y, async_op=True).get_future().wait(), "onnection")
    y.fill_(3)
    assert (y + x).sum().item() == 5 * (1 << 20)


def late_peer(rank, size):
    """The time-out of the group counts. Not among CASES, since the group is broken then."""
    group = dist.new_group(timeout=datetime.timedelta(seconds=2))
    x = torch.ones(16, device="ocl")
    dist.all_reduce(x, group=group)
    if rank == 0:
        started = time.monotonic()
        fails(lambda: dist.all_reduce(x, group=group), "imed out")
        assert time.monotonic() - started < 10
    dist.barrier()


OTHERS = {"killed_peer": killed_peer, "late_peer": late_peer}


def main(cases):
    """Runs the cases whose names the command line has, or all of `cases`."""
    rank, size, folder, *names = sys.argv[1:]
    rank, size, folder = int(rank), int(size), pathlib.Path(folder)
    init = f"file://{folder}/store"
    dist.init_process_group("occl", init_method=init, rank=rank, world_size=size, timeout=TIMEOUT)
    torch.ocl.set_device(rank % torch.ocl.device_count())
    for name in names or cases:
        try:
            (cases | OTHERS)[name](rank, size)
        except Exception:
            traceback.print_exc()
            sys.stderr.flush()
            os._exit(1)  # the other ranks would wait for this one
        (folder / f"{name}.{rank}").touch()
    if names != ["killed_peer"]:
        dist.destroy_process_group()


if __name__ == "__main__":
    main(CASES)
