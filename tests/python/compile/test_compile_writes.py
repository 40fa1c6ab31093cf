"""torch.compile of programs that write their inputs: values that are read after the write."""

import pytest
import torch
import writing_programs

pytestmark = pytest.mark.usefixtures("fresh_compiler")


def shift(x, y):
    x[1:] = x[:-1].clone()
    return x * 1


def full_slice(x, y):
    x[0:] = y[0:]
    y.add_(1)
    return y * 1


def scatter_then_write(x, y):
    result = torch.slice_scatter(x, y[1:3], 0, 1, 3), torch.diagonal_scatter(x, x.diagonal())
    x.zero_()
    return result


def copy_between_writes(x, y):
    x.index_fill_(0, torch.tensor([1], device=x.device), 9)
    y = x.clone()
    x.clamp_(0, 3)
    return y


def bits_then_write(x, y):
    bits = x.view(torch.int32) * 2
    x[:, 2:5] = 2
    return bits.view(torch.int64)


def rows_from_rows(x, y):
    x[torch.tensor([2, 0, 1], device=x.device)] = x[:3].clone()
    return x.index_put((torch.tensor([1], device=x.device),), x[:1]), y.copy_(x[:4] + 1)[0]


@pytest.mark.parametrize("dynamic", [False, True])
@pytest.mark.parametrize(
    "function",
    [
        shift,
        full_slice,
        scatter_then_write,
        copy_between_writes,
        bits_then_write,
        rows_from_rows,
    ],
    ids=lambda function: function.__name__,
)
def test_value_before_the_write(device, function, dynamic):
    expected_inputs, actual_inputs = (writing_programs.inputs(device) for _ in range(2))
    expected = function(*expected_inputs)
    actual = torch.compile(function, dynamic=dynamic, fullgraph=True)(*actual_inputs)
    torch.testing.assert_close((actual, actual_inputs), (expected, expected_inputs), rtol=0, atol=0)


def nothing_changes(x, y):
    return x * torch.ones_like(x), y - torch.zeros_like(y), x / 1, y * torch.ones_like(y)


def copies_of_copies(x, y):
    first = x.exp().clone()
    return first, first.clone(), torch.cat([x.exp()]), y.repeat(1, 1).clone()


def copy_after_the_write(x, y):
    x[torch.tensor([1], device=x.device)] = 5
    y.copy_(x * 2)
    return x.clone(), y.clone(), y


def views_of_copies(x, y):
    base = x.exp()
    copy, other = base.clone(), base.clone()
    return base, copy, copy.t(), other[1:], other


@pytest.mark.parametrize("differentiate", [False, True])
@pytest.mark.parametrize(
    "function",
    [nothing_changes, copies_of_copies, copy_after_the_write, views_of_copies],
    ids=lambda function: function.__name__,
)
def test_results_share_memory_as_in_eager_mode(device, function, differentiate):
    def shared(function):
        leaves = [torch.rand(4, 5).to(device).requires_grad_(differentiate) for _ in range(2)]
        inputs = [leaf.clone() for leaf in leaves]
        tensors = [*function(*inputs), *inputs]
        places = [tensor.untyped_storage().data_ptr() for tensor in tensors]
        return [places.index(place) for place in places]

    assert shared(torch.compile(function, fullgraph=True)) == shared(function)


@pytest.mark.parametrize("seed", [12, 26, 3])
def test_random_program(device, seed):
    assert writing_programs.difference(seed, device) is None


@pytest.mark.slow
@pytest.mark.parametrize("dynamic", [False, True])
def test_random_programs(device, dynamic):
    differences = (writing_programs.difference(seed, device, dynamic) for seed in range(200))
    assert not [text for text in differences if text]
