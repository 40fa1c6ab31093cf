"""Graphs that live on while other steps run, forward-mode derivatives, copies of whole objects."""

import torch
from author import HIGHEST_LEVEL, Nothing, largest
from program import EXACT, MOVES, ROUGH
from rows import row
from rows_functions import WAITING, add_function, chosen_outputs, function_of, some_inputs


@row(2, pure=False)
def kept_graph(g):
    """Captures a graph that later steps replay."""
    inputs = some_inputs(g)
    steps, made, inner = function_of(g, inputs, g.int(2, 6), WAITING)
    outputs = chosen_outputs(g, steps, made, 3)
    levels = [inner.levels[n] for n in (*outputs, *inputs)]
    position = len(g.steps)
    add_function(g, "kept_graph(function, [INPUTS])", inputs, steps, outputs, levels)
    if len(g.steps) > position and g.steps[-1].error is None:
        shapes = [(tuple(g[n].shape), g[n].dtype) for n in inputs]
        g.graphs.append((shapes, len(levels)))


@row(4, pure=False)
def replayed_again(g):
    """Replays an earlier graph with other numbers."""
    if not g.graphs:
        raise Nothing
    k = g.int(0, len(g.graphs) - 1)
    shapes, count = g.graphs[k]
    inputs = [g.fresh(shape, dtype) for shape, dtype in shapes]
    names = ", ".join(f"{{{i}}}" for i in range(len(inputs)))
    step = g.step(f"replayed_again({{k}}, [{names}])", *inputs, results=count, several=True, k=k)
    if g.add(step):
        for n in step.results:
            g.levels[n] = g.level(n, HIGHEST_LEVEL)


@row(1.5, pure=False)
def tangents(g):
    """The function and its derivative in a direction."""
    inputs = some_inputs(g)
    if not any(g[n].is_floating_point() for n in inputs):
        raise Nothing
    steps, made, _ = function_of(g, inputs, g.int(2, 6), ("resizes",))
    outputs = chosen_outputs(g, steps, made, 3)
    levels = [HIGHEST_LEVEL] * (2 * len(outputs))
    add_function(g, "tangents(function, [INPUTS])", inputs, steps, outputs, levels)


@row(1.5, pure=False)
def whole_copies(g):
    """Copies by copy and pickle."""
    n = g.pick(MOVES, lambda x: not x.requires_grad and not x.is_conj() and not x.is_neg())
    return g.step(g.choice(["copied({0})", "saved({0})"]), n, kind=MOVES)


@row(1.5, pure=False)
def fallbacks(g):
    """Operators that run on the CPU, between others that are still queued."""
    if g.chance(0.5):
        n = g.pick(EXACT, lambda x: not x.is_complex() and largest(x) < 1e6)
        return g.step("torch.hash_tensor({0}.to(torch.int64)).view(torch.int64)", n)
    size = g.int(1, 5)
    n = g.fresh((g.int(1, 2), size, size), torch.float32, -1, 2)
    template = g.choice(
        ["torch.linalg.matrix_exp({0})", "torch.linalg.eigvals({0} + {0}.mT).real.sort()[0]"]
    )
    return g.step(template, n, kind=ROUGH)
