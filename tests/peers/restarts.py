"""Training under torchrun while its processes are killed repeatedly; run by run_restarts.py.

usage: torchrun --nproc-per-node=2 --max-restarts=N restarts.py FOLDER KIND SEED MOMENT...

Start number i dies at MOMENT number i (deaths.py), in a step and a rank that the seed draws; the
last start lives. It saves and resumes with the functions of docs/distributed.md. Each start
compares losses and parameters with those of training without a restart, bit by bit, also those that
it resumes with. Each rank leaves FOLDER/passed.RANK in the end.
"""

import json
import os
import pathlib
import random
import re
import sys

sys.path.append(str(pathlib.Path(__file__).parents[1] / "python/common"))
sys.path.append(str(pathlib.Path(__file__).parents[1] / "python/distributed"))

import torch
import torch.distributed as dist
from deaths import Death
from distributed_support import TIMEOUT
from distributed_support import random as numbers
from torch.nn.functional import cross_entropy
from training import KINDS, digest

PAGE = pathlib.Path(__file__).parents[2] / "docs" / "distributed.md"


def functions_of_the_page():
    """save() and resume()."""
    (code,) = re.findall(r"^```python\n(import pathlib\n.*?)^```", PAGE.read_text(), re.M | re.S)
    names = {"dist": dist}
    exec(compile(code, PAGE, "exec"), names)
    return names["save"], names["resume"]


class Training:
    def __init__(self, kind):
        size = dist.get_world_size()
        self.model, layers = KINDS[kind](size)
        self.parameters = [*self.model.parameters()]
        self.optimizer = torch.optim.AdamW(self.parameters, lr=0.01)
        self.images, labels = numbers(4 * size, 3, 6, 6), torch.arange(4 * size) % 10
        self.labels = labels.to("ocl")
        self.mine = slice(4 * dist.get_rank(), 4 * dist.get_rank() + 4)
        self.in_backward = lambda: None

        def after_layer(layer, inputs, output):
            output.register_hook(lambda gradient: self.in_backward())

        layers[4].register_forward_hook(after_layer)

    def step(self):
        """-> the loss, and the digest of the new parameters."""
        self.optimizer.zero_grad()
        loss = cross_entropy(self.model(self.images[self.mine]), self.labels[self.mine])
        loss.backward()
        self.optimizer.step()
        return loss.item(), digest(self.parameters)


def resumed(folder, kind, steps, make_death):
    """Trains with checkpoints: -> {steps done: (loss, digest)}, the first as it was resumed."""
    save, resume = functions_of_the_page()
    training = Training(kind)
    first = resume(folder, training.model, training.optimizer)
    death = make_death(first)
    seen = {first: (None, digest(training.parameters))}
    for step in range(first, steps):
        death.begin_step(step)
        training.in_backward = lambda step=step: death.in_backward(step)
        seen[step + 1] = training.step()
        death.begin_save(step)
        save(folder, step + 1, training.model, training.optimizer)
        death.end_save(step)
    death.end()
    return seen


def main():
    folder, kind, seed, *moments = sys.argv[1:]
    folder, steps = pathlib.Path(folder), 3 * len(moments) + 3
    start = int(os.environ["TORCHELASTIC_RESTART_COUNT"])
    torch.ocl.set_device(int(os.environ["LOCAL_RANK"]) % torch.ocl.device_count())
    dist.init_process_group("occl", timeout=TIMEOUT)

    def make_death(first):
        last = folder / f"kept.{start - 1}"  # what the former start has told
        assert not start or first in json.loads(last.read_text()), f"resumed with {first} steps"
        moment = moments[start] if start < len(moments) else None
        death = Death(folder, moment, random.Random(f"{seed} {start}"), first)
        if dist.get_rank() == 0:
            (folder / f"kept.{start}").write_text(json.dumps(death.steps_kept(steps)))
        dist.barrier()
        return death

    alone = Training(kind)
    expected = {0: (None, digest(alone.parameters))}
    for step in range(steps):
        expected[step + 1] = alone.step()
    for step, (loss, parameters) in resumed(folder, kind, steps, make_death).items():
        assert loss in (None, expected[step][0]), f"step {step}: {loss}, not {expected[step][0]}"
        assert parameters == expected[step][1], f"other parameters after step {step}"
    assert start == len(moments)
    dist.destroy_process_group()
    (folder / f"passed.{os.environ['RANK']}").touch()


if __name__ == "__main__":
    main()
