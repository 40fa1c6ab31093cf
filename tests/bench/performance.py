"""Writes docs/performance.md from what bench.py and footprint.py measured.

    python tests/bench/performance.py FOLDER > docs/performance.md

FOLDER holds RUNTIME.json and RUNTIME_footprint.json for each runtime.
"""

import json
import pathlib
import sys

from bench import geometric_mean
from cases import TABLE

HEAD = """\
# Performance

Written by `make bench`, which measures every case on an OpenCL device and on PyTorch's own CPU path
in one process. The two devices alternate. Tensors are float32, and results are allocated unless
`out=` is named. Ratios are medians of the times, ocl to CPU: below 1, ocl is faster. Nothing runs
on PyTorch's CPU kernels (`OCL_FALLBACK=error`). The machine is shared, so that a ratio may be off
by a tenth.
"""


def read(folder):
    """-> {runtime: (bench, footprint)}"""
    found = {}
    for path in sorted(folder.glob("*_footprint.json")):
        runtime = path.name.removesuffix("_footprint.json")
        bench = json.loads((folder / f"{runtime}.json").read_text())
        found[runtime] = bench, json.loads(path.read_text())
    return found


def ratio(results, name):
    if name not in results:
        return "-"
    r = results[name]
    text = f"{r['ratio']:.2f}"
    return f"**{text}**" if r["aim"] is not None and r["ratio"] > r["aim"] else text


def table(found, names, with_aim):
    aims = {case.name: case.aim for case in TABLE}
    print("| case |", " | ".join(found), "| aim |" if with_aim else "|")
    print("| --- |", " ---: |" * (len(found) + with_aim))
    for name in names:
        cells = [ratio(bench["cases"], name) for bench, _ in found.values()]
        print(f"| {name} |", " | ".join(cells), f"| {aims[name]} |" if with_aim else "|")


def main(folder):
    found = read(folder)
    print(HEAD)
    for runtime, (bench, _) in found.items():
        limits = bench["limits"]
        print(
            f"- {runtime}: {bench['device']}, torch {bench['torch']}; reached here: "
            f"{limits['bytes'] / 1e9:.0f} GB/s, {limits['flops'] / 1e9:.0f} GFLOP/s"
        )
    print("\n## Operators and networks\n\nAbove the aim: bold.\n")
    in_table = [case.name for case in TABLE]
    table(found, in_table, with_aim=True)
    means = [
        f"{geometric_mean(bench['cases'][name]['ratio'] for name in in_table):.2f}"
        for bench, _ in found.values()
    ]
    print("| geometric mean |", " | ".join(means), "| |")
    swept = [n for n in next(iter(found.values()))[0]["cases"] if n not in in_table]
    if swept:
        print("\n## More operators and sizes\n")
        table(found, swept, with_aim=False)
    print("\n## Start-up, memory, scaling\n")
    print("| |", " | ".join(found), "|")
    print("| --- |", " ---: |" * len(found))
    first = next(iter(found.values()))[1]
    for group, values in first.items():
        if not isinstance(values, dict):
            continue
        for name in values:
            cells = [f"{footprint[group].get(name, 0):.4g}" for _, footprint in found.values()]
            print(f"| {group}: {name} |", " | ".join(cells), "|")
    for runtime in found:
        print(f"\n![Shares of the machine's limits on {runtime}](roofline_{runtime}.png)")


if __name__ == "__main__":
    main(pathlib.Path(sys.argv[1]))
