"""The processes of test_distributed.py: each rank runs the cases of the files in MODULES.

usage: python distributed_ranks.py FOLDER SIZE RANKS [CASE...]
Forks a process for each of RANKS, such as 0,1, once PyTorch is imported. They print into
FOLDER/output.RANK and leave a file FOLDER/CASE.RANK for each case that they have passed, with the
seconds that it took. Ends once all have, and prints their exit statuses.
"""

import importlib
import os
import pathlib
import sys
import time
import traceback

import torch
import torch.distributed as dist

sys.path.append(str(pathlib.Path(__file__).parents[1] / "common"))
from distributed_support import CASES, LAST_CASES, TIMEOUT

MODULES = [
    "distributed_collectives",
    "distributed_works",
    "distributed_data_parallel",
    "distributed_debug",
    "distributed_sharded",
    "distributed_threads",
]


def run(folder, size, rank, names):
    init = f"file://{folder}/store"
    device = torch.device("ocl", rank % torch.ocl.device_count())
    torch.ocl.set_device(device)
    dist.init_process_group("occl", init_method=init, rank=rank, world_size=size, timeout=TIMEOUT)
    platform = torch.ocl.get_device_properties(device).platform
    (folder / f"platform.{rank}").write_text(platform)
    for name in names:
        torch.manual_seed(0)
        started = time.monotonic()
        (CASES | LAST_CASES)[name](rank, size)
        (folder / f"{name}.{rank}").write_text(f"{time.monotonic() - started:.2f}")
    if not LAST_CASES.keys() & set(names):
        dist.destroy_process_group()


def run_in_fork(folder, size, rank, names):
    """The number of the process; the new one does not return."""
    process = os.fork()
    if process:
        return process
    output = os.open(folder / f"output.{rank}", os.O_WRONLY | os.O_CREAT)
    os.dup2(output, 1)
    os.dup2(output, 2)
    try:
        run(folder, size, rank, names)
    except BaseException:
        traceback.print_exc()
        sys.stderr.flush()
        os._exit(1)  # at once: the other ranks wait for this one
    sys.exit()


def main():
    folder, size, ranks, *names = sys.argv[1:]
    for module in [*MODULES, "torch._dynamo"]:  # DTensor imports it late, in seconds
        importlib.import_module(module)
    processes = [
        run_in_fork(pathlib.Path(folder), int(size), int(rank), names or [*CASES])
        for rank in ranks.split(",")
    ]
    for process in processes:
        print(os.waitstatus_to_exitcode(os.waitpid(process, 0)[1]))


if __name__ == "__main__":
    main()
