"""ignite: idist.device(), idist.auto_model() and the trainers' defaults in one process."""

from . import local_device, replace


def choose_device(module) -> None:
    """ignite.distributed.comp_models.base: processes of a group have the device of its backend."""

    def make(original):
        def device(self):
            found = original(self)
            return local_device() if found.type == "cpu" else found

        return device

    replace(module._SerialModel, "device", make)
