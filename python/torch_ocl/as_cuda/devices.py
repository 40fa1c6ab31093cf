"""torch.device, and the classes in C that are made for a device."""

import torch

from .c_types import replace_new, set_attribute
from .words import asked_by_program, to_cuda, to_ocl, type_of

# (class, names of the argument that is a device)
CLASSES = (
    (torch.device, ("type", "device")),
    (torch.Generator, ("device",)),
    (torch.Stream, ("device",)),
    (torch.Event, ("device",)),
)


def _change_first(names):
    def change(args, kwargs):
        args = (to_ocl(args[0]), *args[1:]) if args else args
        return args, {k: to_ocl(v) if k in names else v for k, v in kwargs.items()}

    return change


def _type(self):
    """The type of the device; programs see "cuda" for ocl."""
    kind = type_of(self)
    return "cuda" if kind == "ocl" and asked_by_program() else kind


def _str(self):
    text = _original_str(self)
    return to_cuda(text) if asked_by_program() else text


def _repr(self):
    text = _original_repr(self)
    return text.replace("type='ocl'", "type='cuda'") if asked_by_program() else text


def _reduce(self):
    """Pickles contain "cuda", so that they load where the program runs with CUDA."""
    name = to_cuda(type_of(self))
    return torch.device, (name,) if self.index is None else (name, self.index)


_original_str, _original_repr = torch.device.__str__, torch.device.__repr__


def install() -> None:
    for cls, names in CLASSES:
        replace_new(cls, _change_first(names))
    for name, value in {
        "type": property(_type),
        "__str__": _str,
        "__repr__": _repr,
        "__reduce__": _reduce,
    }.items():
        set_attribute(torch.device, name, value)
