"""Inductor's generated Python program that calls the kernels."""

from torch._inductor import config
from torch._inductor.codegen.common import DeviceOpOverrides
from torch._inductor.codegen.wrapper import PythonWrapperCodegen, SubgraphPythonWrapperCodegen
from torch._inductor.virtualized import V

from . import draws


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

    def cpp_kernel_type(self) -> str:
        return "const void*"

    def aten_device_type(self) -> str:
        return "at::kPrivateUse1"


def end_program(result) -> None:
    """Adds the code after the program's function `call`."""
    # A graph has the commands of one device only, and no work of the CPU.
    on_one_device = set(V.graph.device_types) == {"ocl"} and len(V.graph.device_idxs) == 1
    if config.triton.cudagraphs and on_one_device:  # mode="reduce-overhead"
        changed = tuple(sorted(V.graph.mutated_input_idxs))
        # PyTorch keeps the module forever, so each access to `call` gets its own graphs.
        result.writeline("if __name__ != '__main__':")
        with result.indent():
            result.writeline("from torch_ocl.inductor.replay import replayed_attribute")
            result.writeline(f"__getattr__ = replayed_attribute(call, {changed})")
            result.writeline("del call")


class CallsKernels:
    """Calls ocl's kernels; Inductor's wrappers refuse devices that they do not know."""

    def _generate_kernel_call_helper(self, kernel_name, call_args, *, device=None, **options):
        device = device or V.graph.get_current_device_or_throw()
        if device.type == "ocl":
            self.writeline(self.wrap_kernel_call(kernel_name, call_args))
        else:
            super()._generate_kernel_call_helper(kernel_name, call_args, device=device, **options)

    def real_argument(self, number) -> str:
        return str(number)


class WritesPython(CallsKernels):
    """The common part of Python programs and the functions of their subgraphs."""

    def define_ocl_kernel(self, name, fused, rendered, source, comments):
        """Defines the kernel where all functions of the program find it."""
        letter, maker, module = rendered.shape.letter, "generated_kernel", "runtime"
        detail = rendered.local
        if letter != "t" and (config.max_autotune or config.max_autotune_pointwise):
            maker, module, detail = "MeasuredKernel", "tuning", rendered.written
        definition = [
            "",
            *comments.splitlines(),
            f"{name} = {maker}({fused!r}, {rendered.signature!r}, {letter!r}, {detail}, '''",
            *source.splitlines(),
            "''')",
        ]
        program = self.program
        program.add_import_once(f"from torch_ocl.inductor.{module} import {maker}")
        for line in definition:
            program.header.writeline(line)

    def val_to_arg_str(self, s, type_=None):
        if isinstance(s, complex):  # its repr() has no sign for -0.0
            return f"complex({s.real}, {s.imag})"
        return super().val_to_arg_str(s, type_)

    def make_allocation(self, name, device, *args, **kwargs):
        line = super().make_allocation(name, device, *args, **kwargs)
        return line.replace("device='ocl'", f"device='ocl:{device.index}'")

    _switches_streams = False

    def codegen_cuda_stream_enter(self, stream_idx):
        """Defines the stream, which Inductor does only for devices that it knows."""
        self._switches_streams = True
        # Only releases that call this function have the module.
        from torch._inductor.stream_utils import get_stream_name

        stream = "torch.ocl.current_stream()"
        if stream_idx:  # 0 is the stream of the caller, others are objects
            index = V.graph.scheduler.stream_idx_to_user_obj_idx[stream_idx]
            module, getter = "torch._dynamo.graph_bytecode_inputs", "get_external_object_by_index"
            self.program.add_import_once(f"from {module} import {getter}")
            stream = f"{getter}({index})"
        self.writeline(f"{get_stream_name(stream_idx)} = {stream}")
        return super().codegen_cuda_stream_enter(stream_idx)

    def memory_plan_reuse(self):
        """Plans the reuse of memory with the correct stream of each buffer.

        If a stream waits for a buffer, PyTorch 2.13 assumes that the buffer belongs to that stream.
        So it would reuse memory of one stream on another, which may run at the same time.
        """
        reuse = config.allow_buffer_reuse and not self._switches_streams
        with config.patch(allow_buffer_reuse=reuse):
            super().memory_plan_reuse()


class OclSubgraphWrapper(WritesPython, SubgraphPythonWrapperCodegen):
    """A function for a branch of torch.cond, and the like."""

    @property
    def program(self):
        return self.get_root_graph()


class OclWrapper(WritesPython, PythonWrapperCodegen):
    @staticmethod
    def create(is_subgraph, subgraph_name, parent_wrapper, partition_signatures=None):
        if is_subgraph:
            return OclSubgraphWrapper(subgraph_name, parent_wrapper, partition_signatures)
        draws.keep_order(V.graph)
        return OclWrapper()

    @property
    def program(self):
        return self

    def generate_after_suffix(self, result):
        super().generate_after_suffix(result)
        end_program(result)
