"""Profiles steps of training: a table of kernels, and a timeline of the device's queue.

    python docs/examples/profiling.py [--trace trace.json] [--device ocl]

Open the file in https://ui.perfetto.dev (docs/profiling.md).
"""

import argparse

import torch
from torch import nn
from torch.profiler import ProfilerActivity, profile, record_function, schedule

import torch_ocl  # noqa: F401 (the device, also where PyTorch has a GPU of its own)


def main(arguments=None):
    parser = argparse.ArgumentParser()
    parser.add_argument("--device", default="ocl")
    parser.add_argument("--trace", default="trace.json")
    args = parser.parse_args(arguments)

    layer = nn.TransformerEncoderLayer(256, 4, 1024, batch_first=True).to(args.device)
    optimizer = torch.optim.AdamW(layer.parameters())
    x = torch.randn(8, 128, 256, device=args.device)
    # The first steps compile kernels: they are left out.
    steps = schedule(wait=1, warmup=1, active=3)
    activities = [ProfilerActivity.CPU, ProfilerActivity.PrivateUse1]
    with profile(activities=activities, schedule=steps, acc_events=True) as profiler:
        for _ in range(5):
            with record_function("forward"):
                loss = layer(x).square().mean()
            with record_function("backward"):
                loss.backward()
            with record_function("update"):
                optimizer.step()
                optimizer.zero_grad()
            profiler.step()
    table = profiler.key_averages().table(sort_by="self_device_time_total", row_limit=12)
    profiler.export_chrome_trace(args.trace)
    print(table)
    print(f"timeline: {args.trace}")
    return table


if __name__ == "__main__":
    main()
