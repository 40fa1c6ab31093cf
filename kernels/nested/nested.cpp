// Nested tensors (batches of tensors of different sizes) in the strided layout: PyTorch's
// implementations for the CPU, which call other operators. kernels/codegen/generate.py registers
// the implementations that CPU and CUDA share; CUDA has its own kernels for the operators here.
#include <ATen/ops/_native_multi_head_attention_native.h>
#include <ATen/ops/_nested_from_padded_native.h>
#include <ATen/ops/_nested_tensor_softmax_with_shape_native.h>
#include <ATen/ops/_nested_view_from_buffer_native.h>
#include <ATen/ops/bmm_native.h>
#include <ATen/ops/to_padded_tensor_native.h>
#include <torch/library.h>

#include "kernels/core/operators/registration.h"
#include "kernels/core/tensors/tensors.h"
#include "native/multi_head.h"
#include "native/nested.h"

namespace ocl {
namespace native {

OCL_SHARED("_nested_tensor_from_mask");
OCL_SHARED("_nested_tensor_from_mask_left_aligned");

// The host reads the sizes, strides and offsets; torch.load(map_location="ocl") puts them on ocl.
OCL_NATIVE("_nested_view_from_buffer", nested_view_from_buffer);
Tensor nested_view_from_buffer(const Tensor& buffer, const Tensor& sizes, const Tensor& strides,
                               const Tensor& offsets) {
  // PyTorch only asserts this in a constructor, but a file may contain anything.
  TORCH_CHECK(sizes.is_contiguous() && strides.is_contiguous() && offsets.dim() == 1 &&
                  sizes.sizes() == strides.sizes() && (sizes.dim() == 2 || sizes.dim() == 0) &&
                  offsets.size(0) == (sizes.dim() == 2 ? sizes.size(0) : 0),
              "_nested_view_from_buffer: sizes ", sizes.sizes(), ", strides ", strides.sizes(),
              " and offsets ", offsets.sizes(), " are of no nested tensor");
  for (const Tensor& each : {sizes, strides, offsets}) {
    expect_type(each, at::kLong, "_nested_view_from_buffer");
  }
  return at::native::_nested_view_from_buffer(buffer, sizes.cpu(), strides.cpu(), offsets.cpu());
}

OCL_NATIVE("_nested_from_padded", nested_from_padded);
Tensor nested_from_padded(const Tensor& padded, const Tensor& sizes, bool transposes_heads) {
  return at::native::nested_from_padded_generic(padded, sizes, transposes_heads);
}

}  // namespace native

namespace {

TORCH_LIBRARY_IMPL(aten, NestedTensorPrivateUse1, m) {
  m.impl("_native_multi_head_attention", TORCH_FN(at::native::native_multi_head_attention_cpu));
  m.impl("_nested_tensor_softmax_with_shape", TORCH_FN(at::native::NestedTensor_softmax_dropout));
  m.impl("_transform_bias_rescale_qkv", TORCH_FN(native::transform_bias_rescale_qkv));
  m.impl("bmm", TORCH_FN(at::native::bmm_nested));
  m.impl("to_padded_tensor", TORCH_FN(at::native::NestedTensor_to_padded_tensor_generic));
}

}  // namespace
}  // namespace ocl
