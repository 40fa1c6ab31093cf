"""`import torch` with and without OpenCL, the autoload entry point, and forks."""

import shutil
import subprocess

import pytest
from support import copy_package, output_of, run_python

# Signs of OpenCL in a process: the loader, a driver, threads.
STATE = """
    import pathlib, torch
    DRIVERS = ["pocl", "intelocl", "oclgrind", "RusticlOpenCL", "nvidia-opencl", "amdocl", "igdrcl"]
    def state():
        maps = pathlib.Path("/proc/self/maps").read_text()
        libraries = [name for name in ("libOpenCL", *DRIVERS) if name in maps]
        return libraries, len(list(pathlib.Path("/proc/self/task").iterdir()))
"""

# Uses no device: import, then the questions that may be asked on every machine.
NOTHING_THERE = """
    import torch
    print(torch.ocl.is_available(), torch.ocl.device_count(), torch.accelerator.is_available())
    torch.manual_seed(3)
    print((torch.ones(2) + 1).tolist())
    for attempt in (
        torch.ocl.init,
        lambda: torch.ones(3, device="ocl"),
        lambda: torch.ones(3).to("ocl:0"),
        lambda: torch.ocl.get_device_properties(),
        lambda: torch.Stream(device="ocl"),
    ):
        try:
            attempt()
        except RuntimeError as error:
            print(str(error).splitlines()[0])
"""


def check_nothing_there(result, reason):
    assert result.returncode == 0, result.stderr
    assert result.stderr == "", "import says nothing"
    lines = result.stdout.splitlines()
    assert lines[:2] == ["False 0 False", "[2.0, 2.0]"]
    assert len(lines) == 7, lines
    for line in lines[2:]:
        assert reason in line
        assert "apt install pocl-opencl-icd" in line


def test_no_platform(tmp_path):
    """The loader tells it by a code."""
    check_nothing_there(
        run_python(NOTHING_THERE, OCL_ICD_VENDORS=str(tmp_path)),
        "No OpenCL device was found. The list of platforms is not used: no driver is installed: "
        "clGetPlatformIDs failed with CL_PLATFORM_NOT_FOUND_KHR (-1001).",
    )


def test_no_loader(tmp_path):
    """dlopen() of the loader library fails, as it does where none is installed."""
    if not shutil.which("cc"):
        pytest.skip("needs a C compiler")
    source, library = tmp_path / "no_opencl.c", tmp_path / "no_opencl.so"
    source.write_text(
        """
        #define _GNU_SOURCE
        #include <dlfcn.h>
        #include <string.h>
        void *dlopen(const char *name, int flags) {
          void *(*next)(const char *, int) = dlsym(RTLD_NEXT, "dlopen");
          return next(name && strstr(name, "libOpenCL") ? "no_such_library.so" : name, flags);
        }
        """
    )
    subprocess.run(["cc", "-shared", "-fPIC", source, "-o", library], check=True)
    check_nothing_there(
        run_python(NOTHING_THERE, LD_PRELOAD=str(library)), "(libOpenCL.so.1) is not installed"
    )


def test_info_without_a_device(tmp_path):
    code = "import runpy; runpy.run_module('torch_ocl.info', run_name='__main__')"
    result = run_python(code, OCL_ICD_VENDORS=str(tmp_path))
    assert "pocl-opencl-icd" in result.stdout + result.stderr


def test_import_starts_nothing():
    without = output_of(STATE + "\n    print(state())", TORCH_DEVICE_BACKEND_AUTOLOAD="0")
    loaded = output_of(STATE + "\n    print(state())\n    assert torch.ocl")
    assert loaded == without
    assert loaded.startswith("([],")


def test_counting_starts_no_driver(device):
    code = """
    before = state()
    assert torch.ocl.device_count() > 0 and torch.ocl.is_available()
    after = state()
    print(torch.ocl.is_initialized(), set(after[0]) <= {"libOpenCL"}, after[1] - before[1])
    torch.empty(1, device="ocl")
    print(torch.ocl.is_initialized(), set(state()[0]) > {"libOpenCL"})
    """
    assert output_of(STATE + code).splitlines() == ["False True 0", "True True"]


def test_autoload_can_be_turned_off():
    code = """
        import torch
        print(hasattr(torch, "ocl"))
        import torch_ocl
        print(hasattr(torch, "ocl"))
    """
    variables = {"TORCH_DEVICE_BACKEND_AUTOLOAD": "0"}
    assert output_of(code, **variables).splitlines() == ["False", "True"]


def test_import_of_the_package_first():
    assert output_of("import torch_ocl, torch; print(torch.device('ocl').type)") == "ocl"


def test_a_broken_extension_does_not_break_import_torch(tmp_path):
    """The package with an extension module that cannot be loaded."""
    package, variables = copy_package(tmp_path, "_C*.so")
    (package / "_C.py").write_text("raise ImportError('the extension is broken')")
    result = run_python("import torch; print(torch.ones(1).item())", **variables)
    assert result.stdout.strip() == "1.0", result.stderr
    assert "torch_ocl could not be loaded" in result.stderr
    assert "the extension is broken" in result.stderr


@pytest.mark.parametrize(
    "file, function",
    [
        ("ocl/__init__.py", "_at_start"),
        ("vmap.py", "register"),
        ("inductor/__init__.py", "register_when_needed"),
    ],
)
def test_loading_is_all_or_nothing(tmp_path, file, function):
    """A part that fails: no device, and the same error whenever somebody asks for it."""
    package, variables = copy_package(tmp_path)
    with (package / file).open("a") as opened:
        opened.write(f"\n\ndef {function}():\n    raise OSError('there is no room')\n")
    code = """
    import torch
    print(hasattr(torch, "ocl"), hasattr(torch.Tensor, "ocl"))
    for _ in range(2):
        try:
            torch.ones(1, device="ocl")
        except RuntimeError as error:
            print("at start of device string: ocl" in str(error))
        try:
            import torch_ocl
        except OSError as error:
            print(error)
    """
    result = run_python(code, **variables)
    assert result.stdout.splitlines() == ["False False", *["True", "there is no room"] * 2]
    told = "torch_ocl could not be loaded, so there is no device 'ocl': there is no room"
    assert result.stderr.count(told) == 1


def test_integrations_that_fail_leave_the_device(tmp_path):
    """OCL_INTEGRATIONS=1 where there is no device to choose."""
    code = "import torch, torch_ocl; print(torch.ocl.is_available())"
    result = run_python(code, OCL_INTEGRATIONS="1", OCL_ICD_VENDORS=str(tmp_path))
    assert result.stdout == "False\n", result.stderr
    assert result.stderr.count("OCL_INTEGRATIONS=1 has no effect: No OpenCL device") == 1


FORK = """
    import os, sys, torch
    def in_fork(body):
        child = os.fork()
        if child == 0:
            try:
                body()
            except BaseException as error:
                print(type(error).__name__, error, flush=True)
                os._exit(1)
            os._exit(0)
        return os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])
"""


def test_a_fork_after_counting_can_use_devices(device):
    code = """
    assert torch.ocl.device_count() > 0
    def use():
        assert torch.ones(3).to("ocl").cpu().tolist() == [1, 1, 1]
    print(in_fork(use))
    """
    assert output_of(FORK + code) == "0"


def test_a_fork_after_use_says_so(device):
    code = """
    x = torch.ones(3).to("ocl")
    for body in (
        lambda: torch.ones(3).to("ocl"), lambda: x + 1, x.cpu, torch.ocl.init,
        torch.ocl.synchronize, lambda: torch.ocl.set_device(0), lambda: x.resize_(2**22),
    ):
        assert in_fork(body) == 1
    """
    lines = output_of(FORK + code).splitlines()
    assert len(lines) == 7, lines
    for line in lines:
        assert line.startswith("RuntimeError ocl cannot be used again in a forked process")
        assert "'spawn'" in line


# Calls in a forked child on objects of its parent.
PARENTS_OBJECTS = """
    import signal
    x, index = torch.ones(3).to("ocl"), torch.tensor([0]).to("ocl")
    stream, new_event = torch.Stream(device="ocl"), torch.Event("ocl")
    event, other_event = (torch.Event("ocl", enable_timing=True) for _ in range(2))
    event.record()
    other_event.record()
    torch.ones(5).pin_memory()  # leaves memory in the cache
    pinned = torch.ones(4).pin_memory()
    graph = torch.ocl.Graph()
    with torch.ocl.graph(graph):
        y = x + 1
    graph.replay()
    x[index]
    torch.ocl.synchronize()
    def try_all():
        signal.alarm(60)
        for name, body in BODIES.items():
            try:
                body()
                print(name, "raises nothing")
            except RuntimeError as error:
                told = str(error).startswith("ocl cannot be used again in a forked process")
                print(name, "ok" if told else error)
            sys.stdout.flush()
    BODIES = {
        "item": lambda: x[0].item(), "cpu": lambda: x.cpu(), "tolist": lambda: x.tolist(),
        "print": lambda: repr(x), "operator": lambda: x * 2, "new operator": lambda: x.atan2(x),
        "in place": lambda: x.add_(1), "fill": lambda: x.fill_(2), "index": lambda: x[index],
        "to device": lambda: pinned.to("ocl"), "to it": lambda: x.copy_(pinned[:3]),
        "to another type": lambda: x.to(torch.float16), "copy": lambda: x.clone(),
        "pin_memory": lambda: torch.ones(5).pin_memory(),
        "empty": lambda: torch.empty(3, device="ocl"), "numpy": lambda: x.cpu().numpy(),
        "record": lambda: event.record(), "first record": lambda: new_event.record(),
        "wait for": lambda: event.synchronize(), "query": lambda: event.query(),
        "event.wait": lambda: event.wait(), "elapsed": lambda: event.elapsed_time(other_event),
        "stream.wait": lambda: stream.wait_event(event), "stream": lambda: stream.synchronize(),
        "stream.query": lambda: stream.query(), "stream.record": lambda: stream.record_event(),
        "new stream": lambda: torch.Stream(device="ocl"), "set_stream": stream.__enter__,
        "current_stream": lambda: torch.ocl.current_stream(),
        "synchronize": lambda: torch.ocl.synchronize(),
        "accelerator": lambda: torch.accelerator.synchronize(),
        "replay": lambda: graph.replay(), "empty_cache": lambda: torch.ocl.empty_cache(),
        "rand": lambda: x.uniform_(),
        "capture": lambda: torch.ocl.graph(torch.ocl.Graph()).__enter__(),
        "backward": lambda: x.clone().requires_grad_().sum().backward(),
        "save": lambda: torch.save(x, os.devnull), "record_stream": lambda: x.record_stream(stream),
    }
"""


def test_what_a_parent_made_says_so_in_a_fork(device):
    code = """
    print(in_fork(try_all))
    """
    lines = output_of(FORK + PARENTS_OBJECTS + code).splitlines()
    assert lines.pop() == "0", lines
    assert [line for line in lines if not line.endswith(" ok")] == []
    assert len(lines) >= 35


def test_a_fork_while_other_threads_work(device):
    """Their locks are held for ever in the child."""
    code = """
    import threading
    stop = threading.Event()
    def work():
        while not stop.is_set():
            (torch.ones(64).to("ocl") * 2).cpu()
            torch.ones(32).pin_memory()
            torch.Event("ocl").record()
    threads = [threading.Thread(target=work) for _ in range(2)]
    for thread in threads: thread.start()
    print([in_fork(try_all) for _ in range(4)], flush=True)
    stop.set()
    for thread in threads: thread.join()
    """
    lines = output_of(FORK + PARENTS_OBJECTS + code).splitlines()
    assert lines.pop() == "[0, 0, 0, 0]", lines
    assert [line for line in lines if not line.endswith(" ok")] == []


def test_a_fork_lets_go_of_what_its_parent_made(device):
    """Destructors must not wait for what the parent's threads did."""
    code = """
    def let_go():
        import gc
        signal.alarm(60)
        for name in ("x", "index", "stream", "event", "other_event", "pinned", "graph", "y"):
            globals().pop(name)
        BODIES.clear()
        gc.collect()
    print(in_fork(let_go), flush=True)
    if (child := os.fork()) == 0:
        signal.alarm(60)
        sys.exit(0)
    print(os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]), (x + 1).tolist())
    """
    assert output_of(FORK + PARENTS_OBJECTS + code).splitlines() == ["0", "0 [2.0, 2.0, 2.0]"]


def test_a_fork_after_use_can_work_on_the_cpu(device):
    """As the workers of a DataLoader do; also ends with the handlers of atexit."""
    code = """
    x = torch.ones(3).to("ocl") + 1
    def work():
        torch.manual_seed(5)
        assert torch.ocl._is_in_bad_fork() and not torch.ocl.is_initialized()
        assert (torch.rand(3) < 1).all()
    print(in_fork(work), flush=True)
    if (child := os.fork()) == 0:
        sys.exit(0)
    print(os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]), x.tolist())
    """
    assert output_of(FORK + code).splitlines() == ["0", "0 [2.0, 2.0, 2.0]"]


# The last step of `import torch`, in a PyTorch that pretends to be built for CUDA.
BESIDE_CUDA = """
    import os
    os.environ["TORCH_DEVICE_BACKEND_AUTOLOAD"] = "0"
    import torch
    torch.cuda._is_compiled, torch.cuda._device_count_nvml = lambda: True, lambda: {gpus}
    torch.__spec__._initializing = True
    exec(compile("_import_device_backends()", torch.__file__, "exec"), vars(torch))
    torch.__spec__._initializing = False
    print(hasattr(torch, "ocl"))
    import torch_ocl
    print((torch.ones(2, device="ocl") + 1).tolist(), os.environ.get("OCL_AUTOLOAD"))
"""


@pytest.mark.parametrize(
    ("gpus", "asked", "there", "told"),
    [(1, None, False, "1"), (1, "1", True, "1"), (0, None, True, None)],
)
def test_a_gpu_of_pytorch_comes_first(device, gpus, asked, there, told):
    """CUDA's backward pass fails once another accelerator is registered. Children are told."""
    printed = output_of(BESIDE_CUDA.format(gpus=gpus), OCL_AUTOLOAD=asked)
    assert printed.splitlines() == [str(there), f"[2.0, 2.0] {told}"]


TWO_THREADS = """
    import sys, threading
    errors, ready = [], threading.Barrier(2)
    def bring(names):
        ready.wait()
        try:
            for name in names:
                __import__(name)
            sys.modules["torch"].ones(2, device="ocl")
        except BaseException as error:
            errors.append(repr(error))
    orders = ["torch"], ["torch_ocl", "torch"]
    threads = [threading.Thread(target=bring, args=(names,)) for names in orders]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    if errors:
        sys.exit(str(errors))  # a second import of torch would hide them
    import torch
    print((torch.ones(2, device="ocl") + 1).tolist())
"""


def test_torch_and_torch_ocl_are_imported_by_two_threads():
    """Each thread has the lock of one module and wants the other."""
    assert output_of(TWO_THREADS) == "[2.0, 2.0]"


IMPORTED_FIRST = """
    import sys
    class Watch:
        def find_spec(self, name, path=None, target=None):
            if name == "torch_ocl._C":
                print(sys.modules["torch"].__spec__._initializing)
    sys.meta_path.insert(0, Watch())
    import torch_ocl
"""


def test_no_thread_gets_torch_without_the_device():
    """The device is there when the import of torch ends, also inside `import torch_ocl`."""
    assert output_of(IMPORTED_FIRST) == "True"


BROKEN = """
    import sys, warnings
    class Broken:
        tries = 0
        def find_spec(self, name, path=None, target=None):
            if name == "torch_ocl.vmap":
                Broken.tries += 1
                raise ImportError("vmap is broken")
    sys.meta_path.insert(0, Broken())
    warnings.simplefilter("error")
    try:
        import torch_ocl
    except ImportError as error:
        print(error, Broken.tries, "torch_ocl" in sys.modules)
    import torch
    print(hasattr(torch, "ocl"))
"""


def test_a_broken_package_says_so_once():
    """Its own import raises the error; the import of torch inside of it does not warn of it."""
    assert output_of(BROKEN).splitlines() == ["vmap is broken 1 False", "False"]
