"""Cases of sparse, quantized and nested tensors, of users' kernels and of torch.compile."""

import torch
from torch.nn import functional as F

from .inputs import Family, Skip, awkward, differentiated


def sparse(t, x):
    thin = torch.where(x > 0.5, x, torch.zeros_like(x))
    coo, csr = thin.to_sparse(), thin.to_sparse_csr()
    other = t.x(x.shape[1], 5)
    return [
        coo.indices(),
        coo.values(),
        csr.crow_indices(),
        coo.to_dense(),
        csr.to_dense(),
        coo @ other,
        csr @ other,
        (coo * coo).to_dense(),
    ]


def merged(t):
    """Adds up entries that occur twice."""
    indices = t.i((2, 300), 13)
    x = torch.sparse_coo_tensor(indices, t.x(300), (13, 13)).coalesce()
    return [x.indices(), x.values()]


SPARSE = Family(("sparse",), {**awkward(sparse), "entries that occur twice": merged})


def quantized(t, x):
    y = torch.quantize_per_tensor(x, 0.25, 3, torch.qint8)
    return [
        y.int_repr(),
        y.dequantize(),
        *differentiated(lambda z: torch.fake_quantize_per_tensor_affine(z, 0.25, 3, 0, 100), x),
    ]


def by_channel(t):
    x, scales = t.x(5, 33), t.x(5).abs() + 0.1
    zeros = torch.arange(5, device=t.device)
    y = torch.quantize_per_channel(x, scales, zeros, 0, torch.quint8)
    return [
        y.int_repr(),
        y.dequantize(),
        torch.fake_quantize_per_channel_affine(x, scales, zeros.int(), 0, 0, 100),
    ]


QUANTIZED = Family(("quantized",), {**awkward(quantized), "a scale for each channel": by_channel})


def nested(t, x):
    half = x.shape[0] // 2
    y = torch.nested.nested_tensor([x, x[:half], x[half:]])
    weight = t.x(5, x.shape[1])
    padded = [y.to_padded_tensor(-1.0)] if x.numel() else []  # PyTorch refuses empty ones
    return [
        *padded,
        *(y * 2 + y).unbind(),
        *F.linear(y, weight).unbind(),
        *F.relu(y).unbind(),
    ]


NESTED = Family(("nested",), awkward(nested))

SCALE = """
__kernel void scale(__global const float* x, __global float* out, float by, long count) {
  const size_t i = get_global_id(0);
  if (i < (size_t)count) out[i] = x[i] * by;
}
"""


def own_kernel(t, x):
    """A kernel of the program."""
    x = x.contiguous()
    if t.on_cpu:
        return x * 1.5
    out = torch.empty_like(x)
    kernel = torch.ocl.compile_kernel(SCALE)
    if x.numel():
        kernel.scale(x, out, 1.5, x.numel(), threads=x.numel())
    return out


def fused(x):
    y = (x.sin() * 2 + x).relu()
    return y + y.sum(1, keepdim=True), x.softmax(1)


def compiled(function):
    """A case of torch.compile; the CPU runs the function without it."""

    def run(t, *tensors):
        if t.on_cpu:
            return list(function(*tensors))
        try:
            torch._dynamo.eval_frame.check_if_dynamo_supported()
        except RuntimeError as error:
            raise Skip(str(error)) from error
        return list(torch.compile(function, fullgraph=True, dynamic=False)(*tensors))

    return run


KERNELS_OF_USERS = Family(("user",), awkward(own_kernel))
COMPILED = Family(
    ("inductor",),
    {
        **awkward(compiled(fused)),
        "linear layer": lambda t: compiled(lambda x, w, b: (F.gelu(F.linear(x, w, b)),))(
            t, t.x(9, 65), t.x(33, 65), t.x(33)
        ),
    },
)
