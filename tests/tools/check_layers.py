"""Checks that dependencies between the folders go one way (docs/architecture.md).

usage: python check_layers.py [ROOT]
Prints each violation as file:line; exits with 1 if there is one.
"""

import pathlib
import re
import sys

# What each folder may include, apart from itself.
MAY_INCLUDE = {
    "backend": set(),
    "generator": {"backend"},
    "serialization": {"backend"},
    "guard": {"backend", "generator"},
    "distributed": {"backend"},
    "kernels": {"backend", "generator", "serialization"},
    "python": {"backend", "generator", "serialization", "guard", "distributed", "kernels"},
    "tests": {"backend", "generator", "serialization", "guard", "distributed", "kernels", "python"},
}
OPENCL_INCLUDER = "backend/opencl.h"
INCLUDE = re.compile(r'^\s*#\s*include\s*[<"]([^>"]+)[>"]')
CPP = {".h", ".hpp", ".cpp"}


def violation(path, layer, included):
    """What is wrong with this include, or None."""
    folder = included.split("/")[0]
    if folder == "..":
        return "write includes from the root of the repository"
    if folder in MAY_INCLUDE and folder != layer and folder not in MAY_INCLUDE[layer]:
        allowed = ", ".join(sorted(MAY_INCLUDE[layer])) or "no other folder"
        return f"{layer} may include {allowed}"
    if folder == "CL" and path != OPENCL_INCLUDER:
        return f"only {OPENCL_INCLUDER} includes OpenCL's headers"
    if layer == "backend" and (
        (folder in ("torch", "caffe2") and not included.startswith("torch/headeronly/"))
        or (folder == "ATen" and not included.startswith("ATen/core/"))
    ):
        return "backend knows no operator: c10/, ATen/core/ and torch/headeronly/ only"
    return None


def check(root):
    """All violations below the root, as file:line: text."""
    found = []
    for layer in MAY_INCLUDE:
        for file in sorted((root / layer).rglob("*")):
            if file.suffix not in CPP:
                continue
            path = file.relative_to(root).as_posix()
            for number, line in enumerate(file.read_text().splitlines(), 1):
                include = INCLUDE.match(line)
                wrong = include and violation(path, layer, include[1])
                if wrong:
                    found.append(f"{path}:{number}: {line.strip()}: {wrong}")
    return found


if __name__ == "__main__":
    root = pathlib.Path(sys.argv[1] if len(sys.argv) > 1 else __file__).resolve()
    violations = check(root if root.is_dir() else root.parents[2])
    print("\n".join(violations) or "folder dependencies: ok")
    sys.exit(1 if violations else 0)
