"""Indices out of range: the exception class of CPU, at the next synchronisation; the operator, the
index and the size in the text; and a device that goes on."""

import io
import threading

import pytest
import torch
import torch.nn.functional as F


def along(i):
    """Indices of x[3, 4]: one index per column."""
    return i[:, None].expand(-1, 4)


OPERATORS = {
    "index": (IndexError, lambda x, i: x[i]),
    "index_put_": (IndexError, lambda x, i: x.index_put((i,), x[0])),
    "index_put_ ": (IndexError, lambda x, i: x.index_put((i,), x[0], accumulate=True)),
    "index_select": (IndexError, lambda x, i: x.index_select(0, i)),
    "index_add_": (IndexError, lambda x, i: x.index_add(0, i, x[:2])),
    "index_copy_": (IndexError, lambda x, i: x.index_copy(0, i, x[:2])),
    "index_fill_": (IndexError, lambda x, i: x.index_fill(0, i, 1)),
    "embedding": (IndexError, lambda x, i: F.embedding(i, x)),
    "gather": (RuntimeError, lambda x, i: x.gather(0, along(i))),
    "scatter": (RuntimeError, lambda x, i: x.scatter(0, along(i), x[:2])),
    "scatter ": (RuntimeError, lambda x, i: x.scatter(0, along(i), 1.0)),
    "scatter_add": (RuntimeError, lambda x, i: x.scatter_add(0, along(i), x[:2])),
    "scatter_reduce": (RuntimeError, lambda x, i: x.scatter_reduce(0, along(i), x[:2], "amax")),
    "index_reduce": (IndexError, lambda x, i: x.index_reduce(0, i, x[:2], "amax")),
    "index_reduce ": (IndexError, lambda x, i: x.index_reduce(0, i.int(), x[:2], "mean")),
    "take": (IndexError, lambda x, i: x[:, 0].take(i)),
    "put_": (IndexError, lambda x, i: x[:, 0].clone().put_(i, x[0, :2])),
    "scatter  ": (RuntimeError, lambda x, i: F.one_hot(i, 3)),
}


def a_fault(device):
    """A kernel that finds an index out of range, not waited for."""
    return torch.zeros(3, 4, device=device)[torch.full((1,), 7, device=device)]


FAULT = "aten::index: index 7 is out of bounds for dimension of size 3"


def assert_usable(device):
    torch.ocl.synchronize(device)
    assert torch.arange(5.0, device=device).sum().item() == 10


@pytest.mark.sample
@pytest.mark.parametrize("name", OPERATORS)
def test_index_out_of_range(operator_device, name):
    """2^32 + 1 is 1 in 32 bits."""
    error, function = OPERATORS[name]
    if name != "index_add_":  # on CPU, the class depends on the number of dimensions
        with pytest.raises(error):
            function(torch.zeros(3, 4), torch.tensor([1, 3]))
    x = torch.zeros(3, 4, device=operator_device)
    for number in (3, 2**32 + 1):
        index = torch.tensor([1, number], device=operator_device)
        if name == "index_reduce " and number > 3:  # it is called with int32
            continue
        text = (
            rf"aten::{name.strip()}: index {number} is out of bounds for dimension of size 3 "
            rf"\(on {operator_device} .*OCL_LAUNCH_BLOCKING=1"
        )
        with pytest.raises(error, match=text):
            function(x, index).cpu()
        assert_usable(operator_device)


@pytest.mark.parametrize("reduction", ["mean", "none"])
@pytest.mark.parametrize("loss", [F.nll_loss, F.cross_entropy])
def test_class_out_of_range(device, loss, reduction):
    x = torch.zeros(3, 4, requires_grad=True, device=device)
    for target in (torch.tensor([0, 4, 1]), torch.tensor([0, -4, 1])):
        with pytest.raises(IndexError):
            loss(x.detach().cpu(), target, reduction=reduction)
        text = f"aten::nll_loss: Target -?4 is out of bounds for classes 4.*on {device}"
        with pytest.raises(IndexError, match=text):
            loss(x, target.to(device), reduction=reduction).sum().backward()
            torch.ocl.synchronize(device)
        assert_usable(device)


def test_negative_indices(device):
    """Negative indices count from the end in indexing; other operators report them, as on the
    CPU."""
    x, index = torch.zeros(3, 4, device=device), torch.tensor([-1], device=device)
    assert x[index].shape == (1, 4)
    for function in (lambda: x.index_select(0, index), lambda: F.embedding(index, x)):
        with pytest.raises(IndexError, match="index -1 is out of bounds"):
            function().cpu()
    with pytest.raises(IndexError, match="index -4 is out of bounds for dimension of size 3"):
        x[index * 4].cpu()


WAYS_TO_WAIT = {
    "synchronize": lambda device: torch.ocl.synchronize(device),
    "accelerator": lambda device: torch.accelerator.synchronize(device),
    "stream": lambda device: torch.accelerator.current_stream(device).synchronize(),
    "item": lambda device: torch.ones((), device=device).item(),
    "nonzero": lambda device: torch.ones(3, device=device).nonzero(),
    "print": lambda device: str(torch.ones(3, dtype=torch.int64, device=device)),
    "to the CPU": lambda device: torch.ones(3, device=device).cpu(),
}


@pytest.mark.parametrize("way", WAYS_TO_WAIT)
def test_whoever_waits_next_sees_it(device, way):
    a_fault(device)
    with pytest.raises(IndexError, match=FAULT):
        WAYS_TO_WAIT[way](device)
    assert_usable(device)


def test_in_event_synchronize(device):
    a_fault(device)
    event = torch.Event(device=device)
    event.record()
    with pytest.raises(IndexError, match=FAULT):
        event.synchronize()
    assert_usable(device)


@pytest.mark.parametrize("mode", [torch.no_grad, torch.inference_mode])
def test_without_gradients(device, mode):
    with mode(), pytest.raises(IndexError, match=FAULT):
        a_fault(device).cpu()
    assert_usable(device)


def test_on_another_stream(device):
    """The stream's own error: it does not meet those who wait for another stream."""
    stream = torch.Stream(device=device)
    with stream:
        a_fault(device)
    assert torch.ones(3, device=device).sum().item() == 3
    with pytest.raises(IndexError, match=FAULT):
        stream.synchronize()
    with stream:
        a_fault(device)
    with pytest.raises(IndexError, match=FAULT):
        torch.ocl.synchronize(device)
    assert_usable(device)


def test_on_another_device(two_devices):
    first, second = two_devices
    a_fault(first)
    assert torch.ones(3, device=second).sum().item() == 3
    torch.ocl.synchronize(second)
    with pytest.raises(IndexError, match=FAULT):
        torch.ocl.synchronize(first)


def test_in_a_thread(device):
    """In a thread that waits itself, and in the main thread where it does not."""
    found = []

    def waits():
        try:
            a_fault(device).cpu()
        except IndexError as error:
            found.append(str(error))

    for body in (waits, lambda: a_fault(device)):
        thread = threading.Thread(target=body)
        thread.start()
        thread.join()
    assert len(found) == 1 and FAULT in found[0]
    with pytest.raises(IndexError, match=FAULT):
        torch.ocl.synchronize(device)
    assert_usable(device)


def test_in_the_backward_pass(device):
    x = torch.ones(3, 4, device=device, requires_grad=True)
    y = x * 2
    y.register_hook(lambda gradient: gradient + a_fault(device).sum().item())
    with pytest.raises(IndexError, match=FAULT):
        y.sum().backward()
    assert_usable(device)


def test_first_error_wins(device):
    a_fault(device)
    F.nll_loss(torch.zeros(3, 4, device=device), torch.full((3,), 9, device=device))
    with pytest.raises(IndexError, match=FAULT):
        torch.ocl.synchronize(device)
    assert_usable(device)


def test_memory_goes_on(device):
    """Freeing and allocating do not stumble over an error that is yet to be raised."""
    pinned = torch.ones(1000).pin_memory().to(device, non_blocking=True)
    del pinned
    kept = [a_fault(device) for _ in range(3)]
    kept.clear()
    torch.ocl.empty_cache()
    torch.empty(1000, device=device)
    with pytest.raises(IndexError, match=FAULT):
        torch.ocl.synchronize(device)
    assert_usable(device)


def test_negative_indices_count_for_some_operators(device):
    """Kernels that differ in nothing else: index_add takes no negative index."""
    x, values = torch.zeros(3, 4, 2, device=device), torch.ones(1, 4, 2, device=device)
    last = torch.tensor([-1], device=device)
    x.index_put_((last,), values, accumulate=True)
    x.index_add_(0, torch.tensor([0], device=device), values)
    x.requires_grad_()[last].sum().backward()
    assert x.grad.sum((1, 2)).tolist() == [0, 0, 8]
    assert x.detach().sum((1, 2)).tolist() == [8, 0, 8]
    x.detach().index_add_(0, last, values)
    with pytest.raises(IndexError):
        torch.ocl.synchronize(device)
    assert_usable(device)


@pytest.mark.parametrize("accumulate", [False, True])
def test_too_many_indices(device, accumulate):
    mask, one = torch.ones(2, 3, dtype=torch.bool, device=device), torch.zeros(1, device=device)
    index = torch.zeros(6, dtype=torch.long, device=device)
    x = torch.zeros(2, 3, device=device)
    for indices in [(mask, index), (index, mask), (index, index, index), (mask, mask)]:
        with pytest.raises(IndexError):
            x.index_put_(indices, one, accumulate=accumulate)
    assert not x.any()


def loaded(tensor, device):
    """Loads the tensor from a file: torch.load checks no indices."""
    stream = io.BytesIO()
    torch.save(tensor, stream)
    stream.seek(0)
    return torch.load(stream, weights_only=True, map_location=device)


def wrong_coo(row, column):
    return torch.sparse_coo_tensor(
        [[0, row], [0, column]], [1.0, 1.0], (4, 4), is_coalesced=True, check_invariants=False
    )


def wrong_csr(offsets, columns):
    values = torch.ones(len(columns))
    return torch.sparse_csr_tensor(offsets, columns, values, (2, 4), check_invariants=False)


FAR = 10**8
WRONG_FACTORS = {
    "column": (wrong_coo(1, FAR), f"column {FAR} is out of bounds for columns 4"),
    "negative column": (wrong_coo(1, -FAR), f"column -{FAR} is out of bounds for columns 4"),
    "row": (wrong_coo(FAR, 1), f"row {FAR} is out of bounds for rows 4"),
    "negative row": (wrong_coo(-FAR, 1), f"row -{FAR} is out of bounds for rows 4"),
    "column of CSR": (wrong_csr([0, 1, 2], [0, FAR]), f"column {FAR} is out of bounds"),
    "offset": (wrong_csr([0, FAR, FAR], [0, 1]), f"offset {FAR} is out of bounds .* at most at 2"),
    "negative offset": (wrong_csr([-FAR, 1, 2], [0, 1]), f"offset -{FAR} is out of bounds"),
    "descending offset": (wrong_csr([0, 2, 1], [0, 1]), "offset 1 is out of bounds"),
}


@pytest.mark.parametrize("width", [1, 3, 40])
@pytest.mark.parametrize("name", WRONG_FACTORS)
def test_sparse_factor_from_a_file(operator_device, name, width):
    factor, text = WRONG_FACTORS[name]
    dense = torch.ones(4, width)
    if factor.layout == torch.sparse_coo:
        with pytest.raises(RuntimeError, match=r"out of .* bound: "):
            factor @ dense
    with pytest.raises(RuntimeError, match=f"addmm: {text}"):
        (loaded(factor, operator_device) @ dense.to(operator_device)).cpu()
    assert_usable(operator_device)


def test_long_sparse_rows_from_a_file(operator_device):
    """GPUs have another kernel for them."""
    count = 5000
    columns = torch.arange(count)
    columns[-1] = FAR
    factor = torch.sparse_csr_tensor(
        [0, count], columns, torch.ones(count), (1, count), check_invariants=False
    )
    with pytest.raises(RuntimeError, match=f"column {FAR} is out of bounds for columns {count}"):
        (loaded(factor, operator_device) @ torch.ones(count, 2, device=operator_device)).cpu()
    assert_usable(operator_device)


@pytest.mark.parametrize("layout", [torch.sparse_csr, torch.sparse_coo])
def test_other_forms_of_wrong_sparse_tensors(operator_device, layout):
    """Conversions write inside of their results only; what uses the results checks them."""
    for wrong in (wrong_csr([0, FAR, 2], [0, 1]), wrong_csr([0, -FAR, 2], [0, 1])):
        x = loaded(wrong, operator_device)
        (x.to_sparse_coo() if layout == torch.sparse_coo else x.to_sparse_csc()).values().cpu()
    for wrong in (wrong_coo(FAR, 1), wrong_coo(-FAR, 1)):
        loaded(wrong, operator_device).to_sparse_csr().crow_indices().cpu()
    assert_usable(operator_device)


@pytest.mark.parametrize("channels", [1, 3, 40])
@pytest.mark.parametrize("memory_format", [torch.contiguous_format, torch.channels_last])
def test_wrong_maxima_of_pooling_are_ignored(operator_device, memory_format, channels):
    indices = torch.tensor([[0, FAR], [-FAR, 16]]).expand(2, channels, 2, 2)
    expected = torch.zeros(2, channels, 4, 4)
    expected[..., 0, 0] = 1
    to = {"device": operator_device, "memory_format": memory_format}
    image = torch.zeros(2, channels, 4, 4).to(**to)
    result = torch.ops.aten.max_pool2d_with_indices_backward(
        torch.ones(2, channels, 2, 2).to(**to), image, 2, 2, 0, 1, False, indices.to(**to)
    )
    assert torch.equal(result.cpu(), expected)


def test_wrong_indices_where_there_is_nothing_to_read(operator_device):
    index = torch.tensor([5], device=operator_device)
    with pytest.raises(IndexError):
        torch.zeros(3, 0, device=operator_device).index_select(0, index)
        torch.ocl.synchronize(operator_device)
    with pytest.raises(IndexError):
        source = torch.ones(1, device=operator_device)
        torch.zeros(0, device=operator_device).index_add_(0, index, source)
        torch.ocl.synchronize(operator_device)
    assert_usable(operator_device)
