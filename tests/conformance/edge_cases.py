"""The derivations of the sweep: each takes a sample and yields cases at the edge of it.

A derivation is a function of (subject, sample, dtype, reference) -> iterator of Case; `reference()`
is the CPU's result for the sample itself."""

import math

import torch
from edge_leaves import Leaves, View, mark_overlap
from edge_options import pairs
from edge_values import HALVES, NUMBERS, SPECIALS, special_tensor
from harness import pytree, tensors_of

TYPES = [
    torch.bool,
    torch.uint8,
    torch.int8,
    torch.int16,
    torch.int32,
    torch.int64,
    torch.float16,
    torch.bfloat16,
    torch.float32,
    torch.float64,
    torch.complex64,
    torch.complex128,
]
SHORT = {t: str(t).removeprefix("torch.") for t in [*TYPES, torch.complex32]}


class Case:
    """A call to make on both devices. `mode`: "forward", "inplace", or "out" with tensors `out`."""

    def __init__(self, label, parts, mode="forward", out=None, loose=False):
        self.label, self.parts, self.mode, self.out = label, parts, mode, out
        self.loose = loose  # a sum of many numbers, which needs a larger tolerance
        self.may_grow = False  # the result may be much larger than the sample's
        self.computed = None  # the type of the computation, if it is not the sample's


def empty(subject, sample, dtype, reference):
    leaves = Leaves(sample.parts)
    for i in leaves.tensors:
        t = leaves[i]
        for d in sorted({0, t.dim() - 1}) if t.dim() else []:
            yield Case(f"arg {i} dim {d}", leaves.replaced({i: t.narrow(d, 0, 0)}))
        yield Case(f"arg {i} (0,)", leaves.replaced({i: t.new_empty(0)}))
    most = max((leaves[i].dim() for i in leaves.tensors), default=0)
    for d in range(-most, 0):
        yield Case(
            f"all dim {d}",
            leaves.mapped(lambda t, d=d: t.narrow(d, 0, 0) if t.dim() >= -d else t),
        )
    for d in range(most):
        yield Case(
            f"all dim {d}", leaves.mapped(lambda t, d=d: t.narrow(d, 0, 0) if t.dim() > d else t)
        )


def scalar(subject, sample, dtype, reference):
    leaves = Leaves(sample.parts)

    def point(t):
        return t.reshape(-1)[0] if t.numel() else t.new_zeros(())

    for i in leaves.tensors:
        yield Case(f"arg {i} 0-dim", leaves.replaced({i: point(leaves[i])}))
        yield Case(f"arg {i} one element", leaves.replaced({i: point(leaves[i]).reshape(1)}))
    yield Case("all 0-dim", leaves.mapped(point))
    yield Case("all one element", leaves.mapped(lambda t: point(t).reshape(1)))
    yield Case("all size 1", leaves.mapped(lambda t: point(t).reshape([1] * t.dim())))


def batch(subject, sample, dtype, reference):
    leaves = Leaves(sample.parts)
    several = leaves.tensors[:4]
    for i in several:
        t = leaves[i]
        yield Case(f"arg {i} (2,...)", leaves.replaced({i: torch.stack([t, t])}))
        yield Case(f"arg {i} (1,...)", leaves.replaced({i: t.unsqueeze(0)}))
        if len(several) > 1:
            crossed = {j: torch.stack([leaves[j]] * 3).unsqueeze(0) for j in leaves.tensors}
            crossed[i] = torch.stack([t, t]).unsqueeze(1)
            yield Case(f"arg {i} (2,1,...), others (1,3,...)", leaves.replaced(crossed))
        for d in range(t.dim()):
            if t.shape[d] > 1:
                yield Case(f"arg {i} dim {d} of size 1", leaves.replaced({i: t.narrow(d, 0, 1)}))
    yield Case("all (2,...)", leaves.mapped(lambda t: torch.stack([t, t])))
    yield Case("all (2,1,...)", leaves.mapped(lambda t: torch.stack([t, t]).unsqueeze(1)))


def formats(subject, sample, dtype, reference):
    leaves = Leaves(sample.parts)

    def channels_last(t):
        if t.dim() in (4, 5):
            kind = torch.channels_last if t.dim() == 4 else torch.channels_last_3d
            return t.contiguous(memory_format=kind)
        return t

    def unbatched(t):
        return channels_last(t.unsqueeze(0)).squeeze(0) if t.dim() in (3, 4) else t

    for name, change in (("channels_last", channels_last), ("unbatched channels_last", unbatched)):
        yield Case(f"all {name}", leaves.mapped(change))
        if len(leaves.tensors) > 1:
            for i in leaves.tensors[:3]:
                yield Case(f"arg {i} {name}", leaves.replaced({i: change(leaves[i])}))
    yield Case(
        "all in reversed order of dimensions",
        leaves.mapped(
            lambda t: (
                t.permute(*range(t.dim() - 1, -1, -1)).contiguous().mT
                if t.dim() == 2
                else reversed_memory(t)
            )
        ),
    )


def reversed_memory(t):
    order = list(range(t.dim() - 1, -1, -1))
    return t.permute(order).contiguous().permute(order)


def views(subject, sample, dtype, reference):
    leaves = Leaves(sample.parts)

    def expanded(t, d):
        return t.narrow(d, 0, 1).expand(t.shape) if t.dim() > d and t.shape[d] > 1 else t

    def windows(t):
        """A view whose rows overlap in memory."""
        if t.dim() == 0 or t.numel() < 2:
            return t
        flat = t.reshape(-1).clone()
        return flat.as_strided(t.shape, [1] * t.dim())

    def stepped(t):
        """A view with an offset and gaps: every second element of the storage, from index 3 on."""
        wide = t.new_zeros(2 * t.numel() + 3)
        view = wide[3::2][: t.numel()]
        view.copy_(t.reshape(-1))
        strides = [2 * s for s in torch.empty(t.shape, device="meta").stride()]
        return wide.as_strided(t.shape, strides, 3)

    def flipped(t):
        return t.flip(0) if t.dim() else t

    changes = {
        "expanded 0": lambda t: expanded(t, 0),
        "expanded -1": lambda t: expanded(t, t.dim() - 1) if t.dim() else t,
        "overlapping": windows,
        "stepped": stepped,
        "flipped": flipped,
    }
    for name, change in changes.items():
        yield Case(f"all {name}", leaves.mapped(change))
        if len(leaves.tensors) > 1 and name in ("expanded 0", "stepped"):
            for i in leaves.tensors[:3]:
                yield Case(f"arg {i} {name}", leaves.replaced({i: change(leaves[i])}))
    negative = {i: View(-leaves[i], torch._neg_view) for i in leaves.of(dtype) if signed(leaves[i])}
    conjugate = {
        i: View(leaves[i].conj().resolve_conj(), torch.conj)
        for i in leaves.of(dtype)
        if leaves[i].is_complex()
    }
    for name, every in (("neg view", negative), ("conj view", conjugate)):
        if every:
            yield Case(f"all {name}", leaves.replaced(every))
            if len(every) > 1:
                for i, view in list(every.items())[:3]:
                    yield Case(f"arg {i} {name}", leaves.replaced({i: view}))
            if subject.inplace and sample.inplace and leaves.first in every:
                own = {leaves.first: every[leaves.first]}
                yield Case(f"in place on a {name}", leaves.replaced(own), "inplace")


def signed(t):
    return t.dtype.is_floating_point or t.dtype.is_complex


def inplace(subject, sample, dtype, reference):
    if not subject.inplace or not sample.inplace:
        return
    leaves = Leaves(sample.parts)
    if leaves.first is None:
        return
    t = leaves[leaves.first]

    def case(label, change):
        return Case(label, leaves.replaced({leaves.first: change}), "inplace")

    yield case("plain", t)
    yield case("0-dim", t.reshape(-1)[0] if t.numel() else t)
    yield case("(0,)", t.new_empty(0))
    if t.dim() and t.shape[0] > 1:
        yield case("expanded", t.narrow(0, 0, 1).expand(t.shape))
        yield case("dim 0 of size 1", t.narrow(0, 0, 1))
        yield case("overlapping", t.reshape(-1).clone().as_strided(t.shape, [1] * t.dim()))
    yield case("reversed memory", reversed_memory(t))
    for j in leaves.tensors:
        if j != leaves.first and leaves[j].dtype == t.dtype and leaves[j].shape == t.shape:
            shared = View(t, None, group="same")
            yield Case(
                f"arg {j} is self", leaves.replaced({leaves.first: shared, j: shared}), "inplace"
            )
            if t.dim() and t.numel():
                mine, other = mark_overlap(t)
                yield Case(
                    f"arg {j} overlaps self",
                    leaves.replaced({leaves.first: mine, j: other}),
                    "inplace",
                )
    for other in TYPES:
        if other != t.dtype:
            yield case(f"self {SHORT[other]}", t.to(other))


def out(subject, sample, dtype, reference):
    if not subject.out:
        return
    expected = reference()
    results = tensors_of(expected)
    if not results or any(r.layout is not torch.strided for r in results):
        return
    single = isinstance(expected, torch.Tensor)
    if not single and not (isinstance(expected, tuple) and len(results) == len(expected)):
        return

    def case(label, change):
        made = [change(r) for r in results]
        made = Case(label, sample.parts, "out", made[0] if single else tuple(made))
        made.computed = results[0].dtype
        return made

    yield case("empty", lambda r: r.new_empty(0))
    yield case("too large", lambda r: r.new_full([n + 1 for n in r.shape] or [2], 1))
    yield case("fewer dimensions", lambda r: r.new_full((r.numel(),), 1))
    yield case("reversed memory", lambda r: reversed_memory(torch.ones_like(r)))
    yield case("stepped", lambda r: r.new_ones((*r.shape, 2))[..., 1])
    yield case("expanded", lambda r: r.new_ones([1] * r.dim()).expand(r.shape))
    for other in TYPES:
        yield case(SHORT[other], lambda r, o=other: torch.ones(r.shape, dtype=o))
    leaves = Leaves(sample.parts)
    if single:
        for i in leaves.tensors:
            t = leaves[i]
            if t.shape == expected.shape and t.dtype == expected.dtype:
                shared = View(t, None, group="same")
                yield Case(f"is arg {i}", leaves.replaced({i: shared}), "out", shared)
                if t.dim() and t.numel() > 1:
                    mine, other = mark_overlap(t)
                    yield Case(f"overlaps arg {i}", leaves.replaced({i: other}), "out", mine)


def numbers(subject, sample, dtype, reference):
    leaves = Leaves(sample.parts)
    for i in leaves.numbers:
        for number in NUMBERS[type(leaves[i])]:
            yield Case(f"arg {i} = {number!r}", leaves.replaced({i: number}))
    for i in leaves.tensors:
        if i != leaves.first:
            for number in (
                1e6,
                1e300,
                math.inf,
                math.nan,
                300,
                -1,
                2**31,
                -(2**63),
                2**63,
                True,
                2.5,
                1j,
            ):
                yield Case(f"arg {i} = {number!r} for a tensor", leaves.replaced({i: number}))
                if subject.inplace and sample.inplace:
                    yield Case(
                        f"arg {i} = {number!r} in place", leaves.replaced({i: number}), "inplace"
                    )


def special(subject, sample, dtype, reference):
    leaves = Leaves(sample.parts)
    mine = leaves.of(dtype)
    for name in SPECIALS:
        changed = {
            i: special_tensor(leaves[i], name, turn)
            for turn, i in enumerate(mine)
            if leaves[i].numel()
        }
        changed = {i: t for i, t in changed.items() if t is not None}
        if changed:
            yield Case(f"all {name}", leaves.replaced(changed))
            if len(changed) > 1:
                for i, t in list(changed.items())[:3]:
                    yield Case(f"arg {i} {name}", leaves.replaced({i: t}))


def promotion(subject, sample, dtype, reference):
    leaves = Leaves(sample.parts)
    for i in leaves.tensors[:4]:
        for other in TYPES:
            if other != leaves[i].dtype:
                changed = convert(leaves[i], other)
                yield Case(f"arg {i} {SHORT[other]}", leaves.replaced({i: changed}))
                if len(leaves.tensors) > 1 and changed.numel():
                    yield Case(
                        f"arg {i} {SHORT[other]} 0-dim",
                        leaves.replaced({i: changed.reshape(-1)[0]}),
                    )
    if len(leaves.tensors) > 1:
        for other in TYPES:
            if other != dtype:
                case = Case(
                    f"all {SHORT[other]}",
                    leaves.replaced({i: convert(leaves[i], other) for i in leaves.of(dtype)}),
                )
                case.computed = other if other in HALVES else None
                yield case


def convert(t, dtype):
    return t.real.to(dtype) if t.is_complex() and not dtype.is_complex else t.to(dtype)


def sums(subject, sample, dtype, reference):
    """Long sums of numbers near one. In 16 bits, adding one to the later partial sums would change
    nothing."""
    if not signed(torch.empty(0, dtype=dtype)):
        return
    leaves = Leaves(sample.parts)
    sizes = [leaves[i].shape[-1] for i in leaves.of(dtype) if leaves[i].dim()]
    if not sizes or not max(sizes):
        return

    def longer(t):
        if t.dtype != dtype or not t.dim() or t.shape[-1] != sizes[0] or not sizes[0]:
            return t
        wide = t[..., :1].expand(*t.shape[:-1], 4099 if t.dim() > 2 else 40_009)
        ramp = torch.linspace(0.5, 1.5, wide.shape[-1]).to(dtype)
        return (wide.abs() * 0 + ramp) if not t.isnan().any() else t

    if all(
        leaves[i].numel() // max(1, leaves[i].shape[-1] if leaves[i].dim() else 1) <= 64
        for i in leaves.tensors
    ):
        yield Case("all long", leaves.mapped(longer), loose=True)


def options(subject, sample, dtype, reference):
    """Optional arguments that the sample leaves out, alone and in pairs."""
    if not hasattr(subject, "info") or not hasattr(subject.info, "op"):
        return
    args, kwargs = sample.parts
    for extra in pairs(subject.base, subject.info.op, args, kwargs):
        label = ", ".join(f"{name}={value}" for name, value in extra.items())
        yield Case(label, (args, {**kwargs, **extra}))


EDGES = {
    "empty": empty,
    "scalar": scalar,
    "batch": batch,
    "formats": formats,
    "views": views,
    "inplace": inplace,
    "out": out,
    "numbers": numbers,
    "special": special,
    "promotion": promotion,
    "sums": sums,
    "options": options,
}


def derive(edge, subject, sample, dtype, reference):
    """The cases of one edge, without those that leave the sample as it is."""
    plain = pytree.tree_leaves(sample.parts)
    for case in EDGES[edge](subject, sample, dtype, reference):
        mine = pytree.tree_leaves(case.parts)
        if (
            case.mode != "forward"
            or len(mine) != len(plain)
            or any(a is not b for a, b in zip(mine, plain))
        ):
            case.may_grow = edge in ("numbers", "sums")
            yield case
