"""Collects the loads, computations and stores of a generated kernel from Inductor's nodes.

Lines have marks (@3@) instead of loads, stores and indices, because the loops, and which of them is
vectorised, are known only after all nodes were collected (loops.py, render.py).
"""

import contextlib
import dataclasses
import functools

import sympy
import torch
from torch._inductor.codegen.common import CSEVariable, DeferredLine, IndentedBuffer
from torch._inductor.codegen.simd import SIMDKernel
from torch._inductor.utils import upcast_compute_type
from torch._inductor.virtualized import V
from torch.utils._sympy.value_ranges import ValueRanges

from ..device_interface import has_fp64
from . import reductions
from .overrides import OclOverrides, typed
from .types import TYPES, convert, literal


@dataclasses.dataclass
class Mark:
    """A place in a line: a load, a store, an index, a real number or the step of a reduction."""

    kind: str
    index: sympy.Expr = sympy.S.Zero
    argument: str = ""
    dtype: torch.dtype | None = None
    value: str = ""
    mask: str | None = None
    bound: sympy.Expr | None = None
    reduction: reductions.Reduction | None = None


@dataclasses.dataclass
class Section:
    """Lines inside of the reduction's loops (or all lines, if there is none), and lines after
    them."""

    looped: bool
    lines: IndentedBuffer
    after: IndentedBuffer
    reductions: list


class OclKernel(SIMDKernel):
    overrides = OclOverrides
    suffix = ";"
    newvar_prefix = ""

    def __init__(self, tiling, **options):
        self.types: dict[str, torch.dtype] = {}
        self.outside = set()
        super().__init__(tiling, **options)
        self.marks: list[Mark] = []
        self.sections: list[Section] = []
        self.headers: set[str] = set()
        self.special_rows: dict[str, str] = {}  # expressions
        self.lane_functions: dict[str, tuple] = {}
        self.checks_indices = self.checks_divisors = False
        self.adds = False  # whether it adds atomically
        self.draws: list[str] = []
        self._loads: dict[tuple, str] = {}
        self._indices: dict[str, sympy.Expr] = {}
        self._reductions: list = []
        self._after = IndentedBuffer()

    def kexpr(self, expr):
        raise AssertionError("indices are printed by render.py")

    def dtype_to_str(self, dtype):
        return TYPES[dtype].value

    def create_cse_var(self, name, bounds=None, dtype=None, shape=None):
        variable = CSEVariable(name, bounds or ValueRanges.unknown(), dtype, None)
        self.types[name] = dtype
        if self.features.is_reduction() and not self.inside_reduction:
            self.outside.add(variable)
        return variable

    def mark(self, mark: Mark) -> str:
        self.marks.append(mark)
        return f"@{len(self.marks) - 1}@"

    # Loads, stores and indices.

    def load(self, name, index):
        index = self.prepare_indexing(index)
        dtype = V.graph.get_dtype(name)
        mask = str(self._load_mask) if self._load_mask is not None else None
        key = name, index, mask
        if key not in self._loads:
            argument = self.args.input(name)
            self._loads[key] = self.mark(Mark("load", index, argument, dtype, mask=mask))
        dtype = upcast_compute_type(dtype)
        return self.cse.generate(self.compute, self._loads[key], dtype=dtype)

    indirect_load = load

    def store(self, name, index, value, mode=None):
        assert mode in (None, "atomic_add"), mode
        lines = self._after if self._storing_reduction else self.compute
        index = self.prepare_indexing(index)
        dtype = V.graph.get_dtype(name)
        self.adds |= mode is not None
        kind = "store" if mode is None else "add"
        mark = Mark(kind, index, self.args.output(name), dtype, typed(value, dtype))
        lines.writeline(DeferredLine(name, self.mark(mark)))

    _storing_reduction = False

    def store_reduction(self, name, index, value):
        self._storing_reduction = self.inside_reduction
        self.inside_reduction = False
        try:
            self.store(name, index, value)
        finally:
            self.inside_reduction, self._storing_reduction = self._storing_reduction, False

    @functools.cached_property
    def real_type(self) -> torch.dtype:
        """Numbers that are computed from sizes."""
        device = V.graph.get_current_device_or_throw()
        return torch.float64 if has_fp64(device) else torch.float32

    def index_value(self, expr, dtype) -> str:
        expr = self.prepare_indexing(expr)
        if dtype.is_floating_point and not expr.is_integer:  # computed from sizes
            return convert(self.mark(Mark("real", expr)), self.real_type, dtype)
        text = convert(self.mark(Mark("index", expr)), torch.int64, dtype)
        self._indices[text] = expr
        return text

    def indirect_indexing(self, variable, size, check):
        """The symbol for an index that the kernel reads. An index out of bounds is reported as a
        fault."""
        bounds = variable.bounds
        inside = bounds.lower >= 0 and isinstance(size, sympy.Number) and bounds.upper < size
        if check and not inside:
            self.checks_indices = True
            mask = str(self._load_mask) if self._load_mask is not None else None
            mark = Mark("check", value=typed(variable, torch.int64), mask=mask)
            mark.bound = self.rename_indexing(size)
            variable = self.cse.generate(self.compute, self.mark(mark), dtype=torch.int64)
        return sympy.Symbol(str(variable), integer=True, nonnegative=True)

    def divisor(self, value, dtype) -> str:
        """The divisor of integers, replaced by 1 if it is 0 or -1.

        To divide by 0, or the smallest integer by -1, is undefined, and some CPUs would stop the
        process. A zero is reported as a fault, as the eager kernels do.
        """
        text = typed(value, dtype)
        is_zero = f"({text} == {literal(0, dtype)})"
        bounds = getattr(value, "bounds", None)
        if not bounds or not (bounds.lower > 0 or bounds.upper < 0):
            self.checks_divisors = True
            mask = str(self._load_mask) if self._load_mask is not None else None
            mark = self.mark(Mark("zero", value=f"MASK{is_zero}", mask=mask))
            self.cse.generate(self.compute, mark, dtype=torch.bool)
        if dtype.is_signed:
            is_zero = f"({is_zero} | ({text} == {literal(-1, dtype)}))"
        return f"({is_zero} ? {literal(1, dtype)} : {text})"

    def check_bounds(self, expr, size, lower, upper):
        pass  # indirect_indexing() checks all indices that constant_indices.py leaves

    def device_assert_async(self, cond, msg):
        pass

    # Functions.

    def math(self, macro, dtype, *args) -> str:
        """A macro of math.clh, which works for one type, or OpenCL's function (for doubles)."""
        if dtype == torch.float32:
            return f"{macro}({', '.join(args)})"
        function = macro.lower()
        return self.lane_function(function, TYPES[dtype].value, *args)

    def lane_function(self, function, scalar, *args, result=None) -> str:
        """A call of a function of single numbers, for each lane."""
        name = f"each_{function}_{scalar}"
        self.lane_functions[name] = (function, scalar, result or scalar, len(args))
        return f"{name}({', '.join(args)})"

    def special_function(self, row, *args) -> str:
        """A row of the table whose function takes single numbers, for each lane."""
        self.headers.add(row.header)
        function = f"row_{row.name}"
        self.special_rows[function] = row.expression
        return self.lane_function(function, "float", *args)

    def random_words(self, seed, place, base) -> str:
        known = (expr for text, expr in self._indices.items() if self.cse.try_get(text) is place)
        index = next(known, sympy.S.Zero)  # a single element has a constant index
        self.draws.append(f"drawn{len(self.draws)}")
        return self.mark(Mark("draw", index, self.draws[-1], value=f"{seed}, {base}"))

    # Reductions.

    def reduction(self, dtype, src_dtype, reduction_type, value):
        key = src_dtype, reduction_type, value
        if key not in self.cse.reduction_cache:
            self.cse.reduction_cache[key] = self._reduction(src_dtype, reduction_type, value)
        return self.cse.reduction_cache[key]

    def _reduction(self, src_dtype, reduction_type, value):
        assert self.inside_reduction and self._load_mask is None
        values = value if isinstance(value, tuple) else (value,)
        number = len(self._reductions) + sum(len(s.reductions) for s in self.sections)
        reduction = reductions.make(number, reduction_type, src_dtype, values)
        self.inside_reduction = False  # the results are used outside of the loops
        try:
            reduction.results = [self.cse.newvar(dtype=dtype) for dtype in reduction.result_types]
        finally:
            self.inside_reduction = True
        self._reductions.append(reduction)
        mark = Mark("reduce", reduction=reduction)
        if reduction.needs_index:
            tree = next(tree for tree in self.range_trees if tree.is_reduction)
            mark.index = tree.full_range().symbol()
        self.compute.writeline(self.mark(mark))
        results = tuple(reduction.results)
        return results if len(results) > 1 else results[0]

    def codegen_body(self):
        """Ends a section; called by disable_reduction() and at the end."""
        lines = self.compute
        if lines._lines or self._reductions or self._after._lines:
            looped = self.inside_reduction
            self.sections.append(Section(looped, lines, self._after, self._reductions))
        self.compute, self._after, self._reductions = IndentedBuffer(), IndentedBuffer(), []
        if self.features.is_reduction():
            self.cse.invalidate(self.outside)

    def disable_reduction(self):
        if self.features.is_reduction():
            return super().disable_reduction()
        return contextlib.nullcontext()

    def codegen_kernel(self, name=None):
        from .render import Renderer

        self.codegen_body()
        self.rendered = Renderer(self)
        return self.rendered.source()

    # The code of the kernel's call.

    def call_kernel(self, name, node=None, deallocate_ws=True):
        wrapper = V.graph.wrapper_code
        arguments = [
            wrapper.real_argument(call) if letter in "ds" else str(call)
            for (_, call), letter in zip(self.rendered.arguments, self.rendered.signature)
        ]
        for size in self.args.sizevars:
            wrapper.ensure_size_computed(size)
        sizes = [wrapper.codegen_sizevar(size) for size in self.rendered.launch]
        wrapper.generate_kernel_call(
            name,
            [*arguments, *sizes],
            device=V.graph.get_current_device_or_throw(),
            triton=False,
        )
