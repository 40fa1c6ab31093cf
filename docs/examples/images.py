"""Trains a classifier of images that are changed at random on the device, before each step.

    python docs/examples/images.py [--device ocl] [--epochs 8]

The images are drawn here, 32 x 32 pixels: triangles, squares and circles in any colours.
"""

import argparse
import random

import numpy
import torch
from PIL import Image, ImageDraw
from torch import nn
from tqdm import tqdm

from torch_ocl import image

SIDE, CLASSES = 32, 3


def draw(kind, generator):
    """A picture of one shape: of three corners, of four, or round."""
    colours = [tuple(generator.randrange(256) for _ in range(3)) for _ in range(2)]
    picture = Image.new("RGB", (SIDE, SIDE), colours[0])
    radius = generator.randrange(8, 13)
    x, y = (generator.randrange(radius, SIDE - radius) for _ in range(2))
    pen = ImageDraw.Draw(picture)
    if kind == 2:
        pen.ellipse((x - radius, y - radius, x + radius, y + radius), fill=colours[1])
    else:
        corners = generator.randrange(360)
        pen.regular_polygon((x, y, radius), kind + 3, corners, fill=colours[1])
    return numpy.array(picture)


def dataset(count, seed, device):
    """uint8 [count, 3, SIDE, SIDE] and the classes, int64 [count]"""
    generator = random.Random(seed)
    kinds = [number % CLASSES for number in range(count)]
    pictures = numpy.stack([draw(kind, generator) for kind in kinds])
    return torch.from_numpy(pictures).permute(0, 3, 1, 2).to(device), torch.tensor(kinds).to(device)


def changed(pictures, generator):
    """Turned, perhaps mirrored, lighter or darker, in other hues."""
    pictures = image.rotate(pictures, generator.uniform(-20, 20), "bilinear")
    if generator.random() < 0.5:
        pictures = image.flip(pictures)
    pictures = image.adjust_brightness(pictures, generator.uniform(0.7, 1.3))
    return image.adjust_hue(pictures, generator.uniform(-0.5, 0.5))


def normalized(pictures):
    return image.normalize(pictures / 255, mean=(0.5, 0.5, 0.5), std=(0.25, 0.25, 0.25))


def network():
    def block(inputs, outputs):
        convolution = nn.Conv2d(inputs, outputs, 3, padding=1, bias=False)
        return convolution, nn.BatchNorm2d(outputs), nn.ReLU(), nn.MaxPool2d(2)

    layers = [*block(3, 16), *block(16, 32), *block(32, 64)]
    return nn.Sequential(*layers, nn.Flatten(), nn.Linear(64 * (SIDE // 8) ** 2, CLASSES))


def main(arguments=None):
    parser = argparse.ArgumentParser()
    parser.add_argument("--device", default="ocl")
    parser.add_argument("--epochs", default=8, type=int)
    parser.add_argument("--batch", default=64, type=int)
    args = parser.parse_args(arguments)

    torch.manual_seed(0)
    generator = random.Random(0)
    pictures, kinds = dataset(1920, 1, args.device)
    test_pictures, test_kinds = dataset(480, 2, args.device)
    model = network().to(args.device)
    optimizer = torch.optim.AdamW(model.parameters(), lr=3e-3)
    for epoch in range(args.epochs):
        order = torch.randperm(len(kinds), device=args.device).split(args.batch)
        for batch in tqdm(order, desc=f"epoch {epoch + 1}"):
            with torch.autocast(torch.device(args.device).type, torch.bfloat16):
                scores = model(normalized(changed(pictures[batch], generator)))
                loss = nn.functional.cross_entropy(scores, kinds[batch])
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
    model.eval()
    with torch.no_grad():
        right = (model(normalized(test_pictures)).argmax(1) == test_kinds).float().mean().item()
    print(f"{right:.1%} of the test pictures are recognised")
    return right


if __name__ == "__main__":
    main()
