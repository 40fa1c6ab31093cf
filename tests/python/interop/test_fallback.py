"""Operators without a kernel run on the CPU, on mapped memory."""

import pytest
import torch
import torch.nn.functional as F
from fallback_operators import OPS, SEEN
from support import assert_same, random_tensor

pytestmark = pytest.mark.fallback_allowed
LAYOUTS = [lambda x: x, lambda x: x.t(), lambda x: x[1:, ::2], lambda x: x[:1].expand(3, 4)]


@pytest.fixture(autouse=True)
def no_statistics():
    torch.ocl.reset_fallback_stats()


@pytest.mark.parametrize("dtype", [torch.float32, torch.bool, torch.complex64, torch.float16])
def test_result_is_like_cpu(operator_device, dtype):
    for layout in LAYOUTS:
        x = layout(random_tensor((3, 4), dtype))
        y = layout(random_tensor((3, 4), dtype).to(operator_device))
        result = OPS.double_it(y)
        assert_same(result, OPS.double_it(x))
        assert result.device == torch.device(operator_device)
    for shape in [(), (0,), (3, 0, 2)]:
        x = random_tensor(shape, dtype)
        assert_same(OPS.double_it(x.to(operator_device)), OPS.double_it(x))
    assert torch.ocl.fallback_stats() == {"ocl_test::double_it": 7}


def test_in_place(operator_device):
    for layout in LAYOUTS[:3]:
        x = random_tensor((3, 4), torch.float32)
        y = x.to(operator_device)
        view = layout(y)
        assert OPS.double_it_(view) is view
        OPS.double_it_(layout(x))
        assert_same(y, x)


def test_out(operator_device):
    """An out= argument of another size comes back resized, with the strides that CPU gives."""
    for shape in [(3, 4), (2, 3, 4, 5)]:
        x = random_tensor(shape, torch.float32)
        for start in [shape, (0,), (2,), (7, 8, 9)]:
            expected, out = torch.zeros(start), torch.zeros(start).to(operator_device)
            result = OPS.double_it.out(x.to(operator_device), out=out)
            assert result is out
            assert_same(out, OPS.double_it.out(x, out=expected))
            assert out.device == torch.device(operator_device)


def test_out_view_keeps_the_rest_of_its_base(device):
    base = torch.zeros(4, 6).to(device)
    OPS.double_it.out(torch.ones(3, 2).to(device), out=base[1:, ::3])
    expected = torch.zeros(4, 6)
    expected[1:, ::3] = 2
    assert_same(base, expected)


def test_tensor_lists_and_optional_tensors(device):
    xs = [random_tensor((2, 3), torch.float32, seed) for seed in range(5)]
    ys = [x.to(device) for x in xs]
    assert_same(OPS.add_all(ys[:2], None, []), OPS.add_all(xs[:2], None, []))
    assert_same(OPS.add_all(ys[:2], ys[2], []), OPS.add_all(xs[:2], xs[2], []))
    assert_same(
        OPS.add_all(ys[:2], None, [None, ys[3], None, ys[4]]),
        OPS.add_all(xs[:2], None, [None, xs[3], None, xs[4]]),
    )
    OPS.add_all_(ys[:3], ys[4])
    OPS.add_all_(xs[:3], xs[4])
    for x, y in zip(xs, ys, strict=True):
        assert_same(y, x)


def test_several_results(device):
    x = random_tensor((3, 2), torch.float32)
    whole, halves, count, nothing = OPS.parts(x.to(device))
    assert_same(whole, x)
    assert_same(halves[0], x[:1])
    assert_same(halves[1], x[1:])
    assert count == 6 and nothing is None


def test_expanded_result(device):
    x = random_tensor((2, 4), torch.float32)
    assert torch.equal(OPS.expanded(x.to(device)).cpu(), x[:1].expand(3, 4))


def test_factory(operator_device):
    """The CPU implementation sees a CPU device; the result is on the wanted one."""
    x = torch.ones(1).to(operator_device)
    made = OPS.new(x, 5, dtype=torch.int32, device=operator_device)
    assert SEEN["device"] == torch.device("cpu")
    assert made.device == torch.device(operator_device)
    assert made.cpu().tolist() == [0, 1, 2, 3, 4] and made.dtype == torch.int32
    current = torch.device("ocl", torch.ocl.current_device())
    assert OPS.new(x, 2, device="ocl").device == current
    assert OPS.new(x, 2).device == torch.device(operator_device)
    # Without a tensor argument: PyTorch chooses by the device argument.
    indices = torch.tril_indices(3, 3, device=operator_device)
    assert indices.device == torch.device(operator_device)
    assert torch.equal(indices.cpu(), torch.tril_indices(3, 3))
    assert torch.tril_indices(3, 3, device="ocl").device == current


def test_aliasing_arguments_share_a_map(device):
    """Two maps for writing that overlap would be undefined."""
    base = torch.arange(20.0)
    y = base.to(device)
    OPS.swap_(y[2:7], y[10:15])
    first, second = SEEN["swap"]
    assert second - first == 8 * 4, "views of one storage lie in one map"
    OPS.swap_(base[2:7], base[10:15])
    assert_same(y, base)
    OPS.swap_(y, y)
    assert_same(y, base)
    OPS.add_all_([y[:5], y[5:10]], y[19])
    OPS.add_all_([base[:5], base[5:10]], base[19])
    assert_same(y, base)


def test_no_byte_is_copied_for_arguments(device):
    """On devices that share the host's memory, the CPU works on the device's own memory: the same
    place every time, and the same for the tensor and for a view's base."""
    if not torch.ocl.get_device_properties(device).host_unified_memory:
        pytest.skip("the device has memory of its own")
    x = torch.ones(1000).to(device)
    places = set()
    for _ in range(3):
        OPS.double_it(x)
        places.add(SEEN["x"].data_ptr())
    OPS.double_it(x[10:])
    assert places == {SEEN["x"].data_ptr() - 40}


def test_memory_is_unmapped_after_an_exception(device):
    x = torch.ones(3).to(device)
    for _ in range(3):
        with pytest.raises(KeyError, match="on purpose"):
            OPS.fails(x)
    assert x.add(1).cpu().tolist() == [6, 6, 6]


def test_work_before_and_after_is_in_order(device):
    stream = torch.ocl.Stream()
    x = torch.zeros(10_000).to(device)
    stream.wait_stream(torch.ocl.current_stream())
    with stream:
        for _ in range(20):
            x.add_(1)
            OPS.double_it_(x)
            x.sub_(1)
    stream.synchronize()
    expected = torch.zeros(())
    for _ in range(20):
        expected = (expected + 1) * 2 - 1
    assert x.cpu().eq(expected).all()


def test_recorded_streams_are_waited_for(device):
    stream = torch.ocl.Stream()
    x = torch.zeros(16_000).to(device)
    x.record_stream(stream)
    torch.ocl.synchronize()
    with stream:
        for _ in range(300):
            x.add_(1)
    assert OPS.double_it(x).cpu().eq(600).all()


def test_tensors_of_two_devices_are_refused(two_devices):
    xs = [torch.ones(3).to(device) for device in two_devices]
    pattern = "ocl_test::add_all.* same device.*ocl:0.*ocl:1"
    with pytest.raises(RuntimeError, match=pattern):
        OPS.add_all(xs, None, [])
    with pytest.raises(RuntimeError, match="same device"):
        OPS.add_all(xs[:1], xs[1], [])


def test_autograd(device):
    """torch.special.erfinv's derivative has only plain operators."""
    x = torch.tensor([0.1, -0.5, 0.7])
    y = x.to(device).requires_grad_()
    x.requires_grad_()
    y.erfinv().mul(2).backward(torch.ones(3).to(device))
    x.erfinv().mul(2).backward(torch.ones(3))
    torch.testing.assert_close(y.grad.cpu(), x.grad)


def test_generator_argument(device):
    torch.manual_seed(3)
    x = torch.empty(5).log_normal_()
    torch.manual_seed(3)
    y = torch.empty(5, device=device).log_normal_(generator=torch.Generator(device))
    assert y.device == torch.device(device) and y.isfinite().cpu().all()
    assert x.shape == y.shape


@pytest.mark.fallback_allowed
def test_resized_output_with_gaps(device):
    """lstsq returns a part of its workspace: 3 rows of columns that are 5 long."""
    a, b = torch.randn(5, 3), torch.randn(5, 2)
    expected = torch.linalg.lstsq(a, b).solution
    actual = torch.linalg.lstsq(a.to(device), b.to(device)).solution
    assert actual.stride() == expected.stride() == (1, 5)
    torch.testing.assert_close(actual.cpu(), expected, rtol=1e-4, atol=1e-4)


def test_operands_on_the_cpu_are_refused(device):
    """A module whose input was forgotten on the CPU: not computed there in silence."""
    x, w = torch.randn(1, 2, 5, 5), torch.randn(3, 2, 3, 3, device=device)
    for function in (F.conv2d, lambda x, w: F.conv_transpose2d(x, w.transpose(0, 1))):
        with pytest.raises(RuntimeError, match="same device"):
            function(x, w)
    with pytest.raises(RuntimeError, match="same device"):
        torch.nn.Conv1d(2, 3, 3).to(device)(x[:, :, 0])
    grad = torch.randn(1, 3, 3, 3, device=device)
    options = None, [1, 1], [0, 0], [1, 1], False, [0, 0], 1, [True, True, False]
    with pytest.raises(RuntimeError, match="same device"):
        torch.ops.aten.convolution_backward(grad, x, w, *options)


def test_lengths_are_on_the_cpu(device):
    x = torch.randn(4, 2, 3)
    expected = torch.nn.utils.rnn.pack_padded_sequence(x, torch.tensor([4, 2]))
    actual = torch.nn.utils.rnn.pack_padded_sequence(x.to(device), torch.tensor([4, 2]))
    assert torch.equal(actual.data.cpu(), expected.data)
