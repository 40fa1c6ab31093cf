"""This PyTorch has the private names that torch_ocl uses, and passes what ours take."""

import ast
import importlib
import inspect
import json
import pathlib
import pkgutil

import private_names
import pytest
import torch._inductor.compile_fx  # noqa: F401 (then torch_ocl replaces functions)
from support import output_of

from torch_ocl import inductor

# Names that not all supported releases have: torch_ocl asks first.
NOT_ALWAYS = {
    "torch._inductor.codegen.cpp_utils.DEVICE_TO_ATEN": "until PyTorch 2.15",
    "torch._inductor.stream_utils.get_stream_name": "from PyTorch 2.13 on",
}
USES = {name: use for name, (use, _) in private_names.used_names().items()}
REPLACED = sorted(name for name, use in USES.items() if use == "replaced")


def classes():
    """torch_ocl's classes in torch.compile's part."""
    for found in pkgutil.walk_packages(inductor.__path__, f"{inductor.__name__}."):
        module = importlib.import_module(found.name)
        for each in vars(module).values():
            if inspect.isclass(each) and each.__module__ == found.name:
                yield each


def is_python(method):
    """Functions in C++ have no signature."""
    return inspect.isfunction(getattr(method, "__func__", method))


def overrides():
    """(class, name, PyTorch's class) of each method that replaces one of PyTorch's."""
    for each in classes():
        for name in vars(each):
            bases = [base for base in each.__mro__[1:] if name in vars(base)]
            theirs = [base for base in bases if base.__module__.startswith("torch.")]
            written = theirs and is_python(getattr(each, name)) and not name.startswith("__")
            if written and is_python(getattr(theirs[0], name)):
                yield each, name, theirs[0]


def arguments(owner, name):
    """The parameters of a method, without self."""
    found = list(inspect.signature(getattr(owner, name)).parameters.values())
    return found[1:] if inspect.isfunction(inspect.getattr_static(owner, name)) else found


def refusal(ours, theirs):
    """Why parameters do not take the arguments that PyTorch's parameters name, or None."""
    if any(parameter.kind is parameter.VAR_POSITIONAL for parameter in theirs):
        return None
    by_name = [each.name for each in theirs if each.kind is each.KEYWORD_ONLY]
    count = sum(each.kind in (each.POSITIONAL_ONLY, each.POSITIONAL_OR_KEYWORD) for each in theirs)
    try:
        inspect.Signature(ours).bind(*[None] * count, **dict.fromkeys(by_name))
    except TypeError as error:
        return str(error)
    return None


def test_names_exist():
    missing = {name for name in USES if private_names.text_of(name) is None}
    assert missing <= NOT_ALWAYS.keys()
    assert len(USES) > 150 and len(REPLACED) > 8


def test_overrides_take_what_pytorch_passes():
    found = list(overrides())
    assert len(found) > 80
    refused = {
        f"{each.__name__}.{name}": why
        for each, name, base in found
        if (why := refusal(arguments(each, name), arguments(base, name)))
    }
    assert not refused


def test_replacements_take_what_pytorch_passes():
    folder = pathlib.Path(private_names.__file__).parent
    program = f"""
        import inspect, json, sys
        sys.path.append({str(folder)!r})
        import private_names
        found = {{name: private_names.resolve(name) for name in {REPLACED!r}}}
        print(json.dumps({{
            name: [[each.name, each.kind.name] for each in inspect.signature(f).parameters.values()]
            for name, f in found.items() if inspect.isfunction(f)
        }}))
    """
    lines = output_of(program, TORCH_DEVICE_BACKEND_AUTOLOAD="0").splitlines()
    found = json.loads(lines[-1])
    assert len(found) > 8
    for name, parameters in found.items():
        theirs = [inspect.Parameter(n, getattr(inspect.Parameter, k)) for n, k in parameters]
        ours = inspect.signature(private_names.resolve(name)).parameters.values()
        assert refusal(list(ours), theirs) is None, name


def test_uses_are_read_from_the_sources():
    visitor = private_names.Names()
    visitor.visit(
        ast.parse(
            "from torch._inductor import graph, ir as i\n"
            "from torch.nn import Linear\n"
            "import torch\n"
            "graph.GraphLowering.run = 1\n"
            "i.Loops.create(torch._foreach_add, Linear.forward)\n"
            "class A(i.Loops):\n"
            "  def create(self): pass\n"
        )
    )
    assert visitor.found == {
        "torch._inductor.graph": "read",
        "torch._inductor.graph.GraphLowering.run": "replaced",
        "torch._inductor.ir": "read",
        "torch._inductor.ir.Loops": "read",
        "torch._inductor.ir.Loops.create": "overridden",
        "torch._foreach_add": "read",
    }


@pytest.mark.parametrize("name", ["torch._inductor.graph.GraphLowering.gone", "torch._gone.x"])
def test_missing_names_are_found(name):
    assert private_names.text_of(name) is None
