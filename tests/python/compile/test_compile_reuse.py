"""The search for values that several loops over a row need."""

import functools
import re
import types

from torch_ocl.inductor.codegen.render import Renderer, Statement
from torch_ocl.inductor.codegen.reuse import RowValues


def test_values_are_found_again_in_linear_time():
    """The last value of each section has 2^200 uses of the first one."""
    steps = [f"tmp{i + 1} = exp(tmp{i} * tmp{i})" for i in range(200)]
    again = [re.sub(r"tmp([1-9]\d*)", r"tmp\g<1>0000", step) for step in steps]

    def section(texts):
        statements = [Statement(text, text.split(" = ")[0], {"x"}) for text in texts]
        return types.SimpleNamespace(looped=True), statements, []

    first, second = section(steps), section(again)
    renderer = types.SimpleNamespace(sections=[first, second], vector="x")
    renderer.canonical = functools.partial(Renderer.canonical, renderer)
    values = RowValues(renderer, 300)
    for early, late in zip(first[1], second[1]):
        assert values.kept(early) == values.taken(late) is not None
