"""Functions of PyTorch in C that take a device by its name.

Each is replaced by an object that translates the device and calls it. A TorchFunctionMode would do
this for all functions, but it slows down every call, works for one thread only, and breaks compiled
code.
"""

import functools
import types

import torch
from torch.jit import _builtins

from .words import to_ocl

# Functions that make tensors: `device` is given by name only.
FACTORIES = {
    torch: """
        arange as_tensor asarray bartlett_window blackman_window empty empty_like empty_permuted
        empty_quantized empty_strided eye from_file full full_like hamming_window hann_window
        kaiser_window linspace logspace normal ones ones_like rand rand_like randint randint_like
        randn randn_like randperm range scalar_tensor sparse_bsc_tensor sparse_bsr_tensor
        sparse_compressed_tensor sparse_coo_tensor sparse_csc_tensor sparse_csr_tensor tensor
        tril_indices triu_indices zeros zeros_like""",
    torch.fft: "fftfreq rfftfreq",
    torch._C._nested: "nested_tensor",
}
# Functions of PyTorch that programs may give the device by position.
POSITIONAL = {torch: "_nested_tensor_from_tensor_list"}
# Methods of tensors; `to`, `pin_memory` and `is_pinned` take a device by position, too.
METHODS = """
    is_pinned new_empty new_empty_strided new_full new_ones new_tensor new_zeros pin_memory to"""


class Function:
    """Wraps the function: "cuda" in `device`, or in any argument, means ocl.

    The wrapper equals the original, because PyTorch gives the original to __torch_function__, where
    code compares it with torch.zeros or looks it up in a dictionary.
    """

    def __init__(self, original, module: str, positional: bool = False):
        self._original, self._positional = original, positional
        functools.update_wrapper(self, original)
        self.__module__ = module

    @property
    def __class__(self):
        return type(self._original)

    def __getattr__(self, name):
        return getattr(self._original, name)

    def __call__(self, *args, **kwargs):
        if "device" in kwargs:
            kwargs["device"] = to_ocl(kwargs["device"])
        elif self._positional:
            args = [to_ocl(each) for each in args]
        return self._original(*args, **kwargs)

    def __get__(self, instance, owner=None):
        return self if instance is None else types.MethodType(self, instance)

    def __eq__(self, other):
        return other is self or other == self._original

    def __hash__(self):
        return hash(self._original)

    def __reduce__(self):
        return self.__name__

    def __repr__(self):
        return repr(self._original)


def _parse_to(original):
    """Parses the arguments of Module.to()."""

    def parse_to(*args, **kwargs):
        if "device" in kwargs:
            kwargs["device"] = to_ocl(kwargs["device"])
        return original(*(to_ocl(each) for each in args), **kwargs)

    return functools.wraps(original)(parse_to)


def _tell_torchscript(original, replacement) -> None:
    """Registers the replacement with TorchScript, which finds functions by their id()."""
    operator = _builtins._find_builtin(original)
    if operator is not None:
        _builtins._register_builtin(replacement, operator)


def install() -> None:
    for table, positional in ((FACTORIES, False), (POSITIONAL, True)):
        for module, names in table.items():
            for name in names.split():
                original = getattr(module, name)
                replacement = Function(original, module.__name__, positional)
                setattr(module, name, replacement)
                _tell_torchscript(original, replacement)
    for name in METHODS.split():
        method = getattr(torch.Tensor, name)
        setattr(torch.Tensor, name, Function(method, "torch.Tensor", positional=True))
    torch._C._nn._parse_to = _parse_to(torch._C._nn._parse_to)
