"""tools/gpu_model: the recorder's counts of small kernels are those computed by hand."""

import json
import subprocess
import sys

import pytest
from support import ROOT

sys.path.append(str(ROOT / "tools/gpu_model"))
import micro
import record as recorder
from micro import buffer, local_memory, number

pytestmark = pytest.mark.skipif(micro.missing() is not None, reason=str(micro.missing()))


@pytest.fixture(scope="session")
def plugin(tmp_path_factory):
    return micro.build(tmp_path_factory.mktemp("gpu_model"))


@pytest.fixture
def record(plugin):
    """Records a launch of a kernel of micro.cl, all groups unless told otherwise."""

    def run(kernel, global_size, local_size, arguments, **sampling):
        sampling.setdefault("groups", 0)
        return micro.run_kernel(plugin, kernel, global_size, local_size, arguments, **sampling)

    return run


def traffic(launch, kind, width=32):
    names = ("requests", "needed", "sectors", "half_lines", "lines")
    return dict(zip(names, launch["widths"][str(width)][kind], strict=True))


def local(launch, width=32):
    names = ("requests", "passes", "cycles")
    return dict(zip(names, launch["widths"][str(width)]["local"], strict=True))


@pytest.mark.parametrize("width, waves", [(16, 256), (32, 128), (64, 64)])
def test_copy(record, width, waves):
    """Each wavefront moves 4 bytes for each lane, in whole lines."""
    launch = record("copy", (4096,), (64,), [buffer(4096), buffer(4096)])
    assert launch["groups"] == launch["recorded"] == 64
    assert launch["items"] == 4096
    assert launch["widths"][str(width)]["waves"] == waves
    moved = 4 * 4096
    assert (
        traffic(launch, "load", width)
        == traffic(launch, "store", width)
        == {
            "requests": waves,
            "needed": moved,
            "sectors": moved // 32,
            "half_lines": moved // 64,
            "lines": max(moved // 128, waves),
        }
    )
    assert launch["regions"] == [[moved, moved, 0], [moved, 0, moved]]


def test_wide_copy(record):
    launch = record("copy_wide", (1024,), (64,), [buffer(4096), buffer(4096)])
    assert traffic(launch, "load") == {
        "requests": 32,
        "needed": 4 * 4096,
        "sectors": 512,
        "half_lines": 256,
        "lines": 128,
    }
    assert launch["widths"]["32"]["issued"]["global"] == 64


def test_vectors_are_loaded_whole(record):
    """A wavefront loads 512 bytes at once: four passes of local memory, without conflicts."""
    arguments = [buffer(1024), buffer(256), local_memory(1024)]
    launch = record("copy_elements", (256,), (64,), arguments)
    assert traffic(launch, "load")["requests"] == 8
    assert local(launch) == {"requests": 8 * 2, "passes": 8 * 2 * 4, "cycles": 8 * 2 * 4}


def test_shifted_copy_takes_a_sector_more_for_each_request(record):
    launch = record("copy_shifted", (4096,), (64,), [buffer(4097), buffer(4096)])
    loads = traffic(launch, "load")
    assert (loads["needed"], loads["sectors"], loads["lines"]) == (4 * 4096, 128 * 5, 128 * 2)
    assert traffic(launch, "store")["sectors"] == 128 * 4


@pytest.mark.parametrize("stride", [2, 3, 8, 32, 64])
def test_strided_copy(record, stride):
    """32 lanes are stride * 128 bytes apart in all, and need 4 bytes of every stride * 4."""
    launch = record(
        "copy_strided", (256,), (64,), [buffer(256 * stride), buffer(256), number(stride)]
    )
    loads = traffic(launch, "load")
    assert loads["needed"] == 4 * 256
    assert loads["sectors"] == 8 * min(32, 4 * stride)
    assert loads["lines"] == 8 * min(32, stride)


def test_broadcast_needs_one_number(record):
    launch = record("broadcast", (256,), (64,), [buffer(4), buffer(256)])
    assert traffic(launch, "load") == {
        "requests": 8,
        "needed": 8 * 4,
        "sectors": 8,
        "half_lines": 8,
        "lines": 8,
    }
    # The groups' numbers are in one sector, which each group loads.
    assert launch["regions"][0] == [16, 4 * 32, 0]


# 128 x 128 numbers: 512 requests to load, and as many to store.
MATRIX = ((128, 32), (32, 8), [buffer(128 * 128), buffer(128 * 128)])


def test_naive_transpose_stores_a_line_for_each_lane(record):
    launch = record("transpose_naive", *MATRIX)
    assert traffic(launch, "load")["sectors"] == 512 * 4
    assert traffic(launch, "store") == {
        "requests": 512,
        "needed": 4 * 128 * 128,
        "sectors": 512 * 32,
        "half_lines": 512 * 32,
        "lines": 512 * 32,
    }
    # The 8 rows of a group's columns lie in one sector, so the group touches no more than it needs.
    assert launch["regions"][1] == [4 * 128 * 128, 0, 4 * 128 * 128]


@pytest.mark.parametrize("kernel, cycles", [("transpose_tile", 32), ("transpose_padded", 1)])
def test_transpose_by_tiles(record, kernel, cycles):
    """The column of a tile is in one bank, unless rows have an element more."""
    launch = record(kernel, *MATRIX)
    assert traffic(launch, "load")["sectors"] == traffic(launch, "store")["sectors"] == 512 * 4
    assert local(launch) == {"requests": 1024, "passes": 1024, "cycles": 512 + 512 * cycles}
    assert launch["barriers"] == 16


def test_local_memory_serves_64_lanes_in_two_passes(record):
    launch = record("transpose_tile", *MATRIX)
    assert local(launch, 64) == {"requests": 512, "passes": 1024, "cycles": 512 + 512 * 32}


# Local memory for a group of 256: a store, eight rounds of two loads and a store, a load. In
# wavefronts of 32:
#            lanes that add      wavefronts       cycles of each request
#   round    1 2 3 4 5 6 7 8     1 2 3 4 5 6 7 8  1 2 3 4 5 6 7 8
REDUCTIONS = {
    "reduce_divergent": ([8, 8, 8, 8, 8, 4, 2, 1], [1, 1, 1, 1, 1, 1, 1, 1]),
    "reduce_strided": ([4, 2, 1, 1, 1, 1, 1, 1], [2, 4, 8, 8, 8, 4, 2, 1]),
    "reduce_sequential": ([4, 2, 1, 1, 1, 1, 1, 1], [1, 1, 1, 1, 1, 1, 1, 1]),
}


@pytest.mark.parametrize("kernel", REDUCTIONS)
def test_reduction(record, kernel):
    wavefronts, cycles = REDUCTIONS[kernel]
    launch = record(kernel, (1024,), (256,), [buffer(1024), buffer(4), local_memory(1024)])
    requests = 8 + 3 * sum(wavefronts) + 1
    slow = 8 + 3 * sum(n * c for n, c in zip(wavefronts, cycles)) + 1
    assert local(launch) == {"requests": 4 * requests, "passes": 4 * requests, "cycles": 4 * slow}
    counts = launch["widths"]["32"]
    assert counts["issued"]["float"] == 4 * sum(wavefronts)
    assert counts["lanes"]["float"] == counts["flops"] == 4 * 255
    assert launch["barriers"] == 4 * 9
    assert launch["local_bytes"] == 1024
    assert traffic(launch, "store") == {
        "requests": 4,
        "needed": 16,
        "sectors": 4,
        "half_lines": 4,
        "lines": 4,
    }


def test_first_addition_while_loading_halves_the_groups(record):
    launch = record("reduce_pairs", (512,), (256,), [buffer(1024), buffer(2), local_memory(1024)])
    assert traffic(launch, "load")["requests"] == 32
    assert launch["widths"]["32"]["flops"] == 2 * (256 + 255)


def test_product(record):
    """64 x 64 by tiles of 16: four steps of two loads, 32 reads and 16 multiply-adds of a lane."""
    launch = record("product", (64, 64), (16, 16), [buffer(64 * 64)] * 3)
    counts, waves = launch["widths"]["32"], 64 * 64 // 32
    assert counts["waves"] == waves
    assert counts["flops"] == 2 * 64**3
    assert counts["issued"]["float"] == waves * 4 * 16
    # A wavefront is two rows of a tile: two times 64 bytes.
    assert traffic(launch, "load") == {
        "requests": waves * 8,
        "needed": waves * 8 * 128,
        "sectors": waves * 8 * 4,
        "half_lines": waves * 8 * 2,
        "lines": waves * 8 * 2,
    }
    assert local(launch)["requests"] == local(launch)["cycles"] == waves * 4 * (2 + 2 * 16)
    assert launch["barriers"] == 16 * 8
    # Each group loads its 16 rows and its 16 columns: 4 times the matrices.
    assert [row[1] for row in launch["regions"]] == [4 * 4 * 64 * 64] * 2 + [0]


def test_lanes_that_left_a_loop_wait(record):
    """Lane i loads i + 1 times, all lanes the same number."""
    launch = record("uneven_loops", (64,), (64,), [buffer(64 * 64), buffer(64)])
    for width, loads in (32, 32 + 64), (64, 64), (16, 16 + 32 + 48 + 64):
        counts = launch["widths"][str(width)]
        assert traffic(launch, "load", width)["requests"] == loads
        assert counts["issued"]["float"] == loads
        assert counts["lanes"]["float"] == 64 * 65 // 2
        assert counts["waits"] == loads
        assert traffic(launch, "store", width)["requests"] == 64 // width


def test_lanes_of_a_branch_run_one_after_another_and_meet_again(record):
    launch = record("two_ways", (64,), (64,), [buffer(64)] * 3)
    counts = launch["widths"]["32"]
    assert (counts["issued"]["native"], counts["lanes"]["native"]) == (2 * 4, 2 * 4 * 16)
    # 16 lanes load every second number.
    assert traffic(launch, "load") == {
        "requests": 4,
        "needed": 4 * 64,
        "sectors": 4 * 4,
        "half_lines": 4 * 2,
        "lines": 4,
    }
    assert traffic(launch, "store")["requests"] == 2
    assert counts["diverged"] == 2 * 2


def test_lanes_meet_after_each_inner_loop(record):
    launch = record("nested_loops", (64,), (64,), [buffer(4 * 64), buffer(64)])
    counts = launch["widths"]["32"]
    # In each run of the outer loop: all lanes load, the odd ones once more, all compute together.
    assert traffic(launch, "load")["requests"] == 2 * 2 * 2
    assert traffic(launch, "load")["needed"] == 2 * 2 * (128 + 64)
    assert counts["issued"]["native"] == 2 * 2
    assert counts["lanes"]["native"] == 64 * 2


def test_functions_are_told_apart_by_their_callers(record):
    launch = record("calls", (64,), (64,), [buffer(128, 1.0), buffer(64)])
    loads = traffic(launch, "load")
    assert loads["requests"] == 2 * 2
    assert loads["needed"] == 2 * (8 + 24) * 4
    assert traffic(launch, "store")["requests"] == 2


def test_atomics(record):
    """All lanes count in one bin, one after another; then a wavefront adds to global memory."""
    launch = record("count", (256,), (64,), [buffer(256, 3), buffer(32, 0)])
    assert local(launch) == {"requests": 4 * 4, "passes": 4 * 4, "cycles": 4 * (1 + 2 * 32 + 1)}
    assert traffic(launch, "atomic") == {
        "requests": 4,
        "needed": 4 * 128,
        "sectors": 4 * 4,
        "half_lines": 4 * 2,
        "lines": 4,
    }


def test_what_is_not_understood_is_an_error(record):
    with pytest.raises(RuntimeError, match="does not understand copy_asynchronous"):
        record("copy_asynchronous", (64,), (64,), [buffer(64), buffer(64), local_memory(256)])


def test_lanes_beyond_the_group_count_as_idle(record):
    """Groups of 48 are a wavefront and a half."""
    launch = record("copy", (96,), (48,), [buffer(96), buffer(96)])
    counts = launch["widths"]["32"]
    assert counts["waves"] == 4
    assert counts["issued"]["global"] == 8
    assert counts["lanes"]["global"] == 2 * 96


@pytest.mark.parametrize("groups, recorded", [(1, 2), (2, 2), (3, 3), (6, 6), (64, 64), (100, 64)])
def test_counts_of_groups_that_do_not_run_are_extrapolated(record, groups, recorded):
    arguments = ("copy", (4096,), (64,), [buffer(4096), buffer(4096)])
    sampled, whole = record(*arguments, groups=groups), record(*arguments)
    assert sampled["recorded"] == recorded
    assert sampled["widths"] == whole["widths"]
    assert sampled["regions"] == whole["regions"]


def test_long_launches_end_after_the_budget(record):
    launch = record(
        "product", (128, 128), (16, 16), [buffer(128 * 128)] * 3, groups=100, budget=0.01
    )
    assert (launch["groups"], launch["recorded"]) == (64, 2)
    assert launch["widths"]["32"]["flops"] == 2 * 128**3


ADDITIONS = """
import torch
x = torch.arange(1 << 17, device="ocl", dtype=torch.int32)
y = [x + 1 for _ in range(3)][-1]
print((y.cpu() == torch.arange(1, (1 << 17) + 1)).all().item())
"""


@pytest.mark.parametrize("whole, right", [(None, "False"), (".", "True")])
def test_launches_of_a_program(plugin, tmp_path, whole, right):
    """A repeated launch is recorded once. Results are right only where all groups run."""
    log = tmp_path / "log.jsonl"
    variables = recorder.environment(plugin, log, whole=whole)
    command = [sys.executable, "-c", ADDITIONS]
    done = subprocess.run(command, env=variables, capture_output=True, text=True)
    assert done.stdout.split() == [right], done.stderr
    lines = [json.loads(line) for line in log.read_text().splitlines()]
    first, *others = [line for line in lines if line["kernel"].startswith("add")]
    assert first["recorded"] == 6 < first["groups"]
    assert [other["same_as"] for other in others] == [first["launch"]] * 2
    launches = [row for row in micro.read_log(log) if row["kernel"].startswith("add")]
    assert all(row["widths"] == first["widths"] for row in launches)
    moved = 4 << 17
    assert traffic(first, "load")["needed"] == traffic(first, "store")["needed"] == moved
