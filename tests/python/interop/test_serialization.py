"""Checkpoints and what a tensor says about its image: written here, read there, and back."""

import collections
import copy
import io
import pickle

import pytest
import torch
from safetensors.torch import load_file, save_file
from support import ROOT, run_python

from torch_ocl.image import Description, describe, description

DATA = ROOT / "tests" / "data"
SAID = {"color_space": "sRGB", "channel_order": "BGR", "value_range": (0.1, 255.0)}


@pytest.fixture
def image(device):
    return describe(torch.rand(3, 4, 5, device=device), **SAID)


def saved(thing):
    stream = io.BytesIO()
    torch.save(thing, stream)
    stream.seek(0)
    return stream


def trained(device):
    """A model and its optimizer after one step."""
    torch.manual_seed(1)
    model = torch.nn.Sequential(torch.nn.Linear(4, 8), torch.nn.BatchNorm1d(8)).to(device)
    optimizer = torch.optim.Adam(model.parameters(), foreach=True)
    model(torch.ones(2, 4, device=device)).square().sum().backward()
    optimizer.step()
    return model, optimizer


@pytest.mark.sample
@pytest.mark.parametrize(
    "kept",
    [
        torch.clone,
        torch.detach,
        copy.deepcopy,
        copy.copy,
        torch.nn.Parameter,
        lambda x: copy.deepcopy(torch.nn.Parameter(x)),
        lambda x: x.to(torch.float16),
        lambda x: x.to(x.device, copy=True),
        lambda x: x.clone(memory_format=torch.contiguous_format),
        lambda x: torch.load(saved(x)),
        lambda x: torch.load(saved({"weights": [x]}))["weights"][0],
        lambda x: pickle.loads(pickle.dumps(x)),
    ],
)
def test_description_is_kept(image, kept):
    result = kept(image)
    assert description(result) == Description(**SAID)
    assert result.device == image.device


def test_description_between_devices(two_devices):
    first, second = two_devices
    image = describe(torch.rand(3, 4, 5, device=first), **SAID)
    assert description(image.to(second)) == Description(**SAID)
    assert description(torch.load(saved(image), map_location=second)) == Description(**SAID)


def test_description_is_lost_on_the_cpu_and_in_other_results(image):
    nothing = Description()
    assert description(image.cpu()) == nothing
    assert description(torch.load(saved(image), map_location="cpu")) == nothing
    assert description(image + 1) == nothing and description(image[:2]) == nothing
    assert description(image.new_empty([3, 4, 5])) == nothing


def test_description_belongs_to_one_tensor(image):
    copied = image.clone()
    describe(image, color_space="linear")
    assert description(image) == Description(color_space="linear")
    assert description(copied) == Description(**SAID)
    assert description(describe(image)) == Description()


@pytest.mark.parametrize(
    "said, message",
    [
        ({"color_space": "CMYK"}, "color_space is 'CMYK', but must be one of"),
        ({"channel_order": "GBR"}, "channel_order is 'GBR', but must be one of"),
        (
            {"channel_order": "RGBA"},
            r"'RGBA' has 4 channels, but the tensor's shape is \(3, 4, 5\)",
        ),
        ({"value_range": (1, 1)}, r"value_range is \(1, 1\), but black must be below white"),
    ],
)
def test_wrong_descriptions(device, said, message):
    with pytest.raises(ValueError, match=message):
        describe(torch.empty(3, 4, 5, device=device), **said)


def test_descriptions_of_other_tensors(device):
    with pytest.raises(ValueError, match=r"only ocl tensors .* on cpu"):
        describe(torch.empty(3, 4, 5), color_space="sRGB")
    with pytest.raises(ValueError, match=r"\(0, 256\), but uint8 holds 0 to 255"):
        describe(torch.empty(3, 4, 5, dtype=torch.uint8, device=device), value_range=(0, 256))


@pytest.mark.parametrize(
    "entries, expected",
    [
        (["color_space=CMYK", "channel_order=BGR"], {"channel_order": "BGR"}),
        (["color_space=linear", "channel_order=RGBA"], {"color_space": "linear"}),
        (["color_space=linear", "low=0", "high=nan"], {"color_space": "linear"}),
        (["color_space=linear", "low=0", "high=1x"], {"color_space": "linear"}),
        (["color_space=linear", "low=1", "high=0"], {"color_space": "linear"}),
        (["color_space=linear", "low=0"], {"color_space": "linear"}),
        (["low=0", "high=2", "other"], {"value_range": (0.0, 2.0)}),
    ],
)
def test_wrong_properties_in_files_are_dropped(device, entries, expected):
    x = torch.rand(3, 4, 5, device=device)
    storage = torch.storage.TypedStorage(
        wrap_storage=x.untyped_storage(), dtype=x.dtype, _internal=True
    )
    entries = {f"torch_ocl.image.{entry}": True for entry in entries}
    result = torch._utils._rebuild_tensor_v2(
        storage, 0, x.shape, x.stride(), False, collections.OrderedDict(), entries
    )
    assert torch.equal(result, x)
    assert description(result) == Description(**expected)


@pytest.mark.sample
def test_checkpoint_there_and_back(device):
    model, optimizer = trained(device)
    checkpoint = {"model": model.state_dict(), "optimizer": optimizer.state_dict()}
    for place in (device, "cpu"):
        loaded = torch.load(saved(checkpoint), map_location=place)
        other, other_optimizer = trained(place)
        other.load_state_dict(loaded["model"])
        other_optimizer.load_state_dict(loaded["optimizer"])
        for name, tensor in other.state_dict().items():
            assert tensor.device == torch.device(place)
            assert torch.equal(tensor.cpu(), checkpoint["model"][name].cpu())
        for state, expected in zip(
            other_optimizer.state.values(), optimizer.state.values(), strict=True
        ):
            assert torch.equal(state["exp_avg"].cpu(), expected["exp_avg"].cpu())


def test_cpu_checkpoint_loads_here(device):
    model, _ = trained("cpu")

    def to_device(storage, location):
        return storage.to(device=torch.device(device))

    for place in (device, torch.device(device), to_device):
        loaded = torch.load(saved(model.state_dict()), map_location=place)
        assert all(tensor.device == torch.device(device) for tensor in loaded.values())
        assert torch.equal(loaded["0.weight"].cpu(), model[0].weight)


def test_checkpoint_loads_without_ocl(image, tmp_path):
    path = tmp_path / "checkpoint.pt"
    torch.save({"image": image, "shared": [image, image]}, path)
    result = run_python(
        f"""
        import torch
        assert not hasattr(torch, "ocl")
        loaded = torch.load({str(path)!r}, map_location="cpu")
        print(loaded["image"].device, loaded["image"].sum().item())
        assert loaded["shared"][0].data_ptr() == loaded["shared"][1].data_ptr()
        """,
        TORCH_DEVICE_BACKEND_AUTOLOAD="0",
    )
    assert result.returncode == 0, result.stderr
    assert result.stdout.split() == ["cpu", str(image.cpu().sum().item())]


def test_checkpoint_of_another_device_count(device, tmp_path):
    """A tensor of ocl:7 on a machine that has fewer devices: the error says how to load it."""
    path = tmp_path / "checkpoint.pt"
    torch.save(torch.zeros(2, device=device), path)
    raw = path.read_bytes().replace(device.encode(), b"ocl:7")
    count = torch.ocl.device_count()
    with pytest.raises(
        RuntimeError, match=f"OCL device 7 .*device_count.* is {count}.*map_location"
    ):
        torch.load(io.BytesIO(raw))
    for place in (device, {"ocl:7": device}, "ocl"):
        loaded = torch.load(io.BytesIO(raw), map_location=place)
        assert loaded.device == torch.device(device)


def test_views_share_storage_after_loading(device):
    base = torch.arange(6.0, device=device)
    loaded, view = torch.load(saved([base, base[2:]]))
    view.fill_(7)
    assert loaded.tolist() == [0, 1, 7, 7, 7, 7]


def test_random_state_in_a_checkpoint(device):
    checkpoint = saved({"random": torch.ocl.get_rng_state()})
    expected = torch.rand(5, device=device)
    torch.ocl.set_rng_state(torch.load(checkpoint, map_location="cpu")["random"])
    assert torch.equal(torch.rand(5, device=device), expected)


def test_safetensors(device, tmp_path):
    model, _ = trained(device)
    weights = {name: tensor.half() for name, tensor in model.state_dict().items()}
    save_file(weights, tmp_path / "weights.safetensors")
    loaded = load_file(tmp_path / "weights.safetensors")
    for name, tensor in loaded.items():
        assert torch.equal(tensor, weights[name].cpu())
    model.load_state_dict(loaded)
    assert torch.equal(model[0].weight.half(), weights["0.weight"])
    with pytest.raises(Exception, match="device ocl is invalid"):
        load_file(tmp_path / "weights.safetensors", device="ocl")


@pytest.mark.parametrize("file", sorted(DATA.glob("checkpoint_*.pt")), ids=lambda file: file.stem)
def test_checkpoints_of_earlier_versions(device, file):
    """tests/data/write_checkpoint.py wrote them, on another device."""
    found = torch.load(file, map_location=device)
    for name, tensor in found["types"].items():
        assert tensor.device == torch.device(device) and str(tensor.dtype) == name
        assert tensor.tolist() == torch.arange(3).to(tensor.dtype).tolist()
    first, second = found["views"]
    assert first.tolist() == [2, 3, 4] and second.stride() == (1, 5)
    assert first.untyped_storage().data_ptr() == second.untyped_storage().data_ptr()
    assert description(found["picture"]) == Description(None, "BGR", (0.0, 255.0))

    model = torch.nn.Sequential(torch.nn.Linear(4, 8), torch.nn.BatchNorm1d(8)).to(device)
    optimizer = torch.optim.Adam(model.parameters())
    model.load_state_dict(found["model"])
    optimizer.load_state_dict(found["optimizer"])
    assert model[1].num_batches_tracked.item() == 1 and model[0].weight.isfinite().all()
    assert optimizer.state[model[0].weight]["step"].item() == 1
    torch.ocl.set_rng_state(found["random"].cpu())
    drawn = torch.rand(4, device=device)
    torch.ocl.set_rng_state(found["random"].cpu())
    assert torch.equal(drawn, torch.rand(4, device=device))
