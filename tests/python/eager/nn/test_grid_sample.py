"""Samples of images and volumes at the points of a grid, against the CPU."""

import pytest
import torch
import torch.nn.functional as F
from agreement import assert_agreement
from support import FLOATS

PADDINGS = ["zeros", "border", "reflection"]


def image_and_grid(dims, dtype=torch.float32, reach=1.6):
    sizes = (5, 6, 4)[:dims]
    numbers = torch.Generator().manual_seed(dims)
    image = torch.randn((2, 3, *sizes), generator=numbers)
    grid = (torch.rand((*(2, 4, 3, 2)[: dims + 1], dims), generator=numbers) * 2 - 1) * reach
    return image.to(dtype), grid.to(dtype)


@pytest.mark.parametrize("align", [False, True])
@pytest.mark.parametrize("padding", PADDINGS)
@pytest.mark.parametrize("mode", ["bilinear", "nearest", "bicubic"])
def test_images(device, mode, padding, align):
    image, grid = image_and_grid(2)
    assert_agreement(
        device, lambda x, g: F.grid_sample(x, g, mode, padding, align), image, grid, tolerance=3e-5
    )


@pytest.mark.parametrize("align", [False, True])
@pytest.mark.parametrize("padding", PADDINGS)
@pytest.mark.parametrize("mode", ["bilinear", "nearest"])
def test_volumes(device, mode, padding, align):
    image, grid = image_and_grid(3)
    assert_agreement(
        device, lambda x, g: F.grid_sample(x, g, mode, padding, align), image, grid, tolerance=3e-5
    )


@pytest.mark.parametrize("padding", PADDINGS)
@pytest.mark.parametrize("mode", ["bilinear", "nearest"])
def test_points_on_pixels_and_halfway(device, mode, padding):
    """Exact positions: ties of the nearest pixel; gradients at the border, which are 0."""
    steps = torch.linspace(-1.5, 1.5, 13)  # positions -1, -0.5, .., 5 of 5 pixels
    grid = torch.stack(torch.meshgrid(steps, steps, indexing="xy"), -1)[None]
    image = torch.randn((1, 2, 5, 5), generator=torch.Generator().manual_seed(0))
    assert_agreement(
        device, lambda x, g: F.grid_sample(x, g, mode, padding, True), image, grid, tolerance=1e-5
    )


@pytest.mark.parametrize("dtype", FLOATS)
@pytest.mark.parametrize("dims", [2, 3])
def test_types(device, dims, dtype):
    # Steps of 1/8 are exact in every type: rounding does not move a point to another pixel.
    image, grid = image_and_grid(dims, torch.float32)
    image, grid = (image * 8).round() / 8, (grid * 8).round() / 8
    tolerance = {torch.float16: 2e-2, torch.bfloat16: 2e-1}.get(dtype)
    assert_agreement(
        device,
        lambda x, g: F.grid_sample(x, g, align_corners=False),
        image.to(dtype),
        grid.to(dtype),
        tolerance=tolerance,
    )


@pytest.mark.sample
@pytest.mark.parametrize("dims", [2, 3])
def test_small(device, dims):
    image, grid = image_and_grid(dims)
    for padding in PADDINGS:
        assert_agreement(
            device,
            lambda x, g, p=padding: F.grid_sample(x, g, "bilinear", p, True),
            image,
            grid,
            tolerance=3e-5,
        )


def test_layouts_and_empty_batches(device):
    image, grid = image_and_grid(2)
    sample = lambda x, g: F.grid_sample(x, g, align_corners=True)  # noqa: E731
    assert_agreement(device, sample, image[:0], grid[:0])
    expected = sample(image, grid)
    other = image.to(device).contiguous(memory_format=torch.channels_last)
    torch.testing.assert_close(sample(other, grid.to(device)).cpu(), expected)
    torch.testing.assert_close(
        sample(
            image.to(device), grid.to(device).transpose(1, 2).contiguous().transpose(1, 2)
        ).cpu(),
        expected,
    )


def test_one_gradient_only(device):
    image, grid = (t.to(device) for t in image_and_grid(2))
    image.requires_grad_()
    F.grid_sample(image, grid, align_corners=True).sum().backward()
    assert image.grad.shape == image.shape


def test_direct_call_of_the_cpu_form(device):
    image, grid = image_and_grid(2)
    call = torch.ops.aten._grid_sampler_2d_cpu_fallback
    expected = call(image, grid, 0, 0, True)
    torch.testing.assert_close(call(image.to(device), grid.to(device), 0, 0, True).cpu(), expected)


def test_errors(device):
    image, grid = (t.to(device) for t in image_and_grid(2))
    with pytest.raises(RuntimeError, match="same batch size"):
        F.grid_sample(image, grid[:1], align_corners=True)
    with pytest.raises(RuntimeError, match="expected scalar type"):
        torch.grid_sampler(image, grid.half(), 0, 0, True)
    for numbers in (3, 0), (0, 3), (2**32, 0), (0, 2**32):
        with pytest.raises(RuntimeError, match="must be from 0 to 2"):
            torch.ops.aten.grid_sampler_2d(image, grid, *numbers, True)


@pytest.mark.parametrize("align", [False, True])
@pytest.mark.parametrize("padding", ["zeros", "border", "reflection"])
@pytest.mark.parametrize("mode", ["bilinear", "nearest", "bicubic"])
@pytest.mark.parametrize("dims", [2, 3])
def test_places_that_are_no_numbers(device, dims, mode, padding, align):
    if mode == "bicubic" and dims == 3:
        pytest.skip("there is no bicubic interpolation of volumes")
    image = torch.arange(1.0, 61).reshape(1, 1, 3, 4, 5) if dims == 3 else torch.rand(1, 2, 3, 4)
    bad = [float("nan"), float("inf"), -float("inf")]
    points = [(x, 0.3, 0.2)[:dims] for x in bad] + [(0.3, x, 0.2)[:dims] for x in bad]
    grid = torch.tensor(points).reshape((1,) * dims + (6, dims))
    arguments = {"mode": mode, "padding_mode": padding, "align_corners": align}
    expected = torch.nn.functional.grid_sample(image, grid, **arguments)
    # The CPU's gradients of these read out of bounds; ours only have to end.
    x, places = image.to(device).requires_grad_(), grid.to(device).requires_grad_()
    actual = torch.nn.functional.grid_sample(x, places, **arguments)
    actual.sum().backward()
    torch.testing.assert_close(actual.detach().cpu(), expected, equal_nan=True)


def test_results_are_contiguous(device):
    """Results are contiguous for any memory format of the image, as on the CPU."""
    grid = torch.rand(2, 4, 5, 2)
    for format in (torch.contiguous_format, torch.channels_last):
        image = torch.rand(2, 3, 6, 7).to(memory_format=format)
        expected = torch.grid_sampler_2d(image, grid, 0, 0, False)
        actual = torch.grid_sampler_2d(image.to(device), grid.to(device), 0, 0, False)
        assert actual.stride() == expected.stride()
        torch.testing.assert_close(actual.cpu(), expected)
