"""Nested tensors (batches of tensors of different sizes) against the CPU."""

import io

import pytest
import torch
import torch.nn.functional as F
from agreement import assert_agreement
from torch import nn

LENGTHS = (3, 1, 5)


def make_nested(width=8, lengths=LENGTHS, **options):
    return torch.nested.nested_tensor([torch.randn(length, width) for length in lengths], **options)


def assert_nested_equal(actual, expected, **tolerance):
    assert actual.is_nested
    assert actual.device.type == "ocl"
    for a, e in zip(actual.unbind(), expected.unbind(), strict=True):
        torch.testing.assert_close(a.cpu(), e, **tolerance)


@pytest.mark.sample
def test_there_and_back(device):
    expected = make_nested()
    actual = expected.to(device)
    assert_nested_equal(actual, expected, rtol=0, atol=0)
    assert_nested_equal(actual.clone(), expected, rtol=0, atol=0)
    back = actual.cpu()
    assert back.device.type == "cpu"
    for a, e in zip(back.unbind(), expected.unbind(), strict=True):
        assert torch.equal(a, e)


def test_made_on_the_device(device):
    parts = [torch.randn(length, 4) for length in LENGTHS]
    actual = torch.nested.nested_tensor([part.to(device) for part in parts], device=device)
    assert_nested_equal(actual, torch.nested.nested_tensor(parts), rtol=0, atol=0)


@pytest.mark.sample
def test_padding(device):
    expected = make_nested()
    padded = expected.to_padded_tensor(-1.0)
    assert torch.equal(expected.to(device).to_padded_tensor(-1.0).cpu(), padded)
    mask = torch.arange(max(LENGTHS))[None, :] < torch.tensor(LENGTHS)[:, None]
    again = torch._nested_tensor_from_mask(padded.to(device), mask.to(device))
    assert_nested_equal(again, expected, rtol=0, atol=0)
    assert torch._nested_tensor_from_mask_left_aligned(padded.to(device), mask.to(device))
    gap = mask.clone()
    gap[0, 1] = False
    assert not torch._nested_tensor_from_mask_left_aligned(padded.to(device), gap.to(device))


@pytest.mark.parametrize(
    "function",
    [
        lambda x: x + x,
        lambda x: x * 2.5,
        torch.relu,
        F.gelu,
        F.silu,
        torch.tanh,
        lambda x: F.softmax(x, -1),
        lambda x: F.layer_norm(x, (8,), torch.ones(8).to(x.device), torch.ones(8).to(x.device)),
        lambda x: x.transpose(1, 2),
    ],
    ids=["add", "mul", "relu", "gelu", "silu", "tanh", "softmax", "layer_norm", "transpose"],
)
def test_functions(device, function):
    x = make_nested()
    assert_nested_equal(function(x.to(device)), function(x), rtol=1e-5, atol=1e-5)


@pytest.mark.sample
def test_products(device):
    x, layer = make_nested(), nn.Linear(8, 5)
    with torch.no_grad():
        expected = layer(x)
        assert_nested_equal(layer.to(device)(x.to(device)), expected, rtol=1e-5, atol=1e-5)
    expected = torch.matmul(x, x.transpose(1, 2))
    actual = torch.matmul(x.to(device), x.to(device).transpose(1, 2))
    assert_nested_equal(actual, expected, rtol=1e-5, atol=1e-5)


def test_gradients(device):
    parts = [torch.randn(length, 8) for length in LENGTHS]
    parameters = torch.randn(8), torch.randn(8), torch.randn(5, 8), torch.randn(5)

    def function(gamma, beta, weight, bias, *parts):
        x = torch.nested.as_nested_tensor(list(parts))
        x = F.relu(F.layer_norm(x, (8,), gamma, beta))
        return F.linear(x, weight, bias).to_padded_tensor(0)

    assert_agreement(device, function, *parameters, *parts)


@pytest.mark.parametrize("dtype", [torch.int32, torch.bool], ids=str)
def test_layer_norm_of_integers(device, dtype):
    x, ones = make_nested().to(dtype), torch.ones(8)
    for where in ("cpu", device):
        with pytest.raises(NotImplementedError, match=r"layer_norm|LayerNorm"):
            F.layer_norm(x.to(where), (8,), ones.to(where), ones.to(where))


@pytest.mark.fallback_allowed
def test_what_has_no_kernel_goes_through_the_cpu(device):
    x = make_nested()
    torch.ocl.reset_fallback_stats()
    actual = torch.sum(x.to(device), -1, keepdim=True)
    assert "aten::sum.dim_IntList" in torch.ocl.fallback_stats()
    assert_nested_equal(actual, torch.sum(x, -1, keepdim=True), rtol=1e-5, atol=1e-5)


@pytest.mark.sample
@pytest.mark.parametrize("activation", ["relu", "gelu"])
def test_encoder_of_padded_batches(device, activation):
    """Without gradients the encoder makes a padded batch nested; padded places become zeros."""
    layer = nn.TransformerEncoderLayer(16, 4, 32, batch_first=True, activation=activation)
    model = nn.TransformerEncoder(layer, 2).eval()
    x = torch.randn(len(LENGTHS), max(LENGTHS), 16)
    padding = torch.arange(max(LENGTHS))[None, :] >= torch.tensor(LENGTHS)[:, None]
    with torch.no_grad():
        expected = model(x, src_key_padding_mask=padding)
        actual = model.to(device)(x.to(device), src_key_padding_mask=padding.to(device)).cpu()
    torch.testing.assert_close(actual, expected, rtol=1e-4, atol=1e-5)
    assert (actual[padding] == 0).all()


def test_load_with_map_location(device):
    x = torch.nested.nested_tensor([torch.ones(2, 3), torch.zeros(0, 3), torch.ones(4, 3) * 2])
    file = io.BytesIO()
    torch.save(x, file)
    file.seek(0)
    loaded = torch.load(file, map_location=device, weights_only=False)
    assert loaded.device == torch.device(device)
    for actual, expected in zip(loaded.unbind(), x.unbind(), strict=True):
        assert torch.equal(actual.cpu(), expected)
