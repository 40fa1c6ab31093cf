// The rows of pointwise_table.h as kernels behind PyTorch's DispatchStubs.
#include <ATen/native/Activation.h>
#include <ATen/native/BinaryOps.h>
#include <ATen/native/Fill.h>
#include <ATen/native/Lerp.h>
#include <ATen/native/PointwiseOps.h>
#include <ATen/native/Pow.h>
#include <ATen/native/TensorCompare.h>
#include <ATen/native/UnaryOps.h>

#include "kernels/pointwise.h"
#include "kernels/registration.h"

namespace ocl {
namespace {

enum Row : int {
#define OCL_POINTWISE(ops, stub, expression) k_##stub,
#include "kernels/pointwise_table.h"
#undef OCL_POINTWISE
};

constexpr PointwiseOp kRows[] = {
#define OCL_POINTWISE(ops, stub, expression) {name_of_stub(#stub), expression},
#include "kernels/pointwise_table.h"
#undef OCL_POINTWISE
};

// A kernel of the stub's own signature: the iterator, then numbers that become s0, s1, ...
template <typename Function, int row>
struct Adapter;

template <typename Iterator, typename... Numbers, int row>
struct Adapter<void (*)(Iterator&, Numbers...), row> {
  static void run(Iterator& iter, Numbers... numbers) {
    const std::array<c10::Scalar, sizeof...(numbers)> scalars{c10::Scalar(numbers)...};
    pointwise(iter, kRows[row], scalars);
  }
};

constexpr PointwiseOp kFill{"fill", "C(s0)"};
constexpr PointwiseOp kWhere{"where", "a != C(0) ? b : c"};

void fill(at::TensorIterator& iter, const c10::Scalar& value) { pointwise(iter, kFill, {value}); }

// The condition's type takes no part in the promotion.
void where(at::TensorIterator& iter) { pointwise(iter, kWhere, {}, iter.dtype(0)); }

}  // namespace
}  // namespace ocl

namespace at::native {

#define OCL_POINTWISE(ops, stub, expression) \
  OCL_STUB(ops, stub, (&ocl::Adapter<stub##_DECLARE_DISPATCH_type::FnPtr, ocl::k_##stub>::run))
#include "kernels/pointwise_table.h"
#undef OCL_POINTWISE

OCL_STUB("fill_.Scalar,fill_.Tensor", fill_stub, &ocl::fill)
OCL_STUB("where.self", where_kernel, &ocl::where)
OCL_SHARED("relu,zero_");

}  // namespace at::native
