"""score_mod, mask_mod and their gradients as functions of single numbers in OpenCL C."""

import re

import sympy
import torch
from torch._inductor import ir
from torch._inductor.codegen.common import CSE, CSEVariable, IndentedBuffer
from torch._inductor.codegen.simd_kernel_features import SIMDKernelFeatures
from torch._inductor.virtualized import V, WrapperHandler
from torch.utils._sympy.value_ranges import ValueRanges

from ..codegen.kernel import OclKernel
from ..codegen.overrides import typed
from ..codegen.render import Renderer
from ..codegen.types import TYPES

_TARGET = re.compile(r"(tmp\d+) = ")
INDICES = ("b", "h", "m", "n")


class _Space:
    """The kernel's loops are in its template, not in Inductor's index spaces."""

    def __init__(self):
        self.ranges = {}

    def index(self, expr):
        return V.graph.sizevars.simplify(expr)


class FunctionRenderer(Renderer):
    """Expands marks at once, because each value is a single number."""

    width, vector, copy, index_type = 1, sympy.Symbol("no_vector"), "", "long"

    def __init__(self, kernel, shape):
        self.kernel, self.shape, self.space = kernel, shape, _Space()
        self.depends, self.aliases = {}, {}


class FunctionKernel(OclKernel):
    """Collects functions and the arguments that they share with the template's kernel."""

    def __init__(self, shape):
        super().__init__({"x": sympy.S.One}, features=SIMDKernelFeatures([], sympy.S.One))
        self.rendered = FunctionRenderer(self, shape)
        self.functions: list[str] = []

    def mark(self, mark) -> str:
        return self.rendered._mark(mark, False, None)

    def print(self, expr) -> str:
        return self.rendered.print(sympy.sympify(expr))

    def add_function(self, name, buffers, inputs: dict[str, torch.dtype], result) -> None:
        """Makes a function of the inputs.

        It returns the value of the only buffer in the type `result`; without a result, it adds to
        the gradients that the buffers are scattered to.
        """
        self.compute = IndentedBuffer()
        self.cse = CSE(self.newvar_prefix, self.suffix, name_prefix="tmp")
        self._loads.clear()
        fixed = {}
        for argument, dtype in inputs.items():
            known = ValueRanges(0, 2**31 - 1) if argument in INDICES else None
            fixed[argument] = self.create_cse_var(f"tmp_{argument}", known, dtype)
        returned = "void"
        with self, V.set_ops_handler(_Inputs(V.ops, fixed)):
            values = [_value(buffer) for buffer in buffers]
        lines = [self._declared(line) for line in self.compute.getvalue().splitlines()]
        if result is not None:
            lines.append(f"return {typed(values[0], result)};")
            returned = TYPES[result].value
        parameters = ", ".join(f"const {TYPES[v.dtype].value} {v}" for v in fixed.values())
        body = "\n".join(f"  {line}" for line in lines)
        head = f"static inline {returned} {name}(CAPTURED {parameters})"
        # A call's macro has the name in capitals.
        arguments = ", ".join(fixed)
        call = f"#define {name.upper()}({arguments}) {name}(PASS_CAPTURED {arguments})"
        self.functions.append(f"{head} {{\n{body}\n}}\n{call}")

    def _declared(self, line) -> str:
        found = _TARGET.match(line)
        kind = f"const {TYPES[self.types[found[1]]].value} " if found else ""
        return f"{kind}{line}" if line.endswith((";", "}")) else f"{kind}{line};"


class _Inputs(WrapperHandler):
    """Reads of the functions' inputs give their parameters."""

    def __init__(self, inner, fixed: dict[str, CSEVariable]):
        super().__init__(inner)
        self._fixed = fixed

    def load(self, name, index):
        return self._fixed[name] if name in self._fixed else super().load(name, index)


def _value(buffer):
    data = buffer.data
    if isinstance(data, ir.InputBuffer):
        return data.make_loader()(())
    if isinstance(data, ir.Scatter):
        stride = buffer.get_stride()

        def place(at):
            return sum((i * step for i, step in zip(at, stride)), sympy.S.Zero)

        return data.store_output(buffer.name, place, [])
    return data.inner_fn(())
