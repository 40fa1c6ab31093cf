"""The page of `make try-torch`, from facts made by hand and from those of this PyTorch."""

import copy
import json
import subprocess
import sys

import private_names
import pytest
import torch_facts
import try_torch
from support import child_environment

OLD = {
    "version": "1.0",
    "schemas": {
        "aten::gone": "aten::gone(Tensor x) -> Tensor",
        "aten::a": "aten::a(Tensor x) -> ()",
    },
    "kernels": {
        "CPU": ["aten::gone"],
        "CompositeImplicitAutograd": [],
        "CompositeExplicitAutograd": [],
    },
    "native": {"a": {"structured": False, "CPU": "a", "CUDA": "a"}},
    "private": {"torch._x.f": ["replaced", ["file.py"], "def f(a):\n    return a\n"]},
}


@pytest.fixture
def new():
    return copy.deepcopy(OLD)


def test_schemas(new):
    del new["schemas"]["aten::gone"]
    new["schemas"] |= {
        "aten::a": "aten::a(Tensor y) -> ()",
        "aten::b": "aten::b() -> ()",
        "aten::c": "",
    }
    new["kernels"]["CPU"] += ["aten::b"]
    removed, added, changed = torch_facts.schema_differences(OLD, new).values()
    assert removed == ["aten::gone"]
    assert added == ["aten::b: CPU", "aten::c: no kernel for all devices"]
    assert changed == ["aten::a(Tensor x) -> ()\n    aten::a(Tensor y) -> ()"]


def test_implementations(new):
    new["native"]["a"]["CUDA"] = "a_cuda"
    [lines] = torch_facts.native_differences(OLD, new).values()
    assert lines == ["a: CUDA a -> a_cuda"]


@pytest.mark.parametrize("text, place", [(None, 0), ("def f(a, b):\n    return a\n", 1)])
def test_private_functions(new, text, place):
    new["private"]["torch._x.f"][2] = text
    titles, texts = torch_facts.private_differences(OLD, new)
    assert list(titles.values())[place] == ["torch._x.f (replaced in file.py)"]
    assert (text is None) == (not texts)
    assert not texts or "+def f(a, b):" in texts


def test_a_long_part_is_cut():
    lines = try_torch.page({"many": [str(i) for i in range(99)], "none": []}, "end").splitlines()
    assert lines[0] == "== many: 99" and lines[-2:] == ["== none: 0", "end"]
    assert lines[-3] == f"  .. and {99 - try_torch.MOST_LINES} more"


def test_facts_of_this_pytorch(tmp_path):
    file = tmp_path / "facts.json"
    environment = child_environment(TORCH_DEVICE_BACKEND_AUTOLOAD="0")
    command = [sys.executable, torch_facts.__file__, file]
    subprocess.run(command, check=True, env=environment, cwd=tmp_path)
    facts = json.loads(file.read_text())
    assert "aten::add.Tensor" in facts["schemas"]
    assert facts["native"]["add.out"]["structured"]
    assert "aten::relu" in facts["kernels"]["CPU"]
    assert facts["private"].keys() == private_names.used_names().keys()
    assert not any(torch_facts.schema_differences(facts, facts).values())
    assert torch_facts.private_differences(facts, facts)[1] == []
