// Connectionist temporal classification loss and its gradient.
#include <ATen/TensorUtils.h>
#include <ATen/ops/empty.h>
#include <ATen/ops/empty_like.h>
#include <ATen/ops/tensor.h>

#include <numeric>

#include "kernels/core/grids/grid.h"
#include "kernels/core/operators/registration.h"
#include "kernels/core/operators/relations.h"
#include "kernels/core/tensors/tensors.h"
#include "kernels/core/types/dtype.h"
#include "native/ctc_loss.h"

namespace ocl {
namespace {

using at::IntArrayRef;
using at::Tensor;

constexpr size_t kGroup = 64;

#include "kernels/loss/ctc_loss_parameters.clh"

// Converts the arguments to the kernels' form.
struct Sequences {
  Tensor log_probs, targets, table;
  Ctc shape;

  void bind(Arguments& arguments) const {
    arguments.add(view(log_probs)).add(view(targets)).add(view(table)).add(shape);
  }
};

void check_lengths(const Tensor& log_probs, const Tensor& targets, IntArrayRef input_lengths,
                   IntArrayRef target_lengths, int64_t blank) {
  const at::CheckedFrom c = "ctc_loss_ocl";
  const at::TensorArg log_probs_arg{log_probs, "log_probs", 1}, targets_arg{targets, "targets", 2};
  at::checkScalarTypes(c, targets_arg, {at::kLong, at::kInt});
  at::checkDim(c, log_probs_arg, 3);
  at::checkDimRange(c, targets_arg, 1, 3);
  const int64_t batch = log_probs.size(1);
  TORCH_CHECK(log_probs.numel() > 0, "log_probs tensor must not be empty");
  TORCH_CHECK(0 <= blank && blank < log_probs.size(2), "blank must be in label range");
  TORCH_CHECK(static_cast<int64_t>(input_lengths.size()) == batch,
              "input_lengths must be of size batch_size");
  TORCH_CHECK(static_cast<int64_t>(target_lengths.size()) == batch,
              "target_lengths must be of size batch_size");
  for (int64_t b = 0; b < batch; ++b) {
    TORCH_CHECK(input_lengths[b] >= 0,
                "Expected input_lengths to have value at least 0, but got value ",
                input_lengths[b]);
    TORCH_CHECK(target_lengths[b] >= 0,
                "Expected target_lengths to have value at least 0, but got value ",
                target_lengths[b], " (while checking arguments for ", c, ")");
    TORCH_CHECK(input_lengths[b] <= log_probs.size(0),
                "Expected input_lengths to have value at most ", log_probs.size(0),
                ", but got value ", input_lengths[b], " (while checking arguments for ", c, ")");
  }
  if (targets.dim() == 1) {
    for (const int64_t length : target_lengths) {  // so that the sum of all lengths fits
      TORCH_CHECK(length <= targets.size(0), c, ": a target of ", length, " labels, but all have ",
                  targets.size(0));
    }
    at::checkSize(c, targets_arg, 0,
                  std::accumulate(target_lengths.begin(), target_lengths.end(), int64_t{0}));
  } else {
    at::checkSize(c, targets_arg, 0, batch);
    for (const int64_t length : target_lengths) {
      TORCH_CHECK(targets.size(1) >= length, "Expected tensor to have size at least ", length,
                  " at dimension 1, but got size ", targets.size(1), " for ", targets_arg,
                  " (while checking arguments for ", c, ")");
    }
  }
}

Sequences sequences_of(const Tensor& log_probs, const Tensor& targets, IntArrayRef input_lengths,
                       IntArrayRef target_lengths, int64_t blank, bool zero_infinity) {
  std::vector<int64_t> table;
  int64_t longest = targets.dim() == 2 ? targets.size(1) : 0, first = 0;
  for (size_t b = 0; b < target_lengths.size(); ++b) {
    table.insert(table.end(), {input_lengths[b], target_lengths[b], first});
    first += targets.dim() == 2 ? targets.size(1) : target_lengths[b];
    if (targets.dim() == 1) longest = std::max(longest, target_lengths[b]);
  }
  return {log_probs.contiguous(),
          targets.to(at::kLong).contiguous(),
          at::tensor(table, at::kLong).to(log_probs.device()),
          {log_probs.size(0), log_probs.size(1), log_probs.size(2), 2 * longest + 1, blank,
           zero_infinity}};
}

struct CtcLoss {
  const char* kernel;
  ScalarType type;

  KernelSource source(Device& device, size_t group) const {
    Defines defines = compute_defines(compute_type(type));
    define_grid(defines, device);
    defines.set("IN", dtype_name(type));
    defines.set("GROUP", static_cast<int64_t>(std::min(group, kGroup)));
    return {"ctc_loss.cl", kernel, defines};
  }
};

size_t group_of(const Arguments& arguments) { return std::min(arguments.group(), kGroup); }

void check_type(const Tensor& log_probs) {
  Device& device = ocl_device(log_probs);
  const ScalarType type = log_probs.scalar_type();
  if (type != at::kFloat && type != at::kDouble) refuse_type(device, type, "ctc_loss");
  check_device_has(device, type, "ctc_loss");
}

}  // namespace

namespace native {

OCL_NATIVE("_ctc_loss", ctc_loss);
std::tuple<Tensor, Tensor> ctc_loss(const Tensor& log_probs, const Tensor& targets,
                                    IntArrayRef input_lengths, IntArrayRef target_lengths,
                                    int64_t blank, bool zero_infinity) {
  check_type(log_probs);
  check_lengths(log_probs, targets, input_lengths, target_lengths, blank);
  const Sequences sequences =
      sequences_of(log_probs, targets, input_lengths, target_lengths, blank, zero_infinity);
  const Ctc& shape = sequences.shape;
  Tensor log_alpha = at::empty({shape.batch, shape.time, shape.width}, log_probs.options()),
         loss = at::empty({shape.batch}, log_probs.options());
  if (shape.batch == 0) return {loss, log_alpha};
  Device& device = ocl_device(log_probs);
  Arguments arguments(stream_of(log_probs),
                      find_kernel(device, CtcLoss{"ctc_alpha", log_probs.scalar_type()}));
  const size_t group = group_of(arguments);
  sequences.bind(arguments);
  static const int site = fault_site({"aten::_ctc_loss", FaultClass::kRuntime, "target", "labels"});
  arguments.add(view(log_alpha))
      .add(view(loss))
      .add(FaultArgument{site})
      .enqueue({static_cast<size_t>(shape.batch) * group}, {group});
  return {loss, log_alpha};
}

OCL_NATIVE("_ctc_loss_backward", ctc_loss_backward);
Tensor ctc_loss_backward(const Tensor& grad, const Tensor& log_probs, const Tensor& targets,
                         IntArrayRef input_lengths, IntArrayRef target_lengths,
                         const Tensor& neg_log_likelihood, const Tensor& log_alpha, int64_t blank,
                         bool zero_infinity) {
  check_type(log_probs);
  Tensor out = at::empty_like(log_probs, at::MemoryFormat::Contiguous);
  if (out.numel() == 0) return out;
  check_lengths(log_probs, targets, input_lengths, target_lengths, blank);
  Sequences sequences =
      sequences_of(log_probs, targets, input_lengths, target_lengths, blank, zero_infinity);
  const Ctc& shape = sequences.shape;
  const Relations relations("_ctc_loss_backward");
  relations.sizes("log_alpha", log_alpha, {shape.batch, shape.time, shape.width});
  relations.sizes("neg_log_likelihood", neg_log_likelihood, {shape.batch});
  if (grad.numel() != 1) relations.sizes("grad", grad, {shape.batch});
  const Tensor alpha = log_alpha.contiguous(), loss = neg_log_likelihood.contiguous(),
               log_beta = at::empty_like(alpha), weights = grad.contiguous();
  Device& device = ocl_device(log_probs);
  Stream& stream = stream_of(log_probs);
  const ScalarType type = log_probs.scalar_type();
  for (const Tensor& each : {grad, neg_log_likelihood, log_alpha}) {
    expect_type(each, type, "_ctc_loss_backward");
  }
  Arguments beta(stream, find_kernel(device, CtcLoss{"ctc_beta", type}));
  const size_t group = group_of(beta);
  sequences.bind(beta);
  beta.add(view(log_beta)).enqueue({static_cast<size_t>(shape.batch) * group}, {group});
  Arguments gradient(stream, find_kernel(device, CtcLoss{"ctc_gradient", type}));
  sequences.bind(gradient);
  const auto rows = static_cast<size_t>(shape.time * shape.batch);
  const UnitGrid grid =
      unit_grid(device, rows, 1, static_cast<size_t>(64 * (shape.labels + shape.width)));
  gradient.add(view(weights))
      .add(uint64_t{weights.numel() > 1})
      .add(view(loss))
      .add(view(alpha))
      .add(view(log_beta))
      .add(view(out))
      .add(uint64_t{rows})
      .add(grid.per_item)
      .enqueue(grid.global, grid.local);
  return out;
}

}  // namespace native
}  // namespace ocl

OCL_SHARED("_ctc_loss.Tensor");
OCL_SHARED("_ctc_loss_backward.Tensor");
