"""Memory formats of fake tensors' convolutions.

PyTorch assumes contiguous results on devices that it does not know. Those of ocl may be
channels_last.
"""

import torch
from torch._subclasses import fake_impls

from torch_ocl import _C

aten = torch.ops.aten

# The positions of the image and the weights.
_ARGUMENTS = {
    aten.convolution.default: (0, 1),
    aten._convolution.default: (0, 1),
    aten._convolution.deprecated: (0, 1),
    aten.convolution_backward.default: (1, 2),
}


def register() -> None:
    known = fake_impls.op_implementations_dict
    for operator, positions in _ARGUMENTS.items():
        if operator in known:  # PyTorch 2.11 has the first and the last
            known[operator] = _with_formats(known[operator], positions)


def has_known_shape(*tensors) -> bool:
    """Whether all sizes are numbers, or symbols with an example. Else results are contiguous."""
    sizes = [size for tensor in tensors for size in tensor.shape]
    return all(isinstance(size, int) or size.node.has_hint() for size in sizes)


def _with_formats(implementation, positions):
    def fake(fake_mode, operator, *args, **kwargs):
        results = implementation(fake_mode, operator, *args, **kwargs)
        names = [argument.name for argument in operator._schema.arguments]
        x, weight = (args[i] if i < len(args) else kwargs[names[i]] for i in positions)
        if x.device.type != "ocl" or not has_known_shape(x, weight):
            return results
        if 0 in x.shape[:2]:  # PyTorch computes without the kernel
            return results
        with fake_mode:
            if x.dim() == 3:
                x, weight = x.contiguous().unsqueeze(2), weight.unsqueeze(2)
            memory_format = _C.convolution_format(x, weight)
            if not isinstance(results, tuple):
                return _in_format(results, memory_format)
            of_input, of_weight, of_bias = results
            return *(_in_format(each, memory_format) for each in (of_input, of_weight)), of_bias

    return fake


def _in_format(result, memory_format):
    if result is None:
        return None
    if result.dim() == 3:  # a 1-d convolution is a 2-d one with a height of 1
        return _in_format(result.unsqueeze(2), memory_format).squeeze(2)
    return torch.empty_like(result, memory_format=memory_format)
