"""The grammar of the OCL_* marks; registration.h and the *_table.h files explain them."""

import re
from typing import NamedTuple

_MARK = re.compile(r'OCL_(POINTWISE|SPECIAL|REDUCTION|STUB|SHARED|COMPLEX)\(\s*"([^"]+)"')
# The rest of an OCL_POINTWISE mark up to its second expression, which is for complex numbers.
_TWO_EXPRESSIONS = re.compile(r'\s*,\s*\w+,[\w\s|]+,\s*(?:"[^"]*"\s*)+,')
_FOREACH = re.compile(r"OCL_FOREACH(_UNARY)?\((\w+), (\w+)")
_OWN = re.compile(r'OCL_(STRUCTURED|NATIVE)\(\s*"([^"]+)",\s*(\w+)\)')


class Mark(NamedTuple):
    kind: str  # POINTWISE, SPECIAL, REDUCTION, STUB, SHARED, COMPLEX
    operators: list  # "add", "div.Tensor", "clamp.default"
    takes_complex: bool


def read_marks(text):
    """The marks of operators whose implementation PyTorch shares between backends."""
    for match in _MARK.finditer(text):
        kind = match[1]
        operators = [entry.strip() for entry in match[2].split(",")]
        two = kind == "POINTWISE" and _TWO_EXPRESSIONS.match(text, match.end())
        yield Mark(kind, operators, kind == "COMPLEX" or bool(two))


def read_own_marks(text):
    """The marks of our own implementations: [("STRUCTURED" or "NATIVE", operator, our name)]"""
    return _OWN.findall(text)


def read_foreach_marks(text):
    """The rows of foreach_table.h: [(whether it takes one list, operator, overload)]"""
    return [
        (bool(unary), operator, overload) for unary, operator, overload in _FOREACH.findall(text)
    ]
