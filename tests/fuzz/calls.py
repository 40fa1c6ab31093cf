"""Calls of operators, as they are recorded: what mutations.py changes.

usage: calls.py FILE

Writes the calls that PyTorch's database of operators and tests/kernels make, forwards and
backwards, of the operators that have a kernel here. What they do not call is called with arguments
that are made from its schema. A call is (operator, positional arguments,
named arguments), with tensors of the CPU.
"""

import contextlib
import multiprocessing
import pathlib
import pickle
import sys
import warnings

import torch
from torch.testing._internal.common_methods_invocations import op_db
from torch.utils._python_dispatch import TorchDispatchMode
from torch.utils._pytree import tree_flatten, tree_leaves, tree_map

import torch_ocl  # noqa: F401 (the device)

TESTS = pathlib.Path(__file__).resolve().parents[1]
sys.path.insert(0, str(TESTS / "python/common"))
import vision_formulas  # noqa: E402, F401 (torchvision's schemas, where it is not installed)

MOST_NUMBERS = 3000  # of a call
CALLS_OF_AN_OPERATOR = 4
CALLS_OF_A_SCHEMA = 2
SECONDS_OF_A_SCHEMA = 60
SAMPLES = 3
SMALLEST = 3  # the size of tests/kernels


def with_kernel():
    """Names of the operators that have a kernel here, as "aten::add.Tensor"."""
    return set(torch._C._dispatch_get_registrations_for_dispatch_key("PrivateUse1"))


def operator(name):
    """torch.ops's operator of this name, or None."""
    library, _, rest = name.partition("::")
    base, _, overload = rest.partition(".")
    packet = getattr(getattr(torch.ops, library), base, None)
    return getattr(packet, overload or "default", None)


def to_device(tree, device):
    """A copy of a call's arguments, with tensors on the device."""

    def move(leaf):
        if isinstance(leaf, torch.Tensor):
            return leaf.detach().to(device, copy=True)
        return torch.device(device) if isinstance(leaf, torch.device) else leaf

    return tree_map(move, tree)


def kind(leaf):
    if isinstance(leaf, torch.Tensor):
        return str(leaf.dtype.is_floating_point), leaf.dim()
    return leaf if isinstance(leaf, (str, bool, type(None))) else type(leaf).__name__


def is_plain(tree):
    """Whether all tensors are small, strided and have memory."""
    tensors = [x for x in tree_leaves(tree) if isinstance(x, torch.Tensor)]
    return (
        all(x.layout == torch.strided and not x.is_quantized for x in tensors)
        and all(x.device.type in ("cpu", "ocl") for x in tensors)
        and sum(x.numel() for x in tensors) <= MOST_NUMBERS
    )


class Recorder(TorchDispatchMode):
    """Keeps a few calls of each operator that differ in more than their numbers."""

    def __init__(self):
        super().__init__()
        self.wanted = with_kernel()
        self.calls = {}  # {operator: {signature: call}}

    def __torch_dispatch__(self, func, types, args=(), kwargs=None):
        kwargs = kwargs or {}
        before = None
        if func.name() in self.wanted and is_plain((args, kwargs)):
            before = to_device((args, kwargs), "cpu")
        results = func(*args, **kwargs)
        if before is not None:
            self.keep(func.name(), *before)
            self.keep_with_out(func, *before, results)
        return results

    def keep(self, name, args, kwargs):
        leaves, form = tree_flatten((args, kwargs))
        signature = (str(form), *map(str, map(kind, leaves)))
        known = self.calls.setdefault(name, {})
        if len(known) < CALLS_OF_AN_OPERATOR:
            known.setdefault(signature, (name, args, kwargs))

    def keep_with_out(self, func, args, kwargs, results):
        """The same call of the operator that writes its results to given tensors."""
        results = results if isinstance(results, (tuple, list)) else [results]
        if not all(isinstance(x, torch.Tensor) for x in results) or not is_plain(results):
            return
        taken = [(a.name, str(a.type)) for a in func._schema.arguments]
        for overload in func.overloadpacket.overloads():
            other = getattr(func.overloadpacket, overload)
            given = [a for a in other._schema.arguments if not a.is_out]
            outs = [a.name for a in other._schema.arguments if a.is_out]
            alike = [(a.name, str(a.type)) for a in given] == taken
            if alike and outs and len(outs) == len(results) and other.name() in self.wanted:
                copies = to_device(list(results), "cpu")
                self.keep(other.name(), args, kwargs | dict(zip(outs, copies, strict=True)))

    def list(self):
        return [call for name in sorted(self.calls) for call in self.calls[name].values()]


def run_with_gradients(function, inputs):
    results = function(*inputs)
    floating = [x for x in tree_leaves(results) if isinstance(x, torch.Tensor) and x.requires_grad]
    if floating:
        torch.autograd.backward(floating, [torch.ones_like(x) for x in floating])


def run_database(recorder, names=None):
    """A few samples of each operator of PyTorch's database, on the CPU."""
    for info in op_db:
        if names is not None and info.name not in names:
            continue
        types = info.supported_dtypes("cpu")
        dtype = next((t for t in (torch.float32, torch.int64) if t in types), None)
        if dtype is None:
            continue
        gradients = info.supports_autograd and dtype.is_floating_point
        try:
            samples = list(info.sample_inputs("cpu", dtype, requires_grad=gradients))
        except Exception:
            continue  # needs a library that is absent
        for sample in samples[:: max(1, len(samples) // SAMPLES)]:
            try:
                with recorder:
                    inputs = (sample.input, *sample.args)
                    run_with_gradients(lambda *a, s=sample, f=info: f(*a, **s.kwargs), inputs)
            except Exception:
                continue  # what it did before is recorded


def run_kernel_cases(recorder, device="ocl", cases=None):
    """The calls of tests/kernels, on the device, where some operators differ from the CPU's."""
    sys.path.insert(0, str(TESTS / "kernels"))
    import test_cases
    from case_support import Maker

    for case in test_cases.CASES:
        if cases is None or case.__name__ in cases:
            try:
                with recorder:
                    case(Maker(device), SMALLEST)
            except RuntimeError as error:  # ctc_loss keeps its lengths on the CPU within a mode
                print(f"{case.__name__}: {error}")


def send_accepted(pipe, names, subject):
    """Sends the numbers of the first sets of the sweep of names that the CPU takes."""
    torch.set_num_threads(1)
    found = []
    for number in range(48):
        parts = subject.parts(number, grad=False)
        if is_plain(parts) and names.accepted(subject, parts, grad=False):
            found.append(number)
        if len(found) == CALLS_OF_A_SCHEMA:
            break
    pipe.send(found)


def calls_from_schemas(operators):
    """Calls of these operators; wrong arguments may end the process, so a child tries them."""
    sys.path.insert(0, str(TESTS / "conformance"))
    sys.modules.pop("cases", None)  # the one of tests/kernels
    import names

    for name in operators:
        if name not in names.SUBJECTS or names.BY_HAND.search(name):
            continue
        subject = names.SUBJECTS[name]()
        pipe, of_child = multiprocessing.Pipe()
        child = multiprocessing.get_context("fork").Process(
            target=send_accepted, args=(of_child, names, subject)
        )
        child.start()
        of_child.close()
        with contextlib.suppress(EOFError):
            if pipe.poll(SECONDS_OF_A_SCHEMA):
                yield from ((name, *subject.parts(n, grad=False)) for n in pipe.recv())
        child.kill()
        child.join()


def main(path):
    warnings.simplefilter("ignore")
    torch.manual_seed(0)
    recorder = Recorder()
    run_kernel_cases(recorder)
    run_database(recorder)
    from calls_by_hand import calls_by_hand

    calls = recorder.list() + calls_by_hand()
    calls += calls_from_schemas(sorted(recorder.wanted - {name for name, _, _ in calls}))
    pathlib.Path(path).write_bytes(pickle.dumps(calls))  # torch.save() refuses memory formats
    absent = sorted(recorder.wanted - {name for name, _, _ in calls})
    print(f"{len(calls)} calls of {len({c[0] for c in calls})} operators in {path}")
    print(f"without a call: {', '.join(absent)}")


if __name__ == "__main__":
    main(sys.argv[1])
