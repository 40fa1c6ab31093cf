"""Cases of test_distributed.py: DistributedDataParallel and what goes with it. Several ranks give
what one process gives."""

import os
import unittest.mock

import torch
import torch.distributed as dist
from distributed_support import case, close, network, random, train
from support import on_the_stern_device
from torch.distributed.algorithms.ddp_comm_hooks import default_hooks, powerSGD_hook
from torch.distributed.optim import ZeroRedundancyOptimizer
from torch.nn.functional import cross_entropy
from torch.nn.parallel import DistributedDataParallel


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
        model = DistributedDataParallel(network(), **options)
        mine = slice(4 * rank, 4 * rank + 4)
        train(model, images[mine], labels[mine], steps=4)
        for ours, theirs in zip(model.module.parameters(), alone.parameters(), strict=True):
            close(ours, theirs)


@case
def zero_redundancy(rank, size):
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


def batch(rank, size):
    """The images and labels of all, and the rows of a rank."""
    images, labels = random(4 * size, 3, 6, 6), (torch.arange(4 * size) % 10).to("ocl")
    return images, labels, slice(4 * rank, 4 * rank + 4)


def same_gradients(ours, theirs, **tolerance):
    for one, other in zip(ours.parameters(), theirs.parameters(), strict=True):
        close(one.grad, other.grad, **tolerance)


@case
def overlap(rank, size):
    """An all-reduce ends while the backward pass has enqueued all its kernels and they still run:
    neither the host nor the device has waited for it."""
    layers = [torch.nn.Linear(512, 512, bias=False) for _ in range(8)]
    model = DistributedDataParallel(torch.nn.Sequential(*layers).to("ocl"), bucket_cap_mb=1)
    model._set_ddp_runtime_logging_sample_rate(1)
    backward_end, seen = torch.ocl.Event(), []
    layers[0].weight.register_hook(lambda gradient: backward_end.record())

    def all_reduce(state, bucket):
        future = dist.all_reduce(bucket.buffer(), async_op=True).get_future()

        def ended(future):
            enqueued = bool(backward_end.event_id)
            seen.append(enqueued and not backward_end.query())
            return future.value()[0]

        return future.then(ended)

    model.register_comm_hook(None, all_reduce)
    x = torch.ones(8192, 512, device="ocl")

    def overlaps():
        nonlocal backward_end
        backward_end = torch.ocl.Event()
        seen.clear()
        loss = model(x).sum()
        torch.ocl.synchronize()
        dist.barrier()
        loss.backward()
        found = torch.tensor(float(seen[0]), device="ocl")
        dist.all_reduce(found, dist.ReduceOp.MAX)
        return bool(found.item())

    overlaps()  # the buckets are made anew after the first iteration
    # Ranks that share processors may be slower than others, which then wait for them.
    assert any(overlaps() for _ in range(5)), seen
    assert len(seen) == 8, seen
    model(x)
    times = model._get_ddp_logging_data()
    if not on_the_stern_device():  # the stern device prints overlaps
        overlap = times["avg_backward_compute_comm_overlap_time"]
        assert 0 < overlap <= times["avg_backward_compute_time"]


@case
def gradient_accumulation(rank, size):
    images, labels, mine = batch(rank, size)
    alone, model = network(), DistributedDataParallel(network())
    for _ in range(2):
        cross_entropy(alone(images), labels).backward()
    with model.no_sync():
        cross_entropy(model(images[mine]), labels[mine]).backward()
    cross_entropy(model(images[mine]), labels[mine]).backward()
    same_gradients(model, alone)


@case
def communication_hooks(rank, size):
    images, labels, mine = batch(rank, size)
    alone = network()
    cross_entropy(alone(images), labels).backward()
    power = powerSGD_hook.PowerSGDState(None, start_powerSGD_iter=2)
    for state, hook in [
        (None, default_hooks.allreduce_hook),
        (None, default_hooks.fp16_compress_hook),
        (None, default_hooks.fp16_compress_wrapper(default_hooks.allreduce_hook)),
        (power, powerSGD_hook.powerSGD_hook),
    ]:
        model = DistributedDataParallel(network())
        model.register_comm_hook(state, hook)
        for _ in range(3 if state else 1):
            model.zero_grad()
            cross_entropy(model(images[mine]), labels[mine]).backward()
        if not state:  # PowerSGD is lossy
            same_gradients(model, alone, rtol=2e-2, atol=1e-3)


class Branches(torch.nn.Module):
    def __init__(self):
        super().__init__()
        torch.manual_seed(7)
        self.branches = torch.nn.ModuleList(torch.nn.Linear(6, 6) for _ in range(3))

    def forward(self, x, branch):
        return self.branches[branch](x)


@case
def unused_parameters(rank, size):
    """Ranks use other parameters, and one is used by none."""
    alone, x = Branches().to("ocl"), random(4, 6)
    for other in range(size):
        (alone(x, other % 2).square().mean() / size).backward()
    model = DistributedDataParallel(Branches().to("ocl"), find_unused_parameters=True)
    model(x, rank % 2).square().mean().backward()
    for ours, theirs in zip(model.module.branches[:2], alone.branches[:2], strict=True):
        same_gradients(ours, theirs)
    assert all(parameter.grad is None for parameter in model.module.branches[2].parameters())


@case
def uneven_inputs(rank, size):
    """Ranks whose inputs end earlier follow the others' collectives."""
    torch.manual_seed(11)
    alone = torch.nn.Linear(6, 3).to("ocl")
    model = DistributedDataParallel(torch.nn.Linear(6, 3).to("ocl"))
    model.module.load_state_dict(alone.state_dict())
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    x = random(4, 6)
    with model.join():
        for step in range(2 + rank):
            optimizer.zero_grad()
            model(x + step).square().mean().backward()
            optimizer.step()
    optimizer = torch.optim.SGD(alone.parameters(), lr=0.1)
    for step in range(1 + size):
        optimizer.zero_grad()
        active = sum(step < 2 + other for other in range(size))
        (alone(x + step).square().mean() * active / size).backward()
        optimizer.step()
    for ours, theirs in zip(model.module.parameters(), alone.parameters(), strict=True):
        close(ours, theirs)


@case
def sync_batch_norm(rank, size):
    images, labels, mine = batch(rank, size)
    alone = network().train()
    model = torch.nn.SyncBatchNorm.convert_sync_batchnorm(network().train())
    model = DistributedDataParallel(model)
    cross_entropy(alone(images), labels).backward()
    cross_entropy(model(images[mine]), labels[mine]).backward()
    same_gradients(model, alone)
    for ours, theirs in zip(model.module.buffers(), alone.buffers(), strict=True):
        close(ours, theirs)


@case
def mixed_precision(rank, size):
    """Autocast and a scaler around DistributedDataParallel."""
    torch.manual_seed(19)
    alone = torch.nn.Linear(8, 4).to("ocl")
    model = DistributedDataParallel(torch.nn.Linear(8, 4).to("ocl"))
    model.module.load_state_dict(alone.state_dict())
    x = random(4 * size, 8)
    alone(x).square().mean().backward()
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    scaler = torch.amp.GradScaler("ocl", init_scale=64.0)
    with torch.autocast("ocl", torch.float16):
        loss = model(x[4 * rank : 4 * rank + 4]).float().square().mean()
    scaler.scale(loss).backward()
    # PyTorch computes the reciprocal of the scale in float64.
    has_fp64 = torch.ocl.get_device_properties().has_fp64
    policy = {} if has_fp64 else {"OCL_FALLBACK": "allow"}
    with unittest.mock.patch.dict(os.environ, policy):
        scaler.unscale_(optimizer)
    same_gradients(model, alone, rtol=3e-2, atol=3e-3)
    scaler.step(optimizer)
    scaler.update()


@case
def sparse_gradients(rank, size):
    """An embedding's rows that ranks use are others on each."""
    torch.manual_seed(13)
    alone = torch.nn.Embedding(20, 4, sparse=True).to("ocl")
    model = DistributedDataParallel(torch.nn.Embedding(20, 4, sparse=True).to("ocl"))
    model.module.load_state_dict(alone.state_dict())
    rows = torch.arange(6 * size).to("ocl") * 3 % 20
    alone(rows).square().sum().backward()
    model(rows[6 * rank : 6 * rank + 6]).square().sum().backward()
    assert model.module.weight.grad.is_sparse
    close(model.module.weight.grad.to_dense() * size, alone.weight.grad.to_dense())
