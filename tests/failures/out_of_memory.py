"""Memory runs out at every request of a training step, one after the other. Run it by
tools/with_runtime.py stern, with OCL_MEMORY_CACHING=0, which gives each tensor a buffer."""

import argparse
import collections
import contextlib
import copy
import gc
import sys

import torch
import torch.nn.functional as F
from judge import clean
from layer import Layer

ENTRIES = (
    "clCreateBuffer",
    "clEnqueueFillBuffer",  # the allocator's first use of a buffer
    "clEnqueueNDRangeKernel",
    "clEnqueueWriteBuffer",
    "clEnqueueReadBuffer",
)
OPTIMIZERS = {
    "SGD": lambda weights: torch.optim.SGD(weights, lr=0.1, momentum=0.9),
    "Adam": lambda weights: torch.optim.Adam(weights, lr=0.1),
    "Adam, fused": lambda weights: torch.optim.Adam(weights, lr=0.1, fused=True),
}
LARGE, SMALL = 8, 2


class Training:
    """A network that can be put back to where it was. `phase` is the part of the step that runs."""

    def __init__(self, optimizer, earlier_steps):
        torch.manual_seed(0)
        self.net = torch.nn.Sequential(
            torch.nn.Conv2d(1, 4, 3),
            torch.nn.BatchNorm2d(4),
            torch.nn.Dropout(0.1),
            torch.nn.Flatten(),
            torch.nn.Linear(64, 5),
        ).to("ocl")
        self.make_optimizer = OPTIMIZERS[optimizer]
        self.optimizer = self.make_optimizer(self.net.parameters())
        for _ in range(earlier_steps):
            self.step(LARGE)
        self.weights = {name: value.cpu() for name, value in self.net.state_dict().items()}
        self.state = self.on_host(self.optimizer.state_dict())

    @staticmethod
    def on_host(state):
        return torch.utils._pytree.tree_map(
            lambda value: value.cpu() if isinstance(value, torch.Tensor) else value, state
        )

    def restart(self):
        self.net.load_state_dict(self.weights)
        self.optimizer = self.make_optimizer(self.net.parameters())
        self.optimizer.load_state_dict(copy.deepcopy(self.state))
        self.optimizer.zero_grad()
        clean()

    def step(self, size):
        self.phase = "copy"
        torch.manual_seed(5)
        images = (torch.arange(size * 36.0) * 7 % 11 - 5).reshape(size, 1, 6, 6).to("ocl")
        labels = (torch.arange(size) % 5).to("ocl")
        self.phase = "forward"
        loss = F.cross_entropy(self.net(images), labels)
        self.phase = "backward"
        loss.backward()
        self.phase = "optimizer"
        self.optimizer.step()
        self.phase = "reading"
        loss.item()
        self.optimizer.zero_grad()

    def seen(self):
        """(parameters, statistics of BatchNorm, the optimizer's state), as lists."""
        parameters = [each.tolist() for each in self.net.parameters()]
        statistics = [each.tolist() for each in self.net.buffers()]
        values = torch.utils._pytree.tree_leaves(self.optimizer.state_dict()["state"])
        state = [each.tolist() if isinstance(each, torch.Tensor) else each for each in values]
        return parameters, statistics, state

    def after(self, size):
        self.restart()
        self.step(size)
        return self.seen()


def judge(training, layer, failure, expected):
    """-> (phase of the exception, what of the model changed, defects)"""
    before, large, small = expected
    training.restart()
    alive, defects, phase = layer.alive(), [], "none"
    layer.fail(failure)
    try:
        training.step(LARGE)
    except torch.OutOfMemoryError:
        phase = training.phase
    except Exception as error:
        phase = training.phase
        defects.append(f"raised {type(error).__name__}: {error}"[:300])
    gc.collect()
    layer.fail()
    training.optimizer.zero_grad()
    seen = training.seen()
    parts = ("parameters", "statistics", "state")
    changed = [part for part, a, b in zip(parts, seen, before, strict=True) if a != b]
    if seen == large:
        changed = ["step done"]
    elif phase == "none":
        defects.append("wrong without an exception")
    if phase in ("copy", "forward", "backward") and set(changed) - {"statistics"}:
        defects.append(f"changed in {phase}: {changed}")
    if training.after(SMALL) != small:
        defects.append("the smaller batch is wrong")
    training.restart()
    more = {name: count - alive[name] for name, count in layer.alive().items()}
    # A stream keeps the event of its last mark.
    if any(count > (name == "events") for name, count in more.items()):
        defects.append(f"leak {more}")
    return phase, ", ".join(changed) or "nothing", defects


def goes_on(training, layer, failure):
    """How a smaller step fails without a restart, after one that ran out of memory; or ""."""
    training.restart()
    layer.fail(failure)
    with contextlib.suppress(torch.OutOfMemoryError):
        training.step(LARGE)
    layer.fail()
    training.optimizer.zero_grad()
    try:
        training.step(SMALL)
    except Exception as error:
        return f"{type(error).__name__}: {error}"
    return ""


def campaign(optimizer, earlier_steps, every):
    layer, training = Layer(), Training(optimizer, earlier_steps)
    before = training.restart() or training.seen()
    large, small = training.after(LARGE), training.after(SMALL)
    training.restart()
    layer.fail()
    training.step(LARGE)
    calls = layer.calls_of_all()
    counts, bad, stuck = collections.Counter(), [], collections.Counter()
    for entry in ENTRIES:
        for n in range(1, calls[entry] + 1, every):
            for times in (f"{n}", f"{n}+"):
                failure = f"{entry}:{times}:-4"
                phase, changed, defects = judge(training, layer, failure, (before, large, small))
                counts[phase, changed] += 1
                bad += [f"{failure}: {defect}" for defect in defects]
                if phase == "optimizer" and (text := goes_on(training, layer, failure)):
                    stuck[text] += 1
    print(f"{optimizer}, {earlier_steps} earlier steps: {counts.total()} cases, {len(bad)} defects")
    for (phase, changed), count in counts.items():
        print(f"  exception in {phase}, changed {changed}: {count}")
    for text, count in stuck.items():
        print(f"  the next step raises {text}: {count}")
    print(*bad, sep="\n", flush=True)
    return len(bad)


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--optimizers", nargs="+", default=list(OPTIMIZERS), choices=OPTIMIZERS)
    parser.add_argument("--earlier-steps", nargs="+", type=int, default=[0, 1])
    parser.add_argument("--every", type=int, default=1, help="only every n-th call fails")
    args = parser.parse_args()
    defects = sum(
        campaign(optimizer, steps, args.every)
        for optimizer in args.optimizers
        for steps in args.earlier_steps
    )
    print(f"{defects} defects")
    sys.exit(defects > 0)


if __name__ == "__main__":
    main()
