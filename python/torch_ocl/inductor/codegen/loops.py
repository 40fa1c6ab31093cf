"""The loops of a generated kernel: from Inductor's flat index spaces to nests.

Inductor gives the elements of a kernel one flat index, and each access splits it in its own way
(x0 = xindex % 64, x1 = xindex // 64, x2 = xindex). Here the splits that divide each other become
loops, innermost first, so that no element needs a division.
"""

import collections
import dataclasses

import sympy
from torch._inductor.utils import sympy_subs
from torch._inductor.virtualized import V
from torch.utils._sympy.functions import FloorDiv, ModularIndexing

SHORT = 16  # fewer iterations of the innermost loop would not fill a vector


@dataclasses.dataclass
class Loop:
    symbol: sympy.Symbol
    size: sympy.Expr
    divisor: sympy.Expr  # divides the flat index


def hint(expr) -> int:
    return int(V.graph.sizevars.optimization_hint(expr))


class Nest:
    """The loops over one of Inductor's range trees, innermost first."""

    def __init__(self, tree, splits, letter, flat):
        self.tree, self.letter = tree, letter
        divisors = [sympy.S.One] if flat else self._divisors(splits)
        ends = [*divisors[1:], tree.numel]
        self.loops = [
            Loop(
                sympy.Symbol(f"{letter}{n}", integer=True, nonnegative=True),
                V.graph.sizevars.simplify(FloorDiv(end, divisor)),
                divisor,
            )
            for n, (divisor, end) in enumerate(zip(divisors, ends))
        ]
        self.flat = sum(loop.symbol * loop.divisor for loop in self.loops)

    def _divisors(self, splits) -> list:
        """The splits that become loops: each divides the next."""
        sizevars = V.graph.sizevars
        numel = self.tree.numel
        bounds = {sizevars.simplify(split) for split in splits}
        chain = [sympy.S.One]
        for bound in sorted(bounds, key=hint):
            if bound in (1, 0) or sizevars.statically_known_equals(bound, numel):
                continue
            known = sizevars.statically_known_multiple_of
            if known(bound, chain[-1]) and known(numel, bound):
                chain.append(bound)
        while len(chain) > 1 and hint(chain[1]) < SHORT:
            del chain[1]
        return chain

    def value_of(self, node) -> sympy.Expr:
        """One of Inductor's index symbols, expressed by the loops' variables."""
        sizevars = V.graph.sizevars
        inside, covered = [], sympy.S.One
        for loop in self.loops:
            end = node.divisor * node.length
            if sizevars.statically_known_equals(node.divisor * covered, loop.divisor) and (
                not sizevars.statically_known_equals(loop.divisor, end)
            ):
                inside.append(loop)
                covered = sizevars.simplify(covered * loop.size)
        if sizevars.statically_known_equals(covered, node.length):
            return sum(loop.symbol * FloorDiv(loop.divisor, node.divisor) for loop in inside)
        if sizevars.statically_known_equals(node.divisor * node.length, self.tree.numel):
            return FloorDiv(self.flat, node.divisor)
        return ModularIndexing(self.flat, node.divisor, node.length)


class Space:
    """All loops of a kernel; expresses indices by their variables."""

    def __init__(self, kernel, flat: bool):
        trees = kernel.range_trees
        splits = _splits(kernel)
        self.outer = [
            Nest(tree, splits[tree.prefix], "n", flat) for tree in trees if not tree.is_reduction
        ]
        self.inner = [
            Nest(tree, splits[tree.prefix], "k", flat)
            for tree in trees
            if tree.is_reduction and kernel.features.is_reduction()
        ]
        assert len(self.outer) == 1 and len(self.inner) <= 1, "ocl: kernels are not tiled"
        nests = {nest.tree.prefix: nest for nest in (*self.outer, *self.inner)}
        self.values = {
            node.symbol(): nests[node.root.prefix].value_of(node)
            for node in kernel.range_tree_nodes.values()
            if node.root.prefix in nests
        }
        self.ranges = {loop.symbol: loop.size for nest in nests.values() for loop in nest.loops}

    def index(self, expr) -> sympy.Expr:
        expr = sympy_subs(expr, self.values)
        return V.graph.sizevars.simplify_with_ranges(expr, self.ranges)


def _splits(kernel) -> dict[str, set]:
    """The splits of the flat index of each tree in the accesses."""
    splits = collections.defaultdict(set)
    for mark in kernel.marks:
        for symbol in mark.index.free_symbols:
            if node := kernel.range_tree_nodes.get(symbol):
                splits[node.root.prefix] |= {node.divisor, node.divisor * node.length}
        for part in mark.index.atoms(FloorDiv, ModularIndexing):
            if node := kernel.range_tree_nodes.get(part.args[0]):
                split = node.divisor * part.args[1]
                splits[node.root.prefix].add(split)
                if isinstance(part, ModularIndexing):
                    splits[node.root.prefix].add(split * part.args[2])
    return splits


def stride(index, symbol):
    """How much the index grows with the variable; None if it is not constant."""
    if symbol not in index.free_symbols:
        return sympy.S.Zero
    step = sympy.expand(index.subs(symbol, symbol + 1) - index)
    step = V.graph.sizevars.simplify(step)
    if step.has(FloorDiv, ModularIndexing) or symbol in step.free_symbols:
        return None
    return step
