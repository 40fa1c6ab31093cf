"""Arguments by hand for operators whose weights are packed in an object of the CPU's library."""

import torch


def floats(*size):
    return torch.linspace(-1, 1, torch.Size(size).numel()).reshape(size)


def quantized(*size, dtype=torch.quint8):
    return torch.quantize_per_tensor(floats(*size), 0.02, 10 if dtype is torch.quint8 else 0, dtype)


def linear_weight():
    weight = quantized(4, 3, dtype=torch.qint8)
    return torch.ops.quantized.linear_prepack(weight, floats(4))


def convolution_weight(dims):
    weight = quantized(4, 3, *[3] * dims, dtype=torch.qint8)
    ones, zeros = [1] * dims, [0] * dims
    return getattr(torch.ops.quantized, f"conv{dims}d_prepack")(
        weight, floats(4), ones, zeros, ones, 1
    )


def embedding_weight():
    kind = torch.quantize_per_channel(
        floats(6, 8), torch.full((6,), 0.02), torch.full((6,), 10.0), 0, torch.quint8
    )
    return torch.ops.quantized.embedding_bag_prepack(kind)


def packed_cell(gates):
    weights = [quantized(gates * 4, n, dtype=torch.qint8) for n in (3, 4)]
    packed = [torch.ops.quantized.linear_prepack(w, floats(gates * 4)) for w in weights]
    return (*packed, floats(gates * 4), floats(gates * 4))


def cells(gates):
    return [torch.ops.quantized.make_quantized_cell_params_dynamic(*packed_cell(gates), False)]


SIZES = torch.tensor([3, 2])


def lstm(*sizes):
    hidden = [floats(1, 3, 4)] * 2
    x = floats(5, 3) if sizes else floats(5, 3, 3)
    tail = [] if sizes else [False]
    return (x, *sizes, hidden, cells(4), True, 1, 0.0, False, False, *tail), {}


def gru(*sizes):
    x = floats(5, 3) if sizes else floats(5, 3, 3)
    tail = [] if sizes else [False]
    return (x, *sizes, floats(1, 3, 4), cells(3), True, 1, 0.0, False, False, *tail), {}


CALLS = {
    **{
        f"quantized::{name}": [lambda: ((quantized(2, 3), linear_weight(), 0.05, 3), {})]
        for name in ("linear", "linear_relu")
    },
    **{
        f"quantized::{name}": [lambda: ((floats(2, 3), linear_weight()), {})]
        for name in ("linear_dynamic", "linear_relu_dynamic")
    },
    **{
        f"quantized::conv{dims}d{name}": [
            lambda dims=dims: ((quantized(2, 3, *[5] * dims), convolution_weight(dims), 0.1, 3), {})
        ]
        for dims in (1, 2, 3)
        for name in (("", "_relu") if dims == 1 else (".new", "_relu.new"))
    },
    "quantized::conv2d_dynamic": [lambda: ((floats(2, 3, 5, 5), convolution_weight(2)), {})],
    "quantized::embedding_byte": [
        lambda: ((embedding_weight(), torch.tensor([0, 5, 3])), {}),
    ],
    "quantized::embedding_bag_byte": [
        lambda: ((embedding_weight(), torch.tensor([0, 5, 3]), torch.tensor([0, 2])), {}),
    ],
    "aten::quantized_lstm.input": [lstm],
    "aten::quantized_lstm.data": [lambda: lstm(SIZES)],
    "aten::quantized_gru.input": [gru],
    "aten::quantized_gru.data": [lambda: gru(SIZES)],
    "quantized::quantized_lstm_cell_dynamic": [
        lambda: ((floats(2, 3), [floats(2, 4)] * 2, *packed_cell(4)), {})
    ],
}
