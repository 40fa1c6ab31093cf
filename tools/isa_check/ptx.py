"""Reads PTX, as clang makes it of OpenCL C: kernels as basic blocks of instructions.

Module(text).kernels["name"].blocks[0].instructions[0].text
"""

import dataclasses
import re

import numpy as np

SIZES = {8: (np.uint8, np.int8, None), 16: (np.uint16, np.int16, np.float16)}
SIZES |= {32: (np.uint32, np.int32, np.float32), 64: (np.uint64, np.int64, np.float64)}
# "u32", "s32", "b32", "f32": the type that numpy computes with.
TYPES = {"pred": np.bool_}
for width, (unsigned, signed, floating) in SIZES.items():
    TYPES |= {f"u{width}": unsigned, f"b{width}": unsigned, f"s{width}": signed}
    if floating:
        TYPES[f"f{width}"] = floating

SPECIAL = ("%tid.", "%ntid.", "%ctaid.", "%nctaid.", "%laneid", "%warpid", "WARP_SZ")
# Every lane of a wave must execute them together.
CONVERGENT = ("mma", "ldmatrix", "shfl")
VARIABLE = re.compile(
    r"\.(const|global|shared)\s+(?:\.align\s+(\d+)\s+)?\.(\w+)\s+([\w$]+)"
    r"(?:\[(\d*)\])?\s*(?:=\s*(\{[^}]*\}|[^;]+))?;"
)
NUMBER = re.compile(r"0[fF][0-9a-fA-F]{8}|0[dD][0-9a-fA-F]{16}|-?0x[0-9a-fA-F]+|-?\d+")


class Unsupported(Exception):
    """The text has something that this parser does not know."""


def split(text):
    """The parts between commas that are not in brackets."""
    parts, depth, start = [], 0, 0
    for place, letter in enumerate(text):
        depth += (letter in "{[(") - (letter in "}])")
        if letter == "," and not depth:
            parts.append(text[start:place].strip())
            start = place + 1
    return [part for part in (*parts, text[start:].strip()) if part]


def members(operand):
    """The registers of {a, b}, or of a alone."""
    return split(operand.strip("{}")) if operand.startswith("{") else [operand]


def number_bits(text):
    """The bits of an integer or of 0f3F800000, as an integer."""
    if re.match(r"0[fF][0-9a-fA-F]{8}$|0[dD][0-9a-fA-F]{16}$", text):
        return int(text[2:], 16)
    return int(text.rstrip("U"), 0)


@dataclasses.dataclass
class Instruction:
    text: str
    name: str  # "add"
    marks: list  # ["rn", "f32"]
    operands: list
    predicate: str | None = None
    negated: bool = False

    @property
    def kind(self):
        return self.marks[-1] if self.marks else ""

    @property
    def is_barrier(self):
        return self.name in ("bar", "barrier") and "warp" not in self.marks

    @property
    def is_convergent(self):
        return self.name in CONVERGENT

    def targets(self):
        """The registers that it writes."""
        if self.name in ("st", "red", "bra", "ret", "exit", "bar", "barrier", "membar", "fence"):
            return []
        if self.name == "cp":
            return []
        return [part for whole in members(self.operands[0]) for part in whole.split("|")]

    def sources(self):
        """The registers that it reads."""
        first = 0 if not self.targets() else 1
        text = " ".join(self.operands[first:]) + (f" {self.predicate}" if self.predicate else "")
        return re.findall(r"%[\w$]+(?:\.[xyz])?|\b\w+\b(?=[\s,}\]+]|$)", text)


@dataclasses.dataclass
class Block:
    """Instructions that follow each other; the last one may be a branch, an end or a barrier."""

    instructions: list
    target: int | None = None  # the block that its branch goes to
    next: int | None = None  # the block that follows otherwise

    @property
    def is_convergent(self):
        return self.instructions[0].is_convergent

    def multiply_adds(self):
        return sum(each.name in ("fma", "mma") for each in self.instructions)

    def successors(self):
        last = self.instructions[-1]
        ends = last.name in ("bra", "ret", "exit") and not last.predicate
        return [each for each in (self.target, None if ends else self.next) if each is not None]


@dataclasses.dataclass
class Parameter:
    name: str
    offset: int
    size: int
    space: str | None  # of a pointer: the address space of its target


@dataclasses.dataclass
class Variable:
    name: str
    space: str  # const, global, shared, local
    size: int
    values: np.ndarray | None = None


def variables_of(text):
    for match in VARIABLE.finditer(text):
        space, _, kind, name, count, values = match.groups()
        width = int(kind[1:]) // 8
        numbers = [number_bits(each) for each in NUMBER.findall(values or "")]
        data = None
        if space != "shared":
            size = int(count or 1)
            numbers += [0] * (size - len(numbers))
            whole = b"".join((n % (1 << 8 * width)).to_bytes(width, "little") for n in numbers)
            data = np.frombuffer(whole, np.uint8)
        yield Variable(name, space, max(int(count or 1), 1) * width, data)


class Module:
    def __init__(self, text):
        text = re.sub(r"//[^\n]*", "", text)
        heads = list(re.finditer(r"\.entry\s+([\w$]+)\s*\(", text))
        outside = text[: heads[0].start()] if heads else text
        self.variables = list(variables_of(outside))
        self.kernels = {}
        for head in heads:
            opening = text.index("{", head.end())
            depth, end = 1, opening + 1
            while depth:
                depth += {"{": 1, "}": -1}.get(text[end], 0)
                end += 1
            parameters = text[head.end() : opening].rpartition(")")[0]
            kernel = Kernel(head[1], parameters, text[opening + 1 : end - 1])
            kernel.variables += self.variables
            self.kernels[head[1]] = kernel


class Kernel:
    def __init__(self, name, parameters, body):
        self.name, self.variables, self.registers = name, [], {}
        self.parameters = list(self.parameters_of(parameters))
        self.labels, self.instructions = {}, []
        for statement in re.sub(r"\s+", " ", body).split(";"):
            self.read(statement)
        self.blocks = self.blocks_of()

    @staticmethod
    def parameters_of(text):
        offset = 0
        for each in split(text):
            count = re.search(r"\[(\d+)\]$", each)
            kind = re.search(r"\.([usbf])(8|16|32|64)\b", each)
            align = re.search(r"\.param \.align (\d+)", each)
            space = re.search(r"\.ptr\s*\.(global|shared|const)", each)
            width = int(kind[2]) // 8
            step = int(align[1]) if align else width
            offset = -(-offset // step) * step
            size = width * int(count[1] if count else 1)
            name = re.sub(r"\[.*", "", each.split()[-1])
            yield Parameter(name, offset, size, space[1] if space else None)
            offset += size

    def read(self, text):
        text = text.strip().lstrip("{} ")
        while match := re.match(r"([$\w]+):(?!:)\s*", text):
            self.labels[match[1]] = len(self.instructions)
            text = text[match.end() :].lstrip("{} ")
        if not text:
            return
        if match := re.match(r"\.reg \.(\w+)\s+(.*)", text):
            for name in split(match[2]):
                many = re.match(r"(%?[\w$]+)<(\d+)>", name)
                names = [f"{many[1]}{i}" for i in range(int(many[2]))] if many else [name]
                self.registers.update(dict.fromkeys(names, match[1]))
        elif match := re.match(
            r"\.(shared|local) (?:\.align \d+ )?\.\w(\d+) ([\w$]+)(?:\[(\d+)\])?", text
        ):
            size = int(match[2]) // 8 * int(match[4] or 1)
            self.variables.append(Variable(match[3], match[1], size))
        elif not text.startswith("."):
            self.instructions.append(self.instruction(text))

    def instruction(self, text):
        predicate, negated = None, False
        whole = text
        if match := re.match(r"@(!?)(%?\w+)\s+", text):
            predicate, negated = match[2], bool(match[1])
            text = text[match.end() :]
        operation, _, rest = text.partition(" ")
        name, *marks = operation.split(".")
        marks = [mark for mark in re.split(r"\.|::", ".".join(marks)) if mark]
        if name == "call":
            raise Unsupported("a function call, which is not inlined")
        return Instruction(whole, name, marks, split(rest), predicate, negated)

    def blocks_of(self):
        code, starts = self.instructions, {0, *self.labels.values()}
        for place, each in enumerate(code):
            if each.name in ("bra", "ret", "exit") or each.is_barrier:
                starts.add(place + 1)
            if each.is_convergent and not (place and code[place - 1].is_convergent):
                starts.add(place)
        order = sorted(place for place in starts if place < len(code))
        number = {place: index for index, place in enumerate(order)}
        number[len(code)] = len(order)
        blocks = []
        for index, (first, end) in enumerate(zip(order, [*order[1:], len(code)], strict=True)):
            block = Block(code[first:end], next=index + 1)
            last = code[end - 1]
            if last.name == "bra":
                block.target = number[self.labels[last.operands[0]]]
            blocks.append(block)
        return blocks
