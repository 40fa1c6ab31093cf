"""torch.compile of attention whose keys and values are repeated for the queries of a group."""

import pytest
import torch
from support import random_tensor

F = torch.nn.functional


def repeat_kv(x, count):
    """The function of transformers."""
    batch, heads, rows, columns = x.shape
    repeated = x[:, :, None].expand(batch, heads, count, rows, columns)
    return repeated.reshape(batch, heads * count, rows, columns)


def interleave(x, count):
    return torch.repeat_interleave(x, count, dim=1)


def other_order(x, count):
    return x.repeat(1, count, 1, 1)


def repeated_rows(x, count):
    rows = x[:, :, :, None].expand(*x.shape[:3], count, x.shape[3])
    return rows.reshape(x.shape[0], x.shape[1] * count, *x.shape[2:])


def in_front(x, count):
    """Repeats in a dimension in front of the heads, which gives the order of other_order()."""
    batch, heads, rows, columns = x.shape
    repeated = x.unsqueeze(2).expand(count, batch, heads, 1, rows, columns)
    return repeated.reshape(batch, count * heads, rows, columns)


def attention(of_keys, of_values, count=2):
    def function(query, key, value, mask):
        keys, values = of_keys(key, count), of_values(value, count)
        return F.scaled_dot_product_attention(query, keys, values, attn_mask=mask)

    return function


def operands(queries, keys=700):
    shapes = [(2, 4, queries, 16), (2, 2, keys, 16), (2, 2, keys, 16)]
    tensors = [
        random_tensor(shape, torch.float32, seed=i, low=-1, high=1)
        for i, shape in enumerate(shapes)
    ]
    return [*tensors, torch.ones(queries, keys, dtype=torch.bool).tril(keys - queries)]


def compiled(function, **options):
    torch._dynamo.reset()
    return torch.compile(function, fullgraph=True, **options)


def assert_agrees(program, function, device, args):
    with torch.no_grad():
        result = program(*(tensor.to(device) for tensor in args))
        torch.testing.assert_close(result.cpu(), function(*args), rtol=1e-4, atol=1e-5)


def peak(program, args):
    """Bytes that a call allocates at once."""
    torch.ocl.reset_peak_memory_stats()
    before = torch.ocl.memory_allocated()
    program(*args)
    return torch.ocl.max_memory_allocated() - before


@pytest.mark.sample
@pytest.mark.parametrize("repeat", [repeat_kv, interleave])
@pytest.mark.parametrize("queries", [1, 33])
def test_no_copies_of_keys(device, repeat, queries):
    args, function = operands(queries), attention(repeat, repeat)
    program = compiled(function)
    assert_agrees(program, function, device, args)
    with torch.no_grad():
        assert peak(program, [tensor.to(device) for tensor in args]) < 2 * args[1].nbytes


@pytest.mark.parametrize("keys, values", [(other_order, other_order), (repeat_kv, other_order)])
@pytest.mark.parametrize("rows", [False, True])
def test_other_copies(device, keys, values, rows):
    function = attention(keys, repeated_rows if rows else values)
    assert_agrees(compiled(function), function, device, operands(5, 70))


def test_a_repeat_in_front_of_the_heads(device):
    function, args = attention(in_front, in_front), operands(5, 70)
    args = [*(x[:1] for x in args[:3]), args[3]]
    assert_agrees(compiled(function), function, device, args)


@pytest.mark.parametrize("dynamic", [False, True])
def test_keys_that_are_the_values(device, dynamic):
    def function(query, key, mask):
        repeated = repeat_kv(key, 2)
        return F.scaled_dot_product_attention(query, repeated, repeated, attn_mask=mask)

    query, key, _, mask = operands(5, 70)
    assert_agrees(compiled(function, dynamic=dynamic), function, device, [query, key, mask])


def test_all_sizes(device):
    function = attention(repeat_kv, repeat_kv)
    program = compiled(function, dynamic=True)
    for queries, keys in ((1, 70), (33, 70), (5, 90)):
        assert_agrees(program, function, device, operands(queries, keys))


def test_gradients(device):
    def run(where, program):
        args = [x.to(where).requires_grad_(x.is_floating_point()) for x in operands(7, 70)]
        program(*args).square().sum().backward()
        return [tensor.grad.cpu() for tensor in args[:3]]

    function = attention(repeat_kv, repeat_kv)
    for actual, expected in zip(run(device, compiled(function)), run("cpu", function), strict=True):
        torch.testing.assert_close(actual, expected, rtol=1e-4, atol=1e-5)
