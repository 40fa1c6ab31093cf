"""Writes the dispatcher registrations of ocl from the marks in kernels/ and the installed torch.

usage: generate.py KERNELS_FOLDER OUTPUT_FOLDER SITE_PACKAGES_OF_TORCH SHARDS TORCH_VERSION [--try]

Reads the OCL_* marks (marks.py has their grammar). torchgen then writes the same wrappers that
PyTorch's own backends get: register_ocl_*.cpp. SHARDS of these files have the wrappers of dense
tensors. native/X.h declares our implementations in X.cpp, so that a new mark recompiles one file.
Everything that depends on torch's version comes from the installed torch, so the same sources build
with every supported release. With --try, marks that name no operator of this torch are left out.
"""

import pathlib
import re
import sys

# Appended, not prepended: an isolated build has its own versions of other packages.
sys.path.append(sys.argv[3])

import marks
import relations
import torchgen
from torchgen import dest
from torchgen.api import structured
from torchgen.api.types import kernel_signature
from torchgen.context import with_native_function_and_index
from torchgen.gen import get_grouped_native_functions, parse_native_yaml
from torchgen.model import (
    BackendIndex,
    BackendMetadata,
    DispatchKey,
    NativeFunctionsGroup,
)
from torchgen.selective_build.selector import SelectiveBuilder
from torchgen.utils import Target

# torchgen writes structured wrappers only for the backends it knows. XPU is the simplest of them;
# write_shard() replaces its name in the text.
KEY = DispatchKey.XPU

# For these layouts, each implementation of PyTorch that serves both CPU and CUDA also serves ocl.
LAYOUTS = ["Sparse", "SparseCsr", "Quantized", "NestedTensor"]
# Operators that kernels/quantized/quantized.cpp registers itself.
OWN_QUANTIZED = {"int_repr", "flip"}

# Before this release, PyTorch does not have these operators, or its implementations refuse
# out-of-tree devices, and the CPU fallback runs them.
SINCE = {
    (2, 12): [
        "std.correction",
        "var.correction",
        "std_mean.correction",
        "var_mean.correction",
        "_cdist_forward",
        "_cdist_backward",
        "_pdist_forward",
        "_pdist_backward",
    ],
    (2, 15): ["linalg_polar.out", "linalg_matrix_sqrth"],
}

# Operators that PyTorch has removed in this release.
UNTIL = {
    (2, 14): ["cholesky"],
}

COPIED = 'm.impl("{name}", torch::CppFunction::makeFromBoxedFunction<&ocl::layout_fallback>());'


def mark_files(folder):
    """The files that may contain marks."""
    files = sorted([*folder.rglob("*.h"), *folder.rglob("*.cpp")])
    return [path for path in files if path.name != "registration.h"]


def read_marks(folder):
    """-> ({shared operator entry}, {own operator name: (marks.Own, file)}, {type: entries})

    The types are those that few kernels know: "complex" and "float8".
    """
    shared, own, types = [], {}, {"complex": [], "float8": []}
    for path in mark_files(folder):
        text = path.read_text()
        for mark in marks.read_marks(text):
            if mark.kind == "FLOAT8":
                types["float8"] += mark.operators
            elif mark.kind != "COMPLEX":
                shared += mark.operators
            if mark.takes_complex:
                types["complex"] += mark.operators
        for mark in marks.read_own_marks(text):
            if mark.operator in own:
                sys.exit(f"{path}: {mark.operator} is marked in {own[mark.operator][1]}.cpp, too")
            own[mark.operator] = (mark, path.stem)
        if path.name == "foreach_table.h":
            own |= read_foreach(marks.read_foreach_marks(text))
    return shared, own, types


def read_foreach(table):
    """The operators of kernels/foreach/foreach_table.h."""
    return own_foreach((op, f"{op}_{overload}", f".{overload}") for op, overload in table)


def own_foreach(rows):
    """Own operators in the form of read_marks(), from (operator, our name, overload); each also in
    place."""
    own = {}
    for op, name, overload in rows:
        for place in ("", "_"):
            operator = f"_foreach_{op}{place}{overload}"
            mark = marks.Own("NATIVE", False, operator, f"foreach_{name}{place}")
            own[operator] = (mark, "foreach_ops")
    return own


def unary_foreach(table, functions):
    """[(operator, stub)] for the rows of pointwise_table.h that have a _foreach_ operator on one
    list."""
    unary = {
        str(function.func.name)
        for function in functions
        if len(function.func.arguments.flat_all) == 1
    }
    return [(op, stub) for op, stub in marks.read_stubs(table) if f"_foreach_{op}" in unary]


def entry_matches(entry, function):
    """Whether "add", "div.Tensor" or "clamp.default" means this function (or its variants)."""
    name = function.func.name
    base, _, overload = entry.partition(".")
    if base not in {name.name.base, str(name.name)}:
        return False
    if not overload:
        return True
    wanted = "" if overload == "default" else overload
    return name.overload_name in {wanted, f"{wanted}_out" if wanted else "out"}


def functions_of(item):
    return list(item.functions()) if isinstance(item, NativeFunctionsGroup) else [item]


def fallback_guard(function, types, head):
    """The code that sends tensors of types that no kernel knows to the CPU fallback.

    Before that, tensors that the operator writes stop sharing memory with lazy clones. Running
    averages are written, too, though the schemas do not say so.
    `types`: "complex_" or "float8_" if kernels know these, too. `head`: the wrapper's head.
    """
    schema = function.func
    arguments = schema.arguments.flat_all
    tensors = [a.name for a in arguments if a.type.is_tensor_like() and not a.type.is_list_like()]
    operands = [a.name for a in arguments if a.type.is_tensor_like()]
    written = [
        a.name
        for a in arguments
        if a.name.startswith("running_") or (a.annotation and a.annotation.is_write)
    ]
    owning = "".join(f"  ocl::own_memory({name});\n" for name in written)
    owning += "  const ocl::OperatorScope in_operator;\n"
    owning += f"  ocl::check_operands({', '.join(operands)});\n" if operands else ""
    if not tensors:
        return owning
    names = ", ".join(a.name for a in arguments)
    op = f"at::_ops::{schema.name.unambiguous_name()}"
    # Wrappers of structured operators take plain numbers where the schema has symbolic ones.
    call = "call_fallback_fn_symint" if "SymInt" in head else "call_fallback_fn"
    return owning + (
        f"  if (C10_UNLIKELY(ocl::{types}needs_fallback({', '.join(tensors)}))) {{\n"
        f"    return at::native::{call}<&ocl::fallback, {op}>::call({names});\n"
        "  }\n"
    )


def add_guards(definitions, registrations, item, entries):
    """Inserts checks and fallback_guard() as the first statements of each wrapper of `item`."""
    wrappers = dict(re.findall(r'm\.impl\("([^"]+)",\s*TORCH_FN\((\w+)\)\)', registrations))
    types = "".join(
        f"{name}_"
        for name, marked in entries.items()
        if any(entry_matches(e, f) for e in marked for f in functions_of(item))
    )
    for function in functions_of(item):
        wrapper = wrappers.get(str(function.func.name))
        if wrapper is None:
            continue
        head = re.compile(rf"(\b{wrapper}\([^;]*?\) \{{\n)")
        definitions, count = head.subn(
            lambda m, f=function: m[1] + relations.checks_of(f) + fallback_guard(f, types, m[1]),
            definitions,
            count=1,
        )
        assert count == 1, f"no definition of {wrapper}"
    return definitions


def left_out(version):
    """The entries of marks that do not exist in a release of PyTorch."""
    numbers = tuple(int(part) for part in version.split(".")[:2])
    too_old = {op for release, ops in SINCE.items() if numbers < release for op in ops}
    return too_old | {op for release, ops in UNTIL.items() if numbers >= release for op in ops}


def main(kernels, output, shards, version, lenient):
    kernels, output = pathlib.Path(kernels), pathlib.Path(output)
    packaged = pathlib.Path(torchgen.__file__).parent / "packaged/ATen/native"
    parsed = parse_native_yaml(str(packaged / "native_functions.yaml"), str(packaged / "tags.yaml"))
    cpu = parsed.backend_indices[DispatchKey.CPU]
    # PyTorch 2.15 has a zero_ for CUDA alone.
    gpus = [parsed.backend_indices[key] for key in (DispatchKey.CUDA, DispatchKey.XPU)]
    shared, own, type_entries = read_marks(kernels)
    table = (kernels / "pointwise/pointwise_table.h").read_text()
    unary = unary_foreach(table, parsed.native_functions)
    own |= own_foreach((op, op, "") for op, _ in unary)
    shared = [entry for entry in shared if entry not in left_out(version)]

    index, items, used = {}, [], set()
    # A file without marks gets a header, too, since CMakeLists.txt expects one for each file.
    declarations = {path.stem: [] for path in mark_files(kernels)}

    def own_mark(item):
        for function in functions_of(item):
            if str(function.func.name) in own:
                return own[str(function.func.name)]
        return None

    def shared_kernel(item):
        a, others = cpu.get_kernel(item), [index.get_kernel(item) for index in gpus]
        # add is written as a "ufunc"; its CPU form goes through the stub.
        shared = a and any(
            b and (a.kernel == b.kernel or a.kernel.startswith("ufunc_")) for b in others
        )
        return a if shared else None

    def take(item):
        """Puts the operator into the index if a mark means it."""
        found = own_mark(item)
        primary = item.out if isinstance(item, NativeFunctionsGroup) else item
        if found:
            mark, stem = found
            is_structured = mark.kind == "STRUCTURED"
            index[primary.func.name] = BackendMetadata(mark.name, is_structured, "ocl::native")
            used.add(mark.operator)
            declarations[stem].append((item, mark))
            items.append(item)
            return
        hits = [e for e in shared for f in functions_of(item) if entry_matches(e, f)]
        metadata = shared_kernel(item)
        if hits and metadata:
            index[primary.func.name] = metadata
            used.update(hits)
            items.append(item)

    for item in get_grouped_native_functions(parsed.native_functions):
        mark = (own_mark(item) or [None])[0]
        by_meta = isinstance(item, NativeFunctionsGroup) and item.structured
        if by_meta and not (mark and mark.kind == "NATIVE"):
            take(item)
        else:
            for function in functions_of(item):
                take(function)

    typed = {entry for entries in type_entries.values() for entry in entries}
    named = {e for e in typed for f in parsed.native_functions if entry_matches(e, f)}
    unknown = sorted(({*shared, *own} - used) | (typed - named - left_out(version)))
    if unknown:
        message = f"kernels/: no operator of this torch is meant by {', '.join(unknown)}"
        if not lenient:
            sys.exit(message)
        print(message)

    backend = make_backend(KEY, index)

    def generate_item(item):
        registrations = generate(backend, Target.REGISTRATION, item)
        text = generate(backend, Target.ANONYMOUS_DEFINITION, item)
        return add_guards(text, registrations, item, type_entries), registrations

    helpers = "\n".join(dest.gen_registration_helpers(backend))
    # Operators with equal arguments share a boxed wrapper, so they go to one file.
    items.sort(key=lambda i: [str(a.type) for a in functions_of(i)[0].func.arguments.flat_all])
    for shard in range(shards):
        part = items[shard * len(items) // shards : (shard + 1) * len(items) // shards]
        text = write_shard(part, [generate_item(item) for item in part], helpers)
        write_if_changed(output / f"register_ocl_{shard}.cpp", text)
    for layout in LAYOUTS:
        text = write_layout(layout, parsed)
        write_if_changed(output / f"register_ocl_{layout.lower()}.cpp", text)
    rows = "".join(f"OCL_FOREACH_UNARY({op}, {stub})\n" for op, stub in unary)
    write_if_changed(output / "foreach_unary.h", rows)
    (output / "native").mkdir(exist_ok=True)
    for stem, declared in declarations.items():
        write_if_changed(output / f"native/{stem}.h", declare(declared, backend))
    for path in (output / "native").iterdir():
        if path.stem not in declarations:
            path.unlink()  # its source was renamed or removed
    all_headers = "".join(f'#include "native/{stem}.h"\n' for stem in sorted(declarations))
    write_if_changed(output / "native_functions.h", f"#pragma once\n{all_headers}")


def make_backend(key, index):
    return BackendIndex(
        dispatch_key=key, use_out_as_primary=True, external=False, device_guard=True, index=index
    )


def generate(backend, target, item):
    register = dest.RegisterDispatchKey(
        backend,
        target,
        SelectiveBuilder.get_nop_selector(),
        rocm=False,
        symint=True,
        class_method_name=None,
        skip_dispatcher_op_registration=False,
    )
    return "\n".join(register(item))


def write_layout(layout, parsed):
    """The wrappers for a layout on ocl, for the implementations that CPU and CUDA share.

    A quantized operator whose CPU implementation CUDA does not share gets layout_fallback().
    """
    cpu = parsed.backend_indices[DispatchKey.parse(f"{layout}CPU")]
    cuda = parsed.backend_indices[DispatchKey.parse(f"{layout}CUDA")]
    key = DispatchKey.parse(f"{layout}PrivateUse1")
    index, items, copied = {}, [], []
    for item in get_grouped_native_functions(parsed.native_functions):
        for function in functions_of(item):
            name = function.func.name
            a, b = cpu.index.get(name), cuda.index.get(name)
            if layout == "Quantized" and str(name) in OWN_QUANTIZED:
                continue
            if a and not (b and a.kernel == b.kernel) and layout == "Quantized":
                copied.append(str(name))
            if a and b and a.kernel == b.kernel:
                index[name] = a
                items.append(function)
    backend = make_backend(key, index)
    generated = [
        (
            generate(backend, Target.ANONYMOUS_DEFINITION, item),
            generate(backend, Target.REGISTRATION, item),
        )
        for item in items
    ]
    # Without an entry, PyTorch would use a composition of operators, although the CPU has a kernel.
    generated.append(("", "\n".join(COPIED.format(name=name) for name in copied)))
    helpers = "\n".join(dest.gen_registration_helpers(backend))
    return write_shard(items, generated, helpers, key.name)


def write_if_changed(path, text):
    """Does not write a file that does not change, so that nothing is compiled again."""
    if not path.exists() or path.read_text() != text:
        path.write_text(text)


def write_shard(items, generated, helpers, key="PrivateUse1"):
    names = sorted({f.root_name for item in items for f in functions_of(item)})
    includes = "\n".join(
        f"#include <ATen/ops/{name}_native.h>\n#include <ATen/ops/{name}_ops.h>" for name in names
    )
    definitions = "\n".join(definition for definition, _ in generated)
    registrations = "\n".join(registration for _, registration in generated)
    checks = ""
    if "ocl::Relations" in definitions:
        checks = '#include "kernels/core/operators/relations.h"\n'
    text = f"""// Generated by kernels/codegen/generate.py.
#include <ATen/DeviceGuard.h>
#include <ATen/core/op_registration/adaption.h>
#include <ATen/native/CPUFallback.h>
#include <ATen/native/Resize.h>
#include <ATen/ops/as_strided_native.h>
#include <c10/core/impl/DeviceGuardImplInterface.h>
#include <torch/library.h>
{includes}
#include "kernels/tensor/factory.h"
#include "kernels/dispatch/fallback.h"
#include "kernels/core/tensors/lazy_clone.h"
#include "kernels/core/operators/operands.h"
{checks}#include "native_functions.h"

namespace at {{
namespace {{
{helpers}
{definitions}
TORCH_LIBRARY_IMPL(aten, {key}, m) {{
{registrations}
}}
}}  // namespace
}}  // namespace at
"""
    for theirs, ours in {
        "at::detail::empty_strided_xpu": "ocl::empty_strided_tensor",
        "at::detail::empty_xpu": "ocl::empty_tensor",
        "XPU": "PrivateUse1",
    }.items():
        text = text.replace(theirs, ours)
    # A function as an argument, not as a template argument: boxed wrappers are then compiled once
    # for each signature, and not for each operator.
    return re.sub(r"TORCH_FN\((\w+)\)", r"&\1", text)


@with_native_function_and_index
def head(item, backend):
    """The head of one of our implementations, without default values."""
    name = backend.get_kernel(item).kernel
    if isinstance(item, NativeFunctionsGroup):
        arguments = ", ".join(argument.decl() for argument in structured.impl_arguments(item))
        return f"void structured_{name}::impl({arguments})"
    return kernel_signature(item, backend).defn(name=name)


def declare(declarations, backend):
    """Declarations of our own implementations, as torchgen declares PyTorch's."""
    metas, lines = set(), []
    for item, mark in declarations:
        if isinstance(item, NativeFunctionsGroup):
            metas.add(item.functional.root_name)
        lines += dest.compute_native_function_declaration(item, backend)
        if mark.needs_head:
            lines.append(f"#define OCL_HEAD_{mark.name} {head(item, backend)}")
    lines = [re.sub(r"\bTORCH_(XPU_)?API ", "", line) for line in lines]
    includes = "\n".join(f"#include <ATen/ops/{m}_meta.h>" for m in sorted(metas))
    body = "\n".join(lines)
    return f"""// Generated by kernels/codegen/generate.py: what one file of kernels/ implements.
#pragma once
#include <ATen/core/Tensor.h>
{includes}

namespace ocl::native {{
using at::Tensor;
using at::Scalar;
using at::IntArrayRef;
{body}
}}  // namespace ocl::native
"""


if __name__ == "__main__":
    main(*sys.argv[1:3], int(sys.argv[4]), sys.argv[5], "--try" in sys.argv)
