"""Cases of test_distributed.py: training on several ranks gives what one process gives.

usage: as distributed_cases.py
"""

import sys
import tempfile

import torch
import torch.distributed as dist
from distributed_cases import main, same
from torch.distributed.device_mesh import init_device_mesh

CASES = {}


def case(function):
    CASES[function.__name__] = function
    return function


def random(*shape):
    return torch.randn(shape, generator=torch.Generator().manual_seed(len(shape))).to("ocl")


def close(actual, expected):
    torch.testing.assert_close(actual.cpu(), expected.cpu(), rtol=1e-4, atol=1e-5)


def network():
    torch.manual_seed(5)
    return torch.nn.Sequential(
        torch.nn.Conv2d(3, 8, 3, padding=1),
        torch.nn.BatchNorm2d(8).eval(),
        torch.nn.ReLU(),
        torch.nn.Flatten(),
        torch.nn.Linear(8 * 36, 64),
        torch.nn.ReLU(),
        torch.nn.Linear(64, 10),
    ).to("ocl")


def train(model, images, labels, steps):
    optimizer = torch.optim.SGD(model.parameters(), lr=0.05, momentum=0.9)
    for _ in range(steps):
        optimizer.zero_grad()
        torch.nn.functional.cross_entropy(model(images), labels).backward()
        optimizer.step()


@case
def data_parallel(rank, size):
    """Parts of a batch on several ranks give what one process makes of the whole."""
    images, labels = random(4 * size, 3, 6, 6), (torch.arange(4 * size) % 10).to("ocl")
    alone = network()
    train(alone, images, labels, steps=4)
    for options in [
        {"bucket_cap_mb": 0.01},
        {"static_graph": True, "gradient_as_bucket_view": True},
        {"find_unused_parameters": True},
    ]:
        model = torch.nn.parallel.DistributedDataParallel(network(), **options)
        mine = slice(4 * rank, 4 * rank + 4)
        train(model, images[mine], labels[mine], steps=4)
        for ours, theirs in zip(model.module.parameters(), alone.parameters(), strict=True):
            close(ours, theirs)


@case
def fully_sharded(rank, size):
    """FSDP2: parameters, gradients and the optimizer's state are spread over the ranks."""
    from torch.distributed.fsdp import fully_shard

    images, labels = random(4 * size, 3, 6, 6), (torch.arange(4 * size) % 10).to("ocl")
    alone, model = network(), network()
    train(alone, images, labels, steps=3)
    mesh = init_device_mesh("ocl", (size,))
    for layer in model:
        if list(layer.parameters()):
            fully_shard(layer, mesh=mesh)
    fully_shard(model, mesh=mesh)
    mine = slice(4 * rank, 4 * rank + 4)
    train(model, images[mine], labels[mine], steps=3)
    for ours, theirs in zip(model.parameters(), alone.parameters(), strict=True):
        assert ours.to_local().device.type == "ocl"
        close(ours.full_tensor(), theirs)


@case
def sharded_tensors(rank, size):
    from torch.distributed.tensor import Replicate, Shard, distribute_tensor

    mesh = init_device_mesh("ocl", (size,))
    x, w = random(8, 12), random(12, 4)
    rows, inner = distribute_tensor(x, mesh, [Shard(0)]), distribute_tensor(w, mesh, [Shard(0)])
    close((rows @ inner).full_tensor(), x @ w)
    same(rows.redistribute(mesh, [Shard(1)]).full_tensor(), x.cpu())
    same(rows.redistribute(mesh, [Replicate()]).to_local(), x.cpu())


@case
def tensor_parallel(rank, size):
    from torch.distributed.tensor.parallel import (
        ColwiseParallel,
        RowwiseParallel,
        parallelize_module,
    )

    def perceptron():
        torch.manual_seed(3)
        layers = torch.nn.Linear(8, 16), torch.nn.ReLU(), torch.nn.Linear(16, 8)
        return torch.nn.Sequential(*layers).to("ocl")

    plan = {"0": ColwiseParallel(), "2": RowwiseParallel()}
    alone = perceptron()
    model = parallelize_module(perceptron(), init_device_mesh("ocl", (size,)), plan)
    x = random(4, 8)
    for network in alone, model:
        network(x).square().sum().backward()
    close(model(x), alone(x))
    for ours, theirs in zip(model.parameters(), alone.parameters(), strict=True):
        close(ours.grad.full_tensor(), theirs.grad)


@case
def zero_redundancy(rank, size):
    from torch.distributed.optim import ZeroRedundancyOptimizer

    alone, model, x = network(), network(), random(4, 3, 6, 6)
    optimizers = [
        torch.optim.Adam(alone.parameters(), lr=0.01),
        ZeroRedundancyOptimizer(model.parameters(), torch.optim.Adam, lr=0.01),
    ]
    for _ in range(3):
        for one, optimizer in zip((alone, model), optimizers, strict=True):
            optimizer.zero_grad()
            one(x).square().mean().backward()
            optimizer.step()
    for ours, theirs in zip(model.parameters(), alone.parameters(), strict=True):
        close(ours, theirs)


@case
def checkpoint_with_resharding(rank, size):
    """What was saved in rows can be loaded in columns."""
    import torch.distributed.checkpoint as checkpoint
    from torch.distributed.tensor import Shard, distribute_tensor

    folder = [tempfile.mkdtemp(dir=sys.argv[3]) if rank == 0 else None]
    dist.broadcast_object_list(folder)
    mesh = init_device_mesh("ocl", (size,))
    x = random(8, 12)
    checkpoint.save({"x": distribute_tensor(x, mesh, [Shard(0)])}, checkpoint_id=folder[0])
    loaded = {"x": distribute_tensor(torch.zeros_like(x), mesh, [Shard(1)])}
    checkpoint.load(loaded, checkpoint_id=folder[0])
    same(loaded["x"].full_tensor(), x.cpu())


if __name__ == "__main__":
    main(CASES)
