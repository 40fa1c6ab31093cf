"""Sizes that come from outside never show memory of others: of files, of resized storages."""

import collections
import copy
import io
import pickle

import pytest
import torch
from support import skip_without_buffers_of
from torch import _utils

SECRET = 42.0


@pytest.fixture
def freed(device):
    """Freed memory whose numbers would be seen."""

    def leave_numbers():
        tensors = [torch.full((n,), SECRET, device=device) for n in (100, 4096, 70000)]
        torch.ocl.synchronize(device)
        del tensors

    leave_numbers()
    return leave_numbers


class Call:
    """Is pickled as the call of a function."""

    def __init__(self, function, *arguments):
        self.call = function, arguments

    def __reduce__(self):
        return self.call


def saved(thing, **options):
    stream = io.BytesIO()
    torch.save(thing, stream, **options)
    return stream.getvalue()


def storage():
    return torch.ones(16).storage()


NO_HOOKS = collections.OrderedDict()
BEYOND = {
    "tensor": lambda: Call(_utils._rebuild_tensor, storage(), 0, (4096,), (1,)),
    "version 2": lambda: Call(
        _utils._rebuild_tensor_v2, storage(), 0, (4096,), (1,), False, NO_HOOKS
    ),
    "offset": lambda: Call(_utils._rebuild_tensor_v2, storage(), 9999, (1,), (1,), False, NO_HOOKS),
    "strides": lambda: Call(
        _utils._rebuild_tensor_v2, storage(), 0, (2, 2), (5000, 1), False, NO_HOOKS
    ),
    "version 3": lambda: Call(
        _utils._rebuild_tensor_v3, storage(), 0, (4096,), (1,), False, NO_HOOKS, torch.float32
    ),
    "larger type": lambda: Call(
        _utils._rebuild_tensor_v3, storage(), 0, (16,), (1,), False, NO_HOOKS, torch.int64
    ),
    "quantized": lambda: Call(
        _utils._rebuild_qtensor,
        torch.ones(16, dtype=torch.uint8).storage(),
        0,
        (4096,),
        (1,),
        (torch.per_tensor_affine, 0.1, 0),
        False,
        NO_HOOKS,
    ),
    "nested": lambda: Call(
        _utils._rebuild_nested_tensor,
        torch.ones(16),
        torch.tensor([[4096], [2]]),
        torch.tensor([[1], [1]]),
        torch.tensor([0, 4096]),
    ),
    "nested strides": lambda: Call(
        _utils._rebuild_nested_tensor,
        torch.ones(16),
        torch.tensor([[4, 2], [2, 2]]),
        torch.ones(0, 2, dtype=torch.int64),
        torch.tensor([0, 8]),
    ),
    "nested offsets": lambda: Call(
        _utils._rebuild_nested_tensor,
        torch.ones(16),
        torch.tensor([[4], [2]]),
        torch.tensor([[1], [1]]),
        torch.tensor([0]),
    ),
    "sparse values": lambda: Call(
        _utils._rebuild_sparse_tensor,
        torch.sparse_coo,
        (
            torch.zeros(1, 4096, dtype=torch.int64),
            Call(_utils._rebuild_tensor_v2, storage(), 0, (4096,), (1,), False, NO_HOOKS),
            (10,),
            False,
        ),
    ),
}


@pytest.mark.sample
@pytest.mark.parametrize("legacy", [False, True])
@pytest.mark.parametrize("thing", BEYOND)
@pytest.mark.parametrize("weights_only", [True, False])
def test_file_that_claims_more_than_it_holds(device, freed, thing, weights_only, legacy):
    content = saved(BEYOND[thing](), _use_new_zipfile_serialization=not legacy)
    for place in (device, torch.device(device), {"cpu": device}, lambda s, _: s.to(device=device)):
        # PyTorch 2.15 wants to be told of nested tensors.
        with (
            pytest.raises(RuntimeError),
            torch.serialization.safe_globals([_utils._rebuild_nested_tensor]),
        ):
            loaded = torch.load(io.BytesIO(content), map_location=place, weights_only=weights_only)
            pytest.fail(f"{loaded.shape}: {loaded.to_dense().flatten().tolist()[16:24]}")


def test_mapped_file_that_ends_early(device, freed, tmp_path):
    path = tmp_path / "x.pt"
    path.write_bytes(saved(BEYOND["version 2"]()))
    with pytest.raises(RuntimeError, match="not resizable: from 64 to 16384 bytes on ocl:"):
        torch.load(path, mmap=True, map_location=device, weights_only=True)


@pytest.mark.parametrize("load", [torch.load, lambda f, **_: pickle.load(f)])
def test_storages_of_files_keep_their_size(device, load):
    """Storages from files cannot be resized, as on the CPU."""
    x = torch.arange(16.0, device=device)
    content = pickle.dumps(x) if load is not torch.load else saved(x)
    y = load(io.BytesIO(content), map_location=device)
    with pytest.raises(RuntimeError, match="not resizable"):
        y.resize_(1000)
    with pytest.raises(RuntimeError, match="not resizable"):
        y.untyped_storage().resize_(0)
    with pytest.raises(RuntimeError, match="not resizable"):
        torch.empty(0, device=device).set_(y.untyped_storage(), 8, (16,))
    assert torch.equal(y, x) and y.resize_(4, 4).shape == (4, 4)
    assert y.clone().resize_(1000).shape == (1000,)
    assert copy.copy(x).resize_(100).shape == (100,)  # no file


@pytest.mark.parametrize("change", ["set_", "resize_"])
def test_a_tensor_stays_as_it_is_where_its_storage_cannot_grow(device, change):
    fixed = torch.load(io.BytesIO(saved(torch.arange(6.0).view(2, 3))), map_location=device)
    x = fixed[1:] if change == "resize_" else torch.ones(2, device=device)
    before = (x.shape, x.stride(), x.storage_offset(), x.data_ptr(), x.tolist())
    with pytest.raises(RuntimeError, match="not resizable"):
        x.resize_(9) if change == "resize_" else x.set_(fixed.untyped_storage(), 3, (9, 9))
    assert before == (x.shape, x.stride(), x.storage_offset(), x.data_ptr(), x.tolist())


@pytest.mark.parametrize("grow", ["set_", "storage", "regrown storage"])
def test_what_a_storage_grows_by_is_zero(device, freed, grow):
    x = torch.ones(16, device=device)
    if grow == "regrown storage":
        x.untyped_storage().resize_(0)
        freed()
    if grow == "set_":
        y = torch.empty(0, device=device).set_(x.untyped_storage(), 0, (4096,))
    else:
        x.untyped_storage().resize_(4 * 4096)
        y = torch.empty(0, device=device).set_(x.untyped_storage(), 0, (4096,))
    kept = 0 if grow == "regrown storage" else 16
    assert y[kept:].eq(0).all() and y[:kept].eq(1).all()


USES = {
    "pointwise": lambda x: x + 1,
    "in place": lambda x: x.add_(1),
    "out": lambda x: torch.add(torch.ones_like(x), 1, out=x),
    "second argument": lambda x: torch.ones_like(x).mul_(x),
    "sum": lambda x: x.sum(),
    "list": lambda x: torch.cat([torch.ones(3, device=x.device), x]),
    "foreach": lambda x: torch._foreach_add([x], 1),
    "optional list": lambda x: torch.ones(9, device=x.device)[x.view(torch.int64)],
    "product": lambda x: x.view(64, 64) @ torch.ones(64, 64, device=x.device),
    "copy": lambda x: x.clone(),
    "copy to": lambda x: torch.ones_like(x).copy_(x),
    "copy from": lambda x: x.copy_(torch.ones_like(x)),
    "host": lambda x: x.cpu(),
    "to host": lambda x: x.copy_(torch.ones(4096)),
    "number": lambda x: x[4000].item(),
    "fill": lambda x: x.fill_(1),
    "random": lambda x: x.normal_(),
    "printed": repr,
    "fallback": lambda x: torch.linalg.eigvals(x.view(64, 64)),
    "buffer": lambda x: torch.ocl.buffer(x),
    "DLPack": lambda x: torch.ocl.to_dlpack(x, opencl=True).__dlpack__(),
    "saved": saved,
}


@pytest.mark.fallback_allowed
@pytest.mark.parametrize("use", USES)
def test_tensors_beyond_a_storage_that_shrank(device, freed, use):
    """On the CPU they show memory of others, or the process ends."""
    x = torch.ones(4096, device=device)
    x.untyped_storage().resize_(64)
    freed()
    if use == "saved":  # the storage is saved, and loading fails
        with pytest.raises(RuntimeError, match="not resizable"):
            torch.load(io.BytesIO(saved(x)))
        return
    with pytest.raises(RuntimeError, match=r"beyond its storage of 64 bytes|of bounds for storage"):
        USES[use](x)
    assert x[:16].eq(1).all()


def test_kernels_of_users_and_views_beyond_a_storage(device):
    kernel = torch.ocl.compile_kernel("__kernel void k(__global float* x) { x[0] = 1; }").k
    x = torch.ones(4096, device=device)
    x.untyped_storage().resize_(0)
    with pytest.raises(RuntimeError, match="beyond its storage of 0 bytes"):
        kernel(x)
    with pytest.raises(RuntimeError, match="out of bounds"):
        x.as_strided((4096,), (1,))
    assert x[:0].sum() == 0


@pytest.mark.parametrize("sizes", [(2**61,), (2**32, 2**32), (2**62, 4), (2**63 - 1,)])
def test_sizes_whose_bytes_overflow(device, sizes):
    """Products that wrap around to a small number."""
    memory = torch.ocl.buffer(torch.zeros(16, device=device))
    with pytest.raises(ValueError, match="are too large"):
        torch.ocl.from_buffer(memory, sizes, torch.float64)
    x = torch.zeros(16, dtype=torch.float64, device=device)
    with pytest.raises(RuntimeError, match=r"overflow|negative|not resizable|cannot allocate"):
        x.set_(x.untyped_storage(), 0, sizes)
    assert x.shape == (16,)


@pytest.mark.parametrize("name", ["nearest", "bilinear", "reflect", "image"])
def test_tables_of_long_dimensions(device, name):
    """They are made on the host, whose memory they would fill."""
    count = 2**27 + 1
    skip_without_buffers_of(count, device)
    F, x = torch.nn.functional, torch.zeros(1, 1, 1, 2, dtype=torch.uint8, device=device)
    calls = {
        "nearest": lambda: F.interpolate(x, (1, count)),
        "bilinear": lambda: F.interpolate(x, (1, count), mode="bilinear"),
        "reflect": lambda: F.pad(x.new_zeros(1, 1, count).float(), (1, 1), "reflect"),
        "image": lambda: torch.ops.torch_ocl.resize(x, [1, count], "bilinear", True),
    }
    with pytest.raises(NotImplementedError, match="at most 134217728 elements"):
        calls[name]()
