"""Comparing results of the device with results of the CPU."""

import re

import torch
from options import dtype_name
from torch.utils import _pytree as pytree

# dtype: (rtol, atol). Two correct implementations differ in the order of sums and in the last
# bits of transcendental functions; PyTorch's own CPU/CUDA comparison of these samples allows 1e-3
# / 1e-3.
TOLERANCES = {
    torch.float64: (1e-7, 1e-7),
    torch.complex128: (1e-7, 1e-7),
    torch.float32: (1e-4, 5e-5),
    torch.complex64: (1e-4, 5e-5),
    torch.float16: (5e-3, 2e-3),
    torch.complex32: (5e-3, 2e-3),
    torch.bfloat16: (3e-2, 1e-2),
}
BACKWARD_FACTOR = 4.0


def base_tolerance(dtype):
    return TOLERANCES.get(dtype, (0.0, 0.0))


def declared_tolerance(info, dtype, classes=(None, "TestCommon")):
    """The widest (rtol, atol) that a database entry declares for a dtype through its decorators."""
    from torch.testing._internal.common_device_type import precisionOverride, toleranceOverride

    rtol = atol = 0.0
    for d in getattr(info, "decorators", ()) or ():
        if getattr(d, "cls_name", None) not in classes or getattr(d, "device_type", None) not in (
            None,
            "cpu",
            "cuda",
        ):
            continue
        for inner in getattr(d, "decorators", [d]):
            if isinstance(inner, toleranceOverride) and dtype in inner.d:
                atol, rtol = max(atol, inner.d[dtype].atol), max(rtol, inner.d[dtype].rtol)
            elif isinstance(inner, precisionOverride) and dtype in inner.d:
                atol = max(atol, inner.d[dtype])
    return rtol, atol


class Mismatch(Exception):
    def __init__(self, what, message):
        super().__init__(message)
        self.what = what  # "value", "strides", "device", "structure"


class Comparer:
    """Compares results of the device with results of the CPU; keeps the largest differences
    seen."""

    def __init__(self, device, dtype, declared=(0.0, 0.0), scale=1.0, strides=True):
        """`dtype` is that of the inputs, `declared` the (rtol, atol) that the database entry asks
        for at least."""
        self.device, self.strides, self.scale = torch.device(device), strides, scale
        self.rtol, self.atol = (max(b * scale, d) for b, d in zip(base_tolerance(dtype), declared))
        self.max_abs = 0.0

    def tolerance(self, dtype):
        if not (dtype.is_floating_point or dtype.is_complex):
            return 0.0, 0.0
        rtol, atol = base_tolerance(dtype)
        return max(rtol * self.scale, self.rtol), max(atol * self.scale, self.atol)

    def read_back(self, tree):
        """The device's results on the CPU, together with the properties that copies lose."""

        def leaf(x):
            if not isinstance(x, torch.Tensor):
                return x
            x = x.detach()
            strides = x.stride() if x.layout is torch.strided and not x.is_nested else None
            return ReadBack(x.cpu(), x.device, strides)

        return pytree.tree_map(leaf, tree)

    def compare(self, actual, expected, values=True, on_device=True, strides=True):
        """Raises Mismatch. `actual` comes from read_back()."""
        a, e = pytree.tree_leaves(actual), pytree.tree_leaves(expected)
        if len(a) != len(e):
            raise Mismatch("structure", f"{len(a)} results instead of {len(e)}")
        late = None
        for i, (x, y) in enumerate(zip(a, e)):
            try:
                self.compare_leaf(x, y, values, on_device, strides and self.strides)
            except Mismatch as m:
                where = f"result {i}: " if len(a) > 1 else ""
                m = Mismatch(m.what, where + str(m))
                m.index = i
                if m.what != "strides":
                    raise m from None
                late = late or m  # first looks for wrong values, which matter more than strides
        if late:
            raise late

    def compare_leaf(self, x, y, values, on_device, strides):
        if isinstance(y, torch.Tensor) != isinstance(x, ReadBack):
            raise Mismatch("structure", f"{type(x).__name__} instead of {type(y).__name__}")
        if not isinstance(y, torch.Tensor):
            if isinstance(y, (bool, int, str)) or y is None or not isinstance(y, (float, complex)):
                same = (type(x) is type(y) and x == y) or (not values and type(x) is type(y))
                if not same and isinstance(y, (torch.device, torch.Generator)):
                    same = True
                if not same:
                    raise Mismatch("value", f"{x!r} instead of {y!r}")
            elif values:
                x, y = torch.tensor(x), torch.tensor(y)
                self.close(x, y, *self.tolerance(torch.float32))
            return
        t, y = x.tensor, y.detach()
        if on_device and x.device.type != self.device.type:
            raise Mismatch("device", f"result on {x.device.type} instead of {self.device.type}")
        if t.dtype != y.dtype:
            raise Mismatch("dtype", f"dtype {dtype_name(t.dtype)} instead of {dtype_name(y.dtype)}")
        if t.shape != y.shape:
            raise Mismatch("shape", f"shape {tuple(t.shape)} instead of {tuple(y.shape)}")
        if t.layout != y.layout:
            raise Mismatch("layout", f"layout {t.layout} instead of {y.layout}")
        if values:
            self.close(t, y, *self.tolerance(y.dtype))
        if strides and x.strides is not None and y.layout is torch.strided and y.numel() > 0:
            for n, s, want in zip(y.shape, x.strides, y.stride()):
                if n > 1 and s != want:
                    raise Mismatch(
                        "strides", f"strides {tuple(x.strides)} instead of {tuple(y.stride())}"
                    )

    def close(self, t, y, rtol, atol):
        try:
            torch.testing.assert_close(
                t, y, rtol=rtol, atol=atol, equal_nan=True, check_device=False, check_stride=False
            )
        except AssertionError as e:
            raise Mismatch("value", re.sub(r"\s+", " ", str(e))[:300]) from None
        if t.numel() and y.dtype.is_floating_point and t.layout is torch.strided:
            diff = (t.double() - y.double()).abs()
            diff = diff[diff.isfinite()]
            if diff.numel():
                self.max_abs = max(self.max_abs, diff.max().item())


class ReadBack:
    """A result of the device, copied to the CPU."""

    def __init__(self, tensor, device, strides):
        self.tensor, self.device, self.strides = tensor, device, strides


def same_choice_among_ties(inputs, actual, expected):
    """Whether two index tensors select equal values of the (single) input. Which of several equal
    elements an argmax, a sort or a median returns is not specified."""
    for inp in inputs:
        if not isinstance(inp, torch.Tensor) or inp.layout is not torch.strided:
            continue
        inp = inp.detach()
        flat = inp.reshape(-1)
        for dim in [None, *range(inp.dim())]:
            try:
                if dim is None:
                    mine, theirs = flat[actual], flat[expected]
                elif expected.dim() == inp.dim():
                    mine, theirs = inp.gather(dim, actual), inp.gather(dim, expected)
                elif expected.dim() == inp.dim() - 1:
                    mine, theirs = (inp.gather(dim, i.unsqueeze(dim)) for i in (actual, expected))
                else:
                    continue
                if (actual < 0).any():
                    return False
                torch.testing.assert_close(mine, theirs, rtol=0, atol=0, equal_nan=True)
                return True
            except (RuntimeError, IndexError, AssertionError):
                continue
    return False
