"""The parts of the program that Inductor writes around the calls of eager kernels."""

import sympy
from torch._inductor.codegen.common import DeviceOpOverrides
from torch._inductor.codegen.wrapper import PythonWrapperCodegen, SubgraphPythonWrapperCodegen
from torch._inductor.ops_handler import DefaultHandler
from torch._inductor.scheduler import BaseScheduling
from torch._inductor.virtualized import V


class OclOpOverrides(DeviceOpOverrides):
    def import_get_raw_stream_as(self, name: str) -> str:
        return f"from torch_ocl.inductor.device_interface import get_raw_stream as {name}"

    def set_device(self, device_idx: int) -> str:
        return f"torch.ocl.set_device({device_idx})"

    def synchronize(self) -> str:
        return "torch.ocl.synchronize()"

    def device_guard(self, device_idx: int) -> str:
        return f"torch.ocl.device({device_idx})"

    def current_stream(self) -> str:
        return "torch.ocl.current_stream()"


class OclWrapper(PythonWrapperCodegen):
    """The base class refuses to call kernels of devices that it does not know."""

    @staticmethod
    def create(is_subgraph, subgraph_name, parent_wrapper, partition_signatures=None):
        if is_subgraph:
            return SubgraphPythonWrapperCodegen(subgraph_name, parent_wrapper, partition_signatures)
        return OclWrapper()

    def make_allocation(self, name, device, *args, **kwargs):
        line = super().make_allocation(name, device, *args, **kwargs)
        return line.replace("device='ocl'", f"device='ocl:{device.index}'")

    def _generate_kernel_call_helper(self, kernel_name, call_args, *, device=None, **options):
        device = device or V.graph.get_current_device_or_throw()
        if device.type == "ocl":
            self.writeline(self.wrap_kernel_call(kernel_name, call_args))
        else:
            super()._generate_kernel_call_helper(kernel_name, call_args, device=device, **options)


class _CopyOnly(DefaultHandler):
    """Runs the body of a kernel that does nothing but copy; keeps what it reads and writes."""

    def load(self, name, index):
        self.source = name, index
        return "copy"

    def store(self, name, index, value, mode=None):
        if value != "copy" or mode is not None:
            self._default("store", (), {})
        self.target = name, index

    def _default(self, name, args, kwargs):
        raise NotImplementedError(
            f"Inductor made a kernel with {name}() for ocl, where operators run as eager kernels"
        )


class OclScheduling(BaseScheduling):
    """Every operator is a call already; only copies that change strides are left to write."""

    def can_fuse_vertical(self, node1, node2) -> bool:
        return False

    def can_fuse_horizontal(self, node1, node2) -> bool:
        return False

    def group_fn(self, sizes):
        return tuple(tuple(map(V.graph.sizevars.simplify, size)) for size in sizes)

    def codegen_node(self, node) -> None:
        for part in node.get_nodes():
            part.mark_run()
            self._codegen_copy(part)
        self.free_buffers_in_scheduler()

    def _codegen_copy(self, node) -> None:
        sizes = [size for group in node._sizes for size in group]
        variables = [sympy.Symbol(f"i{n}", integer=True) for n in range(len(sizes))]
        pointwise = len(node._sizes[0])
        body = _CopyOnly()
        with V.set_ops_handler(body):
            node._body(variables[:pointwise], variables[pointwise:])
        source, target = (
            _view(name, index, variables, sizes) for name, index in (body.source, body.target)
        )
        V.graph.wrapper_code.writeline(f"{target}.copy_({source})")

    def codegen_sync(self) -> None:
        V.graph.wrapper_code.writeline("torch.ocl.synchronize()")

    def flush(self) -> None:
        pass


def _view(name, index, variables, sizes) -> str:
    """Python for the elements of a buffer that the index goes over."""
    sizevars = V.graph.sizevars
    strides = sizevars.stride_vars(index, variables)
    offset = sizevars.offset_var(index, variables)
    linear = offset + sum(stride * variable for stride, variable in zip(strides, variables))
    if sizevars.simplify(index - linear) != 0:
        raise NotImplementedError(f"a copy on ocl with the index {index}")
    shape = V.graph.wrapper_code.codegen_python_shape_tuple
    offset = V.graph.wrapper_code.codegen_python_sizevar(offset)
    return f"reinterpret_tensor({name}, {shape(sizes)}, {shape(strides)}, {offset})"
