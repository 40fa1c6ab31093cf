"""Sums and normalisations of many or extreme numbers, against float64."""

import functools
import math

import torch
import torch.nn.functional as F

REDUCTIONS = {
    "sum": torch.sum,
    "mean": torch.mean,
    "var": torch.var,
    "std": torch.std,
    "norm": torch.linalg.vector_norm,
    "prod": torch.prod,
    "logsumexp": lambda x: torch.logsumexp(x, 0),
    "cumsum": lambda x: torch.cumsum(x, 0),
    "amax": torch.amax,
    "amin": torch.amin,
    "number at argmax": lambda x: x[x.argmax()],
}


def numbers_of(kind, count, dtype):
    numbers = torch.Generator().manual_seed(0)
    x = torch.rand(count, generator=numbers)
    if kind == "prod":  # near 1, so that the product stays a number
        return (1 + (x - 0.5) * 2e-3).to(dtype)
    return x.to(dtype)


def error(actual, exact):
    """The greatest |actual - exact| / |exact|; infinite where one is NaN or infinite alone."""
    actual = actual.double()
    difference = (actual - exact).abs() / exact.abs().clamp(min=1e-300)
    same = (actual == exact) | (actual.isnan() & exact.isnan())
    difference = torch.where(same, 0.0, difference).nan_to_num(nan=math.inf, posinf=math.inf)
    return difference.max().item()


def error_to_scale(actual, exact):
    """The greatest difference in units of the type's eps times the greatest exact number.

    That is at least 1e-6, because results that should be 0 have no scale of their own.
    """
    kinds = [(x.isnan(), x == math.inf, x == -math.inf) for x in (actual, exact)]
    if any(not torch.equal(a, e) for a, e in zip(*kinds, strict=True)):
        return math.inf
    rows = exact.isfinite()
    if not rows.any():
        return 0.0
    difference = (actual.double() - exact)[rows].abs().max()
    scale = exact[rows].abs().max().clamp(min=1e-6)
    return (difference / scale).item() / torch.finfo(actual.dtype).eps


def measure_reductions(device, counts, names=REDUCTIONS):
    """counts: {dtype: how many numbers}"""
    for name in names:
        function = REDUCTIONS[name]
        for dtype, count in counts.items():
            x = numbers_of(name, count, dtype)
            exact = function(x.double()).to(dtype).double()
            actual, expected = function(x.to(device)).cpu(), function(x)
            yield {
                "name": name,
                "dtype": str(dtype).removeprefix("torch."),
                "count": count,
                "ocl": error(actual, exact),
                "cpu": error(expected, exact),
            }


def with_one(value):
    def make(x):
        x[:, 3] = value
        return x

    return make


def masked(x):
    x[:, ::2] = -math.inf
    x[1] = -math.inf
    return x


# Rows of 64 standard normal numbers, made extreme.
EXTREMES = {
    "ordinary": lambda x: x,
    "1e-38": lambda x: x * 1e-38,
    "1e38": lambda x: x * 0.5e38,
    "1e15": lambda x: x * 1e15,
    "60000": lambda x: (x * 60000).clamp(-65504, 65504),
    "all equal": lambda x: torch.full_like(x, 3.7),
    "one infinite": with_one(math.inf),
    "one NaN": with_one(math.nan),
    "masked": masked,
    "offset 1e4": lambda x: x + 1e4,
    "offset 1e6": lambda x: x + 1e6,
}


def images(function):
    return lambda x: function(x.view(8, 8, 8, 8)).view_as(x)


def normalisations():
    """{name: a function of 64 rows of 64 numbers}"""
    trained = functools.partial(F.batch_norm, running_mean=None, running_var=None, training=True)
    return {
        "softmax": lambda x: x.softmax(1),
        "log_softmax": lambda x: x.log_softmax(1),
        "layer_norm": lambda x: F.layer_norm(x, [64]),
        "rms_norm": lambda x: F.rms_norm(x, [64], eps=1e-6),
        "batch_norm": images(trained),
        "group_norm": images(lambda x: F.group_norm(x, 4)),
        "instance_norm": images(F.instance_norm),
        "logsumexp": lambda x: x.logsumexp(1),
        "normalize": lambda x: F.normalize(x, dim=1),
        "var": lambda x: x.var(1),
    }


def extreme(kind, dtype):
    x = torch.randn(64, 64, generator=torch.Generator().manual_seed(0))
    return EXTREMES[kind](x).to(dtype)


def measure_normalisations(device, dtypes, kinds=EXTREMES):
    for name, function in normalisations().items():
        for kind in kinds:
            for dtype in dtypes:
                x = extreme(kind, dtype)
                exact = function(x.double()).to(dtype).double()
                yield {
                    "name": name,
                    "kind": kind,
                    "dtype": str(dtype).removeprefix("torch."),
                    "ocl": error_to_scale(function(x.to(device)).cpu(), exact),
                    "cpu": error_to_scale(function(x), exact),
                }
