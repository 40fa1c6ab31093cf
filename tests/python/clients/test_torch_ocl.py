"""torch.ocl against torch.cuda: names, signatures, and the methods of the renamed backend."""

import inspect

import pytest
import torch
from cuda_names import MISSING, public_names
from torch.nn.utils.rnn import pack_sequence


def test_every_function_of_torch_cuda_is_here_or_named():
    assert public_names(torch.cuda) - public_names(torch.ocl) - MISSING.keys() == set()
    assert MISSING.keys() & public_names(torch.ocl) == set(), "no longer missing"


@pytest.mark.parametrize("name", sorted(public_names(torch.cuda) & public_names(torch.ocl)))
def test_arguments_as_in_torch_cuda(name):
    theirs, ours = getattr(torch.cuda, name), getattr(torch.ocl, name)
    if inspect.isclass(theirs) and not inspect.isfunction(theirs.__new__):
        pytest.skip("no Python signature")
    try:
        wanted = inspect.signature(theirs).parameters
    except ValueError:
        pytest.skip("no Python signature")
    offered = inspect.signature(ours).parameters
    free = any(p.kind is p.VAR_KEYWORD for p in offered.values())
    missing = set(wanted) - set(offered) - {"kwargs", "args"}
    assert not missing or free, missing


@pytest.mark.filterwarnings("ignore:TypedStorage is deprecated")
def test_renamed_methods(device):
    """The methods that torch.utils.generate_methods_for_privateuse1_backend makes."""
    index = torch.device(device).index
    x = torch.arange(6.0)
    assert x.ocl(index).device == torch.device(device) and x.ocl(index).is_ocl and not x.is_ocl
    assert x.ocl(index, non_blocking=True).tolist() == x.tolist()
    module = torch.nn.Linear(3, 2).ocl(index)
    assert all(p.is_ocl for p in module.parameters())
    packed = pack_sequence([torch.ones(3), torch.zeros(2)]).ocl(index)
    assert packed.is_ocl and packed.data.device == torch.device(device)
    assert packed.cpu().data.tolist() == [1, 0, 1, 0, 1]
    storage = x.untyped_storage().ocl(index)
    assert storage.is_ocl and storage.device == torch.device(device)
    assert storage.cpu().tolist() == x.untyped_storage().tolist()
    typed = x.storage().ocl(index)
    assert typed.is_ocl and typed.dtype == torch.float32


@pytest.mark.filterwarnings("ignore:.*quantized")
def test_quantized_storage_is_refused(device):
    x = torch.quantize_per_tensor(torch.ones(3), 0.1, 0, torch.quint8)
    with pytest.raises(RuntimeError, match="quint8 dtype is not supported by this backend"):
        x.storage().ocl(torch.device(device).index)


def test_memory_and_peers(device):
    nested = torch.ocl.memory_stats_as_nested_dict(device)
    flat = torch.ocl.memory_stats(device)
    assert nested["allocated_bytes"]["all"]["current"] == flat["allocated_bytes.all.current"]
    assert torch.ocl.can_device_access_peer(device, device)
    if torch.ocl.device_count() > 1:
        assert not torch.ocl.can_device_access_peer(0, 1)
    assert torch.ocl.is_bf16_supported() and not torch.ocl.is_bf16_supported(False)
    assert torch.ocl.OutOfMemoryError is torch.OutOfMemoryError
