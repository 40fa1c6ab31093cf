"""Registers the device with Inductor."""

from torch._inductor import decomposition, graph, lowering
from torch._inductor.codegen import common, cpp_utils

from . import (
    checkpoints,
    cpp_wrapper,
    decompositions,
    dropout,
    epilogues,
    lowerings,
    scheduling,
    wrapper,
)


def register() -> None:
    common.register_backend_for_device(
        "ocl",
        scheduling.OclScheduling,
        wrapper.OclWrapper,
        cpp_wrapper.OclCppWrapper,
        device_custom_pass=lowerings.GraphPass(),
    )
    common.register_device_op_overrides("ocl", wrapper.OclOpOverrides())
    cpp_utils.DEVICE_TO_ATEN["ocl"] = "at::kPrivateUse1"
    cpp_wrapper.quieten()
    dropout.register()
    epilogues.register()
    tables = [decomposition.decompositions, decomposition.extra_random_decomps]
    kept = decompositions.keep_operators(*tables)
    checkpoints.keep_what_is_drawn([*kept, *checkpoints.NEVER_DECOMPOSED, dropout.draw])
    decomposition.fast_random_decomps.cache_clear()
    keep = lowerings.keep_memory_formats(graph.GraphLowering.decide_layout_opt)
    graph.GraphLowering.decide_layout_opt = staticmethod(keep)
    lowerings.change(lowering.lowerings, decomposed={**tables[0], **tables[1]})
