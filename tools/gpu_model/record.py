"""Records the launches of networks and of small kernels in Oclgrind.

usage: record.py FOLDER [NETWORK ...]

Builds the recorder in FOLDER/plugin, and writes FOLDER/NETWORK.json and FOLDER/programs, which has
the sources of the networks' kernels for gpu_check.py. All networks take some minutes.
"""

import argparse
import json
import pathlib
import subprocess
import sys

import micro
from networks import NETWORKS

ROOT = pathlib.Path(__file__).resolve().parents[2]
# The properties by which kernels and tiles are chosen. All five devices have 64 KiB of local memory
# and groups of 256 or more; their numbers of units differ.
DEVICE = {
    "OCLGRIND_COMPUTE_UNITS": "32",
    "OCLGRIND_LOCAL_MEM_SIZE": "65536",
    "OCLGRIND_MAX_WGSIZE": "256",
    "OCLGRIND_GLOBAL_MEM_SIZE": "4000000000",
}


def environment(plugin, log, **sampling):
    """Variables for a Python process whose launches are recorded in the file `log`."""
    subprocess.run([sys.executable, ROOT / "tools/with_runtime.py", "--write"], check=True)
    inherited = micro.environment(plugin, log, **sampling)
    inherited.pop("OCL_ICD_FILENAMES", None)  # Khronos's loader would add these drivers
    return {
        **inherited,
        **DEVICE,
        "OCL_ICD_VENDORS": str(ROOT / ".runtimes/oclgrind"),
        "OCL_KERNEL_FAMILY": "gpu",
        "OCL_CACHE_DIR": "off",  # the recorder needs sources, but a cache has binaries
    }


def record(plugin, network, folder):
    """{title, launches}"""
    log = folder / f"{network}.log"
    log.unlink(missing_ok=True)
    variables = environment(plugin, log)
    variables |= {"OCL_FALLBACK": "error", "OCL_DUMP_DIR": str(folder / "programs")}
    command = [sys.executable, pathlib.Path(__file__).parent / "networks.py", network]
    done = subprocess.run(command, env=variables, stdout=subprocess.PIPE, text=True, check=True)
    first, end = map(int, done.stdout.split()[-2:])
    launches = micro.read_log(log)[first:end]
    return {"title": NETWORKS[network].__doc__, "launches": launches}


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("folder", type=pathlib.Path)
    parser.add_argument("networks", nargs="*", choices=[*NETWORKS, []])
    arguments = parser.parse_args()
    if reason := micro.missing():
        sys.exit(reason)
    arguments.folder.mkdir(parents=True, exist_ok=True)
    plugin = micro.build(arguments.folder / "plugin")
    for network in arguments.networks or NETWORKS:
        found = record(plugin, network, arguments.folder.resolve())
        (arguments.folder / f"{network}.json").write_text(json.dumps(found))
        print(f"{network}: {len(found['launches'])} launches", flush=True)


if __name__ == "__main__":
    main()
