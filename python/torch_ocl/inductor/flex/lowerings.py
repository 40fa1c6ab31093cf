"""Lowers the operators of flex_attention to calls of kernels."""

import math
import warnings

import sympy
import torch
from torch._inductor import lowering
from torch._inductor.ir import ExternKernel, TensorBox
from torch._inductor.kernel.flex import flex_attention as upstream
from torch._inductor.kernel.flex.common import (
    build_subgraph_buffer,
    create_placeholder,
    freeze_irnodes,
    infer_dense_strides,
    maybe_realize,
)
from torch._inductor.virtualized import V

from .functions import INDICES
from .program import FORWARD, GRAD_KEY, GRAD_QUERY, Attention, FlexCall

aten = torch.ops.aten
# The positions of a block mask's tensors in the operators' argument.
_OF_KEYS, _OF_QUERIES = slice(2, 6), slice(6, 10)
_copy = lowering.fallback_handler(aten._to_copy.default, add_to_fallback_set=False)
_TYPES = (torch.float16, torch.bfloat16, torch.float32, torch.float64)


def _placeholders(query, *names):
    device = query.get_device()
    types = dict.fromkeys(INDICES, torch.int32)
    return [create_placeholder(n, types.get(n, query.get_dtype()), device) for n in names]


def _captured(buffers, device, real):
    """Puts everything that the functions read into memory that kernels can read."""

    def realized(x):
        if not isinstance(x, TensorBox):
            return x  # a number, which is an argument of kernels
        if x.get_device().type != "cpu":
            return maybe_realize([x])[0]
        if x.get_size():
            raise RuntimeError(
                f"score_mod or mask_mod reads a tensor of shape {list(x.get_size())} on the CPU, "
                f"but queries are on {device}: move it with to()"
            )
        # Converts Python's numbers from float64, in which scores are not computed.
        dtype = real if x.get_dtype() == torch.float64 else x.get_dtype()
        return maybe_realize([_copy(x, dtype=dtype, device=device)])[0]

    buffers = [realized(x) for x in buffers]
    freeze_irnodes(buffers)
    return buffers


def _subgraph(placeholders, captured, graph):
    nodes = graph.graph_module.graph
    for node in nodes.find_nodes(op="call_function", target=aten._local_scalar_dense.default):
        node.replace_all_uses_with(node.args[0])  # a number that differs from call to call
        nodes.erase_node(node)
    known = V.graph.name_to_buffer
    names = {box.get_name(): box.data for box in placeholders}
    known.update(names)  # lowerings ask for the types of their inputs
    try:
        buffers = build_subgraph_buffer([*placeholders, *captured], graph)
    finally:
        for name in names:
            del known[name]
    freeze_irnodes(buffers)
    return buffers


def _attention(
    query, key, value, score_mod, block_mask, scale, kernel_options, captured, parts
) -> Attention:
    if kernel_options.get("BACKEND") == "FLASH":  # its statistics have another base
        raise RuntimeError("flex_attention has no BACKEND='FLASH' on ocl: leave the option out")
    query, key, value = maybe_realize([query, key, value])
    known = V.graph.sizevars.guard_int
    for tensor in (query, key, value):
        known(tensor.get_size()[1])
        known(tensor.get_size()[3])
        if tensor.get_dtype() not in _TYPES:
            raise NotImplementedError(
                f"flex_attention on ocl is not compiled for {tensor.get_dtype()}: use one of "
                f"{', '.join(str(dtype) for dtype in _TYPES)}"
            )
    batch, key_batch = query.get_size()[0], key.get_size()[0]
    V.graph.sizevars.check(sympy.Eq(batch, key_batch) | sympy.Eq(key_batch, 1))
    if not V.graph.sizevars.evaluate_expr(sympy.Gt(key.get_size()[2], 0)):
        raise IndexError("flex_attention needs at least one key")
    if 0 in (known(query.get_size()[3]), known(value.get_size()[3])):
        raise NotImplementedError(
            "flex_attention on ocl is not compiled for heads without elements: "
            f"queries are {query.get_size()}, values {value.get_size()}"
        )
    real = torch.float64 if query.get_dtype() == torch.float64 else torch.float32
    of_score, of_mask = (_captured(buffers, query.get_device(), real) for buffers in captured)
    score_inputs = _placeholders(query, "score", *INDICES)
    mask = {name: tuple(maybe_realize(list(block_mask[part]))) for name, part in parts.items()}
    return Attention(
        query,
        key,
        value,
        mask,
        (known(block_mask[-3]), known(block_mask[-2])),
        scale,
        _subgraph(score_inputs, of_score, score_mod),
        _subgraph(score_inputs[1:], of_mask, block_mask[-1]),
        [*of_score, *of_mask],
    )


def _empty(query, size, like=None, dtype=None):
    """A result whose order of dimensions in memory is that of `like`."""
    strides = None if like is None else infer_dense_strides(size, like.get_stride())
    dtype = dtype or query.get_dtype()
    return lowering.empty_strided(size, strides, dtype=dtype, device=query.get_device())


def _forward(
    query, key, value, score_mod, block_mask, scale, kernel_options, of_score=(), of_mask=()
):
    parts = {"key": _OF_KEYS}
    buffers = of_score, of_mask
    call = query, key, value, score_mod, block_mask, scale, kernel_options, buffers, parts
    attention = _attention(*call)
    query = attention.query
    batch, heads, queries, _, _, _, value_depth = attention.sizes
    rows = [batch, heads, queries]
    results = {
        "OUT": _empty(query, [*rows, value_depth], query),
        "LOG_SUM": _empty(query, rows, dtype=torch.float32),
        "GREATEST": _empty(query, rows, dtype=torch.float32),
    }
    functions = {"mask_mod": [attention.mask_mod], "score_mod": [attention.score_mod]}
    FlexCall(FORWARD, attention, {}, results, functions)
    return tuple(results.values())


def _backward(
    query,
    key,
    value,
    out,
    log_sum,
    grad_out,
    grad_log_sum,
    score_mod,
    joint_graph,
    block_mask,
    scale,
    kernel_options,
    of_score=(),
    of_mask=(),
):
    joint_graph.graph_module.graph.eliminate_dead_code()
    upstream.validate_joint_graph(joint_graph.graph_module.graph)
    parts = {"key": _OF_KEYS, "query": _OF_QUERIES}
    buffers = of_score, of_mask
    call = query, key, value, score_mod, block_mask, scale, kernel_options, buffers, parts
    attention = _attention(*call)
    query = attention.query
    batch, heads, queries, keys, key_heads, depth, value_depth = attention.sizes

    inputs = _placeholders(query, "score", *INDICES, "grad_score_mod")
    captured = attention.captured[: len(of_score)]
    joint = _subgraph(inputs, captured, joint_graph)
    if joint[0] is None:
        raise NotImplementedError(
            "flex_attention has gradients only where the result of score_mod depends on the "
            "score: add 0 * score to it, or detach() queries, keys and values"
        )
    if any(grad is not None and grad.name is None for grad in joint[len(inputs) - 1 :]):
        raise NotImplementedError(
            "a tensor without dimensions that score_mod reads cannot get a gradient from "
            "flex_attention: give it one dimension, x[None], and read x[0]"
        )
    joint = upstream.process_joint_outputs(joint, len(inputs))

    lowered = lowering.lowerings
    if grad_out is None:  # only the logarithms of sums have gradients
        grad_out = lowering.zeros_like(out)
    of_rows = (lowering.to_dtype(x, attention.real) for x in (out, grad_out))
    delta = lowered[aten.sum](lowered[aten.mul](*of_rows), axis=-1)
    if grad_log_sum is not None:
        delta = lowered[aten.sub](delta, lowered[aten.mul](grad_log_sum, 1 / math.log(2)))
    log_sum, grad_out, delta = (ExternKernel.realize_input(x) for x in (log_sum, grad_out, delta))
    operands = {"LOG_SUM": log_sum, "GRAD": grad_out, "DELTA": delta}

    grad_query = _empty(query, [batch, heads, queries, depth], query)
    grad_key = _empty(query, [batch, key_heads, keys, depth], attention.key)
    grad_value = _empty(query, [batch, key_heads, keys, value_depth], attention.value)
    functions = {
        "mask_mod": [attention.mask_mod],
        "score_mod": [attention.score_mod],
        "score_grad": [joint.grad_input],
    }
    if joint.mutated_grads:
        _alert_not_deterministic()
    by_query = functions | {"add_captured_grads": joint.captured_grads_compute}
    written = {f"captured{n}": grad for n, grad in enumerate(joint.mutated_grads)}
    if V.graph.sizevars.statically_known_equals(queries, 0):
        # Without queries, their tensors have no memory that kernels could take.
        grad_key, grad_value = (lowering.zeros_like(x) for x in (grad_key, grad_value))
    else:
        results = {"GRAD_QUERY": grad_query} | written
        FlexCall(GRAD_QUERY, attention, operands, results, by_query)
        results = {"GRAD_KEY": grad_key, "GRAD_VALUE": grad_value}
        FlexCall(GRAD_KEY, attention, operands, results, functions)

    if not V.graph.sizevars.evaluate_expr(sympy.Eq(batch, attention.key.get_size()[0])):
        grad_key, grad_value = (
            lowered[aten.sum](x, axis=0, keepdims=True) for x in (grad_key, grad_value)
        )
    captured_grads = tuple(
        lowering.to_dtype(grad, tensor.get_dtype()) if grad is not None else None
        for grad, tensor in zip(joint.captured_grads, captured)
    )
    return grad_query, grad_key, grad_value, captured_grads


def _alert_not_deterministic() -> None:
    """Raises or warns, as at::globalContext().alertNotDeterministic() does."""
    if not torch.are_deterministic_algorithms_enabled():
        return
    text = (
        "the gradients of tensors that score_mod reads are sums in any order on ocl, but you set "
        "torch.use_deterministic_algorithms(True)"
    )
    if not torch.is_deterministic_algorithms_warn_only_enabled():
        raise RuntimeError(f"{text}: detach() the tensors, or allow warnings with warn_only=True")
    warnings.warn(text, stacklevel=2)


def register() -> None:
    operators = torch.ops.higher_order
    _register(operators.flex_attention, _forward)
    _register(operators.flex_attention_backward, _backward)


def _register(operator, lower) -> None:
    original = lowering.lowerings[operator]

    def lower_on_ocl(query, *args, **kwargs):
        on_ocl = query.get_device().type == "ocl"
        return (lower if on_ocl else original)(query, *args, **kwargs)

    lowering.lowerings[operator] = lower_on_ocl
