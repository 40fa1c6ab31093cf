"""Nodes of traced graphs, for the passes that replace them."""

import operator

import torch
from torch._inductor.fx_utils import get_node_storage

aten = torch.ops.aten

VIEWS = {aten.view.default, aten.reshape.default, aten._unsafe_view.default}


def value_of(node):
    """The node's fake tensor or number; None if it is not known."""
    return node.meta.get("val")


def insert(graph: torch.fx.Graph, target, args) -> torch.fx.Node:
    node = graph.call_function(target, args)
    values = torch.fx.node.map_arg(args, value_of)
    node.meta["val"] = target(*values)
    return node


def shares(one, other) -> bool:
    """Whether the values of two nodes lie in the same memory."""
    storage = get_node_storage(one)
    return storage is not None and storage == get_node_storage(other)


def base_of(node) -> torch.fx.Node:
    """The node of which this one is a view, or one of several results."""
    while node.op == "call_function" and node.args and isinstance(node.args[0], torch.fx.Node):
        if node.target is not operator.getitem and not shares(node, node.args[0]):
            break
        node = node.args[0]
    return node
