"""Kernels that reduce across the vectorised loop."""

from .shape import MOST_LANES, Shape
from .types import value_type


class Columns(Shape):
    """Runs the reduction's loops for each vector, or passes over memory once for a block of them.

    In the second form a row's part of the block is read contiguously, and the block's accumulators
    are in an array that stays in the first level cache.
    """

    def __init__(self, space, vector, cpu, swept):
        super().__init__(space, vector, cpu)
        self.swept = swept and cpu
        self.block = 8 * MOST_LANES if self.swept else MOST_LANES

    def emit_unit(self, renderer, code):
        if not self.cpu:
            self._decode(renderer, code, self.space.outer[0].loops)
            return self._vector(renderer, code, False)
        self._declare_block(renderer, code)
        if self.swept:
            return self._sweep(renderer, code)
        self.vectors(
            renderer, code, "begin", "end", lambda tail: self._vector(renderer, code, tail)
        )

    def _vector(self, renderer, code, tail):
        for section, statements, after in renderer.sections:
            if not section.looped:
                code.add(*(renderer.render(s, tail, None) for s in statements))
                continue
            self._accumulators(code, section.reductions)
            loops = self.space.inner[0].loops
            symbols = {loop.symbol for loop in loops} | {None}
            inside = [s for s in statements if symbols & s.symbols]
            code.add(*(renderer.render(s, tail, None) for s in statements if s not in inside))
            self._inner_loops(renderer, code, loops)
            code.add(*(renderer.render(s, tail, None) for s in inside))
            code.add(*["}"] * len(loops))
            self._results(renderer, code, section, after, tail)

    def _results(self, renderer, code, section, after, tail):
        for reduction in section.reductions:
            names = reduction.accumulators()[reduction.first_result :]
            for result, name in zip(reduction.results, names):
                kind = value_type(renderer.kernel.types[result.name])
                code.add(f"const {kind} {result} = {name};")
        code.add(*(renderer.render(s, tail, None) for s in after))

    def _sweep(self, renderer, code):
        section, statements, after = renderer.sections[0]
        place = f"[({self.vector.symbol} - begin + WIDTH - 1) / WIDTH]"
        accumulators = [
            (name, value_type(dtype), start)
            for reduction in section.reductions
            for name, dtype, start in zip(
                reduction.accumulators(), reduction.types, reduction.start
            )
        ]
        for name, kind, _ in accumulators:
            code.add(f"{kind} block_{name}[{self.block} / WIDTH];")
        code.add(f"for (int v = 0; v < {self.block} / WIDTH; ++v) {{")
        code.add(*(f"block_{name}[v] = {start};" for name, _, start in accumulators))
        code.add("}")

        def load(constant):
            code.add(*(f"{constant}{k} {n} = block_{n}{place};" for n, k, _ in accumulators))

        def step(tail):
            load("")
            code.add(*(renderer.render(s, tail, None) for s in statements))
            code.add(*(f"block_{name}{place} = {name};" for name, _, _ in accumulators))

        def finish(tail):
            load("const ")
            self._results(renderer, code, section, after, tail)
            for _, others, _ in renderer.sections[1:]:
                code.add(*(renderer.render(s, tail, None) for s in others))

        loops = self.space.inner[0].loops
        self._inner_loops(renderer, code, loops)
        self.vectors(renderer, code, "begin", "end", step)
        code.add(*["}"] * len(loops))
        self.vectors(renderer, code, "begin", "end", finish)
