"""Fixes from PyTorch's main branch, or proposed for it, that supported releases lack.

Each affects only graphs with ocl tensors. FIXES has their numbers in pytorch/pytorch.
"""

import dataclasses
import functools
from collections.abc import Callable

import sympy
import torch
from torch._decomp import decompositions
from torch._inductor import graph, index_propagation, ir, pattern_matcher, scheduler
from torch._inductor.dependencies import MemoryDep
from torch._inductor.fx_passes import fuse_attention, joint_graph, post_grad
from torch._inductor.virtualized import V
from torch.fx.experimental.symbolic_shapes import guard_or_false, sym_or
from torch.utils._sympy import value_ranges

from .lowering.eager import aten, graph_has_ocl
from .passes.results import keep_apart
from .tracing.random_operators import is_on_ocl
from .versions import RELEASE


@dataclasses.dataclass(frozen=True)
class Fix:
    numbers: tuple[int, ...]  # issues and pull requests in pytorch/pytorch, if any
    until: str | None  # the release from which it is not needed; None: no release has it
    apply: Callable[[], None]


def _read_aliases_before_writes() -> None:
    """Runs all readers of memory before it is written, including readers of other buffers in it."""
    mark = graph.GraphLowering.mark_buffer_mutated

    def mark_buffer_mutated(self, name):
        if graph_has_ocl():
            for alias in _aliases(self, name) - {name}:
                for user in self.name_to_users.get(alias, ()):
                    user.realize()
        return mark(self, name)

    graph.GraphLowering.mark_buffer_mutated = mark_buffer_mutated


def _aliases(lowering, name) -> set:
    """All buffers that share this one's memory, such as views as another type."""
    neighbours = {}
    for buffer in lowering.buffers:
        for other in buffer.get_inputs_that_alias_output():
            neighbours.setdefault(buffer.get_name(), set()).add(other)
            neighbours.setdefault(other, set()).add(buffer.get_name())
    found, pending = {name}, [name]
    while pending:
        new = neighbours.get(pending.pop(), set()) - found
        found |= new
        pending += new
    return found


def _compare_reads_of_written_memory() -> None:
    """Fuses a read of memory with a later write of it only if both are at one index.

    Inductor compares reads of the memory's first name only. After a write, reads have a new name.
    """
    fusable = scheduler.Scheduler.fusable_weak_dep

    def fusable_weak_dep(self, weak_dep, reader, writer):
        if not fusable(self, weak_dep, reader, writer):
            return False
        if not graph_has_ocl():
            return True
        memory = _first_name(self, weak_dep.mutating_buf)
        (write,) = (w for w in writer.read_writes.writes if w.name == weak_dep.mutating_buf)
        place = write.index, write.size
        reads = (r for r in reader.read_writes.reads if _first_name(self, r.name) == memory)
        return all(isinstance(r, MemoryDep) and (r.index, r.size) == place for r in reads)

    scheduler.Scheduler.fusable_weak_dep = fusable_weak_dep


def _first_name(owner, name) -> str:
    """The name that a buffer's memory had before writes."""
    return owner.mutation_real_name.get(name, name)


def _loop_over_map() -> None:
    """map and scan become loops, whose counter is on the CPU: lets the loop read it."""

    def with_scalars(decompose):
        def decompose_to_while_loop(gm):
            if not any(map(is_on_ocl, gm.graph.nodes)):
                return decompose(gm)
            mode = V.fake_mode
            allowed, mode.allow_scalar_outputs = mode.allow_scalar_outputs, True
            try:
                return decompose(gm)
            finally:
                mode.allow_scalar_outputs = allowed

        return decompose_to_while_loop

    for name in ("decompose_map_to_while_loop", "decompose_scan_to_while_loop"):
        setattr(post_grad, name, with_scalars(getattr(post_grad, name)))


def _keep_nearest_pixels() -> None:
    """interpolate(mode="nearest") ignores the scale along a dimension whose size does not change,
    or doubles, as the kernels do."""
    indices_of = decompositions._compute_upsample_nearest_indices

    def indices(x, output_size, scales, exact=False):
        if x.device.type == "ocl" and not exact:
            sizes = x.shape[-len(output_size) :]
            scales = [
                None if guard_or_false(sym_or(new == old, new == 2 * old)) else scale
                for new, old, scale in zip(output_size, sizes, scales, strict=True)
            ]
        return indices_of(x, output_size, scales, exact)

    decompositions._compute_upsample_nearest_indices = indices


def _keep_sums_of_constants() -> None:
    """cumsum(full(...)) is not replaced by a product, which lost the type that cumsum() was given
    and failed without dimensions."""
    for entries in post_grad.pass_patterns[1].patterns.values():
        for entry in entries:
            handler = getattr(entry, "handler", None)
            if getattr(handler, "__name__", "") == "pointless_cumsum_replacement":
                entry.extra_check = _elsewhere(entry.extra_check)


def _elsewhere(check):
    return lambda match: match.kwargs["device"].type != "ocl" and check(match)


def _match_attention_only() -> None:
    """Inductor's patterns accepted any order of dimensions as key.transpose(-2, -1), operands with
    other numbers of dimensions, and tensors as scales."""
    check = fuse_attention._sfdp_params_check

    def check_more(match):
        query = match.kwargs["query"].meta["val"]
        return (query.device.type != "ocl" or _is_attention(match, query.dim())) and check(match)

    fuse_attention._sfdp_params_check = check_more


def _is_attention(match, dims) -> bool:
    swapped = [0, 1, 3, 2] if dims == 4 else [0, 2, 1]
    orders = [list(n.args[1]) for n in match.nodes if n.target is torch.ops.aten.permute.default]
    scales = [value for name, value in match.kwargs.items() if "scale" in name]
    return (
        dims in (3, 4)
        and swapped in orders
        and all(order in (swapped, [0, 2, 1, 3]) for order in orders)
        and not any(isinstance(scale, torch.fx.Node) for scale in scales)
    )


def _expand_sizes_that_are_one() -> None:
    """If a guard says that the size (n + 3) // 4 of an intermediate result is 1, Inductor read
    wrong elements, even past the end."""
    make = ir.ExpandView.make_reindexer

    def make_reindexer(self):
        if not graph_has_ocl():
            return make(self)
        known = V.graph.sizevars.is_size_one_or_false
        is_one = [known(size) for size in self.data.get_size()]
        skip = len(self.get_size()) - len(is_one)
        return lambda index: [
            sympy.S.Zero if one else i for i, one in zip(index[skip:], is_one, strict=True)
        ]

    ir.ExpandView.make_reindexer = make_reindexer


def _interpolate_floats() -> None:
    """Decompositions would interpolate integers, which kernels refuse, except bytes."""

    def of(kernel):
        def interpolate(x, *args, **kwargs):
            known = x.is_floating_point() or x.dtype == torch.uint8 or x.device.type != "ocl"
            torch._check_not_implemented(known, lambda: f"interpolate() is not for {x.dtype}")
            return kernel(x, *args, **kwargs)

        return interpolate

    for kind in ("linear1d", "bilinear2d", "trilinear3d", "bicubic2d"):
        operators = getattr(torch.ops.aten, f"upsample_{kind}")
        _change_python_kernels(operators.default, of)
        _change_python_kernels(operators.vec, of)


def _change_python_kernels(operator, change) -> None:
    """Changes an operator's decompositions that run before Inductor's own table is used."""
    for key in (torch._C.DispatchKey.CompositeImplicitAutograd, torch._C.DispatchKey.Autograd):
        if key in operator.py_kernels:
            operator.py_kernels[key] = change(operator.py_kernels[key])
    operator._dispatch_cache.clear()


def _return_what_is_not_dropped() -> None:
    """dropout(x, p, train=False) is x itself, which may be written, not a copy."""

    def of(kernel):
        def dropout(x, p, train):
            nothing = not train or p == 0
            return x if nothing and x.device.type == "ocl" else kernel(x, p, train)

        return dropout

    _change_python_kernels(torch.ops.aten.dropout.default, of)


def _match_bools_without_gradients() -> None:
    """Patterns are not traced with integers that require gradients, but were with bools."""
    is_integer = pattern_matcher.is_integer_dtype
    pattern_matcher.is_integer_dtype = lambda dtype: dtype == torch.bool or is_integer(dtype)


def _keep_results_apart() -> None:
    """Removing copies must not leave results in the memory of other results or inputs."""

    def around(remove, graph_of):
        @functools.wraps(remove)
        def remove_and_keep_apart(graph, *args):
            if any(map(is_on_ocl, graph_of(graph).nodes)):
                keep_apart(graph_of(graph), lambda: remove(graph, *args))
            else:
                remove(graph, *args)

        return remove_and_keep_apart

    post_grad.remove_noop_ops = around(post_grad.remove_noop_ops, lambda graph: graph)
    joint_graph.remove_no_ops = around(joint_graph.remove_no_ops, lambda module: module.graph)


def _keep_signs_of_zeros() -> None:
    """x + 0 is not replaced by x, since -0.0 + 0 is 0.0. PyTorch 2.14 also does it for numbers."""
    remove = joint_graph.remove_no_ops

    def remove_no_ops(module, *constants):
        sums = module.graph.find_nodes(op="call_function", target=aten.add.Tensor)
        sums = [node for node in sums if _is_floating_on_ocl(node)]
        for node in sums:
            node.target = aten.add.Scalar  # remove() does not look for it
        remove(module, *constants)
        for node in sums:
            node.target = aten.add.Tensor

    joint_graph.remove_no_ops = functools.wraps(remove)(remove_no_ops)


def _multiply_by_zero() -> None:
    """x * 0 is not replaced by zeros, since NaN * 0 is NaN and -1.0 * 0 is -0.0."""
    folder = joint_graph.UniformValueConstantFolder
    add = folder._add_peephole_patterns

    def add_peephole_patterns(self):
        add(self)
        for node in filter(_is_floating_on_ocl, list(self.node_replacements)):
            del self.node_replacements[node], self.node_replacements_shapes[node]

    folder._add_peephole_patterns = add_peephole_patterns


def _is_floating_on_ocl(node) -> bool:
    value = node.meta.get("val")
    return is_on_ocl(node) and (value.is_floating_point() or value.is_complex())


def _compare_bools() -> None:
    """Bounds of expressions were compared with <, which SymPy refuses for bools, on every
    device."""
    ranges, operators = value_ranges.SymPyValueRangeAnalysis, index_propagation.SymPyOps
    equal = ranges.eq

    def eq(a, b):
        wrapped = (value_ranges.ValueRanges.wrap(x) for x in (a, b))
        return equal(*(ranges._bool_to_int(x) if x.is_bool else x for x in wrapped))

    def of_bounds(of_numbers, of_bools):
        def bounds(a, b):
            is_bool = any(value_ranges.ValueRanges.wrap(x).is_bool for x in (a, b))
            return (of_bools if is_bool else of_numbers)(a, b)

        return bounds

    def of_expressions(of_numbers):
        def expression(a, b):
            is_bool = torch.bool in (a.dtype, b.dtype)
            return NotImplemented if is_bool else of_numbers(a, b)

        return expression

    ranges.eq = staticmethod(eq)
    for name, of_bools in (("minimum", ranges.and_), ("maximum", ranges.or_)):
        setattr(ranges, name, staticmethod(of_bounds(getattr(ranges, name), of_bools)))
        setattr(operators, name, staticmethod(of_expressions(getattr(operators, name))))


FIXES = [
    Fix((198104,), None, _read_aliases_before_writes),
    Fix((198270,), None, _compare_reads_of_written_memory),
    Fix((158480,), None, _loop_over_map),
    Fix((198201, 175154), None, _keep_nearest_pixels),
    Fix((189518, 193265, 193876), None, _keep_sums_of_constants),
    Fix((193061,), "2.15", _expand_sizes_that_are_one),
    Fix((193811,), None, _interpolate_floats),
    Fix((195422,), "2.14", _return_what_is_not_dropped),
    Fix((195320, 195589, 191203), None, _match_attention_only),
    Fix((), None, _match_bools_without_gradients),
    Fix((197893,), None, _keep_results_apart),
    Fix((189799,), None, _keep_signs_of_zeros),
    Fix((187580,), None, _multiply_by_zero),
    Fix((188231, 188230), "2.14", _compare_bools),
]


def apply() -> None:
    for fix in FIXES:
        if fix.until is None or fix.until > RELEASE:
            fix.apply()
