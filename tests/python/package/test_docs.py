"""The Python of the README and of each page of docs/ runs as it stands there; pages are complete.

`make docs` builds the pages, and finds links to what is not there.
"""

import importlib.util
import os
import re
import subprocess
import sys

import cuda_names
import pytest
import torch
from support import DEADLINE, ROOT

PAGES = [ROOT / "README.md", *sorted((ROOT / "docs").glob("*.md"))]
# The output of a page's program.
PRINTS = {
    "README.md": lambda printed: float(printed.split()[0]) < 0.3,
    "image.md": lambda printed: printed == "torch.Size([3, 128, 170]) torch.float32\n3600.0\n",
}
# Each example of this page is a program of its own, those of another page are one program.
APART = ROOT / "docs/interop.md"
APART_PARTS = re.findall(r"^## (.*?)\n(.*?)(?=^## |\Z)", APART.read_text(), re.M | re.S)


def blocks(text, language="python"):
    return re.findall(rf"^```{language}\n(.*?)^```", text, re.M | re.S)


PROGRAMS = [
    pytest.param(
        "\n".join(blocks(page.read_text())),
        page,
        id=page.name,
        marks=[pytest.mark.slow] if blocks(page.read_text(), "cpp") else [],  # g++ takes its time
    )
    for page in PAGES
    if page != APART and blocks(page.read_text())
] + [
    pytest.param(code, APART, id=f"{title}-{number}")
    for title, text in APART_PARTS
    for number, code in enumerate(blocks(text))
]


def test_every_section_has_an_example():
    assert len(APART_PARTS) == 6 and sum(len(blocks(text)) for _, text in APART_PARTS) == 7


@pytest.mark.parametrize(("code", "page"), PROGRAMS)
def test_example(code, page, tmp_path):
    if "pyopencl" in code and importlib.util.find_spec("pyopencl") is None:
        pytest.skip("pyopencl is not installed (make build installs it)")
    file = tmp_path / "example.py"
    file.write_text(code)
    if source := re.search(r"\[\"(\w+\.cpp)\"\]", code):  # the page's first C++
        (tmp_path / source[1]).write_text(blocks(page.read_text(), "cpp")[0])
    # The variables that torchrun sets for the only process of a job.
    job = {"RANK": "0", "LOCAL_RANK": "0", "WORLD_SIZE": "1"}
    job |= {"MASTER_ADDR": "localhost", "MASTER_PORT": "0"}
    result = subprocess.run(
        [sys.executable, file],
        capture_output=True,
        text=True,
        timeout=DEADLINE,
        cwd=tmp_path,
        env=os.environ | job | {"TORCH_EXTENSIONS_DIR": str(tmp_path)},
    )
    assert result.returncode == 0, result.stderr
    if page.name in PRINTS:
        assert PRINTS[page.name](result.stdout), result.stdout


@pytest.mark.skipif(
    not torch.__version__.startswith("2.13."), reason="the page is written for PyTorch 2.13"
)
def test_names_of_cuda():
    page = (ROOT / "docs/from_cuda.md").read_text()
    assert cuda_names.table() in page, "run tools/cuda_names.py docs/from_cuda.md"


def test_reference_has_each_module_of_torch_ocl():
    source = (ROOT / "python/torch_ocl/ocl/__init__.py").read_text()
    imports = re.findall(r"^from \.(\w+) import (?:\(([^)]*)\)|(.*))", source, re.M)
    wanted = {
        module
        for module, *names in imports
        if set(re.findall(r"\w+", " ".join(names))) & set(torch.ocl.__all__)
    }
    page = (ROOT / "docs/api.md").read_text()
    assert set(re.findall(r"^::: torch_ocl\.ocl\.(\w+)", page, re.M)) >= wanted
