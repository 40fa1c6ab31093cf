"""Translates the instructions that compute: arithmetic, comparisons, conversions."""

import re

import numpy as np
from operands import Operands
from ptx import TYPES, Unsupported, members

# Operator or function of two or three operands that have the instruction's type.
PLAIN = {
    "add": "{0} + {1}",
    "sub": "{0} - {1}",
    "and": "{0} & {1}",
    "or": "{0} | {1}",
    "xor": "{0} ^ {1}",
    "not": "~{0}",
    "shl": "shift_left({0}, {1})",
    "shr": "shift_right({0}, {1})",
    "bfe": "bits_of({0}, {1}, {2})",
    "bfi": "insert_bits({0}, {1}, {2}, {3})",
    "brev": "reverse_bits({0})",
    "prmt": "permute({0}, {1}, {2})",
    "popc": "count_bits({0})",
    "clz": "leading_zeros({0})",
    "bfind": "find_leading({0})",
    "div": "divide({0}, {1})",
    "rem": "remainder({0}, {1})",
    "abs": "np.abs({0})",
    "neg": "0 - {0}",
    "cnot": "({0} == 0).astype({0}.dtype)",
    "min": "np.minimum({0}, {1})",
    "max": "np.maximum({0}, {1})",
    "sad": "np.maximum({0}, {1}) - np.minimum({0}, {1}) + {2}",
}
FLOAT = {
    "add": "{0} + {1}",
    "sub": "{0} - {1}",
    "mul": "{0} * {1}",
    "div": "{0} / {1}",
    "neg": "-{0}",
    "abs": "np.abs({0})",
    "min": "np.fmin({0}, {1})",
    "max": "np.fmax({0}, {1})",
    "copysign": "np.copysign({1}, {0})",
    "sqrt": "np.sqrt({0})",
    "rcp": "1 / {0}",
    "rsqrt": "in_float64(lambda x: 1 / np.sqrt(x), {0})",
    "ex2": "in_float64(np.exp2, {0})",
    "lg2": "in_float64(np.log2, {0})",
    "sin": "in_float64(np.sin, {0})",
    "cos": "in_float64(np.cos, {0})",
    "tanh": "in_float64(np.tanh, {0})",
}
COMPARE = {"eq": "==", "ne": "!=", "lt": "<", "le": "<=", "gt": ">", "ge": ">="}
COMPARE |= {"lo": "<", "ls": "<=", "hi": ">", "hs": ">="}
OPPOSITE = {"ltu": ">=", "leu": ">", "gtu": "<=", "geu": "<"}
ROUNDING = {"rni": "np.rint", "rzi": "np.trunc", "rmi": "np.floor", "rpi": "np.ceil"}
BIT_COUNTS = ("popc", "clz", "bfind")


class Compute(Operands):
    def plain(self, each):
        target, *sources = each.operands
        kind, marks = each.kind, each.marks
        result = kind
        if kind in ("f16x2", "bf16x2"):
            if kind == "bf16x2":
                raise Unsupported(each.text)
            values = [self.read(x, "b32") for x in sources]
            body = "fma16(*x)" if each.name == "fma" else FLOAT[each.name].format("x[0]", "x[-1]")
            text, result = f"in_halves(lambda *x: {body}, {', '.join(values)})", "b32"
        elif kind[0] == "f":
            values = [self.read(x, kind) for x in sources]
            table = {**FLOAT, "fma": f"fma{kind[1:]}({{0}}, {{1}}, {{2}})"}
            if "NaN" in marks:
                table |= {"min": "np.minimum({0}, {1})", "max": "np.maximum({0}, {1})"}
            text = table[each.name].format(*values)
            if "sat" in marks:
                text = f"np.clip({text}, 0, 1)"
            if "ftz" in marks:
                raise Unsupported(each.text)
        else:
            shifts = {"shl": (1,), "shr": (1,), "bfe": (1, 2), "bfi": (2, 3)}.get(each.name, ())
            values = [self.read(x, "u32" if i in shifts else kind) for i, x in enumerate(sources)]
            if each.name in BIT_COUNTS:
                result = "u32"
            text = PLAIN[each.name].format(*values)
            if each.name in ("shl", "shr") and re.fullmatch(r"\d+", sources[1]):
                width = TYPES[kind]().itemsize * 8
                if int(sources[1]) < width:
                    by = self.constant(TYPES[kind](int(sources[1])))
                    text = f"{values[0]} {'<<' if each.name == 'shl' else '>>'} {by}"
        absorbing = None
        if each.name in ("and", "or") and all(s in self.code.kinds for s in sources):
            low, high = (
                ("np.False_", "np.True_")
                if kind == "pred"
                else ("0", f"~np.{np.dtype(TYPES[kind]).name}(0)")
            )
            absorbing = low if each.name == "and" else high
        self.write(target, text, result, self.registers_in(sources), absorbing)

    def product(self, each, adds):
        target, *sources = each.operands
        kind, marks = each.kind, each.marks
        if kind[0] == "f":
            if adds:
                raise Unsupported(each.text)
            self.plain(each)
            return
        a, b = (self.read(x, kind) for x in sources[:2])
        if "wide" in marks:
            text = f"wider({a}) * wider({b})"
            kind = f"{kind[0]}{int(kind[1:]) * 2}"
        elif "hi" in marks:
            text = f"mul_hi({a}, {b})"
        else:
            text = f"{a} * {b}"
        if adds:
            text += f" + {self.read(sources[2], kind)}"
        self.write(target, text, kind, self.registers_in(sources))

    def emit_mul(self, each):
        self.product(each, adds=False)

    def emit_mad(self, each):
        self.product(each, adds=True)

    def emit_mov(self, each):
        target, source = each.operands
        kind = each.kind
        taken = self.registers_in([source])
        if target.startswith("{"):
            parts = members(target)
            width = int(kind[1:]) // len(parts)
            for i, part in enumerate(parts):
                by = self.constant(TYPES[kind](i * width))
                text = f"({self.read(source, kind)} >> {by}).astype(np.uint{width})"
                self.write(part, text, f"b{width}")
                if part != "_" and taken:
                    places = f"{self.code.numbers[part]}, {taken[0]}, {i}, {len(parts)}"
                    self.put(f"if T: s.follow_unpacking({places}, {self.mask})")
        elif source.startswith("{"):
            parts = members(source)
            width, whole = int(kind[1:]) // len(parts), TYPES[kind]
            text = " | ".join(
                f"({self.read(part, f'b{width}')}.astype({self.dtype(whole)})"
                f" << {self.constant(whole(i * width))})"
                for i, part in enumerate(parts)
            )
            self.write(target, text, kind)
            numbers = tuple(self.number_of(part) for part in parts)
            self.put(f"if T: s.follow_packing({self.code.numbers[target]}, {numbers}, {self.mask})")
        else:
            self.write(target, self.read(source, kind), kind, taken)

    def emit_cvta(self, each):
        self.write(
            each.operands[0],
            self.read(each.operands[1], "u64"),
            "u64",
            self.registers_in(each.operands[1:]),
        )

    def emit_selp(self, each):
        target, a, b, chooser = each.operands
        first, second = self.read(a, each.kind), self.read(b, each.kind)
        self.write(target, f"WHERE({self.read(chooser, 'pred')}, {first}, {second})", each.kind)
        numbers = (self.number_of(a), self.number_of(b))
        chooser = self.number_of(chooser)
        self.put(
            f"if T: s.follow_choice({self.code.numbers[target]}, {numbers}, {chooser}, {self.mask})"
        )

    def emit_setp(self, each):
        how, kind = each.marks[0], each.kind
        target, first, second = each.operands[:3]
        a, b = self.read(first, kind), self.read(second, kind)
        if kind[0] != "f":
            text = f"{a} {COMPARE[how]} {b}"
        elif how in ("num", "nan"):
            text = f"{'~' if how == 'num' else ''}(({a} != {a}) | ({b} != {b}))"
        elif how in OPPOSITE:
            text = f"~({a} {OPPOSITE[how]} {b})"
        elif how == "ne":
            text = f"({a} < {b}) | ({a} > {b})"
        elif how == "equ":
            text = f"~(({a} < {b}) | ({a} > {b}))"
        else:
            text = f"{a} {COMPARE[how.removesuffix('u')]} {b}"
        if len(each.marks) > 2 and each.marks[1] in ("and", "or", "xor"):
            operator = {"and": "&", "or": "|", "xor": "^"}[each.marks[1]]
            text = f"({text}) {operator} {self.read(each.operands[3], 'pred')}"
        self.write(target, text, "pred", self.registers_in(each.operands[1:]))

    def emit_cvt(self, each):
        to, source = each.marks[-2:]
        target, *operands = each.operands
        taken = self.registers_in(operands)
        if to in ("f16x2", "bf16x2"):
            convert = "half_bits" if to == "f16x2" else "bfloat_bits"
            high, low = (self.read(x, "f32") for x in operands)
            self.write(target, f"pair_of_halves({high}, {low}, {convert})", "b32", taken)
            return
        value = (
            f"bfloat({self.read(operands[0], 'b16')})"
            if source == "bf16"
            else self.read(operands[0], source)
        )
        rounding = next((ROUNDING[mark] for mark in each.marks if mark in ROUNDING), None)
        is_float = source[0] == "f" or source == "bf16"
        if to == "bf16":
            self.write(target, f"bfloat_bits({value})", "b16", taken)
            return
        kind = TYPES[to]
        if to[0] == "f":
            value = f"{rounding}({value})" if rounding else value
            mode = next((mark for mark in each.marks if mark in ("rz", "rm", "rp")), None)
            if mode and is_float and kind().itemsize < TYPES[source]().itemsize:
                text = f"toward({value}, {self.dtype(kind)}, {mode!r})"
            elif mode:
                raise Unsupported(each.text)
            else:
                text = f"({value}).astype({self.dtype(kind)})"
            text = f"np.clip({text}, 0, 1)" if "sat" in each.marks else text
        elif is_float:
            text = f"to_integer({value}, {self.dtype(kind)}, {rounding or 'np.trunc'})"
        elif "sat" in each.marks:
            text = f"saturated({value}, {self.dtype(kind)})"
        else:
            text = f"({value}).astype({self.dtype(kind)})"
        self.write(target, text, to, taken)

    def emit_shf(self, each):
        a, b, c = (self.read(x, "u32") for x in each.operands[1:])
        text = f"funnel({a}, {b}, {c}, {'l' in each.marks}, {'wrap' in each.marks})"
        self.write(each.operands[0], text, "u32", self.registers_in(each.operands[1:]))

    def emit_dp4a(self, each):
        values = ", ".join(self.read(x, "u32") for x in each.operands[1:])
        kinds = [mark for mark in each.marks if mark in ("s32", "u32")]
        text = f"dot4({values}, {kinds[0]!r}, {kinds[1]!r})"
        self.write(each.operands[0], text, "u32", self.registers_in(each.operands[1:]))
