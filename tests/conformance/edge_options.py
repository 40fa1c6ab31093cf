"""Optional arguments that a sample leaves out: their names and values to try."""

import functools
import inspect
import itertools

import torch

DTYPES = (torch.float32, torch.float64, torch.int64, torch.bool, torch.complex64)
# Values by the type of the argument in the schema. Other types have no obvious values.
BY_TYPE = {
    "bool": (False, True),
    "Optional[bool]": (False, True),
    "int": (-1, 0, 1, 2),
    "Optional[int]": (-1, 0, 1),
    "float": (0.0, 0.5),
    "Optional[float]": (0.5,),
    "number": (2, 0.5, True),
    "Optional[number]": (2, 0.5),
    "List[int]": ((0,), (-1, 0)),
    "Optional[List[int]]": ((), (0,), (-1, 0)),
}
BY_NAME = {
    "dtype": DTYPES,
    "memory_format": (torch.channels_last, torch.contiguous_format),
    "reduction": ("none", "sum", "mean"),
    "rounding_mode": ("floor", "trunc"),
    "side": ("left", "right"),
    "indexing": ("xy", "ij"),
    "approximate": ("none", "tanh"),
    "norm": ("ortho", "forward", "backward"),
    "interpolation": ("lower", "nearest", "midpoint"),
    "padding_mode": ("zeros", "border", "reflection"),
    "mode": ("reflect", "circular", "bilinear", "nearest", "complete"),
    "dim": (0, -1),
}
# Arguments for results, and arguments that do not change numbers.
SKIPPED = {"out", "device", "layout", "pin_memory", "generator", "names", "requires_grad", "input"}


def values(name, kind, default):
    """The values to try for an optional argument, without its default."""
    found = BY_TYPE.get(kind, ()) or BY_NAME.get(name, ())
    if name == "dtype":
        found = DTYPES
    return [v for v in found if type(v) is not type(default) or v != default]


def kind_of(default):
    return "bool" if isinstance(default, bool) else type(default).__name__


def aten_name(name):
    parts = name.removeprefix("nn.functional.").split(".")
    return "_".join(parts)


@functools.cache
def signatures(name, op):
    """[(names of positional arguments, {optional argument: values})] of an operator's forms."""
    if inspect.isfunction(op):
        parameters = inspect.signature(op).parameters.values()
        if any(p.kind in (p.VAR_POSITIONAL, p.VAR_KEYWORD) for p in parameters):
            return []
        optional = {
            p.name: values(p.name, kind_of(p.default), p.default)
            for p in parameters
            if p.default is not p.empty and p.name not in SKIPPED
        }
        return [([p.name for p in parameters if p.kind != p.KEYWORD_ONLY], optional)]
    packet, found = getattr(torch.ops.aten, aten_name(name), None), []
    for overload in packet.overloads() if packet else ():
        schema = getattr(packet, overload)._schema
        if any(a.is_out for a in schema.arguments):
            continue
        optional = {
            a.name: values(a.name, str(a.type), a.default_value)
            for a in schema.arguments
            if a.has_default_value() and a.name not in SKIPPED
        }
        found.append(([a.name for a in schema.arguments if not a.kwarg_only], optional))
    return found


def pairs(name, op, args, kwargs):
    """Each optional argument that is not given, and each pair of them: as keyword arguments."""
    seen = set()
    for positional, optional in signatures(name, op):
        given = set(positional[: len(args)]) | set(kwargs)
        if len(args) > len(positional):
            continue
        left = [(n, v) for n, v in optional.items() if n not in given and v]
        for count in (1, 2):
            for chosen in itertools.combinations(left, count):
                names = [n for n, _ in chosen]
                for each in itertools.product(*(v for _, v in chosen)):
                    extra = dict(zip(names, each))
                    if (key := repr(sorted(extra.items(), key=str))) not in seen:
                        seen.add(key)
                        yield extra
