"""torch.ocl: devices and their properties."""

import threading

import pytest
import torch
from support import output_of, run_python


def test_count_and_availability():
    assert torch.ocl.is_available() == (torch.ocl.device_count() > 0)
    assert torch.accelerator.is_available() == torch.ocl.is_available()
    assert torch.accelerator.device_count() == torch.ocl.device_count()


def test_renamed_device(device):
    x = torch.empty(2, device=device)
    assert x.device == torch.device(device)
    assert x.is_ocl
    assert x.cpu().ocl().device.type == "ocl"
    assert torch.nn.Linear(2, 2).ocl().weight.is_ocl
    assert torch.accelerator.current_accelerator().type == "ocl"


def test_index_is_normalised(device):
    """A tensor on "ocl" is on the current device, and says so."""
    assert torch.empty(2, device="ocl").device == torch.device(device)
    assert torch.empty(2, device="ocl").to("ocl").device == torch.device(device)


def test_properties(device):
    properties = torch.ocl.get_device_properties(device)
    assert properties.name == torch.ocl.get_device_name(device)
    assert properties.total_memory >= properties.max_allocation > 0
    assert properties.kernel_family in ("cpu", "gpu")
    assert torch.ocl.get_device_capability(device) >= (1, 2)


def test_capability_lists_types(device):
    """torch.accelerator asks the device, not a table."""
    types = torch.accelerator.get_device_capability(device)["supported_dtypes"]
    assert {torch.float32, torch.bfloat16, torch.int64, torch.bool, torch.complex64} <= types
    has_fp64 = torch.ocl.get_device_properties(device).has_fp64
    assert (torch.float64 in types, torch.complex128 in types) == (has_fp64, has_fp64)
    for dtype in types:
        assert torch.ones(2, dtype=dtype, device=device).cpu().tolist() == [1, 1]


def test_current_device_context_managers(two_devices):
    first, second = two_devices
    torch.ocl.set_device(first)
    with torch.ocl.device(second):
        assert torch.ocl.current_device() == 1
        assert torch.empty(1, device="ocl").device.index == 1
        with torch.ocl.device_of(torch.empty(1, device=first)):
            assert torch.ocl.current_device() == 0
        with torch.ocl.device_of(torch.empty(1)):
            assert torch.ocl.current_device() == 1
        with torch.ocl.device(None), torch.ocl.device(-1):
            assert torch.ocl.current_device() == 1
    assert torch.ocl.current_device() == 0
    with pytest.raises(KeyError), torch.ocl.device(second):
        raise KeyError
    assert torch.ocl.current_device() == 0


def test_accelerator_interface(two_devices):
    torch.accelerator.set_device_index(1)
    assert torch.ocl.current_device() == 1
    torch.accelerator.set_device_index(0)
    with torch.accelerator.device_index(1):
        assert torch.ocl.current_device() == 1
    assert torch.accelerator.current_device_index() == 0
    torch.accelerator.synchronize(1)


def test_threads_start_on_device_0(two_devices):
    seen = []
    with torch.ocl.device(1):
        thread = threading.Thread(target=lambda: seen.append(torch.ocl.current_device()))
        thread.start()
        thread.join()
    assert seen == [0]


def test_failed_resize_leaves_the_current_device(two_devices):
    x = torch.empty(1, device="ocl:1")
    with torch.ocl.device(0):
        with pytest.raises(torch.OutOfMemoryError):
            x.resize_(2**50)
        assert torch.ocl.current_device() == 0


@pytest.mark.parametrize("selected, expected", [("0", [0]), ("1", [1]), ("1,0", [1, 0])])
def test_visible_devices(selected, expected, two_devices):
    names = [torch.ocl.get_device_name(index) for index in range(2)]
    code = """
        import torch
        count = torch.ocl.device_count()
        torch.ocl.init()
        assert torch.ocl.device_count() == count
        print([torch.ocl.get_device_name(index) for index in range(count)])
    """
    assert output_of(code, OCL_VISIBLE_DEVICES=selected) == str([names[i] for i in expected])


@pytest.mark.parametrize("selected", ["x", "0,", "99", "0,0", "-1"])
def test_wrong_visible_devices(selected):
    """device_count() does not raise; the first use says what is wrong."""
    code = """
        import torch
        assert torch.ocl.device_count() == 0 and not torch.ocl.is_available()
        for attempt in (torch.ocl.init, lambda: torch.empty(1, device="ocl")):
            try:
                attempt()
            except ValueError as error:
                print(error)
    """
    lines = output_of(code, OCL_VISIBLE_DEVICES=selected).splitlines()
    assert len([line for line in lines if f'OCL_VISIBLE_DEVICES="{selected}"' in line]) == 2


def test_info_with_wrong_visible_devices():
    code = "import runpy; runpy.run_module('torch_ocl.info', run_name='__main__')"
    result = run_python(code, OCL_VISIBLE_DEVICES="99")
    assert result.returncode == 1
    assert 'OCL_VISIBLE_DEVICES="99" names device 99' in result.stderr
    assert "apt install" not in result.stderr


def test_wrong_kernel_family():
    code = """
        import torch
        try:
            torch.ocl.init()
        except ValueError as error:
            print(error)
    """
    text = output_of(code, OCL_KERNEL_FAMILY="tpu")
    assert 'OCL_KERNEL_FAMILY must be "cpu" or "gpu", not "tpu"' in text


def test_generators(device):
    torch.ocl.manual_seed(5)
    assert torch.ocl.initial_seed() == 5
    state = torch.ocl.get_rng_state(device)
    torch.manual_seed(9)
    assert torch.ocl.initial_seed() == 9
    torch.ocl.set_rng_state(state, device)
    assert torch.ocl.initial_seed() == 5
    assert len(torch.ocl.get_rng_state_all()) == torch.ocl.device_count()
    with pytest.raises(ValueError, match="state has 16 bytes, got 3"):
        torch.ocl.set_rng_state(torch.zeros(3, dtype=torch.uint8))
    with torch.random.fork_rng(device_type="ocl"):
        torch.ocl.manual_seed(1)
    assert torch.ocl.initial_seed() == 5


def test_seeding_starts_nothing():
    code = "import torch; torch.manual_seed(3); print(torch.ocl.is_initialized())"
    assert output_of(code) == "False"


def gradients(network, x):
    network.zero_grad()
    result = network(x)
    result.square().sum().backward()
    parameters = getattr(network, "module", network).parameters()
    # Copies: a module that moves takes its gradients along.
    return [result.detach().cpu(), *(p.grad.to("cpu", copy=True) for p in parameters)]


def check_data_parallel(devices):
    network = torch.nn.Sequential(torch.nn.Linear(3, 8), torch.nn.Tanh(), torch.nn.Linear(8, 2))
    x = torch.randn(7, 3)
    expected = gradients(network, x)
    parallel = torch.nn.DataParallel(network.to(devices[0]), devices)
    for batch in (x, x.to(devices[0])):
        torch.testing.assert_close(gradients(parallel, batch), expected)


CUDA_COMES_FIRST = pytest.mark.skipif(
    torch.cuda.is_available(),
    reason="torch.nn.DataParallel takes CUDA's devices where there are any",
)


@CUDA_COMES_FIRST
def test_operands_of_two_devices(two_devices):
    """Also operators that PyTorch does not check."""
    a, b = (torch.full((3,), 0.5, device=device, requires_grad=True) for device in two_devices)
    for left, right in ((a, b), (b, a)):
        with pytest.raises(RuntimeError, match="on the same device"):
            torch.binomial(left.detach(), right.detach())
        with pytest.raises(RuntimeError, match="lr must be one element on the CPU or on"):
            torch._fused_sgd_(
                [left.detach()], [torch.ones_like(left)], [], weight_decay=0, momentum=0,
                lr=right.detach()[0], dampening=0, nesterov=False, maximize=False,
                is_first_step=True,
            )  # fmt: skip
        q = torch.ones(1, 1, 4, 8, device=left.device)
        for position in range(4):
            inputs = [q, q, q, q]
            inputs[position] = q.to(right.device)
            with pytest.raises(RuntimeError, match="on the same device"):
                torch.ops.aten._scaled_dot_product_fused_attention_overrideable_backward(
                    *inputs, None, [True, True, True, False], q, q[..., 0], None, None, 4, 4, 0.0,
                    False, torch.zeros(()), torch.zeros(()),
                )  # fmt: skip
    assert (a + 1).tolist() == [1.5] * 3 and (b + 1).tolist() == [1.5] * 3


def test_data_parallel(device):
    check_data_parallel([device])


@CUDA_COMES_FIRST
def test_data_parallel_on_two_devices(two_devices):
    check_data_parallel(list(two_devices))


def test_copies_between_devices(two_devices):
    """Functions that torch.nn.parallel calls."""
    from torch.nn.parallel import comm

    first, second = (torch.device(each) for each in two_devices)
    x = torch.arange(10.0).view(5, 2)
    parts = comm.scatter(x, [0, 1], chunk_sizes=[1, 4])
    assert [part.device for part in parts] == [first, second]
    assert torch.equal(comm.gather(parts, destination=1).cpu(), x)
    assert comm.gather(parts, destination="cpu").device.type == "cpu"
    for copy, device in zip(comm.broadcast(x.to(first), [0, 1]), (first, second), strict=True):
        assert copy.device == device and torch.equal(copy.cpu(), x)
    copies = comm.broadcast_coalesced([x.to(first), x.to(first) + 1], [0, 1])
    assert [each.device for each in copies[1]] == [second, second]
    assert torch.equal(comm.reduce_add([copies[0][1], copies[1][1]], 0).cpu(), 2 * x + 2)
    out = [torch.empty(2, 2, device=first), torch.empty(3, 2, device=second)]
    comm.scatter(x, out=out)
    assert torch.equal(comm.gather(out, out=torch.empty(5, 2)), x)
    assert all(
        torch.equal(each.cpu(), x[:2]) for each in comm.broadcast(x[:2].to(first), out=[out[0]])
    )


def test_current_device_lists_the_devices(device):
    """As with torch.cuda, statistics have their keys afterwards."""
    code = """
    import torch
    print(torch.ocl.is_initialized(), torch.ocl.current_device(), torch.ocl.is_initialized())
    print(torch.ocl.memory_stats()["allocated_bytes.all.current"])
    """
    assert output_of(code).split() == ["False", "0", "True", "0"]


def test_current_device_where_there_is_none(tmp_path):
    code = """
    import torch
    try:
        torch.ocl.current_device()
    except RuntimeError as error:
        print("No OpenCL device" in str(error))
    """
    assert output_of(code, OCL_ICD_VENDORS=str(tmp_path)) == "True"
