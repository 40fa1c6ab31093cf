"""Random numbers in torch.utils.checkpoint.

On the devices that it knows, PyTorch draws them again in the backward pass, from a saved state of
the generator. On ocl, the drawn numbers are kept instead; for dropout, only the generator's state
is kept.
"""

import operator

import torch
from torch._inductor.fx_passes import joint_graph
from torch._inductor.pattern_matcher import CallFunctionVarArgs, register_graph_pattern
from torch.utils import _pytree as pytree
from torch.utils.checkpoint import CheckpointPolicy

aten = torch.ops.aten

# Random operators in graphs, in addition to those that decompositions.py keeps.
NEVER_DECOMPOSED = [
    aten.multinomial.default,
    aten.poisson.default,
    aten.randperm.default,
    aten.randperm.generator,
    aten._scaled_dot_product_fused_attention_overrideable.default,
]


def _is_run_again(match) -> bool:
    meta = match.output_node().meta
    values = pytree.tree_leaves(meta.get("val"))
    tensors = (value for value in values if isinstance(value, torch.Tensor))
    return "recompute" in meta and any(tensor.device.type == "ocl" for tensor in tensors)


def _keep(match, *args, **kwargs) -> None:
    drawn = match.output_node()
    results = [user for user in drawn.users if user.target is operator.getitem]
    for node in (drawn, *results):
        node.meta["recompute"] = CheckpointPolicy.MUST_SAVE


def keep_what_is_drawn(random) -> None:
    """Marks random operators before PyTorch splits graphs into forward and backward passes."""
    for target in random:
        if torch.Tag.nondeterministic_seeded in target.tags:
            pattern = CallFunctionVarArgs(target)
            register_graph_pattern(pattern, _is_run_again, pass_dict=joint_graph.patterns)(_keep)
