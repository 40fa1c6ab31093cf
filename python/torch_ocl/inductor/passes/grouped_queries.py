"""Attention of grouped queries without copies of keys and values for each head of a group.

    scaled_dot_product_attention(q, repeat(k), repeat(v), mask)

where repeat() copies each head of keys and values for the queries of its group. transformers'
repeat_kv() does this where there is a mask, and torch.repeat_interleave(k, n, 1) is the same. The
kernels find the head of a group without copies.
"""

import torch
from torch.fx import Node
from torch.fx.experimental.symbolic_shapes import statically_known_true, sym_eq

from .nodes import VIEWS, aten, value_of

_attention = aten._scaled_dot_product_fused_attention_overrideable.default
_REPEAT = (VIEWS, {aten.clone.default}, {aten.expand.default}, {aten.unsqueeze.default})


def share_heads(graph: torch.fx.Graph) -> None:
    for node in graph.find_nodes(op="call_function", target=_attention):
        query, *repeated = node.args[:3]
        heads = [_before_repeat(tensor) for tensor in repeated]
        if value_of(query).device.type == "ocl" and None not in heads and _same_heads(*heads):
            node.args = (query, *heads, *node.args[3:])
            for tensor in dict.fromkeys(repeated):  # keys and values may be one tensor
                _erase_unused(graph, tensor)


def _before_repeat(node) -> Node | None:
    """The tensor [batch][heads][rows][columns] of which each head is repeated, in
    view(clone(expand(unsqueeze(tensor, 2)))); None for any other node."""
    flat, steps = value_of(node), []
    for targets in _REPEAT:
        if not isinstance(node, Node) or node.target not in targets:
            return None
        steps.append(node)
        node = node.args[0]
    if value_of(node).dim() != 4 or steps[-1].args[1] not in (2, -3):
        return None
    expanded = value_of(steps[2]).shape
    if len(expanded) != 5:  # with more leading dimensions, the heads would have another order
        return None
    batch, heads, rows, columns = value_of(node).shape
    repeats = expanded[2]
    shapes = [batch, heads, repeats, rows, columns, batch, heads * repeats, rows, columns]
    return node if statically_known_true(sym_eq([*expanded, *flat.shape], shapes)) else None


def _same_heads(key, value) -> bool:
    return statically_known_true(sym_eq(value_of(key).shape[1], value_of(value).shape[1]))


def _erase_unused(graph, node) -> None:
    while not node.users and node.target in set.union(*_REPEAT):
        node, erased = node.args[0], node
        graph.erase_node(erased)
