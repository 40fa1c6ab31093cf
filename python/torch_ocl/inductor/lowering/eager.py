"""The list of operators that stay calls of eager kernels; the check for graphs with ocl tensors."""

import weakref

import torch
from torch._inductor.virtualized import V
from torch.utils import _pytree as pytree

from ..codegen.types import TYPES
from ..device_interface import has_cpu_kernels

aten = torch.ops.aten

# Operators whose eager kernels are faster than Inductor's decompositions.
_STARTS = """
    native_dropout bernoulli uniform normal rand exponential geometric lift repeat_interleave
    avg_pool max_pool adaptive_ fractional_max_pool upsample_ _upsample_ grid_sampler
    _scaled_dot_product _embedding_bag embedding_bag convolution _convolution cumsum cumprod cummax
    cummin logcumsumexp sort topk kthvalue mode searchsorted bucketize histc bincount unique
    scatter_reduce index_reduce _ctc_loss _fused_ im2col col2im _cdist pdist masked_scatter rrelu
    _weight_int
"""
_PREFIXES = tuple(_STARTS.split())
# Types whose values have other bits in kernels than in memory.
_NOT_IN_REGISTERS = {torch.float16, torch.bfloat16, torch.bool}
_PUTS = ("index_put", "_unsafe_index_put", "_index_put_impl")
_SUMS = (
    "scatter_add",
    "index_add",
    "embedding_dense_backward",
    "_unsafe_masked_index_put_accumulate",
)


def adds_atomically(x) -> bool:
    """Whether generated kernels add atomically to elements of this tensor.

    Not on CPU devices, whose eager kernels need no atomic functions. There index_add of 400,000
    rows of 32 numbers took 1.3 (Intel) to 3.6 times (PoCL) as long, an embedding's gradient 8.
    """
    device = x.device if isinstance(x, torch.Tensor) else x.get_device()
    return (
        device.type == "ocl"
        and not has_cpu_kernels(device)
        and _dtype(x) in (torch.float32, torch.int32)
        and not torch.are_deterministic_algorithms_enabled()
    )


def _dtype(x) -> torch.dtype:
    return x.dtype if isinstance(x, torch.Tensor) else x.get_dtype()


def stays_eager(operator, args=()) -> bool:
    name = operator.name().removeprefix("aten::").removeprefix("prims::")
    name = name.split(".")[0].removesuffix("_")
    if operator is aten.view.dtype and args:
        return not {_dtype(args[0]), args[1]} <= TYPES.keys() - _NOT_IN_REGISTERS
    if name in _PUTS:
        return len(args) > 3 and bool(args[3]) and not adds_atomically(args[0])  # accumulate
    if name in _SUMS:
        return not args or not adds_atomically(args[0])
    if name == "binary_cross_entropy":  # checks that its arguments are from 0 to 1
        return True
    if name in ("scatter", "put"):
        return "reduce" in operator._overloadname or name == "put"
    return name.startswith(_PREFIXES) and name != "native_dropout_backward"


_has_ocl = weakref.WeakKeyDictionary()


def graph_has_ocl() -> bool:
    """Whether a tensor of the graph that is being lowered is on ocl."""
    if V.graph not in _has_ocl:
        values = (node.meta.get("val") for node in V.graph.module.graph.nodes)
        leaves = pytree.tree_leaves(list(values))
        tensors = (value for value in leaves if isinstance(value, torch.Tensor))
        _has_ocl[V.graph] = any(tensor.device.type == "ocl" for tensor in tensors)
    return _has_ocl[V.graph]


def computes_tensors(operator) -> bool:
    """False for operators that return numbers, and for Inductor's own (some have no kernel)."""
    if operator.namespace not in ("aten", "prims") or "inductor_" in operator.name():
        return False
    results = [*operator._schema.returns, *operator._schema.arguments]
    return any("Tensor" in str(result.type) for result in results) and all(
        "Tensor" in str(result.type) for result in operator._schema.returns
    )
