"""Times operators and networks on an OpenCL device against PyTorch's own device, in one process.

    python tests/bench/bench.py [--sweep] [--only REGEX] [--json FILE] [--compare FILE] [--plot PNG]
                                [--markdown FILE]

The two devices alternate, since machines are shared: trust the ratios rather than the times. A call
counts until the device has finished. Nothing may run on PyTorch's CPU kernels (OCL_FALLBACK=error).
"""

import argparse
import json
import math
import os
import pathlib
import re
import statistics
import sys
import time

os.environ["OCL_FALLBACK"] = "error"

import torch
from cases import SMALL, TABLE, Case, M, sweep

import torch_ocl  # noqa: F401 (needed if PyTorch has CUDA)

ROUND_SECONDS = 0.05  # a round repeats short calls for about so long


def synchronize(device):
    if device != "cpu":
        torch.get_device_module(device).synchronize()


def seconds(run, device, count):
    """The time of one call, averaged over `count`."""
    synchronize(device)
    begin = time.perf_counter()
    for _ in range(count):
        run()
    synchronize(device)
    return (time.perf_counter() - begin) / count


def measure(case, reference, rounds):
    """-> {device: [seconds of a call in each round]}

    Each round has tensors of its own: which pages they get decides whether 16 MB fit the caches,
    for either device, and one draw for all rounds would be all that is measured.
    """
    devices = (reference, "ocl")
    counts, times = {}, {device: [] for device in devices}
    for _ in range(rounds):
        for device in devices:
            torch.manual_seed(0)
            run = case.build(device)
            once = [seconds(run, device, 1) for _ in range(2)][-1]
            if device not in counts:
                counts[device] = max(1, min(1000, int(ROUND_SECONDS / max(once, 1e-6))))
            times[device].append(seconds(run, device, counts[device]))
            del run
            torch.ocl.empty_cache()
    return times


def limits(reference, rounds):
    """Bytes and floating-point operations per second that either device reached here: what the
    machine can do at least."""
    big = M * 16

    def add(device):
        a, b, out = (torch.ones(big, device=device) for _ in range(3))
        return lambda: torch.add(a, b, out=out)

    def product(device):
        a, out = torch.ones(2048, 2048, device=device), torch.empty(2048, 2048, device=device)
        return lambda: torch.mm(a, a, out=out)

    def best(build, amount):
        times = measure(Case("limit", build, math.inf), reference, rounds)
        return amount / min(min(values) for values in times.values())

    return {"bytes": best(add, 3 * big * 4), "flops": best(product, 2 * 2048**3)}


def record(case, times, reference, limit):
    middle = {device: statistics.median(values) for device, values in times.items()}
    ratio = middle["ocl"] / middle[reference]
    shares = [
        amount / (middle["ocl"] * limit[kind])
        for kind, amount in (("bytes", case.bytes), ("flops", case.flops))
        if amount
    ]
    return {
        "reference_ms": 1e3 * middle[reference],
        "ocl_ms": 1e3 * middle["ocl"],
        "ratio": ratio,
        "ratio_of_minima": min(times["ocl"]) / min(times[reference]),
        "aim": None if math.isinf(case.aim) else case.aim,
        "share_of_limit": max(shares, default=None),
        "bytes": case.bytes,
        "flops": case.flops,
    }


def line(name, r, earlier):
    share = "" if r["share_of_limit"] is None else f"{100 * r['share_of_limit']:4.0f} %"
    aim = "" if r["aim"] is None else f"{r['aim']:5.2f}"
    above = r["aim"] is not None and r["ratio"] > r["aim"]
    text = (
        f"{name:42} {r['reference_ms']:9.3f} {r['ocl_ms']:9.3f} {r['ratio']:6.2f} "
        f"{r['ratio_of_minima']:6.2f} {aim:>5} {share:>6}{'  ABOVE' if above else ''}"
    )
    if name in earlier:
        text += f"   was {earlier[name]['ratio']:.2f}"
    return text


def markdown(found):
    """The table of a page about one device."""
    limits = found["limits"]
    yield f"{found['device']} ({found['platform']}) against {found['reference']}, PyTorch "
    yield f"{found['torch']}. Either reached {limits['bytes'] / 1e9:.0f} GB/s and "
    yield f"{limits['flops'] / 1e12:.1f} TFLOP/s.\n\n"
    yield f"| case | {found['reference']} | ocl | ratio | of these limits |\n"
    yield "| --- | --- | --- | --- | --- |\n"
    for name, r in found["cases"].items():
        share = "" if r["share_of_limit"] is None else f"{100 * r['share_of_limit']:.0f} %"
        times = f"{r['reference_ms']:.3f} ms | {r['ocl_ms']:.3f} ms | {r['ratio']:.2f}"
        yield f"| {name} | {times} | {share} |\n"


def geometric_mean(values):
    return math.exp(statistics.fmean(math.log(value) for value in values))


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--sweep", action="store_true", help="more operators and sizes")
    parser.add_argument("--only", default="", metavar="REGEX")
    parser.add_argument("--rounds", type=int, default=7)
    parser.add_argument("--reference", default="cpu", help="cpu, or cuda on the same card")
    parser.add_argument("--json", type=pathlib.Path)
    parser.add_argument("--compare", type=pathlib.Path, help="an earlier --json")
    parser.add_argument("--markdown", type=pathlib.Path, help="a table")
    parser.add_argument("--plot", type=pathlib.Path, help="a roofline, as PNG")
    args = parser.parse_args()
    earlier = json.loads(args.compare.read_text())["cases"] if args.compare else {}

    limit = limits(args.reference, args.rounds)
    name = torch.ocl.get_device_properties(0).name
    platform = torch.ocl.get_device_properties(0).platform
    print(f"{name} ({platform}) against {args.reference}, torch {torch.__version__}")
    print(f"limits: {limit['bytes'] / 1e9:.0f} GB/s, {limit['flops'] / 1e9:.0f} GFLOP/s\n")
    print(f"{'':42} {'ref ms':>9} {'ocl ms':>9} {'ratio':>6} {'of min':>6} {'aim':>5} {'limit':>6}")
    results = {}
    for case in [*TABLE, SMALL, *(sweep() if args.sweep else [])]:
        if not re.search(args.only, case.name):
            continue
        results[case.name] = record(
            case, measure(case, args.reference, args.rounds), args.reference, limit
        )
        print(line(case.name, results[case.name], earlier), flush=True)
    in_table = [results[c.name]["ratio"] for c in TABLE if c.name in results]
    if in_table:
        print(f"\ngeometric mean of the table: {geometric_mean(in_table):.2f}")
    found = {
        "device": name,
        "platform": platform,
        "reference": args.reference,
        "torch": torch.__version__,
        "limits": limit,
        "cases": results,
    }
    if args.json:
        args.json.write_text(json.dumps(found, indent=1) + "\n")
    if args.markdown:
        args.markdown.write_text("".join(markdown(found)))
    if args.plot:
        from roofline import plot

        plot(found, args.plot)
    return 0


if __name__ == "__main__":
    sys.exit(main())
