"""Operators whose order of additions may change, in deterministic mode: the same bits each time."""

import functools

import torch
import torch.nn.functional as F

COUNT, PLACES = 3000, 7


def steep(*shape):
    """Numbers of all magnitudes, whose sum depends on the order."""
    numbers = torch.Generator().manual_seed(0)
    x = torch.randn(shape, generator=numbers)
    return x * 10 ** (torch.rand(shape, generator=numbers) * 12 - 6)


def index(count=COUNT, places=PLACES):
    return torch.randint(places, (count,), generator=torch.Generator().manual_seed(1))


def gradient_of(function, *inputs):
    """The gradients of function(*inputs), for a steep gradient of its result."""

    def call(device):
        leaves = [x.to(device).requires_grad_(x.is_floating_point()) for x in inputs]
        result = function(*leaves)
        wanted = [x for x in leaves if x.requires_grad]
        return torch.autograd.grad(result, wanted, steep(*result.shape).to(device))

    return call


def result_of(function, *inputs):
    def call(device):
        result = function(*(x.to(device) for x in inputs))
        return result if isinstance(result, tuple) else (result,)

    return call


def grouped(x):
    return index()[:, None].expand(COUNT, x)


def cases():
    """{name: a function of the device that gives tensors}"""
    rows, start, places = steep(COUNT, 4), steep(PLACES, 4), index()
    image, grid = steep(2, 3, 9, 9), torch.rand(2, 20, 20, 2) * 2.4 - 1.2
    resize = functools.partial(F.interpolate, size=(23, 17))
    targets = torch.randint(1, 3, (3, 20), generator=torch.Generator().manual_seed(2))
    return {
        "index_add": result_of(lambda x, i, s: x.index_add(0, i, s), start, places, rows),
        "scatter_add": result_of(lambda x, i, s: x.scatter_add(0, i, s), start, grouped(4), rows),
        "scatter_reduce mean": result_of(
            lambda x, i, s: x.scatter_reduce(0, i, s, "mean"), start, grouped(4), rows
        ),
        "index_put accumulate": result_of(
            lambda x, i, s: x.index_put((i,), s, accumulate=True), start, places, rows
        ),
        "put accumulate": result_of(
            lambda x, i, s: x.put(i, s, accumulate=True), start, places, rows[:, 0].contiguous()
        ),
        "index_put": result_of(lambda x, i, s: x.index_put((i,), s), start, places, rows),
        "bincount": result_of(lambda i, s: torch.bincount(i, s), places, rows[:, 0].contiguous()),
        "cumsum": result_of(lambda x: x.cumsum(0), rows),
        "cumsum of a long row": result_of(lambda x: x.cumsum(0), steep(300_000)),
        "sum": result_of(torch.sum, steep(1 << 20)),
        "sum of columns": result_of(lambda x: x.sum(0), steep(5000, 33)),
        "matmul": result_of(torch.matmul, steep(70, 900), steep(900, 50)),
        "embedding backward": gradient_of(lambda w, i: F.embedding(i, w), start, places),
        "embedding_bag backward": gradient_of(
            lambda w, i: F.embedding_bag(i, w), start, places.view(-1, 3)
        ),
        "index_select backward": gradient_of(lambda x, i: x.index_select(0, i), start, places),
        "gather backward": gradient_of(lambda x, i: x.gather(0, i), start, grouped(4)),
        "conv2d backward": gradient_of(
            lambda x, w, b: F.conv2d(x, w, b, padding=1), image, steep(5, 3, 3, 3), steep(5)
        ),
        "conv_transpose2d backward": gradient_of(
            lambda x, w: F.conv_transpose2d(x, w, stride=2), image, steep(3, 5, 3, 3)
        ),
        "layer_norm backward": gradient_of(
            lambda x, w, b: F.layer_norm(x, [4], w, b), rows, steep(4), steep(4)
        ),
        "batch_norm backward": gradient_of(
            lambda x, w, b: F.batch_norm(x, None, None, w, b, True), image, steep(3), steep(3)
        ),
        "bilinear backward": gradient_of(
            lambda x: resize(x, mode="bilinear"), image
        ),
        "bicubic backward": gradient_of(lambda x: resize(x, mode="bicubic"), image),
        "grid_sample backward": gradient_of(
            lambda x, g: F.grid_sample(x, g, align_corners=False), image, grid
        ),
        "max_pool2d backward": gradient_of(lambda x: F.max_pool2d(x, 3, 1), image),
        "ctc_loss backward": gradient_of(
            lambda x: F.ctc_loss(x, targets.to(x.device), [50] * 3, [20] * 3), steep(50, 3, 15)
        ),
        "prelu backward": gradient_of(F.prelu, image, steep(3)),
    }  # fmt: skip


def differing_runs(call, device, runs):
    """In how many of the runs a bit differs from the first run."""
    torch.use_deterministic_algorithms(True)
    try:
        first = [x.cpu().view(torch.int32) for x in call(device)]
        different = 0
        for _ in range(runs - 1):
            again = [x.cpu().view(torch.int32) for x in call(device)]
            different += not all(torch.equal(x, y) for x, y in zip(first, again, strict=True))
        return different
    finally:
        torch.use_deterministic_algorithms(False)


def measure_repeats(device, runs, names=None):
    for name, call in cases().items():
        if names is None or name in names:
            yield {"name": name, "runs": runs, "different": differing_runs(call, device, runs)}
