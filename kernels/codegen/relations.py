"""Relations between the sizes of arguments, which kernels rely on. Generated wrappers check them.

Most of these operators are derivatives. Autograd calls them with what the forward operator gave,
but anyone may call them. Relations are separated by ";", and skipped where an optional tensor is
absent:

    a ~ b              a has the sizes of b
    a ~-2 b            the same, except for the last two dimensions
    a [m, n]           a has these sizes; m and n are C++ expressions of the arguments
    a {m, n}           a has m * n elements
    n % group          group is positive and divides n
    padding # 4        the list has 4 numbers
"""

import re

RELATIONS = {
    "_softmax_backward_data,_log_softmax_backward_data": "grad_output ~ output",
    # Norms
    "native_layer_norm_backward": "grad_out ~ input;"
    "mean {ocl::leading(input, normalized_shape.size())}; rstd ~ mean",
    "_fused_rms_norm_backward": "grad_out ~ input;"
    "rstd {ocl::leading(input, normalized_shape.size())}",
    "native_group_norm_backward": "C % group; input {N, C, HxW}; grad_out ~ input;"
    "mean {N, group}; rstd {N, group}; weight {C}",
    "native_batch_norm_backward,batch_norm_backward": "grad_out ~ input;weight [input.size(1)]",
    "_weight_norm_interface_backward": "grad_w ~ saved_v; saved_g ~ saved_norms",
    # Windows
    "_adaptive_avg_pool2d_backward": "grad_output ~-2 self",
    "_adaptive_avg_pool3d_backward,adaptive_avg_pool3d_backward": "grad_output ~-3 self",
    "adaptive_max_pool2d_backward": "grad_output ~-2 self; indices ~ grad_output",
    "adaptive_max_pool3d_backward": "grad_output ~-3 self; indices ~ grad_output",
    "fractional_max_pool2d_backward": "output_size # 2; grad_output ~-2 self;indices ~ grad_output",
    "fractional_max_pool3d_backward": "output_size # 3; grad_output ~-3 self;indices ~ grad_output",
    "reflection_pad1d_backward,replication_pad1d_backward": "padding # 2",
    "reflection_pad2d_backward,replication_pad2d_backward": "padding # 4",
    "reflection_pad3d_backward,replication_pad3d_backward": "padding # 6",
    # Others
    "_thnn_fused_lstm_cell_backward_impl": "cy ~ cx; grad_hy ~ cx; grad_cy ~ cx;"
    "workspace [cx.size(0), 4 * cx.size(1)]",
    "_thnn_fused_gru_cell_backward": "workspace [grad_hy.size(0), 5 * grad_hy.size(1)]",
    "embedding_dense_backward": "grad_output {indices.numel(), grad_output.size(-1)}",
    "_cdist_backward": "grad_output ~ cdist",
    "_pdist_backward": "grad_output ~ pdist",
    "_segment_reduce_backward": "grad ~ output",
}

# Before PyTorch 2.14, grad_output of these operators is grad.
RENAMED = ("_cdist_backward", "_pdist_backward")

_SAME = re.compile(r"(\w+) ~(?:-(\d+))? (\w+)$")
_SIZES = re.compile(r"(\w+) \[(.*)\]$")
_COUNT = re.compile(r"(\w+) \{(.*)\}$")
_LENGTH = re.compile(r"(\w+) # (\d)$")
_DIVIDES = re.compile(r"(\w+) % (\w+)$")


def _check(relation):
    """The call of a method of ocl::Relations."""
    if m := _SAME.match(relation):
        return f'same("{m[1]}", {m[1]}, "{m[3]}", {m[3]}, {m[2] or 0})'
    if m := _SIZES.match(relation):
        return f'sizes("{m[1]}", {m[1]}, {{{m[2]}}})'
    if m := _COUNT.match(relation):
        return f'count("{m[1]}", {m[1]}, {{{m[2]}}})'
    if m := _LENGTH.match(relation):
        return f'length("{m[1]}", {m[1]}.size(), {m[2]})'
    if m := _DIVIDES.match(relation):
        return f'divides("{m[2]}", {m[2]}, {m[1]})'
    raise ValueError(f"not a relation: {relation}")


def table():
    """{operator without overload: [relation]}"""
    found = {}
    for operators, text in RELATIONS.items():
        for op in operators.split(","):
            found[op] = [part.strip() for part in text.split(";")]
    return found


def relations_of(operator, arguments):
    """The relations of an operator whose arguments have these names."""
    relations = table().get(operator, [])
    if operator in RENAMED and "grad" in arguments:
        return [relation.replace("grad_output", "grad") for relation in relations]
    return relations


def checks_of(function):
    """The statements at the head of a wrapper that check the relations of its arguments."""
    name = function.func.name.name.base
    relations = relations_of(name, [a.name for a in function.func.arguments.flat_all])
    if not relations:
        return ""
    calls = "".join(f"    relations.{_check(relation)};\n" for relation in relations)
    return f'  {{\n    const ocl::Relations relations("{name}");\n{calls}  }}\n'
