// Margin losses against one class (multi_margin_loss) or several (multilabel_margin_loss).
#include <ATen/core/Reduction.h>
#include <ATen/native/LossMulti.h>
#include <ATen/ops/empty.h>

#include "kernels/core/grids/grid.h"
#include "kernels/core/operators/check_range.h"
#include "kernels/core/operators/registration.h"
#include "kernels/core/tensors/tensors.h"
#include "kernels/core/types/dtype.h"
#include "native/margin_loss.h"

namespace ocl {
namespace {

using at::Tensor;
using OptionalTensor = std::optional<Tensor>;

struct Rows {
  int64_t rows = 0, classes = 0;
  int64_t p = 1;
};

struct MarginLoss {
  const char* kernel;
  ScalarType type;
  bool squared, weighted;

  KernelSource source(Device& device) const {
    Defines defines = compute_defines(compute_type(type));
    define_grid(defines, device);
    defines.set("IN", dtype_name(type));
    if (squared) defines.set("SQUARED", 1);
    if (weighted) defines.set("WEIGHTED", 1);
    return {"margin_loss.cl", kernel, defines};
  }
};

int target_site() {
  static const int site =
      fault_site({"aten::multi_margin_loss", FaultClass::kRuntime, "target", "classes"});
  return site;
}

void check_types(const char* op, const Tensor& self, const Tensor& target) {
  check_floating(ocl_device(self), self.scalar_type(), op);
  check_device_has(ocl_device(self), self.scalar_type(), op);
  TORCH_CHECK(target.scalar_type() == at::kLong, "expected scalar type Long but found ",
              target.scalar_type());
}

// Stores the reduced losses in `out`; `each` holds the losses of the rows.
void give_losses(const Tensor& each, int64_t reduction, int64_t ndim, const Tensor& out) {
  if (reduction == at::Reduction::Mean) {
    out.copy_(each.mean());
  } else if (reduction == at::Reduction::Sum || ndim <= 1) {
    out.copy_(each.sum());
  } else {
    out.copy_(each);
  }
}

// The gradient of the loss of each row.
Tensor gradient_of_rows(const Tensor& grad, int64_t reduction, int64_t rows) {
  const Tensor each = grad.reshape({-1}).expand({rows});
  return reduction == at::Reduction::Mean ? each.div(rows) : each.contiguous();
}

Rows check_multi(const Tensor& self, const Tensor& target, const c10::Scalar& p,
                 const OptionalTensor& weight) {
  Rows rows;
  rows.p = p.toLong();
  TORCH_CHECK(rows.p == 1 || rows.p == 2, "only p == 1 and p == 2 supported");
  at::native::multi_margin_loss_shape_check(rows.rows, rows.classes, self.dim(), self, target,
                                            weight);
  check_types("multi_margin_loss", self, target);
  if (weight && weight->defined()) expect_type(*weight, self.scalar_type(), "multi_margin_loss");
  return rows;
}

// `cost`: additions per row.
void enqueue_rows(Arguments& arguments, const Device& device, const Rows& rows, int64_t cost) {
  const auto count = static_cast<size_t>(rows.rows);
  const UnitGrid grid = unit_grid(device, count, 1, static_cast<size_t>(cost));
  arguments.add(static_cast<uint64_t>(rows.rows))
      .add(static_cast<uint64_t>(rows.classes))
      .add(grid.per_item)
      .add(FaultArgument{target_site()})
      .enqueue(grid.global, grid.local);
}

Rows check_multilabel(const Tensor& self, const Tensor& target) {
  Rows rows;
  at::native::multilabel_margin_loss_shape_check(rows.rows, rows.classes, self.dim(), self, target);
  check_types("multilabel_margin_loss", self, target);
  // Checks targets after the end of the list, too, as on the CPU.
  static const int site =
      fault_site({"aten::multilabel_margin_loss", FaultClass::kRuntime, "target", "classes"});
  check_range(target, {-1, static_cast<double>(rows.classes - 1), rows.classes, site});
  return rows;
}

}  // namespace

namespace native {

OCL_NATIVE("multi_margin_loss.out", multi_margin_loss_out);
Tensor& multi_margin_loss_out(const Tensor& self, const Tensor& target, const c10::Scalar& p,
                              const c10::Scalar& margin, const OptionalTensor& weight,
                              int64_t reduction, Tensor& out) {
  const Rows rows = check_multi(self, target, p, weight);
  expect_type(out, self.scalar_type(), "multi_margin_loss");
  const bool each = reduction == at::Reduction::None && target.dim() > 0;
  if (each) {
    out.resize_({rows.rows});
  } else {
    out.resize_({});
  }
  if (self.numel() == 0) return out.zero_();
  Device& device = ocl_device(self);
  const ScalarType type = self.scalar_type();
  const Tensor x = self.contiguous(), labels = target.contiguous(), weights = dense(weight),
               losses = at::empty({rows.rows}, self.options());
  Arguments arguments(
      stream_of(x),
      find_kernel(device, MarginLoss{"multi_margin", type, rows.p == 2, weights.defined()}));
  arguments.add(view(x));
  if (weights.defined()) arguments.add(view(weights));
  arguments.add(view(labels)).add(view(losses));
  add_number(arguments, margin, compute_type(type));
  enqueue_rows(arguments, device, rows, 4 * rows.classes);
  give_losses(losses, reduction, each ? 2 : 1, out);
  return out;
}

OCL_NATIVE("multi_margin_loss", multi_margin_loss);
Tensor multi_margin_loss(const Tensor& self, const Tensor& target, const c10::Scalar& p,
                         const c10::Scalar& margin, const OptionalTensor& weight,
                         int64_t reduction) {
  Tensor out = at::empty({0}, self.options());
  return multi_margin_loss_out(self, target, p, margin, weight, reduction, out);
}

OCL_NATIVE("multi_margin_loss_backward.grad_input", multi_margin_loss_backward_out);
Tensor& multi_margin_loss_backward_out(const Tensor& grad_output, const Tensor& self,
                                       const Tensor& target, const c10::Scalar& p,
                                       const c10::Scalar& margin, const OptionalTensor& weight,
                                       int64_t reduction, Tensor& grad_input) {
  const Rows rows = check_multi(self, target, p, weight);
  expect_type(grad_output, self.scalar_type(), "multi_margin_loss_backward");
  grad_input.resize_as_(self);
  if (self.numel() == 0) return grad_input;
  Device& device = ocl_device(self);
  const ScalarType type = self.scalar_type();
  const Tensor x = self.contiguous(), labels = target.contiguous(), weights = dense(weight),
               grad = gradient_of_rows(grad_output, reduction, rows.rows);
  const DenseOutput out(grad_input);
  Arguments arguments(stream_of(x),
                      find_kernel(device, MarginLoss{"multi_margin_backward", type, rows.p == 2,
                                                     weights.defined()}));
  arguments.add(view(grad)).add(view(x));
  if (weights.defined()) arguments.add(view(weights));
  arguments.add(view(labels)).add(view(out.tensor()));
  add_number(arguments, margin, compute_type(type));
  enqueue_rows(arguments, device, rows, 4 * rows.classes);
  out.finish();
  return grad_input;
}

OCL_NATIVE("multi_margin_loss_backward", multi_margin_loss_backward);
Tensor multi_margin_loss_backward(const Tensor& grad_output, const Tensor& self,
                                  const Tensor& target, const c10::Scalar& p,
                                  const c10::Scalar& margin, const OptionalTensor& weight,
                                  int64_t reduction) {
  Tensor grad_input = at::empty({0}, self.options());
  return multi_margin_loss_backward_out(grad_output, self, target, p, margin, weight, reduction,
                                        grad_input);
}

OCL_NATIVE("multilabel_margin_loss_forward.output", multilabel_margin_loss_forward_out);
std::tuple<Tensor&, Tensor&> multilabel_margin_loss_forward_out(const Tensor& self,
                                                                const Tensor& target,
                                                                int64_t reduction, Tensor& output,
                                                                Tensor& is_target) {
  const Rows rows = check_multilabel(self, target);
  expect_type(output, self.scalar_type(), "multilabel_margin_loss");
  if (reduction == at::Reduction::None && target.dim() > 1) {
    output.resize_({rows.rows});
  } else {
    output.resize_({});
  }
  is_target.resize_as_(target);
  if (self.numel() == 0) return {output.zero_(), is_target};
  Device& device = ocl_device(self);
  const Tensor x = self.contiguous(), labels = target.contiguous(),
               losses = at::empty({rows.rows}, self.options());
  const DenseOutput marks(is_target);
  Arguments arguments(
      stream_of(x),
      find_kernel(device, MarginLoss{"multilabel_margin", self.scalar_type(), false, false}));
  arguments.add(view(x)).add(view(labels)).add(view(marks.tensor())).add(view(losses));
  enqueue_rows(arguments, device, rows, rows.classes * rows.classes);
  marks.finish();
  give_losses(losses, reduction, target.dim(), output);
  return {output, is_target};
}

OCL_NATIVE("multilabel_margin_loss_forward", multilabel_margin_loss_forward);
std::tuple<Tensor, Tensor> multilabel_margin_loss_forward(const Tensor& self, const Tensor& target,
                                                          int64_t reduction) {
  Tensor output = at::empty({0}, self.options()), is_target = at::empty({0}, self.options());
  multilabel_margin_loss_forward_out(self, target, reduction, output, is_target);
  return {output, is_target};
}

OCL_NATIVE("multilabel_margin_loss_backward.grad_input", multilabel_margin_loss_backward_out);
Tensor& multilabel_margin_loss_backward_out(const Tensor& grad_output, const Tensor& self,
                                            const Tensor& target, int64_t reduction,
                                            const Tensor& is_target, Tensor& grad_input) {
  const Rows rows = check_multilabel(self, target);
  TORCH_CHECK(is_target.sizes() == target.sizes(),
              "inconsistent is_target size: ", is_target.sizes(),
              " for target of size: ", target.sizes());
  for (const Tensor& each : {grad_output, is_target}) {
    expect_type(each, self.scalar_type(), "multilabel_margin_loss_backward");
  }
  grad_input.resize_as_(self);
  if (self.numel() == 0) return grad_input;
  Device& device = ocl_device(self);
  const ScalarType type = self.scalar_type();
  const Tensor x = self.contiguous(), labels = target.contiguous(), marks = is_target.contiguous(),
               grad = gradient_of_rows(grad_output, reduction, rows.rows),
               sums = at::empty({rows.rows, rows.classes}, x.options().dtype(compute_type(type)));
  const DenseOutput out(grad_input);
  Arguments arguments(stream_of(x),
                      find_kernel(device, MarginLoss{"multilabel_backward", type, false, false}));
  arguments.add(view(grad)).add(view(x)).add(view(labels)).add(view(marks));
  arguments.add(view(sums)).add(view(out.tensor()));
  enqueue_rows(arguments, device, rows, rows.classes * rows.classes);
  out.finish();
  return grad_input;
}

OCL_NATIVE("multilabel_margin_loss_backward", multilabel_margin_loss_backward);
Tensor multilabel_margin_loss_backward(const Tensor& grad_output, const Tensor& self,
                                       const Tensor& target, int64_t reduction,
                                       const Tensor& is_target) {
  Tensor grad_input = at::empty({0}, self.options());
  return multilabel_margin_loss_backward_out(grad_output, self, target, reduction, is_target,
                                             grad_input);
}

}  // namespace native
}  // namespace ocl
