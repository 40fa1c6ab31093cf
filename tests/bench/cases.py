"""The measured operators and networks of docs/performance.md, float32 unless named."""

import dataclasses
import pathlib
import sys
from collections.abc import Callable

import torch
import torch.nn.functional as F
from torch import nn

sys.path.append(str(pathlib.Path(__file__).parents[1] / "python/common"))
from models import resnet18, train_step

M = 1 << 20


@dataclasses.dataclass(frozen=True)
class Case:
    """A call that is timed on two devices.

    name:  as in the tables
    build: device -> function without arguments; what it returns is thrown away
    aim:   the largest time that is wanted, as a ratio to the reference's
    bytes: that it has to move between memory and processor at least
    flops: floating-point operations, two for a multiply-add
    """

    name: str
    build: Callable
    aim: float
    bytes: int = 0
    flops: int = 0


def unary(function, shape):
    def build(device):
        x = torch.randn(shape, device=device)
        return lambda: function(x)

    return build


def into(function, *shapes):
    """The form with out=."""

    def build(device):
        tensors = [torch.randn(shape, device=device) for shape in shapes]
        out = function(*tensors, out=torch.empty(0, device=device))
        return lambda: function(*tensors, out=out)

    return build


def several(function, *shapes):
    def build(device):
        tensors = [torch.randn(shape, device=device) for shape in shapes]
        return lambda: function(*tensors)

    return build


def with_gradients(function, *shapes):
    def build(device, layout=lambda tensor: tensor):
        tensors = [layout(torch.randn(s, device=device)).requires_grad_() for s in shapes]
        grad = torch.randn_like(function(*tensors))
        return lambda: torch.autograd.grad(function(*tensors), tensors, grad)

    return build


def channels_last(build):
    """With pixels whose channels lie side by side: the leaves of `build` are made so."""

    def last(tensor):
        return tensor.to(memory_format=torch.channels_last)

    return lambda device: build(device, last)


def convolution(shape, weight, options, backward=False):
    def build(device, layout=lambda tensor: tensor):
        x, w = (layout(torch.randn(s, device=device)) for s in (shape, weight))
        if not backward:
            return lambda: F.conv2d(x, w, **options)
        leaves = [x.requires_grad_(), w.requires_grad_()]
        grad = torch.randn_like(F.conv2d(*leaves, **options))
        return lambda: torch.autograd.grad(F.conv2d(*leaves, **options), leaves, grad)

    return build


def forward_only(make_model, shape):
    def build(device, layout=lambda tensor: tensor):
        torch.manual_seed(0)
        model, x = layout(make_model().to(device)).eval(), layout(torch.randn(shape).to(device))

        def run():
            with torch.no_grad():
                return model(x)

        return run

    return build


def training(make_model, shape, make_target, loss):
    def build(device, layout=lambda tensor: tensor):
        torch.manual_seed(0)
        model = layout(make_model().to(device))
        optimizer = torch.optim.SGD(model.parameters(), lr=1e-3, momentum=0.9)
        x, target = layout(torch.randn(shape).to(device)), make_target().to(device)
        return lambda: train_step(model, optimizer, x, target, loss)

    return build


def encoder_layer():
    return nn.TransformerEncoderLayer(512, 8, 2048, 0.0, batch_first=True)


def own_operators(build):
    """Without the fast path of nn.TransformerEncoderLayer, which is an operator of its own."""

    def wrapped(device):
        run = build(device)

        def call():
            torch.backends.mha.set_fastpath_enabled(False)
            try:
                return run()
            finally:
                torch.backends.mha.set_fastpath_enabled(True)

        return call

    return wrapped


def adam_step(device):
    parameter = torch.randn(M, device=device).requires_grad_()
    parameter.grad = torch.randn(M, device=device)
    optimizer = torch.optim.Adam([parameter], lr=1e-3)
    return optimizer.step


def embedding(device):
    weight = torch.randn(32000, 512, device=device)
    index = torch.randint(32000, (8, 512)).to(device)
    return lambda: F.embedding(index, weight)


def copy_to(device):
    source, target = torch.randn(16 * M), torch.empty(16 * M, device=device)
    return lambda: target.copy_(source)


def copy_from(device):
    source, target = torch.randn(16 * M, device=device), torch.empty(16 * M)
    return lambda: target.copy_(source)


def small_add(device):
    x = torch.zeros(16, device=device)

    def run():
        for _ in range(1000):
            x.add_(1)

    return run


SQUARE = (4096, 4096)
IMAGES = (8, 64, 56, 56)
CONV_FLOPS = 2 * 8 * 56 * 56 * 64 * 64 * 9


def images_to_classes():
    return torch.randint(1000, (8,))


RESNET = (resnet18, (8, 3, 224, 224))
RESNET_STEP = training(*RESNET, images_to_classes, F.cross_entropy)
ENCODER = (encoder_layer, (8, 128, 512))
B = 4  # bytes of a float32

TABLE = [
    Case("add 16M", several(torch.add, (16 * M,), (16 * M,)), 0.25, 3 * 16 * M * B),
    Case("add 16M, out=", into(torch.add, (16 * M,), (16 * M,)), 1.0, 3 * 16 * M * B),
    Case("gelu 16M", unary(F.gelu, (16 * M,)), 0.30, 2 * 16 * M * B),
    Case("gelu 16M, out=", into(torch.ops.aten.gelu.out, (16 * M,)), 1.1, 2 * 16 * M * B),
    Case("sum 4096^2", unary(torch.sum, SQUARE), 1.3, 16 * M * B),
    Case("sum 4096^2, rows", unary(lambda x: x.sum(1), SQUARE), 1.3, 16 * M * B),
    Case("sum 4096^2, columns", unary(lambda x: x.sum(0), SQUARE), 1.3, 16 * M * B),
    Case("softmax 4096^2", unary(lambda x: x.softmax(1), SQUARE), 0.4, 2 * 16 * M * B),
    Case(
        "softmax 4096^2, out=",
        into(lambda x, out: torch.softmax(x, 1, out=out), SQUARE),
        1.1,
        2 * 16 * M * B,
    ),
    Case(
        "layer norm 4096x1024",
        several(lambda x, w, b: F.layer_norm(x, (1024,), w, b), (4096, 1024), (1024,), (1024,)),
        0.9,
        2 * 4 * M * B,
    ),
    Case("matmul 1024^3", several(torch.matmul, (1024, 1024), (1024, 1024)), 1.0, flops=2 << 30),
    Case("matmul 2048^3", several(torch.matmul, (2048, 2048), (2048, 2048)), 1.0, flops=2 << 33),
    Case("bmm 64x256^3", several(torch.bmm, (64, 256, 256), (64, 256, 256)), 1.1, flops=2 << 30),
    Case(
        "conv 64-64 3x3, 8x56^2",
        several(lambda x, w: F.conv2d(x, w, padding=1), IMAGES, (64, 64, 3, 3)),
        1.1,
        flops=CONV_FLOPS,
    ),
    Case(
        "conv 64-64 3x3, 8x56^2, with backward",
        with_gradients(lambda x, w: F.conv2d(x, w, padding=1), IMAGES, (64, 64, 3, 3)),
        1.1,
        flops=3 * CONV_FLOPS,
    ),
    Case("ResNet-18 forward, batch 8", forward_only(*RESNET), 1.0, flops=2 * 8 * 1_814_000_000),
    Case(
        "ResNet-18 training step, batch 8",
        RESNET_STEP,
        1.0,
        flops=6 * 8 * 1_814_000_000,
    ),
    Case("TransformerEncoderLayer 512 forward", own_operators(forward_only(*ENCODER)), 1.0),
    Case(
        "TransformerEncoderLayer 512 training step",
        training(*ENCODER, lambda: torch.randn(8, 128, 512), F.mse_loss),
        1.0,
    ),
    Case("Adam step 1M", adam_step, 0.8, 7 * M * B),
    Case("cumsum 4096^2", unary(lambda x: x.cumsum(1), SQUARE), 1.0, 2 * 16 * M * B),
    Case("sort 1M", unary(torch.sort, (M,)), 1.0),
    Case("embedding 32000x512, 4096 rows", embedding, 1.0, 2 * 4096 * 512 * B),
    Case("transpose copy 4096^2", unary(lambda x: x.t().contiguous(), SQUARE), 1.0, 2 * 16 * M * B),
    Case("copy to the device, 64 MB", copy_to, 1.1, 2 * 16 * M * B),
    Case("copy from the device, 64 MB", copy_from, 1.1, 2 * 16 * M * B),
]

# Per 1000 calls; footprint.py compares it with what the runtime itself takes for a launch.
SMALL = Case("1000 x.add_(1), 16 elements", small_add, float("inf"))


def sweep():
    """More operators and sizes, without an aim of their own."""
    shapes = {"1K": (32, 32), "64K": (256, 256), "1M": (1024, 1024), "16M": SQUARE}
    functions = {
        "mul": lambda x: x * x,
        "relu": torch.relu,
        "exp": torch.exp,
        "tanh": torch.tanh,
        "where": lambda x: torch.where(x > 0, x, 0.0),
        "to float16": lambda x: x.half(),
        "max, rows": lambda x: x.amax(1),
        "argmax, rows": lambda x: x.argmax(1),
        "var, columns": lambda x: x.var(0),
        "log_softmax": lambda x: x.log_softmax(1),
        "layer norm": lambda x: F.layer_norm(x, x.shape[-1:]),
        "cumsum, columns": lambda x: x.cumsum(0),
        "matrix product": lambda x: x @ x,
        "matrix-vector product": lambda x: x @ x[0],
        "cat": lambda x: torch.cat([x, x]),
        "gather": lambda x: x.flip(0),
    }
    for name, function in functions.items():
        for size, shape in shapes.items():
            if name == "matrix product" and size == "16M":
                continue
            yield Case(f"{name} {size}", unary(function, shape), 1.0)
    for name, shape, weight, options in [
        ("conv 3-64 7x7 stride 2", (8, 3, 224, 224), (64, 3, 7, 7), {"stride": 2, "padding": 3}),
        ("conv 256-256 3x3, 14^2", (8, 256, 14, 14), (256, 256, 3, 3), {"padding": 1}),
        ("conv 512-512 3x3, 7^2", (8, 512, 7, 7), (512, 512, 3, 3), {"padding": 1}),
        ("conv 64-256 1x1, 56^2", IMAGES, (256, 64, 1, 1), {}),
        ("conv depthwise 64 3x3, 56^2", IMAGES, (64, 1, 3, 3), {"padding": 1, "groups": 64}),
    ]:
        yield Case(name, convolution(shape, weight, options), 1.0)
        yield Case(f"{name}, with backward", convolution(shape, weight, options, True), 1.0)
    yield from channels_last_sweep()
    for name, function in {
        "max pool 3x3 stride 2": lambda x: F.max_pool2d(x, 3, 2, 1),
        "average pool 3x3 stride 2": lambda x: F.avg_pool2d(x, 3, 2, 1),
        "adaptive average pool to 7": lambda x: F.adaptive_avg_pool2d(x, 7),
        "bilinear upsampling by 2": lambda x: F.interpolate(x, scale_factor=2, mode="bilinear"),
    }.items():
        shape = IMAGES if "up" in name else (8, 64, 112, 112)
        yield Case(name, unary(function, shape), 1.0)
        yield Case(f"{name}, with backward", with_gradients(function, shape), 1.0)
        build = channels_last(with_gradients(function, shape))
        yield Case(f"channels_last {name}, with backward", build, 1.0)
    yield Case(
        "batch norm 8x64x56^2, training",
        several(lambda x, w, b: F.batch_norm(x, None, None, w, b, True), IMAGES, (64,), (64,)),
        1.0,
    )
    heads = [(4, 8, 512, 64)] * 3
    yield Case("attention 4x8x512x64", several(F.scaled_dot_product_attention, *heads), 1.0)
    yield Case(
        "attention 4x8x512x64, with backward",
        with_gradients(F.scaled_dot_product_attention, *heads),
        1.0,
    )


def channels_last_sweep():
    for name, shape, weight, options in [
        ("64-64 3x3, 56^2", IMAGES, (64, 64, 3, 3), {"padding": 1}),
        ("128-128 3x3, 28^2", (8, 128, 28, 28), (128, 128, 3, 3), {"padding": 1}),
        ("256-256 3x3, 14^2", (8, 256, 14, 14), (256, 256, 3, 3), {"padding": 1}),
        ("512-512 3x3, 7^2", (8, 512, 7, 7), (512, 512, 3, 3), {"padding": 1}),
        ("64-128 3x3 stride 2", IMAGES, (128, 64, 3, 3), {"stride": 2, "padding": 1}),
        ("256-64 1x1, 56^2", (8, 256, 56, 56), (64, 256, 1, 1), {}),
        ("depthwise 96 3x3, 56^2", (8, 96, 56, 56), (96, 1, 3, 3), {"padding": 1, "groups": 96}),
        ("3-64 7x7 stride 2", (8, 3, 224, 224), (64, 3, 7, 7), {"stride": 2, "padding": 3}),
    ]:
        for backward in (False, True):
            build = channels_last(convolution(shape, weight, options, backward))
            end = ", with backward" if backward else ""
            yield Case(f"channels_last conv {name}{end}", build, 1.0)
    forward = channels_last(forward_only(*RESNET))
    yield Case("channels_last ResNet-18 forward, batch 8", forward, 1.0)
    yield Case("channels_last ResNet-18 training step, batch 8", channels_last(RESNET_STEP), 1.0)
