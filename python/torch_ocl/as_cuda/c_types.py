"""Changes of PyTorch's classes that are written in C, in place.

torch.device must stay one class for isinstance(), pickles, TorchScript and Dynamo, so it is changed
in place. Python forbids that by a flag of such classes, which is cleared for the moment.
"""

import ctypes
from collections.abc import Callable

# The public head of PyTypeObject (Include/cpython/object.h), the same in all releases of CPython.
_WORDS = (
    "refcount type size name basicsize itemsize dealloc vectorcall_offset getattr setattr as_async "
    "repr as_number as_sequence as_mapping hash call str getattro setattro as_buffer flags doc "
    "traverse clear richcompare weaklistoffset iter iternext methods members getset base dict "
    "descr_get descr_set dictoffset init alloc new"
)
_IMMUTABLE = 1 << 8  # Py_TPFLAGS_IMMUTABLETYPE


class _TypeObject(ctypes.Structure):
    _fields_ = tuple((word, ctypes.c_size_t) for word in _WORDS.split())


def _object_of(cls: type) -> _TypeObject:
    found = _TypeObject.from_address(id(cls))
    seen = (found.flags, found.basicsize, found.itemsize, found.base)
    if seen != (cls.__flags__, cls.__basicsize__, cls.__itemsize__, id(cls.__base__)):
        raise RuntimeError(
            f"{cls.__name__} cannot be changed in this Python, whose classes have another layout: "
            "use CPython with the GIL"
        )
    return found


def set_attribute(cls: type, name: str, value) -> None:
    """setattr(), for a class that is written in C."""
    found = _object_of(cls)
    kept = found.flags & _IMMUTABLE
    found.flags &= ~_IMMUTABLE
    try:
        setattr(cls, name, value)
    finally:
        found.flags |= kept


def replace_new(cls: type, change: Callable) -> None:
    """Lets change(args, kwargs) change the arguments of the constructor of `cls`.

    The old cls.__new__ cannot be called, because it calls the class's current one.
    """
    signature = ctypes.PYFUNCTYPE(*[ctypes.py_object] * 4)
    original = signature(_object_of(cls).new)

    def __new__(kind, *args, **kwargs):
        args, kwargs = change(args, kwargs)
        return original(kind, args, kwargs)

    set_attribute(cls, "__new__", staticmethod(__new__))
