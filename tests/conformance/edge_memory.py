"""Compares the peak of memory of a call with ten million elements on the device and on the CPU."""

import harness as h
import torch
from edge_cases import Case
from edge_leaves import Leaves, build
from edge_runs import MOST_ELEMENTS, elements_of_result
from harness import P_CPU, P_DEVICE

ELEMENTS = 10_000_000
MOST_TIMES, LEAST_BYTES = 1.5, 64_000_000


def enlarged(parts):
    """The sample with more rows, or longer ones, so that its largest tensor has ELEMENTS."""
    leaves = Leaves(parts)
    sized = [i for i in leaves.tensors if leaves[i].dim() and leaves[i].numel()]
    if not sized:
        return
    most = max(sized, key=lambda i: leaves[i].numel())
    factor = ELEMENTS // leaves[most].numel()
    for dim, alone in ((0, False), (-1, False), (0, True)):
        size = leaves[most].shape[dim]
        chosen = [most] if alone else [i for i in sized if leaves[i].shape[dim] == size]

        def tiled(t, dim=dim):
            times = [1] * t.dim()
            times[dim] = factor
            return t.detach().repeat(times)

        yield leaves.replaced({i: tiled(leaves[i]) for i in chosen})


def peak_on_cpu(call):
    """The peak of the bytes that the call had allocated from PyTorch's allocator."""
    with torch.autograd.profiler.profile(profile_memory=True) as profile:
        call()
    now = most = 0
    events = profile.kineto_results.events()
    for event in sorted(events, key=lambda e: e.start_ns()):
        if event.name() == "[memory]" and event.device_type() == torch.profiler.DeviceType.CPU:
            now += event.nbytes()
            most = max(most, now)
    return most


def peak_on_device(call, device):
    torch.accelerator.synchronize(device)
    before = torch.ocl.memory_allocated(device)
    torch.ocl.reset_peak_memory_stats(device)
    call()
    torch.accelerator.synchronize(device)
    return torch.ocl.max_memory_allocated(device) - before


def candidates(subject, dtype):
    """Samples with their enlarged arguments."""
    for sample in subject.samples(dtype):
        for parts in enlarged(sample.parts):
            if elements_of_result(Case("", parts), subject, sample) <= MOST_ELEMENTS:
                yield sample, parts


def caller(subject, sample, parts, device):
    args, kwargs = build(parts, device)
    call = subject.call(sample, device)

    def run():
        with torch.no_grad():
            return call(*args, **kwargs)

    return run


def run(subject, dtype, context, outcome):
    """Compares the first sample that can be enlarged."""
    context.mark(P_CPU)
    for sample, parts in candidates(subject, dtype):
        context.mark(P_CPU)
        try:
            allowed = peak_on_cpu(caller(subject, sample, parts, "cpu"))
        except Exception:
            continue
        context.mark(P_DEVICE)
        try:
            call = caller(subject, sample, parts, context.device)
            call()  # makes tables and other memory that is kept
            used = peak_on_device(call, context.device)
        except Exception as e:
            return outcome.differs("", "error", h.describe(e))
        if used > MOST_TIMES * allowed and used > LEAST_BYTES:
            sizes = [tuple(t.shape) for t in h.tensors_of(parts)]
            text = f"{used / 1e6:.0f} MB instead of {allowed / 1e6:.0f} MB, for {sizes}"
            return outcome.differs("", "memory", text)
        outcome.result["agree"] += 1
        return None
    return outcome.count("left", "no sample can be enlarged")
