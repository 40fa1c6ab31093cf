"""torch.compile on "ocl": the device's part of Dynamo and Inductor.

Little here is imported before Dynamo or Inductor is; see docs/compile.md.
"""

import pathlib
import warnings

from .import_hook import after_import
from .tracing import higher_order


def _dynamo_was_imported() -> None:
    """Optimizers import Dynamo, too, and must work even if the package was removed meanwhile."""
    try:
        from . import device_interface
    except ImportError as error:
        if pathlib.Path(__file__).exists():
            raise
        warnings.warn(
            f"torch_ocl was removed while it is used; torch.compile does not work on ocl: {error}",
            stacklevel=2,
        )
        return
    device_interface.register()


def _fake_tensors_were_imported() -> None:
    from .tracing import fake_convolution, random_operators

    fake_convolution.register()
    random_operators.register()


def _fake_modes_were_imported() -> None:
    from .tracing import outputs

    outputs.register()


def _partitioners_were_imported() -> None:
    from torch._functorch import partitioners

    from .tracing import random_operators

    random_operators.draw_once(partitioners)


def _inductor_was_imported() -> None:
    from . import registration

    registration.register()


def _flex_attention_was_imported() -> None:
    from .flex import devices

    devices.allow()


def register_when_needed() -> None:
    higher_order.register()  # these operators are also called outside of compiled code
    after_import("torch._subclasses.fake_impls", _fake_tensors_were_imported)
    after_import("torch._subclasses.fake_tensor", _fake_modes_were_imported)
    after_import("torch._dynamo.device_interface", _dynamo_was_imported)
    after_import("torch._functorch.partitioners", _partitioners_were_imported)
    after_import("torch._inductor.compile_fx", _inductor_was_imported)
    after_import("torch.nn.attention.flex_attention", _flex_attention_was_imported)
