"""Errors that only GPUs have, on a device that behaves as some GPUs do."""

import pytest
from stern import changed_profile, stern_output_of


@pytest.mark.parametrize("profile", ["intel_gen9", "nvidia_ampere"])
def test_kernels_run_while_the_host_uses_another_tensor_of_a_buffer(profile):
    """A kernel may not use a buffer while a part of it is mapped."""
    stern_output_of(
        profile,
        """
        import threading, torch
        import torch.nn.functional as F

        x, y = torch.zeros(1000, device="ocl"), torch.ones(1000, device="ocl")
        entered, left = threading.Event(), threading.Event()

        @torch.library.custom_op("test::wait", mutates_args=("x",), device_types="cpu")
        def wait(x: torch.Tensor) -> None:
            entered.set()
            assert left.wait(60)
            x.add_(3)

        thread = threading.Thread(target=lambda: wait(x))
        thread.start()
        assert entered.wait(60)
        total = (y + 1).sum().item()
        left.set()
        thread.join()
        assert total == 2000 and x.sum().item() == 3000
        """,
        OCL_FALLBACK="allow",
    )


@pytest.mark.parametrize("profile", ["intel_gen9", "nvidia_ampere"])
def test_an_operator_on_the_host_leaves_what_lies_between_its_numbers(profile):
    """Another stream may write there meanwhile."""
    stern_output_of(
        profile,
        """
        import torch

        pairs = torch.zeros(1000, 3, device="ocl")

        @torch.library.custom_op("test::fill", mutates_args=("x",), device_types="cpu")
        def fill(x: torch.Tensor, y: torch.Tensor) -> None:
            with torch.ocl.stream(torch.ocl.Stream()):
                pairs[:, 1:].fill_(7)
                torch.ocl.synchronize()
            x.fill_(3)

        fill(pairs[:, 0], pairs[:, 2])
        assert torch.equal(pairs.cpu(), torch.tensor([3.0, 7, 7]).expand(1000, 3))
        """,
        OCL_FALLBACK="allow",
    )


def test_sums_by_index_of_long_integers_without_atomics():
    stern_output_of(
        "smallest",
        """
        import torch
        assert not torch.ocl.get_device_properties(0).has_int64_atomics
        numbers = torch.Generator().manual_seed(0)
        index = torch.randint(9, (300,), generator=numbers)
        rows = torch.randint(-(2**40), 2**40, (300, 4), generator=numbers)
        def results(device):
            i, r = index.to(device), rows.to(device)
            zeros = torch.zeros(9, 4, dtype=torch.int64, device=device)
            return (
                zeros.index_add(0, i, r),
                zeros.index_put((i,), r, accumulate=True),
                zeros[:, 0].scatter_add(0, i, r[:, 1]),
                zeros.scatter_reduce(0, i[:, None].expand(-1, 4), r, "amax"),
                torch.bincount(i),
            )
        for actual, expected in zip(results("ocl"), results("cpu")):
            assert torch.equal(actual.cpu(), expected)
        """,
    )


def test_long_sums_by_index_are_not_the_work_of_one_item():
    """A launch of seconds ends in a reset of the GPU of a desktop."""
    stern_output_of(
        "smallest",
        """
        import torch
        from torch_ocl import _C
        index = torch.randint(9, (300000,), generator=torch.Generator().manual_seed(0))
        numbers = torch.arange(300000) << 20
        zeros = torch.zeros(9, dtype=torch.int64)
        actual = zeros.to("ocl").index_add(0, index.to("ocl"), numbers.to("ocl"))
        assert _C.last_kernel() == "index_join"
        assert torch.equal(actual.cpu(), zeros.index_add(0, index, numbers))

        tokens = torch.randint(9, (5000,), generator=torch.Generator().manual_seed(0))
        rows = torch.randn(5000, 7)
        backward = torch.ops.aten.embedding_dense_backward
        actual = backward(rows.to("ocl"), tokens.to("ocl"), 9, 2, True)
        assert _C.last_kernel() == "index_join"
        expected = backward(rows, tokens, 9, 2, True)
        torch.testing.assert_close(actual.cpu(), expected, rtol=1e-4, atol=1e-4)
        """,
    )


def test_indices_of_many_dimensions():
    """Their sizes and strides are beyond the 1,024 bytes of arguments that the device takes."""
    stern_output_of(
        "smallest",
        """
        import torch
        x = torch.arange(3.0**6).view([3] * 6)
        order = torch.arange(12).view(6, 2).t().flatten().tolist()
        shape, numbers = [2] * 12, torch.Generator().manual_seed(0)
        indices = [
            torch.randint(3, shape, generator=numbers).permute(order if k % 2 else order[::-1])
            for k in range(6)
        ]
        mine = [index.to("ocl") for index in indices]
        assert mine[0].stride() != mine[1].stride()
        assert torch.equal(x.to("ocl")[mine].cpu(), x[indices])
        ones = torch.ones(()).expand(shape)
        expected = x.index_put(indices, ones, accumulate=True)
        actual = x.to("ocl").index_put(mine, ones.to("ocl"), accumulate=True)
        assert torch.equal(actual.cpu(), expected)
        """,
    )


def test_memory_runs_out_and_comes_back():
    """The driver grants buffers of 512 MiB, but fails at the first use of those beyond 384 MiB."""
    printed = stern_output_of(
        "smallest",
        """
        import torch
        held = []
        try:
            while len(held) < 1000:
                held.append(torch.ones(16 << 20, dtype=torch.uint8, device="ocl"))
        except torch.OutOfMemoryError as error:
            print(error)
        count = len(held)
        assert count << 24 < torch.ocl.get_device_properties(0).total_memory
        assert all(x[-1].item() == 1 for x in held)
        held.clear()
        held = [torch.ones(16 << 20, dtype=torch.uint8, device="ocl") for _ in range(count)]
        """,
    )
    assert "cannot allocate 16.00 MiB" in printed


def test_large_grids():
    """More groups than fit into a dimension: the batches of a ResNet-18, tokens, matrices, rows."""
    stern_output_of(
        "nvidia_ampere",
        """
        import torch, torch.nn.functional as F
        def check(function, *shape):
            x = torch.randn(shape, generator=torch.Generator().manual_seed(0))
            expected = function(x)
            torch.testing.assert_close(function(x.to("ocl")).cpu(), expected, rtol=1e-4, atol=1e-4)
        check(lambda x: F.max_pool2d(x, 3, 2, 1), 20, 64, 112, 4)
        check(lambda x: x[torch.arange(70000, device=x.device) % 100], 100, 64)
        check(lambda x: x.sum(1), 70000, 3)
        check(lambda x: x @ x.mT, 66000, 3, 2)
        weight = lambda x: x[:1, :, :3, :3].mT.reshape(-1, 1, 3, 3)
        check(lambda x: F.conv2d(x, weight(x), groups=66000), 1, 66000, 3, 4)
        check(lambda x: x.sort(1).values, 66000, 5)
        check(lambda x: x.transpose(1, 2).contiguous(), 66000, 17, 20)
        check(lambda x: F.layer_norm(x, (4,)), 70000, 4)
        """,
    )


@pytest.mark.parametrize("profile", ["intel_gen9", "nvidia_ampere"])
def test_a_result_that_the_cpu_resizes(profile):
    """The copy of the memory of before must not overwrite the result."""
    stern_output_of(
        profile,
        """
        import torch

        @torch.library.custom_op("test::count", mutates_args=("out",), device_types="cpu")
        def count(size: int, out: torch.Tensor) -> None:
            torch.arange(float(size), out=out.resize_(size))

        for size in (3, 10, 1000):
            out = torch.empty(100, device="ocl")[:5]
            count(size, out)
            assert torch.equal(out.cpu(), torch.arange(float(size))), (size, out)
        """,
        OCL_FALLBACK="allow",
    )


@pytest.mark.parametrize("profile", ["intel_gen9", "nvidia_ampere"])
def test_times_where_queues_begin_without_profiling(profile):
    stern_output_of(
        profile,
        """
        import torch

        def seconds():
            start, end = (torch.ocl.Event(enable_timing=True) for _ in range(2))
            start.record()
            x.add_(1)
            end.record()
            end.synchronize()
            return start.elapsed_time(end)

        x = torch.zeros(1000, device="ocl")
        for _ in range(20):
            x.add_(1)
        assert seconds() > 0 and x[0].item() == 21

        with torch.ocl.stream(torch.ocl.Stream()):
            x.mul_(2)
            queue = torch.ocl.queue()
            assert seconds() > 0 and torch.ocl.queue() == queue and x[0].item() == 43

        with torch.ocl.stream(torch.ocl.Stream()):
            x.add_(1)
            with torch.profiler.profile() as profile:
                for _ in range(3):
                    x.add_(1)
                torch.ocl.synchronize()
            add = next(each for each in profile.key_averages() if each.key == "aten::add_")
            assert add.count == 3 and add.self_device_time_total > 0 and x[0].item() == 47
        """,
    )


def test_the_cpu_works_on_more_than_half_of_the_largest_buffer(tmp_path):
    """Pinned memory has sizes of powers of two, but must not be larger than the largest buffer."""
    stern_output_of(
        changed_profile(tmp_path, "smallest", DEVICE_MAX_MEM_ALLOC_SIZE=100 << 20),
        """
        import torch

        @torch.library.custom_op("test::add_one", mutates_args=("x",), device_types="cpu")
        def add_one(x: torch.Tensor) -> None:
            x += 1

        for size in (70 << 20, 90 << 20, 70 << 20):
            x = torch.zeros(size, dtype=torch.uint8, device="ocl")
            add_one(x)
            assert x[0].item() == 1 and x[-1].item() == 1
            del x
        torch.ocl.synchronize()
        torch.empty(1, pin_memory=True)  # gives back blocks whose last copy has ended
        held = torch.ocl.host_memory_stats()["allocated_bytes.current"]
        assert held <= 64 << 20, held
        """,
        OCL_FALLBACK="allow",
    )


def test_data_parallel_training_without_times():
    """DistributedDataParallel asks for the times of the last iteration in each."""
    stern_output_of(
        "nvidia_ampere",
        """
        import tempfile
        import torch
        import torch.distributed as dist

        store = f"file://{tempfile.mktemp()}"
        dist.init_process_group("occl", init_method=store, rank=0, world_size=1)
        model = torch.nn.parallel.DistributedDataParallel(torch.nn.Linear(5, 2).to("ocl"))
        model._set_ddp_runtime_logging_sample_rate(1)
        for _ in range(4):
            model(torch.ones(3, 5, device="ocl")).sum().backward()
        assert model._get_ddp_logging_data()["avg_backward_compute_time"] == 0
        dist.destroy_process_group()
        """,
    )


def test_a_failure_is_left_for_its_stream():
    """Another thread is out of memory, and waits for all streams to free some."""
    stern_output_of(
        "nvidia_ampere",
        """
        import ctypes, os, threading
        import torch

        def use_much_memory():
            try:
                held = [torch.empty(20 << 20, dtype=torch.uint8, device="ocl") for _ in range(4)]
            except torch.OutOfMemoryError as error:
                refused.append(error)

        layer = ctypes.CDLL(os.environ["OPENCL_LAYERS"])
        x, refused = torch.ones(8, device="ocl"), []
        x + 1
        torch.ocl.synchronize()
        layer.stern_fail(b"execution:1:-5")
        y = x + 1
        torch.ocl.Event().record()
        while layer.stern_failed() == 0:
            pass
        thread = threading.Thread(target=use_much_memory)
        thread.start()
        thread.join()
        assert refused
        try:
            y.tolist()
        except RuntimeError as error:
            assert "CL_OUT_OF_RESOURCES" in str(error), error
        else:
            raise AssertionError("no error")
        layer.stern_fail(b"")
        assert (x + 1).tolist() == [2] * 8
        """,
        OCL_MEMORY_MB=64,
    )


def test_a_fault_whose_report_cannot_be_read():
    stern_output_of(
        "nvidia_ampere",
        """
        import ctypes, os
        import torch

        layer = ctypes.CDLL(os.environ["OPENCL_LAYERS"])
        x, index = torch.ones(8, device="ocl"), torch.tensor([8], device="ocl")
        torch.ocl.synchronize()
        x[index]
        layer.stern_fail(b"clEnqueueReadBuffer:1:-5")
        try:
            torch.ocl.synchronize()
        except RuntimeError as error:
            assert "clEnqueueReadBuffer" in str(error), error
        else:
            raise AssertionError("no error")
        try:
            torch.ocl.synchronize()
        except IndexError:
            pass
        else:
            raise AssertionError("the fault is lost")
        torch.ocl.synchronize()
        """,
    )
