"""bitsandbytes: the entry point that it calls when it is imported, also without enable()."""

import torch


def register() -> None:
    """Registers optimizers of 8 bits by bitsandbytes' formula for CPUs, which only calls operators.

    Its other functions have a formula for every device.
    """
    from bitsandbytes.backends.cpu import ops

    update = getattr(ops, "_optimizer_update_8bit_blockwise_cpu", None)
    if update is not None:  # in releases from 0.49 on
        torch.library.register_kernel(
            "bitsandbytes::optimizer_update_8bit_blockwise", "ocl", update
        )
