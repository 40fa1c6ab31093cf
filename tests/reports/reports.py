"""Public reports of programs that torch.compile miscomputed, on any device: eager against compiled.

usage: reports.py [--only NUMBER ...] [--rows FIRST LAST] [--modes static dynamic]

A row of the tables (rows_*.py) is a program of our own for one report of
github.com/pytorch/pytorch: its number, the arguments, and a function. Where the eager function
raises, the compiled one must, too.
"""

import argparse
import collections
import contextlib
import dataclasses
import pathlib
import sys
import warnings

import torch
from torch.utils import _pytree as pytree

import torch_ocl  # noqa: F401 (the device, also where PyTorch has a GPU of its own)

sys.path.insert(0, str(pathlib.Path(__file__).parents[1] / "conformance"))
from comparing import Comparer, Mismatch

MODES = {"static": False, "dynamic": True}
TABLE = []


@dataclasses.dataclass
class Report:
    number: int
    arguments: tuple
    function: object = None
    differentiate: bool = False  # the gradients are results, too
    signs: bool = False  # zeros have the same sign
    near: tuple = (0.0, 0.0)  # at least this relative and absolute tolerance
    config: dict = dataclasses.field(default_factory=dict)  # of Inductor
    dynamo: dict = dataclasses.field(default_factory=dict)
    autocast: torch.dtype = None
    decided: str = ""  # why it may differ


def report(number, *arguments, **options):
    """report(number, arguments...)(function) is a row."""

    def add(function):
        TABLE.append(Report(number, arguments, function, **options))
        return function

    return add


def normal(*shape, dtype=torch.float32, seed=0):
    numbers = torch.randn(shape, generator=torch.Generator().manual_seed(seed), dtype=torch.float64)
    return numbers.to(dtype)


def whole(*shape, dtype=torch.int64, low=-8, high=8, seed=0):
    generator = torch.Generator().manual_seed(seed)
    return torch.randint(low, high, shape, generator=generator).to(dtype)


def values(*numbers, dtype=torch.float32):
    return torch.tensor(numbers, dtype=dtype)


def moved(x, device, differentiate):
    """A copy with the same strides and offset."""
    if not isinstance(x, torch.Tensor):
        return x
    memory = torch.empty(0, dtype=x.dtype).set_(x.untyped_storage()).to(device, copy=True)
    copy = memory.as_strided(x.size(), x.stride(), x.storage_offset()).detach()
    return copy.requires_grad_(differentiate and copy.is_floating_point())


def run(row, device, compile=None):
    """The results, the arguments after the call, and the gradients; or the exception."""
    torch._dynamo.reset()
    torch.manual_seed(0)
    function = row.function if compile is None else torch.compile(row.function, dynamic=compile)
    arguments = [moved(x, device, row.differentiate) for x in row.arguments]
    leaves = [x for x in arguments if isinstance(x, torch.Tensor) and x.requires_grad]
    autocast = torch.autocast(
        torch.device(device).type, row.autocast or torch.half, bool(row.autocast)
    )
    try:
        with autocast:
            found = pytree.tree_leaves(function(*arguments))
        outputs = [x for x in found if isinstance(x, torch.Tensor) and x.requires_grad]
        if row.differentiate and outputs:
            weights = [
                torch.arange(x.numel(), device=device).reshape(x.shape) % 5 - 1 for x in outputs
            ]
            weights = [w.to(x.dtype) for w, x in zip(weights, outputs, strict=True)]
            found += torch.autograd.grad(outputs, leaves, weights, allow_unused=True)
        torch.ocl.synchronize()
        return [*found, *(x for x in arguments if isinstance(x, torch.Tensor))]
    except Exception as error:
        with contextlib.suppress(RuntimeError):
            torch.ocl.synchronize()
        return error


def difference(row, actual, expected):
    """How the compiled program differs from the eager one, or None."""
    if isinstance(actual, Exception) or isinstance(expected, Exception):
        if isinstance(actual, Exception) == isinstance(expected, Exception):
            return None
        if isinstance(expected, Exception):
            return f"nothing raised instead of {type(expected).__name__}: {first_line(expected)}"
        return f"{type(actual).__name__}: {first_line(actual)}"
    comparer = Comparer("ocl", torch.float64, row.near, strides=False)
    actual, expected = comparer.read_back(actual), comparer.read_back(expected)
    expected = [x.tensor if hasattr(x, "tensor") else x for x in expected]
    try:
        comparer.compare(actual, expected, on_device=False)
    except Mismatch as mismatch:
        return str(mismatch)
    for x, y in zip(actual, expected, strict=True) if row.signs else ():
        floating = isinstance(y, torch.Tensor) and y.is_floating_point()
        if floating and not torch.equal(torch.signbit(x.tensor), torch.signbit(y)):
            return f"signs of {x.tensor.tolist()} instead of {y.tolist()}"
    return None


def first_line(error):
    return next((line for line in str(error).splitlines() if line.strip()), "")[:200]


def check(row, device, modes=tuple(MODES)):
    """The differences: a line for each mode."""
    expected, found = run(row, device), []
    for mode in modes:
        with torch._inductor.config.patch(row.config), torch._dynamo.config.patch(row.dynamo):
            text = difference(row, run(row, device, MODES[mode]), expected)
        if text:
            found.append(f"{mode}: {text}")
    return found


def load_tables():
    for path in sorted(pathlib.Path(__file__).parent.glob("rows_*.py")):
        __import__(path.stem)
    return TABLE


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--only", type=int, nargs="*", help="these reports")
    parser.add_argument("--rows", type=int, nargs=2, default=(0, 10**6), help="of the table")
    parser.add_argument("--modes", nargs="*", default=list(MODES), choices=MODES)
    parser.add_argument("--device", default="ocl")
    args = parser.parse_args()
    warnings.simplefilter("ignore")
    torch._inductor.config.force_disable_caches = True
    torch._inductor.config.compile_threads = 1
    totals = collections.Counter()
    try:
        for place, row in enumerate(load_tables()):
            chosen = not args.only or row.number in args.only
            if not (args.rows[0] <= place < args.rows[1] and chosen):
                continue
            found = check(row, args.device, args.modes)
            totals["programs"] += len(args.modes)
            totals["by decision" if row.decided else "differ"] += len(found)
            for line in [] if row.decided else found:
                print(f"{row.number} (row {place}) {line}", flush=True)
    finally:  # if it is interrupted, too
        print(", ".join(f"{n} {name}" for name, n in totals.items()))
    return 1 if totals["differ"] else 0


if __name__ == "__main__":
    sys.modules["reports"] = sys.modules["__main__"]
    sys.exit(main())
