"""Seeds and states of the devices' random generators."""

from collections.abc import Iterable, Sequence

import torch

from torch_ocl import _C

from .devices import _index, device_count


class _DefaultGenerators(Sequence):
    """The default generator of each device, made at the first use."""

    def __len__(self):
        return device_count()

    def __getitem__(self, index):
        if isinstance(index, slice):
            return tuple(self[each] for each in range(*index.indices(len(self))))
        if index < 0:
            index += len(self)
        if not 0 <= index < len(self):
            raise IndexError(f"there is no device ocl:{index}")
        return _C.default_generator(index)


default_generators = _DefaultGenerators()


def _generator(device) -> torch.Generator:
    index = _index(device)
    if index > 0:
        _C.properties(index)  # raises where there is no such device
    return _C.default_generator(index)


def manual_seed(seed: int) -> None:
    """Seeds the current device's generator."""
    _generator(None).manual_seed(int(seed))


def manual_seed_all(seed: int) -> None:
    """Seeds the generators of all devices; torch.manual_seed calls this."""
    # It must start neither OpenCL nor a helper process that counts devices. Generators are cheap
    # and need no OpenCL, so it seeds one for each device that could exist.
    for index in range(_C.max_devices):
        _C.default_generator(index).manual_seed(int(seed))


def seed() -> int:
    """Seeds the current device's generator with a number from the system, and returns it."""
    return _generator(None).seed()


def seed_all() -> int:
    """Seeds all devices' generators with one number from the system, and returns it."""
    chosen = seed()
    manual_seed_all(chosen)
    return chosen


def initial_seed() -> int:
    """The seed of the current device's generator."""
    return _generator(None).initial_seed()


def get_rng_state(device="ocl") -> torch.Tensor:
    """State of the device's generator: a uint8 tensor of 16 elements on the CPU."""
    return _generator(device).get_state()


def get_rng_state_all() -> list[torch.Tensor]:
    return [get_rng_state(index) for index in range(device_count())]


def set_rng_state(new_state: torch.Tensor, device="ocl") -> None:
    """Sets the state of the device's generator. Raises ValueError for a state of another size."""
    _generator(device).set_state(new_state)


def set_rng_state_all(new_states: Iterable[torch.Tensor]) -> None:
    for index, state in enumerate(new_states):
        set_rng_state(state, index)
