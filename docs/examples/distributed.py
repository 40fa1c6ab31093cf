"""Trains one model in several processes, each on a device of its own if there are enough.

    torchrun --nproc-per-node=2 docs/examples/distributed.py

Each process computes the gradients of its part of the data; DistributedDataParallel makes their
mean while the backward pass goes on, so that the weights remain equal.
"""

import os

import torch
import torch.distributed as dist
from torch import nn
from torch.nn.parallel import DistributedDataParallel
from torch.utils.data import DataLoader, DistributedSampler, TensorDataset

import torch_ocl  # noqa: F401 (the device, also where PyTorch has a GPU of its own)


def main(epochs=10):
    dist.init_process_group("occl")
    device = f"ocl:{int(os.environ['LOCAL_RANK']) % torch.ocl.device_count()}"
    torch.ocl.set_device(device)

    generator = torch.Generator().manual_seed(0)
    x = torch.randn(1024, 16, generator=generator)
    y = x @ torch.randn(16, 1, generator=generator)  # what the model has to find
    data = TensorDataset(x, y)
    sampler = DistributedSampler(data)
    loader = DataLoader(data, batch_size=32, sampler=sampler)

    model = DistributedDataParallel(nn.Linear(16, 1).to(device))
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    for epoch in range(epochs):
        sampler.set_epoch(epoch)
        for inputs, target in loader:
            loss = nn.functional.mse_loss(model(inputs.to(device)), target.to(device))
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
    dist.all_reduce(loss.detach(), op=dist.ReduceOp.AVG)
    if dist.get_rank() == 0:
        name = torch.ocl.get_device_properties(device).name
        print(f"{dist.get_world_size()} processes, {name}: loss {loss.item():.2e}")
    dist.destroy_process_group()


if __name__ == "__main__":
    main()
