"""easyocr: Reader(gpu=True), the default."""

import torch

from . import local_device, replace


def choose_device(module) -> None:
    """easyocr.easyocr"""

    def make(original):
        def __init__(self, lang_list, gpu=True, *args, **kwargs):
            if gpu is True and not torch.cuda.is_available():
                gpu = str(local_device())
            original(self, lang_list, gpu, *args, **kwargs)

        return __init__

    replace(module.Reader, "__init__", make)
