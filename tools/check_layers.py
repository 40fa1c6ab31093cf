"""Checks that dependencies between folders go one way (docs/architecture.md), that few rooms
include each other, and that no folder has too many source files. A room is x.cpp with x.h.

usage: python check_layers.py [ROOT]
Prints each violation; exits with 1 if there is one.
"""

import ast
import collections
import pathlib
import re
import sys

# The folders that each folder may include, in addition to itself.
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
# The floors of backend/, from the bottom. A floor may include the floors below it.
FLOORS = ["base", "device", "program", "queue", "memory", "launch"]
# Rooms that include each other, directly or through others, and why. No more than three.
CIRCLES = {
    "backend/device/device listing quirks": "a Device is made of what was listed, with its quirks",
    "backend/memory/allocator transfer": "storages grow by copies, which wait for users of a block",
    "backend/program/program_cache user_program": "programs of users are kept with signatures",
    "backend/queue/fault first_launch stream": "a stream has its faults, whose kernel it launches",
    "generator/captured_draws generator": "the generator hands its state to the draws of graphs",
    "kernels/index/index index_plan": "the plan has the types of index.h, and index.cpp makes it",
    "kernels/matmul/gemm gemm_complex gemm_problem": "complex products are made of real ones",
    "kernels/user/user_arguments user_kernel": "arguments name their kernel in errors",
}
# The folders of kernels/ that each folder there may include, in addition to itself and core/.
KERNELS_MAY_INCLUDE = {
    "core/cl": set(),
    "core/types": set(),
    "core/grids": set(),
    "core/tensors": set(),
    "core/operators": {"core/types", "core/grids", "core/tensors", "core/cl"},
    "core/algorithms": {"core/grids", "core/cl"},
    "core/matrix_units": {"core/types", "core/grids", "core/cl"},
    "pointwise/functions": set(),
    "pointwise": {"pointwise/functions"},
    "foreach": {"pointwise"},
    "tensor": {"pointwise"},
    "reduce": {"pointwise"},
    "softmax": {"pointwise", "reduce"},
    "norm": {"pointwise", "reduce"},
    "matmul": {"pointwise"},
    "matmul/cpu": {"matmul"},
    "matmul/gpu": {"matmul"},
    "matmul/blocks": {"matmul"},
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
    "sparse": {"pointwise", "dispatch"},
    "quantized": {"pointwise"},
    "nested": set(),
    "user": set(),
    "vision/cl": set(),
    "vision": {"vision/cl"},
    "inductor": set(),
    "inductor/cl": set(),
}
# The modules and folders of python/torch_ocl/inductor, from the bottom. A module may import those
# before it.
INDUCTOR = "python/torch_ocl/inductor"
INDUCTOR_FLOORS = [
    *("versions", "import_hook", "device_interface", "runtime", "replay"),
    *("codegen", "tuning", "tracing", "passes", "lowering", "flex", "programs"),
    *("upstream", "registration", "__init__"),
]
# The most source files of a folder.
MOST_FILES = 26
# Folders that have more source files, and how many.
LARGE = {
    "tests/conformance": 33,  # modules that import each other by name alone, like the next folder
    "tests/fuzz": 27,
    "tests/stern": 28,
}
OPENCL_INCLUDER = "backend/base/opencl.h"
# An OpenCL layer of its own, which knows nothing of the project.
OPENCL_LAYER = "tests/stern/"
INCLUDE = re.compile(r'^\s*#\s*include\s*[<"]([^>"]+)[>"]')
CPP = {".h", ".hpp", ".cpp"}
OPENCL = {".cl", ".clh"}


def violation(path, layer, included):
    """Why this include is not allowed, or None."""
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


def folder_of(path, root="kernels"):
    """The folder of kernels/ (or of another root) that a path is in, or None."""
    parts = path.split("/")
    return "/".join(parts[1:-1]) if parts[0] == root else None


def violation_in_backend(path, included):
    """violation() for an include within backend/."""
    floor, other = folder_of(path, "backend"), folder_of(included, "backend")
    if other is None or other == floor:
        return None
    if not {floor, other} <= set(FLOORS):
        return "backend/ has the floors " + ", ".join(FLOORS)
    if FLOORS.index(other) > FLOORS.index(floor):
        return f"backend/{floor} is below backend/{other}"
    return None


def is_core(folder):
    return folder.split("/")[0] == "core"


def violation_in_kernels(path, included, places):
    """violation() for an include within kernels/. OpenCL sources are included by name: `places` has
    their paths."""
    folder, other = folder_of(path), folder_of(places.get(included, included))
    if other is None or other == folder or (is_core(other) and not is_core(folder)):
        return None
    if folder not in KERNELS_MAY_INCLUDE:
        return f"tools/check_layers.py does not know kernels/{folder}"
    if other not in KERNELS_MAY_INCLUDE[folder]:
        allowed = ", ".join(sorted(KERNELS_MAY_INCLUDE[folder])) or "no other folder but core"
        return f"kernels/{folder} may include {allowed}"
    return None


def inductor_imports(folder, text):
    """[(line, module or folder of inductor)] for the imports of a module. `folder`: the module's
    folder there, as parts of a path."""
    found = []
    for node in ast.walk(ast.parse(text)):
        if isinstance(node, ast.ImportFrom) and node.level:
            parts = [*folder[: len(folder) - node.level + 1], *(node.module or "").split(".")]
            parts = [part for part in parts if part]
            found += [(node.lineno, name) for name in parts[:1] or [a.name for a in node.names]]
    return found


def violations_in_inductor(root):
    for file in sorted((root / INDUCTOR).rglob("*.py")):
        inside = file.relative_to(root / INDUCTOR).with_suffix("").parts
        for line, other in inductor_imports(inside[:-1], file.read_text()):
            place = f"{file.relative_to(root).as_posix()}:{line}"
            unknown = {inside[0], other} - set(INDUCTOR_FLOORS)
            if unknown:
                yield f"{place}: INDUCTOR_FLOORS does not have {' '.join(sorted(unknown))}"
            elif INDUCTOR_FLOORS.index(other) > INDUCTOR_FLOORS.index(inside[0]):
                yield f"{place}: {inside[0]} is below {other}"


def full_folders(root):
    counts = collections.Counter(
        file.parent.relative_to(root).as_posix()
        for layer in (*MAY_INCLUDE, "tools")
        for file in (root / layer).rglob("*")
        if file.suffix in CPP | OPENCL | {".py"}
    )
    for folder, count in sorted(counts.items()):
        most = LARGE.get(folder, MOST_FILES)
        if count > most:
            yield f"{folder}: {count} source files; at most {most}: split it by what the files hold"


def circles(graph):
    """The sets of rooms that include each other, directly or not, in {room: rooms that it
    includes}."""

    def reached(room):
        found, new = set(), [room]
        while new:
            for other in graph.get(new.pop(), ()):
                if other not in found:
                    found.add(other)
                    new.append(other)
        return found

    reach = {room: reached(room) for room in graph}
    found = {
        frozenset(other for other in reach[room] if room in reach.get(other, ())) for room in graph
    }
    return [circle for circle in found if circle]


def wrong_circles(graph):
    """Describes circles that CIRCLES lacks, and its entries that are not circles."""

    def written(circle):
        first, *others = sorted(circle)
        return " ".join([first, *(pathlib.PurePath(other).name for other in others)])

    present = {written(circle): len(circle) for circle in circles(graph)}
    found = [
        f"{circle}: {size} rooms include each other"
        for circle, size in present.items()
        if size > 3 or circle not in CIRCLES
    ]
    for circle in CIRCLES:
        if circle not in present and circle.split()[0] in graph:
            found.append(f"{circle}: no circle, but listed")
    return found


def check(root):
    """All violations below the root, as file:line: text."""
    found, rooms = [], {}
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
                if include and not wrong and layer == "backend":
                    wrong = violation_in_backend(path, include[1])
                if wrong:
                    found.append(f"{path}:{number}: {line.strip()}: {wrong}")
                if include and layer != "tests" and file.suffix in CPP:
                    room, other = path.rsplit(".", 1)[0], include[1].removesuffix(".h")
                    if room != other:
                        rooms.setdefault(room, set()).add(other)
    return [*found, *wrong_circles(rooms), *violations_in_inductor(root), *full_folders(root)]


if __name__ == "__main__":
    root = pathlib.Path(sys.argv[1] if len(sys.argv) > 1 else __file__).resolve()
    violations = check(root if root.is_dir() else root.parents[1])
    print("\n".join(violations) or "folder dependencies: ok")
    sys.exit(1 if violations else 0)
