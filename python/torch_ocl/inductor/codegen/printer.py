"""Index expressions as OpenCL C."""

import sympy
from sympy.printing.precedence import PRECEDENCE
from torch.utils._sympy.printers import ExprPrinter


class OclPrinter(ExprPrinter):
    """Prints with the operators and macros of kernels/inductor/cl/inductor.clh.

    Integers have type `index`. With `vector`, some symbols are vectors of long; so is the result.
    """

    def __init__(self, vector: bool, index: str, real: str):
        super().__init__()
        self.index, self.real = ("long§", f"{real}§") if vector else (index, real)

    def _cast(self, expr) -> str:
        return f"({self.index})({self._print(expr)})"

    def _convert(self, text) -> str:
        """Converts another type to indices."""
        return f"convert_{self.index}({text})" if "§" in self.index else f"({self.index})({text})"

    def _factor(self, expr) -> str:
        return self.parenthesize(expr, PRECEDENCE["Atom"] - 0.5)

    def _print_Integer(self, expr):
        value = int(expr)
        if value == -(2**63):
            return "(-9223372036854775807L - 1)"
        return str(value) if abs(value) < 2**31 else f"{value}L"

    def _print_FloorDiv(self, expr):
        x, divisor = expr.args
        if x.is_nonnegative and divisor.is_positive:
            return f"({self._factor(x)} / {self._factor(divisor)})"
        name = "FLOOR_DIVIDE" if "§" in self.index else "FLOOR_DIVIDE_ONE"
        return f"{name}({self._cast(x)}, {self._cast(divisor)})"

    def _print_ModularIndexing(self, expr):
        x, divisor, modulus = expr.args
        quotient = self._factor(x)
        if divisor != 1:
            quotient = f"({quotient} / {self._factor(divisor)})"
        return f"({quotient} % {self._factor(modulus)})"

    def _print_Mod(self, expr):
        x, modulus = expr.args
        return f"({self._factor(x)} % {self._factor(modulus)})"

    def _print_PythonMod(self, expr):
        x, modulus = expr.args
        if x.is_nonnegative and modulus.is_positive:
            return f"({self._factor(x)} % {self._factor(modulus)})"
        return f"FLOOR_MODULUS({self._cast(x)}, {self._cast(modulus)})"

    @staticmethod
    def _are_whole(args) -> bool:
        return all(arg.is_integer for arg in args)

    def _together(self, *args) -> list[str]:
        """Indices if all arguments are integers, else floating-point numbers."""
        whole = self._are_whole(args)
        if not whole and "§" in self.index:
            raise NotImplementedError(f"an index of real numbers: {args}")
        return [self._cast(arg) if whole else self._float(arg) for arg in args]

    def _fold(self, function, expr) -> str:
        first, *others = self._together(*expr.args)
        name = function if self._are_whole(expr.args) else f"f{function}"
        for other in others:
            first = f"{name}({first}, {other})"
        return first

    def _print_Min(self, expr):
        return self._fold("min", expr)

    def _print_Max(self, expr):
        return self._fold("max", expr)

    def _print_Abs(self, expr):
        if not expr.args[0].is_integer:
            return f"fabs({self._float(expr.args[0])})"
        return self._convert(f"abs({self._cast(expr.args[0])})")

    def _print_Where(self, expr):
        condition, yes, no = expr.args
        yes, no = self._together(yes, no)
        return f"(({self._print(condition)}) ? {yes} : {no})"

    def _print_And(self, expr):
        return "(" + " & ".join(f"({self._print(arg)})" for arg in expr.args) + ")"

    def _print_Or(self, expr):
        return "(" + " | ".join(f"({self._print(arg)})" for arg in expr.args) + ")"

    def _print_Not(self, expr):
        return f"!({self._print(expr.args[0])})"

    def _print_Relational(self, expr):
        left, right = self._together(*expr.args)
        return f"({left} {expr.rel_op} {right})"

    def _print_PowByNatural(self, expr):
        base, exponent = expr.args
        if not exponent.is_Integer:
            if "§" in self.index:
                raise NotImplementedError(f"the index {expr}")
            return f"integer_power_of({self._cast(base)}, {self._cast(exponent)})"
        return "(" + " * ".join([self._factor(base)] * int(exponent)) + ")" if exponent else "1"

    # Sizes that need floating-point arithmetic.

    def _float(self, expr) -> str:
        if expr.is_integer:
            return f"convert_{self.real}({self._cast(expr)})"
        return f"({self.real})({self._print(expr)})"

    def _print_ToFloat(self, expr):
        return self._float(expr.args[0])

    def _print_IntTrueDiv(self, expr):
        return f"({self._float(expr.args[0])} / {self._float(expr.args[1])})"

    _print_FloatTrueDiv = _print_IntTrueDiv

    def _print_FloatPow(self, expr):
        return f"pow({self._float(expr.args[0])}, {self._float(expr.args[1])})"

    def _print_OpaqueUnaryFn_sqrt(self, expr):
        return f"sqrt({self._float(expr.args[0])})"

    def _to_integer(self, function, expr) -> str:
        return self._convert(f"{function}({self._float(expr.args[0])})")

    def _print_TruncToInt(self, expr):
        return self._to_integer("trunc", expr)

    def _print_FloorToInt(self, expr):
        return self._to_integer("floor", expr)

    def _print_CeilToInt(self, expr):
        return self._to_integer("ceil", expr)

    def _print_RoundToInt(self, expr):
        return self._to_integer("rint", expr)

    def _print_RoundDecimal(self, expr):
        number, digits = expr.args
        ten = self._print(sympy.Float(10.0 ** int(digits)))
        return f"(rint({self._float(number)} * {ten}) / {ten})"

    _print_floor = _print_FloorToInt
    _print_ceiling = _print_CeilToInt

    def _print_Float(self, expr):
        if expr == int(expr) and abs(expr) < 2**31:  # because a product of integers may overflow
            return str(int(expr))
        suffix = "f" if self.real.startswith("float") else ""
        return str(sympy.Float(expr, dps=17)) + suffix

    def _print_Infinity(self, expr):
        return "LONG_MAX"

    def _print_NegativeInfinity(self, expr):
        return "(-LONG_MAX)"
