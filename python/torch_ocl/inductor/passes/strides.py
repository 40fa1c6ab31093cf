"""Makes as_strided() of a view read the memory of the viewed tensor.

Inductor computes a view of an intermediate result without the elements that the view leaves out
(197431 in pytorch/pytorch). Here as_strided() gets the whole result, whose strides Inductor keeps.
"""

import torch

from .nodes import aten, insert, shares, value_of


def read_whole_memory(graph: torch.fx.Graph) -> None:
    for node in graph.find_nodes(op="call_function", target=aten.as_strided.default):
        x, size, stride, *offset = node.args
        base, view = x, value_of(x)
        while base.args and isinstance(base.args[0], torch.fx.Node) and shares(base, base.args[0]):
            base = base.args[0]
        dtypes = value_of(base).dtype, view.dtype
        if base is x or base.op == "placeholder" or dtypes[0].itemsize != dtypes[1].itemsize:
            continue
        if dtypes[0] != dtypes[1]:
            with graph.inserting_before(node):
                base = insert(graph, aten.view.dtype, (base, dtypes[1]))
        start = offset[0] if offset and offset[0] is not None else view.storage_offset()
        node.args = (base, size, stride, start)
