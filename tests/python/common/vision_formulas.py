"""Plain formulas of torchvision's operators, with gradients by autograd; and its schemas, where
torchvision is not installed."""

import math

import torch
import torch.nn.functional as F
from support import generator

try:
    import torchvision  # noqa: F401
except (ImportError, RuntimeError):  # RuntimeError: it is for another build of PyTorch
    SIZES = "SymInt batch_size, SymInt channels, SymInt height, SymInt width"
    BOXES = "Tensor rois, float spatial_scale, SymInt pooled_height, SymInt pooled_width"
    PLACES = "Tensor rois, Tensor channel_mapping, float spatial_scale, SymInt pooled_height"
    CONVOLUTION = (
        "Tensor input, Tensor weight, Tensor offset, Tensor mask, Tensor bias, SymInt stride_h,"
        " SymInt stride_w, SymInt pad_h, SymInt pad_w, SymInt dilation_h, SymInt dilation_w,"
        " SymInt groups, SymInt offset_groups, bool use_mask"
    )
    LIBRARY = torch.library.Library("torchvision", "DEF")
    for schema in (
        "nms(Tensor dets, Tensor scores, float iou_threshold) -> Tensor",
        f"roi_align(Tensor input, {BOXES}, int sampling_ratio, bool aligned) -> Tensor",
        f"_roi_align_backward(Tensor grad, {BOXES}, {SIZES}, int sampling_ratio, bool aligned)"
        " -> Tensor",
        f"ps_roi_align(Tensor input, {BOXES}, int sampling_ratio) -> (Tensor, Tensor)",
        f"_ps_roi_align_backward(Tensor grad, {PLACES}, SymInt pooled_width, int sampling_ratio,"
        f" {SIZES}) -> Tensor",
        f"roi_pool(Tensor input, {BOXES}) -> (Tensor, Tensor)",
        "_roi_pool_backward(Tensor grad, Tensor rois, Tensor argmax, float spatial_scale,"
        f" SymInt pooled_height, SymInt pooled_width, {SIZES}) -> Tensor",
        f"ps_roi_pool(Tensor input, {BOXES}) -> (Tensor, Tensor)",
        f"_ps_roi_pool_backward(Tensor grad, {PLACES}, SymInt pooled_width, {SIZES}) -> Tensor",
        f"deform_conv2d({CONVOLUTION}) -> Tensor",
        f"_deform_conv2d_backward(Tensor grad, {CONVOLUTION})"
        " -> (Tensor, Tensor, Tensor, Tensor, Tensor)",
    ):
        LIBRARY.define(schema)

OPS = torch.ops.torchvision


def random(*shape, seed=0):
    return torch.randn(shape, generator=generator(seed), dtype=torch.float64)


def random_boxes(count, size, seed=1):
    """Corners within and outside of an image of this size, x1 < x2 and y1 < y2."""
    corners = torch.rand(count, 2, 2, generator=generator(seed), dtype=torch.float64)
    return ((corners * 1.4 - 0.2) * size).sort(1).values.flatten(1)


def random_rois(count, images, size):
    numbers = torch.arange(count, dtype=torch.float64)[:, None] % images
    return torch.cat([numbers, random_boxes(count, size)], 1)


def nms(boxes, scores, threshold):
    order = scores.sort(stable=True, descending=True).indices.tolist()
    kept = []
    for i in order:
        low, high = (
            torch.maximum(boxes[kept, :2], boxes[i, :2]),
            torch.minimum(boxes[kept, 2:], boxes[i, 2:]),
        )
        common = (high - low).clamp(min=0).prod(1)
        area = (boxes[:, 2:] - boxes[:, :2]).prod(1)
        if not (common / (area[kept] + area[i] - common) > threshold).any():
            kept.append(i)
    return torch.tensor(kept, dtype=torch.int64)


def interpolated(image, y, x):
    """[channels, len(y), len(x)]; samples up to a pixel outside take the border."""
    height, width = image.shape[1:]
    inside = ((y >= -1) & (y <= height))[:, None] & ((x >= -1) & (x <= width))
    y, x = y.clamp(0, height - 1), x.clamp(0, width - 1)
    top, left = y.floor().long(), x.floor().long()
    bottom, right = (top + 1).clamp(max=height - 1), (left + 1).clamp(max=width - 1)
    down, along = (y - top)[:, None], x - left
    upper = image[:, top][:, :, left] * (1 - along) + image[:, top][:, :, right] * along
    lower = image[:, bottom][:, :, left] * (1 - along) + image[:, bottom][:, :, right] * along
    return (upper * (1 - down) + lower * down) * inside


def roi_align(x, rois, scale, rows, columns, ratio, aligned):
    def samples(low, high, bins):
        low, high = (float(v) * scale - 0.5 * aligned for v in (low, high))
        length = high - low if aligned else max(high - low, 1)
        count = ratio if ratio > 0 else math.ceil(length / bins)
        steps = torch.arange(bins * count, dtype=x.dtype) + 0.5
        return low + steps * length / max(bins * count, 1), count

    results = []
    for number, x1, y1, x2, y2 in rois.tolist():
        (ys, of_y), (xs, of_x) = samples(y1, y2, rows), samples(x1, x2, columns)
        grid = interpolated(x[int(number)], ys, xs)
        results.append(F.avg_pool2d(grid[None], (of_y, of_x))[0])
    return torch.stack(results)


def own_channels(result):
    """Reduces [boxes, channels * rows * columns, rows, columns]: each bin reads its own channel."""
    rows, columns = result.shape[2:]
    result = result.unflatten(1, (-1, rows, columns))
    return result.diagonal(0, 2, 4).diagonal(0, 2, 3)


def ps_roi_align(x, rois, scale, rows, columns, ratio):
    return own_channels(roi_align(x, rois, scale, rows, columns, ratio, True))


def pooled(x, rois, scale, rows, columns, more, reduce, end):
    """Reduces the pixels of each bin. `more`: pixels to add to the distance between a box's
    corners. `end`: pixels at the end of the image that bins leave out."""

    def spans(low, high, bins, size):
        low, high = (math.floor(v * scale + 0.5) for v in (low, high))
        length = max(high - low + more, 1) / bins
        edges = [(math.floor(i * length), math.ceil((i + 1) * length)) for i in range(bins)]
        return [[min(max(edge + low, 0), size - end) for edge in pair] for pair in edges]

    results = []
    for number, x1, y1, x2, y2 in rois.tolist():
        for top, bottom in spans(y1, y2, rows, x.shape[2]):
            for left, right in spans(x1, x2, columns, x.shape[3]):
                window = x[int(number), :, top:bottom, left:right].flatten(1)
                results.append(reduce(window) if window.shape[1] else 0 * x[0, :, 0, 0])
    return torch.stack(results).reshape(len(rois), rows, columns, -1).permute(0, 3, 1, 2)


def roi_pool(x, rois, scale, rows, columns):
    return pooled(x, rois, scale, rows, columns, 1, lambda window: window.max(1).values, 0)


def ps_roi_pool(x, rois, scale, rows, columns):
    return own_channels(pooled(x, rois, scale, rows, columns, 0, lambda window: window.mean(1), 1))


def deform_conv2d(x, weight, offset, mask, bias, sy, sx, py, px, dy, dx, groups, parts, masked):
    images, channels, height, width = x.shape
    kernel = weight.shape[2:]
    rows, columns = offset.shape[2:]
    moved = offset.view(images * parts, *kernel, 2, rows, columns)
    taps_y, taps_x = (torch.arange(n, dtype=x.dtype) * d for n, d in zip(kernel, (dy, dx)))
    places_y, places_x = torch.arange(rows) * sy - py, torch.arange(columns) * sx - px
    y = moved[:, :, :, 0] + taps_y[:, None, None, None] + places_y[:, None]
    x_at = moved[:, :, :, 1] + taps_x[:, None, None] + places_x
    grid = torch.stack([(2 * x_at + 1) / width - 1, (2 * y + 1) / height - 1], -1)
    split = x.reshape(images * parts, channels // parts, height, width)
    read = F.grid_sample(split, grid.flatten(1, 3), align_corners=False)
    read = read.view(images, parts, -1, *kernel, rows, columns)
    if masked:
        read = read * mask.view(images, parts, 1, *kernel, rows, columns)
    read = read.reshape(images, groups, -1, rows * columns)
    product = weight.reshape(groups, weight.shape[0] // groups, -1) @ read
    return product.view(images, -1, rows, columns) + bias[:, None, None]
