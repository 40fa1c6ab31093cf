"""Functions and classes that only raise an error, which says why and what to do."""

from collections.abc import Callable


def refuse(name: str, reason: str) -> Callable:
    """A function to replace `name`, which raises NotImplementedError with the reason."""

    def refused(*args, **kwargs):
        raise NotImplementedError(f'{name}: here "cuda" means ocl, {reason} (docs/as_cuda.md)')

    refused.__name__ = refused.__qualname__ = name.rsplit(".", 1)[-1]
    return refused


def refuse_class(name: str, reason: str) -> type:
    """A class to replace `name`, for isinstance(); its constructor raises the error."""
    return type(name.rsplit(".", 1)[-1], (), {"__new__": staticmethod(refuse(name, reason))})
