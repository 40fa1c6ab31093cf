"""Cases of torchvision's operators."""

import torch

from .inputs import Family, Skip, awkward, gradients


def boxes_of(x):
    corner = torch.stack([x[:, 0], x[:, -1]], 1) * 10
    return torch.cat([corner, corner + corner.abs() + 1], 1)


def kept_boxes(t, x):
    """Keeps the boxes, of two classes, that no box of a higher score covers by half."""
    boxes, scores = boxes_of(x), x[:, x.shape[1] // 2]
    classes = (scores < 0.3).long()
    if not t.on_cpu:
        return torch.ops.ocl.batched_nms(boxes, scores, classes, 0.5)
    left, kept = scores.sort(descending=True, stable=True).indices, []
    while len(left):
        first, left = left[0], left[1:]
        kept.append(first)
        low = boxes[left, :2].maximum(boxes[first, :2])
        high = boxes[left, 2:].minimum(boxes[first, 2:])
        common = (high - low).clamp(min=0).prod(1)
        areas = [(b[..., 2:] - b[..., :2]).prod(-1) for b in (boxes[first], boxes[left])]
        covered = common / (areas[0] + areas[1] - common) > 0.5
        left = left[~(covered & (classes[left] == classes[first]))]
    return torch.stack(kept) if kept else left


def with_torchvision(function):
    def case(t):
        try:
            from torchvision import ops
        except (ImportError, RuntimeError) as error:  # RuntimeError: built for another PyTorch
            raise Skip(f"torchvision cannot be imported: {error}") from None
        return function(t, ops)

    return case


def regions(t, ops):
    """Pooling of regions of two images."""
    rois = torch.cat([t.i((9, 1), 2).to(torch.float32), boxes_of(t.x(9, 2)).abs()], 1)
    pooled = []
    for pool in (ops.roi_align, ops.roi_pool, ops.ps_roi_align, ops.ps_roi_pool):
        images = t.weight(2, 8, 17, 13)
        pooled += gradients(pool(images, rois, 2), images)
    return pooled


def deformed(t, ops):
    images, weight, bias = t.weight(2, 4, 9, 7), t.weight(6, 4, 3, 3), t.weight(6)
    offset, mask = t.weight(2, 18, 9, 7), t.weight(2, 9, 9, 7)
    inputs = images, offset, weight, bias
    return gradients(ops.deform_conv2d(*inputs, padding=1, mask=mask), *inputs, mask)


VISION = Family(
    ("vision",),
    {
        **awkward(kept_boxes),
        "regions": with_torchvision(regions),
        "deformed convolution": with_torchvision(deformed),
    },
)
