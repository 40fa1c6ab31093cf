"""Cases of test_distributed.py: parameters and tensors that are spread over the ranks."""

import sys
import tempfile

import torch
import torch.distributed as dist
import torch.distributed.checkpoint as checkpoint
from distributed_support import case, close, network, random, same, train
from torch.distributed.device_mesh import init_device_mesh
from torch.distributed.fsdp import CPUOffloadPolicy, MixedPrecisionPolicy, fully_shard
from torch.distributed.pipelining import PipelineStage, Schedule1F1B, ScheduleGPipe
from torch.distributed.tensor import Replicate, Shard, distribute_tensor
from torch.distributed.tensor.parallel import ColwiseParallel, RowwiseParallel, parallelize_module
from torch.nn.functional import cross_entropy


@case
def fully_sharded(rank, size):
    """FSDP2: parameters, gradients and the optimizer's state are spread over the ranks."""
    images, labels = random(4 * size, 3, 6, 6), (torch.arange(4 * size) % 10).to("ocl")
    alone, model = network(), network()
    train(alone, images, labels, steps=3)
    mesh = init_device_mesh("ocl", (size,))
    model = sharded(model, mesh)
    mine = slice(4 * rank, 4 * rank + 4)
    train(model, images[mine], labels[mine], steps=3)
    for ours, theirs in zip(model.parameters(), alone.parameters(), strict=True):
        assert ours.to_local().device.type == "ocl"
        close(ours.full_tensor(), theirs)


def sharded(model, mesh, **options):
    for layer in model:
        if list(layer.parameters()):
            fully_shard(layer, mesh=mesh, **options)
    return fully_shard(model, mesh=mesh, **options)


@case
def fully_sharded_options(rank, size):
    """Mixed precision, parameters in the host's memory, groups of replicas, accumulation."""
    images, labels = random(4 * size, 3, 6, 6), (torch.arange(4 * size) % 10).to("ocl")
    mine = slice(4 * rank, 4 * rank + 4)
    alone = network()
    cross_entropy(alone(images), labels).backward()
    mesh = init_device_mesh("ocl", (size,))
    mixed = MixedPrecisionPolicy(param_dtype=torch.bfloat16, reduce_dtype=torch.float32)
    both = init_device_mesh("ocl", (2, size // 2), mesh_dim_names=("replicas", "shards"))
    for ranks, options, device, tolerance in [
        (mesh, {"mp_policy": mixed}, "ocl", {"rtol": 3e-2, "atol": 1e-2}),
        (mesh, {"offload_policy": CPUOffloadPolicy(pin_memory=False)}, "cpu", {}),
        (mesh, {"reshard_after_forward": False}, "ocl", {}),
        (both, {}, "ocl", {}),
    ]:
        model = sharded(network(), ranks, **options)
        cross_entropy(model(images[mine]).float(), labels[mine]).backward()
        for ours, theirs in zip(model.parameters(), alone.parameters(), strict=True):
            assert ours.grad.to_local().device.type == device
            gradient = ours.grad if device == "ocl" else ours.grad.to("ocl")
            close(gradient.full_tensor(), theirs.grad, **tolerance)
    model = sharded(network(), mesh)
    for last in False, True:
        model.set_requires_gradient_sync(last)
        (cross_entropy(model(images[mine]), labels[mine]) / 2).backward()
    for ours, theirs in zip(model.parameters(), alone.parameters(), strict=True):
        close(ours.grad.full_tensor(), theirs.grad)


@case
def pipeline(rank, size):
    """A layer on each rank; micro-batches travel through them."""

    def layers():
        torch.manual_seed(17)
        return [torch.nn.Linear(8, 8).to("ocl") for _ in range(size)]

    def loss(output, target):
        return (output - target).square().mean()

    x, target = random(8, 8), random(8, 8) + 1
    alone = torch.nn.Sequential(*layers())
    expected = alone(x)
    loss(expected, target).backward()
    for schedule in ScheduleGPipe, Schedule1F1B:
        layer = layers()[rank]
        stage = PipelineStage(layer, rank, size, torch.device("ocl", torch.ocl.current_device()))
        step = schedule(stage, n_microbatches=4, loss_fn=loss).step
        if rank == 0:
            step(x)
        elif rank == size - 1:
            losses = []
            close(step(target=target, losses=losses), expected)
            assert len(losses) == 4
        else:
            step()
        close(layer.weight.grad, alone[rank].weight.grad)


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
    for one in alone, model:
        one(x).square().sum().backward()
    close(model(x), alone(x))
    for ours, theirs in zip(model.parameters(), alone.parameters(), strict=True):
        close(ours.grad.full_tensor(), theirs.grad)


@case
def checkpoint_with_resharding(rank, size):
    """Tensors that were saved in rows can be loaded in columns."""
    folder = [tempfile.mkdtemp(dir=sys.argv[1]) if rank == 0 else None]
    dist.broadcast_object_list(folder)
    mesh = init_device_mesh("ocl", (size,))
    x = random(8, 12)
    checkpoint.save({"x": distribute_tensor(x, mesh, [Shard(0)])}, checkpoint_id=folder[0])
    loaded = {"x": distribute_tensor(torch.zeros_like(x), mesh, [Shard(1)])}
    checkpoint.load(loaded, checkpoint_id=folder[0])
    same(loaded["x"].full_tensor(), x.cpu())
