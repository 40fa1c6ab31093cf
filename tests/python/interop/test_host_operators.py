"""Operators whose composite implementation in PyTorch reads tensors on the host."""

import pytest
import torch
from support import assert_same
from torch._VF import gru, lstm

pytestmark = pytest.mark.fallback_allowed


def test_sobol_engine_on_the_device(operator_device):
    engines = [torch.quasirandom.SobolEngine(3, scramble=True, seed=1) for _ in range(2)]
    for name in ["sobolstate", "shift", "quasi", "_first_point"]:
        setattr(engines[0], name, getattr(engines[0], name).to(operator_device))
    for draw in [
        lambda e: e.draw(5),
        lambda e: e.fast_forward(2).draw(3),
        lambda e: e.reset().draw(),
    ]:
        assert_same(*(draw(engine) for engine in engines))
    state, ltm = (
        torch.zeros(3, 30, dtype=torch.int64),
        torch.ones(3, 30, 30, dtype=torch.int64).tril(),
    )
    moved = state.to(operator_device)
    assert torch._sobol_engine_initialize_state_(moved, 3) is moved
    torch._sobol_engine_initialize_state_(state, 3)
    assert_same(moved, state)
    torch._sobol_engine_scramble_(moved, ltm.to(operator_device), 3)
    assert_same(moved, torch._sobol_engine_scramble_(state, ltm, 3))


@pytest.mark.parametrize("bidirectional", [False, True])
def test_packed_sequences_with_sizes_on_the_device(operator_device, bidirectional):
    for function, kind in [(lstm, torch.nn.LSTM), (gru, torch.nn.GRU)]:
        torch.manual_seed(0)
        module = kind(3, 4, bidirectional=bidirectional)
        sizes = torch.tensor([3, 2, 1])
        data = torch.randn(6, 3)
        states = [torch.randn(1 + bidirectional, 3, 4)] * 2
        hidden = states if function is lstm else states[0]
        results = {}
        for device in ["cpu", operator_device]:
            weights = [w.detach().to(device).requires_grad_() for w in module.parameters()]
            x = data.detach().to(device).requires_grad_()
            start = [h.to(device) for h in hidden] if function is lstm else hidden.to(device)
            out = function(x, sizes.to(device), start, weights, True, 1, 0.0, True, bidirectional)
            out[0].sum().backward()
            results[device] = [*(t.detach() for t in out), x.grad, *(w.grad for w in weights)]
            with torch.inference_mode():
                other = function(
                    x, sizes.to(device), start, weights, True, 1, 0, False, bidirectional
                )
            torch.testing.assert_close(other[0], out[0].detach())
        for mine, theirs in zip(results[operator_device], results["cpu"]):
            assert_same(mine.detach(), theirs.detach(), exact=False)


def test_padding_with_sizes_on_the_device(operator_device):
    data, sizes = torch.ones(4, 2), torch.tensor([2, 1, 1])
    padded, lengths = torch._pad_packed_sequence(
        data.to(operator_device), sizes.to(operator_device), True, 9.0, 4
    )
    assert_same(padded, torch._pad_packed_sequence(data, sizes, True, 9.0, 4)[0])
    assert lengths.tolist() == [3, 1]


def test_packed_weights_stay_on_the_cpu(operator_device):
    """They hold pointers of the CPU's library; the products take them with tensors of ocl."""
    weight, bias, x = torch.randn(4, 3), torch.randn(4), torch.randn(2, 3)
    packed = torch.fbgemm_pack_gemm_matrix_fp16(weight.to(operator_device))
    assert packed.is_cpu
    expected = torch.fbgemm_linear_fp16_weight(x, packed, bias)
    moved = x.to(operator_device), packed, bias.to(operator_device)
    assert_same(torch.fbgemm_linear_fp16_weight(*moved), expected)
    quantized, offsets, scale, zero = torch.fbgemm_linear_quantize_weight(
        weight.to(operator_device)
    )
    assert quantized.device.type == offsets.device.type == "ocl"
    packed = torch.fbgemm_pack_quantized_matrix(quantized)
    expected = torch.fbgemm_linear_int8_weight(
        x, quantized.cpu(), packed, offsets.cpu(), scale, zero, bias
    )
    actual = torch.fbgemm_linear_int8_weight(
        moved[0], quantized, packed, offsets, scale, zero, moved[2]
    )
    assert_same(actual, expected)


def test_kaiser_window(operator_device):
    for arguments in [(0,), (1,), (2, False), (9,), (10, False, 5.0), (10, True, 0.0)]:
        for dtype in [torch.float32, torch.float64]:
            expected = torch.kaiser_window(*arguments, dtype=dtype)
            actual = torch.kaiser_window(*arguments, dtype=dtype, device=operator_device)
            assert_same(actual, expected, exact=False)


@pytest.mark.parametrize("dtype", [torch.int16, torch.float32, torch.complex64, torch.float64])
def test_byteswap(operator_device, dtype):
    x = torch.arange(6).to(dtype)
    y = x.to(operator_device)
    x.untyped_storage().byteswap(dtype)
    y.untyped_storage().byteswap(dtype)
    assert_same(y.view(torch.uint8), x.view(torch.uint8))


def test_range_out_without_a_step(operator_device):
    """Its composite calls the CPU's implementation for every device."""
    out = torch.empty(0, device=operator_device)
    assert torch.ops.aten.range.out_(1, 4, out=out) is out
    assert_same(out, torch.arange(1.0, 5.0))


def test_quantized_weights(operator_device):
    """Composite operators have kernels for quantized tensors, too."""
    weight = torch.quantize_per_tensor(torch.randn(4, 3), 0.1, 0, torch.qint8)
    assert torch.fbgemm_pack_quantized_matrix(weight.to(operator_device)).is_cpu


def test_stack_of_tensors(operator_device):
    """The private operator is the CPU's torch.stack, but PyTorch's concatenation elsewhere."""
    x, out = torch.arange(6.0).reshape(2, 3), torch.empty(0)
    moved = torch.empty(0, device=operator_device)
    torch._stack([x, x], 1, out=out)
    assert torch._stack([x.to(operator_device)] * 2, 1, out=moved) is moved
    assert_same(moved, out)
    assert_same(torch._stack([x.to(operator_device)] * 2), torch._stack([x] * 2))


@pytest.mark.parametrize("norm", [0.0, -1.0, 2.0])
def test_renormalised_embeddings(operator_device, norm):
    """One norm is refused by torch.renorm, but not by torch.embedding_renorm_."""
    x, indices = torch.tensor([[1.0, 2, 3], [0, 0, 1], [4, 5, 6]]), torch.tensor([2, 0, 2])
    expected = torch.embedding_renorm_(x.clone(), indices, 1.5, norm)
    actual = torch.embedding_renorm_(x.to(operator_device), indices.to(operator_device), 1.5, norm)
    assert_same(actual, expected, exact=False)
