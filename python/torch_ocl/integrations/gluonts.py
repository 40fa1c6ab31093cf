"""gluonts: the predictor's device "auto"."""

from . import choose_instead_of_cpu


def choose_device(module) -> None:
    """gluonts.torch.util"""
    choose_instead_of_cpu(module, "resolve_device", ("gluonts",), lambda device: device == "auto")
