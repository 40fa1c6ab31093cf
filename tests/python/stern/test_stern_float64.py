"""Computations that work on devices without float64, on a profile of the stern device."""

from stern import stern_output_of


def test_powers_of_a_number():
    stern_output_of(
        "smallest",
        """
        import torch

        x = torch.tensor([0.0, 1, 2.5])
        for base in (2.5, 1.0, 0.0, -1.5, 2):
            torch.testing.assert_close((base ** x.to("ocl")).cpu(), base ** x, equal_nan=True)
        out = torch.empty(3, device="ocl")
        torch.testing.assert_close(torch.pow(0.5, x.to("ocl"), out=out).cpu(), 0.5 ** x)
        """,
        OCL_FALLBACK="error",
    )


def test_numbers_to_search_and_large_integers():
    stern_output_of(
        "smallest",
        """
        import torch

        for dtype in (torch.int32, torch.int64):
            options = {"start": -(2**29) + 1, "end": 2**30 - 1, "steps": 8, "dtype": dtype}
            between = torch.linspace(**options, device="ocl").cpu()
            assert between.equal(torch.linspace(**options))
        bounds = torch.tensor([0.5, 1.5, 2.5])
        for number in (1.5, 2, -1.0):
            expected = torch.bucketize(number, bounds)
            assert torch.bucketize(number, bounds.to("ocl")).cpu().equal(expected)
        """,
        OCL_FALLBACK="error",
    )
