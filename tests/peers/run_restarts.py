"""Training that is killed at every moment of a step and of a checkpoint, and resumed by torchrun.

usage: python run_restarts.py [--kinds DDP] [--size 2] [--seeds 0 1] [--moments part metadata]

Exits with 1 unless each run ends with the parameters of training that nobody disturbed.
"""

import argparse
import os
import pathlib
import random
import re
import subprocess
import sys
import tempfile
import time

sys.path.append(str(pathlib.Path(__file__).parents[1] / "python/common"))

from deaths import MOMENTS
from training import KINDS

LIMIT = 540  # seconds after which a run hangs


def start(folder, kind, size, seed, moments):
    """-> what is wrong with a run, or an empty string."""
    options = ["--standalone", f"--nproc-per-node={size}", f"--max-restarts={len(moments)}"]
    options += ["--monitor-interval=0.1"]
    script = str(pathlib.Path(__file__).with_name("restarts.py"))
    command = [sys.executable, "-m", "torch.distributed.run", *options, script]
    try:
        done = subprocess.run(
            [*command, folder, kind, str(seed), *moments],
            env={"OMP_NUM_THREADS": "1", "PYTHONFAULTHANDLER": "1", **os.environ},
            capture_output=True,
            text=True,
            timeout=LIMIT,
        )
    except subprocess.TimeoutExpired as error:
        return f"hangs\n{(error.stderr or b'').decode()[-4000:]}"
    killed = len(re.findall(r"exitcode: -9", done.stderr))
    passed = all((pathlib.Path(folder) / f"passed.{rank}").exists() for rank in range(size))
    if done.returncode or not passed or killed < len(moments):
        return f"status {done.returncode}, {killed} killed\n{done.stderr[-8000:]}"
    return ""


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--kinds", nargs="+", choices=KINDS, default=[*KINDS])
    parser.add_argument("--size", type=int, default=2)
    parser.add_argument("--seeds", nargs="+", type=int, default=[0, 1, 2])
    parser.add_argument("--moments", nargs="+", choices=MOMENTS, default=MOMENTS)
    args = parser.parse_args()
    defects = 0
    for kind in args.kinds:
        for seed in args.seeds:
            moments = random.Random(seed).sample(args.moments, len(args.moments))
            begun = time.monotonic()
            with tempfile.TemporaryDirectory() as folder:
                wrong = start(folder, kind, args.size, seed, moments)
            seconds = time.monotonic() - begun
            text = f"DEFECT: {wrong}" if wrong else "resumed, the same losses and parameters"
            print(
                f"| {kind}, {args.size} ranks, seed {seed}: {', '.join(moments)} | {text} "
                f"| {seconds:.0f} s",
                flush=True,
            )
            defects += bool(wrong)
    print(f"{len(args.kinds) * len(args.seeds)} runs, {defects} defects")
    sys.exit(defects > 0)


if __name__ == "__main__":
    main()
