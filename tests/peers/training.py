"""The program of a rank: trains, and reports what it sees while a peer or the network fails."""

import datetime
import hashlib
import pathlib
import sys
import time

import torch
import torch.distributed as dist

sys.path.append(str(pathlib.Path(__file__).parents[1] / "python/distributed"))
from distributed_sharded import sharded
from distributed_support import TIMEOUT, network, random
from torch.distributed.device_mesh import init_device_mesh
from torch.distributed.tensor import DTensor
from torch.nn.functional import cross_entropy
from torch.nn.parallel import DistributedDataParallel

STEPS = 5
FAULT_AT = 3
SHORT = datetime.timedelta(seconds=6)  # of groups whose peers will not answer


def data_parallel(size):
    layers = network()
    return DistributedDataParallel(layers, bucket_cap_mb=0.01), layers


def fully_sharded(size):
    layers = network()
    return sharded(layers, init_device_mesh("ocl", (size,))), layers


KINDS = {"DDP": data_parallel, "FSDP2": fully_sharded}


def digest(parameters):
    """A hash of the bits of this rank's parts."""
    bits = hashlib.sha256()
    for parameter in parameters:
        local = parameter.to_local() if isinstance(parameter, DTensor) else parameter
        bits.update(local.detach().cpu().numpy().tobytes())
    return bits.hexdigest()[:16]


def device_works():
    """Whether kernels and copies still give what the CPU gives."""
    x = torch.arange(48.0).view(6, 8)
    y = x.to("ocl")
    return torch.equal((y @ y.T + 1).cpu(), x @ x.T + 1)


def body(kind, rank, size, place, in_backward, short=False):
    """For ranks.Rank. in_backward(step, say, hear) is called in the middle of a backward pass."""

    def run(say, hear):
        torch.ocl.set_device(rank % torch.ocl.device_count())
        options = {"rank": rank, "world_size": size, "timeout": TIMEOUT}
        dist.init_process_group("occl", init_method=place, **options)
        done = 0
        model, layers = KINDS[kind](size)
        parameters = [*model.parameters()]

        def after_layer(layer, inputs, output):
            output.register_hook(lambda gradient: in_backward(done, say, hear))

        layers[4].register_forward_hook(after_layer)
        images, labels = random(4 * size, 3, 6, 6), (torch.arange(4 * size) % 10).to("ocl")
        mine = slice(4 * rank, 4 * rank + 4)
        optimizer = torch.optim.SGD(model.parameters(), lr=0.05, momentum=0.9)
        seen = {"error": None}
        try:
            for _ in range(STEPS):
                if done == FAULT_AT and short:
                    dist.barrier()
                    dist.group.WORLD.set_timeout(SHORT)
                started = time.monotonic()
                optimizer.zero_grad()
                cross_entropy(model(images[mine]), labels[mine]).backward()
                optimizer.step()
                torch.ocl.synchronize()
                done += 1
                say(step=done, digest=digest(parameters))
        except RuntimeError as error:
            seconds = time.monotonic() - started
            seen = {"error": type(error).__name__, "text": str(error), "seconds": seconds}
        seen |= {"done": done, "digest": digest(parameters), "device": device_works()}
        say(**seen)
        hear()  # so that no peer sees this process end
        dist.destroy_process_group()

    return run
