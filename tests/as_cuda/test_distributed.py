"""torch.distributed, by the word nccl, in one process; test_as_cuda.py has two."""

import os

import torch
import torch.distributed as dist


def test_nccl(tmp_path):
    assert dist.is_nccl_available() and dist.is_backend_available("nccl")
    url = f"file://{tmp_path}/store"
    device = torch.device("cuda:0")
    dist.init_process_group("nccl", url, rank=0, world_size=1, device_id=device)
    try:
        assert dist.get_backend() == "nccl"
        x = torch.ones(2, device="cuda")
        dist.all_reduce(x)
        group = dist.new_group([0], backend="nccl")
        dist.broadcast(x, 0, group=group)
        model = torch.nn.parallel.DistributedDataParallel(
            torch.nn.Linear(2, 2).cuda(), device_ids=[0], output_device=0
        )
        model(x).sum().backward()
        mesh = dist.device_mesh.init_device_mesh("cuda", (1,))
        assert mesh.size() == 1 and x.tolist() == [1, 1]
        from torch.distributed.fsdp import fully_shard

        sharded = fully_shard(torch.nn.Linear(2, 2).cuda(), mesh=mesh)
        sharded(x).sum().backward()
    finally:
        dist.destroy_process_group()


def test_several_backends(tmp_path):
    dist.init_process_group("cpu:gloo,cuda:nccl", f"file://{tmp_path}/store", rank=0, world_size=1)
    try:
        for device in ("cpu", "cuda"):
            x = torch.ones(2, device=device)
            dist.all_reduce(x)
            assert x.tolist() == [1, 1]
    finally:
        dist.destroy_process_group()


def test_children_inherit_the_word():
    assert os.environ["OCL_AS_CUDA"] == "1"
