"""Compiles the kernels that most models use, so that a first step does not wait for them.

    python -m torch_ocl.prebuild [--device ocl:0] [--dtypes float32,bfloat16] [--jobs N]
                                 [--only REGEX]

Runs small programs with the given element types: element-wise operators and copies, reductions,
linear layers, convolutional networks, transformers and their generation of text, optimizers. Up to
N programs run at a time, by default one for each processor. What they compile is kept in the folder
of compiled kernels (OCL_CACHE_DIR) for one device and driver version. Kernels are made for types
and for kinds of shapes, so that other models compile few.
"""

import argparse
import os
import re
import subprocess
import sys
import time
from concurrent.futures import ThreadPoolExecutor

import torch
import torch.nn.functional as F
from torch import nn

from torch_ocl import _C

DTYPES = ("float32", "bfloat16")
UNARY = "abs neg exp log sqrt rsqrt sin cos tanh sigmoid erf reciprocal sign round"
CONVERSIONS = "float32 float16 bfloat16 int64 int32 bool"


def random(device, dtype, *shape):
    return torch.randn(shape, device=device, dtype=torch.float32).to(dtype)


def train(model, x, loss, optimizer=None):
    """A step, and what a loop does around it."""
    value = loss(model(x))
    value.backward()
    if optimizer is not None:
        nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        optimizer.step()
        optimizer.zero_grad()
    return value.item()


def elementwise(device, dtype):
    """Element-wise operators; the second operand is dense, strided, a row, a column or a number."""
    x, y = random(device, dtype, 64, 65), random(device, dtype, 64, 65)
    for other in (y, y.t().contiguous().t(), y[:1], y[:, :1], 2.0):
        for function in (torch.add, torch.sub, torch.mul, torch.div, torch.pow):
            function(x.abs(), other)
        for function in (torch.eq, torch.ne, torch.lt, torch.le, torch.gt, torch.ge):
            function(x, other)
    for function in (torch.maximum, torch.minimum, torch.atan2):
        function(x, y)
    for name in UNARY.split():
        getattr(torch, name)(x)
    for function in (F.relu, F.gelu, F.silu, F.leaky_relu, F.elu, F.softplus, F.hardtanh):
        leaf = x.clone().requires_grad_()
        function(leaf).sum().backward()
    torch.where(x > y, x, y), x.clamp(-1, 1), torch.lerp(x, y, 0.5), torch.addcmul(x, x, y)
    x.masked_fill(x > 0, 0.0), x.isfinite().all(), x.add_(y), x.mul_(2), x.zero_(), x.fill_(1)


def copies(device, dtype):
    """Copies, conversions, concatenation, and selection by index."""
    x = random(device, dtype, 8, 6, 10)
    for other in CONVERSIONS.split():
        x.to(getattr(torch, other)).to(dtype)
    x.permute(2, 0, 1).contiguous(), x.transpose(1, 2).contiguous(), x[:, ::2].contiguous()
    torch.cat([x, x], 1), torch.stack([x, x]), x.flip(0), x.roll(1, 0), x.repeat(2, 1, 1)
    index = torch.arange(4, device=device)
    x[index], x[:, index], x[x > 0], x.index_select(1, index), x.masked_select(x > 0)
    x.gather(2, index.expand(8, 6, 4)), x.index_add(0, index, x[:4]), x.tril(), x.triu()
    x.scatter_add(2, index.expand(8, 6, 4), x[..., :4].contiguous())
    torch.zeros_like(x), torch.ones_like(x), torch.arange(10, device=device, dtype=dtype)
    torch.rand_like(x), torch.randn_like(x), F.dropout(x), F.pad(x, (1, 1)), F.one_hot(index)
    torch.eye(4, device=device, dtype=dtype), torch.linspace(0, 1, 5, device=device, dtype=dtype)


def reductions(device, dtype):
    """Reductions of rows, of columns and of all elements; sorting and searching."""
    for shape in ((64, 65), (4, 50000)):
        x = random(device, dtype, *shape)
        for dims in ((), (0,), (1,)):
            x.sum(dims), x.mean(dims), x.var(dims), x.amax(dims), x.amin(dims), x.norm(2, dims)
        for dim in (0, 1):
            x.argmax(dim), x.max(dim), x.cumsum(dim), x.logsumexp(dim)
            leaf = x.clone().requires_grad_()
            (x * leaf.softmax(dim) + leaf.log_softmax(dim)).sum().backward()
        x.max(), x.min(), x.argmax(), x.any(), x.all(), (x == x).sum()
        x.sort(1), x.topk(5, 1), x.argsort(1)
    x.float().softmax(1).multinomial(1), torch.searchsorted(x[0].sort()[0], x[0])


def products(device, dtype):
    """Matrix products in the layouts of linear layers and of attention, with few and many rows.

    Rows that are a multiple of 4 KiB apart have a kernel of their own where there is AVX-512.
    """
    for rows in (1, 4, 8, 40, 300):
        for inputs, outputs in ((96, 80), (2048, 2048)):
            layer = nn.Linear(inputs, outputs, device=device, dtype=dtype)
            x = random(device, dtype, rows, inputs).requires_grad_()
            layer(x).sum().backward(), F.linear(x, layer.weight).sum().backward()
            F.gelu(layer(x)).sum().backward()
    a, b = random(device, dtype, 6, 40, 32), random(device, dtype, 6, 32, 40)
    a @ b, a.mT @ b.mT, torch.baddbmm(a @ b, a, b), a @ a.mT
    layer = nn.Embedding(50, 32, device=device, dtype=dtype)
    layer(torch.arange(20, device=device)).sum().backward()


def convolutional_networks(device, dtype):
    """Layers of residual networks and of U-Nets: forward, both gradients, two memory formats."""

    def network(channels):
        return nn.Sequential(
            nn.Conv2d(3, channels, 7, 2, 3, bias=False),
            nn.BatchNorm2d(channels),
            nn.ReLU(inplace=True),
            nn.MaxPool2d(3, 2, 1),
            nn.Conv2d(channels, channels, 3, padding=1),
            nn.GroupNorm(8, channels),
            nn.SiLU(),
            nn.Conv2d(channels, channels, 3, padding=1, groups=channels),
            nn.Conv2d(channels, 2 * channels, 3, 2, 1),
            nn.Conv2d(2 * channels, channels, 1),
            nn.Upsample(scale_factor=2),
            nn.ConvTranspose2d(channels, channels, 2, 2),
            nn.AvgPool2d(2),
            nn.AdaptiveAvgPool2d(1),
            nn.Flatten(),
            nn.Linear(channels, 10),
        ).to(device, dtype)

    labels = torch.arange(4, device=device)
    # PoCL has other kernels for small grids, which images of 224 pixels exceed.
    for format in (torch.contiguous_format, torch.channels_last):
        for channels, side in ((64, 224), (256, 32)):
            model = network(channels).to(memory_format=format)
            x = random(device, dtype, 4, 3, side, side).to(memory_format=format)
            optimizer = torch.optim.SGD(model.parameters(), 0.1, momentum=0.9)
            train(model, x, lambda y: F.cross_entropy(y, labels), optimizer)
            with torch.no_grad():
                model.eval()(x)


def transformers(device, dtype):
    """An encoder's training step; a decoder's prompt and its tokens, with a cache."""
    model = nn.TransformerEncoderLayer(
        128, 4, 256, activation="gelu", batch_first=True, device=device, dtype=dtype
    )
    x = random(device, dtype, 2, 40, 128)
    train(model, x, lambda y: F.mse_loss(y, x), torch.optim.AdamW(model.parameters()))
    with torch.no_grad():
        model.eval()(x)
    norm = nn.RMSNorm(128, device=device, dtype=dtype)
    norm(x).sum().backward()
    for queries in (1, 40):
        for causal in (False, queries > 1):
            q, k = random(device, dtype, 2, 8, queries, 64), random(device, dtype, 2, 4, 40, 64)
            F.scaled_dot_product_attention(q, k, k, is_causal=causal, enable_gqa=True)
    q = random(device, dtype, 2, 4, 40, 64).requires_grad_()
    F.scaled_dot_product_attention(q, q, q, is_causal=True).sum().backward()


def optimizers(device, dtype):
    """A step with each optimizer."""
    optim = torch.optim
    for make in (optim.SGD, optim.Adam, optim.AdamW, optim.RMSprop, optim.Adagrad):
        parameters = [random(device, dtype, 30, 20).requires_grad_() for _ in range(3)]
        optimizer = make(parameters, 0.01)
        sum(p.square().sum() for p in parameters).backward()
        nn.utils.clip_grad_norm_(parameters, 1.0)
        optimizer.step()
        optimizer.zero_grad(set_to_none=False)


def mixed_precision(device, dtype):
    """Parameters in float32, products in the type."""
    if dtype == torch.float32:
        return
    layers = nn.Linear(64, 64), nn.GELU(), nn.LayerNorm(64), nn.Linear(64, 8)
    model = nn.Sequential(*layers).to(device)
    optimizer, scaler = torch.optim.AdamW(model.parameters()), torch.amp.GradScaler(device.type)
    x = torch.randn(32, 64, device=device)
    with torch.autocast(device.type, dtype):
        loss = F.cross_entropy(model(x), torch.zeros(32, dtype=torch.int64, device=device))
    scaler.scale(loss).backward()
    scaler.step(optimizer)
    scaler.update()


PROGRAMS = {
    function.__name__.replace("_", " "): function
    for function in (
        convolutional_networks,  # the longest first
        transformers,
        products,
        reductions,
        copies,
        elementwise,
        optimizers,
        mixed_precision,
    )
}


def run_program(name, dtype, device):
    """Runs in this process. Prints how many kernels it compiled, and how many it found compiled."""
    torch.ocl.set_device(device)
    PROGRAMS[name](torch.device(device), getattr(torch, dtype))
    torch.ocl.synchronize()
    stats = _C.program_cache_stats()
    print(stats["built"], stats["loaded"])


def run_in_process(name, dtype, device):
    """-> compiled, found; raises the error that the process printed last."""
    command = [sys.executable, "-m", "torch_ocl.prebuild", "--program", name]
    command += ["--dtypes", dtype, "--device", device]
    result = subprocess.run(command, capture_output=True, text=True)
    if result.returncode != 0:
        lines = result.stderr.strip().splitlines()
        errors = [line for line in lines if re.match(r"[\w.]+(Error|Exception)\b", line)]
        raise RuntimeError((errors or lines or ["no message"])[-1])
    return map(int, result.stdout.split()[-2:])


def main(arguments=None):
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--device", default="ocl:0")
    parser.add_argument("--dtypes", default=",".join(DTYPES))
    parser.add_argument("--jobs", type=int, default=os.cpu_count() or 1)
    parser.add_argument("--only", default="", metavar="REGEX", help="programs by name")
    parser.add_argument("--program", choices=PROGRAMS, help=argparse.SUPPRESS)
    args = parser.parse_args(arguments)
    if args.program:
        run_program(args.program, args.dtypes, args.device)
        return 0
    print(torch.ocl.get_device_name(args.device), flush=True)
    chosen = [name for name in PROGRAMS if re.search(args.only, name)]
    begin, total, failed = time.perf_counter(), 0, 0
    with ThreadPoolExecutor(args.jobs) as pool:
        tasks = {
            (name, dtype): pool.submit(run_in_process, name, dtype, args.device)
            for name in chosen
            for dtype in args.dtypes.split(",")
        }
        for (name, dtype), task in tasks.items():
            try:
                built, found = task.result()
                total += built
                print(f"{name:24} {dtype:9} {built:4} compiled, {found:4} found", flush=True)
            except RuntimeError as error:
                failed += 1
                print(f"{name:24} {dtype:9} failed: {error}", flush=True)
    print(f"{total} kernels in {time.perf_counter() - begin:.0f} s")
    return int(failed > 0)


if __name__ == "__main__":
    sys.exit(main())
