"""Lets higher-order operators, such as torch.cond, run under autocast.

PyTorch has a list of devices whose autocast these operators skip; ours is missing there.
"""

import torch

_KEY = torch._C.DispatchKey.AutocastPrivateUse1


def register() -> None:
    torch._ops._HIGHER_ORDER_OP_DEFAULT_FALLTHROUGH_DISPATCH_KEYS.append(_KEY)
    for operator in torch._ops._higher_order_ops.values():  # made before
        operator.fallthrough(_KEY)
