"""Tensors and numbers that the functions of a compiled flex_attention read."""

import pytest
import torch
from flex_cases import (
    BIAS,
    DOCUMENTS,
    alibi,
    assert_close,
    check,
    compiled,
    documents,
    exact,
    formula,
    on,
    operands,
    relative_bias,
    wrapped_bias,
)
from support import needs_torch
from torch.nn.attention.flex_attention import flex_attention

pytestmark = pytest.mark.usefixtures("fresh_compiler")


@pytest.mark.parametrize("bias", [relative_bias, wrapped_bias])
def test_captured_tensors(device, bias):
    check(device, operands(), (bias(BIAS), bias(BIAS.to(device))))


def test_packed_documents(device):
    masks = documents(DOCUMENTS), documents(DOCUMENTS.to(device))
    check(device, operands(), alibi, masks, block=16)


def test_gradients_of_captured_tensors(device):
    tensors = operands()
    bias, ours = BIAS.double().requires_grad_(), BIAS.to(device).requires_grad_()
    expected, _ = formula(*exact(tensors), relative_bias(bias))
    actual = compiled()(*on(device, tensors, grad=True), score_mod=relative_bias(ours))
    expected.square().sum().backward()
    actual.square().sum().backward()
    assert_close([ours.grad], [bias.grad], 1e-4)


def test_two_reads_of_a_tensor_with_gradients_are_refused(device):
    bias = BIAS.to(device).requires_grad_()

    def twice(score, b, h, m, n):
        return score + bias[h, m] * bias[h, n]

    with pytest.raises(Exception, match="multiple indexing operations"):
        compiled()(*on(device, operands(), grad=True), score_mod=twice).sum().backward()


def scaled_by(factor):
    return lambda score, b, h, m, n: score * factor


@needs_torch(14, "before PyTorch 2.14, they are refused")
def test_gradients_of_tensors_without_dimensions(device):
    tensors = operands()
    factor = torch.tensor(0.75, dtype=torch.float64, requires_grad=True)
    ours = factor.detach().to(device, torch.float32).requires_grad_()
    expected, _ = formula(*exact(tensors), scaled_by(factor))
    actual = compiled()(*on(device, tensors, grad=True), score_mod=scaled_by(ours))
    expected.square().sum().backward()
    actual.square().sum().backward()
    assert_close([ours.grad], [factor.grad], 1e-4)


@pytest.mark.skipif(torch.__version__ >= "2.14", reason="PyTorch 2.14 computes them")
def test_refused_gradients_of_tensors_without_dimensions(device):
    tensors = on(device, operands((1, 1, 40, 16)), grad=True)
    factor = torch.ones((), device=device, requires_grad=True)
    with pytest.raises(Exception, match="give it one dimension"):
        compiled()(*tensors, score_mod=scaled_by(factor)).sum().backward()


def test_refused_gradients_of_captured_tensors(device):
    tensors = on(device, operands((1, 1, 40, 16)), grad=True)
    factors = torch.ones(1, device=device, requires_grad=True)
    torch.use_deterministic_algorithms(True)
    try:
        with pytest.raises(Exception, match="sums in any order on ocl"):
            result = compiled()(*tensors, score_mod=lambda score, b, h, m, n: score * factors[0])
            result.sum().backward()
    finally:
        torch.use_deterministic_algorithms(False)


def test_gradients_need_the_score(device):
    tensors = on(device, operands((1, 1, 40, 16)), grad=True)
    with pytest.raises(Exception, match=r"depends? on (the )?score"):
        compiled()(*tensors, score_mod=lambda score, b, h, m, n: (m - n) * 0.1).sum().backward()


def test_an_index_outside_of_a_captured_tensor(device):
    bias = BIAS[:, :100].to(device)
    function = compiled()
    with pytest.raises(IndexError, match="index 149 is out of bounds"):
        function(*on(device, operands((1, 1, 150, 16))), score_mod=relative_bias(bias))
        torch.ocl.synchronize()


refused_since_2_15 = pytest.mark.skipif(
    torch.__version__ >= "2.15", reason="Dynamo of PyTorch 2.15 refuses floats, on every device"
)


@pytest.mark.parametrize(
    "numbers", [(2, 3, 5), pytest.param((0.5, 0.25, 3.0), marks=refused_since_2_15)]
)
def test_captured_numbers(device, numbers):
    """From the second one on, they are not part of the program. Dynamo refuses float ones where
    gradients are needed."""
    tensors = operands((2, 2, 50, 16))
    grad = isinstance(numbers[0], int)

    def attend(factor, *tensors):
        return flex_attention(*tensors, score_mod=lambda score, b, h, m, n: score * factor)

    torch._dynamo.reset()
    function = torch.compile(attend, fullgraph=True)
    for factor in numbers:
        query, key, value = exact(tensors, grad)
        ours = on(device, tensors, grad)
        expected, actual = formula(query * factor, key, value)[0], function(factor, *ours)
        assert_close([actual], [expected])
        if grad:
            expected.sum().backward()
            actual.sum().backward()
            assert_close([ours[1].grad], [key.grad], 1e-4)


def test_captured_tensors_on_the_cpu(device):
    tensors = operands((2, 2, 50, 16))
    of_cpu, factor, double = BIAS[0], torch.tensor(0.5), torch.tensor(0.1, dtype=torch.float64)
    check(device, tensors, lambda score, b, h, m, n: score * factor - double)
    with pytest.raises(Exception, match=r"shape \[299\] on the CPU, but queries are on ocl:0"):
        compiled()(*on(device, tensors), score_mod=lambda score, b, h, m, n: score + of_cpu[n])
