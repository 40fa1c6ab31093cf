"""Gradients: of chains of steps that ran earlier, with whatever happened to their tensors."""

import torch
from author import Nothing, overlaps
from program import MOVES, ROUGH
from rows import row

FLOATS = (torch.float32, torch.float64, torch.float16, torch.bfloat16)


@row(3, pure=False)
def parameters(g):
    if g.chance(0.4):
        n = g.pick(where=lambda x: x.dtype in FLOATS)
        return g.step("{0}.detach().clone().requires_grad_()", n, kind=MOVES)
    dtype = g.choice([torch.float32, torch.float32, torch.float64, torch.float16])
    if all(t != dtype for t, _ in g.types):
        raise Nothing
    n = g.fresh(g.shape(), dtype)
    return g.step("{0}.requires_grad_()", n, results=0)


def leaf_of(g):
    return g.pick(MOVES, lambda x: x.is_leaf and x.requires_grad)


@row(4, pure=False)
def gradients(g):
    """autograd.grad of one or two values, for one or two parameters."""
    wanted = sorted({leaf_of(g) for _ in range(g.int(1, 2))})
    results = sorted({g.pick(MOVES, lambda x: x.grad_fn is not None) for _ in range(g.int(1, 2))})
    if any(not torch.isfinite(g[n].detach()).all() for n in results):
        raise Nothing
    names = [f"{{{i}}}" for i in range(len(results) + len(wanted))]
    outputs, inputs = (", ".join(part) for part in (names[: len(results)], names[len(results) :]))
    template = f"gradients([{outputs}], [{inputs}], {{retain}})"
    if g.chance(0.15):
        template = template.replace("{retain}", "True, True")
    options = dict(results=len(wanted), several=True, kind=ROUGH, retain=g.chance(0.6))
    return g.step(template, *results, *wanted, **options)


@row(2, pure=False)
def backward(g):
    """backward() adds to the parameter's gradient."""
    n, leaf = g.pick(MOVES, lambda x: x.grad_fn is not None), leaf_of(g)
    if not torch.isfinite(g[n].detach()).all():
        raise Nothing
    template = "backward({0}, {1}, {retain})"
    return g.step(template, n, leaf, retain=g.chance(0.7), kind=ROUGH)


@row(1.5, pure=False)
def autograd_settings(g):
    n = g.pick(MOVES, lambda x: x.requires_grad and not overlaps(x))
    x = g[n]
    kind = g.int(0, 4)
    if kind == 0:
        return g.step("{0}.register_hook(lambda g: g * {k})", n, k=g.int(1, 2), results=0)
    if kind == 1:
        return g.step("{0}.data.mul_({k})", n, k=2, results=0, writes=(n,), kind=MOVES)
    if kind == 2 and not x.is_leaf:
        return g.step("{0}.retain_grad()", n, results=0)
    if kind == 3:
        return g.step("{0}.detach()", n, kind=MOVES)
    return g.step("torch.no_grad()({0}.add_)(1)", n, results=0, writes=(n,), kind=MOVES)
