"""torch.profiler: activities of CUDA are those of ocl."""

import functools

import torch.profiler
from torch.profiler import ProfilerActivity

from .words import asked_by_program

WORDS = {ProfilerActivity.CUDA: ProfilerActivity.PrivateUse1}


def _with_activities(original):
    def __init__(self, *args, activities=None, **kwargs):
        if activities is not None:
            activities = [WORDS.get(each, each) for each in activities]
        original(self, *args, activities=activities, **kwargs)

    return functools.wraps(original)(__init__)


def _supported(original):
    def supported_activities():
        found = set(original())
        return found | {ProfilerActivity.CUDA} if asked_by_program() else found

    return functools.wraps(original)(supported_activities)


def install() -> None:
    profiler = torch.profiler.profile
    profiler.__init__ = _with_activities(profiler.__init__)
    torch.profiler.supported_activities = _supported(torch.profiler.supported_activities)
