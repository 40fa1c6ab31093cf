"""ultralytics: the device of YOLO and its relatives."""

import torch

from . import local_device, replace


def choose_device(module) -> None:
    """ultralytics.utils.torch_utils: device=None, 0 and "ocl:0"; several devices are refused."""

    def make(original):
        def select_device(device="", newline=False, verbose=True):
            asked = str(device).lower()
            ocl = (
                None
                if "cuda" in asked or torch.cuda.is_available()
                else module.parse_device(device)
            )
            if ocl == "":
                chosen = local_device()
            elif ocl is not None and (ocl.isdigit() or ocl.split(":")[0] == "ocl"):
                chosen = torch.device("ocl", int(ocl)) if ocl.isdigit() else torch.device(ocl)
            else:
                return original(device, newline, verbose)
            torch.ocl.set_device(chosen)
            if verbose:
                module.LOGGER.info(f"{chosen} ({torch.ocl.get_device_name(chosen)})")
            return torch.device("ocl", torch.ocl.current_device())

        return select_device

    replace(module, "select_device", make, ("ultralytics",))
