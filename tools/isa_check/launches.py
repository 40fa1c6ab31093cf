"""A recorded launch (recorder.cpp), and how it is executed."""

import dataclasses
import pathlib

import numpy as np
from machine import Machine
from memory import Block, Memory


@dataclasses.dataclass
class Argument:
    kind: str  # buffer, value, local
    value: bytes = b""
    buffer: int = 0
    offset: int = 0
    size: int = 0  # bytes of local memory


class Launch:
    def __init__(self, path):
        self.path = pathlib.Path(path)
        head, _, contents = self.path.read_bytes().partition(b"\n\n")
        self.sizes, self.arguments, counts = [], [], []
        for line in head.decode().splitlines():
            word, _, rest = line.partition(" ")
            if word == "options":
                self.options = rest
            elif word == "kernel":
                self.kernel = rest
            elif word == "size":
                self.sizes.append(tuple(map(int, rest.split())))
            elif word == "memory":
                counts.append(int(rest.split()[1]))
            elif word == "buffer":
                number, offset, value = rest.split()
                found = Argument("buffer", bytes.fromhex(value), int(number), int(offset))
                self.arguments.append(found)
            elif word == "local":
                self.arguments.append(Argument("local", size=int(rest)))
            else:
                self.arguments.append(Argument("value", bytes.fromhex(rest)))
        self.sizes += [(1, 1, 0)] * (3 - len(self.sizes))
        self.before, self.after = [], []
        at = 0
        for buffers in (self.before, self.after):
            for count in counts:
                buffers.append(np.frombuffer(contents, np.uint8, count, at))
                at += count

    @property
    def source(self):
        return self.path.with_name(self.path.name.split("_")[0] + ".cl")


def execute(launch, kernel, **options):
    """-> (the blocks of the buffers, the machine)"""
    memory = Memory(watch_races=options.pop("watch_races", True))
    machine = Machine(kernel, memory, **options)
    granule = machine.code.granule
    blocks = [
        Block(f"buffer {i}", "global", data, granule=granule)
        for i, data in enumerate(launch.before)
    ]
    bases = [memory.add(block) for block in blocks]
    parameters, local_sizes = bytearray(), {}
    for argument, parameter in zip(launch.arguments, kernel.parameters, strict=True):
        value = argument.value
        if argument.kind == "local":
            local_sizes[parameter.name] = argument.size
        elif parameter.space:
            is_buffer = argument.kind == "buffer"
            value = (bases[argument.buffer] + argument.offset if is_buffer else 0).to_bytes(
                8, "little"
            )
        parameters.extend(b"\0" * (parameter.offset - len(parameters)))
        parameters.extend(value[: parameter.size].ljust(parameter.size, b"\0"))
    global_size, local_size, offsets = zip(*launch.sizes, strict=True)
    if any(offsets):
        raise ValueError("a global offset")
    machine.run(global_size, local_size, bytes(parameters), local_sizes)
    return blocks, machine
