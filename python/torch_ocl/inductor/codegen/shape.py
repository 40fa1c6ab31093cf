"""The vectorised loop of a kernel, and the loops around its statements."""

from torch._inductor.utils import ceildiv, sympy_product
from torch._inductor.virtualized import V

from .loops import hint
from .types import value_type

MOST_LANES = 16
LARGE = 1 << 23  # elements
# Drivers unroll shorter rows completely and reorder the loads, so that prefetchers miss the
# pattern.
IN_ORDER = "#pragma unroll 1"


class Shape:
    letter = "t"  # shapes of generated_kernel.h
    local = 128  # work-items of a group on a GPU
    block = 4096  # iterations of the vectorised loop that a task takes at a time

    def __init__(self, space, vector, cpu):
        self.space, self.vector, self.cpu = space, vector, cpu
        self.width = 1
        while cpu and self.width < MOST_LANES and 2 * self.width <= hint(vector.size):
            self.width *= 2
        if not cpu:
            self.letter = "i"

    def _numel(self):
        return self.space.outer[0].tree.numel

    def cost(self):
        inner = [nest.tree.numel for nest in self.space.inner]
        return sympy_product([self._numel(), *inner])

    def units(self):
        if not self.cpu:
            return self._numel()
        loops = self.space.outer[0].loops[1:]
        return sympy_product([loop.size for loop in loops]) * ceildiv(self.vector.size, self.block)

    def exceeds_caches(self, index) -> bool:
        """Whether the result at this index is so large that stores should bypass the caches."""
        return False

    # Code.

    def emit(self, renderer, code):
        if self.cpu:
            code.add(
                "const long first = units * get_global_id(0) / get_global_size(0);",
                "const long last = units * (get_global_id(0) + 1) / get_global_size(0);",
                "for (long unit = first; unit < last; ++unit) {",
            )
        else:
            own = self._own_unit()
            code.add(f"if ({own} >= units) return;", f"const INDEX unit = {own};")
        self.emit_unit(renderer, code)
        if self.cpu:
            code.add("}")

    def _own_unit(self):
        return "get_global_id(0)"

    def _decode(self, renderer, code, loops, unit="unit"):
        """Declares the loops' variables from the number of a unit, the first loop fastest."""
        for n, loop in enumerate(loops):
            before = sympy_product([other.size for other in loops[:n]])
            text = unit if n == 0 else f"{unit} / ({renderer.print(before)})"
            if n < len(loops) - 1:
                text += f" % ({renderer.print(loop.size)})"
            code.add(f"const INDEX {loop.symbol} = {text};")

    def _declare_block(self, renderer, code):
        """Declares the beginning and end of the unit's block of the vectorised loop."""
        outer, size = self.space.outer[0].loops[1:], self.vector.size
        blocks = ceildiv(size, self.block)
        if blocks == 1:
            self._decode(renderer, code, outer)
            code.add("const INDEX begin = 0;", f"const INDEX end = {renderer.print(size)};")
        else:
            block = f"unit % ({renderer.print(blocks)})" if outer else "unit"
            if outer:
                code.add(f"const INDEX row = unit / ({renderer.print(blocks)});")
                self._decode(renderer, code, outer, "row")
            code.add(
                f"const INDEX begin = {block} * {self.block};",
                f"const INDEX end = min(begin + {self.block}, (INDEX)({renderer.print(size)}));",
            )

    def _inner_loops(self, renderer, code, loops):
        """Opens plain loops, the last of `loops` outermost."""
        for loop in reversed(loops):
            name = loop.symbol
            code.add(f"for (INDEX {name} = 0; {name} < {renderer.print(loop.size)}; ++{name}) {{")

    def vectors(self, renderer, code, begin, end, body):
        name, width = self.vector.symbol, self.width
        if width == 1:
            code.add(f"for (INDEX {name} = {begin}; {name} < {end}; ++{name}) {{")
            self._lanes(code, body, False)
            code.add("}")
            return
        code.add(
            f"INDEX {name} = {begin};",
            IN_ORDER,
            f"for (; {name} + WIDTH <= {end}; {name} += WIDTH) {{",
        )
        self._lanes(code, body, False)
        code.add("}")
        if not V.graph.sizevars.statically_known_multiple_of(self.vector.size, width):
            self._rest(code, end, body)

    def _rest(self, code, end, body):
        """The tail after the last whole vector: a vector that ends with the last element.

        Its first lanes overlap the vector before: they are computed again, but neither stored nor
        reduced. If there are fewer elements than lanes (known only at run time), it repeats the
        last element.
        """
        name = self.vector.symbol
        code.add(f"if ({name} < {end}) {{", f"const int count = {end} - {name};")
        if not self.vector.size.is_number:
            code.add(f"if ({end} < WIDTH) {{")
            self._lanes(code, body, "short")
            code.add("} else {")
        code.add(f"{name} = {end} - WIDTH;")
        self._lanes(code, body, "shifted")
        code.add(*["}"] * (1 if self.vector.size.is_number else 2))

    def _lanes(self, code, body, tail):
        start = len(code)
        body(tail)
        name = self.vector.symbol
        used = "\n".join(code[start:])
        declarations = []
        if f"{name}_lanes" in used:
            lanes = "min(LANES, (long)(count - 1))" if tail == "short" else "LANES"
            declarations.append(f"const long§ {name}_lanes = {name} + {lanes};")
        if tail and "live" in used:
            of = "FIRST" if tail == "short" else "LAST"
            declarations.append(f"const int§ live = {of}_LANES(count);")
        code[start:start] = ["  " * code.depth + line for line in declarations]

    def _accumulators(self, code, reductions, copy=""):
        for reduction in reductions:
            for name, dtype, start in zip(
                reduction.accumulators(copy), reduction.types, reduction.start
            ):
                code.add(f"{value_type(dtype)} {name} = {start};")


class Pointwise(Shape):
    def __init__(self, space, vector, cpu):
        super().__init__(space, vector, cpu)
        outer = sympy_product([loop.size for loop in space.outer[0].loops[1:]])
        if hint(outer) >= 32 and hint(vector.size) <= 2 * self.block:
            self.block = vector.size

    def exceeds_caches(self, index) -> bool:
        flat = index == self.vector.symbol and self.width == MOST_LANES
        return flat and self._numel().is_number and int(self._numel()) >= LARGE

    def emit_unit(self, renderer, code):
        statements = [s for _, statements, _ in renderer.sections for s in statements]

        def body(tail):
            code.add(*(renderer.render(s, tail, None) for s in inside))

        if not self.cpu:
            self._decode(renderer, code, self.space.outer[0].loops)
            inside = statements
            return body(False)
        inside = [s for s in statements if {self.vector.symbol, None} & s.symbols]
        self._declare_block(renderer, code)
        code.add(*(renderer.render(s, False, None) for s in statements if s not in inside))
        self.vectors(renderer, code, "begin", "end", body)
