"""fastai: the device of DataLoaders and Learner; defaults.use_cuda=False remains the CPU."""

from . import choose_instead_of_cpu


def choose_device(module) -> None:
    """fastai.torch_core"""

    def may_be_gpu(use=-1):
        return module.defaults.use_cuda is not False

    choose_instead_of_cpu(module, "default_device", ("fastai",), may_be_gpu)
