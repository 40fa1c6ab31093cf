// Negative log-likelihood losses: for rows of classes, and for classes per pixel (nll_loss2d).
#include <ATen/ceil_div.h>
#include <ATen/core/Reduction.h>
#include <ATen/ops/empty.h>
#include <ATen/ops/empty_like.h>

#include "kernels/core/grids/grid.h"
#include "kernels/core/operators/registration.h"
#include "kernels/core/tensors/tensors.h"
#include "kernels/core/types/dtype.h"
#include "native/loss.h"

namespace ocl {
namespace {

constexpr size_t kSamplesPerItem = 256;  // the fewest samples of a partial sum
constexpr size_t kGpuItems = 1024;       // the most partial sums; one work-item joins them

// Converts the arguments to the kernels' form: x is [batch][classes][inner], all are contiguous.
struct Nll {
  at::Tensor target, weight;
  int64_t reduction;
  int64_t ignore;
  size_t samples = 0, inner = 1;
  int64_t classes = 0;
};

Nll make_nll(const at::Tensor& x, const at::Tensor& target, const at::Tensor& weight,
             int64_t reduction, int64_t ignore) {
  check_floating(ocl_device(x), x.scalar_type(), "nll_loss");
  const ScalarType label = target.scalar_type();
  TORCH_CHECK(label == ScalarType::Long || label == ScalarType::Byte,
              "expected scalar type Long but found ", label);
  TORCH_CHECK(!weight.defined() || weight.scalar_type() == x.scalar_type(),
              "nll_loss: self and weight must have the same dtype, but got ", x.scalar_type(),
              " and ", weight.scalar_type(), " (on ", ocl_device(x).label(), ")");
  Nll nll{target.to(ScalarType::Long).contiguous(), weight.defined() ? weight.contiguous() : weight,
          reduction, ignore};
  nll.samples = static_cast<size_t>(target.numel());
  nll.inner = x.dim() == 4 ? static_cast<size_t>(x.size(2) * x.size(3)) : 1;
  nll.classes = x.dim() == 1 ? x.size(0) : x.size(1);
  // With one sample and no batch dimension, "none" is the same as a sum.
  if (x.dim() == 1 && reduction == at::Reduction::None) nll.reduction = at::Reduction::Sum;
  return nll;
}

struct NllLoss {
  const char* kernel;
  ScalarType type;
  bool backward, weighted;
  int64_t reduction;

  KernelSource source(Device&) const {
    Defines defines = compute_defines(compute_type(type));
    defines.set("IN", dtype_name(type));
    if (backward) defines.set("BACKWARD", 1);
    if (weighted) defines.set("WEIGHTED", 1);
    if (reduction == at::Reduction::None) defines.set("EACH", 1);
    if (reduction == at::Reduction::Mean) defines.set("MEAN", 1);
    return {"nll_loss.cl", kernel, defines};
  }
};

size_t samples_per_item(const Device& device, size_t samples) {
  const size_t items =
      device.family() == KernelFamily::kCpu ? device.parameters().tasks : kGpuItems;
  return std::max(kSamplesPerItem, at::ceil_div(samples, items));
}

// Samples of a work-item that does not sum them. Adjacent items of a GPU read adjacent samples.
size_t samples_per_writer(const Device& device, size_t samples) {
  return device.family() == KernelFamily::kGpu ? 1 : samples_per_item(device, samples);
}

void enqueue_items(Arguments& arguments, size_t samples, size_t per_item, size_t most = SIZE_MAX) {
  const size_t group = std::min(arguments.group(), most);
  arguments.enqueue({at::round_up(at::ceil_div(samples, per_item), group)}, {group});
}

void add_targets(Arguments& arguments, const Nll& nll, size_t per_item) {
  static const int site = fault_site({"aten::nll_loss", FaultClass::kIndex, "Target", "classes"});
  arguments.add(view(nll.target))
      .add(uint64_t{nll.samples})
      .add(nll.classes)
      .add(uint64_t{nll.inner})
      .add(nll.ignore)
      .add(uint64_t{per_item})
      .add(FaultArgument{site});
}

// Computes `out` and `total_weight`, which are contiguous.
void forward(const at::Tensor& x_any, const Nll& nll, const at::Tensor& out,
             const at::Tensor& total_weight) {
  static constexpr const char *kEach = "nll_each", *kPartial = "nll_partial",
                              *kFinish = "nll_finish";
  const ScalarType type = x_any.scalar_type();
  Device& device = ocl_device(x_any);
  check_device_has(device, type, "nll_loss");
  if (nll.reduction == at::Reduction::None) total_weight.zero_();
  if (nll.samples == 0) {
    if (nll.reduction == at::Reduction::None) return;
    out.fill_(nll.reduction == at::Reduction::Mean ? NAN : 0.0);
    total_weight.zero_();
    return;
  }
  const at::Tensor x = x_any.contiguous();
  const bool each = nll.reduction == at::Reduction::None;
  const size_t per_item =
      each ? samples_per_writer(device, nll.samples) : samples_per_item(device, nll.samples);
  const size_t items = at::ceil_div(nll.samples, per_item);
  at::Tensor sums;
  if (!each) {
    sums = at::empty({static_cast<int64_t>(items), 2},
                     x.options().dtype(compute_type(type)).memory_format(std::nullopt));
  }
  Stream& stream = stream_of(x);
  const auto find = [&](const char* kernel) -> const Kernel& {
    return find_kernel(device, NllLoss{kernel, type, false, nll.weight.defined(), nll.reduction});
  };
  Arguments arguments(stream, find(each ? kEach : kPartial));
  arguments.add(view(x));
  if (nll.weight.defined()) arguments.add(view(nll.weight));
  arguments.add(view(each ? out : sums));
  add_targets(arguments, nll, per_item);
  if (each) return enqueue_items(arguments, nll.samples, per_item);
  enqueue_items(arguments, nll.samples, per_item, kFewItemsGroup);
  launch(stream, find(kFinish), {1}, {1}, view(sums), view(out), view(total_weight),
         uint64_t{items});
}

// Writes a contiguous gradient.
void backward(const at::Tensor& grad_any, const Nll& nll, const at::Tensor& total_weight,
              const at::Tensor& grad_input) {
  static constexpr const char* kBackward = "nll_backward";
  grad_input.zero_();
  if (nll.samples == 0) return;
  Device& device = ocl_device(grad_input);
  check_device_has(device, grad_input.scalar_type(), "nll_loss_backward");
  for (const at::Tensor& each : {grad_any, total_weight}) {
    expect_type(each, grad_input.scalar_type(), "nll_loss_backward");
  }
  const at::Tensor grad = grad_any.contiguous();
  const size_t per_item = samples_per_writer(device, nll.samples);
  Arguments arguments(stream_of(grad_input),
                      find_kernel(device, NllLoss{kBackward, grad_input.scalar_type(), true,
                                                  nll.weight.defined(), nll.reduction}));
  arguments.add(view(grad));
  if (nll.weight.defined()) arguments.add(view(nll.weight));
  arguments.add(view(total_weight)).add(view(grad_input));
  add_targets(arguments, nll, per_item);
  enqueue_items(arguments, nll.samples, per_item);
}

at::Tensor contiguous_like(const at::Tensor& tensor) {
  return tensor.is_contiguous() ? tensor : at::empty_like(tensor, at::MemoryFormat::Contiguous);
}

void check_2d(const at::Tensor& self, const at::Tensor& target, const at::Tensor& weight) {
  expect_type(target, ScalarType::Long, "nll_loss2d");
  TORCH_CHECK(
      target.dim() == 3,
      "only batches of spatial targets supported (3D tensors) but got targets of dimension: ",
      target.dim());
  TORCH_CHECK(self.dim() == 4,
              "only batches of spatial inputs supported (4D tensors), but got input of dimension: ",
              self.dim());
  TORCH_CHECK(!weight.defined() || weight.numel() == self.size(1),
              "weight tensor should be defined either for all or no classes");
  TORCH_CHECK(self.size(0) == target.size(0) && self.size(2) == target.size(1) &&
                  self.size(3) == target.size(2),
              "size mismatch (got input: ", self.sizes(), " , target: ", target.sizes());
}

at::Tensor tensor_or_none(const std::optional<at::Tensor>& tensor) {
  return tensor ? *tensor : at::Tensor();
}

}  // namespace

namespace native {

OCL_STRUCTURED("nll_loss_forward.output", nll_loss_forward)
(const Tensor& self, const Tensor& target, at::OptionalTensorRef weight, int64_t reduction,
 int64_t ignore_index, const Tensor& output, const Tensor& total_weight) {
  const at::Tensor weights = weight.has_value() ? *weight : at::Tensor();
  const at::Tensor dense = contiguous_like(output);
  forward(self, make_nll(self, target, weights, reduction, ignore_index), dense, total_weight);
  if (!dense.is_same(output)) output.copy_(dense);
}

OCL_STRUCTURED("nll_loss_backward.grad_input", nll_loss_backward)
(const Tensor& grad_output, const Tensor& self, const Tensor& target, at::OptionalTensorRef weight,
 int64_t reduction, int64_t ignore_index, const Tensor& total_weight, const Tensor& grad_input) {
  const at::Tensor weights = weight.has_value() ? *weight : at::Tensor();
  const at::Tensor dense = contiguous_like(grad_input);
  backward(grad_output, make_nll(self, target, weights, reduction, ignore_index), total_weight,
           dense);
  if (!dense.is_same(grad_input)) grad_input.copy_(dense);
}

OCL_NATIVE("nll_loss2d_forward.output", nll_loss2d_forward_out);
::std::tuple<Tensor&, Tensor&> nll_loss2d_forward_out(const Tensor& self, const Tensor& target,
                                                      const std::optional<Tensor>& weight,
                                                      int64_t reduction, int64_t ignore_index,
                                                      Tensor& output, Tensor& total_weight) {
  const at::Tensor weights = tensor_or_none(weight);
  check_2d(self, target, weights);
  total_weight.resize_({});
  if (reduction == at::Reduction::None) {
    output.resize_({self.size(0), self.size(2), self.size(3)});
  } else {
    output.resize_({});
  }
  const at::Tensor dense = contiguous_like(output);
  forward(self, make_nll(self, target, weights, reduction, ignore_index), dense, total_weight);
  if (!dense.is_same(output)) output.copy_(dense);
  return {output, total_weight};
}

OCL_NATIVE("nll_loss2d_forward", nll_loss2d_forward);
std::tuple<Tensor, Tensor> nll_loss2d_forward(const Tensor& self, const Tensor& target,
                                              const std::optional<Tensor>& weight,
                                              int64_t reduction, int64_t ignore_index) {
  Tensor output = at::empty({0}, self.options()), total_weight = at::empty({0}, self.options());
  nll_loss2d_forward_out(self, target, weight, reduction, ignore_index, output, total_weight);
  return {output, total_weight};
}

OCL_NATIVE("nll_loss2d_backward.grad_input", nll_loss2d_backward_out);
Tensor& nll_loss2d_backward_out(const Tensor& grad_output, const Tensor& self, const Tensor& target,
                                const std::optional<Tensor>& weight, int64_t reduction,
                                int64_t ignore_index, const Tensor& total_weight,
                                Tensor& grad_input) {
  const at::Tensor weights = tensor_or_none(weight);
  check_2d(self, target, weights);
  TORCH_CHECK(total_weight.numel() == 1,
              "expected total_weight to be a single element tensor, got: ", total_weight.sizes(),
              " (", total_weight.numel(), " elements)");
  if (reduction == at::Reduction::None) {
    TORCH_CHECK(grad_output.sizes() == target.sizes(),
                "size mismatch: the gradient of the loss has the shape ", grad_output.sizes(),
                ", the target ", target.sizes());
  } else {
    TORCH_CHECK(grad_output.numel() == 1,
                "Expected a single element grad_output tensor, but got: ", grad_output.sizes());
  }
  grad_input.resize_as_(self);
  const at::Tensor dense = contiguous_like(grad_input);
  backward(grad_output, make_nll(self, target, weights, reduction, ignore_index), total_weight,
           dense);
  if (!dense.is_same(grad_input)) grad_input.copy_(dense);
  return grad_input;
}

OCL_NATIVE("nll_loss2d_backward", nll_loss2d_backward);
Tensor nll_loss2d_backward(const Tensor& grad_output, const Tensor& self, const Tensor& target,
                           const std::optional<Tensor>& weight, int64_t reduction,
                           int64_t ignore_index, const Tensor& total_weight) {
  Tensor grad_input = at::empty_like(self, at::MemoryFormat::Contiguous);
  nll_loss2d_backward_out(grad_output, self, target, weight, reduction, ignore_index, total_weight,
                          grad_input);
  return grad_input;
}

}  // namespace native
}  // namespace ocl
