"""sentence-transformers: the default device of models."""

from . import choose_instead_of_cpu


def choose_device(module) -> None:
    """sentence_transformers.util.environment: its accelerators come first, and the CPU last."""
    choose_instead_of_cpu(module, "get_device_name", ("sentence_transformers",))
