"""How tests run kernels for the matrix unit of CPUs: emulated, and by AMX where there is one."""

import pytest
import torch

from torch_ocl import _C

for_cpu_family = pytest.mark.skipif(
    torch.ocl.get_device_properties(0).kernel_family != "cpu",
    reason="for devices of the CPU family",
)
has_amx = _C.matrix_unit(0).startswith("amx")
needs_amx = pytest.mark.skipif(not has_amx, reason="the processor has no AMX")
both = pytest.mark.parametrize("mode", ["emulate", pytest.param("1", marks=needs_amx)])
