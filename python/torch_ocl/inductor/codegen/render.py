"""Writes the OpenCL C of a kernel from its collected lines (kernel.py).

Kernels of the CPU family have few work-items, each with a loop over blocks or rows; a statement
works on a vector of WIDTH lanes. Kernels of the GPU family have a work-item for each element, or a
work-group for each row, and one lane. In lines, § is the number of lanes.
"""

import dataclasses
import functools
import re

import sympy
import torch
from torch.utils._sympy.symbol import SymT, symbol_is_type
from torch.utils._sympy.value_ranges import ValueRanges, bound_sympy

from .choose_shape import choose_shape
from .columns import Columns
from .loops import stride
from .printer import OclPrinter
from .types import TYPES, value_type

MARK = re.compile(r"@(\d+)@")
NAME = re.compile(r"\btmp\d+\b")


@dataclasses.dataclass
class Statement:
    text: str
    target: str | None
    symbols: set  # the loop variables that it depends on


class Code(list):
    """Collects lines with indentation."""

    depth = 0

    def add(self, *lines):
        for line in lines:
            self.depth -= line.startswith("}")
            self.append("  " * self.depth + line)
            self.depth += line.endswith("{")


class Renderer:
    def __init__(self, kernel):
        self.kernel = kernel
        self.shape = choose_shape(kernel)
        self.space = self.shape.space
        self.width = self.shape.width
        self.vector = self.shape.vector.symbol
        self.depends: dict[str, set] = {}
        self.copy = ""  # the suffix of the accumulators that a step uses
        self.aliases = dict(kernel.args.aliases())
        self.sections = [
            (
                section,
                [self._statement(line) for line in _lines(section.lines)],
                [self._statement(line) for line in _lines(section.after)],
            )
            for section in kernel.sections
        ]

    # Parses and prints statements. A statement depends on the loop variables in `symbols`.

    def _statement(self, line):
        target = None
        if found := re.match(r"(tmp\d+) = ", line):
            target = found[1]
        symbols = set()
        for number in MARK.findall(line):
            mark = self.kernel.marks[int(number)]
            symbols |= self._symbols(self.space.index(mark.index))
            texts = [mark.value, mark.mask or ""]
            if mark.reduction:
                symbols.add(self.vector)
                if isinstance(self.shape, Columns):  # each lane has results of its own
                    self.depends |= {str(r): {self.vector} for r in mark.reduction.results}
            for name in NAME.findall(" ".join(texts)):
                symbols |= self.depends.get(name, set())
        for name in NAME.findall(line):
            symbols |= self.depends.get(name, set())
        if target:
            self.depends[target] = symbols
        else:  # a store, or the step of a reduction
            symbols = symbols | {None}
        return Statement(line, target, symbols)

    def _symbols(self, index):
        found = set()
        for symbol in index.free_symbols:
            found |= self.depends.get(symbol.name, set()) if _is_read(symbol) else {symbol}
        return found

    def render(self, statement, tail, live):
        text = MARK.sub(
            lambda found: self._mark(self.kernel.marks[int(found[1])], tail, live), statement.text
        )
        if statement.target:
            text = f"const {value_type(self.kernel.types[statement.target])} {text}"
        return text if text.endswith(("}", ";")) else text + ";"

    def canonical(self, text, known) -> str:
        """The text with marks expanded and `known` variables replaced, to find equal statements."""

        def place(found):
            mark = self.kernel.marks[int(found[1])]
            value = NAME.sub(lambda name: known.get(name[0], name[0]), mark.value)
            mask = mark.mask and known.get(mark.mask, mark.mask)
            index = NAME.sub(lambda name: known.get(name[0], name[0]), str(mark.index))
            return f"@{mark.kind} {mark.argument} {index} {value} {mask}@"

        return NAME.sub(lambda name: known.get(name[0], name[0]), MARK.sub(place, text))

    @functools.cached_property
    def _calls(self) -> dict:
        definitions, calls, _, _ = self.kernel.args.python_argdefs()
        return {definition.name: call for definition, call in zip(definitions, calls)}

    def memory(self, statement) -> set:
        """The names of the memory that a statement reads or writes: one for each buffer."""
        marks = (self.kernel.marks[int(number)] for number in MARK.findall(statement.text))
        arguments = (self.aliases.get(mark.argument, mark.argument) for mark in marks)
        return {self._calls[name] for name in arguments if name in self._calls}

    # Marks in statements.

    def _mark(self, mark, tail, live):
        return getattr(self, f"_{mark.kind}")(mark, tail, live)

    def print(self, expr, vector=False, value=False) -> str:
        """The OpenCL C of an index into memory, or of a value, which may exceed INDEX."""
        expr = self.kernel.rename_indexing(expr)
        vector = vector and self.width > 1
        wide = value and self.index_type == "int" and not self._fits_int(expr)
        index, replaced = "long" if wide else "INDEX", {}
        for symbol in expr.free_symbols:
            if vector and symbol == self.vector:
                replaced[symbol] = sympy.Symbol(f"{symbol}_lanes", integer=True, nonnegative=True)
            elif _is_read(symbol):
                narrow = self.kernel.types[symbol.name] != torch.int64
                text = f"convert_long§({symbol})" if narrow else symbol.name
                text = text if vector else f"({index})(LANE0({text}))"
                replaced[symbol] = sympy.Symbol(text, integer=True, nonnegative=True)
            elif wide:
                text = f"(long){symbol}" if symbol in self.space.ranges else f"{symbol}_size"
                known = {"integer": symbol.is_integer, "nonnegative": symbol.is_nonnegative}
                replaced[symbol] = sympy.Symbol(text, **known)
        printer = OclPrinter(vector, index, TYPES[self.kernel.real_type].value)
        return printer.doprint(expr.xreplace(replaced))

    def _fits_int(self, expr) -> bool:
        """Whether each part is known to fit, given that the loops' variables do."""
        limit = 2**31 - 1
        ranges = {
            symbol: ValueRanges(0, size if size.is_number else limit)
            for symbol, size in self.space.ranges.items()
        }
        parts = (part for part in sympy.preorder_traversal(expr) if isinstance(part, sympy.Expr))
        bounds = (bound_sympy(part, ranges) for part in parts)
        return all(bound.lower >= -limit and bound.upper <= limit for bound in bounds)

    def _step(self, index):
        """The stride of an index along the vectors; None if it has none."""
        for symbol in index.free_symbols:
            if _is_read(symbol) and self.vector in self.depends.get(symbol.name, ()):
                return None
        return stride(index, self.vector)

    def _load(self, mark, tail, live):
        code = TYPES[mark.dtype].code
        pointer = self.aliases.get(mark.argument, mark.argument)
        index = self.space.index(mark.index)
        step = self._step(index)
        at = self.print(index) if step is not None else ""
        if step == 0:
            text = f"LOAD({code}, {pointer}, {at})"
            if mark.dtype == torch.bool:
                text += " != 0"
            if mark.mask:
                text = f"(ANY_LANE({mark.mask}) ? {text} : 0)"
            if mark.dtype == torch.bool:
                return f"MASK_OF_ONE({text})"
            return f"({value_type(mark.dtype)})({text})"
        if step == 1 and tail != "short":
            text = f"LOADV({code}, {pointer}, {at})"
            if mark.mask:
                lanes = self.print(index, vector=True)
                gathered = f"GATHER({code}, {pointer}, MASKED_INDEX({mark.mask}, {lanes}))"
                text = f"(ALL_LANES({mark.mask}) ? {text} : {gathered})"
        elif step is not None and tail != "short" and not mark.mask:
            text = f"GATHER_STRIDED({code}, {pointer}, {at}, {self.print(step)})"
        else:
            lanes = self._masked(self.print(index, vector=True), mark, tail)
            text = f"GATHER({code}, {pointer}, {lanes})"
        return f"MASK({text} != (VEC(uchar))(0))" if mark.dtype == torch.bool else text

    def _store(self, mark, tail, live):
        code, kind = TYPES[mark.dtype].code, TYPES[mark.dtype].value
        pointer = self.aliases.get(mark.argument, mark.argument)
        index = self.space.index(mark.index)
        step = self._step(index)
        if step == 0:
            return f"STORE({code}, {pointer}, {self.print(index)}, LANE0({mark.value}));"
        if step == 1 and not tail:
            fresh = mark.dtype == torch.float32 and pointer.startswith("out_ptr")
            if fresh and self.shape.exceeds_caches(index):
                return f"STORE_PAST_CACHE({pointer}, {self.print(index)}, {mark.value});"
            return f"STOREV({code}, {pointer}, {self.print(index)}, {mark.value});"
        lanes = {"short": "0, count", "shifted": "WIDTH - count, WIDTH"}.get(tail, "0, WIDTH")
        if step is not None:
            place = f"{pointer}, {self.print(index)}, {self.print(step)}"
            return f"SCATTER_STRIDED({code}, {kind}, {place}, {mark.value}, {lanes});"
        place = f"{pointer}, {self.print(index, vector=True)}"
        return f"SCATTER({code}, {kind}, {place}, {mark.value}, {lanes});"

    def _add(self, mark, tail, live):
        pointer = self.aliases.get(mark.argument, mark.argument)
        function = "add_atomically" if mark.dtype == torch.float32 else "add_integer"
        return f"{function}({pointer} + {self.print(self.space.index(mark.index))}, {mark.value});"

    def _index(self, mark, tail=False, live=None):
        return f"(long§)({self._value(mark)})"

    def _real(self, mark, tail, live):
        return f"({value_type(self.kernel.real_type)})({self._value(mark)})"

    def _value(self, mark):
        index = self.space.index(mark.index)
        return self.print(index, vector=self.vector in self._symbols(index), value=True)

    def _draw(self, mark, tail, live):
        index = self.space.index(mark.index)
        if self.width == 1 or (self._step(index) == 1 and tail != "short"):
            return f"random_words({mark.value}, {self.print(index)}, &{mark.argument})"
        return f"random_words_at({mark.value}, {self._index(mark)})"

    def _check(self, mark, tail, live):
        value = self._masked(mark.value, mark, tail)
        return f"checked_index(FAULT_FORWARD, {value}, {self.print(mark.bound)})"

    def _zero(self, mark, tail, live):
        masks = [mark.value, *([mark.mask] if mark.mask else [])]
        if tail == "shifted":
            masks.append("live")
        return f"checked_divisor(ZERO_FORWARD, {' & '.join(masks)})"

    def _masked(self, index, mark, tail) -> str:
        """The index; 0 in lanes that have none, or whose element the previous vector has
        changed."""
        masks = [mark.mask] if mark.mask else []
        if tail == "shifted":
            masks.append("live")
        return f"MASKED_INDEX({' & '.join(masks)}, {index})" if masks else index

    def _reduce(self, mark, tail, live):
        reduction = mark.reduction
        index = self._index(mark) if reduction.needs_index else ""
        return reduction.step(reduction.accumulators(self.copy), live, index)

    # The kernel's code.

    def source(self) -> str:
        body = Code()
        body.depth = 1
        self.shape.emit(self, body)
        text = "\n".join(body)
        lanes = "" if self.width == 1 else str(self.width)
        head = [*self._prelude(), *self._lane_functions(), *self._signature()]
        return "\n".join([*head, text, "}", ""]).replace("§", lanes)

    def _prelude(self):
        yield f"#define WIDTH {self.width}"
        yield "#define COMPUTE f32"
        yield "#define COMPUTE_IS_FLOAT"
        # int if it can index all buffers; if sizes grow, Inductor's guards compile again.
        yield f"#define INDEX {self.index_type}"
        if self.shape.letter == "g":
            yield f"#define LOCAL_SIZE {self.local}"  # tuning.py tries other sizes
        yield '#include "inductor.clh"'
        if self.kernel.adds:
            yield '#include "atomic_add.clh"'
        if self.kernel.draws:
            yield '#include "inductor_random.clh"'
        for header in sorted(self.kernel.headers):
            yield "#undef EPSILON\n#undef ASYMPTOTIC_FROM"
            yield f'#include "{header}.clh"'
        for name, expression in self.kernel.special_rows.items():
            # Numbers (s0) come before tensors (a, b), as in Inductor's operations.
            used = [x for x in ("s0", "a", "b") if re.search(rf"\b{x}\b", expression)]
            parameters = ", ".join(f"const T {x}" for x in used)
            yield f"static inline T {name}({parameters}) {{ return {expression}; }}"

    def _lane_functions(self):
        for name, (function, scalar, result, count) in self.kernel.lane_functions.items():
            if self.width == 1:
                yield f"#define {name} {function}"
            else:
                yield f"LANES_OF_{count}({name}, {function}, {scalar}, {result})"

    def _signature(self):
        definitions, calls, kinds, _ = self.kernel.args.python_argdefs()
        self.arguments, parameters, variables, self.signature = [], [], [], ""
        for definition, call, kind in zip(definitions, calls, kinds):
            name = definition.name
            if hasattr(kind, "buffer"):
                memory = TYPES[kind.dtype].memory
                constant = "const " if name.startswith("in_ptr") else ""
                # If a buffer has two names, one of them is read and the other written.
                macro = "BUFFER" if calls.count(call) == 1 else "SHARED_BUFFER"
                parameters.append(f"{macro}({constant}char, {name})")
                variables.append(f"  ELEMENTS({constant}{memory}, {name});")
                self.signature += "b"
            else:
                real = symbol_is_type(call, (SymT.FLOAT, SymT.UNBACKED_FLOAT))
                number = TYPES[self.kernel.real_type].value if real else "long"
                parameters.append(f"const {number} {name}_size")
                variables.append(f"  const {number if real else 'INDEX'} {name} = {name}_size;")
                self.signature += {"long": "l", "double": "d", "float": "s"}[number]
            self.arguments.append((name, call))
        # The first argument of a call must be a buffer, which determines the device.
        if self.kernel.checks_indices or self.kernel.checks_divisors:
            parameters.append("FAULT_ARGUMENT")
            self.signature += "f"
        if self.kernel.checks_divisors:
            parameters.append("ZERO_ARGUMENT")
            self.signature += "f"
        parameters.append("const long units")
        self.signature += "l"
        task = "TASK " if self.shape.letter == "t" else ""
        yield ""
        yield f"{task}__kernel void KERNEL_NAME("
        yield "    " + ",\n    ".join(parameters) + ") {"
        yield from variables
        yield from (f"  NOT_DRAWN({name});" for name in self.kernel.draws)

    @property
    def index_type(self) -> str:
        return "long" if self.shape.cpu else self.kernel.index_dtype

    @property
    def local(self):
        return self.shape.local

    @property
    def written(self) -> list[int]:
        """The positions of the arguments that the kernel writes."""
        names = [name for name, _ in self.arguments]
        return [n for n, name in enumerate(names) if name.startswith(("out_ptr", "in_out_ptr"))]

    @property
    def launch(self):
        """The number of units, for the kernel and for the launch, and their cost."""
        units, cost = self.shape.units(), self.shape.cost()
        return [units, units, cost]


def _is_read(symbol) -> bool:
    """Whether the symbol is an index that the kernel reads from memory."""
    return symbol.name.startswith("tmp")


def _lines(buffer) -> list[str]:
    lines = (line.strip() for line in buffer.getvalue().splitlines())
    return [line for line in lines if line and not line.startswith("#")]
