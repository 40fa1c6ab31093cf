"""Findings of mutate.py that are no defects: (part of the case, kind, part of the message, why)."""

import re

DECISIONS = [
    ("loss", "assertion", "reduction == Reduction", "PyTorch asserts that a reduction is known"),
    (": None$", "assertion", "pytorch/aten", "PyTorch asserts that tensors are there"),
]


def decision(case, kind, message):
    """The reason why this may be, or None."""
    for of_case, of_kind, of_message, why in DECISIONS:
        if re.search(of_case, case) and re.search(of_kind, kind) and re.search(of_message, message):
            return why
    return None
