"""The operators of PyTorch's autocast policies, read from its header, and arguments for each."""

import pathlib
import re

import torch

HEADER = pathlib.Path(torch.__file__).parent / "include/ATen/autocast_mode.h"
APPENDED = "DIFFERENT_REDISPATCH_SIGNATURE"  # these get a dtype as a further argument


def policies():
    """{"LOWER_PRECISION_FP": ["conv1d", "conv_transpose2d.input", ...], "FP32": ..., ...}

    Without overloads for names of dimensions, which torch 2.13 has no more.
    """
    lists = re.findall(r"#define AT_FORALL_(\w+)\(_\)((?:.*\\\n)+.*\n)", HEADER.read_text())
    result = {
        name: [entry.replace(", ", ".") for entry in re.findall(r"_\(([\w, ]+)\)", body)]
        for name, body in lists
        if "DEPRECATED" not in name
    }
    result[APPENDED] = re.findall(r'"([\w.]+)"', dict(lists)[APPENDED])
    return {
        policy: [name for name in names if not re.search("imname|names_", name)]
        for policy, names in result.items()
    }


def overload(name):
    base, _, which = name.partition(".")
    return getattr(getattr(torch.ops.aten, base), which or "default")


class Arguments:
    """Makes tensors between 0.1 and 0.9; their types follow each other as given."""

    def __init__(self, device, *dtypes):
        self.device, self.dtypes, self.made = device, dtypes, 0

    def __call__(self, *shape):
        dtype = self.dtypes[self.made % len(self.dtypes)]
        self.made += 1
        numbers = torch.rand(shape, generator=torch.Generator().manual_seed(self.made))
        return (0.1 + 0.8 * numbers).to(dtype).to(self.device)

    def whole(self, *numbers, dtype=torch.int64):
        return torch.tensor(numbers, dtype=dtype).to(self.device)


def images(t, size):
    return t(1, 2, *[4] * size)


def loss(t):
    return t(4, 5), t(4, 5)


def cell(t, gates):
    return t(2, 3), t(gates * 4, 3), t(gates * 4, 4), t(gates * 4), t(gates * 4)


def convolution(t):
    return (t(1, 2, 5, 5), t(3, 2, 3, 3), t(3), [1, 1], [0, 0], [1, 1], False, [0, 0], 1)


def rnn_cell(t, gates):
    x, w_ih, w_hh, b_ih, b_hh = cell(t, gates)
    return x, t(2, 4), w_ih, w_hh, b_ih, b_hh


def lstm_cell(t):
    x, w_ih, w_hh, b_ih, b_hh = cell(t, 4)
    return x, [t(2, 4), t(2, 4)], w_ih, w_hh, b_ih, b_hh


def square(t):
    return t(4, 4), t(4, 4)


def one(t):
    return (t(8),)


def attention(t):
    return t(1, 2, 6, 8), t(1, 2, 6, 8), t(1, 2, 6, 8)


CASES = {
    # lower_precision_fp
    "_convolution.deprecated": lambda t: (*convolution(t), False, False, True),
    "_convolution": lambda t: (*convolution(t), False, False, True, True),
    "conv1d": lambda t: (t(1, 2, 8), t(3, 2, 3)),
    "conv2d": lambda t: (t(1, 2, 5, 5), t(3, 2, 3, 3), t(3)),
    "conv3d": lambda t: (t(1, 2, 4, 4, 4), t(3, 2, 3, 3, 3)),
    "conv_tbc": lambda t: (t(8, 2, 3), t(3, 3, 4), t(4)),
    "conv_transpose1d": lambda t: (t(1, 2, 8), t(2, 3, 3)),
    "conv_transpose2d.input": lambda t: (t(1, 2, 5, 5), t(2, 3, 3, 3)),
    "conv_transpose3d.input": lambda t: (t(1, 2, 4, 4, 4), t(2, 3, 3, 3, 3)),
    "convolution": convolution,
    "prelu": lambda t: (t(8), t(1)),
    "addmm": lambda t: (t(4, 4), *square(t)),
    "addmv": lambda t: (t(4), t(4, 4), t(4)),
    "addr": lambda t: (t(4, 4), t(4), t(4)),
    "matmul": square,
    "einsum": lambda t: ("ij,jk->ik", square(t)),
    "mm": square,
    "mv": lambda t: (t(4, 4), t(4)),
    "linalg_vecdot": square,
    "linear": lambda t: (t(4, 4), t(3, 4), t(3)),
    "addbmm": lambda t: (t(4, 4), t(2, 4, 4), t(2, 4, 4)),
    "baddbmm": lambda t: (t(2, 4, 4), t(2, 4, 4), t(2, 4, 4)),
    "bmm": lambda t: (t(2, 4, 4), t(2, 4, 4)),
    "chain_matmul": lambda t: ([*square(t), t(4, 4)],),
    "linalg_multi_dot": lambda t: ([*square(t), t(4, 4)],),
    "_thnn_fused_lstm_cell": lambda t: (t(2, 16), t(2, 16), t(2, 4), t(16), t(16)),
    "_thnn_fused_gru_cell": lambda t: (t(2, 12), t(2, 12), t(2, 4), t(12), t(12)),
    "lstm_cell": lstm_cell,
    "gru_cell": lambda t: rnn_cell(t, 3),
    "rnn_tanh_cell": lambda t: rnn_cell(t, 1),
    "rnn_relu_cell": lambda t: rnn_cell(t, 1),
    "_scaled_dot_product_flash_attention": attention,
    "scaled_dot_product_attention": attention,
    # fp32
    "pow.Tensor_Scalar": lambda t: (t(8), 1.7),
    "pow.Tensor_Tensor": lambda t: (t(8), t(8)),
    "pow.Scalar": lambda t: (1.7, t(8)),
    "layer_norm": lambda t: (t(4, 8), [8], t(8), t(8)),
    "native_layer_norm": lambda t: (t(4, 8), [8], t(8), t(8), 1e-5),
    "rms_norm": lambda t: (t(4, 8), [8], t(8)),
    "group_norm": lambda t: (t(2, 4, 3), 2, t(4), t(4)),
    "frobenius_norm.dim": lambda t: (t(4, 4), [0, 1]),
    "nuclear_norm": lambda t: (t(4, 4),),
    "nuclear_norm.dim": lambda t: (t(4, 4), [0, 1]),
    "cosine_similarity": square,
    "poisson_nll_loss": lambda t: (*loss(t), True, False, 1e-8, 1),
    "cosine_embedding_loss": lambda t: (*loss(t), t.whole(1, -1, 1, -1)),
    "nll_loss": lambda t: (t(4, 5), t.whole(0, 1, 2, 3)),
    "nll_loss2d": lambda t: (t(1, 3, 2, 2), t.whole(0, 1, 2, 1).view(1, 2, 2)),
    "margin_ranking_loss": lambda t: (*loss(t), t(4, 5)),
    "multilabel_margin_loss": lambda t: (t(2, 4), t.whole(3, 0, -1, 1, 2, 1, -1, 0).view(2, 4)),
    "triplet_margin_loss": lambda t: (*loss(t), t(4, 5)),
    "multi_margin_loss": lambda t: (t(4, 5), t.whole(0, 1, 2, 3)),
    "pdist": lambda t: (t(4, 4),),
    "cdist": square,
    "renorm": lambda t: (t(4, 4), 2, 0, 1.0),
    "logsumexp": lambda t: (t(4, 4), [1]),
    "upsample_nearest1d": lambda t: (images(t, 1), [6]),
    "_upsample_nearest_exact1d": lambda t: (images(t, 1), [6]),
    "upsample_nearest2d": lambda t: (images(t, 2), [6, 6]),
    "_upsample_nearest_exact2d": lambda t: (images(t, 2), [6, 6]),
    "upsample_nearest3d": lambda t: (images(t, 3), [6, 6, 6]),
    "_upsample_nearest_exact3d": lambda t: (images(t, 3), [6, 6, 6]),
    "upsample_linear1d": lambda t: (images(t, 1), [6], False),
    "upsample_bilinear2d": lambda t: (images(t, 2), [6, 6], False),
    "_upsample_bilinear2d_aa": lambda t: (images(t, 2), [6, 6], False),
    "upsample_trilinear3d": lambda t: (images(t, 3), [6, 6, 6], False),
    "upsample_bicubic2d": lambda t: (images(t, 2), [6, 6], False),
    "_upsample_bicubic2d_aa": lambda t: (images(t, 2), [6, 6], False),
    # fp32_set_opt_dtype
    "prod": one,
    "prod.dim_int": lambda t: (t(4, 4), 1),
    "softmax.int": lambda t: (t(4, 4), 1),
    "log_softmax.int": lambda t: (t(4, 4), 1),
    "cumprod": lambda t: (t(4, 4), 1),
    "cumsum": lambda t: (t(4, 4), 1),
    "linalg_vector_norm": one,
    "linalg_matrix_norm": lambda t: (t(4, 4), 1),
    "linalg_matrix_norm.str_ord": lambda t: (t(4, 4), "fro"),
    "sum": one,
    "sum.dim_IntList": lambda t: (t(4, 4), [1]),
    # fp32_append_dtype
    "norm.Scalar": lambda t: (t(8), 2),
    "norm.ScalarOpt_dim": lambda t: (t(4, 4), 2, [1]),
    # promote
    "addcdiv": lambda t: (t(8), t(8), t(8)),
    "addcmul": lambda t: (t(8), t(8), t(8)),
    "atan2": lambda t: (t(8), t(8)),
    "bilinear": lambda t: (t(2, 3), t(2, 4), t(5, 3, 4), t(5)),
    "cross": lambda t: (t(4, 3), t(4, 3)),
    "dot": lambda t: (t(8), t(8)),
    "vdot": lambda t: (t(8), t(8)),
    "grid_sampler": lambda t: (t(1, 2, 4, 4), t(1, 3, 3, 2), 0, 0, False),
    "index_put": lambda t: (t(8), [t.whole(1, 2)], t(2)),
    "tensordot": lambda t: (t(2, 3), t(3, 2), [1], [0]),
    "scatter_add": lambda t: (t(4), 0, t.whole(0, 1, 1, 3), t(4)),
}
CASES |= dict.fromkeys(
    [
        "acos",
        "asin",
        "cosh",
        "erfinv",
        "exp",
        "expm1",
        "log",
        "log10",
        "log2",
        "log1p",
        "reciprocal",
        "rsqrt",
        "sinh",
        "tan",
        "softplus",
    ],
    one,
)
CASES |= dict.fromkeys(
    [
        "hinge_embedding_loss",
        "kl_div",
        "l1_loss",
        "smooth_l1_loss",
        "huber_loss",
        "mse_loss",
        "soft_margin_loss",
        "binary_cross_entropy_with_logits",
        "dist",
    ],
    loss,
)
