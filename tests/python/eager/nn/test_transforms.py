"""Higher derivatives and torch.func on device tensors, against the CPU."""

import pytest
import torch
import torch.nn.functional as F
from support import on_cpu_and_device
from torch.func import grad, hessian, jacfwd, jacrev, jvp, vjp, vmap

X = torch.linspace(-1.5, 2, 24).reshape(2, 3, 4)
IMAGE = torch.linspace(-1, 1, 2 * 3 * 6 * 6).sin().reshape(2, 3, 6, 6)
KERNEL = torch.linspace(-1, 1, 4 * 3 * 3 * 3).cos().reshape(4, 3, 3, 3)

FUNCTIONS = {
    "tanh": torch.tanh,
    "softmax": lambda x: x.softmax(-1),
    "logsumexp": lambda x: x.logsumexp(1),
    "layer_norm": lambda x: F.layer_norm(x, (4,)),
    "gelu": F.gelu,
    "matmul": lambda x: x @ x.transpose(1, 2),
    "cumsum_prod": lambda x: x.cumsum(0) * x.prod(-1, keepdim=True),
    "norm": lambda x: x.norm(dim=-1),
    "var": lambda x: x.var(-1),
    "sort": lambda x: x.sort(-1).values * torch.arange(4.0, device=x.device),
    "index": lambda x: x[:, torch.tensor([2, 0, 2], device=x.device)].sin(),
    "where": lambda x: torch.where(x > 0, x.sin(), x.exp()),
    "amax": lambda x: x.amax(-1) * x.mean(1).sum(),
}


def compare(function, device, *tensors):
    expected, actual = on_cpu_and_device(function, device, *tensors)
    scale = max(1, expected.abs().max().item())
    torch.testing.assert_close(actual, expected, rtol=1e-4, atol=1e-5 * scale)


def second_derivative(function):
    def run(*tensors):
        tensors = [x.clone().requires_grad_() for x in tensors]
        first = torch.autograd.grad(function(*tensors).sin().sum(), tensors, create_graph=True)
        penalty = sum(g.square().sum() for g in first)
        return torch.autograd.grad(penalty, tensors[0])[0]

    return run


@pytest.mark.parametrize("name", FUNCTIONS)
def test_double_backward(device, name):
    compare(second_derivative(FUNCTIONS[name]), device, X)


@pytest.mark.parametrize(
    "function",
    [
        lambda x, w: F.conv2d(x, w, padding=1),
        lambda x, w: F.conv_transpose2d(x, w.transpose(0, 1), stride=2),
        lambda x, w: F.max_pool2d(x, 2) * w.mean(),
        lambda x, w: F.interpolate(x, scale_factor=1.5, mode="bilinear") * w.mean(),
        lambda x, w: F.batch_norm(x, None, None, training=True) * w.mean(),
        lambda x, w: F.group_norm(x, 3) * w.mean(),
    ],
    ids=["conv", "conv_transpose", "max_pool", "interpolate", "batch_norm", "group_norm"],
)
def test_double_backward_of_images(device, function):
    compare(second_derivative(function), device, IMAGE, KERNEL)


@pytest.mark.parametrize("name", FUNCTIONS)
def test_forward_mode(device, name):
    function = FUNCTIONS[name]
    compare(lambda x, t: jvp(function, (x,), (t,))[1], device, X, X.cos())


@pytest.mark.parametrize("name", FUNCTIONS)
def test_vmap(device, name):
    """Over the last dimension, so that the inner tensors have strides."""
    function = FUNCTIONS[name]
    compare(vmap(function, in_dims=3), device, torch.stack([X, X.sin(), -X], dim=3))


@pytest.mark.parametrize("transform", [jacrev, jacfwd, hessian], ids=lambda f: f.__name__)
def test_jacobians(device, transform):
    compare(transform(lambda x: (x.sin() @ x.cos().t()).sum(0)), device, X[0])


def test_gradients_per_sample(device):
    def loss(w, x, y):
        return F.cross_entropy((x @ w)[None], y[None])

    y = torch.tensor([1, 0, 2])
    compare(lambda w, x, y: vmap(grad(loss), (None, 0, 0))(w, x, y), device, X[0].t(), X[0], y)


def test_vjp_inside_vmap(device):
    def run(x, t):
        return vmap(lambda x, t: vjp(torch.sin, x)[1](t)[0])(x, t)

    compare(run, device, X, X.cos())


def test_random_numbers_inside_vmap(device):
    x = torch.zeros(3, 1000, device=device)
    different = vmap(lambda x: x + torch.randn_like(x), randomness="different")(x)
    same = vmap(lambda x: x + torch.randn_like(x), randomness="same")(x)
    assert not torch.equal(different[0], different[1])
    assert torch.equal(same[0], same[1])
