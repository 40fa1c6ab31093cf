"""Fuses nodes as Inductor does for other devices, and adds the kernels to the program."""

import re

from torch._inductor import config
from torch._inductor.codegen.simd import DisableReduction, EnableReduction, SIMDScheduling
from torch._inductor.dependencies import MemoryDep
from torch._inductor.scheduler import WhyNoFuse
from torch._inductor.utils import get_fused_kernel_name, get_kernel_metadata
from torch._inductor.virtualized import V
from torch.utils._sympy.symbol import SymT, symbol_is_type

from ..codegen.kernel import OclKernel
from ..device_interface import most_argument_bytes


def _with_joined_loops(schedule: list) -> list:
    """Merges a loop into the next one if it only computes that loop's inputs, element by element.

    Inductor makes a separate loop for nodes that read nothing of the loop before, such as the mask
    of a dropout. Their results would be stored in memory and loaded again.
    """
    loops = [[]]  # lists of nodes, one for each loop
    for entry in schedule:
        if entry in (DisableReduction, EnableReduction):
            loops += [[entry], []]
        else:
            loops[-1].append(entry)
    place = 0
    while place + 4 < len(loops):
        before, end, between, start, after = loops[place : place + 5]
        ends = end == [DisableReduction] and not between and start == [EnableReduction]
        if ends and before and not any(node.is_reduction() for node in before):
            written = {name for node in before for name in node.get_buffer_names()}
            if any(dep.name in written for node in after for dep in node.read_writes.reads):
                loops[place : place + 5] = [before + after]
                continue
        place += 2
    return [entry for loop in loops for entry in loop]


# PoCL names files after kernels, and ends the process if a name is too long for the file system.
_LONGEST_NAME = 100

_BUFFER, _NUMBER = 16, 8  # bytes of a kernel's arguments (render.py)
_OTHERS = 3 * _NUMBER  # the number of units, and where faults are reported
_SIZES = SymT.SIZE, SymT.PRECOMPUTED_SIZE, SymT.UNBACKED_INT, SymT.FLOAT, SymT.UNBACKED_FLOAT


def _argument_bytes(scheduler, nodes) -> int:
    """The number of arguments of a kernel with these nodes. Buffers that only they use become
    variables."""
    names = {name for node in nodes for name in node.get_operation_names()}
    written = {dep.name for node in nodes for dep in node.read_writes.writes}
    dependencies = [dep for node in nodes for dep in node.read_writes.reads_and_writes()]
    buffers = {dep.name for dep in dependencies}
    buffers -= {b for b in written if scheduler.can_buffer_be_removed_through_fusion(b, names)}
    sizes = {symbol for dep in dependencies for symbol in _symbols(dep)}
    return len(buffers) * _BUFFER + len(sizes) * _NUMBER + _OTHERS


def _symbols(dependency) -> set:
    if not isinstance(dependency, MemoryDep):
        return set()
    expressions = [dependency.index, *dependency.size]
    found = set().union(*(expression.free_symbols for expression in expressions))
    return {symbol for symbol in found if symbol_is_type(symbol, _SIZES)}


class OclScheduling(SIMDScheduling):
    kernel_type = OclKernel

    def can_fuse(self, node1, node2):
        """Decides as Inductor does, within the number of arguments that the device's kernels may
        have."""
        nodes = [*node1.get_nodes(), *node2.get_nodes()]
        most = most_argument_bytes(node1.get_device())
        if _argument_bytes(self.scheduler, nodes) > most:
            WhyNoFuse(node1, node2)("a kernel takes at most %s bytes of arguments", most)
            return False
        return super().can_fuse(node1, node2)

    can_fuse_vertical = can_fuse
    can_fuse_horizontal = can_fuse

    @classmethod
    def get_tiling_and_scores(cls, node_schedule, numel, reduction_numel=1, analysis=None):
        """One flat index space: loops.py finds the loops."""
        return cls.create_tiling([numel], [reduction_numel]), None

    def generate_node_schedule(self, nodes, numel, rnumel, **options):
        return _with_joined_loops(super().generate_node_schedule(nodes, numel, rnumel, **options))

    def define_kernel(self, src_code, node_schedule, kernel):
        wrapper = V.graph.wrapper_code
        if src_code in wrapper.src_to_kernel:
            return wrapper.src_to_kernel[src_code]
        fused = get_fused_kernel_name(node_schedule, config.triton.descriptive_names)
        fused = re.sub(r"\W", "_", fused)[:_LONGEST_NAME]
        name = f"ocl_{fused}_{wrapper.next_kernel_suffix()}"
        wrapper.src_to_kernel[src_code] = name
        origins, detailed = get_kernel_metadata(node_schedule, wrapper)
        # The comment contains text arguments of operators. One with several lines would end the
        # comment.
        lines = f"{origins}\n{detailed}".splitlines()
        mark = wrapper.comment
        comments = "\n".join(line if line.startswith(mark) else f"{mark} {line}" for line in lines)
        wrapper.define_ocl_kernel(name, fused, kernel.rendered, src_code, comments)
        return name

    def codegen_sync(self):
        V.graph.wrapper_code.writeline("torch.ocl.synchronize()")
