"""Fuses nodes as Inductor does for other devices, and adds the kernels to the program."""

import re

from torch._inductor import config
from torch._inductor.codegen.simd import DisableReduction, EnableReduction, SIMDScheduling
from torch._inductor.utils import get_fused_kernel_name, get_kernel_metadata
from torch._inductor.virtualized import V

from .kernel import OclKernel


def _with_joined_loops(schedule: list) -> list:
    """Joins a loop that computes only inputs of the next loop, element by element, to that loop.

    Inductor makes a separate loop for nodes that read nothing of the loop before, such as the mask
    of a dropout. Their results would be stored in memory and loaded again.
    """
    loops = [[]]  # of nodes, between ends of loops
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


class OclScheduling(SIMDScheduling):
    kernel_type = OclKernel

    @classmethod
    def get_tiling_and_scores(cls, node_schedule, numel, reduction_numel=1, analysis=None):
        """One flat index space: loops.py finds the loops."""
        return cls.create_tiling([numel], [reduction_numel]), None

    def generate_node_schedule(self, nodes, numel, rnumel):
        return _with_joined_loops(super().generate_node_schedule(nodes, numel, rnumel))

    def define_kernel(self, src_code, node_schedule, kernel):
        wrapper = V.graph.wrapper_code
        if src_code in wrapper.src_to_kernel:
            return wrapper.src_to_kernel[src_code]
        fused = get_fused_kernel_name(node_schedule, config.triton.descriptive_names)
        fused = re.sub(r"\W", "_", fused)
        name = f"ocl_{fused}_{wrapper.next_kernel_suffix()}"
        wrapper.src_to_kernel[src_code] = name
        origins, detailed = get_kernel_metadata(node_schedule, wrapper)
        comments = f"{origins}\n{detailed}"
        wrapper.define_ocl_kernel(name, fused, kernel.rendered, src_code, comments)
        return name

    def codegen_sync(self):
        V.graph.wrapper_code.writeline("torch.ocl.synchronize()")
