"""Counts the instructions of a kernel's hottest loop, the one with most multiply-adds. Reads
disassemblies for AMD (clang -S), NVIDIA (nvdisasm, or PTX if that is missing) and Intel (ocloc
disasm)."""

import dataclasses
import re

# Kind of text: (label, operation with its operands, mnemonics of multiply-adds).
SYNTAX = {
    "amd": (
        re.compile(r"^(\.?LBB\w+):"),
        re.compile(r"^\t([a-z]\w+)(.*)"),
        re.compile(r"v_(dual_|pk_)?(fma|fmac|mac|mad|fmaak|fmamk)_f(32|64)"),
    ),
    "sass": (
        re.compile(r"^(\.L_\w+):"),
        re.compile(r"^\s+/\*[0-9a-f]+\*/\s+(?:@!?U?P\w+\s+)?([A-Z][\w.]*)(.*)"),
        re.compile(r"[FD]FMA"),
    ),
    "ptx": (
        re.compile(r"^(\$L\w+):"),
        re.compile(r"^\t(?:@!?%p\d+ )?([a-z][\w.]*)(.*)"),
        re.compile(r"fma\.rn\.f(32|64)"),
    ),
    "intel": (
        re.compile(r"^(L\d+):"),
        re.compile(r"^(?:\([W&~fA-Z0-9.a-z]+\))?\s+([a-z][\w.]*)(.*)"),
        re.compile(r"mad.*:d?f "),
    ),
}
DIRECTIVE = re.compile(r"^\.")


@dataclasses.dataclass
class Loop:
    first: int
    last: int
    fma: int

    def operations(self):
        return self.last - self.first


def operations(text, kind):
    """-> labels {name: position}, [operation with operands]; a double instruction is two."""
    label, operation, _ = SYNTAX[kind]
    labels, found = {}, []
    for line in text.splitlines():
        if match := label.match(line):
            labels[match[1]] = len(found)
        elif (match := operation.match(line)) and not DIRECTIVE.match(match[1]):
            for half in f"{match[1]} {match[2]}".split(";")[0].split(" :: "):
                found.append(half.strip())
    return labels, found


def loops(text, kind):
    labels, found = operations(text, kind)
    fma = SYNTAX[kind][2]
    sums = [0]
    for operation in found:
        sums.append(sums[-1] + bool(fma.match(operation)))
    for position, operation in enumerate(found):
        for name in re.findall(r"[$.]?L[\w]+", operation.split(" ", 1)[-1]):
            start = labels.get(name)
            if start is not None and start <= position:
                yield Loop(start, position + 1, sums[position + 1] - sums[start])


def fma_share(text, kind, trips=1):
    """The share of multiply-adds among the instructions that the hottest loop executes; None if
    there is no loop. `trips`: iterations of a loop inside of it, if the compiler has kept one."""
    found = list(loops(text, kind))
    most = max((loop.fma for loop in found), default=0)
    if not most:
        return None
    hottest = [loop for loop in found if loop.fma == most]
    inner = min(hottest, key=Loop.operations)
    around = [x for x in hottest if x.operations() > inner.operations() + 4]
    if trips == 1 or not around:
        return most / inner.operations()
    outer = min(around, key=Loop.operations)
    return most * trips / (outer.operations() + inner.operations() * (trips - 1))


def lanes(text):
    """The number of work-items that an Intel instruction computes."""
    found = re.findall(r"\bmad \((\d+)\|", text)
    return max(map(int, found), default=None)
