"""Averages of integer buffers for torch.optim.swa_utils.

On ocl, PyTorch averages parameters as lists (`_get_foreach_kernels_supported_devices`). For
integers, such as a BatchNorm's count of batches, it then calls `_foreach_addcdiv_`, which refuses
integers on every device. So integers are averaged one by one, as on the CPU.
"""

import functools

from torch.optim import swa_utils


def install() -> None:
    original = swa_utils.get_swa_multi_avg_fn

    @functools.wraps(original)
    def get_swa_multi_avg_fn():
        average_lists, average = original(), swa_utils.get_swa_avg_fn()

        @functools.wraps(average_lists)
        def swa_update(averaged, current, num_averaged):
            first = averaged[0]
            if first.device.type != "ocl" or first.is_floating_point() or first.is_complex():
                return average_lists(averaged, current, num_averaged)
            for mine, theirs in zip(averaged, current, strict=True):
                mine.copy_(average(mine, theirs, num_averaged))

        return swa_update

    swa_utils.get_swa_multi_avg_fn = get_swa_multi_avg_fn
