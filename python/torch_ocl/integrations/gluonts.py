"""gluonts: the predictor's device "auto"."""

from . import local_device, replace


def choose_device(module) -> None:
    """gluonts.torch.util"""

    def make(original):
        def resolve_device(device):
            found = original(device)
            return str(local_device()) if device == "auto" and found == "cpu" else found

        return resolve_device

    replace(module, "resolve_device", make, ("gluonts",))
