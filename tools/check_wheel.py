"""Checks an installed wheel: autoload, embedded kernels, headers, nothing from the source tree.

usage: PYTHONPATH=FOLDER python check_wheel.py FOLDER
"""

import os
import pathlib
import sys

os.environ.pop("OCL_KERNEL_DIR", None)

import torch

import torch_ocl  # noqa: F401 (needed where PyTorch has a GPU of its own)

x = torch.ones(3, device="ocl")
assert (x + x).sum().item() == 6
assert torch.compile(lambda x: x + x, fullgraph=True)(x).sum().item() == 6

torch._dynamo.reset()
with torch._inductor.config.patch(cpp_wrapper=True):  # with the wheel's headers
    assert torch.compile(lambda x: x * x, fullgraph=True)(x).sum().item() == 3

folder = pathlib.Path(sys.modules["torch_ocl"].__file__).resolve().parents[1]
assert folder == pathlib.Path(sys.argv[1]).resolve(), f"torch_ocl was imported from {folder}"
print(f"the wheel in {folder} works on {torch.ocl.get_device_properties(0).name}")
