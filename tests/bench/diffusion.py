"""Time of a step of diffusion models, on an OpenCL device and on PyTorch's CPU path.

    python tests/bench/diffusion.py [--models unet,vae,dit] [--dtypes float32,bfloat16]
                                    [--layouts contiguous,channels_last] [--compile] [--rounds 4]

Models of diffusers with random weights and a batch of one: the U-Net of Stable Diffusion 1.5 with
latents of 64 x 64, a VAE's decoder from latents of 32 x 32, and a DiT of 12 layers, 768 channels
and 256 tokens. The devices alternate. Prints a row for each: medians in seconds, and ratios to the
CPU path's. The U-Net takes 3.5 GB for each column in float32. Needs
diffusers.
"""

import argparse
import statistics
import time
import warnings

import torch
from diffusers import AutoencoderKL, DiTTransformer2DModel, UNet2DConditionModel

import torch_ocl  # noqa: F401 (the device, also where PyTorch has a GPU of its own)


def unet():
    model = UNet2DConditionModel(sample_size=64, cross_attention_dim=768, attention_head_dim=8)
    inputs = torch.randn(1, 4, 64, 64), torch.tensor(10.0), torch.randn(1, 77, 768)
    return model, inputs, lambda model, x, when, text: model(x, when, text).sample


def vae():
    model = AutoencoderKL(
        block_out_channels=(128, 256, 512, 512),
        down_block_types=("DownEncoderBlock2D",) * 4,
        up_block_types=("UpDecoderBlock2D",) * 4,
        layers_per_block=2,
        latent_channels=4,
    )
    return model, (torch.randn(1, 4, 32, 32),), lambda model, x: model.decode(x).sample


def dit():
    model = DiTTransformer2DModel(
        num_attention_heads=12,
        attention_head_dim=64,
        num_layers=12,
        sample_size=32,
        num_embeds_ada_norm=1000,
    )
    inputs = torch.randn(1, 4, 32, 32), torch.tensor([10]), torch.tensor([3])
    return model, inputs, lambda model, x, when, label: model(x, when, class_labels=label).sample


MODELS = {"unet": unet, "vae": vae, "dit": dit}
LAYOUTS = {"contiguous": torch.contiguous_format, "channels_last": torch.channels_last}


def step(make, device, dtype, layout, compiles=False):
    """-> a function that runs the model once, and returns its result and the seconds it took"""
    torch.manual_seed(0)
    model, inputs, call = make()
    order = LAYOUTS[layout]
    model = model.eval().to(device, dtype).to(memory_format=order)
    inputs = [x.to(device, dtype if x.is_floating_point() else None) for x in inputs]
    inputs[0] = inputs[0].contiguous(memory_format=order)
    if compiles:
        model = torch.compile(model)

    def run():
        begin = time.perf_counter()
        with torch.no_grad():
            result = call(model, *inputs)
        torch.ocl.synchronize()
        seconds = time.perf_counter() - begin
        return result.float().cpu(), seconds

    return run


def measure(make, dtype, layout, compiles, rounds):
    """-> {way: median of the seconds}"""
    ways = {"ocl": step(make, "ocl", dtype, layout), "cpu": step(make, "cpu", dtype, layout)}
    if compiles:
        ways["compiled"] = step(make, "ocl", dtype, layout, compiles=True)
    results = {way: run()[0] for way, run in ways.items()}  # also compiles
    share = 1e-3 if dtype == torch.float32 else 0.2
    tolerance = share * results["cpu"].abs().max().item()
    for way, result in results.items():
        torch.testing.assert_close(result, results["cpu"], rtol=0, atol=tolerance, msg=way)
    times = {way: [] for way in ways}
    for _ in range(rounds):
        for way, run in ways.items():
            times[way].append(run()[1])
            time.sleep(0.1)  # threads of the CPU path wait actively for a while
    return {way: statistics.median(seconds) for way, seconds in times.items()}


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--models", default=",".join(MODELS))
    parser.add_argument("--dtypes", default="float32,bfloat16")
    parser.add_argument("--layouts", default=",".join(LAYOUTS))
    parser.add_argument("--compile", action="store_true")
    parser.add_argument("--rounds", type=int, default=4)
    args = parser.parse_args()
    warnings.filterwarnings("ignore")
    print(f"| {torch.ocl.get_device_name()} | s | compiled, s | CPU, s | ratio | compiled |")
    print("| --- | ---: | ---: | ---: | ---: | ---: |")
    for name in args.models.split(","):
        for dtype in args.dtypes.split(","):
            for layout in args.layouts.split(","):
                if name == "dit" and layout == "channels_last":
                    continue  # it has one convolution
                given = getattr(torch, dtype), layout, args.compile, args.rounds
                found = measure(MODELS[name], *given)
                seconds = [found.get(way) for way in ("ocl", "compiled", "cpu")]
                cells = [f"{s:.3f}" if s else "" for s in seconds]
                cells += [f"{s / seconds[2]:.2f}" if s else "" for s in seconds[:2]]
                print(f"| {name}, {dtype}, {layout} | {' | '.join(cells)} |", flush=True)


if __name__ == "__main__":
    main()
