"""Checks that dependencies between the folders go one way (docs/architecture.md).

usage: python check_layers.py [ROOT]
Prints each violation as file:line; exits with 1 if there is one.
"""

import pathlib
import re
import sys

# What each folder may include, apart from itself.
MAY_INCLUDE = {
    "include": set(),
    "backend": set(),
    "generator": {"backend"},
    "serialization": {"backend"},
    "guard": {"backend", "generator"},
    "distributed": {"backend"},
    "kernels": {"include", "backend", "generator", "serialization"},
}
MAY_INCLUDE["python"] = set(MAY_INCLUDE)
MAY_INCLUDE["tests"] = set(MAY_INCLUDE)
# What each folder of kernels/ may include there, apart from itself and core/.
KERNELS_MAY_INCLUDE = {
    "core/cl": set(),
    "core": {"core/cl"},
    "pointwise/functions": set(),
    "pointwise": {"pointwise/functions"},
    "foreach": {"pointwise"},
    "tensor": {"pointwise"},
    "reduce": {"pointwise"},
    "softmax": {"pointwise", "reduce"},
    "norm": {"pointwise", "reduce"},
    "matmul": {"pointwise"},
    "matmul/gpu": {"matmul"},
    "matmul/packed": {"pointwise", "matmul"},
    "conv/common": {"matmul"},
    "conv/cpu": {"conv/common", "matmul"},
    "conv/channels_last": {"conv/common", "conv/cpu", "matmul"},
    "conv/gpu": {"conv/common", "matmul", "matmul/gpu"},
    "conv": {"conv/common", "conv/cpu", "conv/channels_last", "conv/gpu", "matmul"},
    "attention": {"pointwise"},
    "index": {"pointwise", "sort"},
    "sort": {"pointwise"},
    "pool": {"pointwise"},
    "image/cl": set(),
    "image": {"image/cl"},
    "resample": {"pointwise", "image"},
    "linalg": {"pointwise", "matmul"},
    "linalg/orthogonal": {"linalg", "matmul"},
    "fft": {"pointwise"},
    "random": {"pointwise"},
    "loss": {"pointwise", "reduce"},
    "optimizer": {"pointwise", "foreach"},
    "rnn": {"pointwise", "matmul"},
    "dispatch": set(),
    "layouts": {"pointwise", "dispatch"},
    "user": set(),
    "user/cl": set(),
}
OPENCL_INCLUDER = "backend/opencl.h"
# An OpenCL layer of its own, which knows nothing of the project.
OPENCL_LAYER = "tests/stern/"
INCLUDE = re.compile(r'^\s*#\s*include\s*[<"]([^>"]+)[>"]')
CPP = {".h", ".hpp", ".cpp"}
OPENCL = {".cl", ".clh"}


def violation(path, layer, included):
    """What is wrong with this include, or None."""
    folder = included.split("/")[0]
    if folder == "torch_ocl":
        folder = "include"
    if folder == "..":
        return "write includes from the root of the repository"
    if folder in MAY_INCLUDE and folder != layer and folder not in MAY_INCLUDE[layer]:
        allowed = ", ".join(sorted(MAY_INCLUDE[layer])) or "no other folder"
        return f"{layer} may include {allowed}"
    if folder == "CL" and path != OPENCL_INCLUDER and not path.startswith(OPENCL_LAYER):
        return f"only {OPENCL_INCLUDER} includes OpenCL's headers"
    if layer == "backend" and (
        (folder in ("torch", "caffe2") and not included.startswith("torch/headeronly/"))
        or (folder == "ATen" and not included.startswith(("ATen/core/", "ATen/ceil_div.h")))
    ):
        return (
            "backend knows no operator: c10/, ATen/core/, ATen/ceil_div.h and "
            "torch/headeronly/ only"
        )
    return None


def folder_of(path):
    """The folder of kernels/ that a path from the root is in, or None."""
    parts = path.split("/")
    return "/".join(parts[1:-1]) if parts[0] == "kernels" else None


def violation_in_kernels(path, included, places):
    """As violation(), for an include within kernels/. OpenCL sources are included by their names:
    `places` has their paths."""
    folder, other = folder_of(path), folder_of(places.get(included, included))
    shared = other in ("core", "core/cl") and folder != "core/cl"
    if other is None or other == folder or shared:
        return None
    if folder not in KERNELS_MAY_INCLUDE:
        return f"tools/check_layers.py does not know kernels/{folder}"
    if other not in KERNELS_MAY_INCLUDE[folder]:
        allowed = ", ".join(sorted(KERNELS_MAY_INCLUDE[folder])) or "no other folder but core"
        return f"kernels/{folder} may include {allowed}"
    return None


def check(root):
    """All violations below the root, as file:line: text."""
    found = []
    places = {p.name: p.relative_to(root).as_posix() for p in root.glob("kernels/**/*.cl*")}
    for layer in MAY_INCLUDE:
        for file in sorted((root / layer).rglob("*")):
            if file.suffix not in CPP | OPENCL:
                continue
            path = file.relative_to(root).as_posix()
            for number, line in enumerate(file.read_text().splitlines(), 1):
                include = INCLUDE.match(line)
                wrong = include and violation(path, layer, include[1])
                if include and not wrong and folder_of(path) is not None:
                    wrong = violation_in_kernels(path, include[1], places)
                if wrong:
                    found.append(f"{path}:{number}: {line.strip()}: {wrong}")
    return found


if __name__ == "__main__":
    root = pathlib.Path(sys.argv[1] if len(sys.argv) > 1 else __file__).resolve()
    violations = check(root if root.is_dir() else root.parents[1])
    print("\n".join(violations) or "folder dependencies: ok")
    sys.exit(1 if violations else 0)
