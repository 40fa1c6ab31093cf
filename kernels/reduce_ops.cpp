// The rows of reduce_table.h, and what needs more than a row: norms, argmax and max along a
// dimension.
#include <ATen/native/ReduceAllOps.h>
#include <ATen/native/ReduceOps.h>
#include <ATen/native/TensorCompare.h>
#include <ATen/ops/abs.h>
#include <ATen/ops/amax.h>
#include <ATen/ops/amin.h>
#include <ATen/ops/empty_like.h>
#include <ATen/ops/ne.h>

#include <cmath>
#include <map>
#include <mutex>

#include "backend/error.h"
#include "kernels/reduce.h"
#include "kernels/reduce_shape.h"
#include "kernels/registration.h"
#include "kernels/tensors.h"

namespace ocl {
namespace {

enum Row : int {
#define OCL_REDUCTION(ops, stub, init, step, merge, finish) k_##stub,
#include "kernels/reduce_table.h"
#undef OCL_REDUCTION
};

constexpr Reduction kRows[] = {
#define OCL_REDUCTION(ops, stub, init, step, merge, finish) \
  {name_of_stub(#stub), init, step, merge, finish},
#include "kernels/reduce_table.h"
#undef OCL_REDUCTION
};

// all and any look at the input in its own type; the others accumulate in the output's.
constexpr bool compares_input(int row) { return row == k_and_stub || row == k_or_stub; }

constexpr Reduction kComplexProduct{"prod", "COMPLEX(1, 0)", "c_mul(acc, a)", "c_mul(x, y)", "acc"};

// The reduction of an iteration, of another input of the same shape.
at::TensorIterator with_input(const at::TensorIterator& iter, const at::Tensor& input) {
  return at::TensorIterator::reduce_op(const_cast<at::Tensor&>(iter.tensor(0)), input);
}

template <int row>
void run_row(at::TensorIterator& iter) {
  if (c10::isComplexType(iter.dtype(1))) {
    if (row == k_prod_stub) return reduce(iter, kComplexProduct);
    if (!compares_input(row)) return reduce(iter, kRows[row], std::nullopt, Parts::kKept);
    at::TensorIterator truths = with_input(iter, iter.tensor(1).ne(0));
    return reduce(truths, kRows[row], ScalarType::Bool);
  }
  reduce(iter, kRows[row],
         compares_input(row) ? std::optional(compute_type(iter.dtype(1))) : std::nullopt);
}

constexpr Reduction kNormZero{"norm_0", "0", "acc + TRUTH(a)", "x + y", "acc"};
constexpr Reduction kNormOne{"norm_1", "0", "acc + fabs(a)", "x + y", "acc"};
constexpr Reduction kNormTwo{"norm_2", "0", "acc + a * a", "x + y", "sqrt(acc)"};
constexpr Reduction kNormMax{"norm_inf", "0", "MAX(acc, fabs(a))", "MAX(x, y)", "acc"};
constexpr Reduction kNormMin{"norm_neg_inf", "INFINITY", "MIN(acc, fabs(a))", "MIN(x, y)", "acc"};

void norm(at::TensorIterator& iter, const c10::Scalar& order) {
  const double p = order.toDouble();
  const ScalarType compute = compute_type(iter.dtype(0));
  if (c10::isComplexType(iter.dtype(1))) {
    if (p == 2) return reduce(iter, kNormTwo, compute, Parts::kReduced);
    at::TensorIterator lengths = with_input(iter, iter.tensor(1).abs());
    return norm(lengths, order);
  }
  if (p == 0) return reduce(iter, kNormZero, compute);
  if (p == 1) return reduce(iter, kNormOne, compute);
  if (p == 2) return reduce(iter, kNormTwo, compute);
  if (p == INFINITY) return reduce(iter, kNormMax, compute);
  if (p == -INFINITY) return reduce(iter, kNormMin, compute);
  // Any other order: the number becomes part of the program; such orders are few in a model.
  static std::mutex mutex;
  static std::map<double, std::pair<std::string, std::string>> texts;
  std::pair<std::string, std::string>* text = nullptr;
  {
    std::lock_guard lock(mutex);
    auto [found, added] = texts.try_emplace(p);
    char number[32];
    std::snprintf(number, sizeof(number), "%.17g", p);
    if (added) {
      found->second = {str("acc + POW(fabs(a), (V)((T)", number, "))"),
                       str("pow(acc, (T)(1) / (T)", number, ")")};
    }
    text = &found->second;
  }
  reduce(iter, {"norm", "0", text->first.c_str(), "x + y", text->second.c_str()}, compute);
}

// Positions, and values if asked for: both with the shape's output strides, in elements.
void arg_reduce(Device& device, ScalarType type, const ReduceShape& shape, bool greatest,
                const BufferView& in, const BufferView& indices, const BufferView* values) {
  check_device_has(device, type, greatest ? "max" : "min");
  static const char site = 0;
  KernelKey key{reinterpret_cast<uint64_t>(&site)};
  key.by[0] = static_cast<uint64_t>(type);
  key.by[1] = uint64_t{greatest} << 1 | uint64_t{values != nullptr};
  key.by[2] = shape.kept.size();
  const Kernel& kernel = find_kernel(device, key, [&] {
    Defines defines = compute_defines(compute_type(type));
    defines.set("IN", dtype_name(type))
        .set("KEPT", static_cast<int64_t>(shape.kept.size()))
        .set("REDUCED", 1)
        .set("BETTER(x, y)", greatest ? "((x) > (y))" : "((x) < (y))")
        .set("FINISH(x)", "(x)");
    if (values) defines.set("WITH_VALUES", 1);
    return KernelSource{"arg_reduce.cl", "arg_reduce", defines};
  });
  const size_t outputs = shape.outputs();
  const size_t items = std::min(outputs, device.parameters().tasks);
  const size_t per_item = (outputs + items - 1) / items;
  Arguments arguments(current_stream(device.index()), kernel);
  arguments.add(in).add(indices);
  if (values) arguments.add(*values);
  shape.bind(arguments);
  arguments.add(uint64_t{per_item}).enqueue({(outputs + per_item - 1) / per_item}, {});
}

template <bool greatest>
void arg_by_iterator(at::TensorIterator& iter) {
  const ReduceShape shape = ReduceShape::of(iter);
  TORCH_INTERNAL_ASSERT(shape.reduced.size() == 1);
  arg_reduce(device(iter.device(0).index()), iter.dtype(1), shape, greatest,
             resolve(iter.data_ptr(1)), resolve(iter.data_ptr(0)), nullptr);
}

template <bool greatest>
void value_and_index(const at::Tensor& values, const at::Tensor& indices, const at::Tensor& self,
                     int64_t dim, bool keepdim) {
  if (self.numel() == 0) return;
  // The kernel writes contiguous results; a dimension of size 1 does not matter to that.
  const bool direct = values.is_contiguous() && indices.is_contiguous();
  const auto dense = [&](const at::Tensor& t) {
    return direct ? t : at::empty_like(t, at::MemoryFormat::Contiguous);
  };
  const at::Tensor dense_values = dense(values), dense_indices = dense(indices);
  const BufferView values_view = view(dense_values);
  arg_reduce(ocl_device(self), self.scalar_type(),
             ReduceShape::of_dimension(self, dim, sizeof(int64_t)), greatest, view(self),
             view(dense_indices), &values_view);
  if (!direct) {
    values.copy_(dense_values);
    indices.copy_(dense_indices);
  }
}

void max_all(at::Tensor& result, const at::Tensor& self) { at::amax_out(result, self); }
void min_all(at::Tensor& result, const at::Tensor& self) { at::amin_out(result, self); }

}  // namespace
}  // namespace ocl

namespace at::native {

#define OCL_REDUCTION(ops, stub, init, step, merge, finish) \
  OCL_STUB(ops, stub, &ocl::run_row<ocl::k_##stub>)
#include "kernels/reduce_table.h"
#undef OCL_REDUCTION

OCL_COMPLEX("sum.IntList_out,sum.dim_IntList,mean.dim,mean.out,prod");
OCL_COMPLEX("all,any,norm,linalg_vector_norm");

OCL_STUB("norm,linalg_vector_norm", norm_stub, &ocl::norm)
OCL_STUB("argmax", argmax_stub, &ocl::arg_by_iterator<true>)
OCL_STUB("argmin", argmin_stub, &ocl::arg_by_iterator<false>)
OCL_STUB("max.dim", max_stub, &ocl::value_and_index<true>)
OCL_STUB("min.dim", min_stub, &ocl::value_and_index<false>)
OCL_STUB("max.default", max_all_stub, &ocl::max_all)
OCL_STUB("min.default", min_all_stub, &ocl::min_all)

}  // namespace at::native
