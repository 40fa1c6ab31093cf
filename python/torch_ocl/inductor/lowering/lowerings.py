"""Inductor's lowerings in graphs with ocl tensors: generated kernels, or calls of eager ones."""

import functools
import logging
from pathlib import Path

import torch
from torch._inductor import inductor_prims, ir
from torch._inductor.choices import InductorChoices
from torch._inductor.custom_graph_pass import CustomGraphModulePass, get_hash_for_files
from torch._inductor.lowering import clone, fallback_handler, index_put_fallback, to_device
from torch._inductor.runtime.hints import DeviceProperties
from torch._inductor.virtualized import V
from torch.utils import _pytree as pytree

from torch_ocl import ocl

from ..codegen import formulas
from ..codegen.overrides import OF_FLOAT32, SUPPORTED
from ..codegen.reductions import SUPPORTED as REDUCTIONS
from ..codegen.types import TYPES
from ..device_interface import OclInterface, has_fp64
from ..passes import epilogues, grouped_queries, int8_weights, strides, writes
from ..runtime import HEADERS
from ..versions import patch
from . import numbers, triton_only
from .eager import adds_atomically, aten, computes_tensors, graph_has_ocl, stays_eager

log = logging.getLogger("torch._inductor.ocl")


def _constants() -> dict[int, object]:
    """The constants among the current node's inputs, keyed by the values that Inductor inlined.

    An inlined constant would be a C++ kernel that fills a tensor.
    """
    found = {}
    for node in V.graph.current_node.all_input_nodes:
        value = node.op == "get_attr" and getattr(V.graph.module, node.target, None)
        if isinstance(value, torch.Tensor):
            found[id(V.graph.env[node])] = (value, node.target)
    return found


def _call_eager(eager, operator, args, kwargs):
    if constants := _constants():

        def real(value):
            constant = constants.get(id(value))
            return value if constant is None else V.graph.add_tensor_constant(*constant)

        args, kwargs = pytree.tree_map(real, (args, kwargs))
    results = eager(*args, **kwargs)
    # Inductor makes foreach operators in-place, but still uses their results.
    foreach = operator.name().startswith("aten::_foreach_")
    return args[0] if results is None and foreach else results


def _device(value):
    if isinstance(value, torch.device):
        return value
    return value.get_device() if isinstance(value, ir.IRNode) else None


def _ocl_device(args, kwargs):
    for value in pytree.tree_leaves((args, kwargs)):
        device = _device(value)
        if device is not None and device.type == "ocl":
            return device
    return None


def _on_device(device, args, kwargs):
    """Copies numbers in CPU tensors to the device, because kernels cannot read them on the CPU."""

    def moved(value):
        if isinstance(value, ir.TensorBox) and value.get_device().type == "cpu":
            return to_device(value, device) if not value.get_size() else value
        return value

    return pytree.tree_map(moved, (args, kwargs))


def _computes(dtype: torch.dtype, device: torch.device) -> bool:
    return dtype in TYPES and (dtype != torch.float64 or has_fp64(device))


def _obstacle(results) -> str | None:
    """The operation in a lowered operator for which no kernel can be generated, or None."""
    for result in pytree.tree_leaves(results):
        data = result
        while isinstance(data, (ir.MutableBox, ir.ComputedBuffer, ir.BaseView)):
            data = data.data
        if isinstance(data, ir.Loops):
            device = data.get_device()
            if device.type != "ocl":
                return "a kernel for another device"
            if not _computes(data.dtype, device):
                return f"the type {data.dtype}"
            if isinstance(data, ir.Reduction) and data.reduction_type not in REDUCTIONS:
                return f"a reduction by {data.reduction_type}"
            used = data.inner_fn_opcount()
            for name in used.read_buffers:
                if not _computes(dtype := V.graph.get_dtype(name), device):
                    return f"the type {dtype}"
            supported = SUPPORTED - OF_FLOAT32 if data.dtype == torch.float64 else SUPPORTED
            if missing := set(used.used_ops) - supported:
                return f"the operation {sorted(missing)[0]}"
    return None


def _type_in_place(operator, tensors, device) -> str | None:
    """The part of _obstacle() for in-place operators, whose result is their argument."""
    if operator._schema.is_mutable:
        for tensor in pytree.tree_leaves(tensors):
            if isinstance(tensor, ir.TensorBox) and not _computes(tensor.get_dtype(), device):
                return f"the type {tensor.get_dtype()}"
    return None


def _other_type(operator, results) -> str | None:
    """The correct type of the current node's result, if Inductor computed another type."""
    node = V.graph.current_node
    known = node.target is operator and isinstance(results, ir.TensorBox)
    value = node.meta.get("val") if known else None
    if isinstance(value, torch.Tensor) and value.dtype != results.get_dtype():
        return f"a result of type {value.dtype}"
    return None


class OclChoices(InductorChoices):
    @staticmethod
    def reduction_split_factor(device, reduction_numel_hint, numel_hint, inner_reduction):
        """The number of parts to split each reduction into, if there are too few reductions to keep
        the device busy."""
        workers = 4 * DeviceProperties.create(device).multi_processor_count
        units = numel_hint if inner_reduction else numel_hint // 128 or 1
        if units >= workers or reduction_numel_hint * numel_hint < 65536:
            return 1
        least = 2 * workers // units
        most = max(reduction_numel_hint // 64, 1)
        parts = range(least, min(4 * least, most) + 1)
        even = (part for part in parts if reduction_numel_hint % part == 0)
        return next(even, min(least, most))


def _of_variance(lowering):
    """The variance in two passes: the second finds a chunk in the cache, and nothing is divided."""

    def lower(*args, **kwargs):
        with patch(mtia__disable_welford_reduction=True):
            return lowering(*args, **kwargs)

    return lower


def _bound_first(lowering):
    """The second of two equal numbers is the result: clamp(-0.0, min=0) is -0.0 as in eager."""
    return lambda x, bound: lowering(bound, x)


# Changes to Inductor's lowerings for which a kernel is generated.
_GENERATED = {
    aten.var.correction: _of_variance,
    aten.var_mean.correction: _of_variance,
    aten.clamp_min.default: _bound_first,
    aten.clamp_max.default: _bound_first,
}
_ARGUMENTS = {aten.argmax.default, aten.argmin.default}


def _in_ocl_graphs(operator, lowering):
    eager = fallback_handler(operator, add_to_fallback_set=False)
    generated = _GENERATED.get(operator, lambda lowering: lowering)(lowering)

    @functools.wraps(lowering)
    def lower(*args, **kwargs):
        if not graph_has_ocl():
            return lowering(*args, **kwargs)
        with V.set_choices_handler(OclChoices()), patch(**triton_only.LOWERING):
            return lower_here(*args, **kwargs)

    def lower_here(*args, **kwargs):
        device = _ocl_device(args, kwargs)
        if device is None or stays_eager(operator, args):
            return _call_eager(eager, operator, args, kwargs)
        moved_args, moved_kwargs = _on_device(device, args, kwargs)
        # The index of an element would count in the order of the loops, not of the tensor.
        flat = operator in _ARGUMENTS and (len(args) < 2 or args[1] is None)
        results = None
        obstacle = _type_in_place(operator, (args, kwargs), device)
        if flat:
            obstacle = "the order of several dimensions"
        obstacle = obstacle or numbers.eager_only(operator, args, kwargs)
        if not obstacle:
            results = generated(*moved_args, **moved_kwargs)
            obstacle = _obstacle(results) or _other_type(operator, results)
        if obstacle:
            log.info("%s calls its eager kernel, because of %s", operator, obstacle)
            return _call_eager(eager, operator, args, kwargs)
        return results

    return lower


def _elements_share_memory() -> bool:
    """Whether the current node's first argument is expanded."""
    x = V.graph.current_node.args[0].meta["val"]
    return any(stride == 0 and size != 1 for size, stride in zip(x.size(), x.stride()))


def _adding_in_place(lowering):
    """If index_put() may overwrite its argument, Inductor uses index_put_(), even for expanded
    arguments."""

    def lower(x, indices, values, accumulate=False):
        if graph_has_ocl() and _elements_share_memory():
            x = clone(x)
        if accumulate and graph_has_ocl() and not adds_atomically(x):
            return index_put_fallback(x, indices, values, accumulate)
        return lowering(x, indices, values, accumulate)

    return lower


class GraphPass(CustomGraphModulePass):
    """Runs our passes over a graph before Inductor lowers it.

    They join products with int8 weights and their scales, remove copies of keys for the queries of
    a group, and fuse the epilogues of products under max-autotune. They hide convolutions from
    Inductor, which would change their memory format, with a copy before and after each. They keep
    values that are read after their memory is overwritten.
    """

    def __call__(self, gm) -> None:
        int8_weights.join(gm.graph)
        grouped_queries.share_heads(gm.graph)
        epilogues.fuse(gm.graph)
        for node in gm.graph.find_nodes(op="call_function", target=aten.convolution.default):
            node.target = _convolution
        strides.read_whole_memory(gm.graph)
        writes.keep_values(gm.graph)

    def uuid(self):
        """Part of the key of Inductor's caches: everything that changes programs, also the devices.

        A process that has not used a device yet has no programs for it. This starts no driver,
        because Inductor forks.
        """
        files = (*sorted(map(str, Path(__file__).parents[1].rglob("*.py"))), *HEADERS)
        count = ocl.device_count() if ocl.is_initialized() else 0
        devices = tuple(OclInterface.get_compute_capability(index) for index in range(count))
        return get_hash_for_files(files, formulas.TEXTS), devices


def keep_memory_formats(decide):
    """Keeps Inductor from making convolutions channels_last in graphs with ocl tensors."""

    def decide_layout_opt(gm, **options):
        values = (node.meta.get("val") for node in gm.graph.nodes)
        has_ocl = any(isinstance(v, torch.Tensor) and v.device.type == "ocl" for v in values)
        return not has_ocl and decide(gm, **options)

    return decide_layout_opt


def _convolution(x, weight, *args):
    """The result is contiguous only if x and weight are (decompositions.py).

    A copy that Inductor makes may have the order of its source.
    """
    x, weight = (ir.ExternKernel.require_contiguous(tensor) for tensor in (x, weight))
    eager = fallback_handler(aten.convolution.default, add_to_fallback_set=False)
    return eager(x, weight, *args)


_convolution._inductor_lowering_function = True
_convolution._inductor_lowering_output_metadata_fn = aten.convolution.default  # PyTorch 2.15


def change(lowerings, decomposed) -> None:
    """Changes Inductor's table; graphs without ocl tensors are lowered as before.

    `decomposed` lists the operators that Inductor decomposes for other devices, which have no entry
    in the table.
    """
    for operator, lowering in list(lowerings.items()):
        if isinstance(operator, torch._ops.OpOverload) and computes_tensors(operator):
            lowerings[operator] = _in_ocl_graphs(operator, lowering)
    for operator in decomposed:
        if operator not in lowerings and computes_tensors(operator):
            lowerings[operator] = fallback_handler(operator, add_to_fallback_set=False)
    for operator in (aten.index_put_.default, inductor_prims._unsafe_index_put_):
        lowerings[operator] = _adding_in_place(lowerings[operator])
