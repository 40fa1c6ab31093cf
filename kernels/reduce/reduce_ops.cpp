// The rows of reduce_table.h, and reductions that need more than a row: norms, and max of a tensor.
#include <ATen/native/ReduceAllOps.h>
#include <ATen/native/ReduceOps.h>
#include <ATen/native/ReduceOpsUtils.h>
#include <ATen/ops/abs.h>
#include <ATen/ops/amax.h>
#include <ATen/ops/amin.h>
#include <ATen/ops/empty.h>
#include <ATen/ops/ne.h>

#include <cmath>
#include <map>
#include <mutex>

#include "backend/base/error.h"
#include "kernels/core/operators/registration.h"
#include "kernels/reduce/reduce.h"
#include "native/reduce_ops.h"

namespace ocl {
namespace {

enum Row : int {
#define OCL_REDUCTION(ops, stub, neutral, step, merge, finish) k_##stub,
#include "kernels/reduce/reduce_table.h"
#undef OCL_REDUCTION
};

constexpr Reduction kRows[] = {
#define OCL_REDUCTION(ops, stub, neutral, step, merge, finish) \
  {name_of_stub(#stub), neutral, step, merge, finish},
#include "kernels/reduce/reduce_table.h"
#undef OCL_REDUCTION
};

// all and any test the input in its own type; the others accumulate in the output's type.
constexpr bool compares_input(int row) { return row == k_and_stub || row == k_or_stub; }

constexpr Reduction kComplexProduct{"prod", 1, "c_mul(acc, a)", "c_mul(x, y)", "acc"};

// The same iteration with another input that has the same shape.
at::TensorIterator with_input(const at::TensorIterator& iter, const at::Tensor& input) {
  return at::TensorIterator::reduce_op(const_cast<at::Tensor&>(iter.tensor(0)), input);
}

// Divides by a complex number, as PyTorch does on the CPU: infinities spread to both parts.
void mean_of_complex(at::TensorIterator& iter) {
  reduce(iter, kRows[k_sum_stub], std::nullopt, Parts::kKept);
  const at::Tensor& sums = iter.tensor(0);
  sums.div_(iter.numel() / sums.numel());
}

// Rounding errors of products near 1 do not cancel. float32's numbers above 1 are twice as far
// apart as those below 1, so many products lie near the middle between two numbers. Each partial
// product begins with 1 again. So products use double precision where the device has it.
ScalarType product_type(const at::TensorIterator& iter) {
  const ScalarType type = compute_type(iter.dtype(0));
  if (!device(iter.device(0).index()).properties().has_fp64) return type;
  if (type == ScalarType::Float) return ScalarType::Double;
  return type == ScalarType::ComplexFloat ? ScalarType::ComplexDouble : type;
}

template <int row>
void run_row(at::TensorIterator& iter) {
  if (c10::isComplexType(iter.dtype(1))) {
    if (row == k_mean_stub) return mean_of_complex(iter);
    if (row == k_prod_stub) return reduce(iter, kComplexProduct, product_type(iter));
    if (!compares_input(row)) return reduce(iter, kRows[row], std::nullopt, Parts::kKept);
    at::TensorIterator truths = with_input(iter, iter.tensor(1).ne(0));
    return reduce(truths, kRows[row], ScalarType::Bool);
  }
  std::optional<ScalarType> compute;
  if (compares_input(row)) compute = compute_type(iter.dtype(1));
  if (row == k_prod_stub) compute = product_type(iter);
  reduce(iter, kRows[row], compute);
}

constexpr Reduction kNormZero{"norm_0", 0, "acc + TRUTH(a)", "x + y", "acc"};
constexpr Reduction kNormOne{"norm_1", 0, "acc + fabs(a)", "x + y", "acc"};
constexpr Reduction kNormTwo{"norm_2", 0, "acc + a * a", "x + y", "sqrt(acc)"};
constexpr Reduction kNormMax{"norm_inf", 0, "MAX(acc, fabs(a))", "MAX(x, y)", "acc"};
constexpr Reduction kNormNan{"norm_nan", 0, "acc + fabs(a)", "x + y", "acc * NAN"};
constexpr Reduction kNormMin{"norm_neg_inf", INFINITY, "MIN(acc, fabs(a))", "MIN(x, y)", "acc"};

// The number as a literal of OpenCL C.
std::string text_of(double number) {
  if (std::isnan(number)) return "NAN";
  if (std::isinf(number)) return number > 0 ? "INFINITY" : "(-INFINITY)";
  char text[32];
  std::snprintf(text, sizeof(text), "%.17g", number);
  return text;
}

void norm(at::TensorIterator& iter, const c10::Scalar& order) {
  const double p = order.toDouble();
  const ScalarType compute = compute_type(iter.dtype(0));
  if (c10::isComplexType(iter.dtype(1))) {
    at::TensorIterator lengths = with_input(iter, iter.tensor(1).abs());
    return norm(lengths, order);
  }
  if (p == 0) return reduce(iter, kNormZero, compute);
  if (p == 1) return reduce(iter, kNormOne, compute);
  if (p == 2) return reduce(iter, kNormTwo, compute);
  if (p == INFINITY) return reduce(iter, kNormMax, compute);
  if (std::isnan(p)) return reduce(iter, kNormNan, compute);
  if (p == -INFINITY) return reduce(iter, kNormMin, compute);
  // Any other order becomes a constant of the program; a model has few such orders.
  const std::string number = text_of(compute == ScalarType::Double ? p : static_cast<float>(p));
  static std::mutex mutex;
  static std::map<std::string, std::pair<std::string, std::string>> texts;
  std::pair<std::string, std::string>* text = nullptr;
  {
    std::lock_guard lock(mutex);
    auto [found, added] = texts.try_emplace(number);
    if (added) {
      found->second = {str("acc + POW(fabs(a), (V)((T)", number, "))"),
                       str("pow(acc, (T)(1) / (T)", number, ")")};
    }
    text = &found->second;
  }
  reduce(iter, {"norm", 0, text->first.c_str(), "x + y", text->second.c_str()}, compute);
}

// The maximum of all elements. The result may have another type than the input; amax's may not.
void max_all(at::Tensor& result, const at::Tensor& self) {
  if (result.scalar_type() == self.scalar_type()) {
    at::amax_out(result, self);
  } else {
    result.copy_(at::amax(self));
  }
}

void min_all(at::Tensor& result, const at::Tensor& self) {
  if (result.scalar_type() == self.scalar_type()) {
    at::amin_out(result, self);
  } else {
    result.copy_(at::amin(self));
  }
}

// Whether the kernel converts elements to the type of the sum. A converted copy could take eight
// bytes for each one-byte element.
bool widens(ScalarType from, ScalarType to) {
  const auto is_integral = [](ScalarType type) {
    return c10::isIntegralType(type, /*includeBool=*/true);
  };
  const auto is_float = [](ScalarType type) {
    return c10::isReducedFloatingType(type) || type == ScalarType::Float ||
           type == ScalarType::Double;
  };
  return ((is_integral(from) && is_integral(to) && to != ScalarType::Bool) ||
          (is_float(from) && is_float(to))) &&
         c10::elementSize(from) < c10::elementSize(to);
}

constexpr Reduction kCount{"count_nonzero", 0, "acc + TRUTH(a)", "x + y", "acc"};

}  // namespace

namespace native {

OCL_STRUCTURED("sum.IntList_out", sum)
(const Tensor& self, at::OptionalIntArrayRef dim, bool keepdim, std::optional<ScalarType>,
 const Tensor& result) {
  const ScalarType in = self.scalar_type(), out = result.scalar_type();
  at::TensorIterator iter =
      at::meta::make_reduction(self, result, dim, keepdim, widens(in, out) ? in : out);
  if (iter.numel() == 0) {
    result.zero_();
  } else {
    run_row<k_sum_stub>(iter);
  }
}

OCL_NATIVE("count_nonzero.dim_IntList", count_nonzero);
OCL_COMPLEX("count_nonzero.dim_IntList");
Tensor count_nonzero(const Tensor& self, IntArrayRef dim) {
  if (!c10::isIntegralType(self.scalar_type(), /*includeBool=*/true) || self.numel() == 0) {
    return self.ne(0).sum(dim);
  }
  Tensor result = at::empty(at::meta::get_reduction_shape(self, dim, /*keepdim=*/false),
                            self.options().dtype(ScalarType::Long));
  at::TensorIterator iter =
      at::meta::make_reduction(self, result, dim, /*keepdim=*/false, self.scalar_type());
  reduce(iter, kCount);
  return result;
}

}  // namespace native
}  // namespace ocl

namespace at::native {

#define OCL_REDUCTION(ops, stub, neutral, step, merge, finish) \
  OCL_STUB(ops, stub, &ocl::run_row<ocl::k_##stub>)
#include "kernels/reduce/reduce_table.h"
#undef OCL_REDUCTION

OCL_COMPLEX("sum.IntList_out,sum.dim_IntList,mean.dim,mean.out,prod");
OCL_COMPLEX("all,any,norm,linalg_vector_norm");

OCL_STUB("norm,linalg_vector_norm", norm_stub, &ocl::norm)
OCL_STUB("max.default", max_all_stub, &ocl::max_all)
OCL_STUB("min.default", min_all_stub, &ocl::min_all)

}  // namespace at::native
