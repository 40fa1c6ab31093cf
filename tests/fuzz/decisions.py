"""Allowed differences from the CPU: (template, kind, message, reason), regular expressions.
tests/conformance/edge_decisions.py has those of single operators at the edges of types."""

import re

DECISIONS = [
    (
        r"max_pool1d",
        "layout",
        "",
        "the CPU's kernel for pools without gradients has contiguous results; ours have the "
        "argument's format, as on CUDA, and as on the CPU with gradients",
    ),
    (
        r"compile.* torch\.(lstm|gru|rnn_tanh|rnn_relu)\(",
        "aliases",
        "",
        "PyTorch's decomposition returns the last state as a view, also where it compiles for CPUs",
    ),
    (
        r"differentiated\(compile",
        "error",
        r"^(RuntimeError|BackendCompilerFailed) raised instead of \w+: .*"
        r"one of the variables needed for gradient",
        "a compiled function that writes its argument after it was read: PyTorch's compiler says "
        "so for CPUs, too, with aot_eager as well",
    ),
    (
        r"differentiated\(compile.* F\.multi_margin_loss\(",
        "numbers",
        "",
        "PyTorch's decomposition gives a margin that is met exactly a gradient, on CPUs, too",
    ),
    (
        r"_cell\(",
        "_version",
        "",
        "the CPU's cells change their results in place; ours are one kernel, as on CUDA",
    ),
    (
        r"(replayed|kept_graph)\(",
        "error",
        r"captur",
        "operators that wait for the device are refused in a capture",
    ),
    (
        r"conv(_transpose)?3d",
        "layout",
        "",
        "some of the CPU's kernels for volumes have contiguous results for channels_last_3d",
    ),
    (
        r"conv_transpose",
        "error",
        r"Output size is too small",
        "the CPU's library has results without pixels, where PyTorch's own kernels refuse",
    ),
    (
        r"compile",
        "error",
        r"^TorchRuntimeError raised instead of",
        "Dynamo has a class of its own for errors of operators",
    ),
    (
        r"compile.* \{0\}\.unfold\(.*(_\(|out=)",
        "numbers",
        "",
        "a write to a view by unfold() that leaves elements out: PyTorch's compiler sets these to "
        "zero, on CPUs, too, with aot_eager as well",
    ),
    (
        r"compile.* F\.dropout\(.*training=False",
        "aliases",
        "",
        "PyTorch's compiler copies where nothing is dropped, on CPUs, too, with aot_eager as well",
    ),
    (
        r"compile.* torch\.(maximum|minimum|clamp\w*)\(",
        "error",
        r"The argument '(True|False)' is not comparable",
        "Inductor cannot order bools that it has computed, on CPUs, neither",
    ),
    (
        r"compile.* torch\.(eq|ne|all|any)\(",
        "error",
        r"A Boolean argument can only be used in Eq and Ne",
        "Inductor cannot compare bools that it has computed, on CPUs, neither",
    ),
    (
        r"(^| )\{0\}\[\{i\}\] = \{1\}( |$)",
        "error|requires_grad",
        r"^nothing raised instead of RuntimeError|requires_grad False instead of True",
        "a number with a gradient into integers: PyTorch fills from the CPU's tensors without "
        "dimensions, which raises or, without elements, makes integers with a gradient; it copies "
        "others",
    ),
    (
        r"^torch\.fft\.",
        "layout",
        "",
        "an expanded tensor: PyTorch converts it to complex numbers first, in an order of the "
        "dimensions that its strides do not give",
    ),
    (
        r"logsigmoid",
        "layout",
        "",
        "the CPU's results are contiguous; ours have the argument's strides, as on CUDA",
    ),
    (
        r"batch_norm",
        "layout",
        "",
        "strides that are of no memory format: the CPU keeps them in some of its cases",
    ),
    (
        r"torch\.(add|sub|mul|maximum|minimum|lerp|addcmul|where|div)|[-+*&|] ",
        "layout",
        "",
        "mixed types: the CPU converts operands first, and reads the strides of the copies",
    ),
]
COMPILED = [(*(re.compile(p) for p in patterns), why) for *patterns, why in DECISIONS]


def reason(step, kind, message):
    """The reason why the step may differ, or None."""
    templates = " ".join([step.template, *(inner.template for inner in step.body or ())])
    for template, kinds, text, why in COMPILED:
        if template.search(templates) and kinds.search(kind) and text.search(message):
            return why
    return None
