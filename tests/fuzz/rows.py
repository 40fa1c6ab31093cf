"""The table of operators: each row draws a step for the values that there are."""

import dataclasses
from collections.abc import Callable

ROWS = []


@dataclasses.dataclass(frozen=True)
class Row:
    name: str
    draw: Callable  # author -> Step or None; may raise Nothing
    weight: float
    pure: bool  # may be in a function: a graph, vmap, or torch.compile


def row(weight=1.0, pure=True):
    """Registers the function as a row."""

    def register(function):
        ROWS.append(Row(function.__name__, function, weight, pure))
        return function

    return register


def all_rows():
    import rows_autograd  # noqa: F401
    import rows_copies  # noqa: F401
    import rows_functions  # noqa: F401
    import rows_fused  # noqa: F401
    import rows_graphs  # noqa: F401
    import rows_index  # noqa: F401
    import rows_math  # noqa: F401
    import rows_nn  # noqa: F401
    import rows_out  # noqa: F401
    import rows_pointwise  # noqa: F401
    import rows_reduce  # noqa: F401
    import rows_views  # noqa: F401
    import rows_vision  # noqa: F401

    return ROWS
