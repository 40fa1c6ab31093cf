"""Operands of PTX as texts of Python: a register is an element of `R`, an array or a scalar."""

import re

import arithmetic
import numpy as np
import units
from ptx import SPECIAL, TYPES, number_bits


class Operands:
    """Lines of a block's function. `masked`: its lanes are those of a mask only."""

    def __init__(self, code, masked):
        self.code, self.masked, self.lines = code, masked, []
        self.mask = "m"
        self.names = {"np": np, **vars(arithmetic), **vars(units), "WHERE": np.where}

    def constant(self, value):
        name = f"k{len(self.names)}"
        self.names[name] = value
        return name

    # ---- operands
    def read(self, name, kind):
        """The text of an operand as an array, or a scalar, of the type."""
        kind = TYPES[kind]
        if name in self.code.kinds:
            own = self.code.kinds[name]
        elif name.startswith(SPECIAL):
            own = np.uint32
        elif name in self.code.numbers:
            own = np.uint64
        else:
            bits = number_bits(name)
            if kind is np.bool_:
                return self.constant(np.bool_(bits))
            size = kind().itemsize
            raw = (bits % (1 << 8 * size)).to_bytes(size, "little")
            return self.constant(np.frombuffer(raw, kind)[0])
        text = f"R[{self.code.number(name)}]"
        if own is kind:
            return text
        size, own_size = kind().itemsize, own().itemsize
        if size != own_size:
            text, own = self.view(text, own, self.unsigned(own)), self.unsigned(kind)
            text = f"{text}.astype({self.dtype(own)})"
        return self.view(text, own, kind)

    @staticmethod
    def unsigned(kind):
        return arithmetic.UNSIGNED[kind().itemsize]

    @staticmethod
    def dtype(kind):
        return f"np.{np.dtype(kind).name}"

    def view(self, text, own, kind):
        return text if own is kind else f"{text}.view({self.dtype(kind)})"

    def number_of(self, name):
        """The register that a name is, or None."""
        return self.code.numbers[name] if name in self.code.kinds else None

    def registers_in(self, operands):
        names = [part for operand in operands for part in re.findall(r"%\w+", operand)]
        return tuple(self.code.numbers[n] for n in names if n in self.code.kinds)

    def write(self, name, text, kind, sources=None, absorbing=None):
        """Lines that put a value of the type into a register."""
        if name == "_":
            return
        kind = TYPES[kind] if isinstance(kind, str) else kind
        own, number = self.code.kinds[name], self.code.numbers[name]
        if kind is not own:
            text = f"({text})"
            if own().itemsize != kind().itemsize:
                same_sign = np.dtype(
                    f"{'i' if np.dtype(kind).kind == 'i' else 'u'}{own().itemsize}"
                )
                kind_bits = self.unsigned(kind) if np.dtype(kind).kind == "f" else kind
                text = f"{self.view(text, kind, kind_bits)}.astype({self.dtype(same_sign.type)})"
                kind = same_sign.type
            text = self.view(text, kind, own)
        keep = self.mask == "q" or (self.masked and name not in self.code.private_to_block)
        self.put(f"R[{number}] = " + (f"WHERE({self.mask}, {text}, R[{number}])" if keep else text))
        if sources is not None:
            extra = f", {absorbing}" if absorbing else ""
            self.put(f"if T: s.follow({number}, {sources}, {self.mask}{extra})")

    def put(self, line):
        self.lines.append("  " + line if self.mask == "q" else line)

    def address(self, text):
        match = re.match(r"^\[\s*([%\w$.]+)\s*(?:\+\s*(-?\w+))?\s*\]$", text)
        base = self.read(match[1], "u64")
        if not match[2]:
            return base
        return f"{base} + {self.constant(np.uint64(int(match[2]) % (1 << 64)))}"
