"""Analyses a kernel's registers before it runs, and makes the Python functions of its blocks."""

import numpy as np
from ptx import TYPES
from translate import Writer


class Code:
    """The Python functions of a kernel's blocks. Each is made when its block first runs."""

    def __init__(self, kernel):
        self.kernel = kernel
        self.numbers = {name: i for i, name in enumerate(kernel.registers)}
        extra = [v.name for v in kernel.variables] + [p.name for p in kernel.parameters]
        for name in extra:
            self.numbers.setdefault(name, len(self.numbers))
        self.kinds = {name: TYPES[kind] for name, kind in kernel.registers.items()}
        self.constants, self.made = {}, {}
        self.private_to_block = self.registers_of_one_block()
        self.maybe_undefined = {self.numbers[name] for name in self.read_before_written()}
        self.granule = self.narrowest_access()
        self.holds_float = {
            each.operands[0]
            for each in kernel.instructions
            if each.name == "mov" and self.kinds.get(each.operands[1]) in (np.float32, np.float64)
        }

    def fresh_registers(self):
        return [self.kinds.get(name, np.uint64)(0) for name in self.numbers]

    def set(self, registers, name, value):
        """Sets a special register, or the register with the address of a variable."""
        if name not in self.numbers:
            self.numbers[name] = len(self.numbers)
        number = self.numbers[name]
        registers.extend([None] * (number + 1 - len(registers)))
        registers[number] = value

    def number(self, name):
        return self.numbers.setdefault(name, len(self.numbers))

    def narrowest_access(self):
        """log2 of the bytes of the kernel's narrowest access, at most 2 (four bytes)."""
        width = 4
        for each in self.kernel.instructions:
            if each.name in ("ld", "st", "atom", "red") and "param" not in each.marks:
                width = min(width, TYPES[each.kind]().itemsize)
        return width.bit_length() - 1

    def registers_of_one_block(self):
        """Registers that one block alone uses, and writes before it reads them. Lanes outside of
        the mask need not keep their values."""
        places = {}
        for index, block in enumerate(self.kernel.blocks):
            seen = set()
            for each in block.instructions:
                for name in each.sources():
                    places.setdefault(name, set()).add(index if name in seen else -1)
                for name in each.targets():
                    places.setdefault(name, set()).add(-1 if each.predicate else index)
                    seen.add(name)
        return {name for name, where in places.items() if len(where) == 1 and -1 not in where}

    def read_before_written(self):
        """The registers that some path through the code reads before it writes them."""
        blocks = self.kernel.blocks
        known = {0: set()}  # registers that are written on all paths to the block
        work, undefined = [0], set()
        while work:
            index = work.pop()
            now = set(known[index])
            for each in blocks[index].instructions:
                undefined.update(set(each.sources()) & self.kernel.registers.keys() - now)
                if not each.predicate:
                    now.update(each.targets())
            for other in blocks[index].successors():
                both = known[other] & now if other in known else now
                if other < len(blocks) and both != known.get(other):
                    known[other] = both
                    work.append(other)
        return undefined

    def function(self, block, masked):
        if (block, masked) not in self.made:
            self.made[block, masked] = Writer(self, masked).function(self.kernel.blocks[block])
        return self.made[block, masked]
