"""Speed and memory of fine-tuning a language model, on an OpenCL device and on PyTorch's CPU path.

    python tests/bench/fine_tuning.py [--ways full,lora] [--optimizer adamw|adamw8bit]
                                      [--rounds 3] [--texts 2] [--tokens 256] [--size large|small]

The Llama of language.py learns random texts under bfloat16 autocast with activation checkpointing:
all parameters, in float32, or LoRA matrices of rank 16 for each linear layer, whose weights are
bfloat16. The devices alternate. Prints a row for each way:
    trained tokens/s of the device and of the CPU path, and their ratio;
    peak memory of a process that trains for two steps, above that before it makes the model

Needs transformers; peft for LoRA; torchao for adamw8bit.
"""

import argparse
import statistics
import subprocess
import sys
import time
import warnings
from pathlib import Path

import torch
from language import SHAPE, SIZES
from transformers import LlamaConfig, LlamaForCausalLM

import torch_ocl  # noqa: F401 (the device, also where PyTorch has a GPU of its own)

DEVICES = ("ocl", "cpu")


def make_model(way, device, size):
    torch.manual_seed(0)
    model = LlamaForCausalLM(LlamaConfig(use_cache=False, **SHAPE, **SIZES[size])).train()
    if way == "lora":
        from peft import LoraConfig, get_peft_model

        config = LoraConfig(r=16, lora_alpha=32, target_modules="all-linear")
        model = get_peft_model(model.to(torch.bfloat16), config, autocast_adapter_dtype=True)
        model.enable_input_require_grads()
    model.gradient_checkpointing_enable({"use_reentrant": False})
    return model.to(device)


def make_optimizer(name, model):
    parameters = [p for p in model.parameters() if p.requires_grad]
    if name == "adamw":
        return torch.optim.AdamW(parameters, lr=1e-4)
    from torchao.optim import AdamW8bit

    return AdamW8bit(parameters, lr=1e-4)


class Training:
    def __init__(self, way, device, args):
        self.device = device
        self.model = make_model(way, device, args.size)
        self.optimizer = make_optimizer(args.optimizer, self.model)
        self.texts = torch.randint(0, SHAPE["vocab_size"], (args.texts, args.tokens), device=device)

    def step(self):
        """-> seconds, loss"""
        begin = time.perf_counter()
        with torch.autocast(self.device, torch.bfloat16):
            loss = self.model(input_ids=self.texts, labels=self.texts).loss
        loss.backward()
        self.optimizer.step()
        self.optimizer.zero_grad()
        torch.ocl.synchronize()
        return time.perf_counter() - begin, loss.item()


def resident(name):
    """Bytes, now (VmRSS) or at most (VmHWM)."""
    lines = Path("/proc/self/status").read_text().splitlines()
    return next(int(line.split()[1]) << 10 for line in lines if line.startswith(name))


def memory_of(way, device, args):
    """Bytes, in a process of its own."""
    command = [sys.executable, __file__, "--memory-of", device, "--ways", way]
    command += ["--optimizer", args.optimizer, "--texts", str(args.texts)]
    command += ["--tokens", str(args.tokens), "--size", args.size]
    result = subprocess.run(command, check=True, capture_output=True, text=True)
    return int(result.stdout.split()[-1])


def measure_memory(args):
    torch.ones(2, device=args.memory_of).sum().item()
    before = resident("VmRSS")
    training = Training(args.ways, args.memory_of, args)
    for _ in range(2):
        training.step()
    print(resident("VmHWM") - before)


def measure(way, args):
    """-> {device: tokens/s}"""
    trainings = {device: Training(way, device, args) for device in DEVICES}
    times = {device: [] for device in DEVICES}
    losses = {}
    for number in range(args.rounds + 1):
        for device, training in trainings.items():
            seconds, losses[device] = training.step()
            time.sleep(0.1)  # threads of the CPU path wait actively for a while
            if number > 0:  # the first step compiles
                times[device].append(seconds)
    if abs(losses["ocl"] - losses["cpu"]) > 0.02 * losses["cpu"]:
        raise AssertionError(f"{way}: the losses differ: {losses}")
    tokens = args.texts * args.tokens
    return {device: tokens / statistics.median(seconds) for device, seconds in times.items()}


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--ways", default="full,lora")
    parser.add_argument("--optimizer", choices=("adamw", "adamw8bit"), default="adamw8bit")
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--texts", type=int, default=2)
    parser.add_argument("--tokens", type=int, default=256)
    parser.add_argument("--size", choices=SIZES, default="large")
    parser.add_argument("--memory-of", choices=DEVICES)
    args = parser.parse_args()
    warnings.filterwarnings("ignore")
    if args.memory_of:
        measure_memory(args)
        return
    print(f"| {torch.ocl.get_device_name()} | tokens/s | CPU | ratio | memory, GB | CPU's |")
    print("| --- | ---: | ---: | ---: | ---: | ---: |")
    for way in args.ways.split(","):
        rates = measure(way, args)
        memory = {device: memory_of(way, device, args) / 1e9 for device in DEVICES}
        cells = [f"{rates['ocl']:.0f}", f"{rates['cpu']:.0f}", f"{rates['ocl'] / rates['cpu']:.2f}"]
        cells += [f"{memory[device]:.2f}" for device in DEVICES]
        print(f"| {way} | {' | '.join(cells)} |", flush=True)


if __name__ == "__main__":
    main()
