"""Cases of test_distributed.py: each collective, on ocl tensors that each rank knows of all."""

import torch
import torch.distributed as dist
from distributed_support import case, numbers, same

TYPES = [torch.float32, torch.float16, torch.bfloat16, torch.int64, torch.int32, torch.uint8]


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
def bool_and_means_of_integers(rank, size):
    """As with NCCL, the sum of bool is "or", and means of integers are rounded towards zero."""
    R, everyone = dist.ReduceOp, range(size)

    def flags(r):
        return numbers(r, (64,)) > 6

    any_of = reduction(R.MAX, [flags(r) for r in everyone])
    all_of = reduction(R.MIN, [flags(r) for r in everyone])
    for op, expected in (R.SUM, any_of), (R.MAX, any_of), (R.PRODUCT, all_of), (R.MIN, all_of):
        x = flags(rank).to("ocl")
        dist.all_reduce(x, op)
        same(x.view(torch.uint8), expected.byte())
        x = flags(rank).to("ocl")
        dist.reduce(x, 0, op)
        same(x.view(torch.uint8), (flags(rank) if rank else expected).byte())
        parts = [torch.zeros(64 // size, dtype=torch.bool, device="ocl") for _ in range(2)]
        dist.reduce_scatter_tensor(parts[0], flags(rank).to("ocl"), op)
        dist.reduce_scatter(parts[1], [*flags(rank).to("ocl").chunk(size)], op)
        for part in parts:
            same(part.view(torch.uint8), expected.chunk(size)[rank].byte())
    x = [flags(rank).to("ocl"), flags(rank).to("ocl")]
    dist.all_reduce_coalesced(x)
    for each in x:
        same(each.view(torch.uint8), any_of.byte())

    for dtype in torch.int32, torch.int64, torch.int8, torch.uint8:
        mine = [numbers(r, (8,), dtype) - (4 if dtype.is_signed else 0) for r in everyone]
        expected = torch.div(sum(mine), size, rounding_mode="trunc")
        x = mine[rank].to("ocl")
        dist.all_reduce(x, R.AVG)
        same(x, expected)
        part = torch.zeros(8 // size, dtype=dtype, device="ocl")
        dist.reduce_scatter_tensor(part, mine[rank].to("ocl"), R.AVG)
        same(part, expected.chunk(size)[rank])


MOVED_TYPES = [
    torch.bool,
    torch.int16,
    torch.uint16,
    torch.uint32,
    torch.uint64,
    torch.float8_e4m3fn,
    torch.float8_e5m2,
    torch.complex64,
]


@case
def types_that_only_move(rank, size):
    """Gloo cannot reduce all types, but their bytes can go anywhere."""
    for dtype in MOVED_TYPES:
        everyone = [numbers(r, (2 * size, 3), torch.uint8).to(dtype) for r in range(size)]

        def check(result, expected, dtype=dtype):
            assert result.dtype == dtype
            same(result.view(torch.uint8), expected.contiguous().view(torch.uint8))

        def zeros(*shape, dtype=dtype):
            return torch.zeros(shape, dtype=torch.uint8).to(dtype).to("ocl")

        def mine(dtype=dtype, everyone=everyone):
            return everyone[rank].to("ocl")

        x = mine()
        dist.broadcast(x, 1)
        check(x, everyone[1])
        parts = [zeros(2 * size, 3) for _ in range(size)]
        dist.all_gather(parts, mine())
        for part, expected in zip(parts, everyone, strict=True):
            check(part, expected)
        whole = zeros(2 * size * size, 3)
        dist.all_gather_into_tensor(whole, mine())
        check(whole, torch.cat([each.view(torch.uint8) for each in everyone]).view(dtype))
        dist.gather(mine(), parts if rank == 0 else None, 0)
        x = zeros(2 * size, 3)
        dist.scatter(x, parts if rank == 0 else None, 0)
        check(x, everyone[rank])
        exchanged = [each.chunk(size)[rank].view(torch.uint8) for each in everyone]
        expected = torch.cat(exchanged).view(dtype)
        x = zeros(2 * size, 3)
        dist.all_to_all_single(x, mine())
        check(x, expected)
        x = zeros(2 * size, 3)
        dist.all_to_all_single(x, mine(), [2] * size, [2] * size)
        check(x, expected)
        outputs = [zeros(2, 3) for _ in range(size)]
        dist.all_to_all(outputs, [*mine().chunk(size)])
        for output, part in zip(outputs, exchanged, strict=True):
            check(output, part.view(dtype))


@case
def parts_of_different_sizes(rank, size):
    """NCCL makes these collectives of broadcasts and reduces."""
    everyone = [numbers(r, (3 * r + 1, 2)) for r in range(size)]
    for turn in range(2):
        parts = [torch.zeros(3 * r + 1, 2, device="ocl") for r in range(size)]
        mine = everyone[rank].to("ocl")
        if turn:  # in place
            parts[rank].copy_(mine)
            mine = parts[rank]
        dist.all_gather(parts, mine)
        for part, expected in zip(parts, everyone, strict=True):
            same(part, expected)
    R = dist.ReduceOp
    inputs = [[numbers(10 * r + i, (i + 1, 5)) for i in range(size)] for r in range(size)]
    for op in R.SUM, R.AVG, R.MAX:
        x = torch.zeros(rank + 1, 5, device="ocl")
        dist.reduce_scatter(x, [part.to("ocl") for part in inputs[rank]], op)
        same(x, reduction(op, [inputs[r][rank] for r in range(size)]))
    # Some have no elements.
    parts = [torch.zeros(4 * (r % 2), device="ocl") for r in range(size)]
    dist.all_gather(parts, torch.full((4 * (rank % 2),), float(rank), device="ocl"))
    for other, part in enumerate(parts):
        same(part, torch.full((4 * (other % 2),), float(other)))


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
        if hasattr(dist, "gather_single"):  # PyTorch 2.14
            whole = torch.zeros(3 * size, 5, device="ocl") if rank == root else None
            dist.gather_single(numbers(rank).to("ocl"), whole, dst=root)
            if rank == root:
                same(whole, torch.cat([numbers(other) for other in range(size)]))
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
