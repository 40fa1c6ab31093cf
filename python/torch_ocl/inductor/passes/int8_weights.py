"""Products with int8 weights and a scale for each result, as one operator that reads the int8.

    mm(x, weight.t().to(x.dtype)) * scale

torchao's Int8WeightOnlyConfig and others write this. Without the operator, a kernel converts the
weights to memory for each product. PyTorch replaces the same patterns, for its own devices only
(_register_woq_lowerings() in torch/_inductor/fx_passes/quantization.py).

The operator rounds once, after the scale, where the separate kernels round bfloat16 twice.
"""

import torch
from torch.fx import Node
from torch.fx.experimental.symbolic_shapes import statically_known_true, sym_eq

from .nodes import VIEWS, aten, insert, value_of

_to = torch.ops.prims.convert_element_type.default
_int8_mm = aten._weight_int8pack_mm.default
_DTYPES = {torch.float32, torch.float16, torch.bfloat16}
_MOST_ROWS = 32  # kMostRows of packed_linear.cpp; for more rows, the operator converts, too


def join(graph: torch.fx.Graph) -> None:
    for node in graph.find_nodes(op="call_function", target=aten.mul.Tensor):
        # A factor may also be a number, or the size of a dimension.
        if all(isinstance(arg, Node) and _is_tensor(arg) for arg in node.args):
            first, second = node.args
            _join(graph, node, first, second) or _join(graph, node, second, first)


def _join(graph, mul, product, scale) -> bool:
    if product is scale:
        return False
    view = product if product.target in VIEWS else None
    mm = view.args[0] if view else product
    if mm.target is not aten.mm.default or any(len(n.users) > 1 for n in (product, mm)):
        return False
    x, rows = mm.args[0], value_of(mm).shape[0]
    weight = _int8_weight(mm.args[1])
    if weight is None or statically_known_true(rows > _MOST_ROWS):
        return False
    dtype, count = value_of(x).dtype, value_of(weight).shape[0]
    one_scale_each = (
        statically_known_true(value_of(scale).shape[-1:].numel() == count)
        and statically_known_true(value_of(scale).numel() == count)
        and statically_known_true(value_of(product).shape[-1] == count)
    )
    same_type = dtype in _DTYPES and dtype == value_of(scale).dtype == value_of(mul).dtype
    same_shape = statically_known_true(sym_eq(value_of(mul).shape, value_of(product).shape))
    if not (one_scale_each and same_type and same_shape):
        return False
    if any(value_of(n).device.type != "ocl" for n in (x, weight, scale)):
        return False
    with graph.inserting_before(mul):
        if value_of(scale).dim() > 1:
            scale = insert(graph, aten.reshape.default, (scale, [count]))
        result = insert(graph, _int8_mm, (x, weight, scale))
        if view:
            result = insert(graph, view.target, (result, view.args[1]))
    mul.replace_all_uses_with(result)
    for node in (mul, *([view] if view else []), mm):
        graph.erase_node(node)
    return True


def _is_tensor(node) -> bool:
    return isinstance(value_of(node), torch.Tensor)


def _int8_weight(node):
    """The int8 tensor [n][k], if the node is its converted transpose; else None."""
    steps = set()
    while isinstance(node, Node) and node.target in (_to, aten.permute.default):
        if node.target in steps:
            return None
        steps.add(node.target)
        if node.target is aten.permute.default and list(node.args[1]) != [1, 0]:
            return None
        node = node.args[0]
    both = len(steps) == 2 and isinstance(node, Node)
    return node if both and value_of(node).dtype == torch.int8 else None
