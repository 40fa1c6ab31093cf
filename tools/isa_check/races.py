"""Data races: two work-items access the same bytes, one of them writes, and no barrier is between
them. Two writes of the same value are no race, and neither are two atomic accesses."""

import numpy as np


class Race(Exception):
    """Two accesses without an order."""


class Tracker:
    """The last work-item that accessed each granule, as a tag of machine.Team. 0: none."""

    def __init__(self, count):
        self.writes = np.zeros(count, np.int64)
        # A group's tag: several of its work-items have read. -1: several groups have read.
        self.reads = np.zeros(count, np.int64)
        self.atomics = None

    def conflicts(self, old, tags, team, block):
        """The lanes, by their tags, whose access has no order relative to the access `old`."""
        now = (old >= team.interval_start) & (old != tags)
        if block.space == "shared":  # groups share none of it, and each team has new intervals
            return now
        earlier = (old > 0) & (old < team.interval_start)
        if earlier.any():
            now |= earlier & (team.group_of_tag(old) != team.group_of_tag(tags))
        return now | (old < 0)

    def fail(self, where, old, marks, lanes, team, block, text):
        row = np.flatnonzero(where.any(1))[0]
        column = np.flatnonzero(where[row])[0]
        byte = int(marks[row, column]) << block.granule
        byte = byte % block.stride if block.parts > 1 else byte
        raise Race(
            f"{text} byte {byte} of {block.name}: {team.name(lanes[row : row + 1])} and "
            f"{team.name_of_tag(int(old[row, column]))}"
        )

    def check(self, table, marks, lanes, team, block, text, allowed=None):
        old = table[marks]
        where = self.conflicts(old, team.tags[lanes][:, None], team, block)
        if allowed is not None:
            where &= ~allowed[:, None]
        if where.any():
            self.fail(where, old, marks, lanes, team, block, text)

    def read(self, team, marks, lanes, block, volatile):
        self.check(self.writes, marks, lanes, team, block, "a race of a read with a write of")
        if volatile:
            return
        if self.atomics is not None:
            text = "a race of a read with an atomic access to"
            self.check(self.atomics, marks, lanes, team, block, text)
        tags = np.broadcast_to(team.tags[lanes][:, None], marks.shape)
        old = self.reads[marks]
        several = self.conflicts(old, tags, team, block)
        self.reads[marks] = tags
        last = self.reads[marks]
        several |= last != tags  # several lanes of this instruction read the same bytes
        if not several.any():
            return
        group = team.group_of_tag(tags[several])
        new = team.tag_of_group(group)
        if block.space == "global":
            before, with_it = old[several], last[several]
            others = (before != 0) & (team.group_of_tag(before) != group)
            others |= (before < 0) | (team.group_of_tag(with_it) != group)
            new = np.where(others, -1, new)
        self.reads[marks[several]] = new

    def write(self, team, marks, lanes, block, same, same_now):
        """`same`: lanes that have stored the value that was there before; `same_now`: lanes whose
        value is in memory after the instruction."""
        if not same_now.all():
            row = np.flatnonzero(~same_now)[:1]
            raise Race(
                f"two work-items write different values to {block.name} in one instruction, one "
                f"of them is {team.name(lanes[row])}"
            )
        self.check(self.writes, marks, lanes, team, block, "a race of two writes of", same)
        self.check(self.reads, marks, lanes, team, block, "a race of a write with a read of", same)
        if self.atomics is not None:
            text = "a race of a write with an atomic access to"
            self.check(self.atomics, marks, lanes, team, block, text, same)
        self.writes[marks] = team.tags[lanes][:, None]

    def access_atomically(self, team, marks, lanes, block):
        self.check(
            self.writes, marks, lanes, team, block, "a race of an atomic access with a write of"
        )
        self.check(
            self.reads, marks, lanes, team, block, "a race of an atomic access with a read of"
        )
        if self.atomics is None:
            self.atomics = np.zeros_like(self.writes)
        self.atomics[marks] = team.tags[lanes][:, None]
