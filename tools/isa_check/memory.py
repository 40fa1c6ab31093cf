"""The memory of a launch. An address has the number of its block in the upper bits, so that an
access beyond a block's end cannot reach another one. Every access is checked: bounds, alignment,
the address space, and whether another work-item may access the same bytes at the same time."""

import numpy as np
from races import Tracker

SHIFT = np.uint64(36)
INSIDE = np.uint64((1 << 36) - 1)


class Fault(Exception):
    """The kernel does something whose result on a GPU is undefined."""


class Block:
    """A block of memory. It has `parts` equal parts: for local memory one for each work-group, for
    private memory one for each work-item."""

    def __init__(self, name, space, data, parts=1, granule=0):
        self.name, self.space, self.parts = name, space, parts
        self.size = len(data) // parts
        self.stride = -(-self.size // 16) * 16  # bytes from a part to the next one
        self.data = np.zeros(self.stride * parts + 16, np.uint8)
        self.data.reshape(-1)[: self.stride * parts].reshape(parts, -1)[:, : self.size] = (
            data.reshape(parts, -1)
        )
        self.granule = granule  # log2 of the bytes that share a mark
        marks = len(self.data) >> granule
        self.defined = np.zeros(marks, bool) if space in ("shared", "local") else None
        self.kinds = np.zeros(marks, np.uint8) if space == "global" else None
        self.tracker = Tracker(marks) if space in ("shared", "global") else None
        self.views = {}

    def view(self, kind, count):
        """The data as elements, or as rows of `count` elements."""
        if (kind, count) not in self.views:
            size = kind().itemsize * count
            data = self.data[: len(self.data) // size * size].view(kind)
            self.views[kind, count] = data if count == 1 else data.reshape(-1, count)
        return self.views[kind, count]

    def bytes(self):
        return self.data[: self.size]


# The mark in Block.kinds for stores of a type.
KINDS = {kind: i for i, kind in enumerate(("", "u8", "u16", "u32", "u64", "f32", "f64"))}


class Memory:
    def __init__(self, watch_races=True):
        self.blocks, self.watch_races, self.costs = [], watch_races, None
        self.team = None  # the Team (machine.py) whose lanes access the memory

    def add(self, block):
        self.blocks.append(block)
        return len(self.blocks) << int(SHIFT)  # block 0 is where NULL points

    def remove_from(self, count):
        del self.blocks[count:]

    def fault(self, text, address, lanes):
        at = int(address) & int(INSIDE)
        number = (int(address) >> int(SHIFT)) - 1
        name = "no buffer"
        if 0 <= number < len(self.blocks):
            block = self.blocks[number]
            name = f"{block.name} of {block.size} bytes"
            at = at % block.stride if block.parts > 1 else at
        raise Fault(f"{text} at byte {at} of {name}, by {self.team.name(lanes)}")

    def places(self, space, address, mask, size, what):
        """-> [(block, active lanes as an index, byte offsets)]"""
        team = self.team
        address = np.broadcast_to(address, team.lanes)
        lanes = team.every if mask is None else np.flatnonzero(mask)
        if mask is not None:
            address = address[lanes]
        if space == "shared":  # ldmatrix and cp.async take the lower 32 bits
            address = np.where(address >> SHIFT == 0, address + np.uint64(team.window), address)
        numbers = address >> SHIFT
        first = numbers[0]
        if (numbers == first).all():
            return [self.place(space, int(first), address, lanes, size, what)]
        return [
            self.place(space, int(n), address[numbers == n], lanes[numbers == n], size, what)
            for n in np.unique(numbers)
        ]

    def place(self, space, number, address, lanes, size, what):
        if not 0 < number <= len(self.blocks):
            self.fault(what, address[0], lanes[:1])
        block = self.blocks[number - 1]
        if space and space != block.space and not (space == "global" and block.space == "const"):
            self.fault(f"{what} in {space} memory, but", address[0], lanes[:1])
        offset = (address & INSIDE).astype(np.int64)
        within = offset
        if block.parts > 1:
            own = self.team.group_of[lanes] if block.space == "shared" else lanes
            within = offset - own * block.stride
        wrong = (within < 0) | (within > block.size - size)
        if wrong.any():
            at = np.flatnonzero(wrong)[0]
            self.fault(f"{what} of {size} bytes out of bounds", address[at], lanes[at : at + 1])
        if (offset & (size - 1)).any():
            at = np.flatnonzero(offset & (size - 1))[0]
            self.fault(f"misaligned {what} of {size} bytes", address[at], lanes[at : at + 1])
        return block, lanes, offset

    def marks(self, block, offset, size):
        """The granules of each lane's bytes, as [lanes, count]."""
        count = max(size >> block.granule, 1)
        first = offset >> block.granule
        return first[:, None] if count == 1 else first[:, None] + np.arange(count)

    def load(self, space, address, mask, kind, count=1, volatile=False):
        """-> ([an array for each of `count` elements], lanes whose value is undefined, or None)"""
        size = kind().itemsize * count
        places = self.places(space, address, mask, size, "read")
        if self.costs:
            self.costs.access(self.team, places, size, is_store=False)
        found, undefined = np.zeros((self.team.lanes, count), kind), None
        for block, lanes, offset in places:
            values = block.view(kind, count)[offset // size]
            found[lanes] = values[:, None] if count == 1 else values
            if block.tracker is not None or block.defined is not None:
                marks = self.marks(block, offset, size)
                if block.tracker is not None and self.watch_races:
                    block.tracker.read(self.team, marks, lanes, block, volatile)
                if block.defined is not None and not block.defined[marks].all():
                    undefined = np.zeros(self.team.lanes, bool) if undefined is None else undefined
                    undefined[lanes] = ~block.defined[marks].all(1)
        return [found[:, i] for i in range(count)], undefined

    def store(self, space, address, mask, kind, values, undefined=None, volatile=False, mark=None):
        """`values`: an array for each element; `undefined`: the lanes whose value is undefined;
        `mark`: the type of the numbers, one of KINDS."""
        count = len(values)
        size = kind().itemsize * count
        places = self.places(space, address, mask, size, "write")
        if self.costs:
            self.costs.access(self.team, places, size, is_store=True)
        rows = np.empty((self.team.lanes, count), kind)
        for i, each in enumerate(values):
            rows[:, i] = each
        for block, lanes, offset in places:
            if block.space in ("const", "param"):
                self.fault("write", int(block.data[0]), lanes[:1])
            wrong = undefined is not None and undefined[lanes].any()
            if wrong and block.space == "global":
                who = self.team.name(lanes[undefined[lanes]][:1])
                raise Fault(f"an uninitialised value is written to {block.name}, by {who}")
            new = rows[lanes, 0] if count == 1 else rows[lanes]
            view, at = block.view(kind, count), offset // size
            marks = self.marks(block, offset, size)
            track = block.tracker is not None and self.watch_races
            same = view[at] == new if track else None
            view[at] = new
            if track and volatile:
                block.tracker.access_atomically(self.team, marks, lanes, block)
            elif track:
                same_now = (view[at] == new) | (new != new)
                same = same if count == 1 else same.all(1)
                same_now = same_now if count == 1 else same_now.all(1)
                block.tracker.write(self.team, marks, lanes, block, same, same_now)
            if block.defined is not None:
                block.defined[marks] = True if not wrong else ~undefined[lanes][:, None]
            if block.kinds is not None:
                block.kinds[marks] = KINDS[mark]

    def atomic(self, space, address, mask, kind, mark, change, order):
        """change(lane, old) -> new, of the type `mark` of KINDS. -> each lane's old value"""
        size = kind().itemsize
        old = np.zeros(self.team.lanes, kind)
        places = self.places(space, address, mask, size, "atomic access")
        if self.costs:
            self.costs.access(self.team, places, size, is_store=True)
        for block, lanes, offset in places:
            marks = self.marks(block, offset, size)
            if block.tracker is not None and self.watch_races:
                block.tracker.access_atomically(self.team, marks, lanes, block)
            if block.defined is not None and not block.defined[marks].all():
                self.fault("atomic access to uninitialised bytes", offset[0], lanes[:1])
            view, at = block.view(kind, 1), offset // size
            for i in order(len(lanes)):
                old[lanes[i]] = view[at[i]]
                view[at[i]] = change(lanes[i], view[at[i]])
            if block.kinds is not None:
                block.kinds[marks] = KINDS[mark]
        return old
