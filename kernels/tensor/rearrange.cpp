// Operators that are element-wise copies between views: flip, masked_fill.
#include <ATen/MemoryOverlap.h>
#include <ATen/native/IndexKernel.h>

#include "kernels/core/operators/registration.h"
#include "kernels/pointwise/pointwise.h"
#include "native/rearrange.h"

namespace ocl {
namespace {

constexpr PointwiseOp kFlip{"flip", "a", kAnyType, "a"};
constexpr PointwiseOp kMaskedFill{"masked_fill", "b != C(0) ? C(s0) : a", kNumbersFit,
                                  "b.x != 0 ? s0 : a"};
constexpr PointwiseOp kMaskedFillTensor{"masked_fill", "b != C(0) ? c : a", kAnyType,
                                        "b.x != 0 ? c : a"};

void flip(at::TensorIterator& iter, bool /*quantized*/) {
  pointwise(iter, kFlip, {}, iter.dtype(0));
}

// Fills with `value`, or with the number if `value` is undefined.
void masked_fill(at::Tensor self, at::Tensor mask, const at::Tensor& value,
                 const c10::Scalar& number) {
  TORCH_CHECK(mask.scalar_type() == ScalarType::Bool,
              "masked_fill_ only supports boolean masks, but got mask with dtype ",
              mask.scalar_type());
  if (at::has_internal_overlap(self) == at::MemOverlap::Yes) {
    TORCH_WARN(
        "Use of masked_fill_ on expanded tensors is deprecated. Please clone() the tensor before "
        "performing this operation. This also applies to advanced indexing e.g. tensor[mask] = "
        "scalar");
    // The kernel writes each element once; it is filled if the mask is set at any of its positions.
    mask = mask.expand(self.sizes());
    for (int64_t d = 0; d < self.dim(); ++d) {
      if (self.stride(d) != 0 || self.size(d) < 2) continue;
      self = self.narrow(d, 0, 1);
      mask = mask.any(d, /*keepdim=*/true);
    }
  }
  at::assert_no_partial_overlap(self, mask);
  at::TensorIteratorConfig config;
  config.set_check_mem_overlap(false)
      .check_all_same_dtype(false)
      .resize_outputs(false)
      .add_output(self)
      .add_const_input(self)
      .add_const_input(mask);
  if (value.defined()) config.add_const_input(value);
  at::TensorIterator iter = config.build();
  if (!value.defined() && iter.numel() == 0) return check_fits(number, self.scalar_type());
  if (value.defined()) {
    pointwise(iter, kMaskedFillTensor, {}, self.scalar_type());
  } else {
    pointwise(iter, kMaskedFill, {number}, self.scalar_type());
  }
}

}  // namespace

namespace native {

OCL_NATIVE("masked_fill_.Scalar", masked_fill_scalar_);
OCL_COMPLEX("masked_fill_.Scalar,masked_fill_.Tensor");
Tensor& masked_fill_scalar_(Tensor& self, const Tensor& mask, const Scalar& value) {
  masked_fill(self, mask, {}, value);
  return self;
}

OCL_NATIVE("masked_fill_.Tensor", masked_fill_tensor_);
Tensor& masked_fill_tensor_(Tensor& self, const Tensor& mask, const Tensor& value) {
  TORCH_CHECK(value.dim() == 0,
              "masked_fill_ only supports a 0-dimensional value tensor, but got tensor with ",
              value.dim(), " dimension(s).");
  // Reads and checks a number that may not fit, which waits for the device.
  const bool fits =
      c10::promoteTypes(value.scalar_type(), self.scalar_type()) == self.scalar_type();
  if (value.is_cpu() || !fits) {
    masked_fill(self, mask, {}, value.item());
  } else {
    masked_fill(self, mask, value, 0);
  }
  return self;
}

}  // namespace native
}  // namespace ocl

namespace at::native {

OCL_STUB("flip", flip_stub, &ocl::flip)
OCL_COMPLEX("flip");

}  // namespace at::native
