"""Everything that the measuring scripts (opdb.py, modules.py, optimizers.py) share.

A "case" is one (name, dtype, kind): all samples of one database entry. Its category is the gravest
thing that happened to any of its samples (mildest first):

  pass         every sample agreed with the CPU
  wrong        (strides only) everything agrees but the strides
  unsupported  a clear refusal: NotImplementedError
  error        any other exception where the CPU has a result
  wrong        a result differs: value, shape, dtype, device, number of results
  timeout      the case took longer than --timeout-per-op
  crash        the worker process died
  skip         nothing to compare (the CPU refuses it too, or there is no such variant); not counted
"""

import os

os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")  # workers are forked

from cases import (
    P_COMPARE,
    P_CPU,
    P_DEVICE,
    P_MOVE,
    P_READ,
    P_SAMPLES,
    Context,
    Tally,
    category_of,
    describe,
)
from comparing import (
    BACKWARD_FACTOR,
    Comparer,
    Mismatch,
    ReadBack,
    base_tolerance,
    declared_tolerance,
    same_choice_among_ties,
)
from options import dtype_name, make_parser, parse_args, selected, share, spread
from report import run_script
from samples import (
    SEED,
    FallbackMeter,
    RngWatch,
    copy_tensor,
    map_sample,
    mentions_device,
    noncontiguous_like,
    open_device,
    seed_everything,
    tensors_of,
    unfreeze_seeded_wrappers,
)
from torch.utils import _pytree as pytree

__all__ = [
    "BACKWARD_FACTOR",
    "P_COMPARE",
    "P_CPU",
    "P_DEVICE",
    "P_MOVE",
    "P_READ",
    "P_SAMPLES",
    "SEED",
    "Comparer",
    "Context",
    "FallbackMeter",
    "Mismatch",
    "ReadBack",
    "RngWatch",
    "Tally",
    "base_tolerance",
    "category_of",
    "copy_tensor",
    "declared_tolerance",
    "describe",
    "dtype_name",
    "make_parser",
    "map_sample",
    "mentions_device",
    "noncontiguous_like",
    "open_device",
    "parse_args",
    "pytree",
    "run_script",
    "same_choice_among_ties",
    "seed_everything",
    "selected",
    "share",
    "spread",
    "tensors_of",
    "unfreeze_seeded_wrappers",
]
