"""Lists the private Python names of PyTorch that torch_ocl uses, with their sources.

usage: private_names.py

Reads our sources: the names that they import from PyTorch and these names' attributes, what they
assign to ("replaced"), and methods of our classes that a class of PyTorch has, too ("overridden").
tools/try_torch.py compares two releases with it.
"""

import ast
import importlib
import inspect
import pathlib

PACKAGE = pathlib.Path(__file__).resolve().parents[1] / "python/torch_ocl"
USES = ["read", "overridden", "replaced"]  # the last use of a name counts
# Attributes of values that exist while a program is compiled, and of our own.
AT_RUN_TIME = ("torch._inductor.virtualized.V.", "torch._torch_ocl_error", "torch.__")


def is_private(name):
    parts = name.split(".")
    return parts[0] == "torch" and any(part[0] == "_" for part in parts)


class Names(ast.NodeVisitor):
    """The private names in one file: `found` has {name: use}."""

    def __init__(self):
        self.aliases = {"torch": "torch"}
        self.found = {}

    def note(self, name, use):
        if is_private(name) and not name.startswith(AT_RUN_TIME):
            self.found[name] = max(use, self.found.get(name, "read"), key=USES.index)

    def dotted(self, node):
        """ "torch._inductor.graph.GraphLowering" for graph.GraphLowering; None for other names."""
        if isinstance(node, ast.Name):
            return self.aliases.get(node.id)
        owner = self.dotted(node.value) if isinstance(node, ast.Attribute) else None
        return owner and f"{owner}.{node.attr}"

    def visit_ImportFrom(self, node):
        if not node.level and (node.module or "").partition(".")[0] == "torch":
            for alias in node.names:
                name = f"{node.module}.{alias.name}"
                self.aliases[alias.asname or alias.name] = name
                self.note(name, "read")

    def visit_Attribute(self, node):
        name = self.dotted(node)
        if name:
            self.note(name, "replaced" if isinstance(node.ctx, ast.Store) else "read")
        else:
            self.generic_visit(node)

    def visit_ClassDef(self, node):
        methods = [each.name for each in node.body if isinstance(each, ast.FunctionDef)]
        for base in filter(None, map(self.dotted, node.bases)):
            for method in methods:
                if hasattr(resolve(base), method) and not hasattr(object, method):
                    self.note(f"{base}.{method}", "overridden")
        self.generic_visit(node)


def resolve(name):
    """The object, or None."""
    parts = name.split(".")
    for end in range(len(parts), 0, -1):
        try:
            found = importlib.import_module(".".join(parts[:end]))
        except ImportError:
            continue
        for part in parts[end:]:
            found = getattr(found, part, None)
        return found
    return None


def text_of(name):
    """The source of a function, or the name of another object's type; None if it does not exist."""
    found = resolve(name)
    if inspect.ismethod(found):
        found = found.__func__
    if not inspect.isfunction(found):
        return None if found is None else type(found).__name__
    try:
        return inspect.getsource(inspect.unwrap(found))
    except OSError:  # written by a program
        return str(inspect.signature(found))


def used_names():
    """{name: (use, files)} of all files of the package."""
    names = {}
    for path in sorted(PACKAGE.rglob("*.py")):
        visitor = Names()
        visitor.visit(ast.parse(path.read_text()))
        for name, use in visitor.found.items():
            known, files = names.get(name, ("read", []))
            names[name] = max(known, use, key=USES.index), [*files, path.name]
    return names


def main():
    for name, (use, files) in sorted(used_names().items()):
        print(use, name, *files, "" if text_of(name) else "MISSING")


if __name__ == "__main__":
    main()
