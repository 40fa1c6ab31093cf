"""Programs as data: a Step is a template with the numbers of its operands and its arguments. So a
program can be printed as a script, replayed, and shrunk. What is printed is what runs.

    Step("torch.add({0}, {1}, alpha={alpha})", (3, 5), {"alpha": 2}, results=(7,))
    v7 = torch.add(v3, v5, alpha=2)
"""

import dataclasses
import linecache
import math

import helpers
import torch

# How a step treats numbers: see author.py.
EXACT, MOVES, SMOOTH, ROUGH = "exact", "moves", "smooth", "rough"


@dataclasses.dataclass
class Step:
    template: str
    operands: tuple = ()
    arguments: dict = dataclasses.field(default_factory=dict)
    results: tuple = ()
    writes: tuple = ()  # operands that it changes in place
    kind: str = EXACT
    several: bool = False  # the expression has a tuple or list of results
    stream: int = 0  # number of the stream; they wait for each other where it changes
    body: list = None  # steps of a function that is called `function` in the template
    inputs: tuple = ()  # the numbers of the function's arguments
    outputs: tuple = ()  # the numbers of what it returns
    error: str = None  # the class of the error that the CPU raises

    def expression(self):
        names = [f"v{n}" for n in self.operands]
        arguments = {key: literal(value) for key, value in self.arguments.items()}
        return self.template.format(*names, **arguments)

    def assignment(self):
        if not self.results:
            return self.expression()
        targets = ", ".join(f"v{n}" for n in self.results)
        comma = "," if self.several and len(self.results) == 1 else ""
        return f"{targets}{comma} = {self.expression()}"

    def lines(self):
        """The statements of this step."""
        if self.body is None:
            return [self.assignment()]
        head = f"def function({', '.join(f'v{n}' for n in self.inputs)}):"
        inner = [f"    {line}" for step in self.body for line in step.lines()]
        returned = ", ".join(f"v{n}" for n in self.outputs)
        return [head, *inner, f"    return ({returned},)", self.assignment()]


def literal(value):
    """Python source of an argument."""
    if isinstance(value, float) and not math.isfinite(value):
        return f"float('{value}')"
    if isinstance(value, (list, tuple)):
        inner = ", ".join(literal(item) for item in value)
        return f"[{inner}]" if isinstance(value, list) else f"({inner}{',' * (len(value) == 1)})"
    if isinstance(value, Code):
        return value.text
    return repr(value)


@dataclasses.dataclass(frozen=True)
class Code:
    """An argument that is written into a program as it is."""

    text: str


def script(steps, device, note=""):
    """The program as a script of its own, which prints what the device and the CPU compute."""
    text = "\n".join(line for step in steps for line in stream_lines(step))
    lines = ["import torch", "import torch.nn.functional as F", "import torch_ocl"]
    lines.append(f'device = "{device}"')
    lines += [f"# {line}" for line in note.splitlines()]
    return "\n".join([*lines, *helpers.sources(text), text]) + "\n"


def stream_lines(step):
    lines = step.lines()
    if step.error:
        lines = indented("try:", lines) + indented(f"except {step.error}:", ["pass"])
    return indented(f"with on_stream({step.stream}):", lines) if step.stream else lines


def indented(head, lines):
    return [head, *[f"    {line}" for line in lines]]


class Run:
    """The variables of a program that runs on a device, and the errors of its steps."""

    count = 0

    def __init__(self, device):
        self.device = device
        self.names = {"torch": torch, "F": torch.nn.functional, "device": device}
        self.names["GRAPHS"] = []
        self.names.update({name: getattr(helpers, name) for name in helpers.NAMES})
        for name in helpers.BOUND:
            self.names[name] = helpers.bound(name, self.names)
        self.errors = {}  # step's position: exception

    def step(self, position, step):
        """Runs the step; an exception is kept."""
        source = "\n".join(step.lines())
        Run.count += 1
        name = f"<step {position} of program {Run.count}>"
        if step.body is not None:  # torch.compile looks for the source
            linecache.cache[name] = (len(source), None, [f"{x}\n" for x in step.lines()], name)
        try:
            with helpers.on_stream(step.stream, self.device):
                exec(compile(source, name, "exec"), self.names)
        except Exception as error:
            self.errors[position] = error
        finally:
            linecache.cache.pop(name, None)

    def __getitem__(self, number):
        return self.names.get(f"v{number}")


def operators_in(steps):
    """How many operators the steps call, those inside of functions included."""
    return sum(1 + (operators_in(step.body) if step.body else 0) for step in steps)
