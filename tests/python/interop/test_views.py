"""Views share the memory of their base, and nothing is copied for them."""

import copy
import io

import pytest
import torch
from support import assert_same, random_tensor

VIEWS = {
    "view": lambda x: x.view(12, 10),
    "view_dtype": lambda x: x.view(torch.int32),
    "view_wider_dtype": lambda x: x.view(torch.int64),
    "view_narrower_dtype": lambda x: x.view(torch.int16),
    "reshape": lambda x: x.reshape(-1),
    "transpose": lambda x: x.transpose(0, 2),
    "permute": lambda x: x.permute(2, 0, 1),
    "select": lambda x: x[2],
    "slice": lambda x: x[1:4:2, ::3],
    "narrow": lambda x: x.narrow(1, 1, 3),
    "diagonal": lambda x: x.diagonal(0, 0, 1),
    "unfold": lambda x: x.unfold(2, 2, 2),
    "as_strided": lambda x: x.as_strided((3, 4), (10, 2), 5),
    "expand": lambda x: x[:, :1].expand(5, 7, 4),
    "squeeze": lambda x: x.unsqueeze(1).squeeze(1),
    "split": lambda x: x.split(2)[1],
    "chunk": lambda x: x.chunk(2, 1)[1],
    "unbind": lambda x: x.unbind(1)[3],
    "movedim": lambda x: x.movedim(0, -1),
    "unflatten": lambda x: x.unflatten(1, (2, 3)),
    "detach": lambda x: x.detach(),
    "alias": lambda x: torch.ops.aten.alias(x),
    "view_as_complex": lambda x: torch.view_as_complex(x.unflatten(2, (2, 2))),
    "view_as_real": lambda x: torch.view_as_real(torch.view_as_complex(x.unflatten(2, (2, 2)))),
    "empty": lambda x: x[:0],
}


@pytest.mark.parametrize("name", VIEWS)
def test_view_shares_memory(operator_device, name):
    x = random_tensor((5, 6, 4), torch.float32)
    y = x.to(operator_device)
    expected, view = VIEWS[name](x), VIEWS[name](y)
    assert view.shape == expected.shape and view.stride() == expected.stride()
    assert view.storage_offset() == expected.storage_offset()
    assert view.untyped_storage().data_ptr() == y.untyped_storage().data_ptr()
    # Byte for byte, since a view of another type may hold NaN.
    assert view.cpu().numpy().tobytes() == expected.numpy().tobytes()
    if name != "expand":
        one = torch.ones((), dtype=expected.dtype)
        expected.copy_(one)
        view.copy_(one)
        assert_same(y, x)


def test_view_of_a_view(device):
    x = torch.arange(120.0).view(5, 6, 4)
    y = x.to(device)
    assert torch.equal(y[1:].transpose(0, 1)[2][1:, ::2].cpu(), x[1:].transpose(0, 1)[2][1:, ::2])


def test_impossible_view_is_refused(device):
    with pytest.raises(RuntimeError, match="view size is not compatible"):
        torch.empty(4, 6, device=device).t().view(24)
    with pytest.raises(RuntimeError, match="out of bounds"):
        torch.empty(10, device=device).as_strided((11,), (1,))


@pytest.mark.parametrize("shape", [(2, 3), (50, 60), (0,), (1,), ()])
def test_resize_keeps_the_elements(operator_device, shape):
    x = torch.arange(12.0).view(3, 4)
    y = x.to(operator_device)
    assert_equal_prefix(y.resize_(shape), x.resize_(shape), min(12, x.numel()))
    assert y.device == torch.device(operator_device)
    y.resize_(4, 4, memory_format=torch.contiguous_format).fill_(1)
    assert y.cpu().eq(1).all()


def assert_equal_prefix(y, x, count):
    assert y.shape == x.shape and y.stride() == x.stride()
    assert torch.equal(y.cpu().flatten()[:count], x.flatten()[:count])


def test_resize_with_memory_format(device):
    y = torch.empty(0, device=device).resize_(2, 3, 4, 5, memory_format=torch.channels_last)
    assert y.is_contiguous(memory_format=torch.channels_last)


def test_set(device):
    x = torch.arange(12.0).to(device)
    y = torch.empty(0, device=device)
    y.set_(x.untyped_storage(), 2, (2, 3), (5, 1))
    assert y.cpu().tolist() == [[2, 3, 4], [7, 8, 9]]
    y.set_(x)
    assert y.data_ptr() == x.data_ptr()
    y.set_(x.untyped_storage())
    assert y.shape == (12,)
    x.data = torch.ones(3).to(device)
    assert x.shape == (3,)


def test_data_pointers_are_like_on_cpu(device):
    x = torch.empty(100, device=device)
    assert x[10:].data_ptr() == x.data_ptr() + 40
    assert x.data_ptr() != 0
    assert torch.empty(0, device=device).data_ptr() == 0


def test_storages(device):
    x = torch.arange(6, dtype=torch.uint8).to(device)
    storage = x.untyped_storage()
    assert storage.device == torch.device(device) and storage.nbytes() == 6
    assert storage.cpu().tolist() == storage.clone().cpu().tolist() == [0, 1, 2, 3, 4, 5]
    storage.resize_(1000)
    assert storage.nbytes() == 1000 and x.cpu().tolist() == [0, 1, 2, 3, 4, 5]
    storage.resize_(0)
    assert storage.nbytes() == 0


def test_deepcopy_and_save(device):
    x = torch.arange(12.0).view(3, 4).to(device)
    tensors = {"x": x, "view": x.t()[1:], "parameter": torch.nn.Parameter(x.clone())}
    file = io.BytesIO()
    torch.save(tensors, file)
    file.seek(0)
    loaded = torch.load(file)
    file.seek(0)
    on_cpu = torch.load(file, map_location="cpu")
    for found in (loaded, copy.deepcopy(tensors)):
        assert_same(found["x"], x.cpu())
        assert found["x"].device == x.device
        assert found["view"].stride() == tensors["view"].stride()
        assert found["view"].untyped_storage().data_ptr() == found["x"].data_ptr()
        assert isinstance(found["parameter"], torch.nn.Parameter)
    assert torch.equal(on_cpu["view"], tensors["view"].cpu())


def test_numpy(device):
    x = torch.arange(3.0).to(device)
    with pytest.raises(TypeError, match=r"can't convert .* to numpy.*Tensor\.cpu"):
        x.numpy()
    assert torch.equal(torch.from_numpy(x.cpu().numpy()).to(device).cpu(), x.cpu())


def test_set_beyond_the_storage_grows_it(device):
    """The storage grows, as on the CPU; otherwise the tensor would lie over other tensors'
    memory."""
    x, other = torch.arange(4.0, device=device), torch.ones(4, device=device)
    storage = x.untyped_storage()
    longer = torch.empty(0, device=device).set_(storage, 2, (1000,))
    assert storage.nbytes() == 4008
    longer.fill_(7)
    assert x.tolist() == [0, 1, 7, 7] and other.tolist() == [1] * 4
    strided = torch.empty(0, device=device).set_(storage, 0, (2, 3), (2000, 1))
    assert storage.nbytes() == 4 * 2003 and strided.shape == (2, 3)
    torch.empty(0, device=device).set_(storage, 9999, (0, 5))
    assert storage.nbytes() == 4 * 2003
