"""Makes libraries choose the device "ocl", although they have fixed lists of devices.

    import torch_ocl.integrations
    torch_ocl.integrations.enable()

Scripts need no change with `python -m torch_ocl.run script.py`, or OCL_INTEGRATIONS=1. Each file
of this folder is for one library. It is loaded when the library is imported, and replaces
attributes of the library. Nothing is replaced before enable() is called. docs/clients.md has a
recipe for each library.
"""

import functools
import importlib
import os
import sys

import torch

from torch_ocl.inductor.import_hook import after_import

# The modules of libraries whose import triggers a change.
LIBRARIES = {
    "accelerate": {
        "accelerate.state": "choose_device",
        "accelerate.accelerator": "allow_float16",
        "accelerate.utils.modeling": "count_memory",
    },
    "transformers": {
        "transformers.training_args": "adapt_training_arguments",
        "transformers.pipelines.base": "choose_device_of_pipelines",
        "transformers.cache_utils": "find_default_stream",
        "transformers.generation.utils": "compile_generation",
        "transformers.modeling_utils": "fuse_layers",
        "transformers.generation.continuous_batching.cache": "size_paged_cache",
        "transformers.generation.continuous_batching.initialization": "leave_shared_memory",
    },
    "gguf": {
        "transformers.integrations.gguf.kernels": "read_blocks",
        "transformers.quantizers.quantizer_gguf": "keep_blocks",
    },
    "lightning": {
        "lightning.pytorch.trainer.connectors.accelerator_connector": "register_trainer",
        "lightning.fabric.connector": "register_fabric",
    },
    "pytorch_lightning": {
        "pytorch_lightning.trainer.connectors.accelerator_connector": "register_trainer",
        "lightning_fabric.connector": "register_fabric",
    },
    "safetensors": {"safetensors": "open_on_ocl"},
    "sentence_transformers": {"sentence_transformers.util.environment": "choose_device"},
    "ignite": {"ignite.distributed.comp_models.base": "choose_device"},
    "fastai": {"fastai.torch_core": "choose_device"},
    "gluonts": {"gluonts.torch.util": "choose_device"},
    "lm_eval": {"lm_eval.models.huggingface": "choose_device"},
    "mace": {"mace.tools.torch_tools": "know_device"},
    "keras": {"keras.src.backend.torch.core": "choose_device"},
    "easyocr": {"easyocr.easyocr": "choose_device"},
    "speechbrain": {"speechbrain.core": "scale_losses"},
    "mmengine": {
        "mmengine.device.utils": "choose_device",
        "mmengine.runner.amp": "know_autocast",
        "mmengine.optim.optimizer.amp_optimizer_wrapper": "allow_mixed_precision",
    },
    "ultralytics": {"ultralytics.utils.torch_utils": "choose_device"},
    "torchvision": {"torchvision.ops.boxes": "suppress_all_classes_at_once"},
    "torch": {
        "torch.amp.grad_scaler": "scale_losses",
        "torch.amp.autocast_mode": "cast_automatically",
        "torch.utils.dlpack": "tell_dlpack_device",
    },
}
FILES = {"pytorch_lightning": "lightning", "torch": "pytorch"}

_enabled = set()


def enabled() -> bool:
    """Whether enable() was called, for any library."""
    return bool(_enabled)


def local_rank() -> int:
    """The number of this process on this machine, as given by torchrun."""
    return int(os.environ.get("LOCAL_RANK", "0"))


def local_device() -> torch.device:
    """The device of this process: the processes of a machine take its devices in turn."""
    return torch.device("ocl", local_rank() % torch.ocl.device_count())


def replace(owner, name: str, make, importers: tuple[str, ...] = ()) -> None:
    """Sets the attribute to make(original); raises where this release of the library lacks it.

    Modules of the packages `importers` that have already imported the original get the new one.
    """
    if not hasattr(owner, name):
        module = getattr(owner, "__module__", owner.__name__)
        package = module.split(".")[0]
        raise RuntimeError(
            f"torch_ocl.integrations does not know this release of {package}: "
            f"{owner.__name__}.{name} is missing. Leave {package!r} out of enable(), and see "
            "docs/clients.md for what works without it"
        )
    original = getattr(owner, name)
    replacement = make(original)
    functools.update_wrapper(replacement, original)
    setattr(owner, name, replacement)
    for module in list(sys.modules.values()):
        if getattr(module, "__name__", "").split(".")[0] in importers:
            for other, value in list(vars(module).items()):
                if value is original:
                    setattr(module, other, replacement)


def choose_instead_of_cpu(owner, name, importers=(), wanted=lambda *args, **kwargs: True) -> None:
    """replace() for a function that returns a device or its name: ocl replaces the CPU.

    Calls with arguments that are not wanted() remain as they are.
    """

    def make(original):
        def choose(*args, **kwargs):
            found = original(*args, **kwargs)
            if str(found).split(":")[0] != "cpu" or not wanted(*args, **kwargs):
                return found
            return str(local_device()) if isinstance(found, str) else local_device()

        return choose

    replace(owner, name, make, importers)


def _call(library, function, module):
    file = importlib.import_module(f"{__name__}.{FILES.get(library, library)}")
    getattr(file, function)(importlib.import_module(module))


def enable(*libraries: str) -> None:
    """Lets the libraries, or all of LIBRARIES, choose ocl where they would choose the CPU.

    Call it before the libraries choose: before `Accelerator()`, `TrainingArguments()`, `Trainer()`.
    Libraries that are not imported yet are changed when they are. Raises ValueError for an unknown
    name, and RuntimeError where there is no device or a library has already chosen.
    """
    unknown = set(libraries) - LIBRARIES.keys()
    if unknown:
        raise ValueError(f"enable() knows {', '.join(LIBRARIES)}, not {', '.join(sorted(unknown))}")
    if not torch.ocl.is_available():
        torch.ocl.init()  # raises, and says what is missing
    for library in libraries or LIBRARIES:
        apply(library)


def apply(library: str) -> None:
    """enable() of one library; does not look for devices."""
    if library in _enabled:
        return
    _enabled.add(library)
    if library == "accelerate":
        importlib.import_module(f"{__name__}.accelerate").refuse_cpu()
    for module, function in LIBRARIES[library].items():
        after_import(module, functools.partial(_call, library, function, module))


def watch_unasked() -> None:
    """Used without enable(): reports where accelerate ignores ocl, but changes nothing."""
    after_import(
        "accelerate.state", functools.partial(_call, "accelerate", "watch", "accelerate.state")
    )
