"""Counts the costs of the executed instructions: instructions of waves, sectors of 32 bytes of
global memory, and extra cycles of local memory because of bank conflicts."""

import numpy as np

WAVE, SECTOR, BANKS, WORD = 32, 32, 32, 4


class Costs:
    NAMES = ("instructions", "fma", "requests", "sectors", "needed", "local", "turns")

    def __init__(self):
        self.counts = dict.fromkeys(self.NAMES, 0)

    def add(self, other):
        for name in self.NAMES:
            self.counts[name] += other.counts[name]

    def block(self, team, block, mask):
        waves = int(team.wave_of[-1]) + 1
        if mask is not None:
            waves = len(np.unique(team.wave_of[mask]))
        self.counts["instructions"] += waves * len(block.instructions)
        self.counts["fma"] += waves * block.multiply_adds()

    def access(self, team, places, size, is_store):
        for block, lanes, offset in places:
            waves = team.wave_of[lanes].astype(np.int64)
            if block.space == "global":
                sectors = waves << 36 | offset // SECTOR
                self.counts["requests"] += len(np.unique(waves))
                self.counts["sectors"] += len(np.unique(sectors))
                self.counts["needed"] += len(np.unique(waves << 36 | offset // size)) * size
            elif block.space == "shared":
                self.count_banks(waves, team.item[lanes] % WAVE, offset, size)

    def count_banks(self, waves, lanes, offset, size):
        """Counts bank conflicts. Wide accesses of a wave are split into parts of 128 bytes."""
        words = max(size // WORD, 1)
        if words > 1:
            waves = waves * words + lanes // (WAVE // words)
        found = np.unique(np.concatenate([waves << 36 | offset // WORD + i for i in range(words)]))
        part, word = found >> 36, found & (1 << 36) - 1
        _, index = np.unique(part, return_inverse=True)
        counts = np.zeros((index.max() + 1, BANKS), np.int64)
        np.add.at(counts, (index, word % BANKS), 1)
        self.counts["local"] += len(counts)
        self.counts["turns"] += int(counts.max(1).sum())


def print_costs(costs):
    row = "{:40} {:6} {:>12} {:>6} {:>10} {:>10} {:>8} {:>10} {:>8}"
    print(
        row.format(
            "kernel",
            "target",
            "instructions",
            "fma",
            "requests",
            "sectors",
            "used",
            "local",
            "banks",
        )
    )
    for (kernel, target), found in sorted(costs.items()):
        c = found.counts
        fma = f"{c['fma'] / max(c['instructions'], 1):.0%}"
        used = f"{c['needed'] / max(c['sectors'] * SECTOR, 1):.0%}"
        banks = f"{c['local'] / max(c['turns'], 1):.0%}" if c["local"] else "-"
        print(
            row.format(
                kernel[:40],
                target,
                c["instructions"],
                fma,
                c["requests"],
                c["sectors"],
                used,
                c["local"],
                banks,
            )
        )
