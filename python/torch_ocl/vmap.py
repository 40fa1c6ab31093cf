"""torch.vmap of the fused attention: one call, whose batch is the samples times their batch.

PyTorch's loop over the samples supports only operators that return tensors alone; these return
numbers, too.
"""

import torch

_aten = torch.library.Library("aten", "IMPL")
_NAME = "_scaled_dot_product_fused_attention_overrideable"


def _in_front(tensor, dim, samples):
    """[samples, ...]"""
    return tensor.expand(samples, *tensor.shape) if dim is None else tensor.movedim(dim, 0)


def _join(tensor, dim, samples):
    """[samples * batch, ...]"""
    return _in_front(tensor, dim, samples).flatten(0, 1)


def _join_mask(mask, dim, samples, batch):
    """A mask that broadcasts to [batch, heads, queries, keys], one for all samples or for each."""
    if mask is None or (dim is None and (mask.dim() < 4 or mask.shape[0] == 1)):
        return mask
    mask = _in_front(mask, dim, samples)
    while mask.dim() < 5:
        mask = mask.unsqueeze(1)
    return mask.expand(samples, batch, *mask.shape[2:]).flatten(0, 1)


def _batch(query, dim):
    return query.shape[0 if dim is None else 1 if dim == 0 else 0]


def _forward(
    info,
    in_dims,
    query,
    key,
    value,
    attn_bias=None,
    dropout_p=0.0,
    is_causal=False,
    return_debug_mask=False,
    *,
    scale=None,
):
    if dropout_p != 0:
        raise NotImplementedError(
            "scaled_dot_product_attention: the fused kernels of ocl have no dropout inside vmap; "
            "scaled_dot_product_attention() itself chooses other operators for it"
        )
    samples = info.batch_size
    joined = [_join(t, dim, samples) for t, dim in zip((query, key, value), in_dims, strict=False)]
    mask_dim = in_dims[3] if attn_bias is not None else None
    batch = _batch(query, in_dims[0])
    mask = _join_mask(attn_bias, mask_dim, samples, batch)
    out, log_sum, *others = getattr(torch.ops.aten, _NAME)(
        *joined, mask, 0.0, is_causal, return_debug_mask, scale=scale
    )
    parts = [t.unflatten(0, (samples, batch)) for t in (out, log_sum)]
    return (*parts, *others), (0, 0, *(None for _ in others))


def _backward(info, in_dims, *operands, scale=None):
    grad_out, query, key, value, attn_bias, wanted, out, log_sum, *others = operands
    tensors = [grad_out, query, key, value, attn_bias, out, log_sum]
    dims = [*in_dims[:5], *in_dims[6:8]]
    samples = info.batch_size

    def run(tensors):
        arguments = (*tensors[:5], wanted, *tensors[5:], *others)
        return getattr(torch.ops.aten, f"{_NAME}_backward")(*arguments, scale=scale)[:3]

    if others[4] > 0:
        # The joined call would drop other elements than the forward pass did, if that ran outside
        # of vmap.
        tensors = [
            t if t is None else _in_front(t, dim, samples)
            for t, dim in zip(tensors, dims, strict=True)
        ]
        each = [run([t if t is None else t[i] for t in tensors]) for i in range(samples)]
        parts = [None if t[0] is None else torch.stack(t) for t in zip(*each, strict=True)]
    else:
        batch = _batch(query, dims[1])
        mask = _join_mask(attn_bias, dims[4], samples, batch)
        tensors = [
            mask if t is attn_bias else _join(t, dim, samples)
            for t, dim in zip(tensors, dims, strict=True)
        ]
        parts = [t if t is None else t.unflatten(0, (samples, batch)) for t in run(tensors)]
    return (*parts, None), (*(None if t is None else 0 for t in parts), None)


def register() -> None:
    torch.library.register_vmap(f"aten::{_NAME}", _forward, lib=_aten)
    torch.library.register_vmap(f"aten::{_NAME}_backward", _backward, lib=_aten)
