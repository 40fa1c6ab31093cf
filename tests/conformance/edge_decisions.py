"""What differs from the CPU by decision, and why: (operator, case, message, reason), regular
expressions that are searched in the name, in "dtype edge: case", and in the difference."""

import re

DECISIONS = [
    (
        "",
        "",
        r"nothing raised instead of \w+: .*(not implemented for '|not supported for|"
        r"[Uu]nsupported (data ?)?type|does not support)",
        "types that only the CPU's kernels lack",
    ),
]

COMPILED = [(*(re.compile(p) for p in patterns), why) for *patterns, why in DECISIONS]


def reason(name, edge, case, dtype, message):
    """The reason why this may differ, or None."""
    for operator, cases, difference, why in COMPILED:
        if (
            operator.search(name)
            and cases.search(f"{dtype} {edge}: {case}")
            and difference.search(message)
        ):
            return why
    return None
