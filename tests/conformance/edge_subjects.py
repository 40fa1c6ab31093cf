"""The sources of the sweep's samples: entries of op_db, modules of module_db, and the functions of
torch.nn.functional that have no entry."""

import copy

import harness as h
import modules
import opdb
import torch
import torch.nn.functional as F
from torch.testing._internal.common_methods_invocations import op_db
from torch.testing._internal.common_modules import module_db

# Samples with more elements than this only cost time: edges are found with small tensors.
LARGEST_SAMPLE = 200_000


class Sample:
    """The arguments of one call, on the CPU: (positional, keyword)."""

    def __init__(self, args, kwargs, inplace=True, process=None):
        self.parts, self.inplace = (tuple(args), dict(kwargs)), inplace
        self.output_process_fn_grad = process or (lambda result: result)


class Operator:
    def __init__(self, info):
        self.info, self.base, self.name = info, info.name, opdb.full_name(info)
        self.out = info.supports_out
        self.inplace = info.get_inplace()
        self.free_strides = opdb.FREE_STRIDES.search(info.name) is not None
        self.unspecified = info.name in opdb.UNINITIALIZED

    def supports(self, dtype):
        return self.info.supports_dtype(dtype, "cpu")

    def samples(self, dtype):
        h.seed_everything()
        return [
            Sample((s.input, *s.args), s.kwargs, not s.broadcasts_input, s.output_process_fn_grad)
            for s in self.info.sample_inputs("cpu", dtype, requires_grad=False)
        ]

    def tolerance(self, dtype):
        return h.declared_tolerance(self.info, dtype)

    def call(self, sample, device):
        return self.info.op


class Function:
    """A function of torch.nn.functional without an entry in op_db."""

    info = None
    out, inplace, free_strides, unspecified = False, None, False, False

    def __init__(self, name, samples):
        self.base = self.name = f"nn.functional.{name}"
        self.function, self.make = getattr(F, name), samples

    def supports(self, dtype):
        return dtype.is_floating_point

    def samples(self, dtype):
        h.seed_everything()
        return [Sample(args, kwargs) for args, kwargs in self.make(dtype)]

    def tolerance(self, dtype):
        return 0.0, 0.0

    def call(self, sample, device):
        return self.function


class Module:
    """A module of module_db: the edges change its inputs, and its parameters stay."""

    out, inplace, free_strides, unspecified = False, None, True, False

    def __init__(self, info, training):
        self.info, self.training, self.base = info, training, f"module.{info.name}"
        self.name = "module." + modules.full_name(info, training)

    def supports(self, dtype):
        return dtype in self.info.supported_dtypes("cpu")

    def samples(self, dtype):
        result = []
        for s in modules.make_samples(self.info, dtype, "forward", self.training):
            if s.forward_input is not None:
                sample = Sample(s.forward_input.args, s.forward_input.kwargs)
                sample.made = (s, dtype)
                result.append(sample)
        return result

    def tolerance(self, dtype):
        return h.declared_tolerance(self.info, dtype, (None, "TestModule"))

    def call(self, sample, device):
        if not hasattr(sample, "module"):
            sample.module = modules.build(self.info, sample.made[1], sample.made[0], self.training)
        return copy.deepcopy(sample.module).to(device)


def image(*shape):
    return lambda dtype: torch.randn(shape, generator=torch.Generator().manual_seed(0)).to(dtype)


def calls(*shape_and_arguments):
    """Makes samples. Each has a shape, further positional arguments, and keyword arguments."""
    return lambda dtype: [
        ((image(*shape)(dtype), *args), kwargs) for shape, args, kwargs in shape_and_arguments
    ]


def conv_tbc(dtype):
    return [((image(5, 2, 4)(dtype), image(3, 4, 6)(dtype), image(6)(dtype), 1), {})]


FUNCTIONS = [
    ("affine_grid", calls(((2, 2, 3), ((2, 3, 4, 5),), {}), ((2, 3, 4), ((2, 3, 4, 5, 2),), {}))),
    ("conv_tbc", conv_tbc),
    ("dropout1d", calls(((2, 3, 4), (), {"p": 0.0}), ((3, 4), (), {"p": 1.0}))),
    ("fold", calls(((2, 12, 12), ((4, 5), (2, 2)), {}), ((12, 12), ((4, 5), (2, 2)), {}))),
    ("gumbel_softmax", calls(((3, 4), (), {"hard": True}), ((3, 4), (), {}))),
    ("lp_pool1d", calls(((2, 3, 8), (2.0, 3), {}), ((3, 8), (1.0, 2, 1), {}))),
    ("lp_pool2d", calls(((2, 3, 8, 8), (2.0, 3), {}), ((3, 8, 8), (1.0, 2), {"ceil_mode": True}))),
    ("lp_pool3d", calls(((2, 3, 6, 6, 6), (2.0, 3), {}))),
    ("native_channel_shuffle", calls(((2, 6, 3, 4), (3,), {}), ((2, 6, 4), (2,), {}))),
    ("upsample", calls(((2, 3, 4, 5), (), {"scale_factor": 2.0}), ((2, 3, 4, 5), ((7, 7),), {}))),
    ("max_pool1d_with_indices", calls(((2, 3, 8), (3, 2), {}))),
    ("max_pool2d_with_indices", calls(((2, 3, 8, 8), (3, 2, 1), {}))),
    ("max_pool3d_with_indices", calls(((2, 3, 6, 6, 6), (3, 2, 1), {}))),
    ("adaptive_max_pool1d_with_indices", calls(((2, 3, 8), (3,), {}))),
    ("adaptive_max_pool2d_with_indices", calls(((2, 3, 8, 8), ((3, 5),), {}))),
    ("adaptive_max_pool3d_with_indices", calls(((2, 3, 6, 6, 6), (4,), {}))),
    *((name, calls(((3, 4), (), {}))) for name in ("celu_", "elu_", "leaky_relu_", "selu_")),
    *((name, calls(((3, 4), (), {}))) for name in ("relu_", "hardtanh_", "rrelu_")),
    ("threshold_", calls(((3, 4), (0.5, 9.0), {}))),
]


def subjects():
    """All subjects, in a fixed order."""
    return [
        *(Operator(info) for info in op_db),
        *(Function(name, samples) for name, samples in FUNCTIONS),
        *(Module(info, t) for info in module_db for t in modules.training_modes(info)),
    ]


def small(sample):
    return sum(t.numel() for t in h.tensors_of(sample.parts)) <= LARGEST_SAMPLE
