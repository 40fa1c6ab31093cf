"""The code of reductions: the step of a lane, and the join of lanes or work-items."""

import dataclasses
from collections.abc import Callable

import torch
from torch._inductor.utils import upcast_compute_type

from .overrides import typed
from .types import condition, is_float, literal, value_type


@dataclasses.dataclass
class Reduction:
    """The accumulators are acc<number>_0, acc<number>_1, ...; § is the number of lanes."""

    number: int
    types: list[torch.dtype]  # types of the accumulators
    start: list[str]
    # The statement that adds a value in the lanes of a mask (None: all), at the given index.
    step: Callable[[list[str], str | None, str], str]
    # The statement that joins the single numbers y0, y1, ... into x0, x1, ...
    join: str
    # A result for each accumulator from number first_result on.
    results: list = dataclasses.field(default_factory=list)
    first_result: int = 0
    needs_index: bool = False
    simple: bool = False  # `join` also works on vectors
    summand: str = ""  # the variable that a sum adds

    @property
    def result_types(self):
        return self.types[self.first_result :]

    def accumulators(self, copy: str = "") -> list[str]:
        return [f"acc{self.number}_{n}{copy}" for n in range(len(self.types))]


def make(number, kind, src_dtype, values) -> Reduction:
    source = upcast_compute_type(src_dtype)
    if kind in ("argmax", "argmin"):
        return _argument(number, kind, source, values)
    if kind in ("welford_reduce", "welford_combine"):
        return _welford(number, kind, source, values)
    if kind not in _SIMPLE:
        raise NotImplementedError(f"ocl: a reduction by {kind}")
    dtype = torch.bool if kind == "any" else source
    first, formula = _SIMPLE[kind](dtype)
    value, start = typed(values[0], dtype), literal(first, dtype)

    def step(accumulators, live, index):
        taken = f"{condition(live, dtype)} ? {value} : {start}" if live else value
        joined = formula.format(accumulators[0], "value")
        return f"{{ const {value_type(dtype)} value = {taken}; {accumulators[0]} = {joined}; }}"

    join = f"x0 = {formula.format('x0', 'y0')};"
    summand = value if kind == "sum" else ""
    return Reduction(number, [dtype], [start], step, join, simple=True, summand=summand)


def _limits(dtype):
    if is_float(dtype):
        return float("-inf"), float("inf")
    if dtype == torch.bool:
        return False, True
    info = torch.iinfo(dtype)
    return info.min, info.max


def _extreme(comparison, function, mask_operator, which):
    def build(dtype):
        start = _limits(dtype)[which]
        if is_float(dtype):  # a NaN wins
            return start, f"(({{1}} != {{1}}) | ({{1}} {comparison} {{0}})) ? {{1}} : {{0}}"
        if dtype == torch.bool:
            return start, f"{{0}} {mask_operator} {{1}}"
        return start, f"{function}({{0}}, {{1}})"

    return build


_SIMPLE = {
    "sum": lambda dtype: (0, "{0} + {1}"),
    "prod": lambda dtype: (1, "{0} * {1}"),
    "xor_sum": lambda dtype: (0, "{0} ^ {1}"),
    "any": lambda dtype: (False, "{0} | {1}"),
    "max": _extreme(">", "max", "|", 0),
    "min": _extreme("<", "min", "&", 1),
}


def _argument(number, kind, dtype, values):
    """The index of the first greatest or smallest element, or of the first NaN."""
    comparison = ">" if kind == "argmax" else "<"
    if dtype == torch.bool:
        dtype = torch.int32
    value = typed(values[0], dtype)
    mask = {1: "char§", 2: "short§", 4: "int§", 8: "long§"}[dtype.itemsize]

    def better(x, y):
        text = f"({x} {comparison} {y})"
        return f"({text} | (({x} != {x}) & ({y} == {y})))" if is_float(dtype) else text

    def step(accumulators, live, index):
        best, at = accumulators
        if len(values) > 1:
            index = typed(values[1], torch.int64)
        lanes = f"({condition(live, dtype)}) & " if live else ""
        return (
            f"{{ const {value_type(dtype)} value = {value}; const long§ index = {index}; "
            f"const {mask} take = {lanes}"
            f"({better('value', best)} | convert_{mask}({at} == LONG_MAX)); "
            f"{best} = take ? value : {best}; {at} = convert_long§(take) ? index : {at}; }}"
        )

    join = (
        f"if (y1 != LONG_MAX && (x1 == LONG_MAX || {better('y0', 'x0')} || "
        f"(!{better('x0', 'y0')} && y1 < x1))) {{ x0 = y0; x1 = y1; }}"
    )
    start = [literal(_limits(dtype)[kind == "argmin"], dtype), "(long§)(LONG_MAX)"]
    types = [dtype, torch.int64]
    return Reduction(number, types, start, step, join, first_result=1, needs_index=True)


def _welford(number, kind, dtype, values):
    """Mean, sum of squared deviations and count (Chan, Golub, LeVeque 1979)."""
    lanes, zero = value_type(dtype), literal(0, dtype)
    if kind == "welford_reduce":
        mean, m2, count = typed(values[0], dtype), zero, literal(1, dtype)
    else:
        mean, m2, count = (typed(value, dtype) for value in values)
    formula = (
        "const {type} total = {x2} + {y2}, share = total != {zero} ? {y2} / total : {zero}, "
        "delta = {y0} - {x0}; {x1} += {y1} + delta * delta * {x2} * share; "
        "{x0} += delta * share; {x2} = total;"
    )

    def step(accumulators, live, index):
        def taken(text):
            return f"{condition(live, dtype)} ? {text} : {zero}" if live else text

        x0, x1, x2 = accumulators
        body = formula.format(type=lanes, zero=zero, x0=x0, x1=x1, x2=x2, y0="y0", y1="y1", y2="y2")
        names = f"y0 = {taken(mean)}, y1 = {taken(m2)}, y2 = {taken(count)}"
        return f"{{ const {lanes} {names}; {body} }}"

    names = {name: name for name in ("x0", "x1", "x2", "y0", "y1", "y2")}
    join = "{ " + formula.format(type=lanes.removesuffix("§"), zero="0", **names) + " }"
    return Reduction(number, [dtype] * 3, [zero] * 3, step, join)


SUPPORTED = {*_SIMPLE, "argmax", "argmin", "welford_reduce", "welford_combine"}
