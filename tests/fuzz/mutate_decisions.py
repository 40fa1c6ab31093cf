"""Findings of mutate.py that are no defects: (part of the case, kind, part of the message, why)."""

import re

DECISIONS = [
    ("loss", "assertion", "reduction == Reduction", "PyTorch asserts that a reduction is known"),
    (": None$", "assertion", "pytorch/aten", "PyTorch asserts that tensors are there"),
    ("_sobol_engine", "crash|hang", "", "runs on the CPU, where PyTorch trusts the sizes"),
    ("", "class", "OutOfMemoryError.*, the CPU: .*alloc_cpu", "memory is short on both"),
    (
        "_backward",
        "refuses|class",
        "grad_output has sizes|expected scalar type",
        "the CPU does not compare them",
    ),
    ("pad", "refuses", "^RuntimeError: padding .* is too large", "it overflows on the CPU"),
    ("pin_memory", "refuses", "only CPU tensors can be pinned", "only CPU tensors can be"),
]


def decision(case, kind, message):
    """The reason why this may be, or None."""
    for of_case, of_kind, of_message, why in DECISIONS:
        if re.search(of_case, case) and re.search(of_kind, kind) and re.search(of_message, message):
            return why
    return None
