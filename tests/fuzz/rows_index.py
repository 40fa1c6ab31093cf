"""Operators that gather, scatter and select."""

import torch
from author import Nothing, shares_memory
from program import EXACT, MOVES, SMOOTH
from rows import row
from rows_pointwise import writable


def indices(g, size, shape, negative=False):
    """A tensor of indices into a dimension of that size."""
    if size == 0 and torch.Size(shape).numel():
        raise Nothing
    low = -size if negative and g.chance(0.5) else 0
    dtype = torch.int32 if negative and g.chance(0.15) else torch.int64
    return g.fresh(shape, dtype, low, max(size, low + 1))


def different(g, size, count):
    """Indices of which no two are equal: the order of writes does not matter."""
    start = g.int(0, size - count)
    if g.in_function or g.chance(0.3):
        step = g.step("torch.arange({a}, {b}, device=device)", a=start, b=start + count)
    else:
        arguments = dict(size=size, count=count, seed=g.sizes())
        step = g.step(
            "(distinct(({size},), torch.int64, {seed}) + {size} // 2)[:{count}]", **arguments
        )
    if not g.add(step):
        raise Nothing
    return step.results[0]


def indexable(g, kind=MOVES):
    n = g.pick(kind, lambda x: x.dim() > 0)
    return n, g[n]


@row(5)
def advanced(g):
    """x[i, :, j] with tensors, slices and None; a mask for some dimensions."""
    n, x = indexable(g)
    count = g.int(1, x.dim())
    shape = g.shape(0, 2, empty=g.chance(0.1))
    if torch.Size(shape).numel() * x.numel() > 100_000:
        raise Nothing
    parts, operands = [], [n]
    for d in range(count):
        if g.chance(0.55):
            operands.append(indices(g, x.shape[d], g.broadcastable(shape), negative=True))
            parts.append(f"{{{len(operands) - 1}}}")
        else:
            parts.append(g.choice([":", ":", "::2", "None, :"]))
    if len(operands) == 1:
        raise Nothing
    return g.step(f"{{0}}[{', '.join(parts)}]", *operands, kind=MOVES)


@row(3, pure=False)
def masked(g):
    """x[mask], masked_select, nonzero: the size depends on the numbers."""
    n, x = indexable(g)
    dims = g.int(1, x.dim())
    mask = g.partner(x, dtype=torch.bool, same_shape=True)
    if dims < x.dim():
        mask = g.fresh(x.shape[:dims], torch.bool)
    template = g.choice(["{0}[{1}]", "torch.masked_select({0}, {1})", "torch.nonzero({1})"])
    if "select" in template and dims < x.dim():
        template = "{0}[{1}]"
    if "nonzero" in template and g.chance(0.5):
        template = "torch.argwhere({1})"
    return g.step(template, n, mask, kind=MOVES)


@row(4)
def gathers(g):
    n, x = indexable(g)
    d = g.int(0, x.dim() - 1)
    kind = g.int(0, 4)
    if kind == 0:
        i = indices(g, x.shape[d], (g.int(0, 6),))
        return g.step("torch.index_select({0}, {d}, {1})", n, i, d=d, kind=MOVES)
    if kind == 1:
        i = indices(g, x.numel(), g.shape(0, 2), negative=True)
        if g[i].dtype != torch.int64:
            raise Nothing
        return g.step("torch.take({0}, {1})", n, i, kind=MOVES)
    shape = [g.int(0 if g.chance(0.1) else min(1, k), k) for k in x.shape]
    shape[d] = g.int(0, 6)
    i = indices(g, x.shape[d], shape)
    if kind == 2:
        shape = [1 if g.chance(0.3) else k for k in x.shape]
        shape[d] = g.int(1, 5)
        i = indices(g, x.shape[d], shape)
        return g.step("torch.take_along_dim({0}, {1}, {d})", n, i, d=d, kind=MOVES)
    return g.step("torch.gather({0}, {d}, {1})", n, i, d=d, kind=MOVES)


@row(4)
def scatters(g):
    """Sums into a tensor, and writes by indices that differ."""
    inplace = g.chance(0.5)
    n = writable(g, where=lambda x: x.dim() > 0 and x.dtype != torch.bool)
    x = g[n]
    if not g.accepts(n, SMOOTH):
        raise Nothing
    d = g.int(0, x.dim() - 1)
    shape = [g.int(min(1, k), k) for k in x.shape]
    suffix = "_" if inplace else ""
    kind = g.int(0, 4)
    results, writes = int(not inplace), (n,) if inplace else ()
    options = dict(results=results, writes=writes, d=d, kind=SMOOTH)
    if kind <= 1:
        if kind == 0:
            shape[d] = g.int(0, 8)
        i = indices(g, x.shape[d], shape)
        source = g.fresh(shape, x.dtype)
        if g.chance(0.5):
            return g.step(
                f"{{0}}.scatter_add{suffix}({{d}}, {{1}}, {{2}})", n, i, source, **options
            )
        how = g.choice(["sum", "amax", "amin", "prod"])
        if x.is_complex() or not g.accepts(n, EXACT):
            raise Nothing
        template = f"{{0}}.scatter_reduce{suffix}({{d}}, {{1}}, {{2}}, {{how}}, include_self={{s}})"
        return g.step(template, n, i, source, how=how, s=g.chance(0.7), **options)
    if kind == 2:
        count = g.int(0, 8)
        i = indices(g, x.shape[d], (count,))
        shape = [*x.shape[:d], count, *x.shape[d + 1 :]]
        source = g.fresh(shape, x.dtype)
        template = f"{{0}}.index_add{suffix}({{d}}, {{1}}, {{2}}, alpha={{a}})"
        return g.step(template, n, i, source, a=g.int(1, 2), **options)
    count = g.int(0, min(8, x.shape[d]))
    i = different(g, x.shape[d], count)
    if kind == 3:
        shape = [*x.shape[:d], count, *x.shape[d + 1 :]]
        if g.chance(0.3):
            k = g.number(x.dtype)
            return g.step(f"{{0}}.index_fill{suffix}({{d}}, {{1}}, {{k}})", n, i, k=k, **options)
        source = g.fresh(shape, x.dtype)
        return g.step(f"{{0}}.index_copy{suffix}({{d}}, {{1}}, {{2}})", n, i, source, **options)
    if x.dim() > 1 or count == 0:
        raise Nothing
    source = g.fresh((count,), x.dtype)
    return g.step(f"{{0}}.scatter{suffix}({{d}}, {{1}}, {{2}})", n, i, source, **options)


@row(4)
def puts(g):
    """index_put_: with sums for any indices, else for indices that differ."""
    n = writable(g, where=lambda x: x.dim() > 0)
    x = g[n]
    if not g.accepts(n, SMOOTH):
        raise Nothing
    d = g.int(0, x.dim() - 1)
    options = dict(results=0, writes=(n,), kind=SMOOTH)
    parts = ":, " * d
    if g.chance(0.5):
        count = g.int(0, 8)
        i = indices(g, x.shape[d], (count,), negative=True)
        if g[i].dtype != torch.int64 or x.dtype == torch.bool:
            raise Nothing
        if d == 0:
            source = g.fresh(g.broadcastable((count, *x.shape[1:])), x.dtype)
            return g.step("{0}.index_put_(({1},), {2}, accumulate=True)", n, i, source, **options)
        source = g.fresh(g.broadcastable((count, *x.shape[2:])), x.dtype)
        j = indices(g, x.shape[0], (count,))
        if d != 1:
            raise Nothing
        return g.step(
            "{0}.index_put_(({2}, {1}), {3}, accumulate=True)", n, i, j, source, **options
        )
    if x.shape[d] == 0:
        raise Nothing
    i = different(g, x.shape[d], g.int(0, min(8, x.shape[d])))
    shape = (*x.shape[:d], g[i].numel(), *x.shape[d + 1 :])
    source = g.fresh(g.broadcastable(shape), x.dtype)
    index = "(slice(None),) * {d} + ({1},)"
    return g.step(f"{{0}}[{index}] = {{2}}", n, i, source, d=len(parts) // 3, **options)


@row(4)
def masks(g):
    n = writable(g)
    x = g[n]
    mask = g.partner(x, dtype=torch.bool)
    if g[mask].dim() > x.dim() or not g.accepts(n, SMOOTH) or shares_memory(x, g[mask]):
        raise Nothing
    inplace = g.chance(0.5)
    options = dict(results=int(not inplace), writes=(n,) if inplace else (), kind=MOVES)
    suffix = "_" if inplace else ""
    kind = g.int(0, 2)
    k = g.number(x.dtype)
    if kind == 0:
        return g.step(f"{{0}}.masked_fill{suffix}({{1}}, {{k}})", n, mask, k=k, **options)
    if kind == 1:
        source = g.fresh((x.numel(),), x.dtype)
        return g.step(f"{{0}}.masked_scatter{suffix}({{1}}, {{2}})", n, mask, source, **options)
    if g[mask].shape != x.shape:
        raise Nothing
    if g.chance(0.5):
        source = g.fresh((), x.dtype)
        return g.step("{0}[{1}] = {2}", n, mask, source, **options | dict(results=0, writes=(n,)))
    return g.step("{0}[{1}] = {k}", n, mask, k=k, **options | dict(results=0, writes=(n,)))


@row(2)
def written_views(g):
    """New tensors with a part that is written."""
    n = g.pick(SMOOTH, lambda x: x.dim() > 0 and x.numel() > 0)
    x = g[n]
    d = g.int(0, x.dim() - 1)
    kind = g.int(0, 2)
    if kind == 0:
        source = g.fresh([*x.shape[:d], *x.shape[d + 1 :]], x.dtype)
        i = g.int(0, x.shape[d] - 1)
        return g.step("torch.select_scatter({0}, {1}, {d}, {i})", n, source, d=d, i=i, kind=SMOOTH)
    if kind == 1:
        start = g.int(0, x.shape[d] - 1)
        source = g.fresh(x.transpose(0, d)[start::2].transpose(0, d).shape, x.dtype)
        template = "torch.slice_scatter({0}, {1}, {d}, {start}, None, 2)"
        return g.step(template, n, source, d=d, start=start, kind=SMOOTH)
    if x.dim() < 2:
        raise Nothing
    source = g.fresh(x.diagonal().shape, x.dtype)
    return g.step("torch.diagonal_scatter({0}, {1})", n, source, kind=SMOOTH)


@row(1)
def one_hot(g):
    size = g.int(1, 7)
    i = indices(g, size, g.shape(0, 2))
    if g.chance(0.5):
        return g.step("F.one_hot({0}, {n})", i, n=size)
    weight = g.fresh((size, g.int(1, 9)), torch.float32)
    return g.step("F.embedding({0}, {1})", i, weight)
