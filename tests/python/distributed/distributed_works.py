"""Cases of test_distributed.py: messages, works and futures, streams, groups, and what fails."""

import datetime
import os
import signal
import threading
import time

import torch
import torch.distributed as dist
from distributed_support import TIMEOUT, case, fails, last_case, numbers, same


@case
def refusals(rank, size):
    for tensor, kind, text in [
        (torch.zeros(4, 6, device="ocl")[:, ::2], ValueError, "must be contiguous"),
        (torch.zeros(4, dtype=torch.bool, device="ocl"), TypeError, "of bool"),
    ]:
        try:
            dist.all_reduce(tensor, dist.ReduceOp.AVG)
        except kind as error:
            assert text in str(error), error
        else:
            raise AssertionError(f"no {kind}")
    parts = [torch.zeros(4, dtype=torch.int32, device="ocl") for _ in range(size)]
    try:
        dist.all_gather_into_tensor(torch.zeros(4 * size, device="ocl"), parts[0])
    except TypeError as error:
        assert "must have one type" in str(error), error
    else:
        raise AssertionError("no TypeError")


@case
def parts_beyond_the_tensor(rank, size):
    x, equal = torch.arange(16.0, device="ocl"), [16 // size] * size
    beyond = [-1000, 1000 + 16 - sum(equal[2:]), *equal[2:]]
    for sizes in (beyond, equal), (equal, beyond):
        try:
            dist.all_to_all_single(torch.zeros_like(x), x, *sizes)
        except ValueError as error:
            assert "a part of -1000 rows, but the tensor has 16" in str(error), error
        else:
            raise AssertionError("no ValueError")


@case
def refused_by_gloo(rank, size):
    """Gloo checks the parts when the memory is mapped: the result stays as it was."""
    x, out, wrong = torch.ones(16, device="ocl"), torch.full((16,), 5.0, device="ocl"), [1] * size
    fails(lambda: dist.all_to_all_single(out, x, wrong, wrong), "plit sizes")
    same(out, torch.full((16,), 5.0))


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
def same_memory(rank, size):
    """Collectives in flight on the same memory see the results of those before, as on a stream."""
    n, total = 1 << 18, sum(range(1, size + 1))
    for _ in range(4):
        x = torch.full((n,), rank + 1.0, device="ocl")
        works = [dist.all_reduce(x, async_op=True) for _ in range(3)]
        for work in works:
            work.wait()
        same(x, torch.full((n,), float(total * size * size)))
        x = torch.full((n,), rank + 1.0, device="ocl")
        whole, part = torch.zeros(size * n, device="ocl"), torch.zeros(n, device="ocl")
        works = [
            dist.all_reduce(x, async_op=True),
            dist.broadcast(x[n // 2 :], 0, async_op=True),
            dist.all_gather_into_tensor(whole, x, async_op=True),
            dist.reduce_scatter_tensor(part, whole, dist.ReduceOp.AVG, async_op=True),
            dist.all_reduce(part, dist.ReduceOp.AVG, async_op=True),
        ]
        for work in reversed(works):
            work.wait()
        same(whole, torch.full((size * n,), float(total)))
        same(part, torch.full((n,), float(total)))


@case
def other_memory(rank, size):
    """Tensors that get other memory during a collective: it uses the memory of the call."""
    n, mean, group = 1 << 12, sum(range(1, size + 1)) / size, dist.new_group()
    for change in ("data", "set_"):
        x, out = torch.full((n,), rank + 1.0, device="ocl"), torch.zeros(n, device="ocl")
        old, result = x.detach(), out.detach()
        other = [torch.zeros(2 * n, device="ocl") for _ in range(2)]
        if rank:
            dist.barrier()
        works = [
            dist.all_reduce(x, dist.ReduceOp.AVG, group, async_op=True),
            # Waits for the first, as it needs the same memory.
            dist.all_reduce(x, dist.ReduceOp.AVG, group, async_op=True),
            dist.all_to_all_single(out, x, group=group, async_op=True),
        ]
        if not rank:
            for tensor, new in zip((x, out), other):
                if change == "data":
                    tensor.data = new
                else:
                    tensor.set_(new)
            dist.barrier()
        for work in works:
            work.wait()
        same(old, torch.full((n,), mean))
        same(result, torch.full((n,), mean))
        for tensor in other:
            same(tensor, torch.zeros(2 * n))


@case
def resized_memory(rank, size):
    """Memory in flight cannot be resized, even if its collective has not begun."""
    group = dist.new_group()
    x, y = (torch.full((1 << 12,), float(rank), device="ocl") for _ in range(2))
    if rank:
        dist.barrier()
    works = [dist.all_reduce(x, group=group, async_op=True)]
    works.append(dist.all_to_all_single(y, x, group=group, async_op=True))  # after the first
    if not rank:
        for tensor in (x, y):
            fails(lambda t=tensor: t.untyped_storage().resize_(0), "not resizable")
            fails(lambda t=tensor: t.resize_(1 << 20), "not resizable")
        dist.barrier()
    for work in works:
        work.wait()
    same(y, torch.full((1 << 12,), float(sum(range(size)))))
    for tensor in (x, y):
        tensor.untyped_storage().resize_(0)


@case
def synchronized(rank, size):
    """As with NCCL, the device has finished only when its collectives and messages have."""
    following, former = (rank + 1) % size, (rank - 1) % size
    for _ in range(3):
        x, y = torch.ones(1 << 10, device="ocl"), torch.zeros(1 << 10, device="ocl")
        if rank:
            time.sleep(0.2)  # a late peer
        dist.all_reduce(x, async_op=True)
        torch.ocl.synchronize()
        same(x, torch.full((1 << 10,), float(size)))
        dist.isend(x, following)
        dist.irecv(y, former)
        torch.ocl.synchronize()
        same(y, torch.full((1 << 10,), float(size)))
    # In a callback, on a thread that other works may need, it does not wait for them.
    work = dist.all_reduce(x, async_op=True)
    callback = work.get_future().then(lambda future: torch.ocl.synchronize() or 7)
    assert callback.wait() == 7


@case
def polled(rank, size):
    """Kernels on any stream see the results of a work that is_completed() says has ended."""
    for turn in range(20):
        x = torch.ones(1 << 21, device="ocl")
        if turn % 2:
            work = dist.all_reduce(x, async_op=True)
        else:
            with dist._coalescing_manager(device=x.device, async_ops=True) as manager:
                dist.all_reduce(x)
            work = manager.works[0]
        while not work.is_completed():
            pass
        assert (x[-1] + 1).item() == size + 1
        work.wait()


@case
def messages_do_not_wait(rank, size):
    """A peer may need a message before it calls the collectives that were called first here."""
    following, former = (rank + 1) % size, (rank - 1) % size
    x, y = torch.zeros(9, device="ocl"), torch.full((9,), float(rank), device="ocl")
    if rank == 1:
        dist.recv(y, 0)
    works = [dist.all_reduce(x, async_op=True) for _ in range(2)]
    if rank == 0:
        works.append(dist.isend(y, 1))
    for work in works:
        work.wait()
    same(y, torch.full((9,), float(rank if rank != 1 else 0)))
    # Collectives on the same memory: the result is undefined, but all of them end.
    works = [dist.irecv(x, former), dist.irecv(x, former), dist.isend(x, following)]
    dist.all_reduce(x)
    works += [dist.isend(x, following)]
    for work in works:
        work.wait()


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
def callbacks_that_wait(rank, size):
    """DDP's PowerSGD hook waits for collectives in callbacks of others."""
    count = 4  # more than Gloo has threads
    store = dist.distributed_c10d._get_default_store()
    # Nothing completes before the last rank begins, when the others have added their callbacks.
    last = rank == size - 1
    if last:
        store.wait([f"callbacks_that_wait.{other}" for other in range(size - 1)])
    works = [dist.all_reduce(torch.ones(3, device="ocl"), async_op=True) for _ in range(count)]
    all_run = threading.Barrier(count, timeout=TIMEOUT.seconds)

    def again(future):
        if not last:
            all_run.wait()
        return dist.all_reduce(future.value()[0], async_op=True).get_future().wait()[0]

    futures = [work.get_future().then(again) for work in works]
    if not last:
        store.set(f"callbacks_that_wait.{rank}", "added")
    for future in futures:
        same(future.wait(), torch.full((3,), float(size**2)))


@case
def barriers(rank, size):
    dist.barrier()
    dist.barrier(async_op=True).wait()
    x = numbers(rank)
    dist.all_reduce(x)
    same(x, sum(numbers(r) for r in range(size)), "cpu")


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


@case
def objects(rank, size):
    """Python objects, with tensors in them."""
    mine = {"rank": rank, "tensor": torch.full((2,), float(rank), device="ocl")}
    everything = [None] * size
    dist.all_gather_object(everything, mine)
    assert [one["tensor"].tolist() for one in everything] == [[float(r)] * 2 for r in range(size)]
    gathered = [None] * size if rank == 0 else None
    dist.gather_object(rank, gathered)
    assert rank or gathered == [*range(size)]
    given = [None]
    dist.scatter_object_list(given, [f"for {r}" for r in range(size)] if rank == 0 else None)
    assert given == [f"for {rank}"]
    if rank == 0:
        dist.send_object_list(["message"], dst=1)
    if rank == 1:
        received = [None]
        dist.recv_object_list(received, src=0)
        assert received == ["message"]


@case
def monitored_barrier(rank, size):
    dist.all_reduce(torch.ones(9, device="ocl"), async_op=True)
    group = dist.new_group()  # dist.monitored_barrier takes groups of the backend "gloo" only
    group.monitored_barrier()
    if rank == 0:
        late = datetime.timedelta(seconds=0.5)
        fails(lambda: group.monitored_barrier(late, wait_all_ranks=True), "failed to pass")


@case
def sparse_all_reduce(rank, size):
    rows = torch.tensor([[rank, rank + 1, 7]])
    x = torch.sparse_coo_tensor(rows, torch.ones(3, 2), (9, 2))
    expected = torch.zeros(9, 2)
    for r in range(size):
        expected[r] += 1
        expected[r + 1] += 1
        expected[7] += 1
    for ocl in x.to("ocl"), x.to("ocl").coalesce():
        dist.all_reduce(ocl)
        assert ocl.is_sparse
        same(ocl.to_dense(), expected)
    for _ in range(4):
        ocl = x.to("ocl")
        works = [dist.all_reduce(ocl, async_op=True) for _ in range(3)]
        for work in works:
            work.wait()
        same(ocl.to_dense(), expected * size * size)


@last_case
def killed_peer(rank, size):
    x = torch.ones(1 << 20, device="ocl")
    dist.all_reduce(x)
    if rank == 1:
        os.kill(os.getpid(), signal.SIGKILL)
    y = torch.ones(1 << 20, device="ocl")
    fails(lambda: dist.all_reduce(y), "onnection")
    for work in [dist.all_reduce(y, async_op=True) for _ in range(2)]:
        fails(work.wait, "onnection")
    work = dist.irecv(y, 1)
    fails(work.wait, "onnection")
    assert not work.is_success()
    fails(lambda: dist.all_reduce(y, async_op=True).get_future().wait(), "onnection")
    y.fill_(3)
    assert (y + x).sum().item() == 5 * (1 << 20)


@case
def late_peer(rank, size):
    """A collective that one rank does not join ends with the time-out of its group."""
    group = dist.new_group(timeout=datetime.timedelta(seconds=5))  # broken afterwards
    x = torch.ones(16, device="ocl")
    dist.all_reduce(x, group=group)
    if rank == 0:
        started = time.monotonic()
        fails(lambda: dist.all_reduce(x, group=group), "imed out")
        assert time.monotonic() - started < TIMEOUT.total_seconds()
    dist.barrier()
