"""Linear layers whose weights keep the block layout of a GGUF file (llama.cpp's format).

The functions are those that transformers' GgufLinear, GgufEmbedding and GgufExperts call
(transformers.integrations.gguf.kernels). `blocks` are uint8, [n][bytes of a row of k weights];
`ggml_type` is the number of their layout in ggml. A weight is computed in float32 as the package
gguf does. Tensors that are not on ocl take transformers' formula.
"""

import torch

# Q4_0, Q4_1, Q8_0, Q4_K, Q5_K, Q6_K
GEMV_TYPES = frozenset({2, 3, 8, 12, 13, 14})


def mul_mat_vec(
    blocks: torch.Tensor, x: torch.Tensor, ggml_type: int, out_features: int
) -> torch.Tensor:
    """x [m][k] times the transposed weights: [m][n] of x's type.

    Raises NotImplementedError for a type that is not in GEMV_TYPES, RuntimeError for other shapes.
    """
    if blocks.device.type != "ocl":
        return x @ dequantize(blocks, ggml_type, out_features, x.size(1), x.dtype).t()
    return torch.ops.ocl.gguf_linear(x, blocks, ggml_type)


def dequantize(
    blocks: torch.Tensor, ggml_type: int, rows: int, cols: int, dtype: torch.dtype
) -> torch.Tensor:
    """Converts the weights [rows][cols] to a floating-point type."""
    if blocks.device.type != "ocl":
        from transformers.integrations.gguf.dequant import dequantize as unpack

        return unpack(blocks, ggml_type, dtype).reshape(rows, cols)
    wide = dtype == torch.float64
    weights = torch.ops.ocl.gguf_rows(blocks, ggml_type, torch.float32 if wide else dtype)
    return weights.to(dtype).reshape(rows, cols)


def get_rows(
    blocks: torch.Tensor, indices: torch.Tensor, ggml_type: int, cols: int, dtype: torch.dtype
) -> torch.Tensor:
    """These rows of the weights: [number of indices][cols]. Raises IndexError as index_select."""
    return dequantize(blocks.index_select(0, indices), ggml_type, indices.size(0), cols, dtype)


def mul_mat_id(
    blocks: torch.Tensor, x: torch.Tensor, ids: torch.Tensor, ggml_type: int, out_features: int
) -> torch.Tensor:
    """Row i of x [m][k] times the weights of each expert ids[i], of `blocks` [experts][n][..].

    The result is [m][choices][n], for ids [m][choices].
    """
    if blocks.device.type != "ocl":
        weights = dequantize(blocks, ggml_type, len(blocks) * out_features, x.size(1), x.dtype)
        chosen = weights.view(len(blocks), out_features, -1)[ids.long()]
        return torch.einsum("mcnk,mk->mcn", chosen, x)
    return torch.ops.ocl.gguf_linear_of_experts(x, blocks, ids, ggml_type)


def _widths(ggml_type: int) -> tuple[int, int]:
    """The number of weights in a block, and its bytes."""
    from transformers.integrations.gguf.dequant import GGML_BLOCK

    return GGML_BLOCK[ggml_type]


@torch.library.register_fake("ocl::gguf_rows")
def _(blocks, ggml_type, dtype):
    weights, size = _widths(ggml_type)
    return blocks.new_empty((blocks.size(0), blocks.size(1) // size * weights), dtype=dtype)


@torch.library.register_fake("ocl::gguf_linear")
def _(x, blocks, ggml_type):
    return x.new_empty((x.size(0), blocks.size(0)))


@torch.library.register_fake("ocl::gguf_linear_of_experts")
def _(x, blocks, ids, ggml_type):
    return x.new_empty((*ids.shape, blocks.size(1)))


def _keep_weights(ctx, inputs, output):
    ctx.blocks, ctx.ggml_type = inputs[1], inputs[-1]


def _gradient_of_x(ctx, grad):
    weights = torch.ops.ocl.gguf_rows(ctx.blocks, ctx.ggml_type, grad.dtype)
    return grad @ weights, None, None


def _refuse_gradient(ctx, grad):
    raise NotImplementedError(
        "gguf_linear_of_experts has no gradient: load the model with GgufConfig(dequantize=True)"
    )


torch.library.register_autograd("ocl::gguf_linear", _gradient_of_x, setup_context=_keep_weights)
torch.library.register_autograd(
    "ocl::gguf_linear_of_experts", _refuse_gradient, setup_context=_keep_weights
)
