"""Releases of PyTorch and torch-ocl that do not fit each other, or share folders."""

import shutil

import torch
from support import copy_package, output_of, run_python
from test_compile import CACHED

WORK = "print((torch.ones(2) + 1).tolist(), flush=True)"


def without_extensions(folder):
    """(a copy of torch_ocl, the folder that the extension for this PyTorch was in, variables)"""
    package, variables = copy_package(folder)
    [extension] = package.glob("torch[0-9]*_[0-9]*")
    shutil.rmtree(extension)
    return package, extension, variables


def errors_of(result):
    """The text of the warning of `import torch`, and of the error of `import torch_ocl`."""
    assert result.stdout == "[2.0, 2.0]\n", result.stderr
    lines = result.stderr.splitlines()
    [warning] = [line for line in lines if "torch_ocl could not be loaded" in line]
    return warning.partition("no device 'ocl': ")[2], lines[-1].removeprefix("ImportError: ")


def test_pytorch_was_changed_under_an_installed_package(tmp_path):
    """`import torch` works without ocl; both releases are named."""
    package, _, variables = without_extensions(tmp_path)
    for name in ("torch2_9", "torch2_98"):
        (package / name).mkdir()
    errors = errors_of(run_python(f"import torch\n{WORK}\nimport torch_ocl", **variables))
    assert set(errors) == {
        f"this torch_ocl is for PyTorch 2.9 or 2.98, but {torch.__version__} is installed: "
        "install another one of the two, or torch-ocl from its sources"
    }


def test_an_extension_that_this_pytorch_cannot_load(tmp_path):
    """Simulates another build of the same release: the linker names a symbol, we name both
    sides."""
    _, extension, variables = without_extensions(tmp_path)
    extension.mkdir()
    (extension / "_C.py").write_text("raise ImportError('undefined symbol: _ZN3c10')")
    errors = errors_of(run_python(f"import torch\n{WORK}\nimport torch_ocl", **variables))
    assert set(errors) == {
        f"the extension in {extension} does not fit PyTorch {torch.__version__}: "
        "undefined symbol: _ZN3c10. Install torch-ocl again"
    }


def test_environments_that_share_a_cache(device, tmp_path):
    """Programs that another torch-ocl compiled are not used. PyTorch's key covers only its own
    sources."""
    package, variables = copy_package(tmp_path / "other")
    with (package / "inductor/kernel.py").open("a") as opened:
        opened.write("# another release\n")
    shared = {"TORCHINDUCTOR_CACHE_DIR": str(tmp_path / "cache")}
    found = [output_of(CACHED, **shared, **each) for each in ({}, variables, variables, {})]
    assert found == ["0 1", "0 1", "1 0", "1 0"]
