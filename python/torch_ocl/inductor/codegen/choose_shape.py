"""Chooses the vectorised loop of a kernel.

Pointwise   vectors over the elements of the outer nest (n0, n1, ...); no reduction
Columns     vectors over the elements of the outer nest; the reduction's nest runs for each vector
Rows        for each element of the outer nest, vectors (or a work-group) over the reduction's nest
            (k0, k1, ...)
"""

from torch._inductor.virtualized import V

from ..device_interface import has_cpu_kernels
from .columns import Columns
from .loops import Space, hint, stride
from .rows import GroupRows, Rows
from .shape import Pointwise


def choose_shape(kernel):
    cpu = has_cpu_kernels(V.graph.get_current_device_or_throw())
    space = Space(kernel, flat=not cpu)
    shape = _shape(kernel, space, cpu)
    if kernel.headers or kernel.adds:  # functions of single numbers
        shape.width = 1
    return shape


def _shape(kernel, space, cpu):
    if not kernel.features.is_reduction():
        return Pointwise(space, space.outer[0].loops[0], cpu)
    column, row = space.outer[0].loops[0], space.inner[0].loops[0]
    by_columns = _cost(kernel, space, column) < _cost(kernel, space, row)
    if by_columns and (cpu or not _leaves_idle(space)):
        looped = [section.looped for section in kernel.sections]
        return Columns(space, column, cpu, swept=looped[0] and not any(looped[1:]))
    return (Rows if cpu else GroupRows)(space, row, cpu)


def _leaves_idle(space):
    """Whether there are too few columns for a GPU's work-item each.

    A work-item would read a long column, and desktops reset a GPU if a launch takes seconds.
    """
    return hint(space.outer[0].tree.numel) <= 64 and hint(space.inner[0].tree.numel) >= 4096


def _cost(kernel, space, loop):
    """The cost of a reduction's accesses with vectors over a loop; less is better.

    Vectors suit accesses to one element or to adjacent ones; others are read lane by lane.
    """
    if hint(loop.size) < 4:
        return float("inf"), 0
    reduced = {inner.symbol for inner in space.inner[0].loops}
    accesses = (space.index(mark.index) for mark in kernel.marks if mark.kind in ("load", "store"))
    strides = [stride(index, loop.symbol) for index in accesses if reduced & index.free_symbols]
    return sum(step not in (0, 1) for step in strides), -strides.count(1)
