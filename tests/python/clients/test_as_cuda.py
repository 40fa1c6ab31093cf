"""Processes in which "cuda" means ocl (docs/as_cuda.md).

tests/as_cuda has what is tested inside of such a process.
"""

import os
import subprocess
import sys
import textwrap

import pytest
import torch
from as_cuda_names import tables
from support import DEADLINE, ROOT, child_environment, output_of, run_python

from torch_ocl.as_cuda import visible

FILES = sorted((ROOT / "tests/as_cuda").glob("test_*.py"))
SLOW = ["test_training"]


def run(*command, **variables):
    """The command's output."""
    done = subprocess.run(
        [sys.executable, *map(str, command)],
        env=child_environment(**variables),
        capture_output=True,
        text=True,
        timeout=DEADLINE,
    )
    assert done.returncode == 0, f"{done.stdout}\n{done.stderr}"
    return done.stdout


def script(tmp_path, code, name="script.py"):
    file = tmp_path / name
    file.write_text(textwrap.dedent(code))
    return file


@pytest.mark.parametrize(
    "file",
    [
        pytest.param(file, id=file.stem, marks=[pytest.mark.slow] if file.stem in SLOW else [])
        for file in FILES
    ],
)
def test_inside(file):
    options = ["-q", "-p", "no:cacheprovider", "--tb=short"]
    run("-m", "pytest", *options, file, OCL_AS_CUDA="1", OCL_FALLBACK="error")


def test_run_and_the_processes_that_it_starts(tmp_path):
    child = script(tmp_path, "import torch; print(torch.ones(1).cuda().device)", "child.py")
    code = f"""
        import multiprocessing, subprocess, sys
        import torch
        class Data(torch.utils.data.Dataset):
            def __len__(self):
                return 4
            def __getitem__(self, index):
                return torch.device("cuda").type, str(torch.device("cuda:0")), index
        if __name__ == "__main__":
            print(sys.argv[1:], torch.ones(2, device="cuda").device)
            for method in ("fork", "spawn"):
                loader = torch.utils.data.DataLoader(
                    Data(), 2, num_workers=1, multiprocessing_context=method)
                print(method, [batch[0][0] + batch[1][0] for batch in loader])
            print(subprocess.check_output([sys.executable, {str(child)!r}], text=True), end="")
    """
    printed = run("-m", "torch_ocl.run", "--cuda", script(tmp_path, code), "--lr", "3")
    assert printed.splitlines() == [
        "['--lr', '3'] cuda:0",
        "fork ['cudacuda:0', 'cudacuda:0']",
        "spawn ['cudacuda:0', 'cudacuda:0']",
        "cuda:0",
    ]


@pytest.mark.slow
def test_two_processes_by_nccl(tmp_path):
    code = """
        import os, sys
        import torch
        import torch.distributed as dist
        rank = int(os.environ["LOCAL_RANK"])
        torch.cuda.set_device(rank % torch.cuda.device_count())
        dist.init_process_group(backend="nccl")
        x = torch.ones(2, device="cuda") * (rank + 1)
        dist.all_reduce(x)
        model = torch.nn.parallel.DistributedDataParallel(
            torch.nn.Linear(2, 1).cuda(), device_ids=[torch.cuda.current_device()])
        model(x * rank).sum().backward()
        gradients = model.module.weight.grad.tolist()
        sys.stdout.write(f"{dist.get_backend()} {x.tolist()} {gradients}\\n")
        dist.destroy_process_group()
    """
    torchrun = ["-m", "torch.distributed.run", "--standalone", "--nproc-per-node=2"]
    printed = run(*torchrun, "-m", "torch_ocl.run", "--cuda", script(tmp_path, code))
    assert printed.splitlines() == ["nccl [3.0, 3.0] [[1.5, 1.5]]"] * 2


def test_checkpoints_of_both_kinds(tmp_path):
    """Of this mode, read without it, and the other way round."""
    ours, theirs = tmp_path / "cuda.pt", tmp_path / "ocl.pt"
    torch.save({"x": torch.arange(3, device="ocl"), "device": torch.device("ocl")}, theirs)
    code = f"""
        import torch
        read = torch.load({str(theirs)!r})
        print(read["x"].device, read["device"])
        device = torch.device("cuda")
        torch.save({{"x": torch.arange(3, device=device), "d": device}}, {str(ours)!r})
    """
    assert output_of(code, OCL_AS_CUDA="1") == "cuda:0 cuda"
    for location in ("cpu", "ocl", torch.device("ocl:0"), {"cuda:0": "ocl:0"}):
        read = torch.load(ours, map_location=location)
        assert read["x"].tolist() == [0, 1, 2] and read["d"] == torch.device("cuda")
    with pytest.raises(RuntimeError, match="map_location"):
        torch.load(ours)


def test_refused_where_pytorch_has_a_gpu(tmp_path):
    code = """
        import torch_ocl
        torch_ocl._pytorch_has_a_gpu = lambda: True
        import torch
        from torch_ocl import as_cuda, run
        for attempt in (as_cuda.install, lambda: run.main(["--cuda", "script.py"])):
            try:
                attempt()
            except (RuntimeError, SystemExit) as error:
                print(error)
        print(as_cuda.enabled(), torch.cuda.is_available())
    """
    first, second, third = output_of(code).splitlines()
    assert first.startswith("this PyTorch has a GPU of its own, for which programs mean")
    assert second == f"torch_ocl.run --cuda: {first}" and third == "False False"


def test_without_a_device(tmp_path):
    """A program that takes the CPU then is told why, once."""
    code = """
        import torch
        print(torch.cuda.is_available(), torch.cuda.is_available(), torch.cuda.device_count())
        try:
            torch.ones(2, device="cuda")
        except RuntimeError as error:
            print(str(error)[:26])
    """
    result = run_python(code, OCL_AS_CUDA="1", OCL_ICD_VENDORS=str(tmp_path))
    assert result.stdout.splitlines() == ["False False 0", "No OpenCL device was found"]
    assert result.stderr.count("OCL_AS_CUDA=1, but there is no device: No OpenCL") == 1


def test_triton_is_refused(tmp_path):
    """Kernels of Triton would be launched for a driver that is not there."""
    folder = tmp_path / "triton" / "runtime"
    folder.mkdir(parents=True)
    (tmp_path / "triton" / "__init__.py").touch()
    (folder / "__init__.py").touch()
    (folder / "jit.py").write_text("class JITFunction:\n    def run(self, *args): return 1\n")
    code = """
        import torch
        from triton.runtime.jit import JITFunction
        JITFunction().run(torch.ones(1, device="cuda"))
    """
    result = run_python(code, OCL_AS_CUDA="1", PYTHONPATH=str(tmp_path))
    assert "NotImplementedError: the launch of a Triton kernel: here" in result.stderr
    assert "torch.ocl.compile_kernel" in result.stderr


def test_with_the_integrations():
    """Libraries find cuda, so there is nothing to choose."""
    code = """
        import torch, torch_ocl.integrations
        print(torch_ocl.integrations.enabled(), torch.ones(1).cuda().device.type)
    """
    assert output_of(code, OCL_AS_CUDA="1", OCL_INTEGRATIONS="1") == "True cuda"


@pytest.mark.parametrize(
    ("wanted", "shown", "chosen"),
    [
        ("0,2", "", "0,2"),
        ("1", "3,5", "5"),
        ("1,0", "3, 5", "5,3"),
        ("1,-1,0", "", "1"),
    ],
)
def test_visible_devices_are_of_those_that_ocl_shows(wanted, shown, chosen):
    assert visible._chosen(visible._numbers(wanted), shown) == chosen


def test_visible_devices_that_are_wrong():
    with pytest.raises(ValueError, match='names the device "GPU-1"'):
        visible._numbers("0,GPU-1")
    with pytest.raises(ValueError, match="names device 2, but OCL_VISIBLE_DEVICES=0,1 shows 2"):
        visible._chosen([2], "0,1")


def test_visible_devices():
    """Read at the first use, which may set it, and given on to children once."""
    code = """
        import os, subprocess, sys
        import torch
        os.environ["CUDA_VISIBLE_DEVICES"] = {!r}
        print(torch.cuda.device_count(), torch.cuda.is_available(), end=" ")
        child = "import torch; print(torch.cuda.device_count(), end=' ')"
        sys.stdout.flush()
        subprocess.run([sys.executable, "-c", child], check=True)
        subprocess.run([sys.executable, "-c", child], check=True, env=dict(os.environ))
        print(os.environ["CUDA_VISIBLE_DEVICES"])
        try:
            torch.ones(1, device="cuda")
        except ValueError as error:
            print(str(error)[:70])
    """
    assert output_of(code.format("0"), OCL_AS_CUDA="1") == "1 True 1 1 0"
    none = output_of(code.format("-1"), OCL_AS_CUDA="1").splitlines()
    assert none[0] == "0 False 0 0 -1" and "because CUDA_VISIBLE_DEVICES shows none" in none[1]


def test_the_page_has_each_name():
    page = (ROOT / "docs/as_cuda.md").read_text()
    assert tables() in page, "run tools/as_cuda_names.py docs/as_cuda.md"


def test_nothing_changes_without_it():
    assert "OCL_AS_CUDA" not in os.environ and not torch.cuda.is_available()
    assert str(torch.ones(1, device="ocl").device) == "ocl:0"
