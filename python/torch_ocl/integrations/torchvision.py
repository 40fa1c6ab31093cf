"""torchvision: batched_nms of many boxes without a wait for each class."""

import torch

from . import replace


def suppress_all_classes_at_once(module) -> None:
    """torchvision.ops.boxes: the loop over classes, which batched_nms takes for many boxes."""

    def make(original):
        def _batched_nms_vanilla(boxes, scores, idxs, iou_threshold):
            if boxes.device.type != "ocl" or idxs.is_floating_point():
                return original(boxes, scores, idxs, iou_threshold)
            return torch.ops.ocl.batched_nms(boxes, scores, idxs, iou_threshold)

        return _batched_nms_vanilla

    replace(module, "_batched_nms_vanilla", make)


@torch.library.register_fake("ocl::batched_nms")
def _(boxes, scores, idxs, iou_threshold):
    return idxs.new_empty(torch.library.get_ctx().new_dynamic_size(), dtype=torch.int64)
