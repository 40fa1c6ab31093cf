"""ignite: idist.device(), idist.auto_model() and the trainers' defaults in one process."""

from . import choose_instead_of_cpu


def choose_device(module) -> None:
    """ignite.distributed.comp_models.base: the processes of a group use the device of its
    backend."""
    choose_instead_of_cpu(module._SerialModel, "device")
