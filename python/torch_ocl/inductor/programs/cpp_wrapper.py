"""Generated C++ programs that call the kernels: cpp_wrapper=True, and AOTInductor's packages.

They include torch_ocl/program.h, which finds this library when they run. PyTorch's C functions for
operators (aoti_torch_<device>_mm) and its proxy executor support only its own devices. So programs
call eager kernels through torch_ocl, by the dispatcher.
"""

import sympy
import torch
from torch._inductor import ir
from torch._inductor.codegen.cpp_utils import cexpr
from torch._inductor.codegen.cpp_wrapper_cpu import CppWrapperCpu
from torch._inductor.custom_graph_pass import get_hash_for_files
from torch._inductor.virtualized import V
from torch.utils import _pytree as pytree

from ..lowering.eager import graph_has_ocl
from ..runtime import HEADERS, find_headers
from . import draws
from .wrapper import CallsKernels, end_program


def quieten() -> None:
    """Silences Inductor's warning about operators without a C function: no operator has one
    here."""

    def wanted(record):
        return not ("c-shim implementation" in str(record.msg) and graph_has_ocl())

    ir.log.addFilter(wanted)


def name_of_result(output) -> str | None:
    """The name; None for results that are not tensors, and for arguments that are changed."""
    # Since PyTorch 2.14, the node of a call with one result is also the node of the result.
    kinds = ir.MultiOutput, ir.FallbackKernel
    return output.get_name() if isinstance(output, kinds) else None


def _literal(text: str) -> str:
    """The text as a string literal of C++."""
    plain = {byte for byte in range(32, 127)} - set(b'"\\?')
    return '"' + "".join(chr(b) if b in plain else f"\\{b:03o}" for b in text.encode()) + '"'


class OclCppWrapper(CallsKernels, CppWrapperCpu):
    def __init__(self):
        self.device = "ocl"
        find_headers()
        super().__init__()

    @staticmethod
    def create(is_subgraph, subgraph_name, parent_wrapper, partition_signatures=None):
        draws.keep_order(V.graph)
        return OclCppWrapper()

    def write_header(self):
        if V.graph.aot_mode:
            self.add_device_include("ocl")  # before the CPU's, see program.h
        else:  # read from Inductor's cache, too
            self.header.writeline("from torch_ocl.inductor.runtime import find_headers")
            self.header.writeline("find_headers()")
        super().write_header()
        self.header.writeline(f"// compiled with headers {get_hash_for_files(HEADERS)!r}")

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

    def real_argument(self, number) -> str:
        return f"torch_ocl::Real{{{number}}}"

    def generate(self, is_inference):
        # torch_ocl_memcpy() gets an offset by the constant's number among all constants, so the
        # device's constants must come first.
        constants = V.graph.constants
        ordered = sorted(
            constants.items(),
            key=lambda item: (item[0] in V.graph.folded_constants, item[1].device.type != "ocl"),
        )
        constants.clear()
        constants.update(ordered)
        return super().generate(is_inference)

    def codegen_cuda_stream_enter(self, stream_idx):
        raise NotImplementedError("ocl: C++ programs cannot switch streams")

    # Calls of eager kernels.

    def generate_fallback_kernel(self, node):
        args, kwargs = node.unflatten_args(node.inputs, node.constant_args)
        itself = [node] if isinstance(node.layout, ir.Layout) else []
        self._call(node.op_overload, args, kwargs, node.outputs or itself)

    def generate_fallback_kernel_with_runtime_lookup(
        self, buf_name, python_kernel_name, get_args, op_overload, raw_args, outputs
    ):
        if not isinstance(op_overload, torch._ops.OpOverload):
            raise NotImplementedError(f"ocl: C++ programs cannot call {op_overload}")
        if V.graph.aot_mode:
            V.extern_kernel_nodes.pop()  # only the proxy executor needs it
        self._call(op_overload, raw_args, {}, outputs)

    def generate_extern_kernel_out(self, node):
        operator = node.op_overload
        if operator is None:
            raise NotImplementedError(f"ocl: C++ programs cannot call {node.get_kernel_name()}")
        node.codegen_comment(self)
        args = [*node.inputs, *node.constant_args]
        self._call(operator, args, {**node.kwargs, "out": node.output_view or node}, [])

    def _call(self, operator, args, kwargs, outputs):
        schema = operator._schema
        values = []
        for place, argument in enumerate(schema.arguments):
            if place < len(args):
                value = args[place]
            else:
                value = kwargs.get(argument.name, argument.default_value)
            values.append(self._value(value))
        results = [name_of_result(output) for output in pytree.tree_leaves(outputs)]
        for name in filter(None, results):
            self.writeline(f"RAIIAtenTensorHandle {name};")
        places = ", ".join(f"&{name}" if name else "nullptr" for name in results)
        called = f'called("{schema.name}", "{schema.overload_name}")'
        self.writelines(
            [
                "{",
                f"    static const torch_ocl::Operator {called};",
                f"    called({{{', '.join(values)}}}, {{{places}}});",
                "}",
            ]
        )

    def _value(self, value) -> str:
        """A torch_ocl::OclValue of C++."""
        if value is None:
            return "torch_ocl::none()"
        if isinstance(value, (list, tuple)):
            return f"torch_ocl::list({{{', '.join(map(self._value, value))}}})"
        if isinstance(value, ir.ShapeAsConstantBuffer):
            return f"torch_ocl::integer({value.codegen_reference()})"
        if isinstance(value, ir.IRNode):
            return f"torch_ocl::tensor({value.codegen_reference()})"
        if isinstance(value, (torch.SymInt, torch.SymFloat, torch.SymBool)):
            value = value.node.expr
        if isinstance(value, (bool, sympy.logic.boolalg.Boolean)):
            return f"torch_ocl::boolean({cexpr(sympy.sympify(value))})"
        if isinstance(value, int) or (isinstance(value, sympy.Expr) and value.is_integer):
            return f"torch_ocl::integer({cexpr(sympy.sympify(value))})"
        if isinstance(value, sympy.Expr):
            return f"torch_ocl::real({cexpr(value)})"
        if isinstance(value, float):
            return f"torch_ocl::real({self.generate_float_value(value)})"
        if isinstance(value, str) and "\0" not in value:
            return f"torch_ocl::text({_literal(value)})"
        if isinstance(value, torch.device):
            type, index = self.codegen_device(value).split(",")
            return f"torch_ocl::device({type}, {self._index(value, index)})"
        for kind, code in (
            (torch.dtype, self.codegen_dtype),
            (torch.layout, self.codegen_layout),
            (torch.memory_format, self.codegen_memory_format),
        ):
            if isinstance(value, kind):
                return f"torch_ocl::integer({code(value)})"
        raise NotImplementedError(f"ocl: C++ programs cannot pass arguments of {type(value)}")

    def _index(self, device, index) -> str:
        """The device's index at run time: a package may be loaded for another device."""
        return "this->device_idx_" if V.graph.aot_mode and device.type == "ocl" else index

    def generate_end(self, result):
        super().generate_end(result)
        if not V.graph.aot_mode:
            end_program(result)
