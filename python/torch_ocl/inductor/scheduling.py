"""Fuses nodes as Inductor does for other devices, and puts the kernels into the program."""

import re

from torch._inductor import config
from torch._inductor.codegen.simd import SIMDScheduling
from torch._inductor.utils import get_fused_kernel_name, get_kernel_metadata
from torch._inductor.virtualized import V

from .kernel import OclKernel


class OclScheduling(SIMDScheduling):
    kernel_type = OclKernel

    @classmethod
    def get_tiling_and_scores(cls, node_schedule, numel, reduction_numel=1, analysis=None):
        """One flat index space: loops.py finds the loops."""
        return cls.create_tiling([numel], [reduction_numel]), None

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
