"""Inductor's operations as OpenCL C. Helpers are in kernels/inductor/cl/inductor.clh."""

import torch
from torch._inductor.codegen.common import CSEVariable, OpOverrides
from torch._inductor.dtype_propagation import DtypePropagationOpsHandler
from torch._inductor.ops_handler import OP_NAMES
from torch._inductor.virtualized import OpsValue, V, ops

from .formulas import COMPARISONS, FORMULAS, LOGICAL, MATH, SPECIAL
from .types import TYPES, condition, convert, is_float, literal, value_type


def typed(x, dtype: torch.dtype) -> str:
    """Converts an argument of an operation to this type."""
    if isinstance(x, OpsValue):
        x = x.value
    if isinstance(x, CSEVariable):
        return convert(str(x), x.dtype, dtype)
    return literal(x, dtype)


def result_type(name: str, *args) -> torch.dtype:
    """The type that Inductor expects for the result of an operation."""
    return getattr(DtypePropagationOpsHandler(), name)(*args)


def common_type(*args) -> torch.dtype:
    """The type in which arguments are compared."""
    types = [x.dtype for x in args if isinstance(x, CSEVariable)]
    result = types[0]
    for dtype in types[1:]:
        result = torch.promote_types(result, dtype)
    if not is_float(result) and any(isinstance(x, float) for x in args):
        return torch.float32
    return result


class OclOverrides(OpOverrides):
    """Each method returns the text of an expression; formulas.py has most operations."""

    @staticmethod
    def to_dtype(x, dtype, src_dtype=None, use_compute_types=True):
        text = typed(x, dtype)
        if dtype in (torch.float16, torch.bfloat16) and src_dtype != dtype:
            return f"ROUNDED_{TYPES[dtype].code}({text})"  # rounds as the eager kernel does
        return text

    @staticmethod
    def indirect_indexing(variable, size, check=True, wrap_neg=True):
        return V.kernel.indirect_indexing(variable, size, check)

    @staticmethod
    def to_dtype_bitcast(x, dtype, src_dtype):
        small = (torch.float16, torch.bfloat16)
        if dtype in small or src_dtype in small or torch.bool in (dtype, src_dtype):
            raise NotImplementedError(f"ocl: kernels cannot read bits of {src_dtype} as {dtype}")
        return f"as_{value_type(dtype)}({typed(x, src_dtype)})"

    @staticmethod
    def randint64(seed, place, base, end):
        """The 32 random bits of an element (dropout.py), from counter `base` on.

        Inductor uses this operation for its own random numbers. On ocl, eager kernels draw these,
        so the operation is free for dropout.
        """
        return V.kernel.random_words(typed(seed, torch.int64), place, typed(base, torch.int64))

    @staticmethod
    def constant(value, dtype):
        return literal(value, dtype)

    @staticmethod
    def index_expr(expr, dtype):
        return V.kernel.index_value(expr, result_type("index_expr", expr, dtype))

    @staticmethod
    def value_expr(expr, dtype):
        return V.kernel.index_value(expr, result_type("value_expr", expr, dtype))

    @staticmethod
    def masked(mask, body, other):
        with V.kernel.mask_loads(mask, other) as new_mask:
            result = body()
        if isinstance(result, OpsValue):
            result = result.value
        if result.dtype == torch.bool:
            other = bool(other)
        return ops.where(new_mask, result, ops.constant(other, result.dtype)).value

    @staticmethod
    def where(mask, a, b):
        dtype = result_type("where", mask, a, b)
        mask = condition(typed(mask, torch.bool), dtype)
        return f"{mask} ? {typed(a, dtype)} : {typed(b, dtype)}"

    @staticmethod
    def pow(a, b):
        dtype = result_type("pow", a, b)
        if not is_float(dtype):
            a, b = (typed(x, torch.int64) for x in (a, b))
            power = V.kernel.lane_function("integer_power_of", "long", a, b)
            return convert(power, torch.int64, dtype)
        return V.kernel.math("POW", dtype, typed(a, dtype), typed(b, dtype))

    @staticmethod
    def fmod(a, b):
        return OclOverrides.mod(a, b)

    @staticmethod
    def mod(a, b):
        dtype = result_type("mod", a, b)
        if is_float(dtype):
            return V.kernel.math("FMOD", dtype, typed(a, dtype), typed(b, dtype))
        return f"{typed(a, dtype)} % {V.kernel.divisor(b, dtype)}"

    @staticmethod
    def truncdiv(a, b):
        dtype = result_type("truncdiv", a, b)
        x, y = typed(a, dtype), typed(b, dtype)
        if is_float(dtype):
            return f"trunc({_quotient(x, y, dtype)})"
        return _of_integers(f"{x} / {V.kernel.divisor(b, dtype)}", x, y, dtype)

    @staticmethod
    def floordiv(a, b):
        dtype = result_type("floordiv", a, b)
        x, y = typed(a, dtype), typed(b, dtype)
        if is_float(dtype):
            return f"floor({_quotient(x, y, dtype)})"
        divisor = V.kernel.divisor(b, dtype)
        if not dtype.is_signed:
            return f"{x} / {divisor}"
        return _of_integers(f"FLOOR_DIVIDE({x}, {divisor})", x, y, dtype)

    @staticmethod
    def truediv(a, b):
        dtype = result_type("truediv", a, b)
        return _quotient(typed(a, dtype), typed(b, dtype), dtype)

    @staticmethod
    def div_rn(a, b):
        """A quotient that is rounded down next must be that of the eager kernels (numbers.py)."""
        dtype = result_type("div_rn", a, b)
        return V.kernel.math("DIV_FLOOR", dtype, typed(a, dtype), typed(b, dtype))

    @staticmethod
    def int_truediv(a, b):
        return OclOverrides.truediv(a, b)

    @staticmethod
    def signbit(x):
        if is_float(x.dtype):
            return f"MASK(signbit({x}) != 0)"
        return f"MASK({x} < {literal(0, x.dtype)})" if x.dtype.is_signed else "FALSE_LANES"

    @staticmethod
    def sign(x):
        dtype = x.dtype
        one, minus, zero = (literal(n, dtype) for n in (1, -1, 0))
        if dtype == torch.bool:
            return str(x)
        return f"{x} > {zero} ? {one} : {x} < {zero} ? {minus} : {zero}"

    @staticmethod
    def abs(x):
        if is_float(x.dtype):
            return f"fabs({x})"
        if not x.dtype.is_signed or x.dtype == torch.bool:
            return str(x)
        return f"{x} < {literal(0, x.dtype)} ? -{x} : {x}"

    @staticmethod
    def minimum(a, b):
        return _extreme("minimum", "<", "min", "&", a, b)

    @staticmethod
    def maximum(a, b):
        return _extreme("maximum", ">", "max", "|", a, b)

    @staticmethod
    def relu(x):
        return "{0} < {1} ? {1} : {0}".format(x, literal(0, x.dtype))

    @staticmethod
    def bitwise_not(x):
        return f"!{x}" if x.dtype == torch.bool else f"~{x}"

    @staticmethod
    def bitwise_left_shift(a, b):
        return _shift("bitwise_left_shift", "<<", a, b)

    @staticmethod
    def bitwise_right_shift(a, b):
        return _shift("bitwise_right_shift", ">>", a, b)

    @staticmethod
    def frexp(x):
        V.kernel.headers.add("number")
        mantissa = V.kernel.lane_function("frexp_mantissa", "float", str(x))
        exponent = V.kernel.lane_function("frexp_exponent", "float", str(x), result="int")
        cse = V.kernel.cse
        return (
            cse.generate(V.kernel.compute, mantissa, dtype=x.dtype),
            cse.generate(V.kernel.compute, exponent, dtype=torch.int32),
        )

    @staticmethod
    def ldexp(x, n):
        dtype = result_type("ldexp", x, n)
        return f"ldexp({typed(x, dtype)}, {typed(n, torch.int32)})"

    @staticmethod
    def nextafter(a, b):
        dtype = result_type("nextafter", a, b)
        return f"nextafter({typed(a, dtype)}, {typed(b, dtype)})"


def _quotient(a, b, dtype) -> str:
    """Correctly rounded even if the device's division is not, because results may jump."""
    return f"QUOTIENT({a}, {b})" if dtype == torch.float32 else f"{a} / {b}"


def _of_integers(quotient, a, b, dtype) -> str:
    """The quotient by the original divisor; the given one has 1 instead of -1."""
    if not dtype.is_signed:
        return quotient
    return f"{b} == {literal(-1, dtype)} ? NEGATIVE({TYPES[dtype].value}, {a}) : {quotient}"


def _extreme(name, comparison, of_integers, of_masks, a, b):
    """The smaller or greater argument, or NaN if one is NaN."""
    dtype = result_type(name, a, b)
    a, b = typed(a, dtype), typed(b, dtype)
    if is_float(dtype):
        return f"(({a} != {a}) | ({a} {comparison} {b})) ? {a} : {b}"
    return f"{a} {of_masks} {b}" if dtype == torch.bool else f"{of_integers}({a}, {b})"


def _shift(name, operator, a, b):
    """A shift by any number; OpenCL uses only the last bits of the number."""
    dtype = result_type(name, a, b)
    a, b = typed(a, dtype), typed(b, dtype)
    last = 8 * dtype.itemsize - 1
    outside = f"(({b} < {literal(0, dtype)}) | ({b} > {literal(last, dtype)}))"
    if operator == ">>" and dtype.is_signed:
        return f"{a} >> ({outside} ? {literal(last, dtype)} : {b})"
    return f"{outside} ? {literal(0, dtype)} : {a} {operator} {b}"


def _formula(name, text):
    def operation(*args):
        dtype = result_type(name, *args)
        return text.format(*(typed(x, dtype) for x in args))

    return operation


def _comparison(name, text):
    def operation(a, b):
        dtype = common_type(a, b)
        if dtype == torch.bool and name not in ("eq", "ne"):
            dtype = torch.int32  # true lanes are -1, which must not compare as less than 0
        return text.format(typed(a, dtype), typed(b, dtype))

    return operation


def _logical(name, operator):
    def operation(a, b):
        return f"{typed(a, torch.bool)} {operator} {typed(b, torch.bool)}"

    return operation


def _math(name, macro):
    def operation(x):
        dtype = result_type(name, x)
        return V.kernel.math(macro, dtype, typed(x, dtype))

    return operation


def _special(name, row):
    def operation(*args):
        dtype = result_type(name, *args)
        return V.kernel.special_function(row, *(typed(x, dtype) for x in args))

    return operation


def _define(name, operation) -> None:
    operation.__name__ = name
    setattr(OclOverrides, name, staticmethod(operation))


for _name, _text in FORMULAS.items():
    _define(_name, _formula(_name, _text))
for _name, _text in COMPARISONS.items():
    _define(_name, _comparison(_name, _text))
for _name, _operator in LOGICAL.items():
    _define(_name, _logical(_name, _operator))
for _name, _macro in MATH.items():
    _define(_name, _math(_name, _macro))
for _name, _row in SPECIAL.items():
    _define(_name, _special(_name, _row))
_define("logical_not", lambda x: f"!{typed(x, torch.bool)}")
_define("isnan", lambda x: f"MASK({x} != {x})" if is_float(x.dtype) else "FALSE_LANES")
_define("isinf", lambda x: f"MASK(fabs({x}) == INFINITY)" if is_float(x.dtype) else "FALSE_LANES")

_BY_THE_KERNEL = {
    "load",
    "store",
    "store_reduction",
    "reduction",
    "indirect_indexing",
    "check_bounds",
}
_DECOMPOSED = {"identity", "remainder"} | {
    f"{kind}_to_int" for kind in ("trunc", "ceil", "floor", "round")
}
# Operations for float32 only: their functions use the compute type of the whole kernel.
OF_FLOAT32 = {*SPECIAL, "frexp"}
# The operations that kernels can be generated for.
SUPPORTED = (
    _BY_THE_KERNEL | _DECOMPOSED | {name for name in OP_NAMES if name in OclOverrides.__dict__}
)
