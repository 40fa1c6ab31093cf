"""Operators of networks at small and odd shapes, in both memory formats."""

import torch
from author import Nothing, largest
from program import EXACT, MOVES, ROUGH, SMOOTH
from rows import row

FLOATS = (torch.float32, torch.float64, torch.float16, torch.bfloat16)


def image(g, dims, kind=SMOOTH, limit=16):
    """A tensor of (batch, channels, *sizes)."""
    try:
        if g.chance(0.5):
            raise Nothing
        return g.pick(
            kind,
            lambda x: (
                x.dim() == dims + 2 and x.dtype in FLOATS and x.numel() and largest(x) <= limit
            ),
        )
    except Nothing:
        sizes = [g.choice([1, 2, 3, 4, 5, 7, 8, 9, 12, 17]) for _ in range(dims)]
        shape = (g.int(1, 3), g.choice([1, 2, 3, 4, 6, 8, 16]), *sizes)
        dtype = g.dtype(lambda t: t in FLOATS)
        n = g.fresh(shape, dtype)
        if dims > 1 and g.chance(0.4):
            form = torch.channels_last if dims == 2 else torch.channels_last_3d
            step = g.step("{0}.contiguous(memory_format={f})", n, f=form, kind=MOVES)
            g.add(step)
            return step.results[0]
        return n


@row(5)
def conv(g):
    dims = g.choice([1, 2, 2, 2, 3])
    n = image(g, dims)
    x = g[n]
    channels = x.shape[1]
    groups = g.choice([1, 1, 1, channels, *[k for k in (2, 3) if channels % k == 0]])
    turned = g.chance(0.25)
    outputs = groups * g.choice([1, 1, 2, 3, 4])
    kernel = [g.choice([1, 1, 2, 3, 3, 5]) for _ in range(dims)]
    if g.chance(0.4):
        kernel = [3] * dims
    shape = (
        (channels, outputs // groups, *kernel) if turned else (outputs, channels // groups, *kernel)
    )
    weight = g.fresh(shape, x.dtype, -2, 3)
    stride = g.choice([1, 1, 1, 2, 3])
    padding = g.choice([0, 0, 1, 1, 2])
    dilation = g.choice([1, 1, 1, 2])
    operands = [n, weight]
    bias = "None"
    if g.chance(0.5):
        operands.append(g.fresh((outputs,), x.dtype))
        bias = "{2}"
    name = f"conv_transpose{dims}d" if turned else f"conv{dims}d"
    extra = ", {op}, {groups}, {dilation}" if turned else ", {dilation}, {groups}"
    op = g.int(0, max(0, min(stride, dilation) - 1)) if g.chance(0.3) else 0
    template = f"F.{name}({{0}}, {{1}}, {bias}, {{stride}}, {{padding}}{extra})"
    arguments = dict(stride=stride, padding=padding, dilation=dilation, groups=groups, op=op)
    return g.step(template, *operands, kind=SMOOTH, **arguments)


@row(4)
def pools(g):
    dims = g.choice([1, 2, 2, 3])
    n = image(g, dims)
    kernel, stride = g.int(1, 3), g.int(1, 3)
    padding = g.int(0, kernel // 2)
    ceil = g.chance(0.3)
    options = dict(k=kernel, s=stride, p=padding, c=ceil)
    kind = g.int(0, 4)
    if kind == 0:
        return g.step(
            f"F.max_pool{dims}d({{0}}, {{k}}, {{s}}, {{p}}, 1, {{c}})", n, kind=SMOOTH, **options
        )
    if kind == 1:
        return g.step(
            f"F.avg_pool{dims}d({{0}}, {{k}}, {{s}}, {{p}}, {{c}})", n, kind=ROUGH, **options
        )
    size = [g.int(1, 5) for _ in range(dims)]
    if kind == 2:
        return g.step(f"F.adaptive_avg_pool{dims}d({{0}}, {{size}})", n, size=size, kind=ROUGH)
    if kind == 3:
        return g.step(f"F.adaptive_max_pool{dims}d({{0}}, {{size}})", n, size=size, kind=SMOOTH)
    return g.step(f"F.lp_pool{min(dims, 2)}d({{0}}.abs() + 1, 2, {{k}})", n, kind=ROUGH, **options)


def require_variance(numbers):
    """If the numbers of a row are equal except for rounding, the result is the rounding error
    divided by the root of epsilon."""
    most, least = numbers.amax(1), numbers.amin(1)
    if not (most - least > 1e-2 * torch.maximum(most.abs(), least.abs())).all():
        raise Nothing


@row(4)
def norms(g):
    n = image(g, g.int(1, 2), ROUGH)
    x = g[n]
    channels = x.shape[1]
    kind = g.int(0, 3)
    if kind < 2:
        require_variance(x.transpose(0, 1).reshape(channels, -1))
    weight, bias = g.fresh((channels,), x.dtype), g.fresh((channels,), x.dtype)
    if kind == 0:
        template = "F.batch_norm({0}, None, None, {1}, {2}, True)"
    elif kind == 1:
        mean = g.fresh((channels,), x.dtype)
        variance = g.fresh((channels,), x.dtype, 1, 5)
        if g.levels[mean] or g.levels[variance] or g.in_function:
            raise Nothing
        operands = (n, mean, variance, weight, bias)
        if g.chance(0.5):
            template = "F.batch_norm({0}, {1}, {2}, {3}, {4}, False)"
            return g.step(template, *operands, kind=ROUGH)
        template = "F.batch_norm({0}, {1}, {2}, {3}, {4}, True, 0.5)"
        return g.step(template, *operands, kind=ROUGH, writes=(mean, variance))
    elif kind == 2:
        groups = g.choice([k for k in range(1, channels + 1) if channels % k == 0])
        require_variance(x.reshape(x.shape[0] * groups, -1))
        template = "F.group_norm({0}, {groups}, {1}, {2})"
        return g.step(template, n, weight, bias, groups=groups, kind=ROUGH)
    else:
        last = x.shape[-1]
        if last < 2:
            raise Nothing
        require_variance(x.reshape(-1, last))
        weight, bias = g.fresh((last,), x.dtype), g.fresh((last,), x.dtype)
        template = g.choice(
            ["F.layer_norm({0}, ({last},), {1}, {2})", "F.rms_norm({0}, ({last},), {1})"]
        )
        return g.step(template, n, weight, bias, last=last, kind=ROUGH)
    return g.step(template, n, weight, bias, kind=ROUGH)


@row(2)
def losses(g):
    n = g.pick(
        ROUGH, lambda x: x.dim() == 2 and x.dtype in FLOATS and x.numel() and largest(x) <= 16
    )
    x = g[n]
    how = g.choice(["mean", "sum", "none"])
    if g.chance(0.5):
        target = g.fresh((x.shape[0],), torch.int64, 0, x.shape[1])
        template = "F.cross_entropy({0}, {1}, reduction={how})"
    else:
        target = g.partner(x, ROUGH, dtype=x.dtype, same_shape=True)
        template = g.choice(["F.mse_loss", "F.l1_loss", "F.smooth_l1_loss", "F.huber_loss"])
        template += "({0}, {1}, reduction={how})"
    return g.step(template, n, target, how=how, kind=ROUGH)


@row(2)
def resized(g):
    n = image(g, 2, ROUGH)
    x = g[n]
    mode = g.choice(["nearest", "bilinear", "nearest-exact", "bicubic"])
    size = (g.int(1, 12), g.int(1, 12))
    kind = ROUGH if mode.startswith("bi") else MOVES
    if g.chance(0.3):
        template, options = (
            "F.interpolate({0}, scale_factor={k}, mode={mode})",
            dict(k=g.choice([2, 0.5, 3])),
        )
        if min(x.shape[2:]) < 2:
            raise Nothing
    else:
        template, options = "F.interpolate({0}, {size}, mode={mode})", dict(size=size)
    return g.step(template, n, mode=mode, kind=kind, **options)


@row(1)
def shuffles(g):
    n = image(g, 2, MOVES)
    x = g[n]
    if x.shape[1] % 4 == 0 and g.chance(0.5):
        return g.step("F.pixel_shuffle({0}, 2)", n, kind=MOVES)
    if x.shape[2] % 2 == 0 and x.shape[3] % 2 == 0:
        return g.step("F.pixel_unshuffle({0}, 2)", n, kind=MOVES)
    if min(x.shape[2:]) < 2:
        raise Nothing
    return g.step("F.unfold({0}, 2, stride={s})", n, s=g.int(1, 2), kind=MOVES)


@row(1.5)
def attention(g):
    dtype = g.dtype(lambda t: t in FLOATS)
    heads, rows, keys, width = g.int(1, 3), g.int(1, 9), g.int(1, 17), g.choice([1, 3, 4, 8, 16])
    q = g.fresh((2, heads, rows, width), dtype, -2, 3)
    k = g.fresh((2, heads, keys, width), dtype, -2, 3)
    v = g.fresh((2, heads, keys, width), dtype)
    causal = g.chance(0.3)
    template = "F.scaled_dot_product_attention({0}, {1}, {2}, is_causal={c})"
    return g.step(template, q, k, v, c=causal, kind=ROUGH)


@row(1)
def distances(g):
    n = g.pick(EXACT, lambda x: x.dim() == 2 and x.dtype == torch.float32 and largest(x) <= 32)
    m = g.fresh((g.int(0, 9), g[n].shape[1]), torch.float32)
    return g.step(
        "torch.cdist({0}, {1}, {p})", n, m, p=g.choice([1.0, 2.0, float("inf")]), kind=ROUGH
    )
