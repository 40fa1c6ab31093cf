"""Each place where Inductor asks for the device is in inductor_branches.txt, with our decision."""

import ast
import pathlib
import re

from support import ROOT

BRANCH = re.compile(
    r"\bis_cpu\b|\bis_gpu\b|\bis_triton\b|\bis_cuda\b|\bis_xpu\b|\bget_gpu_type\(|\bhas_triton\w*\("
    r"|_is_gpu_triton_backend\(|check_device\("
    r"|(?:==|!=|\bin\b)\s*[\[(]?\s*[\"'](?:cpu|cuda|xpu|mps)[\"']|torch\.device\([\"']cpu"
)
FILES = ("scheduler.py", "ir.py", "lowering.py", "decomposition.py", "choices.py", "graph.py")
TABLE = ROOT / "tests" / "conformance" / "inductor_branches.txt"


def branches(folder: pathlib.Path) -> set[str]:
    """Lines of Inductor's sources that ask for the device: "file function: line"."""
    paths = [folder / name for name in FILES]
    paths += sorted(folder.glob("fx_passes/**/*.py")) + sorted(folder.glob("codegen/simd*.py"))
    return set().union(*(_branches(path, folder) for path in paths))


def _branches(path, folder) -> set[str]:
    text = path.read_text()
    lines = text.splitlines()
    owners, texts = [""] * (len(lines) + 1), set()
    for node in ast.walk(ast.parse(text)):  # outer functions before inner ones
        if isinstance(node, (ast.FunctionDef, ast.ClassDef)):
            for line in range(node.lineno, node.end_lineno + 1):
                owners[line] = node.name
        elif isinstance(node, ast.Expr) and isinstance(node.value, ast.Constant):
            texts |= set(range(node.lineno, node.end_lineno + 1))
    found = set()
    for number, line in enumerate(lines, 1):
        code = line.partition("#")[0].strip()
        skipped = number in texts or not owners[number] or re.match(r"from |import |def ", code)
        if not skipped and BRANCH.search(code):
            name = path.relative_to(folder).as_posix()
            found.add(f"{name} {owners[number]}: {code}")
    return found


def test_each_branch_is_decided():
    import torch._inductor

    decided = {line for line in TABLE.read_text().splitlines() if line and line[0] != "#"}
    unknown = branches(pathlib.Path(torch._inductor.__file__).parent) - decided
    assert not unknown, "decide these in inductor_branches.txt:\n" + "\n".join(sorted(unknown))
