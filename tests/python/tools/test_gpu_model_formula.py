"""tools/gpu_model: the time formula on a device of round numbers, the device files, the page."""

import json
import sys
import zlib

import pytest
from support import ROOT

sys.path.append(str(ROOT / "tools/gpu_model"))
import formula
from formula import Device, estimate, resident_groups
from goal_cases import CASES, GOALS, Case
from goals import Figures, small_launches
from registers import Registers

MEGABYTE = 1 << 20
# 10 units of 32 lanes at 1 GHz.
DEVICE = Device(
    name="round",
    target="round",
    width=32,
    units=10,
    lanes=32,
    clock_mhz=1000,
    bandwidth_gb=100,
    l2_kb=2048,
    line=128,
    local_kb=64,
    local_bytes_per_clock=128,
    waves=32,
    groups=16,
    registers=1024,
    latency_ns=500,
    launch_us=5,
    fill=2,
    sources="none",
)


def launch(groups=1000, items=64, local_bytes=0, regions=(), barriers=0, **counts):
    """A record without any work but what is told."""
    width = {"waves": groups * items // 32, "issued": {}, "lanes": {}, "flops": 0, "waits": 0}
    width |= {kind: [0] * 5 for kind in ("load", "store", "atomic")} | {"local": [0] * 3}
    return {
        "local": [items, 1, 1],
        "groups": groups,
        "local_bytes": local_bytes,
        "barriers": barriers,
        "regions": list(regions),
        "widths": {"32": width | counts},
    }


def test_memory_that_fits_into_half_of_the_cache_is_loaded_once():
    small, large = [MEGABYTE, 50 * MEGABYTE, 0], [2 * MEGABYTE, 50 * MEGABYTE, 0]
    bandwidth = 100e9 * formula.SUSTAINED
    found = estimate(DEVICE, launch(regions=[small])).terms["memory"]
    assert found == pytest.approx(MEGABYTE / bandwidth)
    found = estimate(DEVICE, launch(regions=[large])).terms["memory"]
    assert found == pytest.approx(50 * MEGABYTE / bandwidth)


def test_a_copy_takes_its_bytes():
    """A copy of 64 MB: 2^19 requests of one line each way."""
    size = 64 * MEGABYTE
    traffic = [size // 128, size, size // 32, size // 64, size // 128]
    copy = launch(
        groups=size // 4 // 64,
        regions=[[size, size, 0], [size, 0, size]],
        load=traffic,
        store=traffic,
    )
    found = estimate(DEVICE, copy)
    assert found.bound == "memory"
    assert found.kernel == pytest.approx(2 * size / 90e9)
    assert found.time == pytest.approx(found.kernel + 5e-6)
    assert found.roofline == pytest.approx(0.9)
    assert found.memory == 1


def test_stores_take_a_line_for_each():
    """32 lines of a request cost 4 cycles each."""
    requests, groups = 2000, 1000
    lines = 32 * requests
    scattered = launch(groups=groups, store=[requests, 128 * requests, lines, lines, lines])
    found = estimate(DEVICE, scattered)
    assert found.terms["cache"] == pytest.approx(lines * 4 / 10 * 1e-9)
    assert found.terms["requests"] == pytest.approx(lines / 10 * 1e-9)
    assert found.memory == pytest.approx(1 / 32)


def test_instructions_have_costs_and_idle_lanes_are_paid():
    issued = {"float": 1000, "long": 500, "math": 10}
    lanes = {"float": 16000, "long": 8000, "math": 160}
    found = estimate(DEVICE, launch(groups=10, items=64, issued=issued, lanes=lanes))
    cycles = 1000 + 500 * formula.COSTS["long"] + 10 * formula.COSTS["math"]
    assert found.terms["arithmetic"] == pytest.approx(cycles / 10 * 1e-9)
    assert found.lanes == 0.5


def test_the_busiest_unit_counts():
    """11 groups on 10 units take as long as 20."""
    times = [
        estimate(DEVICE, launch(groups=n, issued={"float": 1000 * n}, lanes={"float": 1})).kernel
        for n in (10, 11, 20)
    ]
    assert times[1] == pytest.approx(times[2]) == pytest.approx(2 * times[0])


def test_few_wavefronts_do_not_fill_a_unit():
    """Two are enough; one takes twice as long."""
    one, two = (
        estimate(DEVICE, launch(groups=10, items=n, issued={"float": 1000}, lanes={"float": 1}))
        for n in (32, 64)
    )
    assert one.terms["arithmetic"] == pytest.approx(2 * two.terms["arithmetic"])


def test_conflicts_of_local_memory():
    found = estimate(DEVICE, launch(local=[100, 100, 3200]))
    assert found.terms["local"] == pytest.approx(320e-9)
    assert found.banks == pytest.approx(1 / 32)


def test_waits_of_wavefronts_that_are_resident_overlap():
    """1000 groups of 2 wavefronts, 16 of them on each of 10 units: 7 rounds of 3 waits."""
    found = estimate(DEVICE, launch(waits=6000, barriers=2000), registers=8)
    once = 3 * 500e-9 + 2 * formula.BARRIER_NS * 1e-9
    assert found.terms["latency"] == pytest.approx(7 * once)


@pytest.mark.parametrize(
    "items, local_bytes, registers, groups",
    [
        (64, 0, 8, 16),  # the most groups
        (256, 0, 8, 4),  # the most wavefronts
        (64, 20000, 8, 3),  # local memory
        (64, 0, 128, 4),  # registers
        (1024, 65536, 255, 1),  # at least one
    ],
)
def test_occupancy(items, local_bytes, registers, groups):
    record = launch(items=items, local_bytes=local_bytes)
    assert resident_groups(DEVICE, record, registers) == groups
    assert estimate(DEVICE, record, registers).occupancy == groups * items / 32 / 32


def test_registers_are_found_by_the_source(tmp_path):
    (tmp_path / "gemm_1.cl").write_text("kernel void gemm() {}")
    found = {"round": {"gemm_1.cl": [{"name": "gemm", "registers": 40}]}}
    (tmp_path / "registers.json").write_text(json.dumps(found))
    registers = Registers(tmp_path, tmp_path / "registers.json")
    record = {"kernel": "gemm", "program": zlib.crc32(b"kernel void gemm() {}")}
    assert registers.of(DEVICE, record) == 40
    assert registers.of(DEVICE, {**record, "kernel": "other"}) is None
    assert Registers().of(DEVICE, record) is None


def test_device_files_are_complete_and_name_sources():
    devices = formula.load_devices()
    assert len(devices) == 5
    for device in [
        *devices.values(),
        *formula.load_devices(formula.DEVICES / "validation").values(),
    ]:
        assert device.width in (16, 32, 64)
        assert device.line in formula.LINES
        assert len(device.sources.strip()) > 20


@pytest.mark.parametrize(
    "name, teraflops",
    [("amd_rx580", 6.17), ("nvidia_rtx3060", 12.74), ("intel_a750", 17.2), ("intel_uhd630", 0.44)],
)
def test_peaks_are_the_published_ones(name, teraflops):
    assert formula.load_devices()[name].flops / 1e12 == pytest.approx(teraflops, rel=0.01)


def test_the_document_has_the_marks_that_the_command_writes_between():
    text = (ROOT / "docs/gpu_model.md").read_text()
    for name in ("devices", "networks", "worst", "goals", "validation", "kernels"):
        assert text.count(f"<!-- {name} -->") == text.count(f"<!-- end of {name} -->") == 1


def copy_of(megabytes, **kwargs):
    """The record of a copy whose time is that of main memory, unless `kwargs` add more."""
    regions = [[megabytes * MEGABYTE, megabytes * MEGABYTE, 0]] * 2
    return launch(regions=regions, **kwargs) | {
        "kernel": "copy",
        "program": 0,
        "items": 64000,
    }


def test_a_goal_is_missed_by_what_is_too_much():
    case = Case("stream", "copy", 64 * MEGABYTE, None)
    instructions = {"issued": {"int": 1000}, "lanes": {"int": 32000}}
    good = Figures(case, DEVICE, [copy_of(32, **instructions)], Registers())
    assert good.share == pytest.approx(formula.SUSTAINED)
    assert list(good.misses()) == []

    idle = {"issued": {"int": 1000}, "lanes": {"int": 16000}}
    assert list(Figures(case, DEVICE, [copy_of(32, **idle)], Registers()).misses()) == [
        "lanes 50 %"
    ]

    twice = Figures(case, DEVICE, [copy_of(32, **instructions)] * 2, Registers())
    assert twice.share == pytest.approx(formula.SUSTAINED / 2)
    assert list(twice.misses()) == ["bandwidth (memory)", "bytes x 2.0"]


def test_launches_too_small_for_a_gpu_are_listed():
    few_groups, small_groups = copy_of(2, groups=63), copy_of(2, items=16)
    little = copy_of(2, groups=1) | {"regions": [[1000, 1000, 0]]}
    recorded = {"one": [copy_of(2), few_groups, small_groups, few_groups, little]}
    _, *rows = small_launches(recorded)
    assert [row[2:5] for row in rows] == [["63", "64000", "64"], ["1000", "64000", "16"]]


def test_cases_have_goals_and_titles_of_their_own():
    assert {case.goal for case in CASES} == set(GOALS)
    assert len({case.title for case in CASES}) == len(CASES)
    assert all(case.needed > 0 for case in CASES)
