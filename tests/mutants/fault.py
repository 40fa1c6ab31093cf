"""A fault to plant in the sources, and the folders of the tests that should notice it."""

import dataclasses


@dataclasses.dataclass(frozen=True)
class Fault:
    """`before` occurs once in `file`; with `after` in its place, one of `tests` should fail.

    Tests are paths in tests/python. `family` is the kernel family that runs them.
    """

    file: str
    before: str
    after: str
    tests: str
    family: str = "cpu"

    @property
    def name(self):
        return f"{self.file}: {' '.join(self.before.split())}"[:110]

    @property
    def is_kernel(self):
        return self.file.endswith((".cl", ".clh"))

    @property
    def is_built(self):
        return self.file.endswith((".cpp", ".h"))


def of(file, tests, *changes, family="cpu"):
    return [Fault(file, before, after, tests, family) for before, after in changes]


NN, MATH, PRODUCTS, RUNTIME = "eager/nn/", "eager/math/", "eager/products/", "runtime/"
NUMBERS = "eager/numbers/"
