"""The rows of pointwise_table.h as cases: what to call, made from PyTorch's own schemas, so that a
new row is tested without a line here."""

import torch
from marks import read_marks
from support import ROOT

TABLE = ROOT / "kernels/pointwise/pointwise_table.h"
# Operators whose shapes are not element-wise; test_activation.py has them.
OTHER_SHAPES = {"glu", "glu_jvp", "addr"}

# Numbers for arguments without a default, by their names.
NUMBERS = {
    "min": -0.5,
    "max": 0.75,
    "min_val": -0.5,
    "max_val": 0.75,
    "weight": 0.25,
    "threshold": 0.125,
    "value": 20,
    "exponent": 3,
    "self": 2,
    "other": 2,
    "negative_slope": 0.01,
    "self_is_result": False,
    "rounding_mode": "trunc",
    "reduction": 0,  # none
    "alpha": 0.7,
    "scale": 1.25,
    "input_scale": 0.9,
    "is_result": False,
    "lambd": 0.5,
    "beta": 1.5,
    "delta": 0.75,
    "n": 2,
}


MARKS = list(read_marks(TABLE.read_text()))


def operators():
    """Names in the table: ["add", "div.Tensor", ...]"""
    names = [name for mark in MARKS if mark.kind == "POINTWISE" for name in mark.operators]
    return [n for n in names if n not in OTHER_SHAPES and not n.startswith("__i")]


def special_operators():
    """The operators of OCL_SPECIAL rows."""
    return [name for mark in MARKS if mark.kind == "SPECIAL" for name in mark.operators]


def complex_operators():
    """The operators() that have an expression for complex numbers."""
    names = {name for mark in MARKS if mark.takes_complex for name in mark.operators}
    return [name for name in operators() if name in names]


def is_tensor(argument):
    return str(argument.type) in ("Tensor", "Optional[Tensor]")


def is_written(argument):
    return argument.alias_info is not None and argument.alias_info.is_write


def signature(function, skip=()):
    return [(a.name, str(a.type)) for a in function._schema.arguments if a.name not in skip]


class Case:
    """One operator: its functional, in-place and out= forms, the last two None where missing."""

    def __init__(self, name):
        base, _, overload = name.partition(".")
        packet = getattr(torch.ops.aten, base)
        if not overload:
            overload = "Tensor" if "Tensor" in packet.overloads() else "default"
        self.name = name
        self.function = getattr(packet, overload)
        self.schema = self.function._schema
        self.in_place = self.out = self.out_name = None
        in_place = getattr(getattr(torch.ops.aten, f"{base}_", None), overload, None)
        if in_place and signature(in_place) == signature(self.function):
            self.in_place = in_place
        for other in (getattr(packet, each) for each in packet.overloads()):
            outs = [a.name for a in other._schema.arguments if is_written(a)]
            if outs and signature(other, skip=outs) == signature(self.function):
                self.out, self.out_name = other, outs[0]

    @property
    def inputs(self):
        """How many tensors the operator takes."""
        return sum(is_tensor(argument) for argument in self.schema.arguments)

    def arguments(self, tensors):
        """(positional, keyword) arguments of a call on these tensors."""
        tensors, positional, keyword = iter(tensors), [], {}
        for argument in self.schema.arguments:
            if is_tensor(argument):
                positional.append(next(tensors))
            elif argument.name in NUMBERS and (
                not argument.has_default_value()
                or argument.name in ("min", "max", "reduction", "beta", "delta")
            ):
                value = NUMBERS[argument.name]
                if argument.kwarg_only:
                    keyword[argument.name] = value
                else:
                    positional.append(value)
            elif not argument.has_default_value():
                raise NotImplementedError(f"{self.name}: a number for {argument.name} is missing")
            elif not argument.kwarg_only:
                positional.append(argument.default_value)
        return positional, keyword

    def call(self, tensors):
        positional, keyword = self.arguments(tensors)
        return self.function(*positional, **keyword)

    def call_in_place(self, tensors):
        positional, keyword = self.arguments(tensors)
        return self.in_place(*positional, **keyword)

    def call_out(self, tensors, out):
        positional, keyword = self.arguments(tensors)
        return self.out(*positional, **keyword, **{self.out_name: out})
