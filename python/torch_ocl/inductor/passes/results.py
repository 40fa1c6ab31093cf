"""Gives results memory of their own, even if Inductor removes copies.

Inductor replaces an operation that changes nothing, such as clone() or x * 1, by its argument. So
two results, or a result and an input, can become one tensor, and a write to one changes the other.
"""

import torch
from torch._inductor.fx_utils import get_node_storage
from torch.fx import Node
from torch.utils import _pytree as pytree

from .nodes import aten


def keep_apart(graph: torch.fx.Graph, remove) -> None:
    """Calls remove(), then copies results that remove() has put into other tensors' memory."""
    storages = {node: get_node_storage(node) for node in graph.nodes}
    copies = graph.find_nodes(op="call_function", target=aten.copy_.default)  # writes to inputs
    output = graph.output_node()
    results, spec = pytree.tree_flatten(output.args)
    written = [storages.get(copy.args[1]) for copy in copies]
    remove()
    owners = {storages[n]: storages[n] for n in graph.nodes if n.op in ("placeholder", "get_attr")}
    for copy, home in zip(copies, written, strict=True):
        owners.setdefault(storages.get(copy.args[1]), home)
    after = pytree.tree_leaves(output.args)
    pairs = [(new, storages.get(old)) for new, old in zip(after, results, strict=True)]
    for new, home in sorted(pairs, key=lambda pair: storages.get(pair[0]) != pair[1]):
        owners.setdefault(storages.get(new), home)
    made: dict[tuple, Node] = {}
    kept = []
    for old, (new, home) in zip(results, pairs, strict=True):
        storage = storages.get(new)
        if storage is not None and owners[storage] != home:
            new = _copied(graph, output, new, home, storages, made)
            new.meta["val"] = old.meta["val"]
        kept.append(new)
    output.args = pytree.tree_unflatten(kept, spec)


def _copied(graph, output, node, home, storages, made) -> Node:
    """A copy in the memory `home`, which its views share."""
    if (node, home) not in made:
        base = node.args[0] if node.op == "call_function" and node.args else None
        is_view = isinstance(base, Node) and storages.get(base) == storages[node]
        source = _copied(graph, output, base, home, storages, made) if is_view else node
        with graph.inserting_before(output):
            if is_view:
                copy = graph.node_copy(node, lambda n: source if n is base else n)
            else:
                copy = graph.call_function(aten.clone.default, (node,))
                copy.meta["val"] = node.meta["val"].clone()
        made[node, home] = copy
    return made[node, home]
