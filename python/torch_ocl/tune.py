"""Measures the fastest variant of kernels on a device, and keeps the choices.

    python -m torch_ocl.tune [--device ocl:0] [--only REGEX] [--dtypes float32,float16]

Matrix products and convolutions have several tiles; the best one depends on the device and the
sizes. Without a measurement a model of the device chooses. A measured choice holds for all sizes
that round up to the same powers of two, in every later process. A run takes a few minutes; the
machine should be idle. The file is in OCL_CACHE_DIR, for one device and driver version.
"""

import argparse
import functools
import math
import re
import sys
import time

import torch
import torch.nn.functional as F

from torch_ocl import _C

ROUND_SECONDS, ROUNDS = 0.01, 7
SQUARES = [64, 128, 256, 512, 1024, 2048]
# Rows, columns, depth of matrix products: linear layers with few and many rows, attention,
# gradients.
OBLONG = [
    (16, 1024, 1024),
    (128, 3072, 768),
    (128, 768, 3072),
    (1024, 512, 512),
    (1024, 2048, 512),
    (1024, 512, 2048),
    (4096, 64, 576),
    (64, 64, 4096),
    (512, 512, 16384),
]
BATCHED = [(64, 256, 256, 256), (64, 128, 128, 64), (64, 128, 64, 128)]
BACKWARD = torch.ops.aten.convolution_backward
# Channels in, channels out, kernel, side, stride: the layers of ResNets, batch 8.
CONVOLUTIONS = [
    (3, 64, 7, 224, 2),
    (64, 64, 3, 56, 1),
    (64, 256, 1, 56, 1),
    (64, 128, 3, 56, 2),
    (128, 128, 3, 28, 1),
    (256, 256, 3, 14, 1),
    (512, 512, 3, 7, 1),
]


def products(device, dtype):
    """-> (name, function) of matrix products in the layouts that layers and their gradients use."""
    random = lambda *shape: torch.randn(shape, device=device).to(dtype)  # noqa: E731
    for m, n, k in [*((s, s, s) for s in SQUARES), *OBLONG]:
        a, b = random(m, k), random(k, n)
        a_t, b_t = random(k, m).t(), random(n, k).t()
        name = f"{m}x{n}x{k}"
        yield f"product {name}", lambda a=a, b=b: a @ b
        yield f"product {name}, B transposed", lambda a=a, b=b_t: a @ b
        yield f"product {name}, A transposed", lambda a=a_t, b=b: a @ b
    for batch, m, n, k in BATCHED:
        a, b = random(batch, m, k), random(batch, k, n)
        yield f"product {batch} of {m}x{n}x{k}", lambda a=a, b=b: torch.bmm(a, b)


def convolutions(device, dtype):
    """-> (name, function) of convolutions and their two gradients."""
    for channels, out_channels, kernel, side, stride in CONVOLUTIONS:
        x = torch.randn(8, channels, side, side, device=device).to(dtype)
        w = torch.randn(out_channels, channels, kernel, kernel, device=device).to(dtype)
        options = {"stride": stride, "padding": kernel // 2}
        grad = torch.randn_like(F.conv2d(x, w, **options))
        arguments = (grad, x, w, None, (stride,) * 2, (kernel // 2,) * 2, (1, 1), False, (0, 0), 1)
        name = f"convolution {channels}-{out_channels} {kernel}x{kernel}, {side}^2"
        yield name, lambda x=x, w=w, options=options: F.conv2d(x, w, **options)
        for part, mask in (("input", [True, False, False]), ("weight", [False, True, False])):
            yield (
                f"{name}, gradient of the {part}",
                lambda arguments=arguments, mask=mask: BACKWARD(*arguments, mask),
            )


def seconds(run, count):
    begin = time.perf_counter()
    for _ in range(count):
        run()
    torch.ocl.synchronize()
    return (time.perf_counter() - begin) / count


def best_times(run, choose, candidates):
    """-> {candidate: seconds of a call}, for candidates that the device can run. They are measured
    alternately, because other processes may use the machine."""
    counts, times = {}, {}
    for candidate in candidates:
        choose(candidate)
        run()
        # A candidate that the device cannot run is replaced by the default.
        if _C.last_tuned().choice != candidate:
            continue
        seconds(run, 1)
        counts[candidate] = min(1000, math.ceil(ROUND_SECONDS / max(seconds(run, 1), 1e-6)))
        times[candidate] = math.inf
    for _ in range(ROUNDS):
        for candidate, count in counts.items():
            choose(candidate)
            times[candidate] = min(times[candidate], seconds(run, count))
    return times


def tune(run, index, done=()):
    """Measures all candidates of the choice that `run` makes last, and keeps the fastest in this
    process.

    -> (the problem, {candidate: seconds}, the one kept), or None if there is no choice, or it is in
    `done`.
    """
    _C.forget_tuned()
    run()
    problem = _C.last_tuned()
    if problem.choice < 0 or (problem.tunable, problem.problem) in done:
        return None
    choose = functools.partial(_C.set_tuned, index, problem.tunable, problem.problem)
    times = best_times(run, choose, range(problem.candidates))
    best = min(times, key=times.get)
    # The default stays if the gain is within the noise.
    if times.get(problem.choice, math.inf) < 1.03 * times[best]:
        best = problem.choice
    choose(best)
    return problem, times, best


def main(arguments=None):
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--device", default="ocl")
    parser.add_argument("--only", default="", metavar="REGEX", help="cases by name")
    parser.add_argument("--dtypes", default="float32,float16")
    args = parser.parse_args(arguments)
    device = torch.device(args.device)
    index = device.index or 0
    torch.ocl.set_device(index)
    print(f"{torch.ocl.get_device_name(index)}; speed is the default's time to the best one's")
    done = set()
    for dtype in args.dtypes.split(","):
        for make in (products, convolutions):
            for name, run in make(device, getattr(torch, dtype)):
                if not re.search(args.only, name):
                    continue
                found = tune(run, index, done)
                if found is None:
                    continue
                problem, times, best = found
                done.add((problem.tunable, problem.problem))
                gain = times.get(problem.choice, math.nan) / times[best]
                print(
                    f"{name:50} {dtype:8} {problem.tunable}: {problem.choice} -> {best:2}"
                    f"  {1e3 * times[best]:8.3f} ms  speed {gain:.2f}",
                    flush=True,
                )
    print(f"{len(done)} choices, kept in {_C.save_tuned(index)}")
    return 0


if __name__ == "__main__":
    sys.exit(main())
