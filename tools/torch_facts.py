"""Facts of an installed PyTorch that torch-ocl depends on, and the differences between two
releases.

usage: torch_facts.py FILE.json

Writes the facts of the PyTorch of this Python: schemas, kernels by dispatch key, what
native_functions.yaml says of each operator, and the private functions of private_names.py.
"""

import difflib
import json
import pathlib
import sys

KEYS = ("CPU", "CompositeImplicitAutograd", "CompositeExplicitAutograd")
BACKENDS = ("CPU", "CUDA")


def schemas():
    import torch

    found = {}
    for schema in torch._C._jit_get_all_schemas():
        if schema.name.startswith(("aten::", "prims::", "c10d::", "_c10d_functional::")):
            found[f"{schema.name}.{schema.overload_name}".rstrip(".")] = str(schema)
    return found


def native_functions():
    """{operator: the fields of native_functions.yaml that decide whether its kernels serve ocl}."""
    import torchgen
    from torchgen.gen import parse_native_yaml
    from torchgen.model import DispatchKey

    folder = pathlib.Path(torchgen.__file__).parent / "packaged/ATen/native"
    parsed = parse_native_yaml(str(folder / "native_functions.yaml"), str(folder / "tags.yaml"))
    found = {}
    for function in parsed.native_functions:
        facts = {"structured": function.structured, "delegate": str(function.structured_delegate)}
        for name in BACKENDS:
            metadata = parsed.backend_indices[DispatchKey.parse(name)].get_kernel(function)
            facts[name] = metadata and metadata.kernel
        found[str(function.func.name)] = facts
    return found


def collect():
    import private_names
    import torch

    uses = private_names.used_names()
    return {
        "version": torch.__version__,
        "schemas": schemas(),
        "kernels": {
            key: torch._C._dispatch_get_registrations_for_dispatch_key(key) for key in KEYS
        },
        "native": native_functions(),
        "private": {name: [*of, private_names.text_of(name)] for name, of in uses.items()},
    }


def schema_differences(old, new):
    """{title: lines}; added operators are listed with the keys that have a kernel."""
    before, after = old["schemas"], new["schemas"]

    def kernel_of(name):
        keys = [key for key in KEYS if name in new["kernels"][key]]
        return f"{name}: {', '.join(keys) or 'no kernel for all devices'}"

    changed = [name for name in before if name in after and before[name] != after[name]]
    return {
        "operators removed": sorted(before.keys() - after.keys()),
        "operators added, with the dispatch keys of their kernels": [
            kernel_of(name) for name in sorted(after.keys() - before.keys())
        ],
        "schemas changed": [f"{before[name]}\n    {after[name]}" for name in sorted(changed)],
    }


def native_differences(old, new):
    lines = []
    for name in sorted(old["native"].keys() & new["native"].keys()):
        before, after = old["native"][name], new["native"][name]
        changes = [
            f"{key} {before[key]} -> {after[key]}" for key in before if before[key] != after[key]
        ]
        lines += [f"{name}: {', '.join(changes)}"] if changes else []
    return {"implementations of operators changed (native_functions.yaml)": lines}


def private_differences(old, new):
    """{title: lines}, and the texts of changed functions as a unified diff."""
    missing, changed, texts = [], [], []
    for name, (use, files, text) in sorted(new["private"].items()):
        before = old["private"].get(name, [None, None, None])[2]
        title = f"{name} ({use} in {', '.join(files)})"
        if text is None and before is not None:
            missing.append(title)
        elif before is not None and before != text:
            changed.append(title)
            parts = before.splitlines(), text.splitlines()
            texts += difflib.unified_diff(*parts, f"{old['version']} {name}", name, lineterm="")
    titles = {
        "private names of PyTorch that are missing": missing,
        "private functions that changed (their texts are in private.diff)": changed,
    }
    return titles, texts


if __name__ == "__main__":
    pathlib.Path(sys.argv[1]).write_text(json.dumps(collect(), indent=1))
