"""Estimates the time of recorded networks on devices, for docs/gpu_model.md.

usage: report.py FOLDER [--registers FILE] [--markdown FILE] [--picture FILE]

FOLDER is record.py's; networks that are not recorded there are left out. --registers is the --json
of gpu_check.py for FOLDER/programs; without it, occupancy is that of 64 registers. Without
--markdown, the tables are printed. devices/measured/GPU has the files that measure.py wrote on that
GPU, whose specification is GPU.toml.
"""

import argparse
import collections
import json
import pathlib

import validation
from formula import DEVICES, REGISTERS, estimate, load_devices
from networks import NETWORKS
from registers import Registers
from tables import markdown, percent, replace

MEASURED = DEVICES / "measured"
TERMS = ["memory", "cache", "requests", "arithmetic", "local", "latency"]
WORST = 10
LARGEST = 8  # kernels of a network that are compared with a measurement


class Row:
    """The launches of a kernel in a network."""

    def __init__(self, kernel):
        self.kernel = kernel
        self.estimates = collections.defaultdict(list)  # by device

    def add(self, device, found):
        self.estimates[device].append(found)

    def launches(self):
        return len(next(iter(self.estimates.values())))

    def kernel_time(self, device):
        return sum(e.kernel for e in self.estimates[device])

    def time(self, device):
        return sum(e.time for e in self.estimates[device])

    def ideal(self, device):
        return sum(min(e.ideal, e.kernel) for e in self.estimates[device])

    def lost(self, device):
        """Seconds beyond the roofline, without the time to launch."""
        return self.kernel_time(device) - self.ideal(device)

    def mean(self, device, name):
        """The mean of a share over the launches, weighted by their times."""
        parts = [(e.kernel, getattr(e, name)) for e in self.estimates[device]]
        return sum(t * share for t, share in parts) / sum(t for t, _ in parts)

    def bound(self, device):
        times = collections.Counter()
        for e in self.estimates[device]:
            times[e.bound] += e.kernel
        return times.most_common(1)[0][0]


def rows_of(launches, devices, registers):
    """Rows by kernel, the slowest first."""
    rows = {}
    for launch in launches:
        row = rows.setdefault(launch["kernel"], Row(launch["kernel"]))
        for key, device in devices.items():
            row.add(key, estimate(device, launch, registers.of(device, launch)))
    first = next(iter(devices))
    return sorted(rows.values(), key=lambda row: -row.time(first))


def network_table(networks, devices):
    yield ["network", "launches", *(device.name for device in devices.values())]
    for title, rows in networks.values():
        cells = []
        for key, device in devices.items():
            total = sum(row.time(key) for row in rows)
            start = device.launch_us * 1e-6 * sum(row.launches() for row in rows)
            ideal = sum(row.ideal(key) for row in rows)
            cells.append(
                f"{1e3 * total:.2f} ms / {percent(start / total)} / "
                f"{percent(ideal / (total - start))}"
            )
        yield [title, str(sum(row.launches() for row in rows)), *cells]


def basis(networks, registers):
    """How the figures are computed."""
    absent = [function.__doc__ for name, function in NETWORKS.items() if name not in networks]
    known = sorted({target for target, _, _ in registers.kernels})
    text = f"Registers are known for {', '.join(known)}." if known else ""
    text = text or f"Registers are assumed: {REGISTERS} for each work-item."
    return text + "".join(f" Not recorded: {title}." for title in absent)


def kernel_table(rows, devices):
    names = [device.name for device in devices.values()]
    yield ["kernel", "launches", "memory", "lanes", "banks", "occupancy", *names]
    for row in rows:
        shares = []
        for name in ("memory", "lanes", "banks", "occupancy"):
            values = [row.mean(key, name) for key in devices]
            low, high = percent(min(values)), percent(max(values))
            shares.append(low if low == high else f"{low.removesuffix(' %')} - {high}")
        cells = [
            f"{1e6 * row.kernel_time(key):.0f} us / {row.bound(key)} / "
            f"{percent(row.ideal(key) / row.kernel_time(key))}"
            for key in devices
        ]
        yield [f"`{row.kernel}`", str(row.launches()), *shares, *cells]


def worst_table(networks, devices):
    """Kernels by the share of their network's time that they lose, the mean of all devices."""
    found = []
    for name, (_, rows) in networks.items():
        totals = {key: sum(row.time(key) for row in rows) for key in devices}
        for row in rows:
            lost = sum(row.lost(key) / totals[key] for key in devices) / len(devices)
            bounds = collections.Counter(row.bound(key) for key in devices)
            found.append((lost, name, row, ", ".join(bounds)))
    found.sort(key=lambda item: -item[0])
    yield ["network", "kernel", "launches", "lost of the network's time", "bound by"]
    for lost, name, row, bounds in found[:WORST]:
        yield [name, f"`{row.kernel}`", str(row.launches()), percent(lost), bounds]


def device_table(devices):
    yield ["device", "units", "lanes", "clock", "TFLOP/s", "GB/s", "cache", "latency", "launch"]
    for device in devices.values():
        yield [
            device.name,
            str(device.units),
            f"{device.lanes}, in {device.width}s",
            f"{device.clock_mhz} MHz",
            f"{device.flops / 1e12:.1f}",
            f"{device.bandwidth_gb:g}",
            f"{device.l2_kb / 1024:g} MB",
            f"{device.latency_ns} ns",
            f"{device.launch_us} us",
        ]


def validation_table(plugin):
    yield ["kernel", "device", "measured GB/s", "model", "model / measured", "bound by"]
    for row in validation.compare(plugin):
        yield [
            f"`{row['kernel']}`",
            f"[{row['device']}]({row['source']})",
            f"{row['published']:.0f}",
            f"{row['estimated']:.0f}",
            f"{row['estimated'] / row['published']:.2f}",
            row["bound"],
        ]


def read_measured(device, network, of="ocl"):
    """The file that measure.py wrote, or None."""
    file = MEASURED / device / f"{network}.{of}.json"
    return json.loads(file.read_text()) if file.exists() else None


def measured_networks(recorded, registers):
    yield ["GPU", "network", "ocl", "CUDA", "ratio", "in kernels", "model", "model / measured"]
    for key, device in load_devices(MEASURED).items():
        for network, launches in recorded.items():
            own, cuda = (read_measured(key, network, of) for of in ("ocl", "cuda"))
            if not own:
                continue
            inside = sum(seconds for _, seconds in own["kernels"].values())
            model = sum(estimate(device, x, registers.of(device, x)).time for x in launches)
            yield [
                device.name,
                network,
                f"{1e3 * own['seconds']:.2f} ms",
                f"{1e3 * cuda['seconds']:.2f} ms",
                f"{own['seconds'] / cuda['seconds']:.2f}",
                f"{1e3 * inside:.2f} ms",
                f"{1e3 * model:.2f} ms",
                f"{model / inside:.2f}",
            ]


def measured_kernels(recorded, registers):
    yield ["network", "kernel", "launches", "measured", "model", "model / measured", "bound by"]
    for key, device in load_devices(MEASURED).items():
        for network, launches in recorded.items():
            own = read_measured(key, network)
            if not own:
                continue
            rows = {row.kernel: row for row in rows_of(launches, {key: device}, registers)}
            largest = sorted(own["kernels"].items(), key=lambda item: -item[1][1])[:LARGEST]
            for kernel, (count, seconds) in largest:
                row = rows.get(kernel)
                # A choice of kernels that depends on the number of units differs from the record.
                same = row is not None and row.launches() == round(count)
                yield [
                    network,
                    f"`{kernel}`",
                    f"{count:.0f}",
                    f"{1e6 * seconds:.0f} us",
                    f"{1e6 * row.time(key):.0f} us" if same else "",
                    f"{row.time(key) / seconds:.2f}" if same else "",
                    row.bound(key) if same else "not recorded with these launches",
                ]


def draw(networks, devices, path):
    """For each network and device, the shares of time by what limits the kernels."""
    from matplotlib import pyplot

    names = [*TERMS, "launch"]
    size = (max(8, 3.2 * len(networks)), 3.6)
    figure, axes = pyplot.subplots(1, len(networks), figsize=size, sharey=True, squeeze=False)
    axes = axes[0]
    for axis, (name, (_, rows)) in zip(axes, networks.items()):
        below = [0.0] * len(devices)
        for term in names:
            heights = []
            for key in devices:
                found = [e for row in rows for e in row.estimates[key]]
                total = sum(e.time for e in found)
                part = sum(
                    e.launch if term == "launch" else e.kernel * (e.bound == term) for e in found
                )
                heights.append(part / total)
            labels = [device.name.replace(" ", "\n", 1) for device in devices.values()]
            axis.bar(labels, heights, bottom=below, label=term)
            below = [b + h for b, h in zip(below, heights)]
        axis.set_title(name)
        axis.tick_params(axis="x", labelsize=6)
    axes[0].set_ylabel("share of the estimated time")
    figure.legend(
        *axes[0].get_legend_handles_labels(), loc="lower center", ncols=len(names), fontsize=8
    )
    figure.tight_layout(rect=(0, 0.08, 1, 1))
    figure.savefig(path, dpi=110)


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("folder", type=pathlib.Path)
    parser.add_argument("--registers", type=pathlib.Path)
    parser.add_argument("--markdown", type=pathlib.Path)
    parser.add_argument("--picture", type=pathlib.Path)
    arguments = parser.parse_args()

    devices = load_devices()
    registers = Registers(arguments.folder / "programs", arguments.registers)
    networks, recorded = {}, {}
    for name in NETWORKS:
        if not (arguments.folder / f"{name}.json").exists():
            continue
        found = json.loads((arguments.folder / f"{name}.json").read_text())
        recorded[name] = found["launches"]
        networks[name] = (found["title"], rows_of(found["launches"], devices, registers))

    parts = {
        "devices": markdown(device_table(devices)),
        "networks": f"{markdown(network_table(networks, devices))}\n\n{basis(networks, registers)}",
        "worst": markdown(worst_table(networks, devices)),
        "validation": markdown(validation_table(arguments.folder / "plugin/libgpu_model.so")),
        "measured": "\n\n".join(
            markdown(table(recorded, registers)) for table in (measured_networks, measured_kernels)
        ),
        "kernels": "\n\n".join(
            f"### {title}\n\n{markdown(kernel_table(rows, devices))}"
            for title, rows in networks.values()
        ),
    }
    if arguments.markdown:
        text = arguments.markdown.read_text()
        for name, part in parts.items():
            text = replace(text, name, part)
        arguments.markdown.write_text(text)
    else:
        print("\n\n".join(parts.values()))
    if arguments.picture:
        draw(networks, devices, arguments.picture)


if __name__ == "__main__":
    main()
