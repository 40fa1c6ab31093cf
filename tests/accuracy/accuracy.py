"""Measures how exact and how random torch-ocl's numbers are; docs/accuracy.md shows it.

usage: with_runtime.py RUNTIME python tests/accuracy/accuracy.py JSON [--parts unary ...]
       [--count N] [--sum N] [--draws N] [--runs N]
Each part that ran replaces that part of the file.
"""

import argparse
import json
import os
import pathlib
import sys

import torch

sys.path.append(str(pathlib.Path(__file__).parents[2] / "tests/python/common"))
sys.path.append(str(pathlib.Path(__file__).parents[2] / "kernels/codegen"))
from complex_functions import measure_complex
from distributions import all_rows, independence, repeated_words
from functions import measure_binary, measure_unary
from reductions import measure_normalisations, measure_reductions
from repeats import measure_repeats
from statistics_tests import worst

import torch_ocl  # noqa: F401 (the device, also where PyTorch has a GPU of its own)

DTYPES = [torch.float32, torch.float16, torch.bfloat16]


def measure_random(device, draws):
    for row in all_rows():
        torch.manual_seed(0)
        x = row.draw(draws, device).cpu()
        test, p, tests = worst(row.check(x))
        possible = row.limits is None or row.limits(x)
        yield {"name": row.name, "test": test, "p": p, "tests": tests, "possible": possible}
    test, p, tests = worst(independence(draws, device))
    possible = repeated_words(device) == 0
    yield {"name": "independence", "test": test, "p": p, "tests": tests, "possible": possible}


def parts(args, device):
    sums = {torch.float32: args.sum, torch.float16: args.sum // 10, torch.bfloat16: args.sum // 10}
    return {
        "unary": lambda: measure_unary(device, DTYPES, args.count),
        "binary": lambda: measure_binary(device, DTYPES, args.count),
        "complex": lambda: measure_complex(device, args.count),
        "reductions": lambda: measure_reductions(device, sums),
        "normalisations": lambda: measure_normalisations(device, DTYPES),
        "random": lambda: measure_random(device, args.draws),
        "repeats": lambda: measure_repeats(device, args.runs),
    }


def main():
    parser = argparse.ArgumentParser(usage=__doc__)
    parser.add_argument("json", type=pathlib.Path)
    parser.add_argument("--device", default="ocl")
    parser.add_argument("--parts", nargs="*")
    parser.add_argument("--count", type=int, default=10**6)
    parser.add_argument("--sum", type=int, default=10**8)
    parser.add_argument("--draws", type=int, default=10**7)
    parser.add_argument("--runs", type=int, default=100)
    args = parser.parse_args()
    found = json.loads(args.json.read_text()) if args.json.exists() else {}
    found["family"] = os.environ.get("OCL_KERNEL_FAMILY", "cpu")
    found["platform"] = torch.ocl.get_device_properties(args.device).platform
    for part, measure in parts(args, args.device).items():
        if args.parts is None or part in args.parts:
            found[part] = list(measure())
            found.setdefault("sizes", {})[part] = [args.count, args.sum, args.draws, args.runs]
            args.json.write_text(json.dumps(found, indent=1))
            print(part, len(found[part]), flush=True)


if __name__ == "__main__":
    main()
