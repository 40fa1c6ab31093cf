"""sentence-transformers: the device of models that are given none."""

from . import local_device, replace


def choose_device(module) -> None:
    """sentence_transformers.util.environment: its accelerators come first, and the CPU last."""

    def make(original):
        def get_device_name():
            name = original()
            return str(local_device()) if name == "cpu" else name

        return get_device_name

    replace(module, "get_device_name", make, ("sentence_transformers",))
