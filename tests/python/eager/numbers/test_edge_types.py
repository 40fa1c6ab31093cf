"""Effects of the arguments' types: promotion, numbers out of range, classes of errors."""

import pytest
import torch
import torch.nn.functional as F
from support import assert_agrees, has_fp64, random_tensor


def test_dropout_backward_promotes_each_product(device):
    mask = torch.tensor([True, False, True, False])
    for gradient in (torch.int64, torch.uint8, torch.float32, torch.float16):
        for kind in (torch.bool, torch.int8, torch.float16, torch.bfloat16, torch.float32):
            g = random_tensor((4,), gradient)
            assert_agrees(
                lambda g, m: torch.ops.aten.native_dropout_backward(g, m, 1.5),
                device,
                g,
                mask.to(kind),
            )


def test_index_reduce_names_an_index_out_of_range(device):
    for index in ([0, 3], [-1, 0]):
        assert_agrees(
            lambda x, i: x.index_reduce(0, i, x[:2], "prod"),
            device,
            torch.arange(6.0).view(3, 2),
            torch.tensor(index),
        )


def test_convolution_of_a_real_and_a_complex_tensor(device):
    image, weight = torch.ones(1, 2, 5, 5), torch.ones(3, 2, 3, 3, dtype=torch.complex64)
    assert_agrees(F.conv2d, device, image, weight)
    assert_agrees(lambda x, w: F.conv_transpose2d(x, w.mT), device, image.mT, weight)


def test_sizes_of_windows_beyond_32_bits(device):
    for size in (-(2**31) - 1, 2**31):
        assert_agrees(lambda x, size=size: F.max_pool3d(x, size), device, torch.ones(1, 1, 4, 4, 4))


def into(function, device, kind, *tensors):
    """The function with an `out` of this type agrees with the CPU."""

    def call(*moved):
        return function(*moved, out=torch.empty(0, dtype=kind, device=moved[0].device))

    assert_agrees(call, device, *tensors)


def test_sums_of_bools_stay_bools_in_a_wider_result(device):
    a, b = torch.tensor([True, False] * 9), torch.tensor([True, True, False] * 6)
    for kind in (torch.uint8, torch.int64, torch.float32):
        into(torch.add, device, kind, a, b)
        into(torch.mul, device, kind, a, b)
        into(torch.addr, device, kind, torch.ones(18, 18, dtype=torch.bool), a, b)
        into(torch.add, device, kind, a[:2], b[1])


@pytest.mark.parametrize("kind", [torch.int64, torch.float32, torch.complex64])
def test_small_integers_wrap_before_they_enter_a_wider_result(device, kind):
    functions = [torch.add, torch.sub, torch.mul, torch.addcmul]
    for dtype in (torch.uint8, torch.int8, torch.int16):
        a, b = (random_tensor((3, 5), torch.int32).mul(997).to(dtype) for _ in range(2))
        for function in functions:
            inputs = (a, a, b) if function is torch.addcmul else (a, b)
            into(function, device, kind, *inputs)
            into(function, device, kind, *(x.T for x in inputs))
        into(torch.neg, device, kind, a)


def test_nextafter_of_two_types(device):
    types = [torch.float32, torch.float16, torch.bfloat16]
    if has_fp64(device):
        types.append(torch.float64)
    for first in types:
        for second in types:
            a, b = random_tensor((9,), first), random_tensor((9,), second)
            assert_agrees(torch.nextafter, device, a, b)


def test_variance_into_a_complex_result(device):
    into(lambda x, out: torch.var(x, 0, out=out), device, torch.complex64, torch.arange(5.0))


def test_bincount_refuses_numbers_that_are_not_integers(device):
    for dtype in (torch.float32, torch.float16, torch.bool):
        assert_agrees(torch.bincount, device, torch.ones(3, dtype=dtype))


def test_bincount_of_the_greatest_number(device):
    """One more than it is no number of bins."""
    for x in (torch.tensor([1, 2**63 - 1]), torch.tensor([2**62])):
        with pytest.raises(RuntimeError, match=r"too many bins|overflowed"):
            torch.bincount(x.to(device))


@pytest.mark.parametrize("name", ["lengths", "offsets"])
def test_segments_are_given_in_integers(device, name):
    for dtype in (torch.int32, torch.float32, torch.int16, torch.bool):
        assert_agrees(
            lambda x, n: torch.segment_reduce(x, "sum", **{name: n}),
            device,
            torch.ones(1),
            torch.tensor([0, 1] if name == "offsets" else [1], dtype=dtype),
        )


def test_segments_beyond_the_data_end_with_it(device):
    x = torch.tensor([1.0, 2.0, 3.0], device=device, requires_grad=True)
    offsets = torch.tensor([0, 1, 2**40], device=device)
    sums = torch.segment_reduce(x, "sum", offsets=offsets, unsafe=True)
    assert sums.tolist() == [1, 5]
    sums.sum().backward()
    assert x.grad.tolist() == [1, 1, 1]


def test_repeats_that_do_not_make_the_output_size(device):
    for size in (2, 6, 9):
        assert_agrees(
            lambda n, size=size: torch.repeat_interleave(n, output_size=size).cpu(),
            device,
            torch.tensor([1, 2, 3]),
        )
    with pytest.raises(RuntimeError, match="repeat -2 is out of bounds"):
        torch.repeat_interleave(torch.tensor([1, -2, 3], device=device), output_size=2).cpu()
    assert_agrees(torch.repeat_interleave, device, torch.tensor([True, False]))


def test_narrow_copy_refuses_another_type(device):
    copy = lambda x, out: torch.narrow_copy(x, 0, 1, 3, out=out)  # noqa: E731
    into(copy, device, torch.int32, torch.arange(6.0))


def test_complex_product_over_a_part_of_its_summand(device):
    def call(x, a, b):
        return torch.addmm(x[1:], a, b, out=x[:-1])

    x, a = (torch.ones(n, 3, dtype=torch.complex64) for n in (4, 3))
    assert_agrees(call, device, x, a, a)


def test_largest_and_smallest_into_another_type(device):
    for function in (torch.max, torch.min):
        for kind in (torch.uint8, torch.int64, torch.float32, torch.bool):
            into(function, device, kind, torch.arange(6, dtype=torch.uint8))


def test_factor_of_index_add_beyond_the_type(device):
    for factor in (256, -256, -1, 2**31, 2**63, 1e6):
        assert_agrees(
            lambda x, i, f=factor: x.index_add(0, i, x[:2], alpha=f),
            device,
            torch.arange(6, dtype=torch.uint8),
            torch.tensor([1, 2]),
        )


def test_products_of_a_number_and_a_bool_matrix_name_the_types(device):
    a, b = torch.ones(1, 2, 3), torch.ones(1, 3, 3, dtype=torch.bool)
    assert_agrees(torch.baddbmm, device, a, a, b)
    assert_agrees(torch.bmm, device, a.to(torch.uint8), b)


def test_scale_of_dropout_beyond_the_type(device):
    backward = torch.ops.aten.native_dropout_backward
    g = torch.tensor([0.0, 1.0, 2.0, -2.0])
    assert_agrees(lambda g, m: backward(g, m, 1e39), device, g, g > 0)


def test_bessel_k_of_large_numbers(device):
    x = torch.tensor([5.0, 30.0, 100.0, 255.0, 900.0, 2000.0])
    for name in ("scaled_modified_bessel_k0", "scaled_modified_bessel_k1"):
        function = getattr(torch.special, name)
        torch.testing.assert_close(function(x.to(device)).cpu(), function(x), rtol=1e-5, atol=0)


def test_special_functions_at_negative_zero_and_nan(device):
    assert_agrees(torch.special.bessel_j1, device, torch.tensor([0.0, -0.0]))
    nan, inf = float("nan"), float("inf")
    x = torch.tensor([nan, inf, 1.0, 2.0, 3.5, 0.5]).unsqueeze(1)
    q = torch.tensor([nan, inf, -inf, 0.0, -0.0, -2.0, -2.5, 1.0, 0.5])
    assert_agrees(torch.special.zeta, device, x, q, exact=False, rtol=1e-5, atol=0)


def test_indices_that_do_not_broadcast(device):
    rows, columns = torch.zeros(10, 0, dtype=torch.int64), torch.zeros(1, 10, dtype=torch.int64)
    for accumulate in (False, True):
        assert_agrees(
            lambda x, i, j, a=accumulate: x.index_put_((i, j), x[0, 0], accumulate=a),
            device,
            torch.ones(5, 5),
            rows,
            columns,
        )


LINALG = {
    "cholesky_ex": lambda a: torch.linalg.cholesky_ex(a).L,
    "lu_factor": lambda a: torch.linalg.lu_factor(a).LU,
    "qr": lambda a: torch.linalg.qr(a).R,
    "svdvals": lambda a: torch.linalg.svdvals(a),
    "eigvalsh": lambda a: torch.linalg.eigvalsh(a),
    "det": lambda a: torch.linalg.det(a),
    "cholesky_inverse": lambda a: torch.cholesky_inverse(a),
    "cholesky_solve": lambda a: torch.cholesky_solve(a, a),
    "solve_triangular": lambda a: torch.linalg.solve_triangular(a, a, upper=True),
    "ldl_factor": lambda a: torch.linalg.ldl_factor(a).LD,
    "householder_product": lambda a: torch.linalg.householder_product(a, a[0]),
    "ormqr": lambda a: torch.ormqr(a, a[0], a),
}


@pytest.mark.parametrize("kind", [torch.float64, torch.complex64, torch.bool], ids=str)
def test_triangular_solve_refuses_a_result_of_another_type(device, kind):
    if kind is torch.float64 and not has_fp64(device):
        pytest.skip("the device refuses float64 first, by another class of error")
    a, b = torch.eye(3), torch.ones(3, 2)
    solve = lambda a, b, out: torch.linalg.solve_triangular(a, b, upper=True, out=out)  # noqa: E731
    into(solve, device, kind, a, b)


@pytest.mark.parametrize("name", LINALG)
def test_linear_algebra_refuses_types_without_kernels(device, name):
    for dtype in (torch.float16, torch.bfloat16, torch.int64, torch.bool):
        assert_agrees(LINALG[name], device, torch.eye(3, dtype=dtype))
