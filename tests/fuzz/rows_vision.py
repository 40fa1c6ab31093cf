"""Attention with masks and gradients, interpolation, pooling with indices, recurrent layers."""

import torch
from author import Nothing, largest
from program import EXACT, MOVES, ROUGH, SMOOTH
from rows import row
from rows_nn import FLOATS, image


@row(4)
def masked_attention(g):
    """Attention with masks of both kinds, groups of heads, scales, and odd widths."""
    dtype = g.dtype(lambda t: t in FLOATS)
    batch, heads, rows, keys = g.int(1, 2), g.choice([1, 2, 4]), g.int(1, 20), g.int(1, 40)
    width, values = g.choice([1, 3, 8, 16, 32, 40, 64]), g.choice([0, 0, 5, 16])
    grouped = heads > 1 and g.chance(0.3)
    key_heads = 1 if grouped else heads
    q = g.fresh((batch, heads, rows, width), dtype, -1, 2)
    k = g.fresh((batch, key_heads, keys, width), dtype, -1, 2)
    v = g.fresh((batch, key_heads, keys, values or width), dtype)
    operands, mask = [q, k, v], "None"
    kind = g.int(0, 3)
    if kind == 1:
        shape = g.choice([(rows, keys), (batch, 1, rows, keys), (1, keys)])
        operands.append(g.fresh(shape, torch.bool))
        mask = "{3} | (torch.arange({n}, device=device) == 0)"
    if kind == 2:
        operands.append(g.fresh(g.choice([(rows, keys), (1, heads, 1, keys)]), dtype, -2, 3))
        mask = "{3}"
    template = (
        f"F.scaled_dot_product_attention({{0}}, {{1}}, {{2}}, {mask}, is_causal={{c}}, "
        "scale={s}, enable_gqa={gqa})"
    )
    options = dict(n=keys, c=kind == 3, s=g.choice([None, 0.5, 1.0]), gqa=grouped)
    return g.step(template, *operands, kind=ROUGH, **options)


@row(1.5)
def heads(g):
    n = g.fresh((g.int(1, 3), g.int(1, 9), 8), torch.float32, -2, 3)
    weights = [g.fresh(s, torch.float32, -1, 2) for s in ((24, 8), (24,), (8, 8), (8,))]
    template = (
        "F.multi_head_attention_forward({0}, {0}, {0}, 8, {h}, {1}, {2}, None, None, False, 0.0, "
        "{3}, {4}, need_weights={w})[0]"
    )
    return g.step(template, n, *weights, h=g.choice([1, 2, 4]), w=g.chance(0.5), kind=ROUGH)


@row(3)
def interpolation(g):
    """All modes in one to three dimensions, up and down, aligned or not."""
    dims = g.int(1, 3)
    n = image(g, dims, ROUGH)
    x = g[n]
    if min(x.shape[2:]) < 2:
        raise Nothing
    mode = g.choice([("linear",), ("bilinear", "bicubic"), ("trilinear",)][dims - 1])
    aligned = g.chance(0.5)
    options = dict(mode=mode, a=aligned, size=[g.int(1, 12) for _ in range(dims)])
    if g.chance(0.3):
        template = "F.interpolate({0}, {size}, mode={mode}, align_corners={a})"
    elif dims == 2 and g.chance(0.3):
        # With a width of 1, PyTorch 2.13's CPU results are wrong: channels_last has others.
        options["size"][1] += 1
        template = "F.interpolate({0}, {size}, mode={mode}, antialias=True)"
    else:
        options["k"] = g.choice([0.5, 1.5, 2.0, 2.7])
        template = "F.interpolate({0}, scale_factor={k}, mode={mode}, align_corners={a}"
        template += ", recompute_scale_factor={r})"
        options["r"] = g.choice([None, True])
    return g.step(template, n, kind=ROUGH, **options)


@row(2)
def sampled(g):
    """grid_sample and affine_grid."""
    n = image(g, 2, ROUGH)
    x = g[n]
    if x.dtype not in (torch.float32, torch.float64):
        raise Nothing
    grid = g.fresh((x.shape[0], g.int(1, 6), g.int(1, 6), 2), x.dtype, -5, 6)
    template = "F.grid_sample({0}, {1} / {k}, mode={m}, padding_mode={p}, align_corners={a})"
    p = g.choice(["zeros", "border", "reflection"])
    m = g.choice(["bilinear", "bicubic"])
    return g.step(template, n, grid, k=4.37, m=m, p=p, a=g.chance(0.5), kind=ROUGH)


@row(3)
def pools_with_indices(g):
    """Indices of maxima, what undoes a pool, dilated and one-sided ones, and gradients."""
    dims = g.choice([1, 2, 2, 3])
    shape = (g.int(1, 2), g.int(1, 4), *[g.int(3, 9) for _ in range(dims)])
    dtype = g.choice([t for t, _ in g.types if t in FLOATS[:2]])
    n = g.distinct(shape, dtype)
    if g.chance(0.4) and dims == 2:
        step = g.step("{0}.contiguous(memory_format={f})", n, f=torch.channels_last, kind=MOVES)
        g.add(step)
        n = step.results[0]
    kernel, stride, dilation = g.int(1, 3), g.int(1, 3), g.choice([1, 1, 2])
    if dilation * (kernel - 1) >= 3:
        raise Nothing
    options = dict(k=kernel, s=stride, d=dilation, c=g.chance(0.3), p=g.int(0, kernel // 2))
    kind = g.int(0, 3)
    if kind <= 1:
        template = f"F.max_pool{dims}d({{0}}, {{k}}, {{s}}, {{p}}, {{d}}, {{c}}, True)"
        return g.step(template, n, results=2, **options)
    if kind == 2:
        template = (
            f"F.max_unpool{dims}d(*F.max_pool{dims}d({{0}}, {{k}}, {{k}}, return_indices=True), "
            f"{{k}}, output_size={shape[2:]})"
        )
        return g.step(template, n, **options)
    template = f"F.adaptive_max_pool{dims}d({{0}}, {{size}}, True)"
    return g.step(template, n, size=[g.int(1, 3) for _ in range(dims)], results=2)


@row(2)
def averaged(g):
    dims = g.choice([1, 2, 2, 3])
    n = image(g, dims, ROUGH)
    kernel = [g.int(1, min(3, k)) for k in g[n].shape[2:]]
    options = dict(k=kernel, c=g.chance(0.3), i=g.chance(0.5), p=[k // 2 for k in kernel])
    template = f"F.avg_pool{dims}d({{0}}, {{k}}, None, {{p}}, {{c}}, {{i}}"
    template += ", {v})" if dims > 1 else ")"
    return g.step(template, n, kind=ROUGH, v=g.choice([None, 2, 3]), **options)


@row(2)
def recurrent(g):
    """A cell or a layer of a recurrent network."""
    cell, gates = g.choice([("lstm", 4), ("gru", 3), ("rnn_tanh", 1), ("rnn_relu", 1)])
    length, batch, width, hidden = g.int(1, 4), g.int(1, 3), g.int(1, 5), g.int(1, 5)
    x = g.fresh((length, batch, width), torch.float32, -1, 2)
    h = g.fresh((1, batch, hidden), torch.float32, -1, 2)
    shapes = [(gates * hidden, width), (gates * hidden, hidden), (gates * hidden,)]
    weights = [g.fresh(s, torch.float32, -1, 2) for s in (*shapes, shapes[2])]
    if g.chance(0.5):
        state = "({1}, {1})" if cell == "lstm" else "{1}"
        template = f"torch.{cell}({{0}}, {state}, [{{2}}, {{3}}, {{4}}, {{5}}], True, 1, 0.0, False"
        template += ", False, False)"
        results = 3 if cell == "lstm" else 2
        return g.step(template, x, h, *weights, results=results, kind=ROUGH)
    state = "({1}[0], {1}[0])" if cell == "lstm" else "{1}[0]"
    template = f"torch.{cell}_cell({{0}}[0], {state}, {{2}}, {{3}}, {{4}}, {{5}})"
    results = 2 if cell == "lstm" else 1
    return g.step(template, x, h, *weights, results=results, kind=ROUGH)


@row(3)
def more_losses(g):
    how = g.choice(["mean", "sum", "none"])
    n = g.pick(
        ROUGH,
        lambda x: x.dim() in (1, 2, 4) and x.dtype in FLOATS and x.numel() and largest(x) <= 16,
    )
    x = g[n]
    m = g.fresh(x.shape, x.dtype, 0, 2)
    classes = x.dim() != 1
    target = g.fresh((x.shape[0], *x.shape[2:]), torch.int64, 0, x.shape[1]) if classes else m
    weight = g.fresh((x.shape[1],) if classes else (1,), x.dtype, 1, 4)
    template = g.choice(
        [
            "F.binary_cross_entropy_with_logits({0}, {1}, reduction={how})",
            "F.binary_cross_entropy({0}.sigmoid(), {1}, reduction={how})",
            "F.kl_div({0}.log_softmax(0), {1}, reduction={how})",
            "F.nll_loss({0}.log_softmax(1), {2}, {3}, reduction={how})",
            "F.cross_entropy({0}, {2}, {3}, ignore_index=0, reduction={how}, label_smoothing={e})",
            "F.soft_margin_loss({0}, {1} * 2 - 1, reduction={how})",
            "F.poisson_nll_loss({0}.clamp(max=3), {1}, reduction={how})",
            "F.hinge_embedding_loss({0}, {1} * 2 - 1, reduction={how})",
            "F.cosine_similarity({0} + 20, {1} + 1, 0)",
            "F.multi_margin_loss({0}, {2}, reduction={how})",
            "F.normalize({0} + 20, dim=0)",
            "F.glu(torch.cat([{0}, {1}]), 0)",
        ]
    )
    if "{2}" in template and (not classes or ("margin" in template and x.dim() != 2)):
        raise Nothing
    if how == "mean" and "ignore_index" in template and not (g[target] != 0).any():
        raise Nothing
    e = g.choice([0.0, 0.25])
    return g.step(template, n, m, target, weight, how=how, e=e, kind=ROUGH)


@row(2)
def bags(g):
    size = g.int(1, 9)
    weight = g.fresh((size, g.int(1, 9)), torch.float32)
    if g.chance(0.5):
        i = g.fresh((g.int(1, 4), g.int(1, 5)), torch.int64, 0, size)
        mode = g.choice(["sum", "mean"])
        return g.step("F.embedding_bag({0}, {1}, mode={m})", i, weight, m=mode, kind=ROUGH)
    i = g.fresh(g.shape(0, 3), torch.int64, 0, size)
    return g.step("F.embedding({0}, {1}, padding_idx=0)", i, weight, kind=SMOOTH)


@row(2)
def products_of_batches(g):
    """baddbmm, addmv, addr, tensordot, einsum, bilinear, cross, trace."""
    n = g.pick(SMOOTH, lambda x: x.dim() == 2 and x.dtype in FLOATS and largest(x) <= 16)
    x = g[n]
    rows, columns = x.shape
    vector, left = g.fresh((columns,), x.dtype), g.fresh((rows,), x.dtype)
    other = g.fresh((g.int(1, 3), columns, g.int(1, 5)), x.dtype)
    template = g.choice(
        [
            "torch.addmv({2}, {0}, {1}, beta={b}, alpha={a})",
            "torch.addr({0}, {2}, {1}, beta={b}, alpha={a})",
            "torch.tensordot({0}, {3}, dims=([1], [1]))",
            "torch.einsum('ij,bjk->bik', {0}, {3})",
            "torch.einsum('ij,i->j', {0}, {2})",
            "torch.mv({0}, {1})",
            "torch.trace({0})",
            "torch.linalg.multi_dot([{0}, {3}[0], {3}[0].t()])",
            "torch.baddbmm(torch.zeros(1, device=device, dtype={0}.dtype), "
            "{0}.expand({3}.shape[0], -1, -1), {3}, beta={b})",
            "torch.addbmm({0} @ {3}[0], {0}.expand({3}.shape[0], -1, -1), {3}, beta={b})",
            "torch.inner({0}, {1})",
            "torch.block_diag({0}, {0})",
        ]
    )
    return g.step(
        template, n, vector, left, other, b=g.choice([0, 1, 2]), a=g.choice([1, 2]), kind=SMOOTH
    )


@row(1)
def solved(g):
    """Linear algebra of small well-conditioned matrices."""
    size = g.int(1, 5)
    dtype = g.choice([t for t, _ in g.types if t in FLOATS[:2]])
    n = g.fresh((g.int(1, 2), size, size), dtype, -1, 2)
    b = g.fresh((g[n].shape[0], size, g.int(1, 3)), dtype)
    well = "({0} + {k} * torch.eye({n}, device=device, dtype={0}.dtype))"
    template = g.choice(
        [
            f"torch.linalg.solve({well}, {{1}})",
            f"torch.linalg.inv({well})",
            f"torch.linalg.det({well}) / {{k}} ** {{n}}",
            f"torch.linalg.cholesky({well} @ {well}.mT)",
            f"torch.linalg.solve_triangular({well}.triu(), {{1}}, upper=True)",
            f"torch.linalg.slogdet({well})[1]",
            f"torch.linalg.svdvals({well})",
            f"torch.linalg.matrix_power({well} / {{k}}, 3)",
            f"torch.linalg.lstsq({well}, {{1}})[0]",
        ]
    )
    return g.step(template, n, b, k=2 * size + 1, n=size, kind=ROUGH)


@row(1.5)
def transforms(g):
    """Fourier transforms and back."""
    n = g.pick(
        ROUGH,
        lambda x: (
            x.dtype in (torch.float32, torch.complex64)
            and x.dim()
            and x.numel()
            and largest(x) <= 16
        ),
    )
    x = g[n]
    d = g.int(-x.dim(), x.dim() - 1)
    template = g.choice(
        ["torch.fft.fft({0}, dim={d})", "torch.fft.ifft({0}, dim={d})", "torch.fft.fftshift({0})"]
    )
    if not x.is_complex():
        template = g.choice(
            [template, "torch.fft.rfft({0}, dim={d})", "torch.fft.irfft({0}, {n}, dim={d})"]
        )
    return g.step(template, n, d=d, n=g.int(1, 9), kind=ROUGH)


@row(1)
def dropped(g):
    """Random functions where chance decides nothing."""
    n = g.pick(EXACT, lambda x: x.dtype in FLOATS)
    template = g.choice(
        [
            "F.dropout({0}, {p})",
            "F.alpha_dropout({0}, 0.0)",
            "torch.bernoulli(torch.full_like({0}, {p}))",
            "torch.rand_like({0}) < {p}",
            "F.dropout({0}, 0.5, training=False)",
            "torch.randperm(1, device=device) + {0}.sum()",
            "torch.rand_like({0}).floor()",
            "torch.randint(3, 4, (5,), device=device)",
        ]
    )
    return g.step(template, n, p=g.choice([0.0, 1.0]))
