"""Functions of several steps: as graphs, under vmap, differentiated, and by torch.compile."""

from author import HIGHEST_LEVEL, Author, Nothing
from program import Run
from rows import ROWS, row

# These wait for the device, which a graph cannot.
WAITING = ("one_hot", "masks", "resizes", "out")


def function_of(g, inputs, count, without=(), samples=False):
    """(steps, outputs, author) of a function of these values; None if nothing came of it."""
    rows = [r for r in ROWS if r.pure and r.name not in without]
    run = Run("cpu")
    for n in inputs:
        x = g[n].detach()
        run.names[f"v{n}"] = x.clone()
    inner = Author(g.sizes(), rows, {t for t, _ in g.types}, run)
    inner.in_function, inner.next = True, g.next
    inner.numbers, inner.levels = list(inputs), {n: g.levels[n] for n in inputs}
    inner.write(count)
    steps = [step for step in inner.steps if step.error is None]
    made = [n for step in steps for n in step.results if n in inner.numbers]
    g.next = inner.next
    if not made:
        raise Nothing
    return steps, made, inner


def chosen_outputs(g, steps, made, most):
    """Results that no later step reads come first."""
    used = {n for step in steps for n in step.operands}
    last = [n for n in made if n not in used][-most:]
    rest = [n for n in made if n not in last]
    g.random.shuffle(rest)
    return sorted([*last, *rest[: max(0, most - len(last))]])


def add_function(g, template, inputs, steps, outputs, levels, **options):
    names = ", ".join(f"{{{i}}}" for i in range(len(inputs)))
    step = g.step(
        template.replace("INPUTS", names),
        *inputs,
        results=len(levels),
        several=True,
        body=steps,
        inputs=tuple(inputs),
        outputs=tuple(outputs),
        **options,
    )
    if not g.add(step):
        return
    for n, level in zip(step.results, levels):
        g.levels[n] = g.level(n, level)


def some_inputs(g, where=lambda x: True):
    def fits(x):
        return x.numel() < 5000 and where(x) and not x.is_conj() and not x.is_neg()

    return sorted({g.pick(where=fits) for _ in range(g.int(1, 3))})


@row(2, pure=False)
def graph(g):
    inputs = some_inputs(g)
    steps, made, inner = function_of(g, inputs, g.int(2, 8), WAITING)
    outputs = chosen_outputs(g, steps, made, 3)
    levels = [inner.levels[n] for n in (*outputs, *inputs)]
    add_function(g, "replayed(function, [INPUTS])", inputs, steps, outputs, levels)


@row(2, pure=False)
def vmap(g):
    """Each sample is the value or the value reversed, so that both hold the same numbers."""
    inputs = some_inputs(g, lambda x: x.dim() > 0)
    steps, made, _ = function_of(g, inputs, g.int(1, 5), ("resizes",))
    outputs = chosen_outputs(g, steps, made, 2)
    stacks = ", ".join(
        f"torch.stack([{{{i}}}, {{{i}}}.flip(-1)], {{d}})" for i in range(len(inputs))
    )
    template = f"torch.vmap(function, {{d}})({stacks})"
    g_levels = [max(1, HIGHEST_LEVEL)] * len(outputs)
    add_function(g, template, inputs, steps, outputs, g_levels, d=g.int(0, 1))


@row(2, pure=False)
def gradient_of_function(g):
    inputs = some_inputs(g)
    floats = [n for n in inputs if g[n].is_floating_point()]
    if not floats:
        raise Nothing
    steps, made, _ = function_of(g, inputs, g.int(2, 8), ("resizes",))
    outputs = chosen_outputs(g, steps, made, 3)
    levels = [HIGHEST_LEVEL] * (len(outputs) + len(floats))
    template = "differentiated(function, [INPUTS])"
    add_function(g, template, inputs, steps, outputs, levels)


@row(0.0, pure=False)
def compiled(g):
    compiled_function(g, some_inputs(g), g.int(3, 10))


def compiled_function(g, inputs, count):
    steps, made, inner = function_of(g, inputs, count)
    outputs = chosen_outputs(g, steps, made, 6)
    levels = [inner.levels[n] for n in (*outputs, *inputs)]
    dynamic = g.choice([False, False, None, True])
    floats = [n for n in inputs if g[n].is_floating_point()]
    if floats and g.chance(0.3):
        levels = [HIGHEST_LEVEL] * (len(outputs) + len(floats))
        template = "differentiated(compile({d})(function), [INPUTS])"
    else:
        template = "compiled(function, [INPUTS], dynamic={d})"
        before = len(g.steps)
        if dynamic:
            twice = "compiled_twice(function, [INPUTS])"
            add_function(g, twice, inputs, steps, outputs, levels * 2)
            if len(g.steps) > before and g.steps[-1].error is None:
                return
            del g.steps[before:]  # the function refuses other sizes
    add_function(g, template, inputs, steps, outputs, levels, d=dynamic)
