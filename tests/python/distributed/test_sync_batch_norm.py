"""The parts of torch.nn.SyncBatchNorm, put together as it does, against batch_norm of all."""

import pytest
import torch
import torch.nn.functional as F
from support import needs_refused_operators

EPS, MOMENTUM = 1e-5, 0.1


@needs_refused_operators
@pytest.mark.sample
@pytest.mark.parametrize("dtype", [torch.float32, torch.float16])
def test_two_processes(device, dtype):
    x = (torch.randn(6, 3, 4, 5) * 2 + 1).to(dtype)
    weight, bias, grad = torch.randn(3), torch.randn(3), torch.randn(6, 3, 4, 5).to(dtype)
    expected_mean, expected_var = torch.zeros(3), torch.ones(3)
    leaf, w, b = (t.float().requires_grad_() for t in (x, weight, bias))
    expected = F.batch_norm(leaf, expected_mean, expected_var, w, b, True, MOMENTUM, EPS)
    expected.backward(grad.float())

    shares, grads = (t.to(device).split([2, 4]) for t in (x, grad))
    weight, bias = weight.to(device), bias.to(device)
    stats = [torch.batch_norm_stats(share, EPS) for share in shares]
    counts = torch.tensor([share.numel() / 3 for share in shares], device=device)
    running_mean, running_var = torch.zeros(3, device=device), torch.ones(3, device=device)
    mean, invstd = torch.batch_norm_gather_stats_with_counts(
        shares[0],
        *(torch.stack(column) for column in zip(*stats)),
        running_mean,
        running_var,
        MOMENTUM,
        EPS,
        counts,
    )
    outputs = [torch.batch_norm_elemt(s, weight, bias, mean, invstd, EPS) for s in shares]
    sums = [
        torch.batch_norm_backward_reduce(g, s, mean, invstd, weight, True, True, True)
        for g, s in zip(grads, shares)
    ]
    sum_dy, sum_dy_xmu, grad_weight, grad_bias = (sum(column) for column in zip(*sums))
    inputs = [
        torch.batch_norm_backward_elemt(g, s, mean, invstd, weight, sum_dy, sum_dy_xmu, counts)
        for g, s in zip(grads, shares)
    ]

    halves = dtype == torch.float16
    tolerance = {"rtol": 0, "atol": 0.02} if halves else {"rtol": 1e-4, "atol": 1e-5}
    for actual, wanted in (
        (torch.cat(outputs), expected),
        (torch.cat(inputs), leaf.grad),
        (grad_weight, w.grad),
        (grad_bias, b.grad),
        (running_mean, expected_mean),
        (running_var, expected_var),
    ):
        torch.testing.assert_close(actual.float().cpu(), wanted.detach(), **tolerance)
    assert torch.cat(outputs).dtype == dtype


def test_gather_with_one_count(device):
    mean, invstd = torch.randn(2, 3, device=device), torch.rand(2, 3, device=device) + 0.5
    x = torch.empty(1, 3, 2, device=device)
    counts = torch.full((2,), 7.0, device=device)
    one = torch.batch_norm_gather_stats(x, mean, invstd, None, None, MOMENTUM, EPS, 7)
    many = torch.batch_norm_gather_stats_with_counts(
        x, mean, invstd, None, None, MOMENTUM, EPS, counts
    )
    torch.testing.assert_close(one, many)
