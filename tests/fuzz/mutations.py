"""Recorded calls with one wrong argument: (what is wrong, new positional and named arguments)."""

import torch

INTEGERS = (0, -1, 2**31, 2**32 + 1, 2**62, -(2**63))
FLOATS = (0.0, -1.0, 1e300, float("nan"))
TYPES = {True: (torch.float64, torch.int64), False: (torch.int32, torch.float32)}
INDICES = (-1, 2**31, 2**32 + 1, 2**62, -(2**63))
STRINGS = ("", "mean", "none")
MOST_POSITIONS = 3  # of a list


def filled(like, shape):
    """A tensor of this shape with numbers of `like`."""
    count = torch.Size(shape).numel()
    numbers = like.reshape(-1)
    if numbers.numel() == 0:
        return torch.zeros(shape, dtype=like.dtype)
    return numbers.repeat(-(-count // numbers.numel()))[:count].reshape(shape)


def shapes_near(shape):
    """Wrong shapes, by what is wrong with them."""
    found = {"() numbers": (), "(0,) numbers": (0,), "(1,) numbers": (1,)}
    for d in range(min(len(shape), 4)):
        for size in (0, 1, shape[d] - 1, shape[d] + 1, 2 * shape[d]):
            if size >= 0 and size != shape[d]:
                found[f"size {size} at {d}"] = (*shape[:d], size, *shape[d + 1 :])
    if shape:
        found["no first dimension"] = shape[1:]
        found["no last dimension"] = shape[:-1]
        found["flat"] = (torch.Size(shape).numel(),)
        found["reversed"] = shape[::-1]
    found["one more dimension"] = (1, *shape)
    found["one more last dimension"] = (*shape, 1)
    found["many dimensions"] = (1,) * 7 + tuple(shape)
    return {name: each for name, each in found.items() if tuple(each) != tuple(shape)}


def wrong_tensors(x):
    for name, shape in shapes_near(tuple(x.shape)).items():
        yield name, filled(x, shape)
    for dtype in TYPES[x.is_floating_point()]:
        if dtype != x.dtype:
            yield str(dtype), x.to(dtype)
    yield "one number, expanded", filled(x, (1,) * x.dim()).expand(x.shape)
    if x.dim() > 1:
        yield "transposed in memory", x.transpose(0, -1).contiguous().transpose(0, -1)
    if x.dtype in (torch.int64, torch.int32, torch.uint8) and x.numel():
        for number in INDICES:
            number = number if x.dtype == torch.int64 else number % 200 - 100
            if x.dtype != torch.uint8 or number >= 0:
                yield f"all {number}", torch.full_like(x, number)
        yield "one more", x + 1
    if x.is_floating_point():
        for number in (float("nan"), -1.0, 1e30):  # 1e30 is infinite in float16
            yield f"all {number}", torch.full_like(x, number, dtype=torch.float64).to(x.dtype)
    yield "None", None


def wrong_lists(values):
    yield "empty list", values[:0]
    yield "shorter list", values[:-1]
    yield "longer list", [*values, *values[-1:]]
    positions = range(len(values)) if len(values) <= MOST_POSITIONS else (0, 1, len(values) - 1)
    for i in positions:
        for name, new in wrong_values(values[i]):
            yield f"[{i}]: {name}", [*values[:i], new, *values[i + 1 :]]


def wrong_values(value):
    """[(what is wrong, the wrong value)]"""
    if isinstance(value, torch.Tensor):
        yield from wrong_tensors(value)
    elif isinstance(value, bool):
        yield str(not value), not value
    elif isinstance(value, int):
        for number in dict.fromkeys((*INTEGERS, value + 1)):
            if number != value:
                yield str(number), number
    elif isinstance(value, float):
        yield from ((str(number), number) for number in FLOATS if number != value)
    elif isinstance(value, torch.dtype):
        yield from ((str(dtype), dtype) for dtype in TYPES[True] if dtype != value)
    elif isinstance(value, str):
        yield from ((repr(string), string) for string in STRINGS if string != value)
    elif isinstance(value, (list, tuple)) and value:
        yield from wrong_lists(list(value))
    elif value is None:
        yield "0 instead of None", 0
        yield "2^62 instead of None", 2**62
    if value is not None and not isinstance(value, torch.Tensor):
        yield "None", None


def mutated(call):
    """[(what is wrong, positional arguments, named arguments)] of a call, with it first"""
    _, args, kwargs = call
    yield "nothing", args, kwargs
    for i, value in enumerate(args):
        for what, new in wrong_values(value):
            yield f"argument {i}: {what}", (*args[:i], new, *args[i + 1 :]), kwargs
    for key, value in kwargs.items():
        for what, new in wrong_values(value):
            yield f"{key}: {what}", args, {**kwargs, key: new}
