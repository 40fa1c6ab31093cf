// The marks that register operators. The generator (kernels/codegen) reads them from the sources
// and writes the dispatcher wrappers with torchgen, so that shapes, promotion, out=, in-place
// forms, device guards and error texts are PyTorch's own.
//
//   OCL_STUB("index.Tensor", index_stub, &index_kernel);
//     PyTorch's implementation, with our kernel in its DispatchStub. A name without an overload
//     ("add") means all overloads whose implementation CPU and CUDA share; "clamp.default" is the
//     overload without a name. In-place and out= forms are included.
//   OCL_SHARED("relu")
//     PyTorch's implementation, which calls other operators that we have.
//   OCL_STRUCTURED("mm.out", mm)(const Tensor& self, const Tensor& mat2, const Tensor& out) {...}
//     PyTorch's meta function, our implementation (structured operators).
//   OCL_NATIVE("convolution_overrideable", convolution)
//     Our implementation ocl::native::convolution, declared by the generated header.
//   OCL_NATIVE_AS("histc", histc, at::native::histogram_histc(self, bins, min, max))
//   OCL_STRUCTURED_AS("tril.out", tril, triangle(self, diagonal, out, false))
//     Like OCL_NATIVE and OCL_STRUCTURED, for an implementation that is one expression of the
//     schema's arguments. The generated header has the function's declaration.
//   OCL_COMPLEX("where.self")
//   OCL_FLOAT8("_scaled_mm")
//     In addition to another mark: complex tensors, or float8 tensors, do not go to the fallback.
#pragma once

#include <ATen/native/DispatchStub.h>

#include <string_view>

namespace ocl {

// "exp" for "exp_stub": the operator's name in kernels and messages.
constexpr std::string_view name_of_stub(std::string_view stub) {
  constexpr std::string_view kSuffix = "_stub";
  return stub.ends_with(kSuffix) ? stub.substr(0, stub.size() - kSuffix.size()) : stub;
}

}  // namespace ocl

#define OCL_STUB(ops, stub, kernel) REGISTER_PRIVATEUSE1_DISPATCH(stub, kernel)
#define OCL_SHARED(ops) static_assert(true, ops)
#define OCL_STRUCTURED(op, name) void structured_##name::impl
#define OCL_NATIVE(op, name) static_assert(true, op)
#define OCL_NATIVE_AS(op, name, ...) \
  OCL_HEAD_##name { return __VA_ARGS__; }
#define OCL_STRUCTURED_AS(op, name, ...) \
  OCL_HEAD_##name { __VA_ARGS__; }
#define OCL_COMPLEX(ops) static_assert(true, ops)
#define OCL_FLOAT8(ops) static_assert(true, ops)
