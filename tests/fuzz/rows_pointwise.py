"""Element-wise operators: new results, in place on views, out=, numbers, promotion."""

import torch
from author import Nothing, broadcasts, largest, overlaps, shares_memory
from program import EXACT, MOVES, ROUGH, SMOOTH
from rows import row

INTEGERS = (torch.int64, torch.int32, torch.int16, torch.int8, torch.uint8)
BITS = (*INTEGERS, torch.bool)
CONTINUOUS = ["neg", "abs", "relu", "square", "positive"]
STEPS = ["sign", "floor", "ceil", "round", "trunc", "logical_not", "isnan", "isfinite", "isinf"]
STEPS += ["bitwise_not", "isposinf", "sgn", "frac", "heaviside"]
ROUGH_UNARY = ["sin", "cos", "exp", "tanh", "sigmoid", "erf", "atan", "asinh", "expm1", "sinh"]
ROUGH_UNARY += ["exp2", "cosh", "sinc", "erfc", "special.i0e", "special.expit", "deg2rad"]
ROUGH_POSITIVE = ["sqrt", "log", "log2", "log1p", "rsqrt", "reciprocal", "lgamma", "digamma"]
ACTIVATIONS = ["gelu", "silu", "softplus", "elu", "mish", "selu", "celu", "logsigmoid", "softsign"]
EXACT_ACTIVATIONS = ["relu", "relu6", "hardtanh", "leaky_relu", "threshold", "softshrink"]
BINARY = ["add", "sub", "mul", "maximum", "minimum"]
COMPARISONS = ["eq", "ne", "lt", "le", "gt", "ge", "logical_and", "logical_or", "logical_xor"]
BITWISE = ["bitwise_and", "bitwise_or", "bitwise_xor"]
DIVISIONS = ["fmod", "remainder", "floor_divide", "div"]


def real(x):
    return not x.is_complex()


@row(4)
def unary(g):
    kind = SMOOTH if g.chance(0.6) else EXACT
    name = g.choice(CONTINUOUS if kind == SMOOTH else STEPS)
    n = g.pick(kind)
    x = g[n]
    if name == "heaviside":
        return g.step("torch.heaviside({0}, {0})", n)
    if x.is_complex() and name in ("abs", "sgn", "sign"):
        return g.step("torch.abs({0})", n, kind=ROUGH)
    return g.step(f"torch.{name}({{0}})", n, kind=kind)


@row(3)
def rough_unary(g):
    if g.chance(0.3):
        name = g.choice(ROUGH_POSITIVE)
        n = g.pick(ROUGH, lambda x: real(x) and bool((x > 0.5).all()))
    else:
        name = g.choice(ROUGH_UNARY)
        n = g.pick(ROUGH, lambda x: real(x) and largest(x) <= 8)
    return g.step(f"torch.{name}({{0}})", n, kind=ROUGH)


@row(2)
def activations(g):
    if g.chance(0.5):
        n = g.pick(ROUGH, lambda x: x.is_floating_point() and largest(x) <= 8)
        name = g.choice(ACTIVATIONS)
        template = f"F.{name}({{0}})"
        if name == "logsigmoid":  # other strides than the CPU's (decisions.py)
            template += ".clone(memory_format=torch.contiguous_format)"
        return g.step(template, n, kind=ROUGH)
    n = g.pick(SMOOTH, lambda x: x.is_floating_point())
    name = g.choice(EXACT_ACTIVATIONS)
    arguments = {"leaky_relu": ", 0.5", "threshold": ", 1.0, -2.0", "softshrink": ", 0.5"}
    return g.step(f"F.{name}({{0}}{arguments.get(name, '')})", n, kind=SMOOTH)


def binary_names(g, x, y):
    """(name, kind) of an operator for these two."""
    kind = g.int(0, 9)
    if kind < 5:
        return g.choice(BINARY), SMOOTH
    if kind < 7:
        return g.choice(COMPARISONS), EXACT
    if kind == 7 and x.dtype in BITS and y.dtype in BITS:
        return g.choice(BITWISE), EXACT
    if kind == 8 and real(x) and real(y):
        whole = not (y.is_floating_point() or x.is_floating_point())
        if y.numel() and bool((y != 0).all()) and not (whole and (y == -1).any()):
            return g.choice(DIVISIONS), ROUGH
    return g.choice(["add", "sub", "mul"]), SMOOTH


def exact_if(g, kind, *numbers):
    """Steps that are not continuous need exact numbers."""
    if any(not g.accepts(n, kind) for n in numbers):
        raise Nothing


@row(10)
def binary(g):
    n = g.pick(SMOOTH)
    m = g.partner(g[n], SMOOTH)
    name, kind = binary_names(g, g[n], g[m])
    if name in ("fmod", "remainder", "floor_divide"):
        exact_if(g, EXACT, n, m)
    exact_if(g, kind, n, m)
    if name in DIVISIONS and g.levels[m] and g[m].numel() and g[m].abs().min() < 0.1:
        raise Nothing  # what is left where terms cancel may be all rounding
    if name in ("fmod", "remainder", "floor_divide") and largest(g[n]) > 2000:
        raise Nothing
    if name in ("add", "sub") and g.chance(0.3):
        alpha = g.choice([2, -1, 3, 0.5] if g[n].dtype.is_floating_point else [2, 3])
        return g.step(f"torch.{name}({{0}}, {{1}}, alpha={{alpha}})", n, m, alpha=alpha, kind=kind)
    if name == "div" and g.chance(0.5):
        mode = g.choice(["floor", "trunc"])
        exact_if(g, EXACT, n, m)
        return g.step("torch.div({0}, {1}, rounding_mode={mode})", n, m, mode=mode, kind=ROUGH)
    return g.step(f"torch.{name}({{0}}, {{1}})", n, m, kind=kind)


@row(5)
def with_number(g):
    n = g.pick(SMOOTH)
    x = g[n]
    k = g.number(g.choice([x.dtype, torch.float32, torch.int64]))
    symbol = g.choice(["+", "-", "*", "<", ">=", "==", "!=", "&", "|"])
    if symbol in "&|":
        exact_if(g, EXACT, n)
        k = k if isinstance(k, (int, bool)) else 1
    kind = SMOOTH if symbol in "+-*" else EXACT
    exact_if(g, kind, n)
    template = f"{{0}} {symbol} {{k}}" if g.chance(0.6) else f"{{k}} {symbol} {{0}}"
    return g.step(template, n, k=k, kind=kind)


@row(3)
def divided(g):
    n = g.pick(ROUGH, lambda x: real(x) and x.dtype != torch.bool)
    k = g.choice([2, 4, 0.5, -2, 3])
    symbol = g.choice(["/", "/", "//", "%"])
    if symbol != "/":
        exact_if(g, EXACT, n)
        if largest(g[n]) > 2000 or (g[n].dtype == torch.uint8 and k == -2):
            raise Nothing
    return g.step(f"{{0}} {symbol} {{k}}", n, k=k, kind=ROUGH)


@row(3)
def powers(g):
    n = g.pick(EXACT, lambda x: x.dtype != torch.bool and largest(x) <= 16)
    x = g[n]
    if g.chance(0.4) and not x.is_floating_point() and not x.is_complex():
        shifted = g.choice(["{0} << {k}", "{0} >> {k}"])
        return g.step(shifted, n, k=g.int(0, 4))
    exponents = [0, 1, 2, 3] + ([0.5, -1, -2] if x.is_floating_point() else [])
    k = g.choice(exponents)
    if k not in (0, 1, 2, 3) and not bool((x > 0).all()):
        raise Nothing
    kind = EXACT if k in (0, 1, 2, 3) and real(x) else ROUGH
    return g.step("{0} ** {k}", n, k=k, kind=kind)


@row(3)
def clamps(g):
    n = g.pick(SMOOTH, real)
    low, high = g.int(-3, 1), g.int(0, 3)
    if g.chance(0.3):
        m = g.partner(g[n], SMOOTH, dtype=g[n].dtype)
        return g.step("torch.clamp({0}, {1})", n, m, kind=SMOOTH)
    template = g.choice(
        ["{0}.clamp({low}, {high})", "{0}.clamp(min={low})", "{0}.clamp(max={high})"]
    )
    return g.step(template, n, low=low, high=high, kind=SMOOTH)


@row(2)
def ternary(g):
    n = g.pick(SMOOTH, lambda x: x.is_floating_point())
    m = g.partner(g[n], SMOOTH, dtype=g[n].dtype)
    k = g.partner(g[n], SMOOTH, dtype=g[n].dtype)
    template = g.choice(
        [
            "torch.addcmul({0}, {1}, {2}, value=2)",
            "torch.lerp({0}, {1}, 0.5)",
            "torch.lerp({0}, {1}, {2})",
            "torch.addcmul({0}, {1}, {2})",
        ]
    )
    return g.step(template, n, m, k, kind=SMOOTH)


# ---- in place and out=


def writable(g, kind=SMOOTH, where=lambda x: True):
    """A value to write into; elements that share memory have no defined result."""
    n = g.pick(MOVES, lambda x: where(x) and (g.chance(0.05) or not overlaps(x)))
    x = g[n]
    if overlaps(x) and not any(s == 0 and k > 1 for s, k in zip(x.stride(), x.shape)):
        raise Nothing
    return n


def fits_integers(x, result):
    """Whether the conversion of x to the result's type is defined."""
    if result.dtype.is_floating_point or result.dtype.is_complex or result.dtype == torch.bool:
        return True
    if not (x.is_floating_point() or x.is_complex()):
        return True
    low = 0 if result.dtype == torch.uint8 else -torch.iinfo(result.dtype).max
    x = x.detach()
    x = x.real if x.is_complex() else x
    return bool(((x >= low) & (x <= torch.iinfo(result.dtype).max)).all())


@row(8)
def in_place(g):
    n = writable(g)
    x = g[n]
    if not g.accepts(n, SMOOTH):
        raise Nothing
    if g.chance(0.35):
        template = g.choice(
            [
                *("{0}.add_({k})", "{0}.mul_({k})", "{0}.sub_({k})", "{0}.neg_()", "{0}.relu_()"),
                *("{0}.clamp_(-1, 2)", "{0}.abs_()", "{0}.eq_({k})", "{0}.bitwise_not_()"),
            ]
        )
        if "eq_" in template or "not" in template:
            exact_if(g, EXACT, n)
        k = g.number(x.dtype)
        return g.step(template, n, k=k, results=0, writes=(n,), kind=SMOOTH)
    m = g.partner(x, SMOOTH)
    y = g[m]
    # Elements are read and written in an open order, unless PyTorch sees and refuses the overlap.
    dense = all(t.is_contiguous() for t in (x, y))
    if shares_memory(x, y) and not dense and not same_elements(x, y):
        raise Nothing
    name = g.choice(["add_", "sub_", "mul_", "add_", "maximum", "logical_and_", "copy_", "lt_"])
    if name == "maximum":
        name = "clamp_min_"
    if name in ("logical_and_", "lt_"):
        exact_if(g, EXACT, n, m)
    if not fits_integers(y, x):
        raise Nothing
    template = f"{{0}}.{name}({{1}})"
    if name == "add_" and g.chance(0.3):
        template = "{0}.add_({1}, alpha=2)"
    return g.step(template, n, m, results=0, writes=(n,), kind=SMOOTH)


@row(3)
def assigned(g):
    """x[...] = y, x[...] += y"""
    n = writable(g, where=lambda x: x.dim() > 0)
    x = g[n]
    d = g.int(0, x.dim() - 1)
    index = [slice(None)] * d + [slice(g.int(0, x.shape[d]), None, g.choice([1, 1, 2]))]
    part = x[tuple(index)]
    m = g.partner(part, MOVES)
    if not fits_integers(g[m], x) or shares_memory(x, g[m]):
        raise Nothing
    copied = "{0}[{i}].copy_({1}, non_blocking=True)"
    template = g.choice([copied, *["{0}[{i}] = {1}"] * 4])
    return g.step(template, n, m, i=tuple(index), results=0, writes=(n,), kind=MOVES)


@row(2)
def filled(g):
    n = writable(g)
    template = g.choice(["{0}.fill_({k})", "{0}.zero_()", "{0}.fill_diagonal_({k})"])
    if "diagonal" in template and (g[n].dim() < 2 or g[n].numel() == 0):
        raise Nothing
    return g.step(template, n, k=g.number(g[n].dtype), results=0, writes=(n,), kind=MOVES)


def same_elements(x, y):
    return x.shape == y.shape and x.stride() == y.stride() and x.data_ptr() == y.data_ptr()


@row(4)
def out(g):
    """out= of the right or another shape, type and layout."""
    n = g.pick(SMOOTH)
    m = g.partner(g[n], SMOOTH)
    x, y = g[n], g[m]
    name = g.choice(["add", "mul", "sub", "eq", "maximum"])
    kind = EXACT if name == "eq" else SMOOTH
    exact_if(g, kind, n, m)
    if g.chance(0.6):
        try:
            shape = torch.broadcast_shapes(x.shape, y.shape)
        except RuntimeError:
            raise Nothing from None
        dtype = torch.result_type(x, y) if name != "eq" else torch.bool
        result = g.fresh(shape, dtype if g.chance(0.7) else g.dtype())
        if g.chance(0.3) and len(shape) > 1:
            view = g.step("{0}.transpose(0, 1)", g.fresh((shape[1], shape[0], *shape[2:]), dtype))
            g.add(view)
            result = view.results[0]
    else:
        result = writable(g)
    r = g[result]
    if r is None:
        raise Nothing
    if r.dtype in INTEGERS and (x.is_floating_point() or y.is_floating_point()):
        raise Nothing
    if any(shares_memory(r, v) and not same_elements(r, v) for v in (x, y)) or overlaps(r):
        raise Nothing
    resized = not broadcasts(x.shape, y.shape) or r.shape != torch.broadcast_shapes(
        x.shape, y.shape
    )
    if resized and (shares_memory(r, x) or shares_memory(r, y)):  # elements are read and written
        raise Nothing
    template = f"torch.{name}({{0}}, {{1}}, out={{2}})"
    return g.step(template, n, m, result, results=0, writes=(result,), kind=kind)


@row(2)
def foreach(g):
    """Operators on lists, new and in place, with several types and sizes."""
    numbers = [g.pick(SMOOTH) for _ in range(g.int(1, 4))]
    if any(g.levels[n] for n in numbers):
        raise Nothing
    names = ", ".join(f"{{{i}}}" for i in range(len(numbers)))
    k = g.choice([2, 3])
    if g.chance(0.5):
        storages = {g[n].untyped_storage().data_ptr() for n in numbers}
        if len(storages) < len(numbers) or any(overlaps(g[n]) for n in numbers):
            raise Nothing
        name = g.choice(["add", "mul", "sub"])
        template = f"torch._foreach_{name}_([{names}], {{k}})"
        return g.step(template, *numbers, k=k, results=0, writes=tuple(numbers))
    name = g.choice(["add", "mul", "neg", "abs", "maximum"])
    argument = "" if name in ("neg", "abs") else ", {k}"
    template = f"torch._foreach_{name}([{names}]{argument})"
    return g.step(template, *numbers, k=k, results=len(numbers), several=True)
