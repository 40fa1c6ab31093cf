"""Registers the device with Inductor."""

from torch._inductor import decomposition, graph, lowering
from torch._inductor.codegen import common, cpp_utils

from . import upstream
from .flex import lowerings as flex
from .lowering import constant_indices, decompositions, dropout, lowerings, triton_only
from .passes import epilogues
from .programs import cpp_wrapper, scheduling, wrapper
from .tracing import checkpoints
from .versions import IS_BEFORE_2_15


def register() -> None:
    common.register_backend_for_device(
        "ocl",
        scheduling.OclScheduling,
        wrapper.OclWrapper,
        cpp_wrapper.OclCppWrapper,
        device_custom_pass=lowerings.GraphPass(),
    )
    overrides = wrapper.OclOpOverrides()
    common.register_device_op_overrides("ocl", overrides)
    if IS_BEFORE_2_15:
        cpp_utils.DEVICE_TO_ATEN["ocl"] = overrides.aten_device_type()
    cpp_wrapper.quieten()
    dropout.register()
    epilogues.register()
    tables = [decomposition.decompositions, decomposition.extra_random_decomps]
    kept = decompositions.keep_operators(*tables)
    checkpoints.keep_what_is_drawn([*kept, *checkpoints.NEVER_DECOMPOSED, dropout.draw])
    decomposition.fast_random_decomps.cache_clear()
    keep = lowerings.keep_memory_formats(graph.GraphLowering.decide_layout_opt)
    graph.GraphLowering.decide_layout_opt = staticmethod(keep)
    triton_only.turn_off()
    upstream.apply()
    constant_indices.register()
    flex.register()
    lowerings.change(lowering.lowerings, decomposed={**tables[0], **tables[1]})
