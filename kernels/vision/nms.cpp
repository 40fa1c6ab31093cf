// Non-maximum suppression. All steps run on the device; the host reads only the number of results.
#include <ATen/ops/empty.h>
#include <ATen/ops/empty_like.h>
#include <ATen/ops/index_select.h>
#include <ATen/ops/masked_select.h>
#include <ATen/ops/sort.h>
#include <ATen/ops/zeros.h>

#include <cmath>

#include "kernels/core/grids/grid.h"
#include "kernels/core/tensors/tensors.h"
#include "kernels/core/types/dtype.h"
#include "kernels/vision/vision.h"

namespace ocl::vision {
namespace {

constexpr size_t kBlock = 64;  // boxes that are decided at once, a bit of a word for each

struct NmsBlock {
  ScalarType compute;
  bool classes;

  KernelSource source(Device& device, size_t group) const {
    Defines defines = compute_defines(compute);
    define_grid(defines, device);
    defines.set("BLOCK", static_cast<int64_t>(kBlock));
    if (classes) defines.set("CLASSES", 1);
    if (device.family() == KernelFamily::kGpu) {
      defines.set("GROUP", static_cast<int64_t>(std::min(group, kBlock)));
    }
    return {"nms.cl", "nms_block", defines};
  }
};

// The largest number of the compute type that is not above the threshold. Comparing numbers of that
// type with it gives the same results as with the threshold.
double limit_of(double threshold, ScalarType compute) {
  if (compute == ScalarType::Double) return threshold;
  const auto rounded = static_cast<float>(converted(threshold, compute));
  return rounded > threshold ? std::nextafter(rounded, -INFINITY) : rounded;
}

void check_boxes(const char* op, const Tensor& boxes, const Tensor& scores) {
  check_operands(op, {{"boxes", boxes}, {"scores", scores}});
  TORCH_CHECK(boxes.dim() == 2, op, ": boxes should be a 2d tensor, got ", boxes.dim(), "D");
  TORCH_CHECK(boxes.size(1) == 4, op, ": boxes should have 4 elements in dimension 1, got ",
              boxes.size(1));
  TORCH_CHECK(scores.dim() == 1, op, ": scores should be a 1d tensor, got ", scores.dim(), "D");
  TORCH_CHECK(boxes.size(0) == scores.size(0), op,
              ": boxes and scores should have same number of elements in dimension 0, got ",
              boxes.size(0), " and ", scores.size(0));
  TORCH_CHECK(boxes.scalar_type() == scores.scalar_type(), op,
              ": boxes should have the same type as scores, but they have ", boxes.scalar_type(),
              " and ", scores.scalar_type());
  const Device& device = ocl_device(boxes);
  const ScalarType compute = compute_type(boxes.scalar_type());
  check_floating(device, compute, op);
  check_device_has(device, compute, op);
}

// Whether each box stays; earlier boxes suppress later ones. There is at least one box. `classes`
// is undefined, or has a class for each box, in ascending order.
Tensor find_kept(const Tensor& boxes_any, const Tensor& classes, double iou_threshold) {
  Device& device = ocl_device(boxes_any);
  const ScalarType compute = compute_type(boxes_any.scalar_type());
  const Tensor boxes = boxes_any.to(compute);
  const Tensor removed = at::zeros({boxes.size(0)}, boxes.options().dtype(ScalarType::Byte));
  const Tensor kept = at::empty({boxes.size(0)}, boxes.options().dtype(ScalarType::Bool));
  const auto count = static_cast<size_t>(boxes.size(0));
  const Kernel& kernel = find_kernel(device, NmsBlock{compute, classes.defined()});
  const bool cpu = device.family() == KernelFamily::kCpu;
  const size_t group = cpu ? 1 : std::min(kernel.group, kBlock);
  for (size_t first = 0; first < count; first += kBlock) {
    const size_t later = count > first + kBlock ? count - first - kBlock : 1;
    const TaskShares shares =
        cpu ? task_shares(device, later, later * kBlock) : TaskShares{later, 1};
    Arguments arguments(stream_of(boxes), kernel);
    arguments.add(view(boxes));
    if (classes.defined()) arguments.add(view(classes));
    arguments.add(view(removed)).add(view(kept));
    arguments.add(uint64_t{count}).add(uint64_t{first}).add(shares.per_task);
    add_number(arguments, limit_of(iou_threshold, compute), compute);
    arguments.enqueue({at::round_up(shares.tasks, group)}, {group});
  }
  return kept;
}

Tensor by_descending(const Tensor& scores) {
  return std::get<1>(at::sort(scores, /*stable=*/true, 0, /*descending=*/true));
}

}  // namespace

Tensor nms(const Tensor& dets, const Tensor& scores, double iou_threshold) {
  check_boxes("torchvision::nms", dets, scores);
  if (dets.numel() == 0) return at::empty({0}, dets.options().dtype(ScalarType::Long));
  const Tensor order = by_descending(scores);
  return at::masked_select(order, find_kept(dets.index_select(0, order), {}, iou_threshold));
}

Tensor batched_nms(const Tensor& boxes, const Tensor& scores, const Tensor& idxs,
                   double iou_threshold) {
  constexpr const char* kOp = "ocl::batched_nms";
  check_boxes(kOp, boxes, scores);
  check_operands(kOp, {{"boxes", boxes}, {"idxs", idxs}});
  TORCH_CHECK(idxs.sizes() == scores.sizes(), kOp, ": idxs has sizes ", idxs.sizes(),
              ", but there are ", scores.size(0), " scores");
  TORCH_CHECK_TYPE(at::isIntegralType(idxs.scalar_type(), /*includeBool=*/true), kOp,
                   ": idxs has the type ", idxs.scalar_type(), ", but must have whole numbers");
  if (boxes.numel() == 0) return at::empty({0}, idxs.options().dtype(ScalarType::Long));
  const Tensor order = by_descending(scores);
  const auto [classes, by_class] = at::sort(idxs.to(ScalarType::Long).index_select(0, order),
                                            /*stable=*/true, 0, /*descending=*/false);
  const Tensor sorted = boxes.index_select(0, order.index_select(0, by_class));
  const Tensor kept = find_kept(sorted, classes, iou_threshold);
  return at::masked_select(order, at::empty_like(kept).scatter_(0, by_class, kept));
}

}  // namespace ocl::vision
