"""Differences from the CPU that an operator's definition, or PyTorch itself, leaves open."""

import re

import harness as h
import torch

# Factorizations are unique only up to signs or phases; the database has a function that removes
# them.
GAUGE_FREE = re.compile(
    r"^(linalg\.(eig|eigh|svd|qr|lu.*|ldl.*|householder.*)|svd|svd_lowrank|pca_lowrank|qr|geqrf|"
    r"lu|symeig|triangular_solve)"
)

# Operators that return the index of one of several equal elements.
TIES = re.compile(
    r"^(sort|argsort|topk|kthvalue|mode|median|nanmedian|argmax|argmin|masked\.argmax|masked\.argmin|"
    r"max|min|cummax|cummin|nn\.functional\..*max_pool.*)$"
)


HALVES = (torch.float16, torch.bfloat16)


def as_float32(tensor):
    tensor = h.copy_tensor(tensor, "cpu")
    return tensor.float() if tensor.dtype in HALVES else tensor


def excused(op, kind, sample, inputs, actual, actual_back, expected, mismatch, compare, in_float32):
    """Differences that the operator's definition leaves open, or that are the CPU's own rounding.

    in_float32: computes the CPU's results after converting inputs of 16 bits to float32."""
    if mismatch.what != "value" or kind == "backward":
        return None
    if kind in ("forward", "noncontig") and any(t.dtype in HALVES for t in h.tensors_of(expected)):
        try:
            exact = h.pytree.tree_map(
                lambda e, wide: wide.to(e.dtype) if isinstance(e, torch.Tensor) else wide,
                expected,
                in_float32(),
            )
            compare.compare(actual_back, exact, strides=False)
            return "rounding_tolerated"
        except Exception:
            pass
    if GAUGE_FREE.search(op.name) and kind in ("forward", "noncontig"):
        try:
            with torch.no_grad():
                processed = compare.read_back(sample.output_process_fn_grad(actual))
                compare.compare(processed, sample.output_process_fn_grad(expected), strides=False)
            return "gauge_tolerated"
        except Exception:
            pass
    # Among equal elements, only the resulting indices may differ, and their elements must be equal.
    leaves_a = [x for x in h.pytree.tree_leaves(actual_back)]
    leaves_e = [x for x in h.pytree.tree_leaves(expected)]
    index_like = [isinstance(e, torch.Tensor) and e.dtype is torch.int64 for e in leaves_e]
    tied = False
    for a, e, is_index in zip(leaves_a, leaves_e, index_like):
        try:
            compare.compare_leaf(a, e, True, False, False)
        except h.Mismatch:
            if not (
                is_index
                and TIES.search(op.name)
                and isinstance(a, h.ReadBack)
                and a.tensor.shape == e.shape
                and h.same_choice_among_ties(h.tensors_of(inputs)[:1], a.tensor, e)
            ):
                return None
            tied = True
    return "tie_tolerated" if tied else None


def upstream_exempts(op, dtype):
    """Whether PyTorch skips, or expects to fail, its own comparison of CUDA with the CPU for this
    entry: then a wrong value matters less. (Random operators are among these; they are recognized
    separately.)"""
    from torch.testing._internal.common_device_type import precisionOverride, toleranceOverride

    return any(
        getattr(d, "test_name", None) == "test_compare_cpu"
        and d.device_type in (None, "cuda")
        and (d.dtypes is None or dtype in d.dtypes)
        and any(not isinstance(x, (toleranceOverride, precisionOverride)) for x in d.decorators)
        for d in op.decorators
    )
