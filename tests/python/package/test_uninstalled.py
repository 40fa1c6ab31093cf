"""The package's files are deleted while a program uses it."""

import pathlib
import shutil

from support import output_of

import torch_ocl

PROGRAM = """
    import importlib, io, shutil, sys
    sys.path.insert(0, {folder!r})
    import torch, torch_ocl
    assert torch_ocl.__file__.startswith({folder!r})
    x = torch.arange(100.0, device="ocl")
    assert (x * 2).sum().item() == 9900
    shutil.rmtree({folder!r})
    # Everything that was loaded still works: kernels that are built only now, copies, files,
    # training.
    assert x.cumsum(0)[-1].item() == 4950 and (x[None] @ x[:, None]).item() == 328350
    file = io.BytesIO()
    torch.save(x, file)
    file.seek(0)
    assert torch.equal(torch.load(file).cpu(), x.cpu())
    # Optimizers import torch._dynamo, which torch_ocl follows.
    layer = torch.nn.Linear(100, 2).to("ocl")
    optimizer = torch.optim.Adam(layer.parameters())
    layer(x).sum().backward()
    optimizer.step()
    assert layer.weight.isfinite().all().item()
    # Parts that were not loaded raise an error that says what is missing.
    for use in (
        lambda: importlib.import_module("torch_ocl.tune"),
        lambda: torch.compile(lambda x: x.sin() + 1)(x),
    ):
        try:
            use()
        except ImportError as error:
            print(error)
"""


def test_files_deleted_while_loaded(device, tmp_path):
    folder = tmp_path / "site"
    shutil.copytree(pathlib.Path(torch_ocl.__file__).parent, folder / "torch_ocl")
    text = output_of(PROGRAM.format(folder=str(folder)), OCL_AUTOLOAD="0")
    tuner, compiling = text.splitlines()
    assert tuner == "No module named 'torch_ocl.tune'"
    assert "torch_ocl.inductor" in compiling
