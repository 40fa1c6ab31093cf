"""The peak of memory of operators, in multiples of the argument's bytes."""

import pytest
import torch

COUNT = 2**22
FLAT, ROWS, MATRICES = (-1,), (-1, 8), (-1, 4, 4)
# The shape of the argument, the operator, and what its results and temporary memory take at most.
PEAKS = {
    "sort": (FLAT, lambda x: x.sort(stable=True), 5.4),
    "sort of rows": (ROWS, lambda x: x.sort(stable=True), 4.2),
    "kthvalue of rows": (ROWS, lambda x: x.kthvalue(3), 2),
    "kthvalue of columns": (ROWS, lambda x: x.view(8, -1).kthvalue(3, 0), 3),
    "median of rows": (ROWS, lambda x: x.median(-1), 2),
    "nanmedian of rows": (ROWS, lambda x: x.nanmedian(-1), 2),
    "mode of rows": (ROWS, lambda x: x.mode(), 2.5),
    "topk of rows": (ROWS, lambda x: x.topk(2), 2.5),
    "tril of transposed matrices": (MATRICES, lambda x: x.mT.tril_(), 0.1),
    "cholesky": (MATRICES, lambda x: torch.linalg.cholesky_ex(x), 1.2),
    "cholesky_inverse": (MATRICES, lambda x: x.cholesky_inverse(), 1.8),
    "rfft": (ROWS, lambda x: torch.fft.rfft(x), 2.5),
    "stft": (FLAT, lambda x: torch.stft(x, 8, return_complex=True), 7.5),
}


def peak(function, device):
    before = torch.ocl.memory_allocated(device)
    torch.ocl.reset_peak_memory_stats(device)
    function()
    torch.ocl.synchronize(device)
    return torch.ocl.max_memory_allocated(device) - before


@pytest.mark.parametrize("name", PEAKS)
def test_operators(device, name):
    shape, function, most = PEAKS[name]
    x = torch.rand(COUNT, device=device).view(shape)
    function(x)  # makes objects that are kept
    assert peak(lambda: function(x), device) <= most * x.nbytes


def test_medians_of_long_rows(device):
    """The GPU family sorts them."""
    most = 0.5 if torch.ocl.get_device_properties(device).kernel_family == "cpu" else 5.5
    x = torch.rand(COUNT, device=device)
    for function in (torch.median, torch.nanmedian):
        function(x)
        assert peak(lambda function=function: function(x), device) <= most * x.nbytes
