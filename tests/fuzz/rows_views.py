"""Views, and what joins and splits tensors."""

import math

import torch
from author import Nothing, broadcasts
from program import MOVES
from rows import row


def any_value(g, least=0):
    number = g.pick(MOVES, lambda x: x.dim() >= least)
    return number, g[number]


@row(4)
def permute(g):
    n, x = any_value(g)
    if g.chance(0.5):
        dims = list(range(x.dim()))
        g.random.shuffle(dims)
        return g.step("{0}.permute({dims})", n, dims=dims, kind=MOVES)
    return g.step(
        g.choice(["{0}.transpose({a}, {b})", "torch.movedim({0}, {a}, {b})"]),
        n,
        a=g.dim(x),
        b=g.dim(x),
        kind=MOVES,
    )


@row(5)
def slices(g):
    n, x = any_value(g, 1)
    index = []
    for size in x.shape[: g.int(1, x.dim())]:
        start, stop = g.int(-size - 1, size), g.int(-1, size + 2)
        some = slice(start, stop if g.chance(0.5) else None, g.choice([None, None, 1, 2, 3]))
        whole = g.chance(0.4)
        one = size and g.chance(0.15)
        index.append(g.int(-size, size - 1) if one else slice(None) if whole else some)
    if g.chance(0.1):
        index.insert(g.int(0, len(index)), None)
    if g.chance(0.1):
        index.append(Ellipsis)
    return g.step("{0}[{index}]", n, index=tuple(index), kind=MOVES)


@row(3)
def narrow(g):
    n, x = any_value(g, 1)
    d = g.dim(x)
    size = x.shape[d] if -x.dim() <= d < x.dim() else 1
    start = g.int(0, size)
    length = g.int(0, size - start)
    return g.step(
        "{0}.narrow({d}, {start}, {length})", n, d=d, start=start, length=length, kind=MOVES
    )


@row(2)
def select(g):
    n, x = any_value(g, 1)
    d = g.int(0, x.dim() - 1)
    size = x.shape[d]
    return g.step(
        "{0}.select({d}, {i})", n, d=d, i=g.int(-size, size - 1) if size else 0, kind=MOVES
    )


@row(4)
def shapes(g):
    """view, reshape, flatten, unflatten: to a shape of as many elements."""
    n, x = any_value(g)
    kind = g.int(0, 4)
    if kind == 0 and x.dim():
        first = g.int(0, x.dim() - 1)
        last = g.int(first, x.dim() - 1)
        return g.step("{0}.flatten({a}, {b})", n, a=first, b=last, kind=MOVES)
    if kind == 1 and x.dim():
        d = g.int(0, x.dim() - 1)
        divisors = [k for k in range(1, 9) if x.shape[d] % k == 0]
        k = g.choice(divisors)
        return g.step("{0}.unflatten({d}, {to})", n, d=d, to=(k, x.shape[d] // k), kind=MOVES)
    shape = list(x.shape)
    if kind == 2:
        shape = [-1] if x.numel() else [0, 3]
    else:
        g.random.shuffle(shape)
        if len(shape) > 1 and g.chance(0.5):
            shape = [shape[0] * shape[1], *shape[2:]]
    return g.step(g.choice(["{0}.view({s})", "{0}.reshape({s})"]), n, s=tuple(shape), kind=MOVES)


@row(3)
def expand(g):
    n, x = any_value(g)
    shape = [g.int(1, 4) if s == 1 else s for s in x.shape]
    while len(shape) < 4 and g.chance(0.4):
        shape.insert(0, g.int(1, 4))
    if math.prod(shape) > 30_000:
        raise Nothing
    return g.step("{0}.expand({s})", n, s=tuple(shape), kind=MOVES)


@row(2)
def squeeze(g):
    n, x = any_value(g)
    if g.chance(0.5):
        return g.step("{0}.unsqueeze({d})", n, d=g.int(-x.dim() - 1, x.dim()), kind=MOVES)
    template = g.choice(["{0}.squeeze()", "{0}.squeeze({d})"])
    return g.step(template, n, d=g.dim(x), kind=MOVES)


@row(2)
def diagonal(g):
    n, x = any_value(g, 2)
    a, b = g.random.sample(range(x.dim()), 2)
    return g.step("{0}.diagonal({k}, {a}, {b})", n, k=g.int(-3, 3), a=a, b=b, kind=MOVES)


@row(2)
def unfold(g):
    n, x = any_value(g, 1)
    d = g.int(0, x.dim() - 1)
    size = g.int(0, min(4, x.shape[d]))
    if x.numel() * max(size, 1) > 30_000:
        raise Nothing
    return g.step(
        "{0}.unfold({d}, {size}, {step})", n, d=d, size=size, step=g.int(1, 3), kind=MOVES
    )


@row(3)
def as_strided(g):
    n = g.pick(MOVES, lambda x: x.is_contiguous())
    room, start = g[n].numel(), g[n].storage_offset()
    shape = [g.int(0 if g.chance(0.1) else 1, 5) for _ in range(g.int(0, 3))]
    strides = [g.choice([0, 1, 1, 2, 3, 4, 5, 7]) for _ in shape]
    last = sum((a - 1) * b for a, b in zip(shape, strides))
    if last >= room:
        raise Nothing
    offset = start + g.int(0, room - 1 - last)
    arguments = dict(s=tuple(shape), t=tuple(strides), o=offset)
    return g.step("{0}.as_strided({s}, {t}, {o})", n, kind=MOVES, **arguments)


@row(2)
def as_complex(g):
    """The parts of complex numbers, and pairs as complex numbers."""
    n = g.pick(MOVES, lambda x: x.is_complex() or (x.dim() and x.shape[-1] == 2))
    x = g[n]
    if not x.is_complex():
        return g.step("torch.view_as_complex({0})", n, kind=MOVES)
    template = g.choice(
        [
            *("torch.view_as_real({0})", "{0}.real", "{0}.imag", "{0}.conj()", "{0}.conj().imag"),
            *("{0}.resolve_conj()", "{0}.mH" if x.dim() > 1 else "{0}.conj()"),
        ]
    )
    return g.step(template, n, kind=MOVES)


@row(1.5)
def view_dtype(g):
    """Integers as other integers; they have neither rounding nor signs of zero."""
    integers = [torch.int64, torch.int32, torch.int16, torch.int8, torch.uint8]
    n = g.pick(MOVES, lambda x: x.dtype in integers)
    return g.step("{0}.view({dtype})", n, dtype=g.choice(integers), kind=MOVES)


@row(1)
def bits(g):
    """Floats without zeros and NaN as integers; a copy, or writes would make odd numbers."""
    same = {torch.float32: torch.int32, torch.float16: torch.int16, torch.bfloat16: torch.int16}
    same[torch.float64] = torch.int64
    n = g.pick(where=lambda x: x.dtype in same and bool((x.detach().abs() > 0).all()))
    return g.step("{0}.detach().view({dtype}).clone()", n, dtype=same[g[n].dtype])


@row(2)
def flips(g):
    n, x = any_value(g, 1)
    template = g.choice(["{0}.flip({dims})", "torch.roll({0}, {k}, {d})", "{0}.flip(-1)"])
    if x.dim() > 1 and g.chance(0.2):
        template = "torch.rot90({0}, {k}, (0, 1))"
    return g.step(template, n, dims=g.dims(x), k=g.int(-3, 3), d=g.dim(x), kind=MOVES)


@row(3)
def cat(g):
    n, x = any_value(g)
    others = [n]
    for _ in range(g.int(0, 3)):
        others.append(g.partner(x, MOVES, same_shape=True))
    g.random.shuffle(others)
    names = ", ".join(f"{{{i}}}" for i in range(len(others)))
    dim = g.dim(x)
    if sum(g[k].numel() for k in others) > 30_000:
        raise Nothing
    template = g.choice(["torch.cat([%s], {d})", "torch.stack([%s], {d})"]) % names
    if g.chance(0.1):
        template = g.choice(["torch.hstack([%s])", "torch.vstack([%s])"]) % names
    return g.step(template, *others, d=dim, kind=MOVES)


@row(3)
def split(g):
    n, x = any_value(g, 1)
    d = g.int(0, x.dim() - 1)
    size = x.shape[d]
    kind = g.int(0, 3)
    if kind == 0:
        count = g.int(1, 4)
        template, arguments = "{0}.chunk({count}, {d})", dict(count=count)
    elif kind == 1:
        template, arguments = (
            "{0}.split({size}, {d})",
            dict(size=g.int(max(1, size // 4), size + 1)),
        )
    elif kind == 2:
        cut = g.int(0, size)
        template, arguments = "{0}.split({cut}, {d})", dict(cut=[cut, size - cut])
    else:
        template, arguments = "torch.tensor_split({0}, {count}, {d})", dict(count=g.int(1, 4))
    if kind != 3 and g.chance(0.1) and size <= 6:
        template, arguments = "{0}.unbind({d})", {}
    count = len(eval(template.format("x", d=d, **arguments), {"x": x, "torch": torch}))
    return g.step(template, n, results=count, several=True, d=d, kind=MOVES, **arguments)


@row(2)
def repeats(g):
    n, x = any_value(g)
    if x.numel() > 2000:
        raise Nothing
    times = tuple(g.int(0 if g.chance(0.1) else 1, 3) for _ in range(x.dim() + g.int(0, 1)))
    template = g.choice(["{0}.repeat({times})", "torch.tile({0}, {times})"])
    if g.chance(0.4):
        template = "{0}.repeat_interleave({k}, {d})"
    return g.step(template, n, times=times, k=g.int(0, 3), d=g.dim(x), kind=MOVES)


@row(2)
def triangles(g):
    n, x = any_value(g, 1)
    if x.dim() == 1 or g.chance(0.3):
        if x.dim() > 2 or x.shape[-1] > 60:
            raise Nothing
        template = "torch.diag({0}, {k})" if g.chance(0.5) else "torch.diag_embed({0}, {k})"
        return g.step(template, n, k=g.int(-2, 2), kind=MOVES)
    return g.step(g.choice(["{0}.tril({k})", "{0}.triu({k})"]), n, k=g.int(-3, 3), kind=MOVES)


@row(2)
def pads(g):
    n, x = any_value(g, 1)
    dims = g.int(1, min(x.dim(), 3))
    if x.numel() > 5000:
        raise Nothing
    pad = [g.int(-1 if g.chance(0.2) else 0, 3) for _ in range(2 * dims)]
    if g.chance(0.6) or x.dim() < 2:
        value = g.number(x.dtype) if not x.is_complex() else 1
        return g.step("F.pad({0}, {pad}, value={value})", n, pad=pad, value=value, kind=MOVES)
    dims = max(1, min(x.dim() - 1, 3))
    pad = [g.int(0, 2) for _ in range(2 * dims)]
    mode = g.choice(["reflect", "replicate", "circular"])
    return g.step("F.pad({0}, {pad}, mode={mode})", n, pad=pad, mode=mode, kind=MOVES)


@row(1)
def meshes(g):
    n = g.pick(MOVES, lambda x: x.dim() == 1 and x.numel() <= 40)
    m = g.partner(g[n], MOVES, dtype=g[n].dtype, same_shape=True)
    template = "torch.meshgrid({0}, {1}, indexing={how})"
    return g.step(template, n, m, results=2, how=g.choice(["ij", "xy"]), kind=MOVES)


@row(2)
def where(g):
    n, x = any_value(g)
    m = g.partner(x, MOVES)
    condition = g.partner(x, dtype=torch.bool)
    if not broadcasts(g[m].shape, g[condition].shape):
        raise Nothing
    if g.chance(0.2):
        return g.step("torch.where({0}, {1}, {k})", condition, n, k=g.number(x.dtype), kind=MOVES)
    return g.step("torch.where({0}, {1}, {2})", condition, n, m, kind=MOVES)


@row(1)
def makers(g):
    shape, dtype = g.shape(), g.dtype()
    template = g.choice(
        [
            "torch.zeros({s}, dtype={dtype}, device=device)",
            "torch.ones({s}, dtype={dtype}, device=device)",
            "torch.full({s}, {k}, dtype={dtype}, device=device)",
            "torch.eye({n}, {m}, dtype={dtype}, device=device)",
            "torch.arange({n}, dtype={dtype}, device=device)",
            "torch.arange({n}, -{m}, -2, device=device)",
            "torch.linspace(0, {n}, {n} + 1, device=device)",
            "torch.tril_indices({n}, {m}, device=device)",
        ]
    )
    if "arange({n}, d" in template and dtype == torch.bool:
        raise Nothing
    return g.step(template, s=shape, dtype=dtype, k=g.int(0, 3), n=g.int(0, 12), m=g.int(0, 12))
