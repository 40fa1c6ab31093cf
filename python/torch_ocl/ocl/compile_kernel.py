"""Kernels of users, compiled at run time."""

import operator

from torch_ocl import _C

from .devices import _index


def compile_kernel(source: str, options: str = "", device=None) -> "KernelLibrary":
    """Compiles OpenCL C; the kernels of the source are attributes of the result.

        library = torch.ocl.compile_kernel('''
            __kernel void scale(__global float* x, float by) { x[get_global_id(0)] *= by; }
        ''')
        library.scale(torch.ones(16, device="ocl"), 2)

    Args:
        source: OpenCL C, 1.2 unless the options have -cl-std=...
        options: of the compiler, such as "-DN=4".
        device: a device to build for now, so that errors are raised here. For other devices it is
            built at the first use.

    Raises RuntimeError with the compiler's messages.
    """
    if not isinstance(source, str) or not isinstance(options, str):
        wrong = type(options if isinstance(source, str) else source).__name__
        raise TypeError(f"compile_kernel takes source and options as str, not {wrong}")
    return KernelLibrary(_C.UserLibrary(source, options), _index(device))


class KernelLibrary:
    """The kernels of one source; see compile_kernel."""

    def __init__(self, library, device: int):
        self._library = library
        self._kernels = {
            name: UserKernel(library, name, arguments)
            for name, arguments in library.kernels(device).items()
        }

    def __getattr__(self, name: str) -> "UserKernel":
        try:
            return self.__dict__["_kernels"][name]
        except KeyError:
            names = ", ".join(self.__dict__.get("_kernels", ())) or "none"
            raise AttributeError(f"the source has no kernel {name!r}, but: {names}") from None

    def __dir__(self):
        return [*super().__dir__(), *self._kernels]

    def __repr__(self):
        return "\n".join(map(repr, self._kernels.values())) or "a source without kernels"


class UserKernel:
    """A kernel, called like a function.

        kernel(*arguments, threads=None, group_size=None, strided=False)

    Pointers to global and constant memory take contiguous tensors of the type, or None; numbers
    take numbers; vectors take tuples; local memory takes torch.ocl.LocalMemory(bytes); structs
    take bytes. float* takes complex64, too, uchar* and char* bool, ushort* bfloat16; void* and
    pointers to structs any type.

    Args:
        threads: work-items, a number or up to three; by default the elements of the first tensor.
        group_size: work-items of a group, which divide the threads; by default it is chosen.
        strided: accept tensors of any strides; the kernel gets the first element's address.

    Enqueued on the current stream of the tensors' device. Raises TypeError or ValueError, which
    name the argument, before anything is enqueued.
    """

    def __init__(self, library, name: str, arguments: tuple[str, ...]):
        self._library = library
        self.name = name
        self.arguments = arguments

    def __call__(self, *arguments, threads=None, group_size=None, strided=False):
        self._library.call(self.name, arguments, _sizes(threads), _sizes(group_size), bool(strided))

    def __repr__(self):
        return f"__kernel void {self.name}({', '.join(self.arguments)})"


def _sizes(sizes):
    if sizes is None:
        return None
    sizes = sizes if isinstance(sizes, (tuple, list)) else (sizes,)
    return [operator.index(size) for size in sizes]
