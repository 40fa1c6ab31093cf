"""Opening the device, and moving samples to it with their strides kept."""

import contextlib
import importlib
import math
import random
import re
import sys
import warnings

import numpy as np
import torch
from cases import describe
from torch.utils import _pytree as pytree

SEED = 42


def open_device(imports, device):
    """Imports the modules and returns the torch.device; renames PrivateUse1 if no module registered
    the name."""
    for name in imports:
        importlib.import_module(name)
    try:
        return torch.device(device)
    except RuntimeError:
        torch.utils.rename_privateuse1_backend(device.split(":")[0])
        return torch.device(device)


def check_alive(device):
    """None if data can be copied to the device and back unchanged, else the reason."""
    try:
        want = torch.arange(8, dtype=torch.float32)
        got = want.to(device).cpu()
        return (
            None if torch.equal(want, got) else f"copied {want.tolist()}, got back {got.tolist()}"
        )
    except Exception as e:
        return describe(e)


class FallbackMeter:
    """Lists the operators that used the CPU fallback between start() and stop().

    It reads torch.<device>.fallback_stats() -> {operator: count}, after
    torch.<device>.reset_fallback_stats(). Devices without these functions may warn instead: "The
    operator 'aten::x' is not currently supported on the ... backend". Without either, stop()
    returns an empty dict, and `source` stays "unknown".
    """

    WARNING = re.compile(
        r"operator '([^']+)'.*(?:not currently supported|fall(?:ing|s)?[ -]?back|not implemented)",
        re.S,
    )

    def __init__(self, device_type, imports=()):
        self.source = "unknown"
        self.owner = None
        for owner in [getattr(torch, device_type, None)] + [sys.modules.get(m) for m in imports]:
            if callable(getattr(owner, "fallback_stats", None)) and callable(
                getattr(owner, "reset_fallback_stats", None)
            ):
                self.owner, self.source = owner, "stats"
                break
        else:
            torch.set_warn_always(True)  # otherwise a warning given once hides the later ones

    @contextlib.contextmanager
    def measure(self, counts):
        """Adds the fallbacks in the `with` block to the dict `counts`."""
        with warnings.catch_warnings(record=True) as seen:
            warnings.simplefilter("always" if self.owner is None else "ignore")
            if self.owner is not None:
                self.owner.reset_fallback_stats()
            try:
                yield
            finally:
                if self.owner is not None:
                    for name, n in dict(self.owner.fallback_stats()).items():
                        if n:
                            counts[str(name)] = counts.get(str(name), 0) + int(n)
                else:
                    for w in seen:
                        m = self.WARNING.search(str(w.message))
                        if m:
                            self.source = "warnings"
                            counts[m.group(1)] = counts.get(m.group(1), 0) + 1


def copy_tensor(t, device):
    """A copy of a CPU tensor on `device` with the same sizes and the same strides (gaps and
    expansions too)."""
    src = t.detach()
    plain = (
        src.layout is torch.strided
        and type(src) in (torch.Tensor, torch.nn.Parameter)
        and not src.is_conj()
        and not src.is_neg()
        and not src.is_nested
        and not src.is_quantized
    )
    if not plain or src.is_contiguous():
        out = src.clone().to(device) if torch.device(device).type == "cpu" else src.to(device)
    else:
        # Copies only the part of the storage that the tensor uses.
        span = 1 + sum((n - 1) * s for n, s in zip(src.shape, src.stride())) if src.numel() else 0
        flat = torch.as_strided(src, (span,), (1,), src.storage_offset()).clone().to(device)
        out = torch.as_strided(flat, src.shape, src.stride(), 0)
    return out.requires_grad_(True) if t.requires_grad else out


def map_sample(tree, tensor_fn, device=None):
    """Applies tensor_fn to the tensors of a nested structure; 'cpu' given as a device becomes
    `device`."""

    def leaf(x):
        if isinstance(x, torch.Tensor):
            return tensor_fn(x)
        if device is not None and (
            (isinstance(x, torch.device) and x.type == "cpu") or (isinstance(x, str) and x == "cpu")
        ):
            return torch.device(device)
        return x

    return pytree.tree_map(leaf, tree)


def tensors_of(tree):
    return [x for x in pytree.tree_leaves(tree) if isinstance(x, torch.Tensor)]


def mentions_device(tree):
    """Whether a CPU sample contains a tensor or a device. Others would not use the device."""
    return any(
        isinstance(x, (torch.Tensor, torch.device)) or (isinstance(x, str) and x == "cpu")
        for x in pytree.tree_leaves(tree)
    )


def noncontiguous_like(t):
    """The same values with gaps between the elements; the gaps hold NaN, and must not be read."""
    if t.layout is not torch.strided or t.is_nested or not t.is_contiguous():
        return t
    fill = (
        math.nan
        if t.dtype.is_floating_point or t.dtype.is_complex
        else (True if t.dtype is torch.bool else 12)
    )
    wide = torch.empty((*t.shape, 2), dtype=t.dtype)
    wide[..., 0] = fill
    wide[..., 1] = t.detach()
    return wide[..., 1].requires_grad_(t.requires_grad)


def seed_everything(seed=SEED):
    """Seeds the generators without torch.manual_seed(), which records a stack of calls for each
    missing device. That would take a third of the time of a sweep."""
    random.seed(seed)
    np.random.seed(seed)
    torch.default_generator.manual_seed(seed)
    accelerator = torch.accelerator.current_accelerator()
    if accelerator is not None:
        torch.get_device_module(accelerator).manual_seed_all(seed)


class RngWatch:
    """Detects whether the CPU's generator was used; then only shapes and types can be compared."""

    def __init__(self):
        self.before = torch.get_rng_state()

    def used(self):
        return not torch.equal(self.before, torch.get_rng_state())


def unfreeze_seeded_wrappers():
    """The database seeds random operators, and restores the generator afterwards. This removes the
    restoring, so that RngWatch detects these operators."""

    def wrapper_set_seed(op, *args, **kwargs):
        torch.manual_seed(SEED)
        return op(*args, **kwargs)

    for name in ("torch.testing._utils", "torch.testing._internal.common_methods_invocations"):
        module = sys.modules.get(name)
        if module is not None and hasattr(module, "wrapper_set_seed"):
            module.wrapper_set_seed = wrapper_set_seed
