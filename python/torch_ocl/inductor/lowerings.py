"""In a graph with ocl tensors every operator is a call of its eager kernel."""

import functools
import weakref

import torch
from torch._inductor.custom_graph_pass import CustomGraphModulePass, get_hash_for_files
from torch._inductor.lowering import fallback_handler
from torch._inductor.virtualized import V

aten = torch.ops.aten

_has_ocl = weakref.WeakKeyDictionary()


def _graph_has_ocl() -> bool:
    """Whether a tensor of the graph that is being lowered is on ocl."""
    if V.graph not in _has_ocl:
        values = (node.meta.get("val") for node in V.graph.module.graph.nodes)
        leaves = torch.utils._pytree.tree_leaves(list(values))
        tensors = (value for value in leaves if isinstance(value, torch.Tensor))
        _has_ocl[V.graph] = any(tensor.device.type == "ocl" for tensor in tensors)
    return _has_ocl[V.graph]


def _constants() -> dict[int, object]:
    """The constants among the current node's inputs, by what Inductor has inlined for them.

    An inlined constant would be a C++ kernel that fills a tensor.
    """
    found = {}
    for node in V.graph.current_node.all_input_nodes:
        value = node.op == "get_attr" and getattr(V.graph.module, node.target, None)
        if isinstance(value, torch.Tensor):
            found[id(V.graph.env[node])] = (value, node.target)
    return found


def _eager_on_ocl(operator, lowering):
    eager = fallback_handler(operator, add_to_fallback_set=False)
    foreach = operator.name().startswith("aten::_foreach_")

    @functools.wraps(lowering)
    def lower(*args, **kwargs):
        if not _graph_has_ocl():
            return lowering(*args, **kwargs)
        if constants := _constants():

            def real(value):
                constant = constants.get(id(value))
                return value if constant is None else V.graph.add_tensor_constant(*constant)

            args, kwargs = torch.utils._pytree.tree_map(real, (args, kwargs))
        results = eager(*args, **kwargs)
        # Inductor makes foreach operators in-place ones, but asks for their results still.
        return args[0] if results is None and foreach else results

    return lower


def _computes_tensors(operator) -> bool:
    """Not what answers with numbers, nor Inductor's own operators, some without eager kernels."""
    if operator.namespace not in ("aten", "prims") or "inductor_" in operator.name():
        return False
    results = [*operator._schema.returns, *operator._schema.arguments]
    return any("Tensor" in str(result.type) for result in results) and all(
        "Tensor" in str(result.type) for result in operator._schema.returns
    )


class HideConvolutions(CustomGraphModulePass):
    """Keeps Inductor from giving convolutions another memory format, with a copy around each."""

    def __call__(self, gm) -> None:
        for node in gm.graph.find_nodes(op="call_function", target=aten.convolution.default):
            node.target = _convolution

    def uuid(self):
        return get_hash_for_files((__file__,))


def _convolution(*args, **kwargs):
    return fallback_handler(aten.convolution.default, add_to_fallback_set=False)(*args, **kwargs)


_convolution._inductor_lowering_function = True


def call_eager_kernels(lowerings, decomposed) -> None:
    """Changes Inductor's table: graphs without ocl tensors are lowered as before.

    What Inductor decomposes elsewhere has no entry there: decomposed lists such operators.
    """
    for operator, lowering in list(lowerings.items()):
        if isinstance(operator, torch._ops.OpOverload) and _computes_tensors(operator):
            lowerings[operator] = _eager_on_ocl(operator, lowering)
    for operator in decomposed:
        if operator not in lowerings and _computes_tensors(operator):
            lowerings[operator] = fallback_handler(operator, add_to_fallback_set=False)
