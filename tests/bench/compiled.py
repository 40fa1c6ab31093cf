"""Compares torch.compile on a device with its eager mode, and with Inductor on the CPU.

python tests/bench/compiled.py [--device ocl] [--cpu] [names...]
"""

import argparse
import time

import torch
import torch._dynamo
import torch.nn.functional as F
from cases import M, encoder_layer
from models import resnet18, train_step
from torch import nn

import torch_ocl  # noqa: F401 (the device, also where PyTorch has a GPU of its own)


def chain(x, y):
    z = ((x + y) * 2 - y).relu() * x + 1
    return torch.sigmoid(z) * y


def adam(p, g, m, v):
    m, v = m * 0.9 + g * 0.1, v * 0.999 + g * g * 0.001
    return p - 1e-3 * m / (v.sqrt() + 1e-8), m, v


def block(x, w, b):
    return F.dropout(F.gelu(F.layer_norm(x, (1024,), w, b)), 0.1)


def function(call, *shapes):
    def build(device):
        tensors = [torch.rand(shape, device=device) for shape in shapes]
        return call, lambda call: call(*tensors)

    return build


class GptBlock(nn.Module):
    def __init__(self, width=768, heads=12):
        super().__init__()
        self.norms = nn.ModuleList(nn.LayerNorm(width) for _ in range(2))
        self.qkv, self.out = nn.Linear(width, 3 * width), nn.Linear(width, width)
        self.mlp = nn.Sequential(
            nn.Linear(width, 4 * width), nn.GELU("tanh"), nn.Linear(4 * width, width)
        )
        self.heads = heads

    def forward(self, x):
        b, n, c = x.shape
        parts = self.qkv(self.norms[0](x)).view(b, n, 3, self.heads, c // self.heads)
        q, k, v = parts.permute(2, 0, 3, 1, 4)
        y = F.scaled_dot_product_attention(q, k, v, is_causal=True)
        x = x + self.out(y.transpose(1, 2).reshape(b, n, c))
        return x + self.mlp(self.norms[1](x))


def inference(make, shape):
    def build(device):
        torch.manual_seed(0)
        model, x = make().to(device).eval(), torch.randn(shape).to(device)

        def run(model):
            with torch.no_grad():
                return model(x)

        return model, run

    return build


def training(make, shape):
    def build(device):
        torch.manual_seed(0)
        model, x = make().to(device), torch.randn(shape).to(device)
        optimizer = torch.optim.SGD(model.parameters(), lr=1e-3)

        def run(model):
            return train_step(model, optimizer, x, None, lambda y, _: y.square().mean())

        return model, run

    return build


CASES = {
    "chain of 8, 16M": function(chain, (16 * M,), (16 * M,)),
    "LayerNorm + GELU + dropout 4096x1024": function(block, (4096, 1024), (1024,), (1024,)),
    "softmax of scores + mask 8x12x256x256": function(
        lambda x, mask: torch.softmax(x * 0.125 + mask, -1), (8, 12, 256, 256), (256, 256)
    ),
    "Adam step 4M": function(adam, *[(4 * M,)] * 4),
    "columns' sums 4096x1024": function(lambda x: (x * 2).sum(0), (4096, 1024)),
    "batch norm + ReLU 8x64x56^2": function(
        lambda x: F.batch_norm(x, None, None, training=True).relu(), (8, 64, 56, 56)
    ),
    "ResNet-18 forward, batch 8": inference(resnet18, (8, 3, 224, 224)),
    "ResNet-18 training step, batch 8": training(resnet18, (8, 3, 224, 224)),
    "GPT-2 block forward, 4x128": inference(GptBlock, (4, 128, 768)),
    "GPT-2 block training step, 4x128": training(GptBlock, (4, 128, 768)),
    "TransformerEncoderLayer 512 forward": inference(encoder_layer, (8, 128, 512)),
    "TransformerEncoderLayer 512 training step": training(encoder_layer, (8, 128, 512)),
}


def milliseconds(run, synchronize, seconds=1.0):
    """The best of several rounds, after the first call."""
    run()
    run()
    synchronize()
    best, end = float("inf"), time.perf_counter() + seconds
    while time.perf_counter() < end or best == float("inf"):
        start = time.perf_counter()
        run()
        synchronize()
        best = min(best, time.perf_counter() - start)
    return best * 1e3


def measure(build, device, compiled):
    torch._dynamo.reset()
    subject, run = build(device)
    if compiled:
        subject = torch.compile(subject)
    on_cpu = device == "cpu"
    synchronize = (lambda: None) if on_cpu else (lambda: torch.accelerator.synchronize(device))
    start = time.perf_counter()
    run(subject)
    synchronize()
    first = time.perf_counter() - start
    return milliseconds(lambda: run(subject), synchronize), first


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--device", default="ocl")
    parser.add_argument("--cpu", action="store_true", help="Inductor on the CPU as well")
    parser.add_argument("names", nargs="*", help="parts of the names of cases")
    args = parser.parse_args()
    torch.backends.mha.set_fastpath_enabled(False)
    for name, build in CASES.items():
        if args.names and not any(part in name for part in args.names):
            continue
        eager, _ = measure(build, args.device, compiled=False)
        compiled, first = measure(build, args.device, compiled=True)
        text = f"{name:45} {compiled:8.2f} ms, eager {eager:8.2f} ms ({eager / compiled:5.2f}x)"
        if args.cpu:
            cpu, _ = measure(build, "cpu", compiled=True)
            text += f", Inductor CPU {cpu:8.2f} ms ({cpu / compiled:5.2f}x)"
        print(f"{text}, first call {first:.1f} s", flush=True)


if __name__ == "__main__":
    main()
