"""Tensor._lazy_clone: memory is shared until one of the tensors is written."""

import gc

import pytest
import torch
from fallback_operators import OPS
from support import needs_lazy_clones

pytestmark = needs_lazy_clones


def sort_into(x):
    indices = torch.empty(0, dtype=torch.long, device=x.device)
    torch.sort(x.clone(), descending=True, out=(x, indices))


WRITERS = {
    "pointwise": lambda x: x.add_(1),
    "fill": lambda x: x.fill_(7),
    "zero": lambda x: x.zero_(),
    "random": lambda x: x.uniform_(),
    "out": lambda x: torch.add(x, 1, out=x),
    "out of a product": lambda x: torch.mm(x.new_ones(3, 5), x.new_ones(5, 4), out=x),
    "copy": lambda x: x.copy_(torch.ones_like(x)),
    "copy from the host": lambda x: x.copy_(torch.ones(x.shape)),
    "copy into a view": lambda x: x[1:].copy_(x[:2].clone()),
    "index": lambda x: x.index_fill_(0, torch.tensor([1], device=x.device), 5),
    "scatter": lambda x: x.scatter_(0, torch.zeros(1, 4, dtype=torch.long, device=x.device), 9),
    "masked": lambda x: x.masked_fill_(x > 0, 3),
    "foreach": lambda x: torch._foreach_add_([x], 1),
    "sort": lambda x: sort_into(x),
}


@pytest.mark.parametrize("writer", WRITERS)
@pytest.mark.parametrize("write_clone", [False, True])
def test_a_write_does_not_reach_the_other(device, writer, write_clone):
    original = torch.arange(12.0, device=device).view(3, 4)
    expected = original.cpu()
    clone = original._lazy_clone()
    assert torch._C._is_cow_tensor(original) and torch._C._is_cow_tensor(clone)
    assert torch._C._data_address(original) == torch._C._data_address(clone)
    written, kept = (clone, original) if write_clone else (original, clone)
    WRITERS[writer](written)
    assert not torch._C._is_cow_tensor(written)
    assert torch.equal(kept.cpu(), expected)
    assert not torch.equal(written.cpu(), expected)
    address = torch._C._data_address(kept)
    kept.add_(1)  # the last one keeps the memory
    assert torch._C._data_address(kept) == address
    assert torch.equal(kept.cpu(), expected + 1)


@pytest.mark.fallback_allowed
def test_a_write_on_the_cpu_does_not_reach_the_other(device):
    original = torch.ones(3, device=device)
    clone = original._lazy_clone()
    OPS.double_it_(original)
    assert original.tolist() == [2, 2, 2] and clone.tolist() == [1, 1, 1]


def test_reading_keeps_the_memory_shared(device):
    original = torch.ones(3, 3, device=device)
    clone = original._lazy_clone()
    for read in (
        clone + original,
        clone @ original,
        clone.sum(),
        clone.cpu(),
        clone.t().contiguous(),
    ):
        assert read is not None
    assert torch._C._is_cow_tensor(original) and torch._C._is_cow_tensor(clone)


def test_memory_returns_to_the_cache(device):
    torch.ocl.empty_cache()
    before = torch.ocl.memory_allocated()
    original = torch.ones(1 << 20, device=device)
    clone = original._lazy_clone()
    assert torch.ocl.memory_allocated() - before == 4 << 20
    clone.record_stream(torch.ocl.current_stream())
    del original
    clone.add_(1)
    assert torch.ocl.memory_allocated() - before == 4 << 20
    del clone
    assert torch.ocl.memory_allocated() == before


def test_running_averages_part_from_their_clones(device):
    mean, variance = torch.zeros(3, device=device), torch.ones(3, device=device)
    clones = mean._lazy_clone(), variance._lazy_clone()
    x = torch.randn(8, 3, 4, device=device) + 2
    torch.nn.functional.batch_norm(x, mean, variance, training=True)
    assert not mean.eq(0).any() and not variance.eq(1).any()
    assert clones[0].eq(0).all() and clones[1].eq(1).all()


def test_types_without_kernels(device):
    x = torch.arange(4, device=device).to(torch.uint16)
    clone = x._lazy_clone()
    clone.copy_(torch.zeros(4, device=device).to(torch.uint16))
    assert x.tolist() == [0, 1, 2, 3] and clone.tolist() == [0] * 4


def test_memory_runs_out_where_a_clone_gets_its_own(device):
    """Both tensors keep the memory that they share."""
    gc.collect()
    torch.ocl.empty_cache()
    original = torch.full((1 << 22,), 3.0, device=device)  # a buffer of its own
    clone = original._lazy_clone()
    limit = torch.ocl.memory_reserved() / torch.ocl.mem_get_info()[1]
    torch.ocl.set_per_process_memory_fraction(limit)
    try:
        with pytest.raises(torch.OutOfMemoryError):
            clone.add_(1)
    finally:
        torch.ocl.set_per_process_memory_fraction(1.0)
    assert clone.eq(3).all()
    del clone
    other = torch.full((1 << 22,), 9.0, device=device)
    assert original.eq(3).all() and other.eq(9).all()


def through_a_buffer(x):
    memory = torch.ocl.buffer(x)
    return torch.ocl.from_buffer(memory, x.shape, x.dtype, offset=memory.offset)


EXPORTS = {
    "buffer": through_a_buffer,
    "dlpack": lambda x: torch.ocl.from_dlpack(torch.ocl.to_dlpack(x, opencl=True)),
}


@pytest.mark.parametrize("export", EXPORTS)
def test_writes_through_exported_memory(device, export):
    original = torch.ones(64, device=device)
    clone = original._lazy_clone()
    EXPORTS[export](clone).fill_(9)
    assert original.eq(1).all() and clone.eq(9).all()


def test_writes_through_a_view_of_the_host(device):
    if not torch.ocl.get_device_properties(device).host_unified_memory:
        pytest.skip("host_view needs memory that the host shares")
    original = torch.ones(64, device=device)
    clone = original._lazy_clone()
    with torch.ocl.host_view(clone) as view:
        view.fill_(9)
    assert original.eq(1).all() and clone.eq(9).all()
