"""Programs of public reports (tests/reports): a few of them, and that a difference is found."""

import pytest
import reports
import torch

pytestmark = [pytest.mark.fallback_allowed, pytest.mark.usefixtures("fresh_compiler")]

SAMPLE = [189518, 190855, 193265, 195320, 197586, 198201]


@pytest.mark.parametrize("number", SAMPLE)
def test_compiled_programs_give_what_eager_ones_give(device, number):
    row = next(row for row in reports.load_tables() if row.number == number)
    assert not reports.check(row, device, ["static"])


def test_a_difference_is_found(device):
    row = reports.Report(0, (torch.ones(3),))
    assert "Mismatched" in reports.difference(row, [torch.ones(3)], [torch.zeros(3)])
    assert "nothing raised" in reports.difference(row, [torch.ones(3)], ValueError("no"))
    assert "ValueError" in reports.difference(row, ValueError("no"), [torch.ones(3)])
    assert reports.difference(row, ValueError("no"), RuntimeError("no")) is None
    row.signs = True
    assert "signs" in reports.difference(row, [torch.tensor([0.0])], [torch.tensor([-0.0])])
