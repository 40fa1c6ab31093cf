"""Translates blocks of PTX into Python functions on arrays of numpy, one for each block. A function
has the machine `s` and the mask `m` of its lanes (None: all), and returns where its branch is
taken: None (nowhere), True, or an array."""

import re

import units
from compute import Compute
from ptx import TYPES, Unsupported, members

IGNORED = ("membar", "fence", "prefetch", "bar", "barrier")
SPACES = ("global", "shared", "local", "const", "param")


class Writer(Compute):
    def function(self, block):
        for each in block.instructions:
            try:
                self.instruction(each)
            except (KeyError, IndexError, ValueError) as error:
                raise Unsupported(f"{each.text}: {error!r}") from error
        text = "def function(s, m):\n R = s.registers; T = s.undefined; M = s.memory\n"
        exec(text + "".join(f" {line}\n" for line in self.lines), self.names)
        return self.names["function"]

    # ---- instructions
    def instruction(self, each):
        self.mask = "m"
        if each.name in IGNORED:
            return
        if each.name in ("bra", "ret", "exit"):
            self.branch(each)
            return
        if each.predicate:
            number = self.code.numbers[each.predicate]
            self.put(f"if T: s.must_be_defined(({number},), m, {each.text!r})")
            self.put(f"q = mask_of(s, R[{number}], {each.negated}, m)")
            self.put("if q.any():")
            self.mask = "q"
            self.put("pass")
        special = getattr(self, f"emit_{each.name}", None)
        if special:
            special(each)
        else:
            self.plain(each)

    def branch(self, each):
        if not each.predicate:
            self.put("return True")
            return
        number = self.code.numbers[each.predicate]
        self.put(
            f"if T: s.must_be_defined(({number},), m, {'a branch depends on it: ' + each.text!r})"
        )
        self.put(f"p = {'~' if each.negated else ''}R[{number}]")
        self.put("return p if p.ndim else True if p else None")

    # ---- memory
    def space(self, each):
        return next((mark for mark in each.marks if mark in SPACES), None)

    def address_is_defined(self, each, operand):
        numbers = self.registers_in([operand])
        if numbers:
            text = f"an address depends on it: {each.text}"
            self.put(f"if T: s.must_be_defined({numbers}, {self.mask}, {text!r})")

    def emit_ld(self, each):
        targets, kind = members(each.operands[0]), each.kind
        space, dtype = self.space(each), self.dtype(TYPES[kind])
        inner = re.match(r"\[([\w$]+)(?:\+(\d+))?\]$", each.operands[1])
        if space == "param" and inner and inner[1] not in self.code.kinds:
            for i, target in enumerate(targets):
                offset = int(inner[2] or 0) + i * TYPES[kind]().itemsize
                self.write(target, f"s.parameter({inner[1]!r}, {offset}, {dtype})", kind, ())
            return
        self.address_is_defined(each, each.operands[1])
        place = f"{space!r}, {self.address(each.operands[1])}, {self.mask}"
        volatile = "volatile" in each.marks or "relaxed" in each.marks
        self.put(f"x, u = M.load({place}, {dtype}, {len(targets)}, {volatile})")
        for i, target in enumerate(targets):
            self.write(target, f"x[{i}]", kind)
            number = self.code.numbers[target]
            self.put(f"if T or u is not None: s.set_undefined({number}, u, {self.mask})")

    emit_ldu = emit_ld

    def emit_st(self, each):
        kind, values = each.kind, members(each.operands[1])
        self.address_is_defined(each, each.operands[0])
        bits = "b" + kind[1:]
        numbers = self.registers_in(values)
        self.put(f"u = undefined_of(s, {numbers})" if numbers else "u = None")
        texts = ", ".join(self.read(value, bits) for value in values)
        mark = self.mark_of(kind, values)
        volatile = "volatile" in each.marks or "relaxed" in each.marks
        self.put(
            f"M.store({self.space(each)!r}, {self.address(each.operands[0])}, {self.mask}, "
            f"{self.dtype(TYPES[bits])}, [{texts}], u, {volatile}, {mark!r})"
        )

    def mark_of(self, kind, values):
        """The type of the stored numbers, one of Memory.KINDS."""
        floats = kind[0] == "f" or all(value in self.code.holds_float for value in values)
        return ("f" if floats else "u") + kind[1:]

    def emit_atom(self, each):
        self.atomic(each, each.operands)

    def emit_red(self, each):
        self.atomic(each, ["_", *each.operands])

    def atomic(self, each, operands):
        what = next(mark for mark in each.marks if mark in units.ATOMIC)
        kind = each.kind.replace("b", "u")
        target, place, *values = operands
        self.address_is_defined(each, place)
        numbers = self.registers_in(values)
        self.put(f"if T: s.must_be_defined({numbers}, {self.mask}, {each.text!r})")
        texts = ", ".join(self.read(value, kind) for value in values)
        self.put(
            f"x = atomic(s, {what!r}, {self.space(each)!r}, {self.address(place)}, {self.mask}, "
            f"{self.dtype(TYPES[kind])}, {self.mark_of(kind, values[-1:])!r}, {texts})"
        )
        self.write(target, "x", kind, ())

    def emit_cp(self, each):
        if each.marks[1] == "commit_group":
            self.put(f"commit(s, {self.mask})")
        elif each.marks[1] in ("wait_group", "wait_all"):
            count = int(each.operands[0]) if each.operands else 0
            self.put(f"wait(s, {count}, {each.marks[1] == 'wait_all'}, {self.mask})")
        else:
            self.address_is_defined(each, each.operands[0] + each.operands[1])
            to, source = self.address(each.operands[0]), self.address(each.operands[1])
            size = int(each.operands[2])
            count = self.read(each.operands[3], "u32") if len(each.operands) > 3 else size
            self.put(f"copy_later(s, {to}, {source}, {size}, {count}, {self.mask})")

    # ---- instructions of whole waves
    def emit_mma(self, each):
        words = [[self.read(x, "b32") for x in members(operand)] for operand in each.operands[1:]]
        numbers = self.registers_in(each.operands[1:])
        self.put(f"if T: s.must_be_defined({numbers}, {self.mask}, {each.text!r})")
        texts = ", ".join(f"[{', '.join(each)}]" for each in words)
        self.put(f"x = multiply(s, {each.marks!r}, {texts}, {self.mask})")
        for i, target in enumerate(members(each.operands[0])):
            self.write(target, f"x[{i}]", "b32", ())

    def emit_ldmatrix(self, each):
        self.address_is_defined(each, each.operands[1])
        self.put(
            f"x, u = load_matrix(s, {each.marks!r}, {self.address(each.operands[1])}, {self.mask})"
        )
        for i, target in enumerate(members(each.operands[0])):
            self.write(target, f"x[{i}]", "b32")
            number = self.code.numbers[target]
            self.put(f"if T or u is not None: s.set_undefined({number}, u, {self.mask})")

    def emit_shfl(self, each):
        target, predicate = [*each.operands[0].split("|"), "_"][:2]
        value, other, limits = (self.read(x, "u32") for x in each.operands[1:4])
        self.put(f"x, p = shuffle(s, {each.marks!r}, {value}, {other}, {limits})")
        self.write(target, "x", "b32", ())
        self.write(predicate, "p", "pred", ())
