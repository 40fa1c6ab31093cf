"""Compiles a model to a package of AOTInductor, and a program in C++ that runs it.

    python docs/examples/package.py --output build/package
    build/package/package build/package/model.pt2 8 16

The package has the model's code and weights: no Python runs in it. Both need a C++ compiler.
"""

import argparse
import pathlib
import subprocess
import sysconfig

import torch
from torch import nn
from torch.utils.cpp_extension import include_paths, library_paths

import torch_ocl  # noqa: F401 (the device, also where PyTorch has a GPU of its own)

SOURCE = pathlib.Path(__file__).with_suffix(".cpp")


def compile_program(output):
    """package.cpp with PyTorch's libraries, and with Python's, which loads torch_ocl."""
    python = sysconfig.get_config_vars()
    folders = [*include_paths(), sysconfig.get_path("include")]
    libraries = [*library_paths(), python["LIBDIR"]]
    command = ["c++", "-std=c++20", "-O1", SOURCE, "-o", output]
    command += [f"-I{folder}" for folder in folders]
    for folder in libraries:
        command += [f"-L{folder}", f"-Wl,-rpath,{folder}"]
    names = ["torch", "torch_cpu", "torch_python", "c10", f"python{python['LDVERSION']}"]
    subprocess.run([*command, "-Wl,--no-as-needed", *(f"-l{name}" for name in names)], check=True)


def main(arguments=None):
    parser = argparse.ArgumentParser()
    parser.add_argument("--device", default="ocl")
    parser.add_argument("--output", default="build/package", type=pathlib.Path)
    args = parser.parse_args(arguments)
    args.output.mkdir(parents=True, exist_ok=True)

    torch.manual_seed(0)
    model = nn.Sequential(nn.Linear(16, 32), nn.GELU(), nn.Linear(32, 4), nn.Softmax(-1))
    model.to(args.device).eval()
    x = torch.ones(8, 16, device=args.device)
    program = torch.export.export(model, (x,), dynamic_shapes=({0: torch.export.Dim.DYNAMIC},))
    package = args.output / "model.pt2"
    torch._inductor.aoti_compile_and_package(program, package_path=str(package))
    compile_program(args.output / "package")
    print(f"{args.output / 'package'} {package} 8 16")
    return model(x)


if __name__ == "__main__":
    main()
