// Distances between rows: cdist and pdist, and their gradients.
#include <ATen/native/Distance.h>

#include "kernels/core/grids/grid.h"
#include "kernels/core/operators/registration.h"
#include "kernels/core/operators/relations.h"
#include "kernels/core/tensors/tensors.h"
#include "kernels/core/types/dtype.h"

namespace ocl {
namespace {

constexpr size_t kPowerCost = 16;  // cost of an element, in additions

const char* norm_define(double p) {
  if (p == 0) return "ZERO";
  if (p == 1) return "ONE";
  if (p == 2) return "TWO";
  if (std::isinf(p)) return "INFINITE";
  return p < 2 ? "BELOW_TWO" : "ABOVE_TWO";
}

struct RowDistance {
  const char *name, *norm;
  ScalarType type;
  bool pairs;

  KernelSource source(Device& device) const {
    Defines defines = compute_defines(compute_type(type));
    define_grid(defines, device);
    defines.set("DT", dtype_name(type)).set(norm, 1);
    if (pairs) defines.set("PAIRS", 1);
    return {"distance.cl", name, defines};
  }
};

const Kernel& kernel_of(Device& device, const char* name, ScalarType type, double p, bool pairs) {
  return find_kernel(device, RowDistance{name, norm_define(p), type, pairs});
}

size_t cost_of(double p, uint64_t elements) {
  const bool simple = p == 0 || p == 1 || p == 2 || std::isinf(p);
  return elements * (simple ? 1 : kPowerCost);
}

// The work of a launch, in multiply-adds.
double work_of(int64_t results, double p, uint64_t elements) {
  return static_cast<double>(results) * static_cast<double>(cost_of(p, elements));
}

// x and y are batches of matrices, whose rows are compared. With `pairs` both are the same single
// matrix.
void forward(const at::Tensor& result, const at::Tensor& x_any, const at::Tensor& y_any,
             double order, bool pairs) {
  static constexpr const char* kName = "row_distance";
  if (result.numel() == 0) return;
  Device& device = ocl_device(result);
  const ScalarType type = result.scalar_type();
  const double p = converted(order, type);
  const char* op = pairs ? "pdist" : "cdist";
  check_device_has(device, type, op);
  for (const at::Tensor& each : {x_any, y_any}) expect_type(each, type, op);
  const at::Tensor x = x_any.contiguous(), y = y_any.contiguous();
  const DenseOutput out(result);
  const uint64_t size = x.size(-1), x_rows = x.size(-2), y_rows = y.size(-2);
  const Relations relations(op);
  if (pairs) relations.sizes("input", x, {x.size(-2), x.size(-1)});
  const uint64_t units = pairs ? x_rows : result.numel() / y_rows;
  const UnitGrid grid = unit_grid(device, units, y_rows, cost_of(p, size));
  Arguments arguments(stream_of(result), kernel_of(device, kName, type, p, pairs));
  arguments.add(view(x)).add(view(y)).add(view(out.tensor())).add(units).add(y_rows);
  arguments.add(grid.per_item).add(x_rows).add(size);
  add_number(arguments, p, compute_type(type));
  arguments.enqueue(grid.global, grid.local, work_of(result.numel(), p, size));
  out.finish();
}

void backward(const at::Tensor& result, const at::Tensor& grad_any, const at::Tensor& x_any,
              const at::Tensor& y_any, double order, const at::Tensor& distances_any, bool pairs) {
  static constexpr const char* kName = "row_distance_backward";
  if (result.numel() == 0) return;
  if (distances_any.numel() == 0) {  // no pairs, for example of a single row
    result.zero_();
    return;
  }
  Device& device = ocl_device(result);
  const ScalarType type = result.scalar_type();
  const double p = converted(order, type);
  const char* op = pairs ? "pdist_backward" : "cdist_backward";
  check_device_has(device, type, op);
  for (const at::Tensor& each : {grad_any, x_any, y_any, distances_any}) {
    expect_type(each, type, op);
  }
  const at::Tensor grad = grad_any.contiguous(), x = x_any.contiguous(), y = y_any.contiguous(),
                   distances = distances_any.contiguous();
  const DenseOutput out(result);
  const uint64_t size = x.size(-1), x_rows = x.size(-2), y_rows = y.size(-2);
  const uint64_t units = result.numel() / size;
  const int64_t rows = x.size(-2);
  const Relations relations(op);
  if (pairs) {
    relations.sizes("self", x, {rows, x.size(-1)});
    relations.count("grad", grad, {rows * (rows - 1) / 2});
  } else {
    relations.count("grad", grad, {result.numel() / x.size(-1), y.size(-2)});
    TORCH_CHECK(x.size(-1) == y.size(-1), op, ": rows of ", x.size(-1), " and of ", y.size(-1),
                " numbers");
  }
  relations.count("distances", distances, {grad.numel()});
  const UnitGrid grid = unit_grid(device, units, size, cost_of(p, y_rows));
  Arguments arguments(stream_of(result), kernel_of(device, kName, type, p, pairs));
  arguments.add(view(grad)).add(view(x)).add(view(y)).add(view(distances)).add(view(out.tensor()));
  arguments.add(units).add(size).add(grid.per_item).add(x_rows).add(y_rows);
  add_number(arguments, p, compute_type(type));
  arguments.enqueue(grid.global, grid.local, work_of(result.numel(), p, y_rows));
  out.finish();
}

void cdist(at::Tensor& result, const at::Tensor& x1, const at::Tensor& x2, const double p) {
  forward(result, x1, x2, p, false);
}

void cdist_backward(at::Tensor& result, const at::Tensor& grad, const at::Tensor& x1,
                    const at::Tensor& x2, const double p, const at::Tensor& distances) {
  backward(result, grad, x1, x2, p, distances, false);
}

void pdist(at::Tensor& result, const at::Tensor& self, const double p) {
  forward(result, self, self, p, true);
}

void pdist_backward(at::Tensor& result, const at::Tensor& grad, const at::Tensor& self,
                    const double p, const at::Tensor& distances) {
  backward(result, grad, self, self, p, distances, true);
}

}  // namespace
}  // namespace ocl

namespace at::native {

OCL_STUB("_cdist_forward", cdist_stub, &ocl::cdist)
OCL_STUB("_cdist_backward", cdist_backward_stub, &ocl::cdist_backward)
OCL_STUB("_pdist_forward", pdist_forward_stub, &ocl::pdist)
OCL_STUB("_pdist_backward", pdist_backward_stub, &ocl::pdist_backward)

}  // namespace at::native
