"""Helpers for the tables of cases.

A case is a function of a maker of tensors and a size. It returns tensors, which are compared
between the CPU and the device.
"""

import torch

# Below a work-group, odd, and more than a group of 256 work-items with a tail.
SIZES = (3, 37, 270)


class Maker:
    """Tensors that are equal on each device that they are made for."""

    def __init__(self, device):
        self.device = device
        self.generator = torch.Generator().manual_seed(1)

    def __call__(self, *shape, grad=False):
        """Normal numbers."""
        return self.copied(torch.randn(shape, generator=self.generator)).requires_grad_(grad)

    def integers(self, high, *shape, dtype=torch.int64):
        numbers = torch.randint(0, high, shape, generator=self.generator)
        return self.copied(numbers.to(dtype))

    def permutation(self, n):
        return self.copied(torch.randperm(n, generator=self.generator))

    def copied(self, x):
        return x.to(self.device)


def with_gradients(result, *leaves):
    """[result, gradients of the leaves]; the gradient of the result is like a ramp."""
    ramp = torch.linspace(-1, 2, result.numel()).view(result.shape).to(result.device)
    return [result, *torch.autograd.grad(result, leaves, ramp)]
