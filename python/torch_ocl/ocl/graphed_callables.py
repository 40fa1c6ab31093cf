"""make_graphed_callables: parts of a network as graphs inside of ordinary autograd."""

from dataclasses import dataclass

import torch
from torch.utils import _pytree as pytree

from .devices import synchronize
from .graphs import Graph, graph, graph_pool_handle
from .streams import Stream, stream


@dataclass
class _Part:
    """A callable, and its memory and graphs."""

    function: object
    arguments: tuple  # as the caller gave them
    inputs: tuple  # the tensors in them, then the parameters
    user_inputs: int
    forward: Graph
    backward: Graph
    spec: object = None
    outputs: tuple = ()
    grad_outputs: tuple = ()  # None where an output needs no gradient
    grad_inputs: tuple = ()

    def gradients(self, outputs, grad_outputs, allow_unused):
        return torch.autograd.grad(
            outputs=outputs,
            inputs=tuple(i for i in self.inputs if i.requires_grad),
            grad_outputs=grad_outputs,
            only_inputs=True,
            allow_unused=allow_unused,
        )


def make_graphed_callables(
    callables, sample_args, num_warmup_iters=3, allow_unused_input=False, pool=None
):
    """As torch.cuda.make_graphed_callables: functions or modules whose forward and backward passes
    are replays of graphs.

    Args:
        callables: a function or module, or a tuple of them in the order in which they will run.
        sample_args: a tuple of tensors for the callable, or a tuple of such tuples. Shapes and
            requires_grad must be the same as for the real arguments.
        num_warmup_iters: ordinary runs before the capture.
        allow_unused_input: whether inputs may have no influence on the outputs.
        pool: memory to share with other graphs.

    Raises RuntimeError under autocast with caching, ValueError for modules with hooks or buffers
    that require gradients, TypeError for arguments that are no tensors.
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
        with graph(part.forward, pool=pool):
            result = part.function(*part.arguments)
        outputs, part.spec = pytree.tree_flatten(result)
        part.outputs = tuple(outputs)
    for part in reversed(parts):
        _capture_backward(part, pool, allow_unused_input)
    graphed = tuple(_replace(part) for part in parts)
    return graphed[0] if single else graphed


def _describe(function, arguments):
    inputs = tuple(pytree.arg_tree_leaves(*arguments))
    if not all(isinstance(each, torch.Tensor) for each in inputs):
        raise TypeError("make_graphed_callables: sample_args must contain only tensors")
    parameters = ()
    if isinstance(function, torch.nn.Module):
        if function._backward_hooks or function._forward_hooks or function._forward_pre_hooks:
            raise ValueError(
                "make_graphed_callables: modules must have no hooks yet; register them afterwards"
            )
        if any(buffer.requires_grad for buffer in function.buffers()):
            raise ValueError("make_graphed_callables: only parameters may require gradients")
        parameters = tuple(function.parameters())
    return _Part(function, arguments, inputs + parameters, len(inputs), Graph(), Graph())


def _warm_up(part, allow_unused):
    outputs = [o for o in pytree.tree_leaves(part.function(*part.arguments)) if o.requires_grad]
    if outputs:
        part.gradients(outputs, [torch.empty_like(o) for o in outputs], allow_unused)


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


def _replace(part):
    """The function, or the module with another forward()."""

    class Graphed(torch.autograd.Function):
        @staticmethod
        def forward(_, *inputs):
            for static, given in zip(part.inputs[: part.user_inputs], inputs, strict=False):
                if static.data_ptr() != given.data_ptr():
                    static.copy_(given)
            part.forward.replay()
            return tuple(o.detach() for o in part.outputs)

        @staticmethod
        @torch.autograd.function.once_differentiable
        def backward(_, *grads):
            for static, given in zip(part.grad_outputs, grads, strict=True):
                if static is not None and static.data_ptr() != given.data_ptr():
                    static.copy_(given)
            part.backward.replay()
            return tuple(None if g is None else g.detach() for g in part.grad_inputs)

    def call(*arguments):
        given = tuple(pytree.arg_tree_leaves(*arguments))
        outputs = Graphed.apply(*given, *part.inputs[part.user_inputs :])
        return pytree.tree_unflatten(outputs, part.spec)

    module = part.function
    if not isinstance(module, torch.nn.Module):
        return call
    training, eager = module.training, module.forward

    def forward(*arguments, **options):
        # Only this mode was captured.
        if module.training == training:
            return call(*arguments, **options)
        return eager(*arguments, **options)

    module.forward = forward
    return module
