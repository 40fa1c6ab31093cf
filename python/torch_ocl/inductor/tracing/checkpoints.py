"""Random numbers in torch.utils.checkpoint.

On the devices that it knows, PyTorch draws them again in the backward pass, from a saved state of
the generator. On ocl, the drawn numbers are kept instead; for dropout, only the generator's state
is kept.
"""

import operator

import torch
from torch._inductor.fx_passes import joint_graph
from torch._inductor.pattern_matcher import CallFunctionVarArgs, register_graph_pattern
from torch.utils.checkpoint import CheckpointPolicy

from .random_operators import is_on_ocl

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
    node = match.output_node()
    return "recompute" in node.meta and is_on_ocl(node)


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
