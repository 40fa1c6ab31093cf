"""Matrix products of the GPU family: large ones by CLBlast where it is installed, else by our own
kernels."""

import ctypes.util
import os

import pytest
import torch
from stern import stern_output_of
from support import output_of

installed = pytest.mark.skipif(
    not ctypes.util.find_library("clblast"), reason="CLBlast is not installed (libclblast1)"
)

LARGE = [(128, 130, 129), (129, 200, 128)]
SMALL = [(5, 7, 3), (33, 65, 17), (130, 127, 70)]

PRODUCTS = """
    import torch
    from torch_ocl import _C

    torch.manual_seed(0)
    device, ran = "ocl", []

    def check(operator, *arguments, out=None, **numbers):
        expected = operator(*arguments, **numbers)
        mine = [move(t) for t in arguments]
        if out is not None:
            numbers["out"] = out.to(device).t()
        actual = operator(*mine, **numbers)
        ran.append(_C.last_kernel())
        torch.testing.assert_close(actual.cpu(), expected, rtol=1e-4, atol=1e-4)

    def move(t):
        # The same strides and offset on the device.
        base = torch.as_strided(t, (t.untyped_storage().nbytes() // t.element_size(),), (1,), 0)
        return torch.as_strided(base.to(device), t.shape, t.stride(), t.storage_offset())

    def make(*shape):
        return torch.randn(shape, dtype=dtype)

    fp64 = torch.ocl.get_device_properties(0).has_fp64
    for dtype in [torch.float32] + [torch.float64] * fp64:
        for m, n, k in SIZES:
            check(torch.mm, make(m, k), make(k, n))
            check(torch.mm, make(k, m).t(), make(n, k).t())
            check(torch.mm, make(m + 2, k + 3)[2:, 3:], make(k + 1, n + 5)[1:, :n])
            check(torch.mm, make(m, k), make(k, n), out=make(n, m))
            for shape in [(n,), (m, 1), (m, n)]:
                check(torch.addmm, make(*shape), make(m, k), make(k, n), beta=0.5, alpha=2)
            check(torch.bmm, make(3, m, k), make(3, k, n))
            check(torch.bmm, make(3, k, m).mT, make(4, k, n)[1:])
            check(torch.bmm, make(m, k).expand(3, m, k), make(3, k, n))
            check(torch.baddbmm, make(3, 1, n), make(3, m, k), make(3, k, n), beta=2)

    m, n, k = SIZES[0]
    x, y = torch.randn(m, m), torch.randn(m, m)
    z = x.to(device)
    z.addmm_(y.to(device), y.to(device), beta=3)
    torch.testing.assert_close(z.cpu(), 3 * x + y @ y, rtol=1e-4, atol=1e-4)
    out = torch.full((m, m), float("nan"), device=device)
    torch.mm(z, z, out=out)
    assert not (out != out).any().item()
    print(*sorted(set(ran)))
"""

OTHERS = """
    import torch
    from torch_ocl import _C

    def check(a, b):
        torch.testing.assert_close((a.to("ocl") @ b.to("ocl")).cpu(), a @ b, rtol=1e-2, atol=1e-2)
        assert _C.last_kernel() == "gemm", _C.last_kernel()

    check(torch.randn(129, 130).half(), torch.randn(130, 140).half())
    check(torch.randn(100, 200), torch.randn(200, 300))
    check(torch.randn(20, 64, 64), torch.randn(20, 64, 64))
    check(torch.randn(9, 8).half(), torch.randn(8, 7).half())
    check(torch.arange(12).view(3, 4), torch.arange(8).view(4, 2))
    overlapping = torch.arange(10.0).to("ocl").as_strided((4, 5), (1, 1))
    expected = overlapping.cpu() @ torch.eye(5)
    assert torch.equal((overlapping @ torch.eye(5).to("ocl")).cpu(), expected)
    assert _C.last_kernel() == "gemm"
"""


def products(sizes):
    return f"    SIZES = {sizes}\n{PRODUCTS}"


@installed
@pytest.mark.slow
def test_products():
    printed = output_of(products(LARGE), OCL_KERNEL_FAMILY="gpu", OCL_CLBLAST=None)
    assert printed == "clblast_gemm clblast_gemm_batched"


@installed
def test_what_it_does_not_take():
    output_of(OTHERS, OCL_KERNEL_FAMILY="gpu", OCL_CLBLAST=None)


@installed
@pytest.mark.parametrize("batch", [(), (2,)], ids=["single", "batched"])
def test_without_memory(batch):
    """The cache is freed, then torch-ocl's own kernel computes the product."""
    stern_output_of(
        "amd_rdna3",
        f"""
        import ctypes, os, torch
        from torch_ocl import _C
        layer = ctypes.CDLL(os.environ["OPENCL_LAYERS"])
        layer.stern_failed.restype = ctypes.c_ulong
        x, y = torch.randn(*{batch}, 150, 200), torch.randn(*{batch}, 200, 130)
        mine, out = [x.to("ocl"), y.to("ocl")], torch.randn(*{batch}, 150, 130).to("ocl")
        for beta in (0, 2):
            for failing, kernel in (([], "clblast"), ([1], "clblast"), ([1, 2], "gemm")):
                before = out.cpu()
                failures = ",".join(f"clEnqueueNDRangeKernel:{{n}}:-4" for n in failing)
                layer.stern_fail(failures.encode())
                (out.baddbmm_ if {batch} else out.addmm_)(*mine, beta=beta)
                assert layer.stern_failed() == len(failing)
                assert _C.last_kernel().startswith(kernel), (failing, _C.last_kernel())
                torch.testing.assert_close(out.cpu(), beta * before + x @ y, rtol=1e-4, atol=1e-3)
        """,
        OCL_CLBLAST="1",
    )


@installed
def test_another_failure():
    """CLBlast fails where a driver does not answer its queries; it is not used from then on."""
    stern_output_of(
        "amd_rdna3",
        """
        import ctypes, os, torch, warnings
        from torch_ocl import _C
        layer = ctypes.CDLL(os.environ["OPENCL_LAYERS"])
        x, y = torch.randn(150, 200), torch.randn(200, 130)
        mine = x.to("ocl"), y.to("ocl")
        layer.stern_fail(b"clEnqueueNDRangeKernel:1:-30")
        with warnings.catch_warnings(record=True) as told:
            warnings.simplefilter("always")
            for i in range(2):
                product = torch.mm(*mine)
                torch.testing.assert_close(product.cpu(), x @ y, rtol=1e-4, atol=1e-3)
                assert _C.last_kernel().startswith("gemm"), _C.last_kernel()
        (one,) = [str(w.message) for w in told if "CLBlast" in str(w.message)]
        assert "CL_INVALID_VALUE" in one and "OCL_CLBLAST=0" in one, one
        """,
        OCL_CLBLAST="1",
    )


def test_switched_off():
    printed = output_of(products(SMALL), OCL_KERNEL_FAMILY="gpu", OCL_CLBLAST="0")
    assert printed == "gemm"


def test_without_the_library(tmp_path):
    for name in ("libclblast.so", "libclblast.so.1"):
        (tmp_path / name).touch()
    path = os.pathsep.join([str(tmp_path), os.environ.get("LD_LIBRARY_PATH", "")])
    printed = output_of(
        products(LARGE[:1]),
        OCL_KERNEL_FAMILY="gpu",
        OCL_CLBLAST=None,
        LD_LIBRARY_PATH=path.rstrip(":"),
    )
    assert printed == "gemm"


def test_cpu_devices_have_their_own(device):
    if torch.ocl.get_device_properties(device).kernel_family == "gpu":
        pytest.skip("the GPU family is in use")
    from torch_ocl import _C

    a = torch.randn(20, 20, device=device)
    a @ a
    assert _C.last_kernel() == "gemm"
