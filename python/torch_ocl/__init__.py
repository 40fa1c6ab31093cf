"""The device "ocl" for PyTorch: any OpenCL device runs tensors, autograd and training.

PyTorch loads this package by itself (`import torch` is enough); TORCH_DEVICE_BACKEND_AUTOLOAD=0
turns that off. Afterwards `torch.ocl` is the device's module, as `torch.cuda` is for CUDA. Where
PyTorch has a GPU of its own, `import torch_ocl` asks for the device, or OCL_AUTOLOAD=1.

    import torch
    x = torch.randn(3, 3, device="ocl")
    print(x @ x)
"""

import os
import pathlib
import sys
import threading
import warnings


def _autoload() -> None:
    """Entry point of the group torch.backends, which PyTorch calls at the end of its import.

    The import of this package loads the device. If that import is still running in this or another
    thread, this waits, so that no thread gets torch without the device.
    """
    _load_at_import(may_raise=False)
    if _waits_to_be_asked and not (_asked and _importing()):
        sys.modules["torch"]._torch_ocl_waits = True
        sys.modules.pop(__name__, None)  # so that `import torch_ocl` runs this file again


def _pytorch_has_a_gpu() -> bool:
    """Whether this PyTorch was built for an accelerator that this machine has.

    There, a second device must not appear unless the user asks for it. PyTorch's torch.accelerator
    would become ocl, and the backward pass of the first would stop at "opt_ready_stream &&
    opt_parent_stream INTERNAL ASSERT FAILED", since autograd knows one accelerator (Node::stream()
    in PyTorch's node.h).
    """
    import torch

    if torch.xpu._is_compiled() or torch.backends.mps.is_available():
        return True
    if not torch.cuda._is_compiled():
        return False
    # Not device_count(): if NVIDIA's management library is missing, it starts CUDA, which then
    # cannot be used in processes that are forked later.
    hip = bool(torch.version.hip)
    with warnings.catch_warnings(action="ignore"):
        count = torch.cuda._device_count_amdsmi() if hip else torch.cuda._device_count_nvml()
    nodes = ["/dev/kfd"] if hip else ["/dev/nvidiactl", "/dev/nvhost-ctrl", "/dev/dxg"]
    return count > 0 if count >= 0 else any(pathlib.Path(node).exists() for node in nodes)


def _load_extension(version: str) -> None:
    """Loads the extension for this release of PyTorch as the module torch_ocl._C.

    A package may have extensions for several releases, each in a folder: torch2_13.
    """
    package = pathlib.Path(__path__[0])
    folder = package / "torch{}_{}".format(*version.split("+")[0].split(".")[:2])
    if not folder.is_dir():
        names = [each.name.removeprefix("torch") for each in package.glob("torch[0-9]*_[0-9]*")]
        releases = [name.replace("_", ".") for name in sorted(names, key=lambda n: (len(n), n))]
        raise ImportError(
            f"this torch_ocl is for PyTorch {' or '.join(releases)}, but {version} is installed: "
            "install another one of the two, or torch-ocl from its sources"
        )
    __path__.insert(0, str(folder))
    try:
        from . import _C  # noqa: F401 (loads it)
    except ImportError as error:
        raise ImportError(
            f"the extension in {folder} does not fit PyTorch {version}: {error}. "
            "Install torch-ocl again"
        ) from error


def _load() -> None:
    import torch

    _load_extension(torch.__version__)
    from . import (
        as_cuda,  # noqa: F401 (which _enable_what_is_asked() uses)
        averaging,
        data_parallel,
        distributed,
        image,  # noqa: F401 (torch_ocl.image is part of the interface)
        inductor,
        integrations,  # noqa: F401 (which _enable_what_is_asked() uses)
        ocl,
        vmap,
    )

    # Renaming the device cannot be undone, so it comes after everything that may fail.
    ocl._at_start()
    vmap.register()
    data_parallel.install()
    averaging.install()
    distributed.register()
    inductor.register_when_needed()
    torch.utils.rename_privateuse1_backend("ocl")
    torch._register_device_module("ocl", ocl)
    unsupported = [torch.quint8, torch.qint8, torch.qint32, torch.quint4x2, torch.quint2x4]
    torch.utils.generate_methods_for_privateuse1_backend(
        for_tensor=True,
        for_module=True,
        for_packed_sequence=True,
        for_storage=True,
        unsupported_dtype=unsupported,
    )


def _enable_what_is_asked() -> None:
    from . import as_cuda, integrations
    from .integrations import unused

    as_cuda.install_if_wanted()
    asked = os.environ.get("OCL_INTEGRATIONS") == "1"
    if asked or as_cuda.wanted():
        unused.warn_at_exit()
    if not asked:
        return integrations.watch_unasked()
    try:
        integrations.enable()
    except Exception as error:  # the device is loaded anyway
        warnings.warn(f"OCL_INTEGRATIONS=1 has no effect: {error}", stacklevel=2)


def _inside_import_of_torch() -> bool:
    """Whether `import torch` in this thread has caused the import of this package."""
    frame = sys._getframe()
    while frame is not None:
        if frame.f_globals.get("__name__") == "torch" and frame.f_code.co_name == "<module>":
            return True
        frame = frame.f_back
    return False


def _another_thread_will_load() -> bool:
    """Whether another thread is importing torch, and will call _autoload().

    That thread holds the import lock of torch and will need that of torch_ocl. So a thread with the
    lock of torch_ocl must not wait for torch: the interpreter would break the deadlock by an error
    in the middle of `import torch`.
    """
    torch = sys.modules.get("torch")
    importing = torch and getattr(torch.__spec__, "_initializing", False)
    autoload = os.environ.get("TORCH_DEVICE_BACKEND_AUTOLOAD", "1") == "1"
    return bool(importing and autoload and not hasattr(torch, "_torch_ocl_waits"))


def _importing() -> bool:
    """Whether the import of this package is still running, and will raise the error itself."""
    return bool(getattr(sys.modules[__name__].__spec__, "_initializing", False))


def _load_at_import(may_raise: bool) -> None:
    """Loads the device. Unless `asked`, only if PyTorch has no GPU of its own."""
    global _is_loaded, _waits_to_be_asked
    import torch  # the thread that imports torch needs the lock below

    with _loading:
        if _is_loaded:
            return
        # The error of the first try, which may have loaded parts that cannot be loaded twice.
        error = getattr(torch, "_torch_ocl_error", None)
        if error and may_raise:
            raise error
        if error:
            _waits_to_be_asked = True
            return
        try:
            beside_a_gpu = os.environ.get("OCL_AUTOLOAD") != "1" and _pytorch_has_a_gpu()
            _waits_to_be_asked = beside_a_gpu and not _asked
            if _waits_to_be_asked:
                from . import as_cuda

                as_cuda.install_if_wanted()  # says that it has no effect
            else:
                _load()
                _is_loaded = True
                if beside_a_gpu:
                    os.environ["OCL_AUTOLOAD"] = "1"  # children of this process need it, too
                _enable_what_is_asked()
        except Exception as error:
            torch._torch_ocl_error = error
            if may_raise:
                raise
            # A broken plugin must not break `import torch`; `import torch_ocl` then raises.
            _waits_to_be_asked = True
            if _asked and _importing():
                return
            message = f"torch_ocl could not be loaded, so there is no device 'ocl': {error}"
            warnings.warn(message, stacklevel=3)


_loading = threading.Lock()
_is_loaded = _waits_to_be_asked = False
_asked = not _inside_import_of_torch()
if not (_asked and _another_thread_will_load()):
    _load_at_import(may_raise=_asked)
