"""Training with faults of peers and of the network between them, as a table.

usage: python run.py [--kinds DDP] [--sizes 2 4] [--faults killed delay] [--seed 0] [--loopback]

Ranks train in network namespaces, or over loopback where these are not permitted: then without the
faults of the network. Each fault's parameters are compared, bit by bit, with those of a run without
a fault. Exits with 1 if there is a defect.
"""

import argparse
import contextlib
import sys
import time

sys.path.append(__file__.rsplit("/", 2)[0] + "/python/common")

import torch._dynamo  # noqa: F401  (before the forks: DTensor imports it late, in seconds)
from faults import FAULTS, OF_THE_NETWORK, Case, Run
from network import Network, refusal
from training import KINDS


def arguments():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--kinds", nargs="+", choices=KINDS, default=[*KINDS])
    parser.add_argument("--sizes", nargs="+", type=int, default=[2, 4])
    parser.add_argument("--faults", nargs="+", choices=FAULTS, default=FAULTS)
    parser.add_argument("--seed", type=int, default=0, help="of the packets that are lost")
    parser.add_argument("--loopback", action="store_true", help="use no namespaces")
    return parser.parse_args()


def main():
    args = arguments()
    reason = "asked for" if args.loopback else refusal()
    if reason:
        print(f"over loopback, without {', '.join(OF_THE_NETWORK)}: {reason}")
    defects = cases = 0
    for size in args.sizes:
        with contextlib.nullcontext() if reason else Network(size, args.seed) as network:
            for kind in args.kinds:
                expected = Run(Case(kind, size, "none")).digests
                for fault in args.faults:
                    if reason and fault in OF_THE_NETWORK:
                        continue
                    case = Case(kind, size, fault)
                    started = time.monotonic()
                    try:
                        run = Run(case, network)
                        wrong = [*run.defects(expected)]
                    except TimeoutError as error:
                        wrong = [str(error), *error.__notes__]
                    text = "; ".join(wrong) if wrong else run.outcome()
                    seconds = time.monotonic() - started
                    print(
                        f"| {case} | {'DEFECT: ' * bool(wrong)}{text} | {seconds:.1f} s", flush=True
                    )
                    cases += 1
                    defects += bool(wrong)
    print(f"{cases} cases, {defects} defects")
    sys.exit(defects > 0)


if __name__ == "__main__":
    main()
