"""Moving modules to the device and back keeps their parameters' identity, as for CUDA."""

import copy
import weakref

import pytest
import torch


def tied_layers():
    first, last = torch.nn.Embedding(5, 4), torch.nn.Linear(4, 5, bias=False)
    last.weight = first.weight
    return torch.nn.Sequential(first, torch.nn.Sequential(last))


@pytest.mark.parametrize("move", ["to", "ocl", "to_and_convert"])
def test_shared_parameters(device, move):
    model = tied_layers()
    wanted = model[0].weight.detach().clone()
    weight = model[0].weight
    weight.kept = "as it was"
    if move == "ocl":
        model.ocl(device)
    else:
        model.to(device, torch.float16 if move == "to_and_convert" else None)
    assert model[0].weight is weight and model[1][0].weight is weight
    assert weight.device.type == "ocl" and weight.kept == "as it was"
    assert len(list(model.parameters())) == 1
    assert torch.equal(weight.detach().cpu(), wanted.to(weight.dtype))
    model.cpu()
    assert model[0].weight is weight and model[1][0].weight is weight
    assert weight.device.type == "cpu" and weight.is_leaf and weight.requires_grad


def test_optimizer_made_before(device):
    """It trains the moved parameters; gradients move along."""
    reference, inputs, target = tied_layers(), torch.tensor([1, 2, 4]), torch.tensor([0, 2, 3])
    model = copy.deepcopy(reference)
    optimizers = [torch.optim.SGD(m.parameters(), 0.5, momentum=0.5) for m in (reference, model)]
    for step in range(3):
        where = device if step == 1 else "cpu"
        torch.nn.functional.cross_entropy(reference(inputs), target).backward()
        torch.nn.functional.cross_entropy(model(inputs), target).backward()
        model.to(where)
        assert model[0].weight.grad.device.type == torch.device(where).type
        for state in optimizers[1].state.values():
            state["momentum_buffer"] = state["momentum_buffer"].to(where)
        for optimizer in optimizers:
            optimizer.step()
            optimizer.zero_grad()
        model.cpu()
        for state in optimizers[1].state.values():
            state["momentum_buffer"] = state["momentum_buffer"].cpu()
        torch.testing.assert_close(model[0].weight, reference[0].weight)


def test_frozen_parameter_and_recurrent_layers(device):
    model = torch.nn.LSTM(3, 4, num_layers=2)
    model.weight_hh_l0.requires_grad_(False)
    before = dict(model.named_parameters())
    model.to(device)
    assert all(p is before[name] for name, p in model.named_parameters())
    assert all(a is b for a, b in zip(model._flat_weights, before.values(), strict=True))
    assert not model.weight_hh_l0.requires_grad and model.weight_ih_l0.requires_grad
    assert model(torch.randn(5, 2, 3, device=device))[0].device.type == "ocl"


class Marked(torch.nn.Parameter):
    """A parameter that a library distinguishes from others by its class."""


def test_class_of_a_parameter(device):
    model = torch.nn.Linear(3, 3)
    model.weight = Marked(model.weight.detach())
    for where in (device, "cpu"):
        model.to(where)
        assert type(model.weight) is Marked and type(model.bias) is torch.nn.Parameter


@pytest.mark.parametrize("kind", ["LazyLinear", "LazyBatchNorm1d"])
def test_lazy_modules(device, kind):
    """They stay lazy: the first input says the shapes."""
    arguments = (5,) if kind == "LazyLinear" else ()
    model = getattr(torch.nn, kind)(*arguments).to(device)
    assert model.has_uninitialized_params() and model.weight.device.type == "ocl"
    x = torch.arange(12.0, device=device).reshape(3, 4)
    assert model(x).shape == (3, 5 if arguments else 4)
    assert type(model.weight) is torch.nn.Parameter and model.weight.device.type == "ocl"


def test_parameter_with_other_references(device):
    """A weak reference, and a graph that uses the parameter, remain valid."""
    model = torch.nn.Linear(3, 3)
    reference = weakref.ref(model.weight)
    loss = model(torch.ones(2, 3)).sum()
    model.to(device)
    assert reference() is model.weight and model.weight.device.type == "ocl"
    model.cpu()
    loss.backward()
    torch.testing.assert_close(model.weight.grad, torch.full((3, 3), 2.0))


def test_data_of_another_device(device):
    """`parameter.data = parameter.data.to(device)`, as many programs move parameters."""
    parameter = torch.nn.Parameter(torch.arange(6.0).reshape(2, 3))
    (parameter * 2).sum().backward()  # makes the node that accumulates gradients
    parameter.grad = None
    parameter.data = parameter.data.to(device).t()
    assert parameter.device.type == "ocl" and parameter.is_leaf and parameter.requires_grad
    assert parameter.stride() == (1, 3)
    (parameter * torch.ones((), device=device)).sum().backward()
    assert parameter.grad.device.type == "ocl"
    parameter.grad.data = parameter.grad.cpu()
    parameter.data = parameter.cpu().double()
    assert parameter.dtype == torch.float64 and parameter.device.type == "cpu"
    for other in (torch.ones(2, 3).to_sparse(), torch.ones(2, 3, device="meta")):
        with pytest.raises(RuntimeError, match="incompatible tensor type"):
            parameter.detach().to(device).data = other


def test_sparse_gradients_move(device):
    model = torch.nn.Embedding(5, 2, sparse=True)
    model(torch.tensor([1, 3, 1])).sum().backward()
    wanted = model.weight.grad.to_dense()
    model.to(device)
    assert model.weight.grad.is_sparse and model.weight.grad.device.type == "ocl"
    assert torch.equal(model.weight.grad.to_dense().cpu(), wanted)


def test_overwriting_is_up_to_the_program(device):
    """torch.__future__ has a switch for new parameters; they are made for each device."""
    model = torch.nn.Linear(3, 3)
    weight = model.weight
    torch.__future__.set_overwrite_module_params_on_conversion(True)
    try:
        model.to(device)
    finally:
        torch.__future__.set_overwrite_module_params_on_conversion(False)
    assert model.weight is not weight and weight.device.type == "cpu"


def test_failing_move(device):
    """Parameters that were moved before the failure are kept, too."""
    model = torch.nn.Linear(3, 3)
    weight, bias = model.weight, model.bias

    def fail_at_bias(tensor):
        if tensor.dim() == 1:
            raise MemoryError("as if")
        return tensor.to(device)

    with pytest.raises(MemoryError, match="as if"):
        model._apply(fail_at_bias)
    assert model.weight is weight and weight.device.type == "ocl"
    assert model.bias is bias and bias.device.type == "cpu"


class Wrapper(torch.Tensor):
    """A tensor of a library that refuses the operators that it does not know."""

    @staticmethod
    def __new__(cls, inner):
        return torch.Tensor._make_wrapper_subclass(cls, inner.shape, device=inner.device)

    @classmethod
    def __torch_dispatch__(cls, function, types, arguments=(), options=None):
        raise NotImplementedError(f"Wrapper does not know {function}")


def test_a_wrapper_is_not_asked_whether_it_takes_data(device):
    wrapped = Wrapper(torch.ones(3, device=device))
    assert torch._has_compatible_shallow_copy_type(wrapped, wrapped)
    assert not torch._has_compatible_shallow_copy_type(torch.eye(2).to_sparse(), wrapped)
