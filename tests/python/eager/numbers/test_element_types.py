"""Lists of element types that need their own text agree with kernels/core/types/dtype.cpp."""

import re

import pytest
import torch
from edge_cases import TYPES as EDGE_TYPES
from support import COMPLEX, DTYPES, HALVES, ROOT

from torch_ocl import _C
from torch_ocl.inductor.codegen.types import TYPES

KERNELS = ROOT / "kernels/core/cl"
TYPES_CLH = (KERNELS / "types.clh").read_text()
NAMES = _C.element_types()
# PyTorch itself has few operators for these.
UNSIGNED = {torch.uint16, torch.uint32, torch.uint64}


def defined(prefix, text=TYPES_CLH):
    """-> {name: replacement} of the macros prefix_name."""
    found = re.findall(rf"^#define {prefix}_([a-z]+\d+)(?:\(.*?\))? (.*)$", text, re.M)
    return dict(found)


@pytest.mark.parametrize("prefix", ["MEM", "VAL", "LOAD", "LOADV", "STORE", "STOREV", "VALUE"])
def test_kernels_have_macros_of_every_type(prefix):
    assert set(defined(prefix)) == set(NAMES)


def test_head_of_types_names_every_type():
    head = re.search(r"For a type DT in (.*):", TYPES_CLH)[1]
    assert sorted(head.split()) == sorted(NAMES)


def test_types_of_arithmetic_have_limits():
    ordered = {name for name, t in NAMES.items() if not t.is_complex and t not in HALVES}
    assert set(defined("HIGHEST", (KERNELS / "math.clh").read_text())) == ordered


def test_types_of_generated_kernels():
    memory, value = defined("MEM"), defined("VAL")
    for dtype, (code, in_memory, of_lanes) in TYPES.items():
        assert in_memory == memory[code]
        # Masks of generated kernels are ints.
        assert of_lanes == ("int" if dtype == torch.bool else value[code])


def test_tests_know_every_type():
    assert {*DTYPES, *COMPLEX} == set(EDGE_TYPES) == {*NAMES.values()} - UNSIGNED


def test_device_reports_every_type(device):
    types = torch.accelerator.get_device_capability(device)["supported_dtypes"]
    doubles = {torch.float64, torch.complex128}
    absent = set() if torch.ocl.get_device_properties(device).has_fp64 else doubles
    # PyTorch's structure has no places for the unsigned types.
    assert types == {*NAMES.values()} - UNSIGNED - absent
