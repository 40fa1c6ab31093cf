"""fastai: the device of DataLoaders and Learner; defaults.use_cuda=False remains the CPU."""

from . import local_device, replace


def choose_device(module) -> None:
    """fastai.torch_core"""

    def make(original):
        def default_device(use=-1):
            device = original(use)
            wanted = module.defaults.use_cuda is not False
            return local_device() if wanted and device.type == "cpu" else device

        return default_device

    replace(module, "default_device", make, ("fastai",))
