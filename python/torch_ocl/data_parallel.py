"""Copies between devices for torch.nn.DataParallel and torch.nn.parallel.

These modules of PyTorch serve any accelerator, but call functions of torch._C that only builds with
CUDA have. This file supplies them where they are missing. torch/csrc/cuda/comm.cpp describes them.
A device is given by its index; -1 is the CPU.
"""

import contextlib

import torch


def _device(index):
    if index is None:
        index = torch.ocl.current_device()
    return torch.device("cpu") if index < 0 else torch.device("ocl", index)


def _copy_to(tensor, device):
    return tensor.to(device, non_blocking=tensor.device.type == "ocl" and device.type == "ocl")


def broadcast(tensor, devices):
    """The tensor on each device; on its own device the tensor itself."""
    return [_copy_to(tensor, _device(index)) for index in devices]


def broadcast_out(tensor, out):
    for each in out:
        each.copy_(tensor)
    return out


def broadcast_coalesced(tensors, devices, buffer_size):
    """A list of the tensors for each device. Copies between OpenCL devices gain nothing from one
    large buffer, so `buffer_size` (bytes) is not used."""
    return [[_copy_to(tensor, _device(index)) for tensor in tensors] for index in devices]


def scatter(tensor, devices, chunk_sizes, dim, streams):
    """A part of the tensor along `dim` on each device; the parts have `chunk_sizes`, or equal
    sizes."""
    if chunk_sizes is None:
        parts = tensor.chunk(len(devices), dim)
    else:
        parts = tensor.split_with_sizes(list(chunk_sizes), dim)
    results = []
    for i, (part, index) in enumerate(zip(parts, devices, strict=False)):
        stream = streams[i] if streams else None
        with stream if stream is not None else contextlib.nullcontext():
            results.append(_copy_to(part.contiguous(), _device(index)))
    return results


def scatter_out(tensor, out, dim, streams):
    parts = tensor.split_with_sizes([each.size(dim) for each in out], dim)
    for each, part in zip(out, parts, strict=True):
        each.copy_(part)
    return out


def gather(tensors, dim, destination):
    """The tensors joined along `dim` on one device."""
    device = _device(destination)
    return torch.cat([_copy_to(tensor, device) for tensor in tensors], dim)


def gather_out(tensors, out, dim):
    return out.copy_(torch.cat([_copy_to(tensor, out.device) for tensor in tensors], dim))


def install():
    functions = (broadcast, broadcast_out, broadcast_coalesced, scatter, scatter_out)
    for function in (*functions, gather, gather_out):
        name = f"_{function.__name__}"
        if not hasattr(torch._C, name):
            setattr(torch._C, name, function)
