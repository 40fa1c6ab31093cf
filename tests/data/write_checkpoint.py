"""Writes the checkpoint of a version, which later versions must read: before each release.

usage: python tests/data/write_checkpoint.py tests/data/checkpoint_0.1.0.pt
"""

import sys

import torch

from torch_ocl.image import describe

TYPES = [torch.float32, torch.bfloat16, torch.float16, torch.int64, torch.bool, torch.complex64]


def content(device):
    """The contents of a training checkpoint: weights, an optimizer, random state, tensors of
    several types."""
    torch.manual_seed(1)
    model = torch.nn.Sequential(torch.nn.Linear(4, 8), torch.nn.BatchNorm1d(8))
    model.to(device)
    optimizer = torch.optim.Adam(model.parameters())
    model(torch.arange(8.0, device=device).reshape(2, 4)).square().sum().backward()
    optimizer.step()
    picture = torch.arange(12.0, device=device).reshape(3, 2, 2)
    whole = torch.arange(20, device=device)
    return {
        "model": model.state_dict(),
        "optimizer": optimizer.state_dict(),
        "random": torch.ocl.get_rng_state(),
        "types": {str(dtype): torch.arange(3, device=device).to(dtype) for dtype in TYPES},
        "views": [whole[2:5], whole.reshape(4, 5).T],
        "picture": describe(picture, channel_order="BGR", value_range=(0, 255)),
    }


if __name__ == "__main__":
    torch.save(content("ocl:0"), sys.argv[1])
