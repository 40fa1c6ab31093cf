"""Published measurements of well-known kernels, and the model's estimate of the same."""

import dataclasses

from formula import DEVICES, estimate, load_devices
from micro import buffer, local_memory, run_kernel

SIDE = 4096  # side of the matrices
NUMBERS = 1 << 25  # numbers that the reductions add


@dataclasses.dataclass(frozen=True)
class Measurement:
    kernel: str
    device: str
    gigabytes: float  # published bytes per second of the device


TRANSPOSES = "https://fridayswithfaraday.com/posts/cuda-kernel-eng-matrix-transpose-optimization"
REDUCTIONS = "https://masterskepticista.github.io/posts/2025/02/reducesum"
PUBLISHED = {
    TRANSPOSES: [
        Measurement("copy_matrix", "nvidia_a100", 1870),
        Measurement("transpose_naive", "nvidia_a100", 150),
        Measurement("transpose_tile", "nvidia_a100", 900),
        Measurement("transpose_padded", "nvidia_a100", 1600),
    ],
    REDUCTIONS: [
        Measurement("reduce_divergent", "nvidia_rtx3090", 223),
        Measurement("reduce_strided", "nvidia_rtx3090", 317),
        Measurement("reduce_sequential", "nvidia_rtx3090", 331),
        Measurement("reduce_pairs", "nvidia_rtx3090", 618),
    ],
}


def launch(plugin, kernel):
    """-> (its record, bytes that it has to move)"""
    if kernel.startswith("reduce"):
        items = NUMBERS // (2 if kernel == "reduce_pairs" else 1)
        arguments = [buffer(NUMBERS, 0.0), buffer(items // 256, 0.0), local_memory(1024)]
        return run_kernel(plugin, kernel, (items,), (256,), arguments), 4 * NUMBERS
    arguments = [buffer(SIDE * SIDE, 0.0)] * 2
    record = run_kernel(plugin, kernel, (SIDE, SIDE // 4), (32, 8), arguments)
    return record, 8 * SIDE * SIDE


def compare(plugin):
    """Rows of: kernel, device, published GB/s, estimated GB/s, the model's bottleneck."""
    devices = load_devices(DEVICES / "validation")
    for source, measurements in PUBLISHED.items():
        for measured in measurements:
            record, moved = launch(plugin, measured.kernel)
            device = devices[measured.device]
            found = estimate(device, record)
            yield {
                "kernel": measured.kernel,
                "device": device.name,
                "published": measured.gigabytes,
                "estimated": moved / found.kernel / 1e9,
                "bound": found.bound,
                "source": source,
            }
