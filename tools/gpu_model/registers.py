"""The registers of kernels by GPU compilers, from gpu_check.py's --json."""

import json
import pathlib
import zlib


class Registers:
    """Registers of a launch, found by the checksum of its program's source. Empty without the
    files."""

    def __init__(self, programs=None, found=None):
        """`programs`: the folder of sources; `found`: the file of gpu_check.py."""
        self.names, self.kernels = {}, {}
        if not programs or not found or not pathlib.Path(found).exists():
            return
        for path in pathlib.Path(programs).glob("*.cl"):
            self.names[zlib.crc32(path.read_bytes())] = path.name
        for target, files in json.loads(pathlib.Path(found).read_text()).items():
            for name, kernels in files.items():
                for kernel in kernels:
                    if kernel["registers"]:
                        self.kernels[target, name, kernel["name"]] = kernel["registers"]

    def of(self, device, launch):
        """The number of a work-item's registers, or None."""
        name = self.names.get(launch["program"])
        return self.kernels.get((device.target, name, launch["kernel"]))
