"""The time of a launch on a device, from the recorder's counts.

time = launch + max(memory, cache, requests, arithmetic, local, latency)

memory       bytes of main memory / 90 % of the bandwidth, which copies reach. A range of memory
             that fits into half of the second level cache is loaded once; of a larger range, each
             group loads what it touches. The same holds for stores.
cache        bytes that the groups load, each group once, and the lines that requests store, at 32
             bytes in a cycle of a unit.
requests     a unit looks up a line of a request in each cycle, and in 8 for an atomic operation.
arithmetic   instructions of wavefronts, by the costs below, with all lanes of the device: idle
             lanes take as long as active ones.
local        cycles of the busiest bank of local memory, conflicts included.
latency      a wavefront waits for memory once for each run of code without branches that loads,
             and for each barrier. Wavefronts that are resident together wait together.

Units work in rounds: the busiest one has ceil(groups / units) groups. With fewer wavefronts on a
unit than its device file says (`fill`), arithmetic is slower in proportion.

Assumptions, the same for all devices: the constants below, and 64 registers if no compiler's figure
is known. Instructions are those of LLVM after its optimizations: a GPU's compiler merges some, and
needs more for others. Clocks are the highest of the specification.
"""

import dataclasses
import math
import pathlib
import tomllib

DEVICES = pathlib.Path(__file__).resolve().parent / "devices"
LINES = (32, 64, 128)
# Cycles in units of a float32 multiply-add.
COSTS = {
    "float": 1,
    "double": 16,
    "native": 4,
    "math": 16,
    "int": 1,
    "multiply": 2,
    "divide": 20,
    "long": 2,
    "long_multiply": 6,
    "long_divide": 80,
    "address": 2,
    "control": 1,
    "barrier": 1,
    "global": 1,
    "local": 1,
    "constant": 1,
    "private": 4,
}
CACHE_BYTES = 32
ATOMIC_CYCLES = 8
BARRIER_NS = 60  # with the read of local memory before it, about 100 cycles
SUSTAINED = 0.9
REGISTERS = 64


@dataclasses.dataclass(frozen=True)
class Device:
    name: str
    target: str
    width: int
    units: int
    lanes: int
    clock_mhz: float
    bandwidth_gb: float
    l2_kb: int
    line: int
    local_kb: int
    local_bytes_per_clock: int
    waves: int
    groups: int
    registers: int
    latency_ns: float
    launch_us: float
    fill: int
    sources: str

    @property
    def flops(self):
        return 2 * self.lanes * self.units * self.clock_mhz * 1e6

    @property
    def hertz(self):
        return self.clock_mhz * 1e6


def load_devices(folder=DEVICES):
    """{name of the file: Device}"""
    files = sorted(folder.glob("*.toml"))
    return {file.stem: Device(**tomllib.loads(file.read_text())) for file in files}


@dataclasses.dataclass
class Estimate:
    """Seconds, and shares from 0 to 1."""

    terms: dict  # seconds by name
    launch: float
    ideal: float  # the kernel's bytes and operations at the device's peaks
    memory: float  # needed bytes / moved bytes of the requests
    lanes: float  # active lanes of the instructions
    banks: float  # local memory: passes without conflicts / cycles
    occupancy: float
    flops: float

    @property
    def kernel(self):
        return max(self.terms.values())

    @property
    def time(self):
        return self.launch + self.kernel

    @property
    def bound(self):
        return max(self.terms, key=self.terms.get)

    @property
    def roofline(self):
        return min(1.0, self.ideal / self.kernel) if self.kernel else 1.0


def resident_groups(device, launch, registers=None):
    """How many groups fit on a unit at once."""
    items = math.prod(launch["local"])
    waves = math.ceil(items / device.width)
    room = [device.groups, device.waves // waves]
    room.append(device.registers // max(registers or REGISTERS, 1) // waves)
    if launch["local_bytes"]:
        room.append(device.local_kb * 1024 // launch["local_bytes"])
    return max(1, min(room))


def memory_bytes(device, regions):
    """Bytes of main memory: loaded and stored."""

    def once(size, touched):
        return min(size, touched) if size <= device.l2_kb * 1024 / 2 else touched

    return sum(once(size, loaded) + once(size, stored) for size, loaded, stored in regions)


def ratio(part, whole):
    return part / whole if whole else 1.0


def estimate(device, launch, registers=None):
    """The launch: a row of the recorder's log. `registers`: of a work-item, from a compiler."""
    counts = launch["widths"][str(device.width)]
    groups, waves = launch["groups"], max(counts["waves"], 1)
    busiest = math.ceil(groups / device.units)
    share = busiest / groups  # share of all work that the busiest unit has
    resident = min(resident_groups(device, launch, registers), busiest)
    rounds = math.ceil(busiest / resident)

    lines = 2 + LINES.index(device.line)
    kinds = {kind: counts[kind] for kind in ("load", "store", "atomic")}
    loaded = sum(row[1] for row in launch["regions"])
    stored = (kinds["store"][lines] + kinds["atomic"][lines]) * device.line
    looked_up = sum(row[lines] for row in kinds.values())
    looked_up += (ATOMIC_CYCLES - 1) * kinds["atomic"][lines]

    issued = sum(COSTS[name] * count for name, count in counts["issued"].items())
    fill = min(1.0, resident * waves / groups / device.fill)
    local_cycles = counts["local"][2] * 128 / device.local_bytes_per_clock
    waits = counts["waits"] / waves * device.latency_ns
    waits += launch["barriers"] / groups * BARRIER_NS

    in_unit = share / device.hertz
    terms = {
        "memory": memory_bytes(device, launch["regions"]) / (device.bandwidth_gb * 1e9 * SUSTAINED),
        "cache": (loaded + stored) / CACHE_BYTES * in_unit,
        "requests": looked_up * in_unit,
        "arithmetic": issued * device.width / device.lanes * in_unit / fill,
        "local": local_cycles * in_unit,
        "latency": rounds * waits * 1e-9,
    }
    least = sum(min(size, a) + min(size, b) for size, a, b in launch["regions"])
    moved = sum(row[lines] for row in kinds.values()) * device.line
    return Estimate(
        terms=terms,
        launch=device.launch_us * 1e-6,
        ideal=max(least / (device.bandwidth_gb * 1e9), counts["flops"] / device.flops),
        memory=ratio(sum(row[1] for row in kinds.values()), moved),
        lanes=ratio(sum(counts["lanes"].values()), sum(counts["issued"].values()) * device.width),
        banks=ratio(counts["local"][1], counts["local"][2]),
        occupancy=resident_groups(device, launch, registers)
        * math.ceil(math.prod(launch["local"]) / device.width)
        / device.waves,
        flops=counts["flops"],
    )
