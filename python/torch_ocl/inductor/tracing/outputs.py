"""While a call is traced, raises for types of out= tensors that eager kernels refuse.

Without this, traced calls would convert the result (pytorch/pytorch issue 137213). Imported with
PyTorch's fake tensors.
"""

import contextlib
import functools

import torch
from torch._dispatch.python import no_python_dispatcher
from torch._subclasses.fake_tensor import FakeTensorMode
from torch.utils import _pytree as pytree
from torch.utils._python_dispatch import _disable_current_modes


def register() -> None:
    dispatch = FakeTensorMode._dispatch_impl

    @functools.wraps(dispatch)
    def check_and_dispatch(self, func, types, args, kwargs):
        if names := _outputs(func):
            _check(func, names, args, kwargs)
        return dispatch(self, func, types, args, kwargs)

    FakeTensorMode._dispatch_impl = check_and_dispatch


@functools.cache
def _outputs(func) -> tuple[str, ...]:
    if not isinstance(func, torch._ops.OpOverload) or func.namespace != "aten":
        return ()
    return tuple(argument.name for argument in func._schema.arguments if argument.is_out)


def _check(func, names, args, kwargs) -> None:
    outputs = [kwargs.get(name) for name in names]
    if not all(isinstance(x, torch.Tensor) and x.device.type == "ocl" for x in outputs):
        return
    others = {name: value for name, value in kwargs.items() if name not in names}
    leaves, spec = pytree.tree_flatten((args, others))
    key = (*map(_small, leaves), *(x.dtype for x in outputs))
    if error := _refusal(func, names, spec, repr(key), key):
        raise error


_SIZE = 3  # the dimensions of small tensors


class _Tensor(tuple):
    """The type and the number of dimensions of a tensor."""


def _small(value):
    if isinstance(value, torch.Tensor):
        return _Tensor((value.dtype, value.dim()))
    if isinstance(value, torch.SymBool):
        return True
    if isinstance(value, (torch.SymInt, torch.SymFloat)):
        return 2
    if isinstance(value, int) and abs(value) > _SIZE:
        return 2
    return torch.device("cpu") if isinstance(value, torch.device) else value


def _made(value):
    if not isinstance(value, _Tensor):
        return value
    dtype, dims = value
    made = torch.ones((_SIZE,) * dims, dtype=dtype)
    # Matrices that are not singular.
    return made + torch.eye(_SIZE, dtype=dtype) if dims > 1 and dtype.is_floating_point else made


_known: dict[tuple, Exception | None] = {}


def _refusal(func, names, spec, text, small) -> Exception | None:
    """The CPU's error for small tensors of these types, if the types of the outputs cause it.

    `text`: the arguments as text, for the key of the cache, because 1, 1.0 and True are equal.
    """
    key = func, spec, text
    if key not in _known:
        modes = _disable_current_modes(), no_python_dispatcher(), torch.no_grad()
        with contextlib.ExitStack() as stack:
            for mode in (*modes, torch.random.fork_rng(devices=[])):
                stack.enter_context(mode)
            _known[key] = _raised(func, names, spec, small)
    return _known[key]


def _raised(func, names, spec, small):
    count = len(names)
    args, kwargs = pytree.tree_unflatten(map(_made, small[:-count]), spec)
    try:
        results = pytree.tree_leaves(func.overloadpacket(*args, **kwargs))
        outputs = [x.new_empty(x.shape, dtype=t) for x, t in zip(results, small[-count:])]
    except Exception:
        return None  # the error comes from the arguments, not from the outputs
    try:
        func(*args, **kwargs, **dict(zip(names, outputs)))
    except NotImplementedError:  # ocl has kernels for types that the CPU's do not know
        return None
    except Exception as error:
        return error.with_traceback(None)
    return None
