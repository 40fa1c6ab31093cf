"""mode="max-autotune": fuses a matrix product or convolution with its epilogue into one operator.

    activation(product + bias + residual)

Only intermediate results that nothing else uses are fused: a result of the graph, or one that the
backward pass reads, is kept.
"""

import functools
from dataclasses import dataclass

import torch
from torch._functorch.compile_utils import fx_graph_cse
from torch._inductor import config
from torch._inductor.decomposition import select_decomp_table
from torch._prims_common import is_contiguous_or_false
from torch.fx import Node
from torch.fx.experimental.proxy_tensor import make_fx
from torch.fx.experimental.symbolic_shapes import statically_known_true, sym_eq
from torch.nn import functional as F

from ..codegen.types import TYPES, is_float
from .nodes import VIEWS, aten, value_of

_addmm = torch.ops.ocl.addmm_epilogue.default
_convolution = torch.ops.ocl.convolution_epilogue.default

_DTYPES = {dtype for dtype in TYPES if is_float(dtype)}
_MATRIX_PRODUCTS = {aten.mm.default, aten.addmm.default}

# The keys are the names of activations in the operators.
ACTIVATIONS = {
    "relu": F.relu,
    "gelu": F.gelu,
    "gelu_tanh": lambda x: F.gelu(x, approximate="tanh"),
    "silu": F.silu,
    "sigmoid": torch.sigmoid,
    "tanh": torch.tanh,
}


def register() -> None:
    @torch.library.register_fake(_addmm.name())
    def _(a, b, bias, residual, activation):
        return a.new_empty(a.size(0), b.size(1))

    @torch.library.register_fake(_convolution.name())
    def _(input, weight, bias, *args):
        geometry = args[:6]
        return aten.convolution(input.contiguous(), weight.contiguous(), bias, *geometry)


@dataclass
class _Chain:
    """The operations after a product that the fused operator can include."""

    last: Node
    bias: object = None
    residual: object = None
    activation: str = "none"
    view: Node | None = None  # a view between the product and `last`; it has the final shape


def fuse(graph: torch.fx.Graph) -> None:
    if not (config.max_autotune or config.max_autotune_gemm):
        return
    for node in list(graph.nodes):
        if _is_product(node):
            chain = _follow(node)
            if chain.last is not node and is_contiguous_or_false(value_of(chain.last)):
                _replace(graph, node, chain)


def _is_product(node) -> bool:
    if node.target is aten.convolution.default:
        input, weight, transposed, groups = (node.args[i] for i in (0, 1, 6, 8))
        # Depthwise and transposed convolutions have no kernel with an epilogue.
        if transposed or (groups != 1 and statically_known_true(value_of(weight).shape[1] == 1)):
            return False
        tensors = (input, weight)
    elif node.target in _MATRIX_PRODUCTS:
        if any(value != 1 for value in node.kwargs.values()):  # alpha, beta
            return False
        tensors = node.args[-2:]
        if not isinstance(value_of(node).shape[1], int):
            return False
    else:
        return False
    value = value_of(node)
    return (
        value.device.type == "ocl"
        and value.dtype in _DTYPES
        and all(value_of(tensor).dtype == value.dtype for tensor in tensors)
    )


def _follow(product) -> _Chain:
    chain = _Chain(product)
    is_matrix = product.target in _MATRIX_PRODUCTS
    if product.target is aten.addmm.default:
        added = product.args[0]
        if statically_known_true(sym_eq(value_of(added).shape, value_of(product).shape)):
            chain.residual = added  # Inductor makes addmm of any added tensor
        else:
            chain.bias = added
    node = product
    while True:
        if found := _activation(node):
            chain.activation, chain.last = found
            return chain
        user = next(iter(node.users)) if len(node.users) == 1 else None
        if user is None:
            return chain
        if is_matrix and user.target in VIEWS and chain.last is product:
            if not statically_known_true(value_of(user).shape[-1] == value_of(node).shape[-1]):
                return chain
            chain.view = user
        elif user.target is aten.add.Tensor and not user.kwargs:
            other = user.args[1] if user.args[0] is node else user.args[0]
            if not _takes(chain, user, node, other, is_matrix):
                return chain
            chain.last = user
        else:
            return chain
        node = user


def _takes(chain, add, node, other, is_matrix) -> bool:
    """Records the other addend if it is a bias or a residual."""
    value = value_of(other) if isinstance(other, Node) and other is not node else None
    if not isinstance(value, torch.Tensor) or value.dtype != value_of(node).dtype:
        return False
    if value.device != value_of(node).device:
        return False
    shape = value_of(node).shape
    if chain.residual is None and statically_known_true(sym_eq(value.shape, shape)):
        chain.residual = other
        return True
    is_bias = is_matrix and chain.bias is None and value.dim() == 1
    if is_bias and statically_known_true(value.shape[0] == shape[-1]):
        chain.bias = other
        return True
    return False


def _replace(graph, product, chain) -> None:
    value = value_of(product)
    with graph.inserting_before(chain.last):
        if product.target is aten.convolution.default:
            result = graph.call_function(
                _convolution, (*product.args, chain.residual, chain.activation)
            )
        else:
            residual = chain.residual
            if residual is not None and value_of(residual).dim() != 2:
                rows = [-1, value.shape[1]]
                of_residual = value_of(residual)
                residual = graph.call_function(aten.reshape.default, (residual, rows))
                residual.meta["val"] = of_residual.reshape(rows)
            result = graph.call_function(
                _addmm, (*product.args[-2:], chain.bias, residual, chain.activation)
            )
        result.meta.update(chain.last.meta, val=value)
        if chain.view is not None:
            result = graph.call_function(aten.reshape.default, (result, chain.view.args[1]))
            result.meta.update(chain.last.meta)
    chain.last.replace_all_uses_with(result)
    _erase(graph, chain.last, product)


def _erase(graph, node, product) -> None:
    if node.users or node.op != "call_function" or node._erased:
        return
    inputs = node.all_input_nodes
    graph.erase_node(node)
    if node is not product:
        for each in inputs:
            _erase(graph, each, product)


# ---- activations, after Inductor's decompositions ----


def _call(function, x):
    return function(x)


@functools.cache
def _formulas(dtype):
    """(name, the graph's input, the node that computes its activation)."""
    found = []
    for name, function in ACTIVATIONS.items():
        trace = make_fx(functools.partial(_call, function), select_decomp_table(), "fake")
        traced = trace(torch.empty(2, dtype=dtype))
        graph = fx_graph_cse(traced.graph)
        found.append((name, next(iter(graph.nodes)), graph.output_node().args[0]))
    return found


def _activation(node):
    """(name, last node) of an activation that contains all uses of the node, or None."""
    for name, argument, formula in _formulas(value_of(node).dtype):
        for last in _ends(node, formula):
            matched = {}
            if not _matches(formula, last, matched) or matched[argument] is not node:
                continue
            parts = set(matched.values())
            if all(user in parts for each in parts - {last} for user in each.users):
                return name, last
    return None


def _ends(node, formula):
    """Nodes a few steps after, with the same operation as the formula's last one."""
    found, layer = [], [node]
    for _ in range(_depth(formula)):
        layer = list(dict.fromkeys(user for each in layer for user in each.users))
        if len(layer) > 4:
            break
        found += [each for each in layer if each.target == formula.target]
    return found


def _depth(formula) -> int:
    return 1 + max((_depth(each) for each in formula.all_input_nodes), default=-1)


def _matches(formula, node, matched) -> bool:
    if not isinstance(formula, Node):
        return formula == node and type(formula) is type(node)
    if formula in matched:
        return matched[formula] is node
    if not isinstance(node, Node):
        return False
    matched[formula] = node
    if formula.op == "placeholder":
        return True
    return (
        formula.target == node.target
        and len(formula.args) == len(node.args)
        and formula.kwargs == node.kwargs
        and all(_matches(f, n, matched) for f, n in zip(formula.args, node.args))
    )
