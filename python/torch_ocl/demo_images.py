"""Compares the image operators with Pillow's on a photograph: the second part of torch_ocl.demo."""

import numpy
import torch
from PIL import Image, ImageDraw, ImageEnhance, ImageFilter, ImageOps
from sklearn.datasets import load_sample_image

from torch_ocl import image

CELL = (300, 200)  # a picture of the sheet, in pixels
LABEL, COLUMNS = 18, 2

# Name: (the operation on tensors, the operation with Pillow).
OPERATIONS = {
    "crop": (
        lambda x: image.crop(x, (100, 60, 420, 274)),
        lambda p: p.crop((100, 60, 420, 274)),
    ),
    "paste": (
        lambda x: image.paste(x, image.crop(x, (300, 100, 460, 260)), (40, 20)),
        lambda p: pasted(p, p.crop((300, 100, 460, 260)), (40, 20)),
    ),
    "flip": (image.flip, ImageOps.mirror),
    "resize to 107 x 160, bicubic": (
        lambda x: image.resize(x, (107, 160)),
        lambda p: p.resize((160, 107)),
    ),
    "rotate by 30 degrees, bilinear": (
        lambda x: image.rotate(x, 30, "bilinear", fill=(40, 80, 120)),
        lambda p: p.rotate(30, Image.Resampling.BILINEAR, fillcolor=(40, 80, 120)),
    ),
    "affine, bicubic": (
        lambda x: image.affine(x, (1.1, 0.3, -60, -0.1, 0.9, 40), interpolation="bicubic"),
        lambda p: p.transform(
            p.size,
            Image.Transform.AFFINE,
            (1.1, 0.3, -60, -0.1, 0.9, 40),
            Image.Resampling.BICUBIC,
        ),
    ),
    "gaussian_blur 4": (
        lambda x: image.gaussian_blur(x, 4),
        lambda p: p.filter(ImageFilter.GaussianBlur(4)),
    ),
    "brightness 1.5": (
        lambda x: image.adjust_brightness(x, 1.5),
        lambda p: ImageEnhance.Brightness(p).enhance(1.5),
    ),
    "contrast 1.8": (
        lambda x: image.adjust_contrast(x, 1.8),
        lambda p: ImageEnhance.Contrast(p).enhance(1.8),
    ),
    "saturation 2": (
        lambda x: image.adjust_saturation(x, 2),
        lambda p: ImageEnhance.Color(p).enhance(2),
    ),
    "hue +0.3": (lambda x: image.adjust_hue(x, 0.3), lambda p: turned(p, 0.3)),
}


def pasted(picture, patch, at):
    picture = picture.copy()
    picture.paste(patch, at)
    return picture


def turned(picture, factor):
    hsv = numpy.array(picture.convert("HSV"))
    hsv[..., 0] += numpy.uint8(int(factor * 255))
    return Image.fromarray(hsv, "HSV").convert("RGB")


def to_tensor(picture, device):
    return torch.from_numpy(numpy.array(picture)).to(device).permute(2, 0, 1)


def to_picture(tensor):
    return Image.fromarray(tensor.permute(1, 2, 0).cpu().numpy())


def compare(device):
    """Yields (operation, our picture, Pillow's, share of different bytes, largest difference)."""
    photograph = Image.fromarray(load_sample_image("china.jpg"))
    for name, (on_tensor, on_picture) in OPERATIONS.items():
        ours = to_picture(on_tensor(to_tensor(photograph, device)))
        theirs = on_picture(photograph)
        difference = numpy.abs(numpy.asarray(ours, int) - numpy.asarray(theirs, int))
        yield (
            name,
            ours,
            theirs,
            numpy.count_nonzero(difference) / difference.size,
            difference.max(),
        )


def write_contact_sheet(path, device):
    """Writes each result next to Pillow's; returns {operation: share of bytes that differ}.

    A row has COLUMNS operators; for each, ours is on the left, Pillow's on the right.
    """
    width, height = CELL
    rows = -(-len(OPERATIONS) // COLUMNS)
    sheet = Image.new("RGB", (2 * COLUMNS * width, rows * (height + LABEL)), "white")
    draw = ImageDraw.Draw(sheet)
    shares = {}
    for number, (name, ours, theirs, share, most) in enumerate(compare(device)):
        x, y = number % COLUMNS * 2 * width, number // COLUMNS * (height + LABEL)
        same = "same bytes" if share == 0 else f"{share:.2%} of bytes differ, by {most} at most"
        draw.text((x + 3, y + 3), f"{name}: {device} and Pillow, {same}", "black")
        for side, picture in enumerate((ours, theirs)):
            picture.thumbnail((width - 4, height - 4))
            sheet.paste(picture, (x + side * width, y + LABEL))
        shares[name] = share
    sheet.save(path)
    return shares
