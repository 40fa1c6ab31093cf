"""Fused attention in transforms of torch.func: torch_ocl/vmap.py, and the choice of the kernels."""

import pytest
import torch
from support import random_tensor
from torch.func import grad, jacrev, vmap
from torch.nn.functional import scaled_dot_product_attention as attention

SHAPE = (3, 2, 4, 5, 8)  # samples, batch, heads, rows, elements


def operands(shape=SHAPE):
    return [random_tensor(shape, torch.float32, seed=i, low=-1, high=1) for i in range(3)]


def loss(*operands, **options):
    return attention(*operands, **options).sin().sum()


def compare(function, device, *tensors):
    actual, expected = function(*(t.to(device) for t in tensors)), function(*tensors)
    for a, b in zip(actual, expected, strict=True):
        assert a.device.type == "ocl"
        torch.testing.assert_close(a.cpu(), b, rtol=1e-4, atol=1e-5)


@pytest.mark.parametrize("causal", [False, True])
@pytest.mark.parametrize("in_dims", [(0, 0, 0), (0, None, None), (None, 0, 0), (2, 0, 0)], ids=str)
def test_gradients_per_sample(device, in_dims, causal):
    """Training with differential privacy needs a gradient for each sample."""
    tensors = [
        t[0] if dim is None else t.movedim(0, dim)
        for t, dim in zip(operands(), in_dims, strict=True)
    ]
    function = grad(lambda *t: loss(*t, is_causal=causal), (0, 1, 2))
    compare(vmap(function, in_dims), device, *tensors)


def test_gradient_through_samples(device):
    compare(grad(lambda *t: vmap(attention)(*t).sin().sum(), (0, 1, 2)), device, *operands())


def test_nested(device):
    factors = torch.tensor([1.0, -2.0])

    def each_factor(factors, q, k, v):
        return [vmap(grad(lambda s: vmap(attention)(q * s, k, v * s).sin().sum()))(factors)]

    compare(each_factor, device, factors, *operands())


def test_jacobian(device):
    compare(jacrev(attention, (0, 1, 2)), device, *operands((1, 2, 3, 4)))


@pytest.mark.parametrize("shape", [(5, 5), (4, 5, 5), (2, 1, 5, 5), (1, 4, 1, 5)], ids=str)
def test_masks(device, shape):
    mask = random_tensor(shape, torch.float32, seed=7)
    masks = torch.stack([mask, -mask, mask.cos()])

    def of_all(mask, *tensors):
        return vmap(grad(lambda *t: loss(*t, attn_mask=mask), (0, 1, 2)))(*tensors)

    def of_each(masks, q, k, v):
        per_sample = vmap(grad(lambda q, mask: loss(q, k[0], v[0], attn_mask=mask)))
        with torch.no_grad():
            forward = vmap(lambda q, mask: attention(q, k[0], v[0], attn_mask=mask))(q, masks)
        return [per_sample(q, masks), forward]

    compare(of_all, device, mask, *operands())
    compare(of_each, device, masks, *operands())


def test_gradient_of_a_mask(device):
    """The fused kernels have none, the CPU neither: a loop over the samples is the reference."""
    tensors = [t.to(device) for t in operands()]
    masks = random_tensor((3, 5, 5), torch.float32).to(device)

    def of_mask(mask, *tensors):
        return loss(*tensors, attn_mask=mask)

    each = [grad(of_mask)(*arguments) for arguments in zip(masks, *tensors, strict=True)]
    outside = grad(lambda masks: vmap(of_mask)(masks, *tensors).sum())(masks)
    torch.testing.assert_close(outside, torch.stack(each), rtol=1e-4, atol=1e-5)


def test_mask_of_each_sample_in_the_operator(device):
    tensors = [t.to(device) for t in operands()]
    masks = random_tensor((3, 2, 4, 5, 5), torch.float32).to(device)
    fused = torch.ops.aten._scaled_dot_product_fused_attention_overrideable
    actual = vmap(lambda *t: fused(*t)[0])(*tensors, masks)
    expected = torch.stack([fused(*t)[0] for t in zip(*tensors, masks, strict=True)])
    torch.testing.assert_close(actual, expected)
    shared = vmap(lambda m: fused(*(t[0] for t in tensors), m)[0])(masks)
    expected = torch.stack([fused(*(t[0] for t in tensors), m)[0] for m in masks])
    torch.testing.assert_close(shared, expected)


@pytest.mark.parametrize("batched", [True, False])
def test_randomness_of_dropout(device, batched):
    q = torch.zeros(3, 1, 2, 16, 8, device=device)

    def samples(randomness):
        def drop(q, x):
            return attention(q, q, torch.ones_like(q), dropout_p=0.5) + x

        in_dims = (0 if batched else None, 0)
        x = torch.zeros(3, device=device)
        return vmap(drop, in_dims, randomness=randomness)(q if batched else q[0], x)

    with pytest.raises(RuntimeError, match="randomness"):
        samples("error")
    assert not torch.equal(*samples("different")[:2])
    assert torch.equal(*samples("same")[:2])


def test_batched_gradients_of_one_dropout(device):
    """Each drops the elements that the forward pass dropped."""
    tensors = [t.to(device).requires_grad_() for t in operands((1, 2, 3, 4))]
    out = attention(*tensors, dropout_p=0.5)
    grads = random_tensor((5, 1, 2, 3, 4), torch.float32).to(device)
    actual = torch.autograd.grad(out, tensors, grads, is_grads_batched=True, retain_graph=True)
    each = [torch.autograd.grad(out, tensors, g, retain_graph=True) for g in grads]
    for a, parts in zip(actual, zip(*each, strict=True), strict=True):
        torch.testing.assert_close(a, torch.stack(parts), rtol=1e-4, atol=1e-5)
