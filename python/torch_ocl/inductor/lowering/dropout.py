"""Dropout as a part of generated kernels, with the random numbers of the eager kernel."""

import torch
from torch._inductor import ir, lowering
from torch._inductor.virtualized import ops
from torch.fx.experimental.proxy_tensor import get_proxy_mode

draw = torch.ops.ocl.draw_philox.default
_dropout = torch.ops.ocl.philox_dropout.default

_COUNTERS, _BLOCK = 16, 64  # counters and elements of a block, as in kernels/random/random.cl


def register() -> None:
    @torch.library.register_fake(draw.name())
    def _(counters, device, place):
        return torch.empty(2, dtype=torch.int64, device=device)

    @torch.library.register_fake(_dropout.name())
    def _(x, p, state):
        return torch.empty_like(x), torch.empty_like(x, dtype=torch.bool)

    lowering.register_lowering(_dropout, type_promotion_kind=None)(_lower)


def native_dropout(x, p, train):
    """aten.native_dropout in two steps; only the first step draws (see checkpoints.py).

    NotImplemented for tensors that are not contiguous, or where nothing is drawn.
    """
    if p == 1 and train is not False:
        return x * 0, torch.zeros_like(x, dtype=torch.bool)  # draws nothing, as in eager mode
    floats = torch.float32, torch.float16, torch.bfloat16
    if train is False or not 0 < p < 1 or x.dtype not in floats or not x.is_contiguous():
        return NotImplemented
    # A number that makes calls different. PyTorch would merge two calls with equal arguments,
    # because the operator is not in its list of random operators.
    place = len(get_proxy_mode().tracer.graph.nodes)
    state = draw((x.numel() + _BLOCK - 1) // _BLOCK * _COUNTERS, x.device, place)
    return _dropout(x, p, state)


def _lower(x, p, state):
    device, size, dtype = x.get_device(), x.get_size(), x.get_dtype()
    strides = ir.FlexibleLayout.contiguous_strides(size)
    drawn, load, kept_words = state.make_loader(), x.make_loader(), round((1 - p) * 2**32)

    def is_kept(index):
        element = sum((i * stride for i, stride in zip(index, strides)), start=0)
        place = ops.index_expr(element, torch.int64)
        end = ops.constant(2**32, torch.int64)
        word = ops.randint64(drawn([0]), place, drawn([1]), end)  # see OclOverrides.randint64
        return ops.lt(word, ops.constant(kept_words, torch.int64))

    mask = ir.Pointwise.create(device=device, dtype=torch.bool, inner_fn=is_kept, ranges=size)
    mask.realize()  # otherwise each kernel that reads the result would draw again
    load_mask = mask.make_loader()

    def dropped(index):
        kept = ops.to_dtype(load_mask(index), torch.float32)
        scale = ops.constant(1 / (1 - p), torch.float32)
        value = ops.mul(ops.mul(ops.to_dtype(load(index), torch.float32), kept), scale)
        return ops.to_dtype(value, dtype)

    result = ir.Pointwise.create(device=device, dtype=dtype, inner_fn=dropped, ranges=size)
    return result, mask
