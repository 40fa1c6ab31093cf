"""Training under torchrun, which restarts it after a worker was killed.

usage: torchrun --nproc-per-node=2 --max-restarts=1 distributed_elastic.py FOLDER
Leaves FOLDER/passed.RANK where the result equals that of training without a restart.
"""

import os
import pathlib
import signal
import sys

import torch
import torch.distributed as dist
from distributed_support import TIMEOUT, fails, network, random
from torch.nn.parallel import DistributedDataParallel

STEPS, KILLED_AT = 6, 3


def train(rank, size, checkpoint=None):
    """The parameters after STEPS; resumes from the checkpoint and writes it, if one is given."""
    images, labels = random(4 * size, 3, 6, 6), (torch.arange(4 * size) % 10).to("ocl")
    mine = slice(4 * rank, 4 * rank + 4)
    model = DistributedDataParallel(network())
    optimizer = torch.optim.SGD(model.parameters(), lr=0.05, momentum=0.9)
    first = 0
    if checkpoint and checkpoint.exists():
        state = torch.load(checkpoint, map_location="ocl")
        model.load_state_dict(state["model"])
        optimizer.load_state_dict(state["optimizer"])
        first = state["step"]
        assert first == KILLED_AT, first
    for step in range(first, STEPS):
        if checkpoint and step == KILLED_AT and not first and rank == 1:
            os.kill(os.getpid(), signal.SIGKILL)
        optimizer.zero_grad()
        torch.nn.functional.cross_entropy(model(images[mine]), labels[mine]).backward()
        optimizer.step()
        if checkpoint and rank == 0:
            state = {"model": model.state_dict(), "optimizer": optimizer.state_dict()}
            torch.save(state | {"step": step + 1}, checkpoint.with_suffix(".new"))
            checkpoint.with_suffix(".new").rename(checkpoint)
        if checkpoint:
            dist.barrier()
    return [parameter.detach().cpu() for parameter in model.parameters()]


def main():
    folder = pathlib.Path(sys.argv[1])
    device = torch.device("ocl", int(os.environ["LOCAL_RANK"]) % torch.ocl.device_count())
    torch.ocl.set_device(device)
    dist.init_process_group("occl", timeout=TIMEOUT, device_id=device)
    rank, size = dist.get_rank(), dist.get_world_size()
    dist.new_group([0])
    fails(lambda: dist.split_group(split_ranks=[[0], [1]]), "does not support splitting")
    resumed = train(rank, size, folder / "checkpoint")
    assert os.environ["TORCHELASTIC_RESTART_COUNT"] == "1"
    uninterrupted = train(rank, size)
    assert all(map(torch.equal, resumed, uninterrupted))
    dist.destroy_process_group()
    (folder / f"passed.{rank}").touch()


if __name__ == "__main__":
    main()
