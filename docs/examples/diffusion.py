"""Denoises an image: steps of a diffusion model of the package diffusers.

    python docs/examples/diffusion.py [--steps 20] [--size 32] [--dtype bfloat16] [--device ocl]

The U-Net has random weights, so the image is noise; with weights of the hub, the loop is the same:
    pipeline = diffusers.DiffusionPipeline.from_pretrained(NAME).to("ocl")
"""

import argparse

import torch
from diffusers import DDIMScheduler, UNet2DModel
from tqdm import tqdm

import torch_ocl  # noqa: F401 (the device, also where PyTorch has a GPU of its own)


def main(arguments=None):
    parser = argparse.ArgumentParser()
    parser.add_argument("--device", default="ocl")
    parser.add_argument("--steps", default=20, type=int)
    parser.add_argument("--size", default=32, type=int)
    parser.add_argument("--dtype", default="float32", choices=["float32", "float16", "bfloat16"])
    args = parser.parse_args(arguments)

    torch.manual_seed(0)
    dtype = getattr(torch, args.dtype)
    blocks = {"block_out_channels": (32, 64), "layers_per_block": 1, "norm_num_groups": 8}
    kinds = {
        "down_block_types": ("DownBlock2D", "AttnDownBlock2D"),
        "up_block_types": ("AttnUpBlock2D", "UpBlock2D"),
    }
    model = UNet2DModel(args.size, 3, 3, **blocks, **kinds).to(args.device, dtype).eval()
    scheduler = DDIMScheduler()
    scheduler.set_timesteps(args.steps)
    noise = torch.randn(1, 3, args.size, args.size, generator=torch.Generator().manual_seed(0))
    image = noise.to(args.device, dtype)
    with torch.no_grad():
        for time in tqdm(scheduler.timesteps, desc="denoise"):
            predicted = model(image, time.to(args.device)).sample
            image = scheduler.step(predicted, time, image).prev_sample
    print(f"{tuple(image.shape)}, mean {image.mean().item():.3f}, std {image.std().item():.3f}")
    return image


if __name__ == "__main__":
    main()
