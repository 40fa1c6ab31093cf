"""Reductions, scans, sorting, products."""

import torch
from author import Nothing, largest
from program import EXACT, ROUGH, SMOOTH
from rows import row


def real(x):
    return not x.is_complex()


def distinct_rows(g, x, dim):
    """Whether no row along the dimension has two equal numbers."""
    if x.dim() == 0 or x.shape[dim] < 2:
        return True
    rows = x.detach().sort(dim).values
    return bool((rows.diff(dim=dim) != 0).all())


@row(7)
def sums(g):
    n = g.pick(SMOOTH)
    x = g[n]
    name = g.choice(["sum", "sum", "mean", "nansum", "amax", "amin", "any", "all"])
    if name == "mean" and not (x.is_floating_point() or x.is_complex()):
        name = "sum"
    if name in ("any", "all"):
        n = g.pick(EXACT)
        x = g[n]
    kind = ROUGH if name == "mean" else SMOOTH
    if name in ("sum", "mean") and g.chance(0.15):
        dtype = g.choice([torch.float32, torch.int64, torch.float32])
        if dtype == torch.int64 and (not real(x) or x.is_floating_point() or name == "mean"):
            raise Nothing
        if real(x):
            return g.step(f"{{0}}.{name}(dtype={{dtype}})", n, dtype=dtype, kind=kind)
    if g.chance(0.25):
        return g.step(f"torch.{name}({{0}})", n, kind=kind)
    dims = g.dims(x) or [g.dim(x)]
    if name == "nansum" and not real(x):
        raise Nothing
    keep = g.chance(0.4)
    return g.step(f"torch.{name}({{0}}, {{d}}, keepdim={{keep}})", n, d=dims, keep=keep, kind=kind)


@row(3)
def with_indices(g):
    """max, min, median and others along a dimension, of rows without equal numbers."""
    n = g.pick(EXACT, real)
    x = g[n]
    d = g.int(-x.dim(), x.dim() - 1) if x.dim() else 0
    if x.numel() == 0 and x.dim() == 0:
        raise Nothing
    keep = g.chance(0.4)
    name = g.choice(["max", "min", "median", "cummax", "cummin", "kthvalue", "argmax", "argmin"])
    if not distinct_rows(g, x, d) and name not in ("argmax", "argmin"):
        if not x.dim() or x.shape[d] * 2 > 400:
            raise Nothing
        dtype = x.dtype if x.dtype not in (torch.bool, torch.uint8, torch.int8) else torch.float32
        n = g.distinct(x.shape, torch.float32 if x.numel() > 200 else dtype)
    if name in ("argmax", "argmin"):
        template = g.choice([f"torch.{name}({{0}}, {{d}}, {{keep}})", f"torch.{name}({{0}})"])
        return g.step(template, n, d=d, keep=keep)
    arguments = {"kthvalue": "{k}, {d}, {keep}", "cummax": "{d}", "cummin": "{d}"}
    template = f"torch.{name}({{0}}, {arguments.get(name, '{d}, {keep}')})"
    size = x.shape[d] if x.dim() else 1
    return g.step(template, n, k=g.int(1, max(1, size)), d=d, keep=keep, results=2)


@row(2)
def whole(g):
    n = g.pick(EXACT, real)
    template = g.choice(["{0}.max()", "{0}.min()", "torch.count_nonzero({0})", "{0}.median()"])
    if g.chance(0.3):
        template = "torch.aminmax({0})"
    return g.step(template, n, results=2 if "aminmax" in template else 1)


@row(2)
def products(g):
    n = g.pick(EXACT, lambda x: largest(x) <= 3 and x.numel() <= 60)
    template = g.choice(["{0}.prod()", "{0}.prod({d})", "{0}.cumprod({d})"])
    kind = EXACT if real(g[n]) else ROUGH
    return g.step(template, n, d=g.dim(g[n]), kind=kind)


@row(3)
def scans(g):
    n = g.pick(SMOOTH)
    x = g[n]
    template = g.choice(
        ["{0}.cumsum({d})", "torch.cumsum({0}, {d}, dtype={dtype})", "{0}.diff(dim={d})"]
    )
    if "dtype" in template and x.is_complex():
        raise Nothing
    if "diff" in template and (x.dim() == 0 or x.dtype == torch.bool):
        raise Nothing
    dtype = torch.float32 if x.is_floating_point() else torch.int64
    return g.step(template, n, d=g.dim(x), dtype=dtype, kind=SMOOTH)


@row(3)
def rough_reductions(g):
    n = g.pick(ROUGH, lambda x: x.is_floating_point() and largest(x) <= 30)
    x = g[n]
    template = g.choice(
        [
            "torch.var({0}, {d}, keepdim={keep}, correction={k})",
            "torch.std({0}, {d}, correction={k})",
            "torch.logsumexp({0}, {d}, {keep})",
            "torch.norm({0}, dim={d}, keepdim={keep})",
            "torch.linalg.vector_norm({0}, {p}, {d}, {keep})",
            "torch.softmax({0}, {d})",
            "torch.log_softmax({0}, {d})",
            "torch.logcumsumexp({0}, {d})",
            "torch.var_mean({0}, {d}, correction={k})",
        ]
    )
    d = g.int(-x.dim(), x.dim() - 1) if x.dim() else 0
    if x.dim() == 0 or x.shape[d] == 0:
        raise Nothing
    powers = [1, 2, 3, float("inf")] if g.levels[n] else [0, 1, 2, 3]  # 0 counts exact zeros
    arguments = dict(d=d, keep=g.chance(0.4), k=g.int(0, 1), p=g.choice(powers))
    results = 2 if "var_mean" in template else 1
    return g.step(template, n, kind=ROUGH, results=results, **arguments)


@row(3)
def sorts(g):
    n = g.pick(EXACT, real)
    x = g[n]
    d = g.int(-x.dim(), x.dim() - 1) if x.dim() else 0
    down = g.chance(0.5)
    kind = g.int(0, 3)
    if kind == 0:
        template = "torch.sort({0}, dim={d}, descending={down}, stable=True)"
        return g.step(template, n, d=d, down=down, results=2)
    if kind == 1:
        template = "torch.argsort({0}, dim={d}, descending={down}, stable=True)"
        return g.step(template, n, d=d, down=down)
    if kind == 2:
        # Any of several equal numbers may get the gradient.
        return g.step("torch.sort({0}.detach(), {d}, {down})[0]", n, d=d, down=down)
    size = x.shape[d] if x.dim() else 1
    k = g.int(0, size)
    if distinct_rows(g, x, d) and g.chance(0.5):
        return g.step("torch.topk({0}, {k}, {d}, {down})", n, k=k, d=d, down=down, results=2)
    return g.step("torch.topk({0}.detach(), {k}, {d}, {down})[0]", n, k=k, d=d, down=down)


@row(2, pure=False)
def uniques(g):
    n = g.pick(EXACT, lambda x: real(x) and (not x.is_floating_point() or not x.isnan().any()))
    x = g[n]
    inverse = g.chance(0.5)
    if g.chance(0.4) and x.dim():
        template = "torch.unique({0}, dim={d}, return_inverse={i}, return_counts=True)"
        if x.numel() == 0:
            raise Nothing
    elif g.chance(0.5):
        template = "torch.unique_consecutive({0}, return_inverse={i}, return_counts=True)"
    else:
        template = "torch.unique({0}, return_inverse={i}, return_counts=True)"
    d = g.int(0, x.dim() - 1) if x.dim() else 0
    return g.step(template, n, i=inverse, d=d, results=2 + inverse)


@row(2, pure=False)
def counts(g):
    n = g.pick(EXACT, lambda x: x.dtype in (torch.int64, torch.int32) and x.dim() == 1)
    x = g[n]
    if g.chance(0.5) and x.numel() and x.min() >= 0 and x.max() < 1000:
        return g.step("torch.bincount({0}, minlength={k})", n, k=g.int(0, 9))
    bounds = g.distinct((g.int(1, 9),), torch.int64)
    ordered = g.step("{0}.sort()[0]", bounds)
    g.add(ordered)
    template = "torch.searchsorted({0}, {1}, right={right})"
    return g.step(template, ordered.results[0], n, right=g.chance(0.5))


@row(5)
def matmul(g):
    """Products of two tensors whose inner sizes fit."""
    n = g.pick(
        SMOOTH, lambda x: x.dim() in (1, 2, 3) and x.dtype != torch.bool and largest(x) <= 64
    )
    x = g[n]
    inner, dtype = x.shape[-1], x.dtype
    if g.chance(0.4):
        m = g.pick(SMOOTH, lambda y: y.dim() > 1 and y.shape[-2] == inner and y.dtype == dtype)
        if largest(g[m]) > 64:
            raise Nothing
    else:
        batch = x.shape[:-2] if g.chance(0.7) else ()
        shape = (*batch, inner, g.choice([0, 1, 2, 3, 5, 8, 16, 33]))
        if g.chance(0.3):
            turned = g.fresh((*batch, shape[-1], inner), dtype)
            view = g.step("{0}.transpose(-1, -2)", turned)
            g.add(view)
            m = view.results[0]
        else:
            m = g.fresh(shape if g.chance(0.9) else (inner,), dtype)
    y = g[m]
    template = "torch.matmul({0}, {1})"
    if x.dim() == y.dim() == 2:
        template = g.choice(["torch.mm({0}, {1})", template, "torch.einsum('ij,jk->ki', {0}, {1})"])
        if g.chance(0.3):
            bias = g.fresh(g.broadcastable((x.shape[0], y.shape[1])), dtype)
            template = "torch.addmm({0}, {1}, {2}, beta={b}, alpha={a})"
            return g.step(template, bias, n, m, b=g.int(0, 2), a=g.int(1, 2), kind=SMOOTH)
    if x.dim() == y.dim() == 3 and g.chance(0.5):
        template = "torch.bmm({0}, {1})"
    return g.step(template, n, m, kind=SMOOTH)


@row(1)
def more_products(g):
    n = g.pick(SMOOTH, lambda x: x.dtype != torch.bool and x.dim() and largest(x) <= 64)
    x = g[n]
    if x.dim() == 1:
        m = g.partner(x, SMOOTH, dtype=x.dtype, same_shape=True)
        products = ["torch.dot({0}, {1})", *["torch.outer({0}, {1})"] * (x.numel() < 1000)]
        return g.step(g.choice(products), n, m, kind=SMOOTH)
    if x.dim() == 2 and x.numel() < 200 and g.chance(0.4):
        m = g.fresh((g.int(1, 3), g.int(1, 3)), x.dtype)
        return g.step("torch.kron({0}, {1})", n, m, kind=SMOOTH)
    m = g.fresh((g.int(1, 4), x.shape[-1]), x.dtype)
    return g.step("F.linear({0}, {1})", n, m, kind=SMOOTH)
