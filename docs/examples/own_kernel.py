"""An operator with a kernel of its own in OpenCL C, that autograd and torch.compile know.

    python docs/examples/own_kernel.py [--device ocl]

Trains a small network whose activation is the operator: x * sigmoid(x), "swish".
"""

import argparse

import torch
from torch import nn

import torch_ocl  # noqa: F401 (the device, also where PyTorch has a GPU of its own)

SOURCE = """
__kernel void swish(__global const float *x, __global float *y) {
  const size_t i = get_global_id(0);
  y[i] = x[i] / (1 + exp(-x[i]));
}

__kernel void swish_backward(__global const float *x, __global const float *dy,
                             __global float *dx) {
  const size_t i = get_global_id(0);
  const float s = 1 / (1 + exp(-x[i]));
  dx[i] = dy[i] * s * (1 + x[i] * (1 - s));
}
"""
library = torch.ocl.compile_kernel(SOURCE)


@torch.library.custom_op("own_kernel::swish", mutates_args=(), device_types="ocl")
def swish(x: torch.Tensor) -> torch.Tensor:
    y = torch.empty(x.shape, device=x.device)
    library.swish(x.contiguous(), y)
    return y


@torch.library.custom_op("own_kernel::swish_backward", mutates_args=(), device_types="ocl")
def swish_backward(x: torch.Tensor, dy: torch.Tensor) -> torch.Tensor:
    dx = torch.empty(x.shape, device=x.device)
    library.swish_backward(x.contiguous(), dy.contiguous(), dx)
    return dx


swish.register_fake(lambda x: torch.empty(x.shape, device=x.device))
swish_backward.register_fake(lambda x, dy: torch.empty(x.shape, device=x.device))
swish.register_autograd(
    lambda ctx, dy: swish_backward(*ctx.saved_tensors, dy),
    setup_context=lambda ctx, inputs, output: ctx.save_for_backward(*inputs),
)


class Network(nn.Module):
    def __init__(self):
        super().__init__()
        self.first, self.last = nn.Linear(1, 32), nn.Linear(32, 1)

    def forward(self, x):
        return self.last(swish(self.first(x)))


def main(arguments=None):
    parser = argparse.ArgumentParser()
    parser.add_argument("--device", default="ocl")
    parser.add_argument("--steps", default=300, type=int)
    args = parser.parse_args(arguments)

    torch.manual_seed(0)
    network = Network().to(args.device)
    step = torch.compile(network, fullgraph=True)
    optimizer = torch.optim.Adam(network.parameters(), lr=0.02)
    x = torch.linspace(-3, 3, 256, device=args.device)[:, None]
    losses = []
    for _ in range(args.steps):
        loss = nn.functional.mse_loss(step(x), x.sin())
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        losses.append(loss.detach())
    losses = torch.stack(losses).tolist()
    print(f"loss {losses[0]:.4f} -> {losses[-1]:.4f}")
    return losses


if __name__ == "__main__":
    main()
