"""Cases of operators that move data: indexing, sorting, pooling, resampling, images."""

import torch
from torch.nn import functional as F

from torch_ocl import image

from .inputs import Family, awkward, differentiated


def moved(t, x):
    y = torch.cat([x, x.flip(1)], 1)
    return [y, x.t().contiguous(), x.tril(), x.triu(1), torch.stack([x, x]), x.roll(1, 1)]


TENSORS = Family(
    ("tensor",),
    {
        **awkward(moved),
        "transposed copies": lambda t: [
            t.x(500, 700).t().contiguous(),
            t.x(40, 50, 70).transpose(1, 2).contiguous(),
        ],
        "16 bits": lambda t: t.x(300, 70, dtype=torch.half).t().contiguous(),
        "ranges": lambda t: [
            torch.arange(5003, device=t.device),
            torch.linspace(-1, 1, 101, device=t.device),
            torch.eye(33, 17, device=t.device),
        ],
        "masked": lambda t: t.x(33, 65).masked_fill(t.i((33, 65), 2) > 0, 3.0),
    },
    ["OCL_DISABLE=transpose_tiles"],
)


def indexed(t, x):
    rows, columns = x.shape
    index = t.i((rows, 5), columns)
    chosen = t.i((2 * rows,), max(rows, 1))
    return [
        x.gather(1, index),
        x[chosen],
        x.index_select(0, chosen),
        x.scatter(1, index[:, :1], 9.0),
        x.nonzero(),
        x[x > 0],
        x.index_add(0, chosen, torch.ones_like(x).repeat(2, 1)),
    ]


def out_of_range(t):
    """Reads an index out of range. The kernel reports it, and the next wait raises the error."""
    try:
        t.x(5, 3)[torch.tensor([0, 5], device=t.device)].cpu()
    except IndexError:
        return
    raise AssertionError("an index out of range raises no error")


INDEXING = Family(
    ("index", "core"),
    {
        **awkward(indexed),
        "rows": lambda t: [t.x(100, 40)[t.i((70000,), 100)], t.x(9, 8)[:, t.i((5,), 8)]],
        "sums by index": lambda t: [
            t.x(50, 7).index_add(0, t.i((900,), 50), t.x(900, 7) / 30),
            torch.zeros(9, dtype=torch.int64, device=t.device).index_add(
                0, t.i((900,), 9), t.i((900,), 99)
            ),
        ],
        "gather": lambda t: t.x(90, 40).gather(1, t.i((90, 30), 40)),
        "embedding": lambda t: differentiated(
            lambda table, i: F.embedding(i, table), t.x(300, 24), t.i((40, 50), 300)
        ),
        "bags": lambda t: differentiated(
            lambda table, i, starts: F.embedding_bag(i, table, starts, mode="mean"),
            t.x(30, 9),
            t.i((90,), 30),
            torch.tensor([0, 4, 4, 70], device=t.device),
        ),
        "segments": lambda t: differentiated(
            lambda x, lengths: torch.segment_reduce(
                x, "mean", lengths=lengths, initial=0.0, unsafe=True
            ),
            t.x(33, 5),
            torch.tensor([3, 0, 30], device=t.device),
        ),
        "out of range": out_of_range,
    },
    ["OCL_DISABLE=sorted_writes"],
)


def in_order(t, x):
    integers = (x * 10).long()
    return [
        *x.sort(dim=1, stable=True),
        *integers.sort(dim=0, stable=True),
        x.topk(1, 1).values,
        integers.unique(),
        torch.searchsorted(x.sort(1).values, x),
    ]


SORTING = Family(
    ("sort",),
    {
        **awkward(in_order),
        "sort": lambda t: [
            *t.x(50, 3000).sort(dim=1, stable=True),
            t.i((40000,), 1000).sort().values,
        ],
        "largest": lambda t: [
            *[t.x(*size).topk(7).values for size in ((90, 500), (9, 5000), (200_000,))],
            t.i((70_000,), 5).topk(900).values,
        ],
        "middle": lambda t: [t.x(33, 65).median(1).values, t.x(33, 65).kthvalue(9, 1).values],
        "counts": lambda t: [
            torch.bincount(t.i((3000,), 17)),
            torch.histc(t.x(3000), 13, -2, 2),
            t.i((33, 65), 5).mode(1).values,
        ],
    },
    ["OCL_DISABLE=topk", "OCL_DISABLE=sorted_writes"],
)


def pooled_rows(t, x):
    images = x[:, None, None]
    return [
        *differentiated(lambda y: F.max_pool2d(y, (1, 3), 1, (0, 1)), images),
        *differentiated(lambda y: F.avg_pool2d(y, (1, 3), 1, (0, 1)), images),
    ]


POOLING = Family(
    ("pool",),
    {
        **awkward(pooled_rows),
        "maximum": lambda t: differentiated(
            lambda x: F.max_pool2d(x, 3, 2, 1), t.x(20, 33, 16, 15)
        ),
        "average": lambda t: differentiated(lambda x: F.avg_pool2d(x, 2), t.x(3, 5, 9, 8)),
        "adaptive": lambda t: differentiated(
            lambda x: F.adaptive_avg_pool2d(x, (3, 4)), t.x(3, 5, 9, 8)
        ),
        "volumes": lambda t: [
            *differentiated(lambda x: F.max_pool3d(x, 2), t.x(2, 3, 7, 6, 8)),
            *differentiated(lambda x: F.avg_pool3d(x, 3, 2, 1), t.x(2, 3, 7, 6, 8)),
        ],
        "back to places": lambda t: F.max_unpool2d(
            *F.max_pool2d(t.x(2, 3, 8, 6), 2, return_indices=True), 2
        ),
    },
)


def resampled_rows(t, x):
    signals = x[:, None]
    return [
        *differentiated(lambda y: F.interpolate(y, 11, mode="linear"), signals),
        *differentiated(lambda y: F.interpolate(y, scale_factor=2.0), signals),
        *differentiated(lambda y: F.pad(y, (2, 1), mode="replicate"), signals),
    ]


def sampled(t, shape, points, mode, **options):
    """Images at the points of a grid, some of them outside."""
    grid = (t.x(shape[0], *points, len(points)) / 2).requires_grad_()
    x = t.weight(*shape)
    y = F.grid_sample(x, grid, mode, align_corners=False, **options)
    return [y, *torch.autograd.grad(y.sum(), (x, grid))]


RESAMPLING = Family(
    ("resample",),
    {
        **awkward(resampled_rows),
        "bilinear": lambda t: F.interpolate(t.x(2, 3, 9, 8), (17, 20), mode="bilinear"),
        "bicubic, antialiased": lambda t: differentiated(
            lambda x: F.interpolate(x, (5, 11), mode="bicubic", antialias=True), t.x(2, 3, 17, 8)
        ),
        "nearest": lambda t: F.interpolate(t.x(2, 3, 9, 8), scale_factor=2.0),
        "volumes": lambda t: F.interpolate(t.x(1, 2, 5, 6, 4), (7, 4, 9), mode="trilinear"),
        "padding": lambda t: [
            F.pad(t.x(2, 3, 9, 8), (3, 2, 1, 4), mode=mode) for mode in ("reflect", "circular")
        ],
        "windows": lambda t: differentiated(
            lambda x: F.fold(F.unfold(x, 3, padding=1), (9, 8), 3, padding=1), t.x(2, 3, 9, 8)
        ),
        "grid, no images": lambda t: sampled(t, (0, 3, 5, 6), (4, 3), "bilinear"),
        "grid": lambda t: sampled(t, (2, 3, 5, 6), (70, 31), "bilinear"),
        "grid, nearest, border": lambda t: sampled(
            t, (2, 3, 5, 6), (7, 9), "nearest", padding_mode="border"
        ),
        "grid, bicubic, reflection": lambda t: sampled(
            t, (1, 1, 5, 6), (7, 9), "bicubic", padding_mode="reflection"
        ),
        "grid of volumes": lambda t: sampled(t, (2, 3, 5, 6, 4), (3, 4, 2), "bilinear"),
    },
)


def edited(t, x):
    """Operators for images of any size, but not empty ones."""
    height, width = x.shape[-2:]
    return [
        image.crop(x, (-1, 0, width + 2, height + 1)),
        image.paste(x, image.crop(x, (0, 0, 1, 1)), (width // 2, height // 2)),
        image.flip(x, True, True),
        *differentiated(lambda y: image.resize(y, (5, 9)), x),
        image.rotate(x, 25, "bilinear", expand=True),
        image.gaussian_blur(x, 1.3),
        image.normalize(x, [0.4], [2.0]),
    ]


def picture(t, *shape):
    """Numbers from 0 to 1."""
    return t.x(*shape).sigmoid()


IMAGES = Family(
    ("image",),
    {
        "empty": lambda t: [
            image.crop(t.x(3, 9, 8), (2, 2, 2, 5)),
            image.flip(t.x(0, 3, 9, 8)),
            image.normalize(t.x(0, 3, 9, 8), [0.4], [2.0]),
        ],
        "one element": lambda t: edited(t, picture(t, 1, 1, 1)),
        "odd sizes": lambda t: edited(t, picture(t, 3, 33, 13)),
        "not contiguous": lambda t: edited(t, picture(t, 21, 46, 3).permute(2, 1, 0)[:, ::2, 1:]),
        "many rows": lambda t: edited(t, picture(t, 1, 1031, 3)),
        "bytes": lambda t: [
            image.resize(t.i((3, 33, 21), 256).byte(), (20, 31)),
            image.adjust_contrast(t.i((3, 33, 21), 256).byte(), 1.2),
            image.flip(t.i((2, 3, 33, 21), 256).byte()),
        ],
        "colours": lambda t: [
            y
            for change in (
                lambda x: image.adjust_brightness(x, 1.4),
                lambda x: image.adjust_saturation(x, 1.5),
                lambda x: image.adjust_hue(x, 0.23),
            )
            for y in differentiated(change, picture(t, 3, 9, 11))
        ],
        "sheared": lambda t: [
            image.affine(picture(t, 3, 33, 21), [0.9, 0.31, -2.5, -0.28, 1.1, 7.25], None, mode)
            for mode in ("nearest", "bilinear", "bicubic")
        ],
    },
)
