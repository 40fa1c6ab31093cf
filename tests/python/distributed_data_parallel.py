"""Cases of test_distributed.py: DistributedDataParallel and what goes with it. Several ranks give
what one process gives."""

import torch
from distributed_support import case, close, network, random, train
from torch.distributed.optim import ZeroRedundancyOptimizer


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
