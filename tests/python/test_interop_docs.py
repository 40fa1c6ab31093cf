"""The examples of docs/interop.md, each as a program of its own."""

import importlib.util
import pathlib
import re
import subprocess
import sys

import pytest
from support import DEADLINE

PAGE = pathlib.Path(__file__).parents[2] / "docs/interop.md"
PARTS = re.findall(r"^## (.*?)\n(.*?)(?=^## |\Z)", PAGE.read_text(), re.MULTILINE | re.DOTALL)
EXAMPLES = [
    pytest.param(code, id=f"{title}-{number}")
    for title, text in PARTS
    for number, code in enumerate(re.findall(r"```python\n(.*?)```", text, re.DOTALL))
]


def test_every_section_has_an_example():
    assert len(PARTS) == 6 and len(EXAMPLES) == 7


@pytest.mark.parametrize("code", EXAMPLES)
def test_example(code, tmp_path):
    if "pyopencl" in code and importlib.util.find_spec("pyopencl") is None:
        pytest.skip("pyopencl is not installed (make build installs it)")
    file = tmp_path / "example.py"
    file.write_text(code)
    result = subprocess.run(
        [sys.executable, file], capture_output=True, text=True, timeout=DEADLINE
    )
    assert result.returncode == 0, result.stderr
