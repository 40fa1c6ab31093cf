"""Code that a compiler fuses or moves: results of reductions read twice, writes after reads."""

from author import Nothing
from program import EXACT, MOVES, SMOOTH
from rows import row
from rows_pointwise import writable


@row(3)
def reduced_and_repeated(g):
    """A reduction whose result is repeated or padded."""
    name = g.choice(["sum", "amax", "amin", "argmin", "argmax"])
    kind = EXACT if name.startswith("arg") else SMOOTH
    n = g.pick(kind, lambda x: x.dim() > 0 and not x.is_complex())
    d = g.int(-g[n].dim(), g[n].dim() - 1)
    rest = g[n].dim() - 1
    reduced = f"torch.{name}({{0}}, {{d}})"
    template = g.choice([f"{reduced}.repeat({{times}})", f"torch.tile({reduced}, {{times}})"])
    if rest and g.chance(0.3):
        template = g.choice(
            [f"F.pad({reduced}, {{pads}})", f"torch.cat([{reduced}, {reduced}], -1)"]
        )
    times = tuple(g.int(1, 3) for _ in range(rest + g.int(0, 1)))
    return g.step(template, n, d=d, times=times, pads=(g.int(0, 3), g.int(0, 3)), kind=kind)


@row(3)
def read_then_written(g):
    """A value that is read, and then changed from its own elements or as a whole."""
    n = writable(g, where=lambda x: x.dim() > 0)
    d = g.int(0, g[n].dim() - 1)
    reads = ["{0}.clone()", "{0}.flip({d})", "{0}[1:]", "torch.cat([{0}, {0}], {d})", "{0}.t()"]
    read = g.choice(reads[:4] if g[n].dim() != 2 else reads)
    if not g.add(g.step(read, n, d=d, kind=MOVES)):
        raise Nothing
    write = g.choice(
        [
            "{0}.zero_()",
            "{0}.fill_({k})",
            "{0}.copy_({0}.flip({d}))",
            "{0}.narrow({d}, {i}, {j}).copy_({0}.narrow({d}, 0, {j}).clone())",
            "{0}[1:] = {0}[:-1].clone()",
            "{0}[0] = {0}[-1]",
        ]
    )
    size = g[n].shape[d]
    i = g.int(0, size)
    arguments = dict(d=d, k=g.number(g[n].dtype), i=i, j=size - i)
    return g.step(write, n, results=0, writes=(n,), kind=MOVES, **arguments)
