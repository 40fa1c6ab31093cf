"""Tensors of more than 2^31 elements: positions do not fit into 32 bits."""

import pytest
import torch

COUNT = (1 << 31) + 77
SPARE = 3 << 30  # bytes of memory that a test leaves


@pytest.fixture
def large(device):
    properties = torch.ocl.get_device_properties(device)
    if torch.ocl.mem_get_info(device)[0] < 2 * COUNT + SPARE:
        pytest.skip(f"{properties.name} has too little memory")
    try:
        x = torch.zeros(COUNT, dtype=torch.int8, device=device)
    except torch.OutOfMemoryError as error:
        pytest.skip(f"the device does not give {COUNT} bytes at once: {error}")
    yield x
    del x
    torch.ocl.empty_cache()


@pytest.mark.slow
def test_large_tensor(large):
    """One test, since making the tensor takes the longest."""
    last = COUNT - 1
    # Pointwise, with and without vectors, through views beyond 2^31.
    large[-5:].fill_(3)
    large.add_(1)
    assert large[-6:].tolist() == [1, 4, 4, 4, 4, 4]
    assert large[:: COUNT - 1].tolist() == [1, 4]
    # Indexing.
    index = torch.tensor([0, last, last - 5], device=large.device)
    assert large[index].tolist() == [1, 4, 1]
    assert large.index_select(0, index).tolist() == [1, 4, 1]
    large.index_fill_(0, index[1:2], 9)
    assert large[-2:].tolist() == [4, 9]
    # Reductions: of all, with positions, and of two dimensions.
    assert large.amin().item() == 1 and large.all().item()
    assert large.argmax().item() == last
    assert large.max().item() == 9
    assert (large[: 1 << 31].view(1 << 16, 1 << 15).amax(1) == 1).all()
    # Copies.
    assert large[1:].clone()[-2:].tolist() == [4, 9]
    assert large[-3:].cpu().tolist() == [4, 4, 9]
