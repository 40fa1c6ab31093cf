"""Keeps random operators in the order of the program.

Inductor reorders operators that do not depend on each other. Random operators would then draw other
numbers than in eager mode.
"""

import torch
from torch._inductor import ir


def keep_order(graph) -> bool:
    """Makes each random operator of a lowered graph wait for the one before.

    Called before the operators are scheduled. Returns whether the graph has such operators.
    """
    last = None
    for operation in graph.operations:
        parts = (part for part in vars(operation).values() if isinstance(part, ir.Subgraph))
        if any([keep_order(part.graph) for part in parts]) or _is_random(operation):
            if last:
                graph.additional_buffer_deps[operation.get_operation_name()].add(last)
            last = operation.get_name()
    return last is not None


def _is_random(operation) -> bool:
    operator = getattr(operation, "op_overload", None)
    return (
        isinstance(operation, ir.FallbackKernel)
        and isinstance(operator, torch._ops.OpOverload)
        and torch.Tag.nondeterministic_seeded in operator.tags
    )
