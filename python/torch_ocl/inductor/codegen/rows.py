"""Kernels that reduce along the vectorised loop, or along the loop of a work-group."""

import dataclasses
import re

import torch

from .reuse import RowValues
from .shape import IN_ORDER, Shape
from .types import value_type

EXPONENTIAL = re.compile(r"tmp\d+ = exp\(")
DIVISION = re.compile(r"tmp\d+ = QUOTIENT\((tmp\d+), (tmp\d+)\);")
SUMS = 4  # sets of accumulators, because an addition has a latency of about 4 cycles


class Rows(Shape):
    def units(self):
        return self._numel()

    def emit_unit(self, renderer, code):
        self._decode(renderer, code, self.space.outer[0].loops)
        loops, size = self.space.inner[0].loops, self.vector.size
        fixed = self.cpu and len(loops) == 1 and size.is_number
        self.row = RowValues(renderer, int(size) if fixed else None)
        self.inverted = set()
        exponentials = {
            statement.target
            for _, statements, _ in renderer.sections
            for statement in statements
            if EXPONENTIAL.match(statement.text)
        }
        self.sums = {
            str(reduction.results[0])
            for section, _, _ in renderer.sections
            for reduction in section.reductions
            if reduction.summand in exponentials and reduction.types == [torch.float32]
        }
        for name, variable in self.row.types.items():
            kind = value_type(renderer.kernel.types[variable])
            code.add(f"{kind} {name}[{-(-int(size) // self.width)}];")
        for section, statements, after in renderer.sections:
            if section.looped:
                self._accumulators(code, section.reductions)
                self._loops(renderer, code, statements, section.reductions)
                for reduction in section.reductions:
                    self._join(renderer, code, reduction)
            else:
                self._once(renderer, code, statements)
            self._once(renderer, code, after)

    def _once(self, renderer, code, statements):
        code.add(*(renderer.render(s, False, None) for s in statements))

    def _loops(self, renderer, code, statements, reductions):
        name, loops = self.vector.symbol, self.space.inner[0].loops
        inside = [s for s in statements if {name, None} & s.symbols]
        hoisted = [s for s in statements if s not in inside]
        inside = [self._without_division(s, code) for s in inside]
        code.add("{")
        self._inner_loops(renderer, code, loops[1:])
        code.add(*(renderer.render(s, False, None) for s in hoisted))

        def body(tail):
            live, place = "live" if tail else None, f"[({name} + WIDTH - 1) / WIDTH]"
            for s in inside:
                if kept := self.row.taken(s):
                    kind = value_type(renderer.kernel.types[s.target])
                    code.add(f"const {kind} {s.target} = {kept}{place};")
                else:
                    code.add(renderer.render(s, tail, live))
                if kept := self.row.kept(s):
                    code.add(f"{kept}{place} = {s.target};")

        start, end = "0", renderer.print(loops[0].size)
        if self._is_short(inside, reductions):
            self._several(renderer, code, reductions, end, body)
            start = "several"
        self.vectors(renderer, code, start, end, body)
        code.add(*["}"] * len(loops))

    def _without_division(self, statement, code):
        """Replaces a division by a sum of exponentials (softmax) by a product.

        The eager kernels do the same. Not if the sum's inverse would lose digits or be infinite.
        """
        found = DIVISION.fullmatch(statement.text)
        if not found or found[2] not in self.sums:
            return statement
        x, total = found.groups()
        if total not in self.inverted:
            self.inverted.add(total)
            code.add(
                f"const float§ inverse_{total} = 1 / {total};",
                f"const float one_{total} = LANE0({total});",
                f"const int usual_{total} = one_{total} > 0x1p-100f && one_{total} < 0x1p100f;",
            )
        quotient = f"usual_{total} ? {x} * inverse_{total} : QUOTIENT({x}, {total})"
        return dataclasses.replace(statement, text=f"{statement.target} = {quotient};")

    def _is_short(self, statements, reductions):
        """Whether a step is shorter than the latency of its sum, so several sums are faster."""
        size = self.vector.size
        enough = size.is_number and self.cpu and self.width > 1 and size >= 2 * SUMS * self.width
        simple = bool(reductions) and all(reduction.simple for reduction in reductions)
        return enough and simple and len(statements) <= 10

    def _several(self, renderer, code, reductions, end, body):
        name = self.vector.symbol
        copies = [f"_{n}" for n in range(1, SUMS)]
        for copy in copies:
            self._accumulators(code, reductions, copy)
        code.add(
            "INDEX several = 0;",
            IN_ORDER,
            f"for (; several + {SUMS} * WIDTH <= {end}; several += {SUMS} * WIDTH) {{",
        )
        for n, copy in enumerate(["", *copies]):
            renderer.copy = copy
            code.add("{", f"const INDEX {name} = several + {n} * WIDTH;")
            self._lanes(code, body, False)
            code.add("}")
        renderer.copy = ""
        code.add("}")
        for reduction in reductions:
            (kind,) = map(value_type, reduction.types)
            (first,) = reduction.accumulators()
            for copy in copies:
                (other,) = reduction.accumulators(copy)
                names = f"{kind} x0 = {first}; const {kind} y0 = {other};"
                code.add(f"{{ {names} {reduction.join} {first} = x0; }}")

    def _join(self, renderer, code, reduction):
        """Joins the lanes of a reduction to its results."""
        count = len(reduction.types)
        results = dict(zip(reduction.results, range(reduction.first_result, count)))
        if self.width == 1:
            lane = reduction.accumulators()
        else:
            lane = [f"lane{reduction.number}_{n}[0]" for n in range(count)]
            scalars = [value_type(dtype).removesuffix("§") for dtype in reduction.types]
            for n, (name, scalar) in enumerate(zip(reduction.accumulators(), scalars)):
                array = f"lane{reduction.number}_{n}"
                code.add(f"{scalar} {array}[WIDTH];", f"vstore§({name}, 0, {array});")
            half = self.width // 2
            while half:
                code.add("#pragma unroll", f"for (int l = 0; l < {half}; ++l) {{")
                for n, scalar in enumerate(scalars):
                    array = f"lane{reduction.number}_{n}"
                    code.add(f"{scalar} x{n} = {array}[l];")
                    code.add(f"const {scalar} y{n} = {array}[l + {half}];")
                code.add(reduction.join)
                code.add(*(f"lane{reduction.number}_{n}[l] = x{n};" for n in range(count)))
                code.add("}")
                half //= 2
        for result, n in results.items():
            kind = value_type(renderer.kernel.types[result.name])
            code.add(f"const {kind} {result} = ({kind})({lane[n]});")


class GroupRows(Rows):
    """A work-group for each row."""

    letter = "g"

    def __init__(self, space, vector, cpu):
        super().__init__(space, vector, cpu)
        self.letter = "g"

    def _own_unit(self):
        return "group_id(0)"

    def emit_unit(self, renderer, code):
        self.shared = set()  # arrays in local memory that are declared
        self.touched = set()  # memory that all work-items use
        for section, statements, after in renderer.sections:
            once = [s for s in after if s.target]
            once += statements if section.looped else [s for s in statements if s.target]
            self.touched.update(*map(renderer.memory, once))
        code.add("const int item = get_local_id(0);")
        super().emit_unit(renderer, code)

    def _once(self, renderer, code, statements):
        stores = [s for s in statements if s.target is None]
        super()._once(renderer, code, [s for s in statements if s.target])
        if stores:
            # Barriers before and after: other work-items may still read the old values, and read
            # the new ones later.
            replaces = self.touched & set().union(*map(renderer.memory, stores))
            barrier = ["barrier(CLK_GLOBAL_MEM_FENCE);"] if replaces else []
            lines = (renderer.render(s, False, None) for s in stores)
            code.add(*barrier, "if (item == 0) {", *lines, "}", *barrier)

    def vectors(self, renderer, code, begin, end, body):
        name = self.vector.symbol
        # Steps beyond the end may need more bits than an index.
        code.add(f"for (long at = item; at < {end}; at += get_local_size(0)) {{")
        code.add(f"const INDEX {name} = at;")
        self._lanes(code, body, False)
        code.add("}")

    def _join(self, renderer, code, reduction):
        count = len(reduction.types)
        scalars = [value_type(dtype).removesuffix("§") for dtype in reduction.types]
        # Reductions use the same arrays: local memory is small.
        names = [f"shared_{scalar}_{scalars[:n].count(scalar)}" for n, scalar in enumerate(scalars)]
        if self.shared & set(names):
            code.add("barrier(CLK_LOCAL_MEM_FENCE);")  # all have read the last result
        for name, scalar in zip(names, scalars):
            if name not in self.shared:
                code.add(f"__local {scalar} {name}[LOCAL_SIZE];")
        self.shared.update(names)
        code.add(*(f"{name}[item] = {own};" for name, own in zip(names, reduction.accumulators())))
        code.add(
            "barrier(CLK_LOCAL_MEM_FENCE);",
            "for (int step = get_local_size(0) / 2; step > 0; step /= 2) {",
            "if (item < step) {",
        )
        for n, (name, scalar) in enumerate(zip(names, scalars)):
            code.add(f"{scalar} x{n} = {name}[item];")
            code.add(f"const {scalar} y{n} = {name}[item + step];")
        code.add(reduction.join)
        code.add(*(f"{name}[item] = x{n};" for n, name in enumerate(names)))
        code.add("}", "barrier(CLK_LOCAL_MEM_FENCE);", "}")
        for result, n in zip(reduction.results, range(reduction.first_result, count)):
            kind = value_type(renderer.kernel.types[result.name])
            code.add(f"const {kind} {result} = {names[n]}[0];")
