// Parts of language models in one kernel each, with the numbers that transformers' models have:
// rotary position embedding (Su et al.: RoFormer: Enhanced Transformer with Rotary Position
// Embedding. 2021) and SwiGLU (Shazeer: GLU Variants Improve Transformer. 2020).
#include <ATen/DeviceGuard.h>
#include <ATen/ops/empty_like.h>
#include <torch/library.h>

#include "kernels/core/grids/grid.h"
#include "kernels/core/tensors/tensors.h"
#include "kernels/core/types/dtype.h"
#include "kernels/core/types/parameters.h"
#include "kernels/pointwise/pointwise.h"

namespace ocl {
namespace {

using at::Tensor;

#include "kernels/pointwise/rotary_parameters.clh"

struct RotaryKernel {
  ScalarType type;

  KernelSource source(Device& device) const {
    Defines defines = compute_defines(compute_type(type));
    define_grid(defines, device);
    defines.set("IN", dtype_name(type));
    if (compute_type(type) != type) {
      defines.set("ROUNDED(x)", str("ROUNDED_", dtype_name(type), "(x)"));
    }
    return {"rotary.cl", "rotary", defines};
  }
};

Tensor with_adjacent_elements(const Tensor& tensor) {
  return tensor.stride(-1) == 1 ? tensor : tensor.contiguous();
}

// The strides of the first three dimensions of four.
std::array<int64_t, 3> strides_of(const Tensor& tensor) {
  return {tensor.stride(0), tensor.stride(1), tensor.stride(2)};
}

// x [batch][heads][rows][size]; cos and sin are broadcast to it.
Tensor rotary(const Tensor& x_any, const Tensor& cos, const Tensor& sin) {
  constexpr const char* kOp = "rotary";
  const c10::OptionalDeviceGuard guard(x_any.device());
  TORCH_CHECK(x_any.dim() == 4 && x_any.size(-1) % 2 == 0, kOp,
              ": expected four dimensions, the last one even, but got ", x_any.sizes());
  const ScalarType type = x_any.scalar_type();
  Device& device = ocl_device(x_any);
  check_floating(device, type, kOp);
  check_device_has(device, type, kOp);
  for (const Tensor* factor : {&cos, &sin}) {
    expect_type(*factor, type, kOp);
    TORCH_CHECK(factor->device() == x_any.device(), kOp, ": expected all tensors on ",
                x_any.device(), ", but got one on ", factor->device());
  }
  const Tensor x = with_adjacent_elements(x_any);
  const Tensor cosine = with_adjacent_elements(cos.expand(x.sizes())),
               sine = with_adjacent_elements(sin.expand(x.sizes()));
  const Tensor out = at::empty_like(x);
  if (out.numel() == 0) return out;
  const Rotary parameters{{x.size(0), x.size(1), x.size(2)},
                          strides_of(x),
                          strides_of(cosine),
                          strides_of(sine),
                          strides_of(out),
                          x.size(-1) / 2};
  const auto rows = static_cast<uint64_t>(x.size(0) * x.size(1) * x.size(2));
  const UnitGrid grid = unit_grid(device, rows, static_cast<size_t>(parameters.middle), 4);
  Arguments arguments(stream_of(x), find_kernel(device, RotaryKernel{type}));
  arguments.add(view(x)).add(view(cosine)).add(view(sine)).add(view(out)).add(parameters);
  arguments.add(rows).add(grid.per_item).enqueue(grid.global, grid.local);
  return out;
}

// silu(gate) * up, where silu is rounded to the tensors' type.
Tensor swiglu(const Tensor& gate, const Tensor& up) {
  constexpr PointwiseOp kSwiglu{"swiglu", "ROUNDED(a / (C(1) + exp(-a))) * b", kFloating};
  const c10::OptionalDeviceGuard guard(gate.device());
  const Tensor undefined;
  at::TensorIterator iter = at::TensorIteratorConfig()
                                .add_output(undefined)
                                .add_const_input(gate)
                                .add_const_input(up)
                                .build();
  pointwise(iter, kSwiglu);
  return iter.output();
}

}  // namespace
}  // namespace ocl

TORCH_LIBRARY_FRAGMENT(ocl, m) {
  m.def("rotary(Tensor x, Tensor cos, Tensor sin) -> Tensor");
  m.def("swiglu(Tensor gate, Tensor up) -> Tensor");
}

TORCH_LIBRARY_IMPL(ocl, PrivateUse1, m) {
  m.impl("rotary", TORCH_FN(ocl::rotary));
  m.impl("swiglu", TORCH_FN(ocl::swiglu));
}
