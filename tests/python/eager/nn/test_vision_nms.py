"""torchvision's non-maximum suppression on ocl (kernels/vision/nms.cpp)."""

import types

import pytest
import torch
import vision_formulas as formulas
from support import FLOATS, assert_same
from vision_formulas import OPS, random, random_boxes

from torch_ocl.integrations.torchvision import suppress_all_classes_at_once


@pytest.mark.parametrize("count", [1, 63, 64, 65, 300])
@pytest.mark.parametrize("dtype", FLOATS)
def test_nms(device, dtype, count):
    boxes, scores = random_boxes(count, 100).to(dtype), random(count).to(dtype)
    # The formula computes in the type in which the kernel does.
    wide = torch.promote_types(dtype, torch.float32)
    expected = formulas.nms(boxes.to(wide), scores, 0.3)
    assert_same(OPS.nms(boxes.to(device), scores.to(device), 0.3), expected)


def test_edges_of_nms(device):
    """Equal scores keep the order of boxes; an overlap of just the threshold stays; NaN too."""
    boxes = torch.tensor(
        [[0, 0, 2, 1], [0, 0, 1, 1], [5, 5, 7, 7], [5, 5, 7, 7], [float("nan")] * 4, [9, 9, 9, 9.0]]
    )

    def nms(scores, threshold):
        return OPS.nms(boxes.to(device), torch.tensor(scores).to(device), threshold).tolist()

    same = [1.0] * 6
    assert nms(same, 0.5) == [0, 1, 2, 4, 5]
    assert nms(same, 0.49) == [0, 2, 4, 5]
    assert nms(same, 1.0) == [0, 1, 2, 3, 4, 5]
    assert nms([1, 2, 3, 4, 5, float("nan")], 0.49) == [5, 4, 3, 1]
    assert nms([-1.0, 0, 0, 0, 0, 0], -1.0) == [1, 4]
    empty = OPS.nms(boxes[:0].to(device), torch.zeros(0, device=device), 0.5)
    assert_same(empty, torch.zeros(0, dtype=torch.int64))


def test_refused_nms(device):
    boxes, scores = torch.ones(3, 4, device=device), torch.ones(3, device=device)
    for a, b, text in (
        (boxes[0], scores, "boxes should be a 2d tensor"),
        (boxes[:, :3], scores, "boxes should have 4 elements in dimension 1"),
        (boxes, boxes, "scores should be a 1d tensor"),
        (boxes, scores[:2], "same number of elements in dimension 0"),
        (boxes, scores.half(), "same type as scores"),
        (boxes, scores.cpu(), "scores is on cpu, but boxes is on ocl"),
        (boxes.int(), scores.int(), "Int"),
    ):
        with pytest.raises(RuntimeError, match=text):
            OPS.nms(a, b, 0.5)


@pytest.mark.parametrize("classes", [1, 3, 200])
@pytest.mark.parametrize("idxs_type", [torch.int64, torch.uint8])
def test_nms_of_classes(device, classes, idxs_type):
    """Sets of 300 boxes, and boxes with equal scores."""
    boxes, scores = random_boxes(300, 50).float(), random(300).float().round(decimals=1)
    idxs = torch.randint(classes, (300,), generator=formulas.generator(2)).to(idxs_type)
    kept = torch.zeros(300, dtype=torch.bool)
    for i in idxs.unique():
        own = (idxs == i).nonzero()[:, 0]
        kept[own[formulas.nms(boxes[own], scores[own], 0.3)]] = True
    order = scores.sort(stable=True, descending=True).indices
    moved = (t.to(device) for t in (boxes, scores, idxs))
    assert_same(torch.ops.ocl.batched_nms(*moved, 0.3), order[kept[order]])


def test_refused_nms_of_classes(device):
    boxes, scores = torch.ones(3, 4, device=device), torch.ones(3, device=device)
    nms = torch.ops.ocl.batched_nms
    assert nms(boxes[:0], scores[:0], scores[:0].long(), 0.5).shape == (0,)
    with pytest.raises(TypeError, match="must have whole numbers"):
        nms(boxes, scores, scores, 0.5)
    with pytest.raises(RuntimeError, match=r"idxs has sizes \[2\], but there are 3 scores"):
        nms(boxes, scores, torch.ones(2, device=device, dtype=torch.int64), 0.5)


def test_loop_over_classes_of_torchvision(device):
    """enable() replaces it for tensors on ocl, which suppress all classes in one call."""
    boxes = types.ModuleType("torchvision.ops.boxes")
    boxes._batched_nms_vanilla = lambda *arguments: "the loop"
    suppress_all_classes_at_once(boxes)
    operands = [torch.tensor([[0, 0, 1, 1.0]] * 3), torch.ones(3), torch.tensor([0, 0, 1])]
    moved = [x.to(device) for x in operands]
    assert boxes._batched_nms_vanilla(*moved, 0.5).tolist() == [0, 2]
    assert boxes._batched_nms_vanilla(*operands, 0.5) == "the loop"
