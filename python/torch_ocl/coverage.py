"""Counts PyTorch's operators: which have kernels on ocl, which run on the CPU, which are missing.

    python -m torch_ocl.coverage             the counts, next to the counts of CUDA and MPS
    python -m torch_ocl.coverage --markdown  docs/ops.md

It counts the operators of the installed PyTorch's native_functions.yaml that have a CPU or CUDA
kernel and no composite form: a backend must implement these. The columns of CUDA and MPS are the
kernels that the file registers for them.
"""

import argparse
import collections
import pathlib
import textwrap

import torch
import torchgen
from torchgen.gen import parse_native_yaml
from torchgen.model import DispatchKey

STATES = {
    "native": "A kernel runs on the device.",
    "fallback": "Runs on the CPU, on the device's own memory where that is possible; counted by "
    "`torch.ocl.fallback_stats()`.",
    "missing": "No kernel, and none of the CPU's to fall back to.",
}
# Bindings of other vendors' libraries and PyTorch's own test operators; no backend implements them.
FOREIGN = ("cudnn", "miopen", "mkldnn", "cslt", "triton", "to_mkldnn", "test_", "foobar")
DOCUMENT = """\
# Operators

Written by `python -m torch_ocl.coverage --markdown`; a test keeps it true.

Of the {total} operators of PyTorch {version} that have a CPU or CUDA kernel and no composite form
(what a backend has to bring itself; all others are made of these):

{counts}

{sections}
"""


def is_foreign(name):
    return name.lstrip("_").startswith(FOREIGN)


def operators():
    """{operator name: [the backends out of "cpu", "cuda", "mps" that have a kernel]}"""
    folder = pathlib.Path(torchgen.__file__).parent / "packaged/ATen/native"
    parsed = parse_native_yaml(str(folder / "native_functions.yaml"), str(folder / "tags.yaml"))
    found = {}
    for function in parsed.native_functions:
        composite = (
            function.has_composite_implicit_autograd_kernel
            or function.has_composite_explicit_autograd_kernel
            or function.has_composite_explicit_autograd_non_functional_kernel
        )
        keys = {"cpu": DispatchKey.CPU, "cuda": DispatchKey.CUDA, "mps": DispatchKey.MPS}
        has = [
            name
            for name, key in keys.items()
            if key in parsed.backend_indices and parsed.backend_indices[key].has_kernel(function)
        ]
        if not composite and ("cpu" in has or "cuda" in has):
            found[str(function.func.name)] = has
    return found


def state(name, backends):
    """The state (of STATES) of the operator."""
    if torch._C._dispatch_has_kernel_for_dispatch_key(f"aten::{name}", "PrivateUse1"):
        return "native"
    return "fallback" if "cpu" in backends else "missing"


def count(found):
    """-> ({state: number}, {"cuda": number, "mps": number})"""
    states = collections.Counter(state(name, backends) for name, backends in found.items())
    others = {key: sum(key in backends for backends in found.values()) for key in ("cuda", "mps")}
    return states, others


def grouped(names):
    """["add.Tensor", "add.out"] -> "add (Tensor, out)", in the order of the alphabet."""
    overloads = collections.defaultdict(list)
    for name in names:
        base, _, overload = name.partition(".")
        overloads[base].append(overload)
    texts = []
    for base, some in sorted(overloads.items()):
        named = [overload for overload in some if overload]
        texts.append(f"`{base}`" + (f" ({', '.join(named)})" if named else ""))
    return ", ".join(texts)


def table(found):
    states, others = count(found)
    rows = [("native on ocl", states["native"])]
    rows += [("fallback to the CPU", states["fallback"]), ("missing", states["missing"])]
    rows += [("for comparison: CUDA's", others["cuda"]), ("MPS's", others["mps"])]
    lines = ["| | operators | share |", "| --- | ---: | ---: |"]
    lines += [f"| {name} | {n} | {n / len(found):.1%} |" for name, n in rows]
    return "\n".join(lines)


def markdown(found):
    """The text of docs/ops.md."""
    sections = []
    for wanted, meaning in reversed(STATES.items()):
        names = [n for n, backends in found.items() if state(n, backends) == wanted]
        own = [n for n in names if not is_foreign(n)]
        foreign = [n for n in names if is_foreign(n)]
        paragraphs = [meaning, grouped(own) or "None."]
        if foreign:
            paragraphs.append(
                f"Bindings of other libraries, and PyTorch's tests: {grouped(foreign)}"
            )
        filled = [textwrap.fill(text, 100, break_on_hyphens=False) for text in paragraphs]
        sections.insert(0, "\n\n".join([f"## {wanted.capitalize()}", *filled]))
    return DOCUMENT.format(
        total=len(found),
        version=torch.__version__.partition("+")[0],
        counts=table(found),
        sections="\n\n".join(sections),
    )


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--markdown", action="store_true", help="print the text of docs/ops.md")
    found = operators()
    if parser.parse_args().markdown:
        print(markdown(found), end="")
        return
    states, others = count(found)
    print(f"{len(found)} operators with a CPU or CUDA kernel and no composite form:")
    for name in STATES:
        print(f"  {name:9} {states[name]:4}  {states[name] / len(found):6.1%}")
    print(f"kernels of other backends: CUDA {others['cuda']}, MPS {others['mps']}")
    mine = {name for name, backends in found.items() if state(name, backends) == "native"}
    for backend in ("cuda", "mps"):
        theirs = {name for name, backends in found.items() if backend in backends}
        print(
            f"  native here, too, of {backend.upper()}'s: {len(mine & theirs)}; "
            f"here only: {len(mine - theirs)}"
        )


if __name__ == "__main__":
    main()
