"""The arguments of a sample as a list, in which some can be replaced. Also tensors that are made on
the device of the call: views with a lazy sign or conjugation, and views of one storage."""

import torch
from harness import copy_tensor, pytree


class View:
    """An argument that is a view on the device of a copied CPU tensor. Views of one group share the
    copy."""

    def __init__(self, base, view, group=None):
        self.base, self.view, self.group = base, view, group

    def build(self, device, shared):
        if self.group is None:
            base = copy_tensor(self.base, device)
        else:
            base = shared.setdefault(self.group, None)
            if base is None:
                base = shared[self.group] = copy_tensor(self.base, device)
        return self.view(base) if self.view else base


def mark_overlap(t):
    """Two views of one storage that are one element apart, with the shape of `t`."""
    base = torch.cat([t.reshape(-1), t.reshape(-1)[:1]])
    n, shape = t.numel(), t.shape
    return (
        View(base, lambda b: b[:n].view(shape), group="overlap"),
        View(base, lambda b: b[1 : n + 1].view(shape), group="overlap"),
    )


class Leaves:
    def __init__(self, parts):
        self.leaves, self.spec = pytree.tree_flatten(parts)
        strided = [
            i
            for i, x in enumerate(self.leaves)
            if isinstance(x, torch.Tensor) and x.layout is torch.strided and not x.is_nested
        ]
        self.tensors = [i for i in strided if type(self.leaves[i]) in PLAIN]
        self.numbers = [i for i, x in enumerate(self.leaves) if type(x) in (int, float, complex)]
        self.first = 0 if self.tensors and self.tensors[0] == 0 else None

    def __getitem__(self, i):
        return self.leaves[i]

    def of(self, dtype):
        return [i for i in self.tensors if self.leaves[i].dtype == dtype]

    def replaced(self, changes):
        leaves = [changes.get(i, x) for i, x in enumerate(self.leaves)]
        return pytree.tree_unflatten(leaves, self.spec)

    def mapped(self, change):
        return self.replaced({i: change(self.leaves[i]) for i in self.tensors})


PLAIN = (torch.Tensor, torch.nn.Parameter)


def build(parts, device):
    """The arguments on the device."""
    shared = {}

    def leaf(x):
        if isinstance(x, View):
            return x.build(device, shared)
        if isinstance(x, torch.Tensor):
            return copy_tensor(x, device)
        if (isinstance(x, torch.device) and x.type == "cpu") or (isinstance(x, str) and x == "cpu"):
            return torch.device(device)
        return x

    return pytree.tree_map(leaf, parts)
