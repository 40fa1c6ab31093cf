"""Names that are not called, names that need particular arguments, and what is known of results."""

import re

import names_quantized
import torch

# Names that concern PyTorch's state, other processes, or the interpreter of TorchScript, which no
# device can replace (its _tensor_to_list ends the process for tensors that are not on the CPU).
SKIPPED = re.compile(
    r"^(?!aten|prims|quantized|_quantized|quantization|sparse|mkldnn|onednn|mkl|torch)\w+::|"
    r"(^torch\.|^aten::)_?(set_|use_|init|manual_seed|seed$|load|save|fork|wait|import|parse|compile|"
    r"vmap|cond$|while_loop|prepare_|autocast_|clear_|get_|preload|warn|sys|input$|exit|thread_safe|"
    r"profiler|disable|enable|is_(?!nonzero|same|coal|floa|comp|sign|conj|neg|pin|dist|set|any|all)|"
    r"load|register|from_file|functionalize|mirror|freeze|debug|test|(add|remove)_batch_dim|"
    r"make_dep_token|"
    r"classproperty|from_blob|nested_tensor_from_mask_left)|"
    r"^aten::(dict|Dict|keys|values|items|pop|popitem|update|owner|local_value|to_here|confirmed|"
    r"device_with_index|hash|has_torch|_tensor_to_list|Generator)$"
)


def skipped(name):
    return SKIPPED.search(name) is not None


def reason(name, message):
    """The reason why this may differ, or None."""
    for operator, difference, why in DECISIONS:
        if re.search(operator, name) and re.search(difference, message):
            return why
    return None


# The results are uninitialised memory, or a random choice.
UNSPECIFIED = re.compile(
    r"empty|resize|_alloc|^aten::set_|new_like|pack_(gemm|quantized)|_reshape_alias|as_strided"
)
# Differences from the CPU by decision: (name, difference, reason).
DECISIONS = [
    (
        r"^aten::cpu$|_to_cpu$|_shape_as_tensor|_pad_packed_sequence|pack_(gemm|quantized)|_prepack",
        r"^(result \d: )?result on cpu",
        "lengths, packed weights and the like are on the CPU for every device",
    ),
    ("", r"only (dense )?CPU tensors can be pinned", "only memory of the host is pinned"),
    (
        r"sparse_(compressed|bs[rc]|cs[rc])_tensor",
        r"Values and compressed tensor instance need to be on the same device",
        "an operator without a tensor's options makes tensors of the CPU for every device",
    ),
    (
        r"_compute_linear_combination|_transform_bias_rescale_qkv|batch_norm",
        r"close|is invalid for input|must match the size|should contain|equal",
        "private operators that check nothing: the CPU reads outside of such tensors",
    ),
    (r"svd|eig|_qr|lobpcg|pca", r"close", "signs and phases of factors are left open"),
    (
        r"::(lin|log)space|empty_quantized",
        r"^result on cpu",
        "an operator without a tensor's options makes tensors of the CPU for every device",
    ),
    (r"tensor_split", r"to be on cpu", "PyTorch takes these on the CPU only, for every device"),
    (r"unique_dim", r"shape \(0,\)", "indices that nobody has asked for"),
    (
        r"_saturate_weight_to_fp16",
        r"NoneType instead of Tensor",
        "the CPU's result is the argument itself, against the schema; here it is a new tensor",
    ),
    (r"randint_like", r"on CPU$", "PyTorch takes this number on the CPU only, for every device"),
    (
        r"_backward|_pdist_forward",
        r" (has|have) sizes \[|: windows of size|expected a gradient and indices|"
        r"^IndexError: Dimension (out of|specified)|expanded size of the tensor",
        "private operators whose sizes do not fit: the CPU computes with what it finds",
    ),
    (
        r"_reshape_alias",
        r"are out of bounds for storage",
        "a private operator that checks nothing: the CPU reads outside of the storage",
    ),
    (
        r"native_layer_norm|batch_norm",
        r"Expected out tensor to have dtype float, but got",
        "the statistics of 16-bit tensors are float32, as on CUDA and in PyTorch's decomposition",
    ),
    (
        r"native_dropout",
        r"Expected out tensor to have dtype bool",
        "of no elements, the CPU's mask has the type of the numbers",
    ),
    (
        r"cholesky_inverse",
        r"close",
        "complex numbers on the diagonal, where a Cholesky factor has none",
    ),
    (
        r"cholesky_ex",
        r"^result 0: .* not close",
        "a matrix without the factor: `info` says so, and the rest of the result is left open",
    ),
    (
        r"kthvalue|topk",
        r"^result 1: .* not equal",
        "which of equal elements is chosen is left open",
    ),
    (
        r"nonzero_static",
        r"^strides",
        "in the layout that PyTorch's meta function says, as on CUDA",
    ),
    (
        r"fft|softshrink",
        r"became",
        "signs of zero: the CPU's vectors, its remainder loop and its library differ, too",
    ),
    (
        r"log_sigmoid_forward",
        r"^result 1: shape \(0,\)",
        "the derivative computes what the CPU's keeps in a buffer, as on CUDA",
    ),
    (
        r"log_sigmoid_backward",
        r"close",
        "a buffer that holds other numbers: ours is not read",
    ),
    (
        r"multi(label)?_margin_loss",
        r"close",
        "the CPU's loss of no rows is whatever the memory held",
    ),
    (
        r"binary_cross_entropy_backward\.grad_input",
        r"instead of \(0,\)",
        "the CPU computes into a tensor of its own, and leaves the one that is given",
    ),
    (
        r"qbatch_norm",
        r"NoneType instead of Tensor",
        "of no elements, the CPU's result is a clone, which has a derivative",
    ),
    (
        r"linalg_lstsq\.out",
        r"^result 0: strides",
        "where another result has another type, the CPU copies this one, too",
    ),
    (
        r"lu_unpack",
        r"pivots of shape",
        "pivots of other matrices: the CPU reads outside of them",
    ),
    (
        r"_fft_r2c|_fft_c2",
        r"close|instead of RuntimeError: .*INTERNAL ASSERT",
        "normalizations that are none of the three",
    ),
    (
        r"embedding_bag",
        r"^result 3: shape",
        "of no bags, the shape of what nobody reads",
    ),
    (
        r"lstsq",
        r"^result 0: .* not close",
        "rcond of 1 and more: of a rank by pivots something is left, by singular values nothing",
    ),
    (
        r"instance_norm",
        r"became",
        "16 bits: the CPU rounds scale and shift, so a small number is 0 or not",
    ),
    (
        r"adaptive_avg_pool|multi(label)?_margin_loss",
        r"is not implemented for tensors of type|expected scalar type",
        "of no elements, the CPU does not look at the type",
    ),
    (
        r"batch_norm",
        r"running_mean and running_var must be given",
        "of no elements, the CPU does not look at the running statistics",
    ),
    (
        r"embedding_bag",
        r"offsets that begin at 0",
        "offsets that do not rise: the CPU reads what is there",
    ),
    (
        r"_pack_padded_sequence|ctc_loss",
        r"should be a 1D CPU int64 tensor",
        "PyTorch takes lengths on the CPU only, for every device",
    ),
    (
        r"_weight_norm(_interface.*)?$",
        r"not close|saved_g has sizes",
        "lengths of another shape: the CPU's fused kernel reads the first ones, unchecked",
    ),
    (
        r"embedding_bag",
        r"indices and offsets have to be 1D",
        "the CPU reads indices of two dimensions as of one",
    ),
]
# Operators that are called only with arguments written by hand: others end the process on the CPU.
BY_HAND = re.compile(
    r"quantized_\w+_cell$|_thnn_differentiable_gru_cell_backward|^aten::batch_norm_backward|"
    r"_convert_indices_from_csr_to_coo$|_cumm(ax|in)_helper$|sobol_engine_initialize|"
    r"::_nnpack_spatial_convolution"
)
# Operators that are called only with arguments that the CPU accepts, because they check nothing.
UNCHECKED = re.compile(r"_backward|backward_")


def generator():
    return torch.Generator().manual_seed(0)


def numbers(*size):
    return torch.randn(size, generator=generator())


def integers(*size, most=2):
    return torch.randint(0, most, size, generator=generator())


def cells(gates, states):
    """Arguments of an RNN for packed sequences: three sequences in the first step, two in the
    second."""
    sizes = torch.tensor([3, 2])
    hidden = [numbers(1, 3, 4)] * states
    parameters = [numbers(4 * gates, 3), numbers(4 * gates, 4), *[numbers(4 * gates)] * 2]
    hidden = hidden if states > 1 else hidden[0]
    return (numbers(5, 3), sizes, hidden, parameters, True, 1, 0.0, False, False), {}


# {name: functions that return (positional, keyword)}
CALLS = {
    **names_quantized.CALLS,
    "aten::_sobol_engine_draw": [
        lambda: ((integers(3), 2, integers(3, 30), 3, 0, torch.float32), {}),
        lambda: ((integers(3), 2, integers(3, 30), 3, 4, torch.float64), {}),
    ],
    "aten::_sobol_engine_ff_": [lambda: ((integers(3), 2, integers(3, 30), 3, 0), {})],
    "aten::_sobol_engine_scramble_": [lambda: ((integers(3, 30), integers(3, 30, 30), 3), {})],
    "aten::_sobol_engine_initialize_state_": [lambda: ((integers(3, 30), 3), {})],
    "aten::choose_qparams_optimized": [lambda: ((numbers(16), 16, 200, 0.16, 8), {})],
    "aten::_convert_indices_from_csr_to_coo": [
        lambda: ((torch.tensor([0, 2, 2, 3]), torch.tensor([0, 2, 1])), {})
    ],
    "aten::_rowwise_prune": [
        lambda: ((numbers(4, 3), torch.tensor([True, False, True, True]), torch.int64), {})
    ],
    "aten::lstm.data": [lambda: cells(4, 2)],
    "aten::gru.data": [lambda: cells(3, 1)],
    "aten::rnn_tanh.data": [lambda: cells(1, 1)],
    "aten::rnn_relu.data": [lambda: cells(1, 1)],
    "aten::_pad_packed_sequence": [
        lambda: ((numbers(5, 3), torch.tensor([3, 2]), False, 0.0, 2), {})
    ],
    "aten::kaiser_window.beta": [lambda: ((7, False, 5.0), {"device": torch.device("cpu")})],
}
