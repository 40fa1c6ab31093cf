"""CUDA_VISIBLE_DEVICES: numbers among the devices that OCL_VISIBLE_DEVICES shows.

The backend reads OCL_VISIBLE_DEVICES from the C environment. Only that is changed: os.environ keeps
the user's values, so a child process that gets a copy of it starts from them. CUDA_VISIBLE_DEVICES
is removed from the C environment, because a driver might apply it a second time.
"""

import os

import torch

_CUDA, _OCL = "CUDA_VISIBLE_DEVICES", "OCL_VISIBLE_DEVICES"
_NONE = f"none, because {_CUDA} shows none"  # an error reports it

_applied = None  # the value that the C environment has


def hides_all() -> bool:
    """Whether CUDA_VISIBLE_DEVICES shows no device."""
    value = os.environ.get(_CUDA)
    return value is not None and not _numbers(value)


def _numbers(value: str) -> list[int]:
    """Parses it as CUDA does: the numbers before the first negative one."""
    numbers = []
    for part in filter(None, (part.strip() for part in value.split(","))):
        if not part.lstrip("-").isdigit():
            raise ValueError(
                f'{_CUDA}="{value}" names the device "{part}": OpenCL has no such names, use '
                "numbers, as in 0,2"
            )
        if int(part) < 0:
            break
        numbers.append(int(part))
    return numbers


def apply() -> None:
    """Applies the variable's value, which programs may change until devices are used."""
    global _applied
    value = os.environ.get(_CUDA)
    if value == _applied or torch.ocl.is_initialized():
        return
    if value is None:
        shown = os.environ.get(_OCL)
        os.unsetenv(_OCL) if shown is None else os.putenv(_OCL, shown)
    else:
        os.putenv(_OCL, _chosen(_numbers(value), os.environ.get(_OCL, "")))
        os.unsetenv(_CUDA)
    _applied = value


def _chosen(numbers: list[int], shown: str) -> str:
    among = [part.strip() for part in shown.split(",") if part.strip()]
    if not among:
        return ",".join(map(str, numbers)) or _NONE
    for number in numbers:
        if number >= len(among):
            raise ValueError(
                f"{_CUDA} names device {number}, but {_OCL}={shown} shows {len(among)} devices"
            )
    return ",".join(among[number] for number in numbers) or _NONE
