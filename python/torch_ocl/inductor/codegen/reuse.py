"""Values that several loops over a row need, such as the exponentials of softmax.

Inductor computes them again in each loop, because on its own devices that is faster than memory. On
a CPU a row fits the first level cache, and a load from there is cheaper than such a value.
"""

import re

COSTLY = re.compile(r"\b(exp\w*|log\w*|tanh|erfc?|[a-z]*sqrt|each_\w+|ERF|SIN|COS|TAN|POW|FMOD)\(")
LONGEST = 4096  # elements of a row


class RowValues:
    """Finds statements in loops whose values should be kept for the row, and the statements that
    use them."""

    def __init__(self, renderer, length: int | None):
        self._kept = {}  # a statement's identity -> name of the array with the row's values
        self._taken = {}
        self.types = {}  # name -> variable whose type the values have
        if length is None or length > LONGEST:
            return
        # Equal values have equal numbers. (The texts of whole expressions double with each use.)
        numbers, known, earlier = {}, {}, {}
        for section, statements, _ in renderer.sections:
            if not section.looped:
                continue
            here = {}
            for statement in statements:
                if statement.target is None:
                    continue
                text = renderer.canonical(statement.text.split(" = ", 1)[1], known)
                known[statement.target] = f"<{numbers.setdefault(text, len(numbers))}>"
                costly = COSTLY.search(statement.text)
                if renderer.vector not in statement.symbols or not costly:
                    continue
                if text in earlier:
                    source = earlier[text]
                    name = self._kept.setdefault(id(source), f"row{len(self._kept)}")
                    self._taken[id(statement)] = name
                    self.types[name] = statement.target
                else:
                    here.setdefault(text, statement)
            earlier = {**here, **earlier}

    def taken(self, statement):
        return self._taken.get(id(statement))

    def kept(self, statement):
        return self._kept.get(id(statement))
