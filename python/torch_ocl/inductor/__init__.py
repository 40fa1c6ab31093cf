"""torch.compile on "ocl": the device's part of Dynamo and Inductor.

Nothing here is imported before Dynamo or Inductor is; see docs/compile.md.
"""

from .import_hook import after_import


def _dynamo_was_imported() -> None:
    from . import device_interface

    device_interface.register()


def _inductor_was_imported() -> None:
    from . import registration

    registration.register()


def register_when_needed() -> None:
    after_import("torch._dynamo.device_interface", _dynamo_was_imported)
    after_import("torch._inductor.compile_fx", _inductor_was_imported)
