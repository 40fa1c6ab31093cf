"""Arguments for a call, made from the operator's schema or the function's signature.

Each attempt has a theme, which gives the shapes of its tensors, and a type. An attempt is used if
the CPU accepts it; of forty attempts, most operators accept several.
"""

import inspect
import random
import re
import zlib

import torch

SIZES = {  # theme: sizes of the first tensor, of its weight, and of its other vectors
    "matrices": ((4, 4), (4, 4), (4, 4)),
    "vectors": ((6,), (6,), (6,)),
    "rows": ((3, 4), (4,), (4,)),
    "linear": ((2, 3), (4, 3), (4,)),
    "batches": ((2, 4, 4), (2, 4, 4), (2, 4, 4)),
    "sequences": ((5, 2, 3), (3, 3), (3,)),
    "points": ((), (), ()),
    "nothing": ((0, 4), (4, 4), (4,)),
}
TYPES = [torch.float32] * 6 + [
    *(torch.int64, torch.uint8, torch.bool, torch.int32, torch.int8),
    *(torch.float16, torch.bfloat16, torch.float64, torch.complex64),
]
INTEGERS = re.compile(
    r"ind(ex|ices)|offsets|length|target|label|^perm$|pivots|batch_sizes|crow|^ccol|^col|^row_|"
    r"repeats|seq|bucket|segment|size$|permutation|numel|zero_point|token"
)
MASKS = re.compile(r"mask|^condition$|^fake_quant|observer_on|fake_quant_on|^found_inf")
WEIGHTS = re.compile(r"^(weight|w_|mat2|filter)")
VECTORS = re.compile(r"^(bias|b_|running|scale|save_|mean|rstd|var|invstd|amax|amin|averag)")
TEXTS = {
    "equation": ["ij,jk->ik", "ij->ji"],
    "reduce": ["sum", "mean", "amax", "prod"],
    "rounding_mode": ["floor", "trunc"],
    "approximate": ["none", "tanh"],
    "indexing": ["ij", "xy"],
    "side": ["left", "right"],
    "ord": ["fro", "nuc"],
    "UPLO": ["L", "U"],
    "driver": ["gels", "gelsd"],
    "padding": ["same", "valid"],
}
ANY_TEXT = ["mean", "sum", "none", "constant", "reflect", "nearest", "bilinear", "reduced", "tanh"]


class Unknown(Exception):
    """This file has no values for an argument's type."""


class Argument:
    def __init__(self, name, kind, size=None, keyword=False, default=inspect.Parameter.empty):
        self.name, self.kind, self.size, self.keyword = name, kind, size, keyword
        self.default, self.written = default, False

    @property
    def optional(self):
        return self.default is not inspect.Parameter.empty


def of_schema(schema):
    found = []
    for a in schema.arguments:
        default = a.default_value if a.has_default_value() else inspect.Parameter.empty
        argument = Argument(a.name, str(a.type), a.N, a.kwarg_only, default)
        argument.written = bool(a.alias_info and a.alias_info.is_write and a.kwarg_only)
        found.append(argument)
    return found


ANNOTATED = re.compile(r"Tensor|bool|int|float|str|number", re.IGNORECASE)


def kind_of(parameter):
    """The type of a Python function's parameter, as schemas spell it."""
    text = (
        "int"
        if parameter.annotation is None
        else str(parameter.annotation).replace("torch.", "").replace("typing.", "")
    )
    if parameter.annotation is parameter.empty:
        value = parameter.default
        known = {bool: "bool", int: "int", float: "float", str: "str"}
        return known.get(type(value), "Optional[int]" if value is None else "Tensor")
    name = ANNOTATED.search(text)
    base = {"tensor": "Tensor", None: "Any"}.get(name and name[0].lower(), name and name[0].lower())
    if re.search(r"list|tuple|sequence", text, re.IGNORECASE):
        base = f"List[{base}]"
    return f"Optional[{base}]" if "Optional" in text or "None" in text else base


def of_function(function):
    found = []
    for p in inspect.signature(function).parameters.values():
        if p.kind is p.VAR_KEYWORD:
            continue
        kind = "List[Tensor]" if p.kind is p.VAR_POSITIONAL else kind_of(p)
        keyword = p.kind is p.KEYWORD_ONLY
        found.append(Argument(p.name, kind, None, keyword, p.default))
        found[-1].spread = p.kind is p.VAR_POSITIONAL
    return found


class Attempt:
    """One set of arguments of an operator: make() -> (positional, keyword)."""

    def __init__(self, name, number, grad=False):
        self.name, self.grad = name, grad
        seed = zlib.crc32(f"{name} {number}".encode())
        self.random = random.Random(seed)
        self.generator = torch.Generator().manual_seed(seed)
        self.theme = list(SIZES)[number % len(SIZES)]
        self.type = torch.float32 if number < len(SIZES) else self.random.choice(TYPES)
        self.positive = self.random.random() < 0.5
        self.plain = number < 2 * len(SIZES)  # defaults stay
        dims = re.search(r"([123])d", name)
        self.dims = int(dims[1]) if dims else 0
        self.first = True

    def make(self, arguments):
        positional, keywords, skipped = [], {}, False
        for a in arguments:
            if a.optional and (self.plain or self.random.random() < 0.5):
                skipped = True
                continue
            value = self.value(a)
            if getattr(a, "spread", False):
                positional += value
            elif a.keyword or skipped:
                keywords[a.name] = value
            else:
                positional.append(value)
        return tuple(positional), keywords

    def value(self, a):
        kind = a.kind
        if kind.startswith("Optional["):
            if self.random.random() < 0.4:
                return None
            kind = kind[len("Optional[") : -1]
        if a.written and kind == "Tensor":
            return torch.empty(0, dtype=self.type)
        if a.name in ("dtype", "out_dtype", "output_dtype"):
            return self.random.choice([torch.float32, torch.float64, torch.int64, torch.float16])
        special = {"layout": torch.strided, "memory_format": torch.contiguous_format}
        if a.name in special:
            return special[a.name]
        makers = {
            "Tensor": self.tensor,
            "List[Tensor]": lambda n: [
                self.tensor(n) for _ in range(self.random.choice([1, 2, 3]))
            ],
            "List[Optional[Tensor]]": lambda n: [self.tensor("index")],
            "int": self.integer,
            "List[int]": lambda n: self.integers(n, a.size),
            "float": lambda n: self.random.choice([0.5, 1.0, 0.0, 2.0, 0.1]),
            "number": lambda n: self.random.choice([1, 2, 0.5, 0, True, -1]),
            "complex": lambda n: 0.5 + 1j,
            "bool": lambda n: self.random.random() < 0.5,
            "str": lambda n: self.random.choice(TEXTS.get(n, ANY_TEXT)),
            "Device": lambda n: torch.device("cpu"),
            "Generator": lambda n: None,
            "List[float]": lambda n: [1.0, 2.0][: a.size or 2],
            "List[number]": lambda n: [self.random.choice([1, 2, 0.5])] * 2,
            "List[bool]": lambda n: [True] * (a.size or 2),
            "List[str]": lambda n: ["a", "b"],
        }
        if kind not in makers:
            raise Unknown(f"no values for arguments of type {a.kind}")
        return makers[kind](a.name)

    def integer(self, name):
        if name == "reduction":
            return self.random.choice([0, 1, 2])
        if re.search("dim|axis", name):
            return self.random.choice([0, 1, -1])
        if name == "groups":
            return 1
        return self.random.choice([0, 1, 2, 3, 4])

    def integers(self, name, size):
        length = size if size and size > 1 else self.dims or self.random.choice([1, 2, 2])
        if re.search("pad", name):
            return [self.random.choice([0, 1])] * (2 * length if name == "pad" else length)
        if re.search("dim|axes|axis", name):
            return list(range(length))
        if re.search("size|shape", name) and not name.startswith("kernel"):
            return self.random.choice([[2, 3], [4, 4], list(SIZES[self.theme][0]), [3] * length])
        value = 1 if re.search("dilation|stride", name) else self.random.choice([1, 2, 3])
        return [value] * length

    def size(self, name):
        if self.dims and self.theme in ("batches", "sequences", "linear", "rows"):
            sizes = (2, 3, *[6] * self.dims), (3, 3, *[3] * self.dims), (3,)
        else:
            sizes = SIZES[self.theme]
        if WEIGHTS.search(name):
            return sizes[1]
        return sizes[2] if VECTORS.search(name) else sizes[0]

    def tensor(self, name):
        size, dtype = self.size(name), self.type
        if INTEGERS.search(name) and self.random.random() < 0.85:
            dtype = self.random.choice([torch.int64] * 4 + [torch.int32])
            size = self.random.choice([size, size[:1]])
        elif MASKS.search(name):
            dtype = torch.bool
        made = self.filled(size, dtype)
        if self.grad and made.dtype.is_floating_point:
            made.requires_grad_(True)
        return self.of_layout(made)

    def filled(self, size, dtype):
        if dtype.is_floating_point or dtype.is_complex:
            wide = torch.complex64 if dtype.is_complex else torch.float32
            made = torch.randn(size, generator=self.generator, dtype=wide)
            return (made.abs() if self.positive and not dtype.is_complex else made).to(dtype)
        return torch.randint(0, 3, size, generator=self.generator).to(dtype)

    def of_layout(self, t):
        """Converts half of the tensors of operators for another layout to that layout."""
        if self.grad or self.random.random() < 0.5 or not t.dtype.is_floating_point:
            return t
        if re.search("quantize|q_|^int_repr|fbgemm", self.name):
            kind = self.random.choice([torch.quint8, torch.qint8])
            return torch.quantize_per_tensor(t.float(), 0.1, 3, kind)
        if t.dim() >= 2 and re.search("sparse|coalesce|csr|csc|crow|ccol|values", self.name):
            return t.to_sparse() if self.random.random() < 0.5 or t.dim() > 2 else t.to_sparse_csr()
        if t.dim() >= 2 and re.search("nested|jagged", self.name):
            return torch.nested.nested_tensor([t, t[:1]])
        return t
