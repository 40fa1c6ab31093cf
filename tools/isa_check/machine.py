"""Executes a kernel. Some work-groups form a team, which executes the code together; a register is
an array over the team's work-items. If a branch divides them, those with the lowest position in the
code go first, so that they meet again. All work-items of a group must arrive at a barrier.

With `order="random"`, waves of 32 work-items go alone from barrier to barrier, in random order.
Work-groups are always taken in random order. The seed decides.
"""

import numpy as np
from analysis import Code
from memory import Block, Fault

WAVE = 32
MOST_LANES = 4096


class TooLong(Exception):
    """The launch did not end within the limit of instructions."""


class Team:
    """Some work-groups, and the ids of their lanes."""

    def __init__(self, groups, size, total, interval):
        self.groups, self.size = groups, size
        self.lanes = len(groups) * size
        self.every = np.arange(self.lanes)
        self.group_of = self.every // size
        self.item = (self.every % size).astype(np.uint32)
        self.wave_of = self.group_of * -(-size // WAVE) + self.item // WAVE
        self.total, self.window = total, 0
        # The numbers of the lanes in the launch.
        self.place = np.asarray(groups)[self.group_of] * size + self.item
        self.set_interval(interval)

    def set_interval(self, interval):
        """Sets the tags of the interval between two barriers. A tag is 1 + interval * period + n.
        For a work-item, n is its number in the launch. For a group, n is the number of all
        work-items plus the number of the group's first work-item."""
        self.period = 2 * self.total
        self.interval = interval
        self.interval_start = interval * self.period + 1
        self.tags = self.interval_start + self.place

    def group_of_tag(self, tags):
        return (tags - 1) % self.period % self.total // self.size

    def tag_of_group(self, group):
        return self.interval_start + self.total + group * self.size

    def name(self, lanes):
        return self.name_of_tag(int(self.tags[lanes[0]]))

    def name_of_tag(self, tag):
        if tag < 0:
            return "work-items of several groups"
        place = (tag - 1) % self.period
        who = place % self.size if place < self.total else "several"
        return f"work-item {who} of group {place % self.total // self.size}"


class Machine:
    def __init__(self, kernel, memory, order="together", seed=0, most=None, costs=None):
        self.kernel, self.memory, self.order = kernel, memory, order
        self.random = np.random.default_rng(seed)
        self.code = Code(kernel)
        self.instructions, self.most = 0, most
        self.costs = memory.costs = costs

    def run(self, global_size, local_size, arguments, local_sizes):
        """`arguments`: bytes of all parameters; `local_sizes`: {parameter: bytes}."""
        counts = [whole // part for whole, part in zip(global_size, local_size, strict=True)]
        size, total = int(np.prod(local_size)), int(np.prod(global_size))
        order = self.random.permutation(int(np.prod(counts)))
        together = max(MOST_LANES // size, 1)
        self.parameters = arguments
        names = self.addresses_of_constants()
        before = len(self.memory.blocks)
        interval = 0
        with np.errstate(all="ignore"):
            for first in range(0, len(order), together):
                groups = order[first : first + together]
                team = self.team = self.memory.team = Team(groups, size, total, interval)
                registers = self.code.fresh_registers()
                for name, value in (names | self.specials(counts, local_size)).items():
                    self.code.set(registers, name, value)
                self.place_variables(registers, local_sizes)
                self.run_team(registers)
                interval = team.interval + 1
                self.memory.remove_from(before)
        return self.instructions

    # ---- initial values of registers
    def addresses_of_constants(self):
        found = {}
        for variable in self.kernel.variables:
            if variable.values is not None:
                block = Block(variable.name, "const", variable.values)
                found[variable.name] = np.uint64(self.memory.add(block))
        block = np.frombuffer(self.parameters, np.uint8)
        base = self.memory.add(Block("the parameters", "param", block))
        for parameter in self.kernel.parameters:
            found[parameter.name] = np.uint64(base + parameter.offset)
        return found

    def specials(self, counts, local_size):
        team, values = self.team, {}
        x, y = local_size[0], local_size[1]
        inside = (team.item % x, team.item // x % y, team.item // (x * y))
        groups = np.asarray(team.groups)
        outside = (
            groups % counts[0],
            groups // counts[0] % counts[1],
            groups // (counts[0] * counts[1]),
        )
        for axis, item, group, count, size in zip(
            "xyz", inside, outside, counts, local_size, strict=True
        ):
            one = len(groups) == 1
            number = np.uint32(group[0]) if one else group[team.group_of].astype(np.uint32)
            values |= {f"%tid.{axis}": item, f"%ctaid.{axis}": number}
            values |= {f"%ntid.{axis}": np.uint32(size), f"%nctaid.{axis}": np.uint32(count)}
        return values | {"%laneid": team.item % np.uint32(WAVE), "WARP_SZ": np.uint32(WAVE)}

    def place_variables(self, registers, local_sizes):
        """Local memory has a part for each group, and private memory one for each work-item."""
        team, at, places = self.team, 0, {}
        sizes = [(v.name, v.size) for v in self.kernel.variables if v.space == "shared"]
        for name, size in [*sizes, *local_sizes.items()]:
            places[name], at = at, at + -(-size // 16) * 16
        data = np.full(at * len(team.groups), 0xAA, np.uint8)
        block = Block("local memory", "shared", data, len(team.groups), self.code.granule)
        team.window = self.memory.add(block)
        lanes = (team.window + team.group_of * block.stride).astype(np.uint64)
        for name, offset in places.items():
            base = lanes[:1] if len(team.groups) == 1 else lanes
            value = base + np.uint64(offset)
            self.code.set(registers, name, value[0] if len(value) == 1 else value)
        self.shared_parameters = {name: lanes + np.uint64(places[name]) for name in local_sizes}
        for variable in self.kernel.variables:
            if variable.space == "local":
                data = np.full(variable.size * team.lanes, 0xAA, np.uint8)
                block = Block("private memory", "local", data, team.lanes, 0)
                lanes = self.memory.add(block) + team.every * block.stride
                self.code.set(registers, variable.name, lanes.astype(np.uint64))

    def parameter(self, name, offset, kind):
        """A parameter's value, or a part of it."""
        if name in self.shared_parameters:
            return self.shared_parameters[name]
        found = next(p for p in self.kernel.parameters if p.name == name)
        return np.frombuffer(self.parameters, kind, 1, found.offset + offset)[0]

    # ---- control flow
    def run_team(self, registers):
        self.registers, self.copies, self.later = registers, [], []
        self.packed = {}  # for packed registers: the lanes in which each part is undefined
        self.undefined = {
            index: np.ones(self.team.lanes, bool) for index in self.code.maybe_undefined
        }
        starts = {0: None}
        while starts:
            arrived = {}
            for fronts in self.turns(starts):
                self.run_fronts(fronts, arrived)
            starts = self.released(arrived)

    def turns(self, starts):
        """Yields the fronts {block: mask} that run until they wait: of the team, or of one wave."""
        waves = int(self.team.wave_of[-1]) + 1
        if self.order != "random" or waves == 1:
            yield dict(starts)
            return
        for wave in self.random.permutation(waves):
            mine = self.team.wave_of == wave
            fronts = {b: mine if mask is None else mask & mine for b, mask in starts.items()}
            yield {block: mask for block, mask in fronts.items() if mask.any()}

    def run_fronts(self, fronts, arrived):
        blocks, costs = self.kernel.blocks, self.costs
        waiting = {}  # {block: lanes that wait for the other lanes of their wave}
        while fronts or waiting:
            if not fronts:
                self.fault_of_waiting(waiting)
            number = min(fronts)
            mask = fronts.pop(number)
            if number == len(blocks):
                continue  # the kernel ends for these lanes
            block = blocks[number]
            if block.is_convergent:
                mask = self.whole_waves(number, mask, waiting)
                if mask is False:
                    continue
            self.instructions += len(block.instructions)
            if self.most and self.instructions > self.most:
                raise TooLong(f"more than {self.most} instructions of work-groups")
            if costs:
                costs.block(self.team, block, mask)
            taken = self.code.function(number, mask is not None)(self, mask)
            last = block.instructions[-1]
            if last.is_barrier:
                add(arrived, block.next, mask)
            elif taken is None:
                add(fronts, block.next, mask)
            elif taken is True:
                add(fronts, len(blocks) if block.target is None else block.target, mask)
            else:
                end = len(blocks) if block.target is None else block.target
                there = taken if mask is None else taken & mask
                rest = ~taken if mask is None else mask & ~taken
                if there.any():
                    add(fronts, end, None if there.all() else there)
                if rest.any():
                    add(fronts, block.next, None if rest.all() else rest)

    def whole_waves(self, number, mask, waiting):
        """The lanes whose wave is complete; the others wait. False: there are none."""
        if mask is None and self.team.size % WAVE == 0:
            return mask
        mask = np.ones(self.team.lanes, bool) if mask is None else mask
        mask = mask | waiting.pop(number, False)
        counts = np.bincount(self.team.wave_of, mask)
        whole = mask & (counts == WAVE)[self.team.wave_of]
        if (mask & ~whole).any():
            waiting[number] = mask & ~whole
        return whole if whole.any() else False

    def fault_of_waiting(self, waiting):
        number, mask = next(iter(waiting.items()))
        lane = np.flatnonzero(mask)[:1]
        count = int((mask & (self.team.wave_of == self.team.wave_of[lane[0]])).sum())
        text = self.kernel.blocks[number].instructions[0].text
        raise Fault(
            f"{count} of the {WAVE} work-items of a wave reach {text.split(' ')[0]}, one of them "
            f"is {self.team.name(lane)}"
        )

    def released(self, arrived):
        """The fronts after the barrier, at which each group that arrived must be complete."""
        if not arrived:
            return {}
        for block, mask in arrived.items():
            if mask is None:
                continue
            counts = np.bincount(self.team.group_of, mask)
            partial = (counts != 0) & (counts != self.team.size)
            if partial.any():
                group = int(np.flatnonzero(partial)[0])
                raise Fault(
                    f"{int(counts[group])} of the {self.team.size} work-items of group "
                    f"{self.team.groups[group]} reach the barrier before block {block}"
                )
        self.team.set_interval(self.team.interval + 1)
        return arrived

    # ---- undefined values
    def follow(self, target, sources, mask, absorbing=None):
        """Notes the lanes in which an instruction's result depends on undefined values."""
        undefined, found = self.undefined, None
        for source in sources:
            if source in undefined:
                lanes = undefined[source]
                if absorbing is not None:  # another operand alone decides the result
                    other = self.registers[sources[0] if source == sources[1] else sources[1]]
                    lanes = lanes & (other != absorbing)
                found = lanes if found is None else found | lanes
        self.set_undefined(target, found, mask)

    def follow_packing(self, target, parts, mask):
        """mov of {parts} to a register: which of them is undefined stays known."""
        none = np.zeros(self.team.lanes, bool)
        old = self.packed.get(target) or [self.undefined.get(target, none)] * len(parts)
        found = [self.undefined.get(part, none) for part in parts]
        if mask is not None:
            found = [np.where(mask, new, each) for new, each in zip(found, old, strict=True)]
        self.set_undefined(target, np.logical_or.reduce(found), None)
        if target in self.undefined:
            self.packed[target] = found

    def follow_unpacking(self, target, source, place, count, mask):
        """mov of a register to {count parts}: the one at a place."""
        parts = self.packed.get(source, ())
        whole = self.undefined.get(source)
        self.set_undefined(target, parts[place] if len(parts) == count else whole, mask)

    def set_undefined(self, target, lanes, mask):
        old = self.undefined.get(target)
        self.packed.pop(target, None)
        if lanes is None and old is None:
            return
        if mask is not None:
            lanes = (False if lanes is None else lanes) & mask
            lanes = lanes if old is None else lanes | old & ~mask
        if lanes is None or not lanes.any():
            self.undefined.pop(target, None)
        else:
            self.undefined[target] = lanes

    def follow_choice(self, target, sources, chooser, mask):
        """selp"""
        undefined = self.undefined
        none = np.zeros(self.team.lanes, bool)
        first, second = (undefined.get(source, none) for source in sources)
        lanes = np.where(self.registers[chooser], first, second) | undefined.get(chooser, none)
        self.set_undefined(target, lanes, mask)

    def must_be_defined(self, sources, mask, text):
        for source in sources:
            lanes = self.undefined.get(source)
            if lanes is not None:
                wrong = np.flatnonzero(lanes if mask is None else lanes & mask)
                if len(wrong):
                    raise Fault(f"uninitialised: {text}, by {self.team.name(wrong[:1])}")


def add(fronts, block, mask):
    """Joins arriving lanes with those that wait at the block."""
    if block in fronts:
        there = fronts[block]
        mask = None if mask is None or there is None else mask | there
        mask = None if mask is None or mask.all() else mask
    fronts[block] = mask
