"""Programs at random that read, write and alias their inputs: whole numbers, so results are exact.

    python tests/python/compile/writing_programs.py [--device ocl] [--programs 200] [--dynamic]

compares compiled programs with eager ones, prints those that differ, and exits with their number.
"""

import argparse
import random
import re
import sys

import torch

# x is the value that a step reads or writes, y one of the same shape; r is a number of rows.
VIEWS = (
    "x[1:3]",
    "x[:, 1:4]",
    "x[1]",
    "x.t()",
    "x.reshape(-1)",
    "x.diagonal()",
    "x[0:]",
    "x.detach()",
    "x.view(torch.int32)",
    "x.expand(2, *x.shape)",
)
NEW = (
    "x.clone()",
    "x + 3",
    "x.flip(0)",
    "x.roll(1, 0)",
    "x.sum(0)",
    "x.contiguous()",
    "torch.where(x > 3, x, -x)",
    "x.amax(0, keepdim=True).expand(x.shape).clone()",
    "x.t().contiguous()",
)
WRITES = (
    "x.add_(1)",
    "x.mul_(2)",
    "x.fill_(5)",
    "x.zero_()",
    "x.clamp_(-5, 5)",
    "x.index_fill_(0, places(x, 1), 7)",
    "x[0] = 9",
)
FROM = (
    "x.copy_(y)",
    "x.add_(y)",
    "x[:2] = y[:2]",
    "x[1:] = y[:-1]",
    "x.index_put_((places(x, len(x)),), y)",
    "x.index_put_((places(x, len(x)),), y, accumulate=True)",
    "x.index_add_(0, places(x, len(x)), y)",
    "x.index_copy_(0, places(x, len(x)), y)",
    "torch._foreach_add_([x], [y])",
)
SCATTERS = (
    "torch.slice_scatter(x, y[0:2], 0, 1, 3)",
    "torch.select_scatter(x, y[0], 0, 1)",
    "torch.diagonal_scatter(x, y.diagonal())",
    "x.index_put((places(x, len(x)),), y)",
    "x.scatter(0, torch.zeros_like(x[:1]), y[:1])",
    "x.index_copy(0, places(x, len(x)), y)",
)


def places(x, count):
    """Distinct rows; an odd factor permutes them."""
    return (torch.arange(count, device=x.device) * (len(x) - 1) + 1) % len(x)


def inputs(device):
    x = torch.arange(24).reshape(4, 6)
    return [(x * factor + 1).to(device) for factor in (1, -3)]


def program(seed: int):
    """A function of two tensors, and its text."""
    choose = random.Random(seed)
    lines, names = [], {"a": None, "b": None}
    values = dict(zip(names, inputs("cpu")), torch=torch, places=places)
    for _ in range(choose.randint(3, 8)):
        line = _step(choose, values, names)
        try:
            exec(line, values)
        except (RuntimeError, IndexError, ValueError, TypeError):
            continue  # shapes that do not fit, or memory that overlaps
        lines.append(line)
        if new := re.match(r"v\d+(?= = )", line):
            names[new[0]] = None
    last = list(names)[2:][-4:]
    results = [name if choose.random() < 0.8 else f"{name}.clone()" for name in last]
    text = "\n    ".join(["def program(a, b):", *lines, f"return [{', '.join(results)}]"])
    exec(text, values)
    return values["program"], text


def _step(choose, values, names):
    x = choose.choice(list(names))
    kind = choose.choice((VIEWS, NEW, WRITES, FROM, FROM, SCATTERS))
    same = [n for n in names if values[n].shape == values[x].shape]
    same = [n for n in same if values[n].dtype == values[x].dtype]
    y = choose.choice(same) + choose.choice(("", "", ".clone()", ".clone()", ".neg()"))
    line = choose.choice(kind)
    words = [{"x": x, "y": y}.get(word, word) for word in re.split(r"(\b\w+\b)", line)]
    target = "" if kind in (WRITES, FROM) else f"v{len(names)} = "
    return target + "".join(words)


def difference(seed, device, dynamic=False) -> str | None:
    """The program, if it gives other numbers when it is compiled."""
    function, text = program(seed)
    expected_inputs, actual_inputs = inputs(device), inputs(device)
    expected = function(*expected_inputs)
    torch._dynamo.reset()
    actual = torch.compile(function, dynamic=dynamic)(*actual_inputs)
    pairs = zip(expected + expected_inputs, actual + actual_inputs)
    wrong = [n for n, (e, a) in enumerate(pairs) if not torch.equal(e.cpu(), a.cpu())]
    return f"{text}\n    # differ: {wrong}" if wrong else None


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--device", default="ocl")
    parser.add_argument("--programs", type=int, default=200)
    parser.add_argument("--first", type=int, default=0)
    parser.add_argument("--dynamic", action="store_true")
    options = parser.parse_args()
    differ = 0
    for seed in range(options.first, options.first + options.programs):
        try:
            text = difference(seed, options.device, options.dynamic)
        except Exception as error:
            text = f"{program(seed)[1]}\n    # {type(error).__name__}: {str(error)[:300]}"
        if text:
            differ += 1
            print(f"# {seed}\n{text}", flush=True)
    print(f"{options.programs} programs, {differ} differ")
    sys.exit(min(differ, 100))


if __name__ == "__main__":
    main()
