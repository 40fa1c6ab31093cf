"""Copies between types, formats and devices; streams, the allocator, what waits."""

import torch
from author import Nothing, largest
from program import EXACT, MOVES, ROUGH
from rows import row
from rows_pointwise import fits_integers, writable


@row(6)
def to_dtype(g):
    n = g.pick(MOVES)
    x, dtype = g[n], g.dtype()
    if x.is_complex() and not dtype.is_complex:
        raise Nothing
    if not fits_integers(x, torch.empty((), dtype=dtype)):
        raise Nothing
    whole = not (dtype.is_floating_point or dtype.is_complex)
    if whole and g.levels[n]:
        raise Nothing
    if dtype == torch.float16 and largest(x) > 60_000:
        raise Nothing
    template = g.choice(
        ["{0}.to({dtype})", "{0}.type({dtype})", "{0}.to(dtype={dtype}, copy=True)"]
    )
    kind = ROUGH if g.levels[n] else MOVES
    return g.step(template, n, dtype=dtype, kind=kind)


@row(4)
def clones(g):
    n = g.pick(MOVES)
    x = g[n]
    form = torch.preserve_format
    if x.dim() in (4, 5) and g.chance(0.6):
        form = torch.channels_last if x.dim() == 4 else torch.channels_last_3d
    if g.chance(0.3):
        form = torch.contiguous_format
    templates = ["{0}.clone(memory_format={f})"]
    if form is not torch.preserve_format:
        templates.append("{0}.contiguous(memory_format={f})")
    templates += ["{0}.contiguous()", "{0}.clone()"]
    return g.step(g.choice(templates), n, f=form, kind=MOVES)


@row(1.5, pure=False)
def round_trips(g):
    """By way of the CPU's memory, waiting or not."""
    n = g.pick(MOVES)
    template = g.choice(
        [
            "{0}.cpu().to(device, copy=True)",
            "through_pinned({0})",
            "{0}.to('cpu', copy=True).to(device, copy=True, non_blocking=True)",
            "torch.tensor({0}.tolist(), dtype={0}.dtype, device=device)",
            "torch.from_numpy({0}.detach().cpu().clone().numpy()).to(device, copy=True)",
        ]
    )
    if g[n].requires_grad and g.chance(0.8):
        template = "{0}.cpu().to(device, copy=True)"
    return g.step(template, n, kind=MOVES)


@row(2, pure=False)
def from_the_cpu(g):
    """Writes of CPU tensors into views, and numbers read by the host."""
    if g.chance(0.4):
        n = g.pick(EXACT, lambda x: x.numel() == 1)
        return g.step("torch.tensor([{0}.item(), 1], device=device)", n)
    n = writable(g)
    x = g[n]
    shape = g.broadcastable(x.shape)
    arguments = dict(shape=shape, dtype=x.dtype, seed=g.sizes(), options=g.chance(0.5))
    template = "{0}.copy_(data({shape}, {dtype}, {seed}, 0, 5).cpu(), non_blocking={options})"
    return g.step(template, n, results=0, writes=(n,), kind=MOVES, **arguments)


@row(1.5)
def resizes(g):
    """Memory that grows or shrinks; the elements beyond the old ones are written at once."""
    n = g.pick(MOVES, lambda x: not x.requires_grad and x._base is None)
    if (
        sum(
            g[k].untyped_storage().data_ptr() == g[n].untyped_storage().data_ptr()
            for k in g.numbers
        )
        > 1
    ):
        raise Nothing
    template = "{0}.resize_({s}).fill_({k})"
    return g.step(template, n, s=g.shape(), k=g.int(0, 3), results=0, writes=(n,), kind=MOVES)


@row(2, pure=False)
def machine(g):
    """Calls that change no number: streams, the allocator, waiting."""
    kind = g.int(0, 5)
    if kind <= 2:
        g.stream = g.choice([0, 0, 1, 2, 3])
        raise Nothing
    if kind == 3:
        return g.step("pressure({m}, {n})", m=g.choice([1, 3, 16]), n=g.int(1, 4), results=0)
    return g.step(g.choice(["empty_cache()", "synchronize()"]), results=0)


@row(3, pure=False)
def deleted(g):
    if len(g.numbers) < 6:
        raise Nothing
    n = g.choice(g.numbers)
    step = g.step("del {0}", n, results=0)
    g.drop(n)
    return step


@row(3, pure=False)
def leaves(g):
    g.fresh(g.shape(), g.dtype(), special=g.chance(0.05))
