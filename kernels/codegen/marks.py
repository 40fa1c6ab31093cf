"""The grammar of the OCL_* marks; registration.h and the *_table.h files explain them."""

import re
from typing import NamedTuple

_MARK = re.compile(r'OCL_(POINTWISE|SPECIAL|REDUCTION|STUB|SHARED|COMPLEX|FLOAT8)\(\s*"([^"]+)"')
# The rest of an OCL_POINTWISE mark up to its second expression, which is for complex numbers.
_TWO_EXPRESSIONS = re.compile(r'\s*,\s*\w+,[\w\s|]+,\s*(?:"[^"]*"\s*)+,')
_FOREACH = re.compile(r"OCL_FOREACH\((\w+), (\w+)")
_STUB = re.compile(r'OCL_POINTWISE\(\s*"(\w+)",\s*(\w+)')
_OWN = re.compile(r'OCL_(STRUCTURED|NATIVE)(_AS)?\(\s*"([^"]+)",\s*(\w+)[,)]')


class Mark(NamedTuple):
    kind: str  # POINTWISE, SPECIAL, REDUCTION, STUB, SHARED, COMPLEX, FLOAT8
    operators: list  # "add", "div.Tensor", "clamp.default"
    takes_complex: bool


class Own(NamedTuple):
    kind: str  # STRUCTURED, NATIVE
    needs_head: bool  # the mark has an expression instead of a function
    operator: str
    name: str  # ours


def read_marks(text):
    """The marks of operators whose implementation PyTorch shares between backends."""
    for match in _MARK.finditer(text):
        kind = match[1]
        operators = [entry.strip() for entry in match[2].split(",")]
        two = kind == "POINTWISE" and _TWO_EXPRESSIONS.match(text, match.end())
        yield Mark(kind, operators, kind == "COMPLEX" or bool(two))


def read_own_marks(text):
    """The marks of our own implementations: [Own]"""
    return [Own(kind, bool(is_call), *names) for kind, is_call, *names in _OWN.findall(text)]


def read_foreach_marks(text):
    """The rows of foreach_table.h: [(operator, overload)]"""
    return _FOREACH.findall(text)


def read_stubs(text):
    """The rows of pointwise_table.h that name one operator: [(operator, stub)]"""
    return _STUB.findall(text)
