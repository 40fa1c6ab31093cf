"""Errors that differ from the CPU's by decision, as rows of edge_decisions.py: only the CPU raises,
both raise different errors, or only the device raises."""

REFUSALS = [
    (
        r"max_pool1d|MaxPool1d",
        r" numbers: ",
        r"^RuntimeError: value cannot be converted to type int without overflow",
        "steps of more than 32 bits: a call is a max_pool2d, on the CPU only with gradients",
    ),
    (
        "",
        r" (inplace|out): .*expanded",
        r"^RuntimeError: unsupported operation: more than one element of the written-to tensor",
        "the CPU's library writes one element of memory several times, in an order of its own",
    ),
    (
        "",
        r" out: .*overlaps arg",
        r"^RuntimeError: unsupported operation: some elements of the input tensor and the written",
        "the CPU computes in this memory, where the result is a matter of order",
    ),
    (
        r"^(std|var)(\.|$)",
        r" out: .*complex",
        r"^nothing raised instead of NotImplementedError: \"std_cpu\"",
        "a complex out of real numbers: the CPU computes the variance of all elements only",
    ),
    (
        r"^(add|sub|rsub|addr)$",
        r"^bool .*out: ",
        r"^RuntimeError: Boolean (alpha|beta) only supported for Boolean results",
        "PyTorch's meta function looks at the type of out, except on the CPU",
    ),
    (
        r"^(linalg\.|triangular_solve|lu)",
        r" (views|promotion|out): ",
        r"singular|is zero|LinAlgError|"
        r"^NotImplementedError: (linear algebra|matmul) is not implemented for tensors of type \w+ "
        r".*instead of RuntimeError",
        "rows that repeat: whether a pivot is exactly 0 is a matter of rounding; of two checks of "
        "types another comes first",
    ),
    (
        r"linalg\.lstsq",
        r" empty: ",
        r"close",
        "matrices without columns: LAPACK clears the right side, whose squares are the residuals",
    ),
    (
        r"linalg\.lstsq",
        r" sums: ",
        r"SIGKILL|^after 60 s",
        "the solution has 40,009 x 40,009 elements",
    ),
    (
        r"LSTM",
        r" promotion: ",
        r"aten::_thnn_fused_lstm_cell|"
        r"^nothing raised instead of RuntimeError: (itensor_view_from_dense|could not create)",
        "states of other types: complex ones have no fused cell; others, which the CPU's library "
        "refuses, are promoted",
    ),
    (
        r"^nanmean$",
        r" out: ",
        r"can't be cast to the desired output type .* instead of NotImplementedError",
        "which of two checks refuses an out of integers",
    ),
    (
        r"linear_cross_entropy\.chunked",
        r" promotion: ",
        r"^RuntimeError: expected m1 and m2 to have the same dtype",
        "PyTorch's chunked path casts a weight of another type on the CPU only",
    ),
    (
        r"conv_transpose|ConvTranspose",
        r" promotion: ",
        r"^RuntimeError: convolution: input and weight .*instead of NotImplementedError",
        "the CPU looks for a kernel of the input's type first",
    ),
    (
        r"embedding_bag|scaled_dot_product_attention|matmul|einsum|^bmm|[Ll]ayer_?[Nn]orm|Transformer",
        r" promotion: ",
        r"^(RuntimeError: Expected tensor for argument .*instead of NotImplementedError|"
        r"NotImplementedError: .*instead of RuntimeError: "
        r"(mixed dtype|expected (scalar type|m1 and m2)))",
        "which of two checks refuses bool and integers",
    ),
    (
        r"layer_norm|batch_norm|_softmax_backward_data|^cdist$|^stft$|multi_margin_loss",
        r" promotion: ",
        r"^(NotImplementedError|RuntimeError|IndexError): .* instead of "
        r"(NotImplementedError|RuntimeError|IndexError|ValueError): ",
        "which of several checks refuses operands of mixed types",
    ),
    (
        r"_softmax_backward_data",
        r" promotion: ",
        r"^nothing raised instead of RuntimeError: expected scalar type",
        "float32 gradients of 16-bit input: as of softmax with a dtype, on CUDA",
    ),
    (
        r"layer_norm|LayerNorm",
        r" promotion: ",
        r"^nothing raised instead of RuntimeError: (mixed dtype|expected scalar type)",
        "numbers of mixed types are read as such, as on CUDA",
    ),
    (
        r"adaptive_avg_pool1d",
        r" promotion: ",
        r"^NotImplementedError",
        "the CPU refuses integers, too, unless there are no elements",
    ),
    (
        r"^index_select$",
        "",
        r"^IndexError: .*instead of RuntimeError: INDICES element",
        "the CPU raises IndexError for one element, RuntimeError for several",
    ),
    (
        r"^fft\.",
        r" empty: ",
        r"^nothing raised instead of RuntimeError: MKL FFT error",
        "transforms of no batches: the CPU's library refuses them",
    ),
    (
        r"^(fft\.|linalg\.|norm\.nuc|lu|inverse|pinverse|svd_lowrank)",
        r" special: ",
        r"close|equal|LinAlgError|INTERNAL ASSERT",
        "factors of matrices with NaN or infinities, and Fourier transforms of them: what LAPACK's "
        "and MKL's blocks make of them",
    ),
    (
        r"segment_reduce",
        r" (views|special|batch|scalar): ",
        r"^nothing raised instead of RuntimeError: Expected segment_length|close",
        "offsets that do not rise, or leave the data: nobody looks at them, as with CUDA; the CPU "
        "reads what is there",
    ),
    (
        r"fractional_max_pool",
        r" numbers: ",
        r"^RuntimeError: .*windows of size",
        "windows of no pixels: the CPU gives -inf, or fails in an assertion",
    ),
    (
        r"quantile$",
        "",
        r"^nothing raised instead of RuntimeError: quantile\(\) q values must be in the range",
        "PyTorch looks at these values on the CPU alone: other devices would have to wait",
    ),
    (
        r"batch_norm",
        r" (empty|scalar|batch|sums): ",
        r"^RuntimeError: running_(mean|var) should contain",
        "batch_norm's private functions check nothing: the CPU reads outside of such tensors",
    ),
    (
        r"unfold",
        r" numbers: ",
        r"^RuntimeError: (IntArrayRef|Stride calculation|narrow)",
        "sizes beyond 64 bits: the CPU's product of them is another number",
    ),
    (
        "batch_norm",
        r" views: .*expanded",
        r"^RuntimeError: unsupported operation: more than one element of the written-to tensor",
        "running statistics that share one element of memory: the CPU updates it several times",
    ),
    (
        r"native_batch_norm|_batch_norm_with_update",
        r" (empty|scalar|batch): ",
        r"^RuntimeError: shape |^IndexError|instead of \w+: SmallVector unable to grow",
        "batch_norm's private functions check nothing: the CPU reads outside of such tensors",
    ),
    (
        r"^(div\..*_rounding|floor_divide|remainder|fmod|__rmod__)",
        r"",
        r"^nothing raised instead of RuntimeError: ZeroDivisionError",
        "integers divided by zero: kernels of accelerators do not raise, as with CUDA",
    ),
    (
        "",
        r"",
        r"^NotImplementedError: .* instead of RuntimeError: .*distribution",
        "a type that has no random numbers: the refusals are worded, and classed, by each device",
    ),
    (
        r"scaled_dot_product_attention",
        "",
        r"^nothing raised instead of IndexError: Dimension (out of range|specified)",
        "masks of one or no dimension broadcast, too: the CPU's fused kernel asks for their rows",
    ),
    (
        r"^lu_unpack$",
        "",
        r"^RuntimeError: lu_unpack: pivots of shape",
        "pivots of other batches, or too few of them: the CPU reads outside of them",
    ),
    (
        "",
        "",
        r"nothing raised instead of \w+: .*(not implemented for '|not supported for|"
        r"[Uu]nsupported (data ?|d)?type|does not support)",
        "types that only the CPU's kernels lack",
    ),
]
