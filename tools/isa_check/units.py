"""Instructions of whole waves, and asynchronous ones: mma.sync, ldmatrix, shfl.sync, atomic
instructions, cp.async. Positions of elements: PTX ISA, "Matrix Fragments for mma"."""

import re

import numpy as np
from arithmetic import bfloat

WAVE = 32
LANE = np.arange(WAVE)
ATOMIC = {
    "add": lambda old, x: old + x,
    "min": lambda old, x: min(old, x),
    "max": lambda old, x: max(old, x),
    "and": lambda old, x: old & x,
    "or": lambda old, x: old | x,
    "xor": lambda old, x: old ^ x,
    "exch": lambda old, x: x,
    "cas": lambda old, x, y: y if old == x else old,
    "inc": lambda old, x: old.dtype.type(0) if old >= x else old + old.dtype.type(1),
    "dec": lambda old, x: x if old == 0 or old > x else old - old.dtype.type(1),
}


def mask_of(machine, predicate, negated, mask):
    """The lanes of an instruction with a predicate."""
    lanes = np.broadcast_to(~predicate if negated else predicate, machine.team.lanes)
    return lanes.copy() if mask is None else lanes & mask


def undefined_of(machine, registers):
    """The lanes in which one of the registers is undefined, or None."""
    found = [machine.undefined[each] for each in registers if each in machine.undefined]
    return np.logical_or.reduce(found) if found else None


def atomic(machine, what, space, address, mask, kind, mark, *values):
    values = [np.broadcast_to(value, machine.team.lanes) for value in values]
    operation = ATOMIC[what]

    def change(lane, old):
        return operation(old, *(value[lane] for value in values))

    order = machine.random.permutation
    return machine.memory.atomic(space, address, mask, kind, mark, change, order)


# ---- waves, which are complete because of whole_waves() in machine.py
def waves_of(machine, mask):
    """The lanes of each complete wave among those of the mask."""
    starts = machine.team.every[::WAVE]
    return starts if mask is None else starts[mask[::WAVE]]


def lanes_of(machine, word):
    return np.ascontiguousarray(np.broadcast_to(word, machine.team.lanes))


def elements(words, kind, per):
    """[words][lanes][per]: the numbers in the words, as float64."""
    words = np.stack(words)
    if kind == "bf16":
        return bfloat(words.view(np.uint16)).reshape(*words.shape, per).astype(np.float64)
    kinds = {"f16": np.float16, "s8": np.int8, "u8": np.uint8, "tf32": np.float32}
    return words.view(kinds[kind]).reshape(*words.shape, per).astype(np.float64)


def multiply(machine, marks, a, b, c, mask):
    """mma.sync: c + a b, in float64, whose sum is rounded once."""
    m, n, k = map(
        int, re.match(r"m(\d+)n(\d+)k(\d+)$", next(x for x in marks if x[0] == "m")).groups()
    )
    kind = marks[-2]
    per = {"s8": 4, "u8": 4, "tf32": 1}.get(kind, 2)
    sums = np.int32 if per == 4 else np.float32
    if marks[-1] not in ("f32", "s32"):
        raise ValueError("sums of another type")
    starts = waves_of(machine, mask)
    at = starts[:, None] + LANE
    a, b, c = ([lanes_of(machine, word)[at] for word in words] for words in (a, b, c))
    row, column, rows = LANE // 4, LANE % 4, m // 8
    left, right = np.zeros((len(starts), m, k)), np.zeros((len(starts), k, n))
    for i, word in enumerate(elements(a, kind, per)):
        for e in range(per):
            left[:, row + i % rows * 8, (column + i // rows * 4) * per + e] = word[..., e]
    for i, word in enumerate(elements(b, kind, per)):
        for e in range(per):
            right[:, (column + i * 4) * per + e, row] = word[..., e]
    product = left @ right
    results = []
    for i, word in enumerate(c):
        total = product[:, row + i // 2 * 8, column * 2 + i % 2] + word.view(sums)
        if sums is np.int32:
            total = total.astype(np.int64)
        result = np.zeros(machine.team.lanes, np.uint32)
        result[at] = total.astype(sums).view(np.uint32)
        results.append(result)
    return results


def load_matrix(machine, marks, address, mask):
    """ldmatrix: lane i of the first 8, the second 8, ... has the address of row i of a matrix."""
    count = int(next(mark for mark in marks if mark in ("x1", "x2", "x4"))[1])
    starts = waves_of(machine, mask)
    used = np.zeros(machine.team.lanes, bool)
    used[(starts[:, None] + LANE[: 8 * count]).reshape(-1)] = True
    words, undefined = machine.memory.load("shared", address, used, np.uint32, 4)
    rows = np.stack(words, 1).view(np.uint16)  # [lanes][8]
    results = []
    for i in range(count):
        matrix = rows[starts[:, None] + LANE[:8] + 8 * i]  # [waves][8][8]
        if "trans" in marks:
            matrix = matrix.swapaxes(1, 2)
        pairs = np.ascontiguousarray(matrix).view(np.uint32)
        result = np.zeros(machine.team.lanes, np.uint32)
        result[starts[:, None] + LANE] = pairs[:, LANE // 4, LANE % 4]
        results.append(result)
    if undefined is not None:
        wave = np.zeros(machine.team.lanes, bool)
        for start in starts:
            wave[start : start + WAVE] = undefined[start : start + WAVE].any()
        undefined = wave
    return results, undefined


def shuffle(machine, marks, value, other, limits):
    """shfl.sync: the value of another lane, and whether that lane is in range."""
    lane = machine.team.item.astype(np.int64) % WAVE
    other = np.broadcast_to(other, machine.team.lanes).astype(np.int64) & 31
    limits = np.broadcast_to(limits, machine.team.lanes).astype(np.int64)
    segment, clamp = limits >> 8 & 31, limits & 31
    highest, lowest = lane & segment | clamp & ~segment, lane & segment
    how = next(mark for mark in marks if mark in ("up", "down", "bfly", "idx"))
    wanted = {"up": lane - other, "down": lane + other, "bfly": lane ^ other}.get(
        how, lowest | other & ~segment
    )
    inside = wanted >= highest if how == "up" else wanted <= highest
    wanted = np.where(inside, wanted, lane)
    return lanes_of(machine, value)[machine.team.every - lane + wanted], inside


# ---- cp.async: what it copies is in local memory after the wait, not before
def copy_later(machine, to, source, size, count, mask):
    lanes = machine.team.lanes
    mask = np.ones(lanes, bool) if mask is None else mask
    to = np.array(np.broadcast_to(to, lanes))
    words = size // 4
    values = np.zeros((lanes, words), np.uint32)
    count = np.broadcast_to(count, lanes)
    if (count[mask] % 4 != 0).any():
        raise ValueError("parts of words")
    for i in range(words):
        read = mask & (count > 4 * i)
        if read.any():
            at = np.broadcast_to(source, lanes) + np.uint64(4 * i)
            values[:, i] = machine.memory.load("global", at, read, np.uint32)[0][0]
    # The destination counts as undefined until then.
    ones = [np.uint32(0xAAAAAAAA)] * words
    machine.memory.store("shared", to, mask, np.uint32, ones, mask)
    machine.copies.append((to, values, mask))


def commit(machine, mask):
    """Makes a group of the copies of these lanes since the last commit."""
    mask = np.ones(machine.team.lanes, bool) if mask is None else mask
    group = [copy for copy in machine.copies if (copy[2] & mask).any()]
    machine.copies = [copy for copy in machine.copies if not (copy[2] & mask).any()]
    machine.later.append((mask, group))


def wait(machine, keep, everything, mask):
    """Completes all groups of these lanes except the last `count`."""
    if everything:
        commit(machine, mask)
    mine = [each for each in machine.later if mask is None or (each[0] & mask).any()]
    due = mine[: len(mine) - keep]
    machine.later = [each for each in machine.later if not any(each is other for other in due)]
    for _, group in due:
        for to, values, lanes in group:
            machine.memory.store("shared", to, lanes, np.uint32, list(values.T))
