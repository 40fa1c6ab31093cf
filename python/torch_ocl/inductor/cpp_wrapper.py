"""Programs in C++ around the calls of kernels: cpp_wrapper=True, and AOTInductor's packages.

They include torch_ocl/program.h, which finds this library when they run. PyTorch's C functions for
operators (aoti_torch_<device>_mm) exist for its own devices only, so eager kernels are called
through the dispatcher or, from packages, PyTorch's proxy executor.
"""

import logging
import os
from pathlib import Path

from torch._inductor import ir
from torch._inductor.codegen.cpp_wrapper_cpu import CppWrapperCpu
from torch._inductor.virtualized import V

from .eager import graph_has_ocl
from .wrapper import end_program

_HEADERS = Path(__file__).parents[1] / "include"


def _find_headers() -> None:
    """Compilers look there for headers, which Inductor's options have no place for."""
    name = "INCLUDE" if os.name == "nt" else "CPLUS_INCLUDE_PATH"
    folders = os.environ.get(name, "").split(os.pathsep)
    if str(_HEADERS) not in folders:
        os.environ[name] = os.pathsep.join([str(_HEADERS), *filter(None, folders)])


def quieten() -> None:
    """Inductor warns of each operator without a C function, which here is every one."""

    def wanted(record):
        return not ("c-shim implementation" in str(record.msg) and graph_has_ocl())

    ir.log.addFilter(wanted)


class OclCppWrapper(CppWrapperCpu):
    def __init__(self):
        self.device = "ocl"
        _find_headers()
        super().__init__()

    @staticmethod
    def create(is_subgraph, subgraph_name, parent_wrapper, partition_signatures=None):
        return OclCppWrapper()

    def write_header(self):
        self.add_device_include("ocl")  # before the CPU's, see program.h
        super().write_header()

    def define_ocl_kernel(self, name, fused, rendered, source, comments):
        letter, local = rendered.shape.letter, rendered.local
        source = source.replace("KERNEL_NAME", fused)
        body = [
            *comments.splitlines(),
            f"static const torch_ocl::Kernel {name}(",
            f'    "{fused}", "{rendered.signature}", \'{letter}\', {local}, R"OCL(',
            source + ')OCL");',
        ]
        self.define_kernel(name, "\n".join(body), gpu=False)

    def generate(self, is_inference):
        # torch_ocl_memcpy() gets an offset by the constant's number among all, so that those of
        # the device must be the first.
        constants = V.graph.constants
        ordered = sorted(
            constants.items(),
            key=lambda item: (item[0] in V.graph.folded_constants, item[1].device.type != "ocl"),
        )
        constants.clear()
        constants.update(ordered)
        return super().generate(is_inference)

    def _generate_kernel_call_helper(self, kernel_name, call_args, *, device=None, **options):
        device = device or V.graph.get_current_device_or_throw()
        if device.type == "ocl":
            self.writeline(self.wrap_kernel_call(kernel_name, call_args))
        else:
            super()._generate_kernel_call_helper(kernel_name, call_args, device=device, **options)

    def generate_fallback_kernel(self, node):
        exported = node.export_extern_kernel_node()
        self.generate_fallback_kernel_with_runtime_lookup(
            node.get_name(),
            node.python_kernel_name,
            lambda: [*node.codegen_args(), *node.codegen_kwargs()],
            node.op_overload,
            exported,
            node.outputs or node.mutation_outputs,
        )

    def generate_c_shim_extern_kernel_call(self, kernel, args, device, **options):
        if device == "ocl" and not kernel.startswith("aoti_torch_"):
            raise NotImplementedError(f"ocl: a program in C++ that calls {kernel}")
        super().generate_c_shim_extern_kernel_call(kernel, args, device, **options)

    def generate_end(self, result):
        super().generate_end(result)
        if not V.graph.aot_mode:
            end_program(result)
