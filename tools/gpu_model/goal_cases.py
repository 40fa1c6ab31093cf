"""The operators of the goals (goals.py), and the bytes or operations that they need.

usage: goal_cases.py some|whole [REGULAR EXPRESSION]          within goals.py's environment
"""

import dataclasses
import json
import os
import re
import sys
from collections.abc import Callable

import torch
import torch.nn.functional as F
from networks import check_recorder, recorded

aten = torch.ops.aten
SIDE = int(os.environ.get("GOALS_SIDE", "2048"))  # side of matrices; 16 MB in float32
DEVICE = os.environ.get("GOALS_DEVICE", "ocl")
COUNT = SIDE * SIDE
BYTES = 4 * COUNT
SORTED = 1 << 16  # elements of cases in which all groups run, which takes long


@dataclasses.dataclass(frozen=True)
class Goal:
    """The goal for a class of kernels, as a share of FMA or of bandwidth."""

    share: float
    of: str = "bandwidth"
    moved: float | None = None  # bytes moved / bytes needed, at most
    lanes: float | None = None  # active lanes of the instructions, at least
    banks: float | None = None  # cycles of local memory / cycles without conflicts, at most


GOALS = {
    "stream": Goal(0.85, moved=1.1, lanes=0.95),
    "gather": Goal(0.5),
    "product": Goal(0.7, of="FMA", banks=1.1),
    "attention": Goal(0.6, of="FMA"),
}


@dataclasses.dataclass(frozen=True)
class Case:
    goal: str
    title: str
    needed: float  # bytes or floating-point operations
    prepare: Callable  # returns the function that is recorded
    whole: bool = False  # all groups run, because their results are addresses of others


CASES = []


def case(goal, title, needed, whole=False):
    def add(prepare):
        CASES.append(Case(goal, title, needed, prepare, whole))

    return add


def numbers(*shape):
    return torch.empty(shape, device=DEVICE).uniform_(-1, 1)


def indices(end, *shape):
    return torch.randint(end, shape).to(DEVICE)


def simple(goal, title, needed, function, *shapes, whole=False):
    """A function of tensors of these shapes."""

    @case(goal, title, needed, whole)
    def prepare():
        tensors = [numbers(*shape) for shape in shapes]
        return lambda: function(*tensors)


MATRIX = (SIDE, SIDE)
BATCH = COUNT // 64**3
IMAGES = (BATCH, 64, 64, 64)  # as many elements as a matrix

simple("stream", "add", 3 * BYTES, torch.add, MATRIX, MATRIX)
simple("stream", "gelu", 2 * BYTES, F.gelu, MATRIX)
simple("stream", "add of a row", 2 * BYTES, torch.add, MATRIX, (SIDE,))
simple("stream", "add of a column", 2 * BYTES, torch.add, MATRIX, (SIDE, 1))
simple("stream", "copy", 2 * BYTES, torch.clone, MATRIX)
simple("stream", "copy of a transpose", 2 * BYTES, lambda x: x.t().contiguous(), MATRIX)
simple("stream", "copy of a slice", 2 * BYTES, lambda x: x[:, 1:].contiguous(), (SIDE, SIDE + 1))
simple(
    "stream",
    "permute (0, 2, 1, 3)",
    2 * BYTES,
    lambda x: x.permute(0, 2, 1, 3).contiguous(),
    (8, 1024, 8, 64),
)
simple(
    "stream",
    "to channels_last",
    2 * BYTES,
    lambda x: x.contiguous(memory_format=torch.channels_last),
    IMAGES,
)
simple("stream", "cat", 4 * BYTES, lambda x, y: torch.cat([x, y], 1), MATRIX, MATRIX)
simple("stream", "sum", BYTES, torch.sum, MATRIX)
simple("stream", "sum of rows", BYTES, lambda x: x.sum(1), MATRIX)
simple("stream", "sum of short rows", BYTES, lambda x: x.sum(1), (COUNT // 64, 64))
simple("stream", "sum of columns", BYTES, lambda x: x.sum(0), MATRIX)
simple("stream", "sum of few columns", BYTES, lambda x: x.sum(0), (COUNT // 64, 64))
simple("stream", "sum of the middle", BYTES, lambda x: x.sum(1), (64, 64, COUNT // 4096))
simple("stream", "sum of channels", BYTES, lambda x: x.sum((0, 2, 3)), IMAGES)
simple("stream", "amax of rows", BYTES, lambda x: x.amax(1), MATRIX)
simple("stream", "argmax of rows", BYTES, lambda x: x.argmax(1), MATRIX)
simple("stream", "argmax", BYTES, torch.argmax, MATRIX)
simple("stream", "norm", BYTES, torch.linalg.vector_norm, MATRIX)
simple("stream", "var of rows", BYTES, lambda x: x.var(1), MATRIX)
simple("stream", "softmax", 2 * BYTES, lambda x: torch.softmax(x, 1), MATRIX)
simple("stream", "softmax of columns", 2 * BYTES, lambda x: torch.softmax(x, 0), MATRIX)
simple(
    "stream", "softmax of short rows", 2 * BYTES, lambda x: torch.softmax(x, 1), (COUNT // 64, 64)
)
simple(
    "stream",
    "log_softmax of 32,000",
    2 * 4 * 128 * 32000,
    lambda x: torch.log_softmax(x, 1),
    (128, 32000),
)
simple(
    "stream",
    "softmax, backward",
    3 * BYTES,
    lambda g, y: aten._softmax_backward_data(g, y, 1, torch.float32),
    MATRIX,
    MATRIX,
)
for row_size in (1024, 64):
    simple(
        "stream",
        f"layer norm of {row_size}",
        2 * BYTES,
        lambda x, w, b: F.layer_norm(x, w.shape, w, b),
        (COUNT // row_size, row_size),
        (row_size,),
        (row_size,),
    )


@case("stream", "layer norm of 1024, backward", 3 * BYTES)
def _():
    x, g, w = numbers(COUNT // 1024, 1024), numbers(COUNT // 1024, 1024), numbers(1024)
    _, mean, rstd = aten.native_layer_norm(x, (1024,), w, w, 1e-5)
    return lambda: aten.native_layer_norm_backward(
        g, x, (1024,), mean, rstd, w, w, [True, True, True]
    )


simple(
    "stream",
    "group norm",
    2 * BYTES,
    lambda x, w, b: F.group_norm(x, 32, w, b),
    IMAGES,
    (64,),
    (64,),
)


@case("stream", "group norm, backward", 3 * BYTES)
def _():
    x, g, w = numbers(*IMAGES), numbers(*IMAGES), numbers(64)
    _, mean, rstd = aten.native_group_norm(x, w, w, BATCH, 64, 4096, 32, 1e-5)
    return lambda: aten.native_group_norm_backward(
        g, x, mean, rstd, w, BATCH, 64, 4096, 32, [True, True, True]
    )


# The statistics of a channel need all images, so the input is read twice.
simple(
    "stream",
    "batch norm, training",
    3 * BYTES,
    lambda x, w, b: F.batch_norm(x, None, None, w, b, True),
    IMAGES,
    (64,),
    (64,),
)
simple(
    "stream",
    "batch norm, evaluation",
    2 * BYTES,
    lambda x, w, b, m: F.batch_norm(x, m, m.abs() + 1, w, b),
    IMAGES,
    (64,),
    (64,),
    (64,),
)


@case("stream", "batch norm, backward", 5 * BYTES)
def _():
    x, g, w = numbers(*IMAGES), numbers(*IMAGES), numbers(64)
    _, mean, rstd = aten.native_batch_norm(x, w, w, None, None, True, 0.1, 1e-5)
    return lambda: aten.native_batch_norm_backward(
        g, x, w, None, None, mean, rstd, True, 1e-5, [True, True, True]
    )


def optimizer(title, tensors, make):
    """`tensors`: how many tensors of a parameter's size are read and written."""

    @case("stream", title, tensors * BYTES)
    def prepare():
        parameters = [torch.nn.Parameter(numbers(SIDE, SIDE // 8)) for _ in range(8)]
        for p in parameters:
            p.grad = numbers(*p.shape)
        steps = make(parameters)
        steps.step()  # makes the state
        return steps.step


optimizer(
    "SGD with momentum, fused", 5, lambda p: torch.optim.SGD(p, 1e-3, momentum=0.9, fused=True)
)
optimizer("AdamW, fused", 7, lambda p: torch.optim.AdamW(p, 1e-3, fused=True))

simple("gather", "cumsum of rows", 2 * BYTES, lambda x: x.cumsum(1), MATRIX)
simple("gather", "cumsum of columns", 2 * BYTES, lambda x: x.cumsum(0), MATRIX)
simple("gather", "cumsum of one row", 2 * BYTES, lambda x: x.cumsum(0), (COUNT,))
simple("gather", "cumprod of rows", 2 * BYTES, lambda x: x.cumprod(1), MATRIX)
simple("gather", "cumprod of one row", 2 * BYTES, lambda x: x.cumprod(0), (COUNT,))
simple("gather", "cummax of rows", 4 * BYTES, lambda x: x.cummax(1), MATRIX)
simple("gather", "logcumsumexp of rows", 2 * BYTES, lambda x: x.logcumsumexp(1), MATRIX)
# Four passes by 8 bits, each of which reads and writes a key of 4 bytes and a position of 4.
simple("gather", "sort of one row", 4 * 16 * SORTED, torch.sort, (SORTED,), whole=True)
simple("gather", "sort of rows of 1024", 4 * BYTES, torch.sort, (COUNT // 1024, 1024))
simple(
    "gather",
    "topk 10 of rows of 32,000",
    4 * 2 * 32000,
    lambda x: x.topk(10),
    (2, 32000),
    whole=True,
)
simple(
    "gather",
    "nonzero",
    4 * SORTED + 2 * 8 * SORTED // 2,
    lambda x: x.clamp_min(0).nonzero(),
    (512, SORTED // 512),
    whole=True,
)


def indexing(title, needed, function, *shapes, end=SIDE, shape=(SIDE,), whole=False):
    """A function of tensors and of indices below `end`."""

    @case("gather", title, needed, whole)
    def prepare():
        tensors = [numbers(*s) for s in shapes]
        chosen = indices(end, *shape)
        return lambda: function(*tensors, chosen)


indexing("gather", 4 * BYTES, lambda x, i: x.gather(1, i), MATRIX, shape=MATRIX)
indexing(
    "scatter_add", 4 * BYTES, lambda x, s, i: x.scatter_add_(1, i, s), MATRIX, MATRIX, shape=MATRIX
)
indexing("index_select of rows", 2 * BYTES, lambda x, i: x.index_select(0, i), MATRIX)
indexing("x[i]", 2 * BYTES, lambda x, i: x[i], MATRIX)
indexing("x[:, i]", 2 * BYTES, lambda x, i: x[:, i], MATRIX)
indexing("index_add of rows", 3 * BYTES, lambda x, s, i: x.index_add_(0, i, s), MATRIX, MATRIX)
indexing(
    "embedding", 2 * BYTES, lambda w, i: F.embedding(i, w), (32000, 512), end=32000, shape=(8192,)
)
indexing(
    "embedding, backward",
    2 * 4 * 4096 * 64,
    lambda g, i: aten.embedding_dense_backward(g, i, 4096, -1, False),
    (4096, 64),
    end=4096,
    shape=(4096,),
    whole=True,
)
simple("gather", "max_pool2d 2", BYTES * 1.75, lambda x: F.max_pool2d(x, 2), IMAGES)
simple("gather", "max_pool2d 3, stride 2", BYTES * 1.75, lambda x: F.max_pool2d(x, 3, 2, 1), IMAGES)
simple("gather", "avg_pool2d 2", BYTES * 1.25, lambda x: F.avg_pool2d(x, 2), IMAGES)
simple(
    "gather",
    "adaptive_avg_pool2d 1",
    BYTES,
    lambda x: F.adaptive_avg_pool2d(x, 1),
    (1024, 64, 8, 8),
)


@case("gather", "max_pool2d 3, stride 2, backward", BYTES * 1.75)
def _():
    x, g = numbers(*IMAGES), numbers(BATCH, 64, 32, 32)
    _, at = F.max_pool2d(x, 3, 2, 1, return_indices=True)
    return lambda: aten.max_pool2d_with_indices_backward(
        g, x, [3, 3], [2, 2], [1, 1], [1, 1], False, at
    )


simple(
    "gather",
    "avg_pool2d 2, backward",
    BYTES * 1.25,
    lambda g, x: aten.avg_pool2d_backward(g, x, [2, 2], [2, 2], [0, 0], False, True, None),
    (BATCH, 64, 32, 32),
    IMAGES,
)

simple("product", "matrix product 1024", 2 * 1024**3, torch.matmul, (1024, 1024), (1024, 1024))
simple(
    "product",
    "matrix product 1024, transposed",
    2 * 1024**3,
    lambda x, y: x @ y.t(),
    (1024, 1024),
    (1024, 1024),
)


def convolution(channels, side):
    """A layer of ResNet-18 and its gradients. Operations are counted by the definition; Winograd's
    algorithm needs fewer."""
    work = 2 * 9 * 8 * side**2 * channels**2
    shape = f"{channels} channels of {side} x {side}"

    def add(title, mask=None):
        @case("product", f"{title}, {shape}", work)
        def _():
            x, g = numbers(8, channels, side, side), numbers(8, channels, side, side)
            w = numbers(channels, channels, 3, 3)
            if mask is None:
                return lambda: F.conv2d(x, w, padding=1)
            steps = [1, 1], [1, 1], [1, 1], False, [0, 0], 1
            return lambda: aten.convolution_backward(g, x, w, None, *steps, mask)

    add("convolution 3x3")
    add("its data gradient", [True, False, False])
    add("its weight gradient", [False, True, False])


for channels, side in ((64, 56), (128, 28), (256, 14), (512, 7)):
    convolution(channels, side)

for width in (64, 128):
    simple(
        "attention",
        f"attention 1024, heads of {width}",
        4 * 32 * 1024 * 1024 * width,
        F.scaled_dot_product_attention,
        *[(4, 8, 1024, width)] * 3,
    )


def main():
    torch.manual_seed(0)
    check_recorder()
    whole, wanted = sys.argv[1] == "whole", re.compile(" ".join(sys.argv[2:]))
    for number, chosen in enumerate(CASES):
        if chosen.whole != whole or not wanted.search(chosen.title):
            continue
        with torch.no_grad():
            run = chosen.prepare()
            first = recorded()
            run()
            print(json.dumps([number, first, recorded()]), flush=True)


if __name__ == "__main__":
    main()
