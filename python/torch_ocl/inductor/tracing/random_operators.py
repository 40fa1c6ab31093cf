"""While Dynamo and AOTAutograd trace, random operators draw nothing, and none is dropped.

Imported with PyTorch's fake tensors.
"""

import torch
from torch import _meta_registrations
from torch._subclasses import fake_impls
from torch.fx import Node
from torch.utils import _pytree as pytree

aten = torch.ops.aten

# PyTorch runs operators without a fake implementation on zeros, so these would draw.
_DRAWN = (aten.binomial.default, aten._sample_dirichlet.default)
_is_impure = Node.is_impure


def register() -> None:
    known = fake_impls.op_implementations_dict
    for operator in _DRAWN:
        known.setdefault(operator, _like_the_first)
    Node.is_impure = _with_draws(_is_impure)
    if torch.__version__ < "2.15":
        check = _meta_registrations.rnn_cell_checkSizes
        _meta_registrations.rnn_cell_checkSizes = _also_without_biases(check)


def _like_the_first(fake_mode, operator, x, *args, **kwargs):
    if x.device.type != "ocl":
        return NotImplemented
    with fake_mode:
        return x.new_empty(x.shape)


def _also_without_biases(check):
    """Lets PyTorch's check accept missing biases: before 2.15, it reads the device of None."""

    def check_sizes(input_gates, hidden_gates, input_bias, hidden_bias, *rest):
        if input_bias is None and hidden_bias is None:
            input_bias = hidden_bias = input_gates.new_empty(input_gates.size(1))
        check(input_gates, hidden_gates, input_bias, hidden_bias, *rest)

    return check_sizes


def _with_draws(is_impure):
    """Keeps unused random operators on ocl, so that later ones draw eager mode's numbers."""

    def with_draws(node, impure_random=True):
        return is_impure(node, impure_random) or (not impure_random and _draws(node))

    return with_draws


def draw_once(partitioners) -> None:
    """Keeps random operators in the pass to which they belong.

    PyTorch copies to the backward graph what can be computed there, and drops what is not used.
    """
    in_forward, in_backward = partitioners._must_be_in_forward, partitioners._must_be_in_backward
    is_backward = partitioners._has_tag_is_backward
    partitioners._must_be_in_forward = lambda node: (
        in_forward(node) or (_draws(node) and not is_backward(node))
    )
    partitioners._must_be_in_backward = lambda node: (
        in_backward(node) or (_draws(node) and is_backward(node))
    )


def _draws(node) -> bool:
    return is_on_ocl(node) and _is_impure(node, True) and not _is_impure(node, False)


def is_on_ocl(node) -> bool:
    values = pytree.tree_leaves(node.meta.get("val"))
    return any(isinstance(v, torch.Tensor) and v.device.type == "ocl" for v in values)
