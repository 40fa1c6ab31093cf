"""make_graphed_callables: parts of a network as graphs inside of ordinary autograd.

The next replay overwrites the memory of the graphs. So a call returns copies of results and
gradients, which the caller may keep. The function itself runs if a replay would overwrite values
that a later backward pass reads, or would compute something else.
"""

import contextlib
import copy
import threading
import weakref
from dataclasses import dataclass

import torch
from torch.utils import _pytree as pytree

from .devices import current_device, device, synchronize
from .graphs import Graph, graph, graph_pool_handle
from .streams import Stream, current_stream, stream


@dataclass(eq=False)
class _Part:
    """A callable, and its memory and graphs."""

    function: object  # for a module, its own forward()
    spec: object  # the structure of the arguments
    inputs: tuple  # the memory for the tensors in them, then the parameters
    user_inputs: int
    modules: tuple
    forward: Graph
    backward: Graph
    with_gradients: bool = False
    written: tuple = ()  # positions of arguments that the function changes
    saved: tuple = ()  # parameters that the backward pass reads
    state: object = None
    output_spec: object = None
    outputs: tuple = ()
    kept: tuple = ()  # values that the backward pass reads
    grad_outputs: tuple = ()  # None where an output needs no gradient
    grad_inputs: tuple = ()
    call: object = lambda: None  # weak: the call whose backward pass may still come

    def run(self):
        """The function's outputs as a list, and their structure."""
        inputs = pytree.tree_unflatten(self.inputs[: self.user_inputs], self.spec)
        outputs, spec = pytree.tree_flatten(self.function(*inputs))
        stranger = _other_parameter(outputs, self.inputs)
        if stranger is not None:
            raise ValueError(
                f"make_graphed_callables: the function uses a tensor {tuple(stranger.shape)} that "
                "requires gradients and is no argument: make it one, or pass the module it is of"
            )
        return outputs, spec

    def gradients(self, outputs, grad_outputs, allow_unused):
        return torch.autograd.grad(
            outputs=outputs,
            inputs=tuple(i for i in self.inputs if i.requires_grad),
            grad_outputs=grad_outputs,
            retain_graph=True,  # the backward pass may run twice
            allow_unused=allow_unused,
        )

    def state_now(self):
        """The state, in addition to the arguments, that the graphs depend on."""
        tables = [t for m in self.modules for t in (m._parameters, m._buffers) if t]
        tensors = [each for table in tables for each in table.values() if each is not None]
        return (
            torch.is_autocast_enabled("ocl") and torch.get_autocast_dtype("ocl"),
            [module.training for module in self.modules],
            [id(each) for each in tensors],
            [each.data_ptr() for each in tensors],
        )

    def accepts(self, given, spec):
        """Whether a replay computes the same as the function with these arguments."""
        return (
            spec == self.spec
            and all(map(_alike, self.inputs, given))
            and (self.with_gradients or not torch.is_grad_enabled())
            and not (self.written and _entangled(given, self.written))
            and self.state_now() == self.state
        )

    def replay_forward(self, given):
        for static, each in zip(self.inputs, given):
            static.copy_(each)
        self.forward.replay()
        for position in self.written:
            given[position].copy_(self.inputs[position])
        return _copies(self.outputs)

    def replay_backward(self, grads):
        for static, given in zip(self.grad_outputs, grads, strict=True):
            if static is not None:
                static.copy_(given)
        self.backward.replay()
        return _copies(self.grad_inputs)


class _Shared:
    """The memory of parts that are captured together, which one replay at a time may use."""

    def __init__(self, parts, capture_stream):
        self._parts, self._last = parts, capture_stream
        self._device = current_device()
        self._lock = threading.Lock()

    @contextlib.contextmanager
    def replaying(self):
        with self._lock, device(self._device):
            now = current_stream()
            if now != self._last:
                now.wait_stream(self._last)
                self._last = now
                for part in self._parts:
                    for each in (*part.inputs[: part.user_inputs], *part.grad_outputs):
                        if each is not None:
                            each.record_stream(now)
            yield

    def awaits_backward(self, part):
        """Whether a backward pass is still to come that reads values which the forward pass of
        `part` overwrites: its own, and those of parts captured after it."""
        return any(each.call() for each in self._parts[self._parts.index(part) :])


def make_graphed_callables(
    callables, sample_args, num_warmup_iters=3, allow_unused_input=False, pool=None
):
    """As torch.cuda.make_graphed_callables: functions or modules whose forward and backward passes
    are replays of graphs. Unlike there, results and gradients are the caller's to keep, the sample
    arguments are only read, and calls that differ from the capture run the function itself: other
    shapes, types, modes or parameters, or a second call before the backward pass of the first.

    Args:
        callables: a function or module, or a tuple of them in the order in which they will run.
        sample_args: a tuple of tensors for the callable, or a tuple of such tuples. Shapes and
            requires_grad should be the same as for the real arguments.
        num_warmup_iters: ordinary runs before the capture.
        allow_unused_input: whether inputs may have no influence on the outputs.
        pool: memory to share with other graphs.

    Raises RuntimeError under autocast with caching, ValueError for modules with hooks or buffers
    that require gradients and for functions with parameters that are no arguments, TypeError for
    arguments that are no tensors.
    """
    if torch.is_autocast_enabled("ocl") and torch.is_autocast_cache_enabled():
        raise RuntimeError(
            "make_graphed_callables does not support the cache of autocast: set cache_enabled=False"
        )
    single = not isinstance(callables, tuple)
    if single:
        callables, sample_args = (callables,), (sample_args,)
    parts = [_describe(each, args) for each, args in zip(callables, sample_args, strict=True)]
    pool = graph_pool_handle() if pool is None else pool

    synchronize()
    with stream(Stream()):
        for part in parts:
            for _ in range(num_warmup_iters):
                _warm_up(part, allow_unused_input)
    synchronize()
    # Captured in the order in which they will run, because they share memory.
    for part in parts:
        _capture_forward(part, pool)
    for part in reversed(parts):
        _capture_backward(part, pool, allow_unused_input)
    shared = _Shared(parts, current_stream())
    graphed = tuple(map(_replace, callables, parts, [shared] * len(parts)))
    return graphed[0] if single else graphed


def _describe(function, arguments):
    samples, spec = pytree.tree_flatten(tuple(arguments))
    if not all(isinstance(each, torch.Tensor) for each in samples):
        raise TypeError("make_graphed_callables: sample_args must contain only tensors")
    inputs = [each.detach().clone().requires_grad_(each.requires_grad) for each in samples]
    modules = ()
    if isinstance(function, torch.nn.Module):
        if function._backward_hooks or function._forward_hooks or function._forward_pre_hooks:
            raise ValueError(
                "make_graphed_callables: modules must have no hooks yet; register them afterwards"
            )
        if any(buffer.requires_grad for buffer in function.buffers()):
            raise ValueError("make_graphed_callables: only parameters may require gradients")
        modules, inputs = tuple(function.modules()), [*inputs, *function.parameters()]
        function = function.forward
    return _Part(function, spec, tuple(inputs), len(samples), modules, Graph(), Graph())


def _warm_up(part, allow_unused):
    outputs = [o for o in part.run()[0] if o.requires_grad]
    if outputs:
        part.gradients(outputs, [torch.empty_like(o) for o in outputs], allow_unused)


def _capture_forward(part, pool):
    kept, inputs = [], part.inputs[: part.user_inputs]

    def note(tensor):
        kept.append(tensor.detach())
        return kept[-1]  # the tensor itself would keep autograd's graph alive

    part.state, part.with_gradients = part.state_now(), torch.is_grad_enabled()
    versions = [each._version for each in inputs]
    notes = torch.autograd.graph.saved_tensors_hooks(note, lambda tensor: tensor)
    with graph(part.forward, pool=pool), notes:
        part.outputs, part.output_spec = part.run()
    if part.state_now() != part.state:
        raise ValueError(
            "make_graphed_callables: the module's forward() replaces a parameter or buffer, or "
            "changes its mode; a graph needs them changed in place"
        )
    part.written = tuple(k for k, v in enumerate(versions) if inputs[k]._version != v)
    part.kept, memory = tuple(kept), {each.untyped_storage()._cdata for each in kept}
    part.saved = tuple(
        p for p in part.inputs[part.user_inputs :] if p.untyped_storage()._cdata in memory
    )


def _capture_backward(part, pool, allow_unused):
    part.grad_outputs = tuple(
        torch.empty_like(o) if o.requires_grad else None for o in part.outputs
    )
    outputs = tuple(o for o in part.outputs if o.requires_grad)
    found = iter(())
    if outputs:
        with graph(part.backward, pool=pool):
            found = iter(
                part.gradients(
                    outputs, tuple(g for g in part.grad_outputs if g is not None), allow_unused
                )
            )
    part.grad_inputs = tuple(
        next(found) if each.requires_grad and outputs else None for each in part.inputs
    )
    # Detached from autograd's graph, whose nodes for parameters belong to the capture's stream.
    part.outputs = tuple(o.detach() for o in part.outputs)


def _other_parameter(outputs, inputs):
    """A leaf of the outputs' autograd graph that is not among the inputs, or None."""
    known = {id(each) for each in inputs}
    nodes, seen = [output.grad_fn for output in outputs], set()
    while nodes:
        node = nodes.pop()
        if node is None or node in seen:
            continue
        seen.add(node)
        leaf = getattr(node, "variable", None)
        if leaf is not None and id(leaf) not in known:
            return leaf
        nodes.extend(following for following, _ in node.next_functions)
    return None


def _alike(static, given):
    return (
        isinstance(given, torch.Tensor)
        and given.shape == static.shape
        and given.dtype == static.dtype
        and given.device == static.device
        and (static.requires_grad or not (given.requires_grad and torch.is_grad_enabled()))
    )


def _entangled(given, written):
    """Whether a copy cannot replace an argument that is changed."""
    memory = {each.untyped_storage()._cdata for each in given}
    return len(memory) < len(given) or any(given[k].requires_grad for k in written)


def _copies(tensors):
    """Copies to new memory, by one kernel."""
    copies = [None if each is None else torch.empty_like(each) for each in tensors]
    if any(each is not None for each in tensors):
        torch._foreach_copy_(
            [each for each in copies if each is not None],
            [each for each in tensors if each is not None],
        )
    return tuple(copies)


def _operator(part, shared):
    class Graphed(torch.autograd.Function):
        @staticmethod
        def forward(context, *inputs):
            with shared.replaying():
                results = part.replay_forward(inputs[: part.user_inputs])
                part.call = weakref.ref(context)
            context.save_for_backward(*part.saved)  # so that autograd sees when they are changed
            constant = [r for r, g in zip(results, part.grad_outputs) if g is None]
            context.mark_non_differentiable(*constant)
            return results

        @staticmethod
        @torch.autograd.function.once_differentiable
        def backward(context, *grads):
            _ = context.saved_tensors
            with shared.replaying():
                if part.call() is not context:
                    raise RuntimeError(
                        "Trying to backward through the graph of a graphed callable a second time: "
                        "specify retain_graph=True for the first backward pass"
                    )
                if not torch._C._autograd._get_current_graph_task_keep_graph():
                    part.call = lambda: None
                return part.replay_backward(grads)

    return Graphed


class _Graphed:
    """Replaces the function, or the module's forward()."""

    def __init__(self, part, shared):
        self._part, self._shared = part, shared
        self._operator = _operator(part, shared)

    def __call__(self, *arguments, **options):
        part = self._part
        given, spec = pytree.tree_flatten(arguments)
        if options or self._shared.awaits_backward(part) or not part.accepts(given, spec):
            return part.function(*arguments, **options)
        outputs = self._operator.apply(*given, *part.inputs[part.user_inputs :])
        return pytree.tree_unflatten(outputs, part.output_spec)

    def __deepcopy__(self, memo):
        """The graphs use this module's parameters, so a copy of the module has no graphs."""
        return copy.deepcopy(self._part.function, memo)


def _replace(function, part, shared):
    """The function, or the module with another forward()."""
    graphed = _Graphed(part, shared)
    if not isinstance(function, torch.nn.Module):
        return graphed
    function.forward = graphed
    return function
