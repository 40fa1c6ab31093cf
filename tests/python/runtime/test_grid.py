"""Grids beyond the limits of a device become several launches."""

import json
import re
import shutil
import textwrap

import pytest
from stern import changed_profile, stern_output_of
from support import KERNELS, needs_refused_operators, output_of, skip_in_a_simulator

# In a part of a grid, these functions give the size or the index within the part.
IN_PART = re.compile(r"\bget_(global_size|num_groups|group_id|global_linear_id)\b")
# Kernels that need the whole grid: their callers keep to the limits (KernelSource::whole_grid).
WHOLE_GRID = {
    "jacobi.cl",
    "ldl.cl",
    "lu.cl",
    "matrix.clh",
    "triangular.cl",
}
# Kernels of the CPU family, whose grids have no limits.
CPU_FAMILY = {"flex.clh", "layer_norm_cpu.cl", "topk.cl", "winograd_cpu.clh"}


def test_kernels_do_not_depend_on_the_part_of_a_grid():
    found = set()
    for path in KERNELS.rglob("*.cl*"):
        text = path.read_text()
        if path.name == "grid.clh":
            text = text.replace("DIVIDE_UP(inner, get_global_size(0))", "")  # CPU family
        if path.name == "common.clh" or path.parts[-2:-1] in (("cpu",), ("channels_last",)):
            continue
        if IN_PART.search(text):
            found.add(path.name)
    assert found == WHOLE_GRID | CPU_FAMILY


CASES = {
    "maximum pooling": "F.max_pool2d(x(3, 5, 20, 70), 3, 2, 1)",
    "average pooling in three dimensions": "F.avg_pool3d(x(2, 3, 6, 7, 9), 2)",
    "sums of rows": "x(900, 3).sum(1)",
    "sums of long rows": "x(70, 3000).sum(1)",
    "sums of columns": "x(300, 2000).sum(0)",
    "variance": "x(40, 50, 60).var(1)",
    "positions": "x(500, 80).argmax(1)",
    "positions in a long row": "x(300_000).argmax()",
    "largest": "x(9, 5000).topk(9).values",
    "largest of a long row": "x(300_000).topk(9).indices",
    "element-wise": "x(3000, 7).sin() + x(7)",
    "softmax": "x(300, 200).softmax(1)",
    "layer norm": "F.layer_norm(x(300, 64), (64,))",
    "group norm": "F.group_norm(x(30, 12, 9, 9), 4)",
    "rows by index": "x(100, 40)[i(900, 100)]",
    "gather": "x(90, 40).gather(1, i((90, 30), 40))",
    "sort": "x(50, 3000).sort(1).values",
    "short sort": "x(500, 30).sort(1).indices",
    "cumulative sums": "x(300, 90).cumsum(0)",
    "product of matrices": "x(300, 200) @ x(200, 150)",
    "product split along k": "x(20, 6000) @ x(6000, 30)",
    "products of a batch": "x(50, 20, 30) @ x(50, 30, 10)",
    "product with a vector": "x(3000, 50) @ x(50)",
    "convolution": "F.conv2d(x(4, 16, 20, 21), x(24, 16, 3, 3), padding=1)",
    "depthwise convolution": "F.conv2d(x(4, 40, 20, 21), x(40, 1, 3, 3), groups=40)",
    "transposed convolution": "F.conv_transpose2d(x(4, 8, 9, 9), x(8, 6, 3, 3), stride=2)",
    "attention": "F.scaled_dot_product_attention(x(3, 5, 150, 16), *[x(3, 5, 90, 16)] * 2)",
    "transposed copy": "x(500, 700).t().contiguous()",
    "transposed planes": "x(40, 50, 70).transpose(1, 2).contiguous()",
    "interpolation": "F.interpolate(x(3, 4, 20, 30), (45, 50), mode='bilinear')",
    "FFT": "torch.fft.fft(x(200, 60)).abs()",
    "LU": "torch.linalg.solve(x(30, 20, 20) + 9 * torch.eye(20, device=d), x(30, 20, 300))",
    "Cholesky": "torch.linalg.cholesky(torch.eye(9, device=d) * (1 + x(30, 9, 1) ** 2))",
    "singular values": "torch.linalg.svdvals(x(20, 9, 5))",
    "QR": "torch.linalg.qr(x(9, 60, 50)).R.abs()",
    "sums by index": "torch.zeros(9, device=d).scatter_add(0, i(900, 9), x(900).round())",
    "columns by index": "torch.zeros(9, 70, device=d).index_add(0, i(900, 9), x(900, 70))",
    "sums in place": "x(4, 900).cumsum_(0)",
    "embedding": "F.embedding(i((40, 50), 300), x(300, 24))",
    "distances": "torch.cdist(x(70, 9), x(80, 9))",
    "mode": "(x(400, 20) * 3).round().mode(1).values",
    "margin loss": "F.multi_margin_loss(x(300, 7), i(300, 7), reduction='none')",
    "margin loss of several": "F.multilabel_margin_loss(x(300, 7), i((300, 7), 7) - 1)",
    "sequences": "F.ctc_loss(x(20, 70, 5).log_softmax(2), i((70, 4), 4) + 1, [20] * 70, [4] * 70)",
    "gradient of sequences": "torch.autograd.grad(F.ctc_loss((p := x(20, 70, 5).requires_grad_())"
    ".log_softmax(2), i((70, 4), 4) + 1, [20] * 70, [4] * 70), p)[0]",
    "many tokens": "torch.ops.aten.embedding_dense_backward(x(5000, 6), i(5000, 30), 30, 3, True)",
    "many sums by index": "torch.zeros(9, dtype=torch.int64, device=d).index_add("
    "0, i(9000, 9), i(9000, 99))",
    "a long cumulative sum": "x(30000).cumsum(0) / 100",
    "norms of a list": "torch.stack(torch._foreach_norm([x(n) for n in range(1, 90, 5)]))",
}
RUN = """
    import os, torch, torch.nn.functional as F
    def results(device, text):
        numbers = torch.Generator().manual_seed(0)
        names = {
            "torch": torch, "F": F, "d": device,
            "x": lambda *shape: torch.randn(shape, generator=numbers).to(device),
            "i": lambda shape, most: torch.randint(
                most, (shape,) if isinstance(shape, int) else shape, generator=numbers
            ).to(device),
        }
        return eval(text, names).cpu()
    for name, text in CASES.items():
        torch.testing.assert_close(
            results("ocl", text), results("cpu", text), rtol=2e-4, atol=2e-4, msg=name.__add__)
    print(len(CASES))
"""
GRADIENTS = """
    import torch, torch.nn.functional as F
    def gradients(device):
        torch.manual_seed(0)
        net = torch.nn.Sequential(
            torch.nn.Conv2d(3, 20, 3, padding=1), torch.nn.BatchNorm2d(20), torch.nn.MaxPool2d(2),
            torch.nn.Conv2d(20, 20, 3, groups=20), torch.nn.Flatten(), torch.nn.LayerNorm(720),
            torch.nn.Linear(720, 300), torch.nn.Unflatten(1, (30, 10)),
            torch.nn.TransformerEncoderLayer(10, 2, 40, dropout=0, batch_first=True),
        )
        table = torch.nn.Embedding(50, 10)
        x, tokens = torch.randn(6, 3, 16, 16), torch.randint(50, (6, 30))
        net, table, x, tokens = (part.to(device) for part in (net, table, x, tokens))
        x.requires_grad_()
        (net(x) * table(tokens)).square().mean().backward()
        return [t.grad.cpu() for t in (x, *net.parameters(), *table.parameters())]
    for a, b in zip(gradients("ocl"), gradients("cpu")):
        torch.testing.assert_close(a, b, rtol=1e-3, atol=1e-4)
    print("equal")
"""
# Operators of more than a million multiply-adds by the kernels that they run, for variables.
MUCH_WORK = [
    (
        {"OCL_DISABLE": "direct"},
        {
            "gemm": "x(50, 30, 40) @ x(50, 40, 60)",
            "gemv": "x(70, 130).expand(300, -1, -1) @ x(300, 130, 1)",
            "conv_tiles": "F.conv2d(x(4, 16, 40, 21), x(24, 16, 3, 3), padding=1)",
            "conv_weight_tiles": "torch.nn.grad.conv2d_weight(x(4, 16, 20, 21), (24, 16, 3, 3), "
            "x(4, 24, 20, 21), padding=1) / 10",
            "attention_forward": "F.scaled_dot_product_attention("
            "x(3, 5, 150, 16), *[x(3, 5, 90, 16)] * 2)",
            "attention_grad_key": "torch.autograd.grad(F.scaled_dot_product_attention("
            "x(3, 5, 150, 16), k := x(3, 5, 90, 16).requires_grad_(), x(3, 5, 90, 16))"
            ".sin().sum(), k)[0]",
            "attention_grad_query": "torch.autograd.grad(F.scaled_dot_product_attention("
            "q := x(3, 5, 150, 16).requires_grad_(), *[x(3, 5, 150, 16)] * 2, is_causal=True)"
            ".sin().sum(), q)[0]",
        },
    ),
    (
        {},
        {"conv_direct": "F.conv2d(x(4, 9, 40, 40), x(7, 9, 3, 3), padding=1)"},
    ),
    (
        {"OCL_DISABLE": "gpu_tiles,tiles,direct"},
        {
            "gemm_plain": "x(300, 200) @ x(200, 150)",
            "conv_forward": "F.conv2d(x(4, 16, 20, 21), x(24, 16, 3, 3), padding=1)",
        },
    ),
]
# The largest number of launches of one kernel, in a profile of each operator.
COUNT = """
    from collections import Counter
    from torch.autograd import DeviceType
    from torch.profiler import ProfilerActivity, profile
    for kernel, text in CASES.items():
        with profile(activities=[ProfilerActivity.CPU, ProfilerActivity.PrivateUse1]) as prof:
            results("ocl", text)
        counts = Counter(e.name for e in prof.events() if e.device_type != DeviceType.CPU)
        assert counts[kernel] > 1, (kernel, counts)
    print("split")
"""
# A product, and a replay of it, have as many flushes as launches.
FLUSHES = """
    import ctypes, os, torch
    layer = ctypes.CDLL(os.environ["OPENCL_LAYERS"])
    layer.stern_calls.restype = ctypes.c_ulong
    x, y, out = (torch.rand(90, 64, 64, device="ocl") for _ in range(3))
    def product():
        torch.bmm(x, y, out=out)
    def compare(run):
        torch.ocl.synchronize()
        layer.stern_fail(b"")
        run()
        launches, flushes = (
            layer.stern_calls(entry) for entry in (b"clEnqueueNDRangeKernel", b"clFlush"))
        assert flushes >= launches > 8, (flushes, launches)
    product()
    compare(product)
    graph = torch.ocl.Graph()
    with torch.ocl.graph(graph):
        product()
    graph.replay()
    compare(graph.replay)
"""
GRAPH = """
    import torch
    x, out = torch.randn(900, 70, device="ocl"), torch.empty(900, device="ocl")
    graph = torch.ocl.Graph()
    torch.sum(x, 1, out=out)
    with torch.ocl.graph(graph):
        torch.sum(x, 1, out=out)
    x.copy_(torch.randn(900, 70))
    graph.replay()
    torch.testing.assert_close(out.cpu(), x.cpu().sum(1), rtol=1e-4, atol=1e-4)
    print("equal")
"""


@needs_refused_operators
@pytest.mark.sample
@pytest.mark.slow  # 160 s; test_no_grid_is_larger_than_the_limit runs the same operators
def test_operators_with_small_grids():
    skip_in_a_simulator()
    code = f"    CASES = {CASES!r}\n{RUN}"
    printed = output_of(code, OCL_GRID_LIMIT="3", OCL_KERNEL_FAMILY="gpu")
    assert int(printed) == len(CASES)


def test_long_columns_are_shared(tmp_path):
    """A work-item of a GPU waits for each element of its part."""
    trace = tmp_path / "trace.json"
    code = f"""
        import torch
        from torch.profiler import ProfilerActivity, profile
        x = torch.rand(2**19, 3).to("ocl")
        with profile(activities=[ProfilerActivity.CPU, ProfilerActivity.PrivateUse1]) as prof:
            results = x.sum(0).cpu(), x.argmax(0).cpu()
        prof.export_chrome_trace({str(trace)!r})
        torch.testing.assert_close(results[0], x.cpu().sum(0), rtol=1e-5, atol=0)
        assert results[1].equal(x.cpu().argmax(0))
    """
    output_of(code, OCL_KERNEL_FAMILY="gpu")
    kernels = [e for e in json.loads(trace.read_text())["traceEvents"] if e.get("cat") == "kernel"]
    parts = [kernel["args"]["grid"][1] for kernel in kernels[:4]]
    assert min(parts[0], parts[2]) >= 128 and parts[1::2] == [1, 1], kernels


def test_the_positions_of_many_elements_are_shared(tmp_path):
    """A work-group of a GPU reads at most 16384 elements, and one adds up the counts."""
    trace = tmp_path / "trace.json"
    code = f"""
        import torch
        from torch.profiler import ProfilerActivity, profile
        x = torch.zeros(2**26, dtype=torch.bool, device="ocl")
        x[5::40000] = True
        with profile(activities=[ProfilerActivity.CPU, ProfilerActivity.PrivateUse1]) as prof:
            places = x.nonzero().cpu()
        prof.export_chrome_trace({str(trace)!r})
        assert places.view(-1).equal(torch.arange(5, 2**26, 40000))
    """
    output_of(code, OCL_KERNEL_FAMILY="gpu")
    kernels = [e for e in json.loads(trace.read_text())["traceEvents"] if e.get("cat") == "kernel"]
    groups = [e["args"]["grid"][0] for e in kernels if "nonzero" in e["name"]]
    assert groups == [4096, 1, 4096], kernels


def test_rows_and_samples_share_work_groups(tmp_path):
    """A GPU leaves most of its lanes idle where groups have one work-item."""
    trace = tmp_path / "trace.json"
    code = f"""
        import torch
        from torch.profiler import ProfilerActivity, profile
        tensors = [torch.randn(333, 20).to("ocl"), torch.randn(77, 300).to("ocl")]
        with profile(activities=[ProfilerActivity.CPU, ProfilerActivity.PrivateUse1]) as prof:
            results = [x.sort(1) for x in tensors]
            scores, classes = tensors[0].requires_grad_(), torch.arange(333, device="ocl") % 20
            loss = torch.nn.functional.nll_loss(scores, classes, reduction="none")
            loss.sum().backward()
        prof.export_chrome_trace({str(trace)!r})
        for (values, places), x in zip(results, tensors):
            expected = x.detach().cpu().sort(dim=1, stable=True)  # equal numbers in their order
            assert values.cpu().equal(expected[0]) and places.cpu().equal(expected[1])
    """
    output_of(code, OCL_KERNEL_FAMILY="gpu")
    kernels = [e for e in json.loads(trace.read_text())["traceEvents"] if e.get("cat") == "kernel"]
    blocks = {e["name"]: e["args"]["block"] for e in kernels}
    groups = [e["args"]["grid"][0] for e in kernels if e["name"] == "sort_tile"]
    assert groups[0] < 333 / 4 and groups[1] <= 77 and blocks["sort_tile"][0] > 1, kernels
    assert blocks["nll_each"][0] > 1 and blocks["nll_backward"][0] > 1, blocks


@pytest.mark.parametrize("variables, cases", MUCH_WORK, ids=["tiles", "direct", "plain"])
def test_much_work_becomes_several_launches(variables, cases):
    """Systems reset a GPU whose launch takes seconds."""
    skip_in_a_simulator()
    code = textwrap.dedent(f"    CASES = {cases!r}\n{RUN}") + textwrap.dedent(COUNT)
    variables = {"OCL_LAUNCH_WORK": "1", **variables}
    printed = output_of(code, OCL_KERNEL_FAMILY="gpu", **variables)
    assert printed.split()[-1] == "split"


def test_launches_of_much_work_are_flushed(tmp_path):
    """Drivers pass the commands between two flushes to the device as one piece."""
    stern_output_of("nvidia_ampere", FLUSHES, OCL_LAUNCH_WORK="2")


def test_kernels_with_small_groups(tmp_path):
    """A third of the kernels need so many registers that their groups have less than 256 items."""
    cache = tmp_path / "cache"
    profile = changed_profile(tmp_path, "nvidia_ampere", register_words=8192, required_groups_fit=0)
    code = (
        textwrap.dedent(f"    CASES = {CASES!r}\n{RUN}")
        + textwrap.dedent(GRADIENTS)
        + "import torch_ocl; print(torch_ocl._C.program_cache_stats())"
    )
    variables = {"OCL_CACHE_DIR": cache}
    stern_output_of(profile, code, **variables)
    # Programs that turned out to need a smaller group are also kept.
    assert "{'built': 0" in stern_output_of(profile, code, **variables)


def test_no_grid_is_larger_than_the_limit(tmp_path):
    """A driver refuses the others. Also without 64-bit atomics, where sums by index are sorted."""
    limits = {f"grid_{axis}": 3 for axis in "xyz"}
    profile = changed_profile(tmp_path, "smallest", **limits)
    code = textwrap.dedent(f"    CASES = {CASES!r}\n{RUN}") + textwrap.dedent(GRADIENTS)
    stern_output_of(profile, code, OCL_GRID_LIMIT="3")


def test_groups_of_sixteen(tmp_path):
    """The smallest tiles of products and convolutions."""
    sizes = {"DEVICE_MAX_WORK_GROUP_SIZE": 16, "DEVICE_MAX_WORK_ITEM_SIZES": "16 16 16"}
    profile = changed_profile(tmp_path, "smallest", **sizes)
    code = textwrap.dedent(f"    CASES = {CASES!r}\n{RUN}") + textwrap.dedent(GRADIENTS)
    stern_output_of(profile, code)


@pytest.mark.parametrize("items", [8, 2])
def test_groups_of_few(tmp_path, items):
    sizes = {
        "DEVICE_MAX_WORK_GROUP_SIZE": items,
        "DEVICE_MAX_WORK_ITEM_SIZES": f"{items} {items} {items}",
    }
    profile = changed_profile(tmp_path, "smallest", **sizes)
    stern_output_of(
        profile,
        """
        import torch, torch.nn.functional as F
        def results(device):
            torch.manual_seed(0)
            leaves = [torch.randn(2, 3, n, 9).to(device).requires_grad_() for n in (13, 17, 17)]
            out = F.scaled_dot_product_attention(*leaves)
            found = [out, *torch.autograd.grad(out.sin().sum(), leaves)]
            image, weight = (
                torch.randn(n, 16, 9, 9).to(device).requires_grad_() for n in (2, 20))
            planes = F.conv2d(image, weight[..., :3, :3])
            found += [planes, *torch.autograd.grad(planes.sin().sum(), (image, weight))]
            found += [torch.randn(3, 33, 20).to(device) @ torch.randn(3, 20, 40).to(device)]
            return [t.detach().cpu() for t in found]
        for a, e in zip(results("ocl"), results("cpu")):
            torch.testing.assert_close(a, e, rtol=1e-4, atol=1e-4)
        """,
    )


@pytest.mark.parametrize("code", [GRADIENTS, GRAPH], ids=["gradients", "graph"])
def test_with_small_grids(code):
    printed = output_of(code, OCL_GRID_LIMIT="2", OCL_KERNEL_FAMILY="gpu")
    assert printed.strip() == "equal"


def test_sizes_of_32_bits(device, tmp_path):
    """size_t has the bits of the device's addresses, and min() takes two numbers of one type."""
    skip_in_a_simulator()
    folder = shutil.copytree(KERNELS, tmp_path / "kernels", ignore=shutil.ignore_patterns("*.cpp"))
    functions = ("global_id", "local_id", "group_id", "global_size", "local_size", "global_offset")
    lines = [f"#define get_{name}(d) ((uint)get_{name}(d))\n" for name in functions]
    common = folder / "core" / "cl" / "common.clh"
    common.write_text("".join(lines) + common.read_text())
    kernels = ("pool", "rows", "gather", "cumul", "FFT", "index", "embed", "dist", "mode", "margin")
    cases = {name: text for name, text in CASES.items() if any(part in name for part in kernels)}
    code = f"    CASES = {cases!r}\n{RUN}"
    assert int(output_of(code, OCL_KERNEL_DIR=str(folder), OCL_KERNEL_FAMILY="gpu")) == len(cases)


@pytest.mark.parametrize("value", ["x", "0", "-3"])
def test_wrong_limit(value):
    code = """
        import torch
        try:
            torch.ocl.init()
        except ValueError as error:
            print(error)
    """
    expected = f'OCL_GRID_LIMIT must be a number of work-groups, not "{value}"'
    assert expected in output_of(code, OCL_GRID_LIMIT=value, OCL_KERNEL_FAMILY="gpu")
