"""lightning and pytorch_lightning: Trainer(accelerator="ocl") and Fabric(accelerator="ocl")."""

import torch

from . import replace


def _accelerator_class(base, error):
    """The Accelerator for lightning's registry; `base` is the Accelerator of Trainer or Fabric."""

    class OclAccelerator(base):
        def setup_device(self, device):
            if device.type != "ocl":
                raise error(f"the accelerator 'ocl' was given the device {device}")
            torch.ocl.set_device(device)

        def teardown(self):
            torch.ocl.empty_cache()

        def get_device_stats(self, device):
            return torch.ocl.memory_stats(device)

        @staticmethod
        def parse_devices(devices):
            """Numbers of devices, from a list, from "0,1", or the first n; -1 means all."""
            count = torch.ocl.device_count()
            if isinstance(devices, str):
                numbers = [int(part) for part in devices.split(",") if part.strip()]
                devices = numbers if "," in devices else numbers[0]
            if isinstance(devices, int):
                devices = list(range(count if devices == -1 else devices))
            wrong = [index for index in devices if not 0 <= index < count]
            if wrong:
                raise error(f"ocl:{wrong[0]} does not exist: there are {count} ocl devices")
            return list(devices)

        @staticmethod
        def get_parallel_devices(devices):
            return [torch.device("ocl", index) for index in devices]

        @staticmethod
        def auto_device_count():
            return torch.ocl.device_count()

        @staticmethod
        def is_available():
            return torch.ocl.is_available()

        @staticmethod
        def name():
            return "ocl"

    return OclAccelerator


def _register(module, registry, flag, device_ids) -> None:
    """Registers the accelerator, and makes the connector's three choices for it.

    Args:
        module: lightning's module with the connector.
        registry: lightning's registry of accelerators.
        flag: the connector's attribute with the precision.
        device_ids: the method of DDPStrategy with the device_ids, which must be None: where they
            are not, it makes a stream of torch.cuda.
    """
    connector = getattr(module, "_AcceleratorConnector", None) or module._Connector
    error = getattr(module, "MisconfigurationException", ValueError)
    registry.register("ocl", _accelerator_class(module.Accelerator, error), "OpenCL devices")

    def ours(self):
        return self.accelerator.name() == "ocl"

    def make_auto(original):
        def _choose_auto_accelerator():
            chosen = original()
            return "ocl" if chosen == "cpu" else chosen

        return _choose_auto_accelerator

    def make_strategy(original):
        def _choose_strategy(self):
            if ours(self) and len(self._parallel_devices) == 1 and self._num_nodes_flag == 1:
                return module.SingleDeviceStrategy(device=self._parallel_devices[0])
            return original(self)

        return _choose_strategy

    def make_init_strategy(original):
        def _init_strategy(self):
            original(self)
            if ours(self) and hasattr(self.strategy, device_ids):
                setattr(self.strategy, device_ids, lambda: None)

        return _init_strategy

    def make_precision(original):
        def _check_and_init_precision(self):
            plugin = (
                original(self) if not ours(self) or "-mixed" not in getattr(self, flag) else None
            )
            return plugin or module.MixedPrecision(getattr(self, flag), "ocl")

        return _check_and_init_precision

    replace(connector, "_choose_auto_accelerator", make_auto)
    connector._choose_auto_accelerator = staticmethod(connector._choose_auto_accelerator)
    replace(connector, "_choose_strategy", make_strategy)
    replace(connector, "_init_strategy", make_init_strategy)
    replace(connector, "_check_and_init_precision", make_precision)


def register_trainer(module) -> None:
    """lightning.pytorch.trainer.connectors.accelerator_connector"""
    _register(module, module.AcceleratorRegistry, "_precision_flag", "determine_ddp_device_ids")


def register_fabric(module) -> None:
    """lightning.fabric.connector"""
    _register(module, module.ACCELERATOR_REGISTRY, "_precision_input", "_determine_ddp_device_ids")
