"""Runs one network on the device, and prints which launches of the recorder's log are its own.

usage: networks.py NAME          within record.py's environment
"""

import os
import pathlib
import sys

import torch
import torch.nn.functional as F
from torch import nn

sys.path.append(str(pathlib.Path(__file__).parents[2] / "tests/python/common"))
from models import resnet18, train_step


def resnet_training_step(device="ocl"):
    """ResNet-18, training step, 8 images of 224 x 224"""
    model = resnet18().to(device)
    optimizer = torch.optim.SGD(model.parameters(), lr=1e-3, momentum=0.9)
    x, target = torch.randn(8, 3, 224, 224).to(device), torch.randint(1000, (8,)).to(device)
    return lambda: train_step(model, optimizer, x, target, F.cross_entropy)


def transformer_training_step(device="ocl"):
    """Transformer layer (512 wide, 8 heads, 2048 hidden), training step, 8 x 128 tokens"""
    model = nn.TransformerEncoderLayer(512, 8, 2048, 0.0, batch_first=True).to(device)
    optimizer = torch.optim.SGD(model.parameters(), lr=1e-3, momentum=0.9)
    x, target = (torch.randn(8, 128, 512).to(device) for _ in range(2))
    return lambda: train_step(model, optimizer, x, target, F.mse_loss)


def gpt2_decoding(device="ocl"):
    """GPT-2 (12 layers, 768 wide), one token after 128 others"""
    from transformers import DynamicCache, GPT2Config, GPT2LMHeadModel

    config = GPT2Config()
    model = GPT2LMHeadModel(config).eval().to(device)
    token = torch.tensor([[464]]).to(device)
    heads, width = config.n_head, config.n_embd // config.n_head
    past = DynamicCache()
    for layer in range(config.n_layer):
        keys, values = (torch.randn(1, heads, 128, width).to(device) for _ in range(2))
        past.update(keys, values, layer)

    def run():
        with torch.no_grad():
            model(token, past_key_values=past, use_cache=True)

    return run


class UNetBlock(nn.Module):
    """A residual block with a time step, and self-attention, as in Stable Diffusion."""

    def __init__(self, width, heads, time):
        super().__init__()
        self.norm1, self.norm2, self.norm3 = (nn.GroupNorm(32, width) for _ in range(3))
        self.conv1, self.conv2 = (nn.Conv2d(width, width, 3, padding=1) for _ in range(2))
        self.time = nn.Linear(time, width)
        self.inner, self.outer = nn.Linear(width, 3 * width), nn.Linear(width, width)
        self.heads = heads

    def forward(self, x, time):
        y = self.conv1(F.silu(self.norm1(x))) + self.time(F.silu(time))[:, :, None, None]
        x = x + self.conv2(F.silu(self.norm2(y)))
        n, c, h, w = x.shape
        rows = self.inner(self.norm3(x).flatten(2).transpose(1, 2))
        q, k, v = rows.view(n, h * w, 3, self.heads, c // self.heads).permute(2, 0, 3, 1, 4)
        mixed = F.scaled_dot_product_attention(q, k, v).transpose(1, 2).reshape(n, h * w, c)
        return x + self.outer(mixed).transpose(1, 2).view(n, c, h, w)


def unet_block(device="ocl"):
    """U-Net block (320 channels of 32 x 32, attention with 8 heads), forward, batch 2"""
    model = UNetBlock(320, 8, 1280).eval().to(device)
    x, time = torch.randn(2, 320, 32, 32).to(device), torch.randn(2, 1280).to(device)

    def run():
        with torch.no_grad():
            model(x, time)

    return run


NETWORKS = {
    "resnet18": resnet_training_step,
    "transformer": transformer_training_step,
    "gpt2": gpt2_decoding,
    "unet": unet_block,
}


def recorded():
    torch.ocl.synchronize()
    log = pathlib.Path(os.environ["GPU_MODEL_LOG"])
    return len(log.read_text().splitlines()) if log.exists() else 0


def check_recorder():
    torch.zeros(1, device="ocl").add_(1)
    if not recorded():
        sys.exit("the recorder is not loaded: this would simulate all work-groups")


def main():
    torch.manual_seed(0)
    check_recorder()
    run = NETWORKS[sys.argv[1]]()
    first = recorded()
    run()
    print(first, recorded())


if __name__ == "__main__":
    main()
