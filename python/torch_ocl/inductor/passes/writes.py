"""For graphs that write tensors: copies values that are read after their memory is overwritten.

In a traced graph, each operator has a new result, and copy_() at the end writes the inputs that the
program changes. Inductor first drops copies that change nothing, then works in place where it can
(fx_passes/reinplace.py). So a value may lie in the memory of an input, or of an argument that its
operator overwrites, and Inductor does not see all later reads of it. Here such values get a copy,
on which Inductor may work in place again.
"""

import collections

import torch
from torch._inductor.fx_passes import reinplace
from torch._inductor.fx_utils import get_node_storage
from torch.fx import Node, map_arg
from torch.fx.experimental.symbolic_shapes import statically_known_true, sym_eq
from torch.utils import _pytree as pytree

from .nodes import aten, base_of, value_of

_higher = torch.ops.higher_order
_IN_PLACE = {
    target: row.mutated_arg
    for table in (reinplace.inplaceable_ops, reinplace.inplaceable_foreach_ops)
    for target, row in table.items()
} | dict.fromkeys(reinplace._SCATTER_OP_TO_VIEW, 0)


def keep_values(graph: torch.fx.Graph) -> None:
    copies = [n for n in graph.find_nodes(op="call_function", target=aten.copy_.default)]
    copies = [copy for copy in copies if copy.args[0].op in ("placeholder", "get_attr")]
    places = {node: place for place, node in enumerate(graph.nodes)}
    _read_before_copies(graph, copies)
    first: dict = {}  # storage of an input -> the first copy to it
    for copy in copies:
        first.setdefault(get_node_storage(copy.args[0]), copy)
    homes: dict[Node, Node] = {}  # results of operators -> the input whose memory they may use
    for node in list(graph.nodes):
        changed = _changed(node)
        _copy_other_readers(graph, node, changed)
        for argument in _nodes(changed):
            home = _home(argument, homes)
            if home is None:
                continue
            copy = first.get(get_node_storage(home))
            if copy and _is_read_after_copy(node, home, copy, places):
                changed = _replaced(changed, argument, _clone(graph, argument, node))
                _put(node, changed)
            else:
                homes[node] = home
    for copy in copies:
        source = copy.args[1]
        if _home(source, homes) is copy.args[0] and _reinterprets(source, copy.args[0]):
            copy.replace_input_with(source, _clone(graph, source, copy))


def _changed(node) -> dict:
    """The arguments, by index or name, whose memory Inductor may use for the node's results."""
    if node.target in (_higher.auto_functionalized, _higher.auto_functionalized_v2):
        if "_all_bases" in node.kwargs:
            return {"_all_bases": node.kwargs["_all_bases"]}
        arguments = node.args[0]._schema.arguments
        names = [a.name for a in arguments if a.alias_info and a.alias_info.is_write]
        return {name: node.kwargs[name] for name in names if name in node.kwargs}
    places = _IN_PLACE.get(node.target, ())
    return {place: node.args[place] for place in _tuple(places)}


def _tuple(places):
    return places if isinstance(places, tuple) else (places,)


def _nodes(arguments) -> list[Node]:
    return [value for value in pytree.tree_leaves(arguments) if isinstance(value, Node)]


def _replaced(arguments, old, new):
    return map_arg(arguments, lambda node: new if node is old else node)


def _put(node, arguments) -> None:
    for key, value in arguments.items():
        (node.update_arg if isinstance(key, int) else node.update_kwarg)(key, value)


def _clone(graph, node, before) -> Node:
    with graph.inserting_before(before):
        clone = graph.call_function(aten.clone.default, (node,))
    clone.meta["val"] = value_of(node).clone()
    return clone


def _copy_other_readers(graph, node, changed) -> None:
    """Copies arguments that are only read, but share memory with an argument that is changed."""
    written = _nodes(changed)
    if not written:
        return
    only_read = collections.Counter(_nodes((node.args, node.kwargs)))
    only_read.subtract(written)
    written = set(written)
    storages = {get_node_storage(one) for one in written} - {None}
    for other, count in only_read.items():
        if count > 0 and (other in written or get_node_storage(other) in storages):
            node.replace_input_with(other, _clone(graph, other, node))
            _put(node, changed)


def _read_before_copies(graph, copies) -> None:
    """Copies the old values of inputs if they are read during or after the write."""
    clones = {}
    written = set()
    for copy in copies:
        target, source = copy.args[:2]
        written.add(get_node_storage(target))
        if source is target or not isinstance(source, Node):
            continue
        if get_node_storage(source) in written - {None}:
            if source not in clones:
                clones[source] = _clone(graph, source, copies[0])
            copy.replace_input_with(source, clones[source])


def _home(node, homes) -> Node | None:
    base = base_of(node)
    return base if base.op in ("placeholder", "get_attr") else homes.get(base)


def _is_read_after_copy(node, home, copy, places) -> bool:
    """Whether the node's results are read after another value was copied to the input."""
    if base_of(copy.args[1]) is node and not _reinterprets(copy.args[1], home):
        return False
    after = places[copy]
    pending = [node]
    while pending:
        for user in pending.pop().users:
            if user in places and places[user] > after:
                return True
            if base_of(user) is node:
                pending.append(user)
    return False


def _reinterprets(view, node) -> bool:
    """Whether a view of the whole memory of the node has other elements."""
    view, node = value_of(view), value_of(node)
    same = all(
        len(one) == len(other) and statically_known_true(sym_eq(tuple(one), tuple(other)))
        for one, other in ((view.size(), node.size()), (view.stride(), node.stride()))
    )
    offsets = view.storage_offset(), node.storage_offset()
    return not (same and view.dtype == node.dtype and statically_known_true(sym_eq(*offsets)))
