"""Calls of operators that other operators call, so that calls.py does not see them."""

import torch


def numbers(*shape):
    return torch.linspace(-1, 1, torch.Size(shape).numel()).reshape(shape)


def convolutions():
    x, weight = numbers(2, 4, 7, 6), numbers(6, 2, 3, 2)
    steps = ([2, 1], [1, 0], [1, 1], False, [0, 0], 2)
    yield "aten::convolution_overrideable", (x, weight, numbers(6), *steps)
    grad = numbers(2, 6, 4, 5)
    masks = [True] * 3
    yield "aten::convolution_backward_overrideable", (grad, x, weight, *steps, masks)
    line, of_line = numbers(1, 3, 9), numbers(3, 2, 3)
    steps = ([2], [1], [1], True, [1], 1)
    yield "aten::convolution_overrideable", (line, of_line, numbers(2), *steps)
    yield (
        "aten::convolution_backward_overrideable",
        (numbers(1, 2, 18), line, of_line, *steps, masks),
    )
    plain = ([1, 1], [0, 0], [1, 1], False, [0, 0], 1)
    yield (
        "ocl::convolution_epilogue",
        (x, numbers(6, 4, 1, 1), numbers(6), *plain, numbers(2, 6, 7, 6), "relu"),
    )
    yield (
        "ocl::addmm_epilogue",
        (numbers(5, 7), numbers(7, 3), numbers(3), numbers(5, 3), "relu"),
    )


def attention():
    query, key, value = numbers(2, 4, 5, 8), numbers(2, 2, 6, 8), numbers(2, 2, 6, 4)
    mask = numbers(1, 1, 5, 6)
    for bias in (mask, None):
        yield (
            "aten::_scaled_dot_product_fused_attention_overrideable",
            (query, key, value, bias, 0.0, bias is None, False),
        )
    seed, grad, sums = torch.tensor(1), numbers(2, 4, 5, 4), numbers(2, 4, 5)
    masks, rest = [True, True, True, False], (torch.empty(0), torch.empty(0), 5, 6)
    yield (
        "aten::_scaled_dot_product_fused_attention_overrideable_backward",
        (grad, query, key, value, mask, masks, grad, sums, *rest, 0.0, False, seed, seed),
    )
    yield (
        "aten::_scaled_dot_product_fused_attention_overrideable_backward",
        (grad, query, key, value, mask, masks, grad, sums, *rest, 0.3, True, seed, seed),
    )


def cells():
    state, gates = numbers(3, 5), numbers(3, 20)
    yield "aten::_thnn_fused_lstm_cell", (gates, gates, state, numbers(20), numbers(20))
    yield (
        "aten::_thnn_fused_lstm_cell_backward_impl",
        (state, state, state, state, gates, True),
    )
    gates = numbers(3, 15)
    yield "aten::_thnn_fused_gru_cell", (gates, gates, state, numbers(15), numbers(15))
    yield "aten::_thnn_fused_gru_cell_backward", (state, numbers(3, 25), True)


def norms():
    x, c = numbers(2, 3, 4, 5), numbers(3)
    yield (
        "aten::batch_norm_backward",
        (x, x, c, c, c, c, c, True, 1e-5, [True] * 3, torch.empty(0, dtype=torch.uint8)),
    )
    for train in (True, False):
        yield "aten::native_batch_norm_backward", (x, x, c, c, c, c, c, train, 1e-5, [True] * 3)
    count = torch.tensor([40], dtype=torch.int32)
    yield "aten::batch_norm_stats", (x, 1e-5)
    yield "aten::batch_norm_elemt", (x, c, c, c, c, 1e-5)
    yield "aten::batch_norm_gather_stats", (x, c[None], c[None], c, c, 0.1, 1e-5, 40)
    yield (
        "aten::batch_norm_gather_stats_with_counts",
        (x, c[None], c[None], c, c, 0.1, 1e-5, numbers(1)),
    )
    yield "aten::batch_norm_backward_reduce", (x, x, c, c, c, True, True, True)
    yield "aten::batch_norm_backward_elemt", (x, x, c, c, c, c, c, count)
    yield "aten::batch_norm_update_stats", (x, c, c, 0.1)
    x = numbers(2, 6, 4)
    group = (numbers(2, 3), numbers(2, 3), numbers(6), 2, 6, 4, 3, [True] * 3)
    yield "aten::native_group_norm_backward", (x, x, *group)
    row = numbers(2, 6, 1)
    yield (
        "aten::native_layer_norm_backward",
        (x, x, [4], row, row, numbers(4), numbers(4), [True] * 3),
    )


def losses():
    logs, targets = numbers(7, 2, 4), torch.tensor([[1, 2, 3], [3, 1, 1]])
    lengths = ([7, 6], [3, 2])
    yield "aten::_ctc_loss", (logs, targets, *lengths, 0, False)
    yield (
        "aten::_ctc_loss_backward",
        (numbers(2), logs, targets, *lengths, numbers(2), numbers(2, 7, 7), 0, False),
    )
    yield "aten::_ctc_loss", (logs, targets.flatten()[:5], *lengths, 0, True)
    labels, total = torch.tensor([[[0, 1], [2, 0]]]), torch.tensor(4.0)
    for reduction, grad in ((0, numbers(1, 2, 2)), (1, torch.tensor(1.0))):
        yield (
            "aten::nll_loss2d_backward",
            (grad, numbers(1, 3, 2, 2), labels, numbers(3), reduction, -100, total),
        )


def others():
    x = numbers(3, 4)
    yield "ocl::philox_dropout", (x, 0.5, torch.tensor([1, 2]))
    offsets = torch.tensor([0, 2, 4])
    yield (
        "aten::_segment_reduce_backward",
        (numbers(2, 3), numbers(2, 3), numbers(4, 3), "max"),
        {"offsets": offsets},
    )
    places = torch.zeros(3, 4, dtype=torch.int64)
    for name in ("_cummax_helper", "_cummin_helper"):
        yield f"aten::{name}", (x, x.clone(), places, 1)
    bags = torch.tensor([0, 0, 1])
    indices, sizes = torch.tensor([1, 0, 4]), torch.tensor([2, 1])
    greatest = torch.tensor([[1, 0, 1], [4, 4, 4]])
    yield (
        "aten::_embedding_bag_dense_backward",
        (numbers(2, 3), indices, bags, sizes, greatest, 5, False, 2, None, -1),
    )
    yield (
        "aten::_embedding_bag_dense_backward",
        (numbers(2, 3), indices, bags, sizes, indices, 5, True, 1, None, -1),
    )
    yield (
        "aten::_embedding_bag_per_sample_weights_backward",
        (numbers(2, 3), numbers(5, 3), indices, torch.tensor([0, 2]), bags, 0, -1),
    )
    image = numbers(3, 5, 6)
    yield "torch_ocl::_resize_backward", (image, [8, 4], "bilinear", True)
    yield "torch_ocl::_affine_backward", (image, [1.0, 0.2, 0, 0, 1.0, 0], [5, 6], "bilinear")
    yield "torch_ocl::_affine_backward", (image, [0.5, 0.0, 0, 0, 0.5, 0], [5, 6], "nearest")
    yield "torch_ocl::_normalize_backward", (image, image, [0.5, 0.5, 0.5])
    yield "torch_ocl::_gaussian_blur_backward", (image, [1.5, 0.5])
    for op in range(4):
        yield "torch_ocl::_adjust_backward", (image, image, op, 0.3)


def vision():
    """Images of 8 = 2 * 2 * 2 channels, for boxes of 2 x 2 parts."""
    boxes = torch.tensor([[0.0, 0.0, 4.0, 4.0], [1.0, 1.0, 5.0, 5.0], [0.0, 3.0, 2.0, 6.0]])
    yield "torchvision::nms", (boxes, numbers(3), 0.3)
    yield "ocl::batched_nms", (boxes, numbers(3), torch.tensor([0, 1, 0]), 0.3)
    image, sizes = numbers(2, 8, 6, 7), (2, 8, 6, 7)
    rois = torch.cat([torch.tensor([[0.0], [1.0], [1.0]]), boxes], 1)
    parts, grad, of_parts = (0.5, 2, 2), numbers(3, 8, 2, 2), numbers(3, 2, 2, 2)
    greatest, channels = (torch.ones(x.shape, dtype=torch.int32) for x in (grad, of_parts))
    yield "torchvision::roi_align", (image, rois, *parts, 2, False)
    yield "torchvision::_roi_align_backward", (grad, rois, *parts, *sizes, 0, True)
    yield "torchvision::ps_roi_align", (image, rois, *parts, 2)
    yield (
        "torchvision::_ps_roi_align_backward",
        (of_parts, rois, channels, *parts, 2, *sizes),
    )
    yield "torchvision::roi_pool", (image, rois, *parts)
    yield "torchvision::_roi_pool_backward", (grad, rois, greatest, *parts, *sizes)
    yield "torchvision::ps_roi_pool", (image, rois, *parts)
    yield "torchvision::_ps_roi_pool_backward", (of_parts, rois, channels, *parts, *sizes)
    operands = (numbers(4, 4, 3, 2), numbers(2, 24, 6, 7), numbers(2, 12, 6, 7), numbers(4))
    steps = (1, 1, 1, 1, 1, 2, 2, 2, True)
    yield "torchvision::deform_conv2d", (image, *operands, *steps)
    yield "torchvision::_deform_conv2d_backward", (numbers(2, 4, 6, 7), image, *operands, *steps)


def weights_in_blocks():
    for kind, width, size in ((8, 64, 68), (14, 256, 210)):  # Q8_0 and Q6_K of GGUF files
        blocks = (torch.arange(2 * 4 * size) % 120).to(torch.uint8).reshape(2, 4, size)
        x, ids = numbers(3, width), torch.tensor([[0, 1], [1, 1], [0, 0]])
        yield "ocl::gguf_rows", (blocks[0], kind, torch.float32)
        yield "ocl::gguf_linear", (x, blocks[0], kind)
        yield "ocl::gguf_linear_of_experts", (x, blocks, ids, kind)


SOURCES = (convolutions, attention, cells, norms, losses, others, vision, weights_in_blocks)


def calls_by_hand():
    """[(operator, positional arguments, named arguments)]"""
    found = []
    for source in SOURCES:
        for name, args, *kwargs in source():
            found.append((name, args, kwargs[0] if kwargs else {}))
    return found
