"""Writes programs at random: knows the CPU's values, and draws steps that fit them.

Numbers differ legitimately by rounding, so most programs compute with small integers, exactly. Each
value has a level: 0 is exact, and n is n roundings away from exact numbers. A step is

    exact   the result is exact, as long as the numbers are small enough for the type
    moves   numbers are only moved, so any level goes in and comes out
    smooth  exact, but continuous: numbers of a low level go in
    rough   rounds: the level rises by one
"""

import math
import random

import torch
from program import EXACT, MOVES, ROUGH, SMOOTH, Code, Run, Step

# (type, how often it is drawn)
TYPES = [
    (torch.float32, 40),
    (torch.int64, 12),
    (torch.float16, 8),
    (torch.bfloat16, 6),
    (torch.float64, 8),
    (torch.int32, 8),
    (torch.bool, 7),
    (torch.uint8, 4),
    (torch.int8, 3),
    (torch.int16, 3),
    (torch.complex64, 3),
    (torch.complex128, 1),
]
# Quarters up to this size are exact, with two bits to spare for sums.
EXACT_UP_TO = {
    torch.float16: 256,
    torch.bfloat16: 32,
    torch.float32: 1 << 20,
    torch.float64: 1 << 48,
    torch.complex64: 1 << 10,
    torch.complex128: 1 << 24,
}
HIGHEST_LEVEL = 3
COARSE = 100  # the level of numbers that 16 bits have rounded
ROUGH_UP_TO = 16
SIZES = [0, 1, 1, 2, 2, 3, 3, 4, 5, 5, 7, 8, 9, 16, 17, 31, 33]
LARGE = [64, 65, 100, 128, 257, 1000]
# Several work-groups work on one row of such a size.
HUGE = [2049, 4096, 10_007, 70_000]
# The CPU's error if it lacks a kernel for the type; ocl may have one.
LACKING = ("not implemented for", "not supported", "Unsupported", "unsupported", "does not support")
LACKING += ("not implemented", "expected scalar type", "Got unsupported", "could not")


class Nothing(Exception):
    """The row has nothing for these values."""


class Author:
    """The state of a program that is being written."""

    def __init__(self, seed, rows, types=None, inputs=None):
        self.random = random.Random(seed)
        self.rows = rows
        self.weights = [row.weight for row in rows]
        self.types = [(t, w) for t, w in TYPES if types is None or t in types]
        self.run = inputs or Run("cpu")
        self.numbers = []  # of the values that are alive
        self.levels = {}
        self.next = 0
        self.steps = []
        self.graphs = []  # of each graph that is kept: the types of its inputs, number of results
        self.stream = 0
        self.in_function = False

    def __getitem__(self, number):
        return self.run[number]

    # ---- drawing

    def choice(self, options):
        return self.random.choice(options)

    def chance(self, share):
        return self.random.random() < share

    def int(self, low, high):
        """From low to high, both included."""
        return self.random.randint(low, high)

    def sizes(self):
        """A seed for numbers."""
        return self.random.getrandbits(20)

    def dtype(self, accept=lambda t: True):
        types = [(t, w) for t, w in self.types if accept(t)]
        return self.random.choices([t for t, _ in types], [w for _, w in types])[0]

    def keep_few_types(self):
        """Mostly, the program has four types, or nearly all time would go into the compilation of
        kernels for pairs of types."""
        if self.chance(0.1):
            return
        kept = (torch.float32, torch.int64, torch.bool, self.dtype())
        self.types = [(t, w) for t, w in self.types if t in kept]

    def shape(self, least=0, most=4, empty=True):
        if most > 0 and self.chance(0.02):
            return self.choice([(n,) for n in HUGE] + [(3, n) for n in HUGE[:3]])[-most:]
        dims = min(most, max(least, self.choice([0, 1, 1, 2, 2, 2, 3, 3, 4])))
        shape = [self.choice(SIZES) for _ in range(dims)]
        if shape and self.chance(0.08):
            shape[self.int(0, dims - 1)] = self.choice(LARGE)
        if not empty or self.chance(0.7):
            shape = [max(1, n) for n in shape]
        while math.prod(shape) > 30_000:
            shape[shape.index(max(shape))] = 2
        return tuple(shape)

    def dim(self, x):
        if self.chance(0.01):
            return x.dim() + 1
        return self.int(-x.dim(), x.dim() - 1) if x.dim() else self.choice([0, -1])

    def dims(self, x):
        """Some dimensions, each once."""
        dims = list(range(x.dim()))
        self.random.shuffle(dims)
        dims = dims[: self.int(0, x.dim())]
        return [d - x.dim() if self.chance(0.3) else d for d in dims]

    def broadcastable(self, shape):
        """A shape that broadcasts with this one."""
        shape = [1 if self.chance(0.2) else n for n in shape]
        return tuple(shape[self.int(0, len(shape)) :] if self.chance(0.3) else shape)

    def number(self, dtype=torch.float32):
        """A Python number."""
        if dtype.is_complex and self.chance(0.3):
            return complex(self.int(-3, 3), self.int(-3, 3))
        if dtype.is_floating_point and self.chance(0.3):
            return self.choice([0.5, -1.5, 2.0, -0.25])
        if dtype == torch.bool and self.chance(0.5):
            return self.choice([True, False])
        return self.choice([0, 1, 2, 3]) if dtype == torch.uint8 else self.choice([-3, -2, 0, 1, 2])

    # ---- values

    def accepts(self, number, kind):
        level = self.levels[number]
        if level == 0 or kind == MOVES:
            return True
        if kind == EXACT or level >= HIGHEST_LEVEL:
            return False
        x = self[number]
        return x.dtype in (torch.float32, torch.float64) and largest(x) <= ROUGH_UP_TO

    def fits(self, number, where):
        """False too where autograd refuses to look at a view whose base was written."""
        try:
            return where(self[number])
        except RuntimeError:
            return False

    def pick(self, kind=EXACT, where=lambda x: True, fresh=True):
        """The number of a value that is fit for a step of this kind."""
        numbers = [n for n in self.numbers if self.accepts(n, kind) and self.fits(n, where)]
        if not numbers:
            raise Nothing
        # Late values are likelier, so that chains become long.
        return numbers[max(self.int(0, len(numbers) - 1), self.int(0, len(numbers) - 1))]

    def fresh(self, shape, dtype, low=-4, high=5, special=False):
        """The number of a new tensor of small integers."""
        unsigned = dtype == torch.uint8
        low, high = (max(low, 0), max(high, 1)) if unsigned else (low, high)
        shape = tuple(shape)
        if self.in_function:
            modulus, factor = max(1, high - low), self.choice([1, 3, 7, 11])
            return self.leaf(
                "counted({shape}, {dtype}, {factor}, {modulus}, {low})",
                dict(shape=shape, dtype=dtype, factor=factor, modulus=modulus, low=low),
            )
        arguments = dict(shape=shape, dtype=dtype, seed=self.sizes(), low=low, high=high)
        template = "data({shape}, {dtype}, {seed}, {low}, {high})"
        if special and dtype.is_floating_point:
            template = template[:-1] + ", True)"
        return self.leaf(template, arguments)

    def distinct(self, shape, dtype):
        """A tensor without equal numbers."""
        if self.in_function:
            raise Nothing
        arguments = dict(shape=tuple(shape), dtype=dtype, seed=self.sizes())
        return self.leaf("distinct({shape}, {dtype}, {seed})", arguments)

    def leaf(self, template, arguments):
        self.add(Step(template, (), arguments, (self.new(),)))
        return self.next - 1

    def partner(self, x, kind=EXACT, dtype=None, same_shape=False):
        """A value that broadcasts with x: one that is there, or a new one."""
        if self.chance(0.7):
            try:
                return self.pick(
                    kind,
                    lambda y: (
                        (y.shape == x.shape if same_shape else broadcasts(x.shape, y.shape))
                        and (dtype is None or y.dtype == dtype)
                    ),
                )
            except Nothing:
                pass
        shape = x.shape if same_shape else self.broadcastable(x.shape)
        return self.fresh(shape, dtype or (x.dtype if self.chance(0.6) else self.dtype()))

    def new(self):
        self.next += 1
        return self.next - 1

    # ---- steps

    def step(self, template, *operands, results=1, **options):
        """A step with new numbers for its results."""
        several = options.pop("several", results > 1)
        writes = options.pop("writes", ())
        kind = options.pop("kind", EXACT)
        body = {key: options.pop(key) for key in ("body", "inputs", "outputs") if key in options}
        arguments = {key: as_argument(value) for key, value in options.items()}
        numbers = tuple(self.new() for _ in range(results))
        return Step(template, operands, arguments, numbers, writes, kind, several, **body)

    def add(self, step):
        """Runs the step on the CPU, and appends it unless the CPU lacks a kernel for it."""
        step.stream = self.stream
        position = len(self.steps)
        self.run.step(position, step)
        error = self.run.errors.pop(position, None)
        if error is not None:
            if any(text in str(error) for text in LACKING):
                return False
            step.error = type(error).__name__
            step.results = ()
            self.steps.append(step)
            return True
        if not all(has_memory(self[n]) for n in step.results):
            return False
        self.steps.append(step)
        base = max((self.levels[n] for n in (*step.operands, *step.inputs)), default=0)
        level = base + (step.kind == ROUGH or (step.kind == SMOOTH and base > 0))
        for n in step.results:
            self.numbers.append(n)
            self.levels[n] = self.level(n, level)
        for n in step.writes:
            self.raise_levels(n, level)
        return True

    def level(self, number, level):
        x = self[number]
        if 0 < level < HIGHEST_LEVEL and x.numel() and not torch.isfinite(x).all():
            return HIGHEST_LEVEL
        level = level or int(not is_exact(x))
        return COARSE if level and x.dtype in (torch.float16, torch.bfloat16) else level

    def raise_levels(self, number, level):
        """Values that share memory with the written value get its level."""
        written = self[number].untyped_storage().data_ptr()
        for n in self.numbers:
            if self[n].untyped_storage().data_ptr() == written:
                self.levels[n] = max(self.levels[n], self.level(n, level))

    def drop(self, number):
        self.numbers.remove(number)

    def write(self, count):
        """Draws that many steps."""
        end = len(self.steps) + count
        for _ in range(20 * count):
            if len(self.steps) >= end:
                break
            row = self.random.choices(self.rows, self.weights)[0]
            try:
                step = row.draw(self)
            except Nothing:
                continue
            except RuntimeError as error:  # of a value that may not be looked at any more
                if "is a view" not in str(error):
                    raise
                continue
            if step is not None:
                self.add(step)


def has_memory(x):
    """Gradients may be zeros without memory, which cannot be compared."""
    return isinstance(x, torch.Tensor) and not x._is_zerotensor()


def as_argument(value):
    return Code(str(value)) if isinstance(value, (torch.memory_format, torch.layout)) else value


def broadcasts(a, b):
    return all(m == n or 1 in (m, n) for m, n in zip(reversed(a), reversed(b)))


def largest(x):
    """The largest magnitude; infinity counts as such, NaN as infinity."""
    if x.numel() == 0 or x.dtype == torch.bool:
        return 0 if x.numel() == 0 else 1
    x = x.detach()
    if not (x.is_floating_point() or x.is_complex()):
        x = x.double()
    elif x.is_complex():
        x = torch.view_as_real(x.resolve_conj()).double()
    return x.double().abs().nan_to_num(math.inf).max().item()


def is_exact(x):
    """Whether the numbers are small enough that steps with them do not round."""
    x = x.detach()
    if x.dtype not in EXACT_UP_TO or x.numel() == 0:
        return True
    numbers = torch.view_as_real(x.resolve_conj()) if x.is_complex() else x
    numbers = numbers.double()
    numbers = numbers[numbers.isfinite()]
    small = (numbers.abs() <= EXACT_UP_TO[x.dtype]).all()
    return bool(small and ((numbers * 4).round() == numbers * 4).all())


def overlaps(x):
    """Whether elements of x share memory."""
    if x.numel() < 2:
        return False
    offsets = torch.zeros((), dtype=torch.int64)
    for size, stride in zip(x.shape, x.stride()):
        offsets = offsets.unsqueeze(-1) + torch.arange(size) * stride
    return offsets.unique().numel() < x.numel()


def shares_memory(x, y):
    return x.untyped_storage().data_ptr() == y.untyped_storage().data_ptr()
