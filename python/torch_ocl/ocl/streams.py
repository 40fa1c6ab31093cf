"""Streams (in-order OpenCL queues) and events."""

import threading

import torch

from .devices import _index, current_device, set_device


class _OfDevice(type):
    """Makes isinstance() accept objects of PyTorch's own class, too."""

    def __instancecheck__(cls, instance):
        if super().__instancecheck__(instance):
            return True
        general = cls.__dict__.get("_general")
        return general is not None and type(instance) is general and instance.device.type == "ocl"


class Stream(torch.Stream, metaclass=_OfDevice):
    """A queue of a device; work on different streams may overlap.

    Args:
        device: the device; the current one by default.
        priority: negative for high, as in torch.cuda; honoured where the driver has priorities.
    """

    _general = torch.Stream

    def __new__(cls, device=None, priority=0, **kwargs):
        if kwargs:
            return super().__new__(cls, **kwargs)
        return super().__new__(cls, torch.device("ocl", _index(device)), priority=priority)

    # PyTorch's own classes keep the previous stream in the object, which several threads would mix
    # up.
    def __enter__(self):
        _enter(self)
        return self

    def __exit__(self, *exc_info):
        _leave()

    @staticmethod
    def priority_range() -> tuple[int, int]:
        """The lowest and the highest priority: 0 and -1."""
        return 0, -1


class Event(torch.Event, metaclass=_OfDevice):
    """A mark in a stream.

    Args:
        enable_timing: whether elapsed_time() will be used; device time, in milliseconds.
    """

    _general = torch.Event

    def __new__(cls, enable_timing=False, blocking=False, interprocess=False, external=False):
        if external:
            raise NotImplementedError("events of ocl cannot be external to a graph")
        # A plain torch.Event: its elapsed_time() takes no subclass.
        return torch.Event(
            "ocl", enable_timing=enable_timing, blocking=blocking, interprocess=interprocess
        )


def current_stream(device=None) -> Stream:
    """The stream on which this thread's operators on the device run."""
    stream = torch.accelerator.current_stream(torch.device("ocl", _index(device)))
    if torch.compiler.is_compiling():  # Dynamo knows PyTorch's class only
        return stream
    return _stream(stream.stream_id, stream.device_index)


def default_stream(device=None) -> Stream:
    """The stream that is current unless another was set."""
    return _stream(0, _index(device))


def _stream(stream_id: int, index: int) -> Stream:
    return Stream(stream_id=stream_id, device_index=index, device_type=_DEVICE_TYPE)


def set_stream(stream: torch.Stream | None) -> None:
    """Makes a stream current on its device, in this thread; None does nothing."""
    if stream is not None:
        torch.accelerator.set_stream(stream)


class _Entered(threading.local):
    """The previous streams of the `with` blocks that this thread is in."""

    def __init__(self):
        self.former = []


_entered = _Entered()


def _enter(stream):
    _entered.former.append((current_device(), current_stream(stream.device)))
    set_stream(stream)


def _leave():
    if not _entered.former:
        raise RuntimeError("a stream can only be left in the thread that entered it")
    device, stream = _entered.former.pop()
    set_stream(stream)
    set_device(device)


class StreamContext:
    """Context manager that makes a stream, and its device, current; None does nothing."""

    def __init__(self, stream: torch.Stream | None):
        self.stream = stream

    def __enter__(self):
        if self.stream is not None:
            _enter(self.stream)
        return self

    def __exit__(self, *exc_info):
        if self.stream is not None:
            _leave()
        return False


def stream(stream: torch.Stream | None) -> StreamContext:
    """`with torch.ocl.stream(s):` makes the stream, and its device, current."""
    return StreamContext(stream)


# Number of the device type PrivateUse1, whose name is "ocl" only after this module was imported.
_DEVICE_TYPE = 20
