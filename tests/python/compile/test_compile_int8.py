"""torch.compile of products with int8 weights and scales: one launch, with the eager results."""

import pytest
import torch
import torch_ocl._C as backend
from support import generator, random_tensor

F = torch.nn.functional
NEAR = {torch.float32: 1e-5, torch.float16: 2e-3, torch.bfloat16: 1e-2}


def linear(x, weight, scale):
    return F.linear(x, weight.to(x.dtype)) * scale


def matrix(x, weight, scale):
    return scale.view(1, -1) * (x @ weight.t().to(x.dtype))


def layer(device, rows, dtype, scale_shape=(45,)):
    x = random_tensor((*rows, 100), dtype, seed=2, low=-1, high=1)
    weight = random_tensor((45, 100), torch.int8, low=-128, high=128)
    scale = torch.rand(scale_shape, generator=generator(1)).to(dtype)
    return [tensor.to(device) for tensor in (x, weight, scale)]


def launches(function, args):
    """The result, and the launches of a call that compiles nothing."""
    function(*args)
    before = backend.launch_count()
    result = function(*args)
    return result, backend.launch_count() - before


def compiled(function, **options):
    torch._dynamo.reset()
    return torch.compile(function, fullgraph=True, **options)


def assert_close(actual, expected):
    assert actual.dtype == expected.dtype and actual.shape == expected.shape
    error = (actual.double().cpu() - expected.double().cpu()).abs().max()
    assert error <= NEAR[expected.dtype] * expected.double().cpu().abs().max()


@pytest.mark.sample
@pytest.mark.parametrize("function, rows", [(linear, (1,)), (linear, (2, 3)), (matrix, (12,))])
@pytest.mark.parametrize("dtype", NEAR)
def test_one_launch(device, function, rows, dtype):
    args = layer(device, rows, dtype)
    result, count = launches(compiled(function), args)
    assert count == 1 and backend.last_kernel().startswith("packed_linear")
    assert_close(result, function(*args))


def test_dynamic_rows(device):
    program = compiled(linear, dynamic=True)
    for rows in (2, 5, 40):
        args = layer(device, (rows,), torch.float32)
        assert_close(program(*args), linear(*args))


def kept(x, weight, scale):
    product = F.linear(x, weight.to(x.dtype))
    return product * scale, product + 1


def not_transposed(x, weight, scale):
    return (x[:, :45] @ weight.to(x.dtype)) * scale[0]


@pytest.mark.parametrize(
    "function, rows, scale_shape",
    [
        pytest.param(linear, (33,), (45,), id="many rows"),
        pytest.param(linear, (45,), (45, 1), id="a scale for each row of x"),
        pytest.param(linear, (3,), (1,), id="one scale"),
        pytest.param(linear, (1,), (3, 45), id="a scale that broadcasts the product"),
        pytest.param(kept, (3,), (45,), id="a product that is used twice"),
        pytest.param(not_transposed, (3,), (45,), id="weights that are not transposed"),
    ],
)
def test_other_products_are_as_before(device, function, rows, scale_shape):
    args = layer(device, rows, torch.float32, scale_shape)
    result, _ = launches(compiled(function), args)
    assert not backend.last_kernel().startswith("packed_linear")
    expected = function(*args)
    pairs = zip(result, expected) if isinstance(expected, tuple) else [(result, expected)]
    for actual, wanted in pairs:
        assert_close(actual, wanted)


def test_scales_of_another_type(device):
    x, weight, scale = layer(device, (3,), torch.bfloat16)
    result = compiled(linear)(x, weight, scale.float())
    assert result.dtype == torch.float32
    assert (result - linear(x, weight, scale.float())).abs().max() < 1


def test_a_product_that_is_its_own_scale(device):
    def square(x, weight):
        product = torch.nn.functional.linear(x, weight.to(x.dtype))
        return product * product

    args = random_tensor((1, 12), torch.float32), random_tensor((16, 12), torch.int8)
    result = torch.compile(square, fullgraph=True)(*(x.to(device) for x in args))
    assert_close(result.cpu(), square(*args))
