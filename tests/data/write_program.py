"""Writes a version's package of AOTInductor, which later versions must run: before each release.

usage: TORCHINDUCTOR_CPP_MARCH= ATEN_CPU_CAPABILITY=default \\
  python tests/data/write_program.py tests/data/program_0.1.0_x86_64.pt2

The variables keep the compiler from instructions that other processors lack.
"""

import pathlib
import subprocess
import sys
import tempfile
import zipfile

import torch
from torch import nn


class Model(nn.Module):
    """Uses each function of program_interface.h: kernels with integers and numbers read from
    tensors, an operator of PyTorch, weights and one tensor that changes."""

    def __init__(self):
        super().__init__()
        self.weight = nn.Parameter(torch.arange(32.0).reshape(4, 8).sin())
        self.calls = nn.Buffer(torch.zeros(3))

    def forward(self, x):
        self.calls.add_(1)
        mean = x.mean().item()
        y = torch.nn.functional.layer_norm(x @ self.weight.T, (4,)).clamp(max=mean)
        values, indices = y.topk(2)
        return y, values, indices, self.calls + 0


def arguments(rows, device):
    return (torch.arange(rows * 8.0, device=device).reshape(rows, 8).cos(),)


def reduce(package, result):
    """Leaves out sources and debugging information, which are most of a package."""
    with tempfile.TemporaryDirectory() as folder, zipfile.ZipFile(package) as archive:
        archive.extractall(folder)
        folder = pathlib.Path(folder)
        for library in folder.rglob("*.so"):
            subprocess.run(["strip", library], check=True)
        with zipfile.ZipFile(result, "w", zipfile.ZIP_DEFLATED) as reduced:
            for file in sorted(folder.rglob("*")):
                if file.is_file() and file.suffix != ".cpp":
                    reduced.write(file, file.relative_to(folder))


def main():
    batch = torch.export.Dim("batch", min=1, max=64)
    program = torch.export.export(
        Model().to("ocl"), arguments(3, "ocl"), dynamic_shapes={"x": {0: batch}}
    )
    with tempfile.TemporaryDirectory() as folder:
        package = torch._inductor.aoti_compile_and_package(
            program, package_path=f"{folder}/{pathlib.Path(sys.argv[1]).name}"
        )
        reduce(package, sys.argv[1])


if __name__ == "__main__":
    main()
