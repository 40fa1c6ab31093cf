"""Dropout as a part of generated kernels, with the random numbers of the eager kernel."""

import torch
from torch._inductor import ir
from torch._inductor.lowering import fallback_handler
from torch._inductor.utils import ceildiv, sympy_product
from torch._inductor.virtualized import V, ops

aten = torch.ops.aten
_draw_philox = torch.ops.ocl.draw_philox.default

_COUNTERS, _BLOCK = 16, 64  # of so many elements, in the eager kernel (cl/random.cl)


def register() -> None:
    @torch.library.register_fake(_draw_philox.name())
    def _(counters, device):
        return torch.empty(2, dtype=torch.int64, device=device)


def _is_fused(x, p, train) -> bool:
    """Not where the order of the elements in memory is another, or nothing is drawn."""
    value = V.graph.current_node.args[0].meta["val"]
    floats = torch.float32, torch.float16, torch.bfloat16
    return train is not False and 0 < p < 1 and value.dtype in floats and value.is_contiguous()


def native_dropout(x, p, train):
    """-> the result and the mask of aten.native_dropout, or None if its kernel is to be called."""
    if not isinstance(p, float) or not _is_fused(x, p, train):
        return None
    device, size, dtype = x.get_device(), x.get_size(), x.get_dtype()
    counters = ceildiv(sympy_product(size), _BLOCK) * _COUNTERS
    state = fallback_handler(_draw_philox, add_to_fallback_set=False)(counters, device)
    strides = ir.FlexibleLayout.contiguous_strides(size)
    drawn, load, kept_words = state.make_loader(), x.make_loader(), round((1 - p) * 2**32)

    def is_kept(index):
        element = sum((i * stride for i, stride in zip(index, strides)), start=0)
        place = ops.index_expr(element, torch.int64)
        end = ops.constant(2**32, torch.int64)
        word = ops.randint64(drawn([0]), place, drawn([1]), end)  # see OclOverrides.randint64
        return ops.lt(word, ops.constant(kept_words, torch.int64))

    mask = ir.Pointwise.create(device=device, dtype=torch.bool, inner_fn=is_kept, ranges=size)
    mask.realize()  # else each kernel that reads the result would draw anew
    load_mask = mask.make_loader()

    def dropped(index):
        kept = ops.to_dtype(load_mask(index), torch.float32)
        scale = ops.constant(1 / (1 - p), torch.float32)
        value = ops.mul(ops.mul(ops.to_dtype(load(index), torch.float32), kept), scale)
        return ops.to_dtype(value, dtype)

    result = ir.Pointwise.create(device=device, dtype=dtype, inner_fn=dropped, ranges=size)
    return result, mask
