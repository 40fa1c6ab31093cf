"""Whole networks: ResNet-18 and transformer layers train as on the CPU, without any fallback."""

import copy

import pytest
import torch
from models import resnet18, train_step, transformer_layer
from support import output_of
from torch.nn.functional import cross_entropy

# Distinct programs that a training step of ResNet-18 may need: each costs time at the first run.
# Large GPUs take tiles of several sizes for its convolutions.
MOST_PROGRAMS = {"cpu": 36, "gpu": 48}


def relative_errors(model, reference):
    """The error of each gradient, relative to its largest element."""
    for (name, p), q in zip(model.named_parameters(), reference.parameters(), strict=True):
        scale = q.grad.abs().max().clamp_min(1e-12)
        yield ((p.grad.cpu().double() - q.grad.double()).abs().max() / scale).item(), name


@pytest.mark.parametrize("order", [torch.contiguous_format, torch.channels_last])
def test_resnet18_gradients(operator_device, order):
    """Against float64 on the CPU: as exact as float32 can be over 20 layers."""
    reference = resnet18(10).double()
    model = copy.deepcopy(reference).float().to(operator_device, memory_format=order)
    x, target = torch.randn(4, 3, 64, 64), torch.tensor([3, 7, 0, 7])
    expected = cross_entropy(reference(x.double()), target)
    expected.backward()
    on_device = x.to(operator_device).contiguous(memory_format=order)
    loss = cross_entropy(model(on_device), target.to(operator_device))
    loss.backward()
    assert loss.item() == pytest.approx(expected.item(), rel=1e-4)
    assert max(relative_errors(model, reference))[0] < 1e-3
    for name, buffer in model.named_buffers():
        wanted = reference.get_buffer(name)
        torch.testing.assert_close(buffer.cpu().to(wanted.dtype), wanted, rtol=1e-3, atol=1e-4)


@pytest.mark.parametrize("optimizer", ["SGD", "Adam", "AdamW"])
def test_resnet18_learns(device, optimizer):
    model = resnet18(10).to(device)
    x, target = torch.randn(8, 3, 32, 32, device=device), torch.arange(8, device=device)
    rate = {"SGD": 0.05, "Adam": 1e-3, "AdamW": 1e-3}[optimizer]
    step = getattr(torch.optim, optimizer)(model.parameters(), rate)
    losses = [train_step(model, step, x, target, cross_entropy).item() for _ in range(8)]
    assert losses[-1] < 0.5 * losses[0], losses
    model.eval()
    assert model(x).isfinite().all().item()


@pytest.mark.parametrize("masked", [False, True])
def test_transformer_layer_gradients(operator_device, masked):
    reference = transformer_layer().double()
    model = copy.deepcopy(reference).float().to(operator_device)
    x = torch.randn(3, 20, 64)
    mask = torch.nn.Transformer.generate_square_subsequent_mask(20) if masked else None
    weights = torch.randn(3, 20, 64)
    wide_mask = mask.double() if masked else None
    (reference(x.double(), src_mask=wide_mask) * weights.double()).sum().backward()
    mask = mask.to(operator_device) if masked else None
    y = model(x.to(operator_device), src_mask=mask)
    (y * weights.to(operator_device)).sum().backward()
    assert max(relative_errors(model, reference))[0] < 1e-4


def test_transformer_layer_learns(device):
    model = transformer_layer(dropout=0.1).to(device)
    step = torch.optim.AdamW(model.parameters(), 1e-3)
    x, target = torch.randn(4, 16, 64, device=device), torch.randn(4, 16, 64, device=device)
    losses = [
        train_step(model, step, x, target, torch.nn.functional.mse_loss).item() for _ in range(20)
    ]
    assert losses[-1] < 0.8 * losses[0], losses


@pytest.mark.parametrize("activation", ["relu", "gelu"])
def test_transformer_fast_path(device, activation):
    """Without gradients, PyTorch takes operators of its own for these layers."""
    layer = torch.nn.TransformerEncoderLayer(64, 4, 128, activation=activation, batch_first=True)
    layer.eval()
    on_device = copy.deepcopy(layer).to(device)
    x = torch.randn(3, 10, 64)
    padding = torch.zeros(3, 10, dtype=torch.bool)
    padding[1, 7:] = True
    causal = torch.nn.Transformer.generate_square_subsequent_mask(10)
    with torch.no_grad():
        for masks in ({}, {"src_key_padding_mask": padding}, {"src_mask": causal}):
            moved = {name: mask.to(device) for name, mask in masks.items()}
            torch.testing.assert_close(
                on_device(x.to(device), **moved).cpu(), layer(x, **masks), rtol=1e-4, atol=1e-5
            )
        # A padded batch stays one: where CPU takes nested tensors, the rows of the padding differ.
        encoder = torch.nn.TransformerEncoder(layer, 2, enable_nested_tensor=False).eval()
        moved = torch.nn.TransformerEncoder(on_device, 2).eval()
        moved.load_state_dict(encoder.state_dict())
        actual = moved(x.to(device), src_key_padding_mask=padding.to(device)).cpu()
        expected = encoder(x, src_key_padding_mask=padding)
        torch.testing.assert_close(actual[~padding], expected[~padding], rtol=1e-4, atol=1e-5)
    attention = torch.nn.MultiheadAttention(64, 4, batch_first=True).eval()
    moved = copy.deepcopy(attention).to(device)
    with torch.no_grad():
        for a, e in zip(moved(*[x.to(device)] * 3), attention(x, x, x), strict=True):
            torch.testing.assert_close(a.cpu(), e, rtol=1e-4, atol=1e-5)


@pytest.mark.sample
def test_masked_softmax(device):
    scores = torch.randn(2, 3, 5, 5)
    masks = [torch.rand(shape) < 0.4 for shape in [(5, 5), (2, 5), (2, 3, 5, 5)]]
    masks[0][2] = True  # a row without any element: NaN, as on the CPU
    for kind, mask in enumerate(masks):
        actual = torch._masked_softmax(scores.to(device), mask.to(device), 3, kind)
        expected = torch._masked_softmax(scores, mask, 3, kind)
        torch.testing.assert_close(actual.cpu(), expected, equal_nan=True)
    y, grad = torch._masked_softmax(scores, masks[2], 3, 2), torch.randn(2, 3, 5, 5)
    expected = torch.ops.aten._masked_softmax_backward(grad, y, masks[2], 3)
    actual = torch.ops.aten._masked_softmax_backward(
        *(t.to(device) for t in (grad, y, masks[2])), 3
    )
    torch.testing.assert_close(actual.cpu(), expected, equal_nan=True)


def test_programs_of_a_training_step():
    code = """
        import sys
        sys.path.insert(0, "tests/python/common")
        import torch
        import torch_ocl._C as backend
        from models import resnet18, train_step
        model = resnet18(10).to("ocl")
        step = torch.optim.SGD(model.parameters(), 0.05, momentum=0.9)
        x, target = torch.randn(2, 3, 64, 64).to("ocl"), torch.tensor([1, 2]).to("ocl")
        before = sum(backend.program_cache_stats().values())
        for _ in range(2):
            train_step(model, step, x, target, torch.nn.functional.cross_entropy).item()
        count = sum(backend.program_cache_stats().values()) - before
        print(torch.ocl.get_device_properties(0).kernel_family, count)
    """
    family, count = output_of(code).split()
    print(f"programs of a ResNet-18 training step: {count}")
    assert int(count) <= MOST_PROGRAMS[family]
