"""Registers the device with Inductor. Differences between PyTorch 2.11 to 2.13 belong here."""

from torch._inductor import decomposition, lowering
from torch._inductor.codegen import common

from . import codegen, decompositions, lowerings


def register() -> None:
    common.register_backend_for_device(
        "ocl",
        codegen.OclScheduling,
        codegen.OclWrapper,
        device_custom_pass=lowerings.HideConvolutions(),
    )
    common.register_device_op_overrides("ocl", codegen.OclOpOverrides())
    tables = [decomposition.decompositions, decomposition.extra_random_decomps]
    decompositions.keep_operators(*tables)
    decomposition.fast_random_decomps.cache_clear()
    lowerings.call_eager_kernels(lowering.lowerings, decomposed={**tables[0], **tables[1]})
