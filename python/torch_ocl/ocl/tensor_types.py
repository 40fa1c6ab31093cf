"""torch.ocl.FloatTensor and similar types: the older way to name an element type and a device."""

import functools
import numbers

import torch

_DTYPES = {
    "BFloat16Tensor": torch.bfloat16,
    "BoolTensor": torch.bool,
    "ByteTensor": torch.uint8,
    "CharTensor": torch.int8,
    "DoubleTensor": torch.float64,
    "FloatTensor": torch.float32,
    "HalfTensor": torch.float16,
    "IntTensor": torch.int32,
    "LongTensor": torch.int64,
    "ShortTensor": torch.int16,
}


class _TensorType(type):
    layout = torch.strided
    is_cuda = False
    is_sparse = False

    def __instancecheck__(cls, tensor):
        return (
            isinstance(tensor, torch.Tensor)
            and tensor.device.type == "ocl"
            and tensor.dtype == cls.dtype
            and tensor.layout == torch.strided
        )

    def __call__(cls, *values, device=None):
        """A tensor from sizes (uninitialised), from a sequence, or sharing a tensor of the type."""
        device = torch.device("ocl" if device is None else device)
        if device.type != "ocl":
            raise RuntimeError(f"legacy constructor expects device type: ocl but got {device.type}")
        options = {"dtype": cls.dtype, "device": device}
        if len(values) != 1 or isinstance(values[0], (numbers.Integral, torch.Size)):
            sizes = values[0] if values and isinstance(values[0], torch.Size) else values
            return torch.empty(sizes or (0,), **options)
        if isinstance(values[0], torch.Tensor):
            if not isinstance(values[0], cls):
                raise TypeError(f"expected a {cls.__name__}, got a {values[0].type()}")
            return values[0].detach()
        if isinstance(values[0], numbers.Number):
            raise TypeError(f"expected sizes or a sequence, got {type(values[0]).__name__}")
        return torch.tensor(values[0], **options)

    def __repr__(cls):
        return f"<class '{cls.__name__}'>"


def _make(name: str, dtype: torch.dtype) -> _TensorType:
    # Tensor.type() finds a class by its name.
    return _TensorType(f"torch.ocl.{name}", (), {"dtype": dtype})


def take_as_default() -> None:
    """Lets torch.set_default_tensor_type() take these types: it sets the type and the device."""
    original = torch.set_default_tensor_type
    is_set = False

    @functools.wraps(original)
    def set_default_tensor_type(t, /):
        nonlocal is_set
        name = t.removeprefix("torch.ocl.") if isinstance(t, str) else ""
        kind = globals()[name] if name in _DTYPES and name != t else t
        if isinstance(kind, _TensorType):
            if not kind.dtype.is_floating_point:
                raise TypeError(
                    "only floating-point types are supported as the default type, not "
                    f"{kind.__name__}"
                )
            torch.set_default_dtype(kind.dtype)
            torch.set_default_device("ocl")
        else:
            original(t)
            if is_set:
                torch.set_default_device(None)
        is_set = isinstance(kind, _TensorType)

    torch.set_default_tensor_type = set_default_tensor_type


globals().update({name: _make(name, dtype) for name, dtype in _DTYPES.items()})
__all__ = list(_DTYPES)
