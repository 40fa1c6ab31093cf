"""Operations whose code depends only on their arguments; overrides.py has the others.

Most come from rows of kernels/pointwise/pointwise_table.h. Rows with helpers of math.clh are used
only if all operands are floats (MATH, SPECIAL), because the helpers work for the type COMPUTE, but
a generated kernel has values of several types.
"""

import re

from torch._inductor.ops_handler import OP_NAMES

from torch_ocl import _C

# The rows by the name of Inductor's operation.
ROWS = {row.name.removeprefix("special_"): row for row in _C.pointwise_rows()}
# Part of the key of Inductor's caches.
TEXTS = repr([(row.name, row.expression, row.header) for row in ROWS.values()])


def _text(name: str) -> str:
    """A row's expression with {0} and {1} for its inputs."""
    numbers = re.sub(r"\bC\((\d+)\)", r"\1", ROWS[name].expression)
    return re.sub(r"\b[ab]\b", lambda found: "{0}" if found[0] == "a" else "{1}", numbers)


def _serves_all_types(row) -> bool:
    """Whether the text uses no helper of math.clh and no further arguments of the stub."""
    return not row.header and not re.search(r"\b(?!C\b)[A-Z][A-Z_]*\b|\bs\d\b", row.expression)


# The text of operations. Their arguments are converted to the result's type first.
FORMULAS = {
    name: _text(name) for name, row in ROWS.items() if name in OP_NAMES and _serves_all_types(row)
} | {
    "lgamma": _text("lgamma"),  # its helper is for floats, and all of its arguments are floats
    # Inductor's names of Python's operators &, | and ^.
    "and_": _text("bitwise_and"),
    "or_": _text("bitwise_or"),
    "xor": _text("bitwise_xor"),
    # The table's rows also handle shifts by any number, which is not needed here.
    "lshift": "{0} << {1}",
    "rshift": "{0} >> {1}",
    # The table's rows have a factor alpha, which is not needed here.
    "add": "{0} + {1}",
    "sub": "{0} - {1}",
    # PyTorch has no stubs for these.
    "mul_rn": "PRODUCT({0}, {1})",
    "fma": "fma({0}, {1}, {2})",
    "square": "{0} * {0}",
}

# The table's rows give numbers, FLAG(a == b); generated kernels need masks.
COMPARISONS = {
    name: _text(name).replace("FLAG", "MASK") for name in ("eq", "ne", "lt", "gt", "le", "ge")
}
# Arguments are masks already; the table's rows would compare numbers with 0.
LOGICAL = {"logical_and": "&", "logical_or": "|", "logical_xor": "^"}

# Macros of kernels/core/cl/math.clh.
MATH = {name: ROWS[name].expression.partition("(")[0] for name in ("erf", "sin", "cos", "tan")}

# Functions of single numbers in kernels/pointwise/functions, by the table's row.
SPECIAL = {name: row for name, row in ROWS.items() if row.header and name in OP_NAMES} | {
    "gammainc": ROWS["igamma"],
    "gammaincc": ROWS["igammac"],
}
