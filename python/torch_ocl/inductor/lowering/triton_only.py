"""Inductor's options that are meant for Triton's kernels, but act on every device except the CPU.

They are off in graphs with ocl tensors. tests/conformance/inductor_branches.txt lists all places
where Inductor asks for the device, with what we decided for each.
"""

import functools

from torch._inductor import lowering, scheduler

from ..versions import IS_BEFORE_2_13, patch
from .eager import graph_has_ocl

# Options during lowering. max-autotune is for templates in Triton; epilogues.py has ours.
LOWERING = {
    "triton__mix_order_reduction": False,
    "triton__cooperative_reductions": False,
    "triton__force_cooperative_reductions": False,
    "max_autotune": False,
    "max_autotune_gemm": False,
}
# Options during fusion. Index inversion treats i % n as invertible even if i exceeds n, so that
# repeat() writes half of its result (190401 in pytorch/pytorch).
_SCHEDULING = {
    "loop_index_inversion_in_fusion": False,
    "triton__nested_reduction": False,
    "triton__mix_order_reduction": False,
    "triton__cooperative_reductions": False,
    "triton__force_cooperative_reductions": False,
    # Kernels here have one index space. PyTorch 2.15 would compare it with Triton's tilings.
    "triton__tiling_prevents_pointwise_fusion": False,
    "triton__tiling_prevents_reduction_fusion": False,
    "combo_kernels": False,
    "benchmark_fusion": False,
    "benchmark_template_fusion": False,
    "benchmark_epilogue_fusion": False,  # its name before PyTorch 2.15
}
# These options change the order of a kernel's loops in place. Before PyTorch 2.13, the change stays
# even if nothing is fused (182890).
if IS_BEFORE_2_13:
    _SCHEDULING |= {"loop_ordering_after_fusion": False, "loop_reindexing_after_fusion": False}


def turn_off() -> None:
    schedule = scheduler.Scheduler.__init__

    @functools.wraps(schedule)
    def __init__(self, nodes):
        if not graph_has_ocl():
            return schedule(self, nodes)
        with patch(**_SCHEDULING):
            return schedule(self, nodes)

    scheduler.Scheduler.__init__ = __init__
    constant = lowering.get_constant_value

    def get_constant_value(x):
        """None keeps x / 3 a division, which differs from the product with the reciprocal."""
        return None if graph_has_ocl() else constant(x)

    lowering.get_constant_value = get_constant_value
