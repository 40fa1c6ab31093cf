"""Cases of test_distributed.py: parameters and tensors that are spread over the ranks."""

import sys
import tempfile

import torch
import torch.distributed as dist
import torch.distributed.checkpoint as checkpoint
from distributed_support import case, close, network, random, same, train
from torch.distributed.device_mesh import init_device_mesh
from torch.distributed.fsdp import fully_shard
from torch.distributed.tensor import Replicate, Shard, distribute_tensor
from torch.distributed.tensor.parallel import ColwiseParallel, RowwiseParallel, parallelize_module


@case
def fully_sharded(rank, size):
    """FSDP2: parameters, gradients and the optimizer's state are spread over the ranks."""
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
    mesh = init_device_mesh("ocl", (size,))
    x, w = random(8, 12), random(12, 4)
    rows, inner = distribute_tensor(x, mesh, [Shard(0)]), distribute_tensor(w, mesh, [Shard(0)])
    close((rows @ inner).full_tensor(), x @ w)
    same(rows.redistribute(mesh, [Shard(1)]).full_tensor(), x.cpu())
    same(rows.redistribute(mesh, [Replicate()]).to_local(), x.cpu())


@case
def tensor_parallel(rank, size):
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
def checkpoint_with_resharding(rank, size):
    """What was saved in rows can be loaded in columns."""
    folder = [tempfile.mkdtemp(dir=sys.argv[1]) if rank == 0 else None]
    dist.broadcast_object_list(folder)
    mesh = init_device_mesh("ocl", (size,))
    x = random(8, 12)
    checkpoint.save({"x": distribute_tensor(x, mesh, [Shard(0)])}, checkpoint_id=folder[0])
    loaded = {"x": distribute_tensor(torch.zeros_like(x), mesh, [Shard(1)])}
    checkpoint.load(loaded, checkpoint_id=folder[0])
    same(loaded["x"].full_tensor(), x.cpu())
