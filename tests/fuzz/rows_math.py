"""Functions of two and three numbers, of complex numbers, cumulative ones, and comparisons."""

import torch
from author import Nothing, largest, overlaps
from program import EXACT, MOVES, ROUGH, SMOOTH
from rows import row
from rows_pointwise import INTEGERS, exact_if, real

FLOATS = (torch.float32, torch.float64, torch.float16, torch.bfloat16)


def is_float(x):
    return x.dtype in FLOATS


@row(4)
def two_numbers(g):
    """Functions of two floats."""
    n = g.pick(ROUGH, lambda x: is_float(x) and largest(x) <= 16)
    m = g.partner(g[n], ROUGH, dtype=g[n].dtype)
    x, y = g[n], g[m]
    if largest(y) > 16:
        raise Nothing
    name = g.choice(["atan2", "hypot", "copysign", "logaddexp", "logaddexp2", "xlogy", "fmax"])
    name = g.choice([name, "fmin", "special.xlog1py", "true_divide", "float_power"])
    if name in ("atan2", "copysign", "float_power"):
        exact_if(g, EXACT, n, m)
    positive = (y > 0.25).all()
    if name in ("xlogy", "special.xlog1py", "true_divide") and not positive:
        raise Nothing
    if name == "float_power" and (largest(y) > 3 or not (x > 0).all()):
        raise Nothing
    if name == "float_power" and all(t != torch.float64 for t, _ in g.types):
        raise Nothing
    if name == "copysign" and (y == 0).any():  # the sign of zero is not compared
        raise Nothing
    return g.step(f"torch.{name}({{0}}, {{1}})", n, m, kind=ROUGH)


@row(2)
def two_integers(g):
    n = g.pick(EXACT, lambda x: x.dtype in INTEGERS and largest(x) <= 100)
    name = g.choice(["gcd", "lcm", "bitwise_left_shift", "bitwise_right_shift"])
    if "shift" in name:
        k = g.fresh(g.broadcastable(g[n].shape), g[n].dtype, 0, 4)
        return g.step(f"torch.{name}({{0}}, {{1}})", n, k)
    m = g.partner(g[n], EXACT, dtype=g[n].dtype)
    if largest(g[m]) > 100 or g[n].dtype in (torch.int8, torch.uint8):
        raise Nothing
    return g.step(f"torch.{name}({{0}}, {{1}})", n, m)


@row(3)
def repaired(g):
    """Operators for NaN, infinity and closeness."""
    n = g.pick(EXACT, is_float)
    m = g.partner(g[n], EXACT, dtype=g[n].dtype)
    template = g.choice(
        [
            "torch.nan_to_num({0}, {k}, 7.0, -7.0)",
            "torch.isclose({0}, {1}, equal_nan=True)",
            "torch.nanmedian({0}.detach())",
            "torch.nanmean({0}).nan_to_num(1.0)",
            "torch.fmax({0}, {1})",
            "torch.fmin({0}, {1})",
            "torch.isnan({0})",
            "torch.special.entr({0}.abs())",
            "torch.frexp({0})[1]",
            "torch.signbit({0} - 0.125)",
            "torch.ldexp({0}, {1}.clamp(-3, 3))",
        ]
    )
    if "nan" in template and "{1}" not in template:
        n = g.fresh(g.shape(1), g[n].dtype, special=True)
    kind = ROUGH if "mean" in template or "entr" in template else EXACT
    return g.step(template, n, m, k=g.number(), kind=kind)


@row(2)
def three_numbers(g):
    n = g.pick(ROUGH, lambda x: is_float(x) and largest(x) <= 16)
    x = g[n]
    m = g.partner(x, ROUGH, dtype=x.dtype)
    k = g.fresh(g.broadcastable(x.shape), x.dtype, 1, 5)
    if g.levels[n] or g.levels[m] or largest(g[m]) > 16:
        raise Nothing
    template = g.choice(
        [
            "torch.addcdiv({0}, {1}, {2}, value={v})",
            "torch.clamp({0}, -{2}, {2})",
            "torch.clamp({0}, min={1})",
            "torch.where({1} > 0, {0}, {v})",
            "torch.addcdiv({0}, {1}, {2})",
        ]
    )
    return g.step(template, n, m, k, v=g.choice([0.5, 2, -1]), kind=ROUGH)


@row(4)
def complex_numbers(g):
    """Functions of complex numbers, and what makes them."""
    if g.chance(0.3):
        n = g.pick(SMOOTH, lambda x: x.dtype in (torch.float32, torch.float64))
        x = g[n]
        m = g.partner(x, SMOOTH, dtype=x.dtype, same_shape=True)
        if x.dtype == torch.float64 and all(t != torch.complex128 for t, _ in g.types):
            raise Nothing
        return g.step("torch.complex({0}, {1})", n, m, kind=SMOOTH)
    n = g.pick(ROUGH, lambda x: x.is_complex() and largest(x) <= 6)
    m = g.partner(g[n], ROUGH, dtype=g[n].dtype)
    if largest(g[m]) > 6:
        raise Nothing
    template = g.choice(
        [
            *("{0} * {1}", "{0} + {1}.conj()", "{0}.conj() * {1}", "torch.abs({0})"),
            *("torch.exp({0})", "torch.sin({0})", "torch.tanh({0})", "{0} / ({1}.abs() + 1)"),
            *("{0}.abs().square()", "torch.polar({0}.real, {0}.imag)", "{0}.real + {0}.imag"),
            *("torch.sum({0}, {d})", "torch.mean({0}, {d})", "{0}.sgn()", "{0} == {1}"),
            *("torch.cumsum({0}, {d})", "torch.view_as_real({0})", "{0} ** 2", "-{0}.conj()"),
            *("{0}.conj().clone()", "{0}.imag.clone()", "torch.prod({0})", "{0}.mul({k})"),
        ]
    )
    if "==" in template or "sgn" in template:
        exact_if(g, EXACT, n, m)
    if "prod" in template and g[n].numel() > 6:
        raise Nothing
    x = g[n]
    d = g.int(-x.dim(), x.dim() - 1) if x.dim() else 0
    return g.step(template, n, m, d=d, k=1j, kind=ROUGH)


@row(2)
def complex_in_place(g):
    """Writes into complex numbers, their parts, and conjugated views."""
    n = g.pick(SMOOTH, lambda x: x.is_complex() and largest(x) <= 50 and not overlaps(x))
    m = g.fresh(g.broadcastable(g[n].shape), g[n].dtype)
    template = g.choice(
        [
            *("{0}.real.add_(2)", "{0}.imag.mul_(-1)", "{0}.mul_({1})", "{0}.add_({1}.conj())"),
            *("{0}.conj_physical_()", "torch.view_as_real({0}).mul_(2)", "{0}.copy_({1}.conj())"),
            *("{0}.conj().add_({1})", "{0}.imag.copy_({1}.real)", "{0}.sub_({1}, alpha=2)"),
        ]
    )
    return g.step(template, n, m, results=0, writes=(n,), kind=SMOOTH)


@row(3)
def cumulative(g):
    """Scans of all kinds along all dimensions, also in place and flipped."""
    n = g.pick(SMOOTH, lambda x: real(x) and x.dim() and x.dtype != torch.bool)
    x = g[n]
    d = g.int(-x.dim(), x.dim() - 1)
    template = g.choice(
        [
            *("torch.cummax({0}, {d})[0]", "torch.cummin({0}, {d})[0]", "{0}.cumsum({d})"),
            *("torch.cumsum({0}.flip({d}), {d}).flip({d})", "{0}.sign().cumprod({d})"),
            *("{0}.transpose(0, -1).cumsum({d})", "torch.cumulative_trapezoid({0}, dim={d})"),
        ]
    )
    if "sign" in template or "max" in template or "min" in template:
        exact_if(g, EXACT, n)
    if "trapezoid" in template and not is_float(x):
        raise Nothing
    if g.chance(0.2) and not overlaps(x) and largest(x) <= 1000 and not x.requires_grad:
        return g.step("{0}.cumsum_({d})", n, d=d, results=0, writes=(n,), kind=SMOOTH)
    return g.step(template, n, d=d, kind=SMOOTH)


@row(2)
def tied_sorts(g):
    """Sorting and selecting among few numbers, so that many are equal: only values are compared."""
    shape = g.shape(1)
    n = g.fresh(shape, g.dtype(lambda t: not t.is_complex), 0, g.int(1, 4))
    x = g[n]
    d = g.int(-x.dim(), x.dim() - 1)
    k = g.int(min(1, x.shape[d]), x.shape[d])
    template = g.choice(
        [
            "torch.topk({0}, {k}, {d}, {down})[0]",
            "torch.sort({0}, {d}, {down})[0]",
            "torch.kthvalue({0}, {k}, {d})[0]",
            "torch.gather({0}, {d}, torch.topk({0}, {k}, {d}, {down})[1])",
            "torch.gather({0}, {d}, torch.sort({0}, {d}, {down})[1])",
            "torch.take_along_dim({0}, torch.argsort({0}, {d}, {down}), {d})",
            "torch.msort({0})",
            "torch.sort({0}, stable=True, dim={d}, descending={down})[1]",
            "torch.mode({0}, {d})[0]",
            "torch.median({0}, {d})[0]",
            "torch.max({0}, {d})[0]",
            "torch.gather({0}, {d}, torch.max({0}, {d}, True)[1])",
            "torch.argmax({0}, {d})",
            "torch.cummin({0}, {d})[1]",
            "torch.unique({0})",
        ]
    )
    if "unique" in template and g.in_function:
        raise Nothing
    if ("kth" in template or "mode" in template or "median" in template) and x.shape[d] == 0:
        raise Nothing
    return g.step(template, n, k=k, d=d, down=g.chance(0.5))


@row(2)
def quantiles(g):
    n = g.pick(EXACT, lambda x: x.dtype in (torch.float32, torch.float64) and x.dim())
    x = g[n]
    d = g.int(-x.dim(), x.dim() - 1)
    if x.shape[d] == 0:
        raise Nothing
    how = g.choice(["linear", "lower", "higher", "nearest", "midpoint"])
    template = "torch.quantile({0}.detach(), {q}, {d}, {keep}, interpolation={how})"
    return g.step(
        template, n, q=g.choice([0.25, 0.5, 1.0]), d=d, keep=g.chance(0.4), how=how, kind=ROUGH
    )


@row(2)
def in_bins(g):
    """bucketize, histc, and booleans of whole tensors."""
    n = g.pick(EXACT, lambda x: is_float(x) or x.dtype in (torch.int32, torch.int64))
    x = g[n]
    bounds = g.distinct((g.int(1, 9),), x.dtype)
    template = g.choice(
        [
            "torch.bucketize({0}, {1}.sort()[0], right={r})",
            "torch.isin({0}, {1})",
            "torch.isin({0}, {1}, invert={r})",
            "torch.count_nonzero({0}, {d})",
            "torch.histc({0}.float(), 8, -4, 4)",
        ]
    )
    if "histc" in template and largest(x) > 1e6:
        raise Nothing
    d = g.int(-x.dim(), x.dim() - 1) if x.dim() else 0
    return g.step(template, n, bounds, r=g.chance(0.5), d=d)


@row(3)
def reduced_by_index(g):
    """scatter_reduce, index_reduce and segments with means, and with gradients."""
    n = g.pick(EXACT, lambda x: x.dim() and is_float(x) and not overlaps(x) and largest(x) <= 16)
    x = g[n]
    d = g.int(0, x.dim() - 1)
    if x.shape[d] == 0:
        raise Nothing
    how = g.choice(["mean", "amax", "amin", "prod", "sum"])
    if g.chance(0.5):
        shape = [g.int(min(1, k), k) for k in x.shape]
        shape[d] = g.int(0, 6)
        i = g.fresh(shape, torch.int64, 0, x.shape[d])
        source = g.fresh(shape, x.dtype, -2, 3)
        template = "torch.scatter_reduce({0}, {d}, {1}, {2}, {how}, include_self={s})"
    else:
        how = "mean" if how == "sum" else how
        count = g.int(0, 6)
        i = g.fresh((count,), torch.int64, 0, x.shape[d])
        source = g.fresh([*x.shape[:d], count, *x.shape[d + 1 :]], x.dtype, -2, 3)
        template = "torch.index_reduce({0}, {d}, {1}, {2}, {how}, include_self={s})"
    return g.step(template, n, i, source, d=d, how=how, s=g.chance(0.6), kind=ROUGH)


@row(2)
def masked_sums(g):
    """Reductions with masks, and writes through several masks."""
    n = g.pick(EXACT, lambda x: is_float(x) and x.dim() and largest(x) <= 16)
    x = g[n]
    d = g.int(0, x.dim() - 1)
    mask = g.partner(x, dtype=torch.bool, same_shape=True)
    if x.shape[d] == 0:
        raise Nothing
    template = g.choice(
        [
            "torch.softmax({0}.masked_fill({1}, float('-inf')), {d}).nan_to_num(0.0)",
            "({0} * {1}).sum({d})",
            "torch.where({1}, {0}, 0).amax({d})",
            "{0}.masked_fill({1}, {k}).cumsum({d})",
            "{0}.masked_fill(~{1}, -4).argmax({d})",
            "torch.logsumexp({0}.masked_fill({1}, -4), {d})",
        ]
    )
    return g.step(template, n, mask, d=d, k=g.int(-1, 2), kind=ROUGH)


@row(2, pure=False)
def numbers_for_the_host(g):
    """Numbers of a whole tensor that the host reads."""
    n = g.pick(EXACT, real)
    m = g.partner(g[n], EXACT, dtype=g[n].dtype, same_shape=True)
    template = g.choice(
        [
            "torch.tensor(torch.equal({0}, {1}), device=device)",
            "torch.tensor(bool(({0} == {1}).any()), device=device)",
            "torch.tensor(len({0}.nonzero()), device=device)",
            "torch.tensor({0}.count_nonzero().item(), device=device)",
            "torch.arange(int({0}.count_nonzero()), device=device)",
            "torch.tensor(hash({0}) == hash({1}), device=device)",
        ]
    )
    return g.step(template, n, m, kind=MOVES)
