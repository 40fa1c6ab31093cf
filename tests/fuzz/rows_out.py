"""out= arguments and lists: what writes into given tensors of any shape and layout."""

import torch
from author import Nothing, largest, overlaps
from program import EXACT, MOVES, ROUGH, SMOOTH
from rows import row
from rows_pointwise import real

FLOATS = (torch.float32, torch.float64, torch.float16, torch.bfloat16)
# (template, kind): the result has the type of {0}
SAME_TYPE = [
    ("torch.cumsum({0}, {d}, out={r})", SMOOTH),
    ("torch.sort({0}, {d}, out=({r}, {i}))", EXACT),
    ("torch.cat([{0}, {0}], {d}, out={r})", MOVES),
    ("torch.stack([{0}, {0}], {d}, out={r})", MOVES),
    ("torch.clamp({0}, -1, 2, out={r})", SMOOTH),
    ("torch.neg({0}, out={r})", SMOOTH),
    ("torch.abs({0}, out={r})", SMOOTH),
    ("torch.amax({0}, {d}, out={r})", SMOOTH),
    ("torch.amin({0}, {d}, keepdim=True, out={r})", SMOOTH),
    ("torch.tril({0}, out={r})", MOVES),
    ("torch.index_select({0}, {d}, torch.arange(1, device=device), out={r})", MOVES),
    ("torch.take({0}, torch.zeros(3, dtype=torch.int64, device=device), out={r})", MOVES),
    ("torch.gather({0}, {d}, torch.zeros_like({0}, dtype=torch.int64), out={r})", MOVES),
    ("torch.masked_select({0}, {0} > 0, out={r})", EXACT),
    ("torch.where({0} > 0, {0}, {0} + 1, out={r})", EXACT),
    ("torch.max({0}, {d}, out=({r}, {i}))", EXACT),
    ("torch.topk({0}, 1, {d}, out=({r}, {i}))", EXACT),
    ("torch.cummax({0}, {d}, out=({r}, {i}))", EXACT),
    ("torch.mm({0}, {0}.t(), out={r})", SMOOTH),
    ("torch.addmm({0}, {0}, torch.ones_like({0}).t() @ {0}, out={r})", SMOOTH),
    ("torch.matmul({0}, {0}.mT, out={r})", SMOOTH),
    ("torch.sum({0}, {d}, out={r})", SMOOTH),
    ("torch.mean({0}, {d}, out={r})", ROUGH),
    ("torch.softmax({0}, {d}, out={r})", ROUGH),
    ("torch.exp({0}, out={r})", ROUGH),
    ("torch.sigmoid({0}, out={r})", ROUGH),
    ("torch.var({0}, {d}, out={r})", ROUGH),
    ("torch.logsumexp({0}, {d}, out={r})", ROUGH),
    ("torch.norm({0}, dim={d}, out={r})", ROUGH),
    ("torch.arange(5, out={r})", MOVES),
    ("torch.full({0}.shape, 3, out={r})", MOVES),
    ("torch.eye(3, out={r})", MOVES),
    ("torch.lerp({0}, {0} + 2, 0.5, out={r})", SMOOTH),
    ("torch.addcmul({0}, {0}, {0}, out={r})", SMOOTH),
    ("torch.pow({0}, 2, out={r})", SMOOTH),
]
FLOATS_ONLY = ("mean", "softmax", "exp", "sigmoid", "var", "logsumexp", "norm", "lerp")
SQUARES = ("torch.mm", "torch.addmm", "tril", "matmul")


@row(4)
def out_of_many(g):
    """Each kind of operator with an out= that is empty, fits, is a view, or is resized."""
    template, kind = g.choice(SAME_TYPE)
    n = g.pick(kind, lambda x: real(x) and x.dtype != torch.bool and x.dim() and x.numel())
    x = g[n]
    if any(name in template for name in FLOATS_ONLY) and x.dtype not in FLOATS:
        raise Nothing
    if any(name in template for name in SQUARES) and (x.dim() != 2 or largest(x) > 16):
        raise Nothing
    if kind == ROUGH and largest(x) > 8:
        raise Nothing
    if x.requires_grad or ("sum" in template and x.dtype not in (*FLOATS, torch.int64)):
        raise Nothing
    d = g.int(0, x.dim() - 1)
    if ("sort" in template or "max(" in template or "topk" in template) and x.shape[d] > 1:
        rows = x.sort(d).values
        if not bool((rows.diff(dim=d) != 0).all()):
            raise Nothing
    shape = result_shape(template, x, d, g)
    result = g.fresh(shape, x.dtype)
    if len(shape) > 1 and g.chance(0.3):
        turned = g.fresh((shape[1], shape[0], *shape[2:]), x.dtype)
        view = g.step("{0}.transpose(0, 1)", turned)
        g.add(view)
        result = view.results[0]
    elif shape and g.chance(0.3):
        wide = g.fresh((2 * shape[0], *shape[1:]), x.dtype)
        view = g.step("{0}[::2]", wide)
        g.add(view)
        result = view.results[0]
    operands, writes = [n, result], (result,)
    template = template.replace("{r}", "{1}")
    if "{i}" in template:
        operands.append(g.fresh(shape, torch.int64))
        template, writes = template.replace("{i}", "{2}"), (result, operands[-1])
    return g.step(template, *operands, d=d, results=0, writes=writes, kind=kind)


def result_shape(template, x, d, g):
    """The shape of the result, or now and then an empty one, which is resized."""
    if g.chance(0.25):
        return (0,)
    text = template.replace("out=({r}, {i})", "").replace("out={r}", "").replace("{0}", "x")
    text = text.replace("{d}", str(d))
    try:
        found = eval(text, {"torch": torch, "x": x.detach(), "device": "cpu"})
    except Exception:
        raise Nothing from None
    return tuple((found[0] if isinstance(found, tuple) else found).shape)


@row(4)
def foreach_lists(g):
    """Operators on lists, with lists of numbers and of tensors."""
    count, dtype = g.int(1, 4), g.dtype(lambda t: t in FLOATS)
    firsts = [g.fresh(g.shape(0, 3), dtype) for _ in range(count)]
    seconds = [g.fresh(g[n].shape, dtype, 1, 5) for n in firsts]
    thirds = [g.fresh(g[n].shape, dtype, 1, 4) for n in firsts]
    a, b, c = (
        ", ".join(f"{{{start + i}}}" for i in range(count)) for start in (0, count, 2 * count)
    )
    numbers = [g.int(1, 3) for _ in range(count)]
    name, arguments = g.choice(
        [
            ("add", f"[{b}], alpha=2"),
            ("sub", f"[{b}]"),
            ("mul", f"[{b}]"),
            ("mul", "{numbers}"),
            ("add", "{numbers}"),
            ("div", f"[{b}]"),
            ("maximum", f"[{b}]"),
            ("minimum", f"[{b}]"),
            ("addcmul", f"[{b}], [{c}], 2"),
            ("addcdiv", f"[{b}], [{c}], 0.5"),
            ("addcmul", f"[{b}], [{c}], {{numbers}}"),
            ("lerp", f"[{b}], 0.5"),
            ("lerp", f"[{b}], [{c}]"),
            ("clamp_max", "2"),
            ("neg", ""),
            ("abs", ""),
            ("sign", ""),
            ("sqrt", ""),
            ("exp", ""),
            ("pow", "2"),
            ("norm", ""),
            ("max", ""),
            ("zero", ""),
            ("copy", f"[{b}]"),
        ]
    )
    operands = [*firsts, *seconds, *thirds]
    if name in ("max",) and any(not g[n].numel() for n in firsts):
        raise Nothing
    if name == "sqrt":
        operands[:count] = seconds
    inplace = name in ("zero", "copy") or (name not in ("norm", "max") and g.chance(0.5))
    comma = ", " if arguments else ""
    options = dict(numbers=numbers, kind=ROUGH)
    if inplace:
        template = f"torch._foreach_{name}_([{a}]{comma}{arguments})"
        if name == "sqrt":
            template = f"torch._foreach_sqrt_([{b}])"
        writes = tuple(operands[:count])
        if name == "sqrt":
            operands = [*firsts, *seconds, *thirds]
            writes = tuple(seconds)
        return g.step(template, *operands, results=0, writes=writes, **options)
    template = f"torch._foreach_{name}([{a}]{comma}{arguments})"
    return g.step(template, *operands, results=count, several=True, **options)


@row(3, pure=False)
def optimizer_steps(g):
    """A step or two of an optimizer, on lists or fused."""
    dtype = torch.float32
    count = g.int(1, 3)
    numbers = [g.fresh(g.shape(0, 3), dtype) for _ in range(count)]
    gradients = [g.fresh(g[n].shape, dtype) for n in numbers]
    name, options = g.choice(
        [
            ("SGD", "lr=0.5"),
            ("SGD", "lr=0.25, momentum=0.5, weight_decay=0.5, nesterov=True"),
            ("SGD", "lr=0.25, momentum=0.5, dampening=0.5, maximize=True"),
            ("Adam", "lr=0.1"),
            ("Adam", "lr=0.1, amsgrad=True, weight_decay=0.1"),
            ("AdamW", "lr=0.1, betas=(0.5, 0.75)"),
            ("Adagrad", "lr=0.1"),
            ("RMSprop", "lr=0.1, momentum=0.5, centered=True"),
            ("Adadelta", ""),
            ("Adamax", "lr=0.1"),
            ("NAdam", "lr=0.1"),
            ("RAdam", "lr=0.1"),
            ("Rprop", "lr=0.1"),
        ]
    )
    ways = ["foreach=True", "foreach=False"]
    if name in ("SGD", "Adam", "AdamW", "Adagrad"):
        ways.append("fused=True")
    options = ", ".join(filter(None, [options, g.choice(ways)]))
    first = ", ".join(f"{{{i}}}" for i in range(count))
    second = ", ".join(f"{{{i}}}" for i in range(count, 2 * count))
    template = f"optimized(torch.optim.{name}, [{first}], [{second}], {g.int(1, 3)}, {options})"
    return g.step(template, *numbers, *gradients, results=count, several=True, kind=ROUGH)


@row(2, pure=False)
def clipped(g):
    n = g.pick(ROUGH, lambda x: x.dtype in FLOATS and largest(x) <= 16 and not overlaps(x))
    m = g.fresh(g.shape(0, 2), g[n].dtype)
    template = "clipped([{0}, {1}], {norm}, {p}, foreach={f})"
    p = g.choice([1.0, 2.0, float("inf")])
    norm, f = g.choice([0.5, 2.0, 100.0]), g.choice([None, True, False])
    return g.step(template, n, m, norm=norm, p=p, f=f, results=3, several=True, kind=ROUGH)
