"""The kernels of flex_attention: fills in their templates (kernels/inductor/cl/flex*.clh)."""

import dataclasses
import math

import sympy
import torch
from torch._inductor import ir
from torch._inductor.utils import ceildiv, sympy_product
from torch._inductor.virtualized import V
from torch.utils._ordered_set import OrderedSet
from torch.utils._sympy.functions import FloorDiv, ModularIndexing
from torch.utils._sympy.symbol import SymT, symbol_is_type

from torch_ocl import ocl

from ..codegen.loops import hint
from ..codegen.types import TYPES, scalar_literal
from ..device_interface import has_cpu_kernels
from .functions import INDICES, FunctionKernel


@dataclasses.dataclass(frozen=True)
class Template:
    """A kernel's body, and how much scratch memory it has."""

    name: str
    rows_of_query: int  # matrices with ROWS rows as long as a query, and as a value
    rows_of_value: int
    scores: int  # tiles of scores
    by_keys: bool = False  # whether rows are keys

    def numbers(self, rows: int, columns: int, depth: int, value_depth: int) -> int:
        of_row = self.rows_of_query * depth + self.rows_of_value * value_depth + 3
        tile = columns * max(depth, value_depth)
        return rows * (of_row + self.scores * columns) + tile


FORWARD = Template("flex_forward", 1, 1, 1)
GRAD_QUERY = Template("flex_grad_query", 2, 1, 2)
GRAD_KEY = Template("flex_grad_key", 2, 2, 2, by_keys=True)

# Sizes of tiles, the best first. The first that fits is used: into a GPU's local memory, or into a
# part of a core's cache.
_CPU_TILES = (64, 64), (32, 64), (16, 64), (16, 32)
_CACHE = 1 << 17
_GPU_TILES = (32, 32), (16, 32), (16, 16), (8, 16), (8, 8), (4, 8), (4, 4), (2, 4), (1, 4)


@dataclasses.dataclass
class Tile:
    """The part that a work-group, or a step of a task, computes; the shape of the launch."""

    cpu: bool
    rows: int
    columns: int
    span: int
    counts: tuple  # number of units, and their cost

    local = 64

    @property
    def letter(self):
        return "t" if self.cpu else "g"

    def units(self):
        return self.counts[0]

    def cost(self):
        return self.counts[1]


@dataclasses.dataclass
class Attention:
    """The operands and functions of a call."""

    query: ir.IRNode
    key: ir.IRNode
    value: ir.IRNode
    mask: dict[str, tuple]  # "key", "query": counts and indices, then those of full blocks or None
    block: tuple[int, int]  # sizes of the mask's blocks: queries, keys
    scale: float | sympy.Expr
    score_mod: ir.IRNode
    mask_mod: ir.IRNode
    captured: list  # the tensors that the functions read

    @property
    def device(self) -> torch.device:
        return self.query.get_device()

    @property
    def real(self) -> torch.dtype:
        return torch.float64 if self.query.get_dtype() == torch.float64 else torch.float32

    @property
    def sizes(self):
        """Batch, heads, queries, keys, heads of keys, size of a query, size of a value."""
        batch, heads, queries, depth = self.query.get_size()
        _, key_heads, keys, value_depth = self.value.get_size()
        return batch, heads, queries, keys, key_heads, int(depth), int(value_depth)

    def tile(self, template: Template) -> Tile:
        batch, heads, queries, keys, key_heads, depth, value_depth = self.sizes
        cpu = has_cpu_kernels(self.device)
        span = (64 if cpu else 16) // self.real.itemsize
        depths = [-(-size // span) * span for size in (depth, value_depth)]
        lengths, blocks = [queries, keys], list(self.block)
        if template.by_keys:
            lengths, blocks, heads = lengths[::-1], blocks[::-1], key_heads
        length, columns_length = lengths
        rows, columns = self._that_fits(template, depths, cpu)
        rows = _halved(math.gcd(rows, blocks[0]), hint(length), 1)
        columns = _halved(columns, min(blocks[1], hint(columns_length)), span)
        units = sympy_product([batch, heads, ceildiv(length, rows)])
        cost = sympy_product([batch, self.sizes[1], queries, keys, depth])
        return Tile(cpu, rows, columns, span, (units, cost))

    def _that_fits(self, template, depths, cpu) -> tuple[int, int]:
        local = ocl.get_device_properties(self.device.index or 0).local_memory
        tiles, memory = (_CPU_TILES, _CACHE) if cpu else (_GPU_TILES, local)
        for tile in tiles:
            needed = template.numbers(*tile, *depths) * self.real.itemsize
            if needed <= memory:
                return tile
        if cpu:
            return tile
        raise NotImplementedError(
            f"flex_attention on {self.device} needs {needed} bytes of local memory for heads of "
            f"{self.sizes[5]} and {self.sizes[6]} elements, but the device has {memory}: call it "
            "outside of torch.compile"
        )


def _halved(count: int, needed: int, least: int) -> int:
    """Limits a tile's rows or columns to twice the number that is needed."""
    while count > least and count // 2 >= needed:
        count //= 2
    return count


class FlexCall(ir.ExternKernel):
    """The call of one kernel, which writes into buffers that were made before."""

    def __init__(self, template, attention, operands: dict, results: dict, functions: dict):
        self.template, self.attention = template, attention
        self.operands, self.results, self.functions = operands, results, functions
        tensors = [attention.query, attention.key, attention.value, *operands.values()]
        tensors += [x for part in attention.mask.values() for x in part if x is not None]
        tensors += [x for x in attention.captured if isinstance(x, ir.IRNode)]
        tensors += results.values()
        numbers = [x for x in (*attention.captured, attention.scale) if isinstance(x, sympy.Expr)]
        sizes = [size for x in tensors for size in (*x.get_size(), *x.get_stride())]
        super().__init__(
            None,
            ir.NoneLayout(device=attention.device),
            self.unwrap_storage(tensors),
            [x for x in (*numbers, *sizes) if isinstance(x, sympy.Expr)],
        )
        self.mutation_outputs = [
            ir.MutationOutput(ir.NoneLayout(device=attention.device), result, self)
            for result in results.values()
        ]
        V.graph.register_operation(self)

    def get_outputs(self):
        return list(self.mutation_outputs)

    def get_device(self):
        return self.attention.device

    def should_allocate(self):
        return False

    def get_unbacked_symbol_defs(self):
        return OrderedSet()

    def codegen(self, wrapper):
        with V.graph.set_current_device(self.attention.device):
            kernel = self._kernel()
            source = _source(self.template, kernel)
            fused = self.template.name
            name = wrapper.src_to_kernel.get(source)
            if name is None:
                name = f"ocl_{fused}_{wrapper.next_kernel_suffix()}"
                wrapper.src_to_kernel[source] = name
                wrapper.define_ocl_kernel(name, fused, kernel.rendered, source, "")
            kernel.call_kernel(name)

    def _kernel(self) -> FunctionKernel:
        attention = self.attention
        tile = attention.tile(self.template)
        kernel = FunctionKernel(tile)
        kernel.defines = _sizes(kernel, attention, tile)
        of_all = {"QUERY": attention.query, "KEY": attention.key, "VALUE": attention.value}
        for name, node in (of_all | self.operands).items():
            kernel.defines[_macro(name, node)] = _load(kernel, attention, name, node)
        for of, blocks in attention.mask.items():
            for part, names in enumerate(("COUNT(full, b, h, i)", "INDEX(full, b, h, i, j)")):
                of_blocks = f"{of.upper()}_BLOCK_{names}"
                kernel.defines[of_blocks] = _mask(kernel, attention, blocks[part::2])
        for name, node in self.results.items():
            if name.isupper():  # others are the gradients of captured tensors
                place = _index(kernel, attention, name, node)
                pointer, code = kernel.args.output(node.get_name()), TYPES[node.get_dtype()].code
                macro = _macro(f"STORE_{name}", node).replace(")", ", x)")
                kernel.defines[macro] = f"STORE({code}, {pointer}, {place}, x)"
        for name, buffers in self.functions.items():
            indices = dict.fromkeys(INDICES, torch.int32)
            score = {"score": attention.real}
            inputs = indices if name == "mask_mod" else score | indices
            if "grad" in name:
                inputs |= {"grad_score_mod": attention.real}
            result = torch.bool if name == "mask_mod" else attention.real
            adds = name == "add_captured_grads"
            kernel.add_function(name, buffers, inputs, None if adds else result)
        return kernel


_PARAMETERS = "b", "h", "i", "d"


def _macro(name, node) -> str:
    return f"{name}({', '.join(_PARAMETERS[: len(node.get_size())])})"


def _same_or(symbol, size, whole):
    """The index into a dimension that may be broadcast."""
    if V.graph.sizevars.statically_known_equals(size, whole):
        return symbol
    return sympy.S.Zero if size == 1 else ModularIndexing(symbol, 1, size)


def _symbols(names):
    # Arguments of macros may be sums.
    return [sympy.Symbol(f"({name})", integer=True, nonnegative=True) for name in names]


def _index(kernel, attention, name, node) -> str:
    symbols = _symbols(_PARAMETERS[: len(node.get_size())])
    batch, heads, _, _, key_heads, _, _ = attention.sizes
    symbols[0] = _same_or(symbols[0], node.get_size()[0], batch)
    if name in ("KEY", "VALUE"):
        symbols[1] = FloorDiv(symbols[1], FloorDiv(heads, key_heads))
    return kernel.print(node.get_layout().make_indexer()(symbols))


def _load(kernel, attention, name, node) -> str:
    place = _index(kernel, attention, name, node)
    return f"LOAD({TYPES[node.get_dtype()].code}, {kernel.args.input(node.get_name())}, {place})"


def _mask(kernel, attention, partial_and_full) -> str:
    batch, heads = attention.sizes[:2]
    texts = []
    for node in partial_and_full:
        if node is None:
            continue
        b, h, *others = _symbols(("b", "h", "i", "j"))[: len(node.get_size())]
        size = node.get_size()
        place = [_same_or(b, size[0], batch), _same_or(h, size[1], heads), *others]
        index = kernel.print(node.get_layout().make_indexer()(place))
        pointer, code = kernel.args.input(node.get_name()), TYPES[node.get_dtype()].code
        texts.append(f"LOAD({code}, {pointer}, {index})")
    return f"((full) ? {texts[1]} : {texts[0]})" if len(texts) > 1 else texts[0]


def _sizes(kernel, attention, tile) -> dict[str, str]:
    _, heads, queries, keys, key_heads, depth, value_depth = attention.sizes
    kind = TYPES[attention.real].value
    has_full = any(blocks[2] is not None for blocks in attention.mask.values())
    numbers = {
        "SPAN": tile.span,
        "ROWS": tile.rows,
        "COLUMNS": tile.columns,
        "RM": min(tile.rows, 4),
        "D": depth,
        "DV": value_depth,
        "Q_BLOCK": attention.block[0],
        "KEY_BLOCK": attention.block[1],
        "HAS_FULL_BLOCKS": int(has_full),
        "HEADS": heads,
        "KEY_HEADS": key_heads,
        "GROUP": FloorDiv(heads, key_heads),
        "Q_LENGTH": queries,
        "KEY_LENGTH": keys,
    }
    scale = sympy.sympify(attention.scale)
    if scale.is_number:
        scale = scalar_literal(float(scale), attention.real)
    else:
        scale = f"(REAL)({kernel.print(scale)})"
    texts = {"REAL": kind, "SCALE": scale} | ({"ONE_ITEM": ""} if tile.cpu else {})
    return texts | {name: kernel.print(number) for name, number in numbers.items()}


def _source(template, kernel) -> str:
    rendered = kernel.rendered
    signature = list(rendered._signature())
    pointers, names = [], []
    definitions, calls, kinds, _ = kernel.args.python_argdefs()
    for definition, call, kind in zip(definitions, calls, kinds):
        name = definition.name
        names.append(name)
        if hasattr(kind, "buffer"):
            constant = "const " if name.startswith("in_ptr") else ""
            pointers.append(f"__global {constant}{TYPES[kind.dtype].memory} *{name}")
        else:
            real = symbol_is_type(call, (SymT.FLOAT, SymT.UNBACKED_FLOAT))
            pointers.append(f"const {TYPES[kernel.real_type].value if real else 'long'} {name}")
    for used, argument in ((kernel.checks_indices, "FAULT"), (kernel.checks_divisors, "ZERO")):
        if used or (argument == "FAULT" and kernel.checks_divisors):
            pointers.append(f"{argument}_ARGUMENT")
            names.append(f"{argument}_FORWARD")
    lines = [
        *rendered._prelude(),
        *rendered._lane_functions(),
        f"#define CAPTURED {', '.join(pointers)},",
        f"#define PASS_CAPTURED {', '.join(names)},",
        *kernel.functions,
        # These defines follow the functions, whose helpers may have the same names.
        *(f"#define {name} {text}".rstrip() for name, text in kernel.defines.items()),
        '#include "flex.clh"',
        *signature,
        f'#include "{template.name}.clh"',
        "}",
        "",
    ]
    return "\n".join(lines).replace("§", "")
