// The operators of torchvision on ocl. They are registered before torchvision is imported, which
// defines their schemas, so nothing of torchvision is needed here (library.cpp).
#pragma once

#include <ATen/core/Tensor.h>

#include <initializer_list>
#include <tuple>
#include <utility>

#include "backend/device/device.h"

namespace ocl::vision {

using at::Tensor;

// Checks that each of these named tensors is on the device of the first, and lies within its
// storage.
void check_operands(const char* op,
                    std::initializer_list<std::pair<const char*, const Tensor&>> tensors);

// The channels that a work-item computes, so that they share the positions of samples: more on
// CPUs, which have few tasks, than on GPUs.
inline int64_t channels_at_once(const Device& device) {
  return device.family() == KernelFamily::kCpu ? 8 : 4;
}

Tensor nms(const Tensor& dets, const Tensor& scores, double iou_threshold);
// Boxes suppress only others of their class; for torchvision.ops.batched_nms.
Tensor batched_nms(const Tensor& boxes, const Tensor& scores, const Tensor& idxs,
                   double iou_threshold);

Tensor roi_align(const Tensor& input, const Tensor& rois, double spatial_scale,
                 int64_t pooled_height, int64_t pooled_width, int64_t sampling_ratio, bool aligned);
Tensor roi_align_backward(const Tensor& grad, const Tensor& rois, double spatial_scale,
                          int64_t pooled_height, int64_t pooled_width, int64_t batch_size,
                          int64_t channels, int64_t height, int64_t width, int64_t sampling_ratio,
                          bool aligned);

std::tuple<Tensor, Tensor> ps_roi_align(const Tensor& input, const Tensor& rois,
                                        double spatial_scale, int64_t pooled_height,
                                        int64_t pooled_width, int64_t sampling_ratio);
Tensor ps_roi_align_backward(const Tensor& grad, const Tensor& rois, const Tensor& channel_mapping,
                             double spatial_scale, int64_t pooled_height, int64_t pooled_width,
                             int64_t sampling_ratio, int64_t batch_size, int64_t channels,
                             int64_t height, int64_t width);

std::tuple<Tensor, Tensor> roi_pool(const Tensor& input, const Tensor& rois, double spatial_scale,
                                    int64_t pooled_height, int64_t pooled_width);
Tensor roi_pool_backward(const Tensor& grad, const Tensor& rois, const Tensor& argmax,
                         double spatial_scale, int64_t pooled_height, int64_t pooled_width,
                         int64_t batch_size, int64_t channels, int64_t height, int64_t width);

std::tuple<Tensor, Tensor> ps_roi_pool(const Tensor& input, const Tensor& rois,
                                       double spatial_scale, int64_t pooled_height,
                                       int64_t pooled_width);
Tensor ps_roi_pool_backward(const Tensor& grad, const Tensor& rois, const Tensor& channel_mapping,
                            double spatial_scale, int64_t pooled_height, int64_t pooled_width,
                            int64_t batch_size, int64_t channels, int64_t height, int64_t width);

Tensor deform_conv2d(const Tensor& input, const Tensor& weight, const Tensor& offset,
                     const Tensor& mask, const Tensor& bias, int64_t stride_h, int64_t stride_w,
                     int64_t pad_h, int64_t pad_w, int64_t dilation_h, int64_t dilation_w,
                     int64_t groups, int64_t offset_groups, bool use_mask);
std::tuple<Tensor, Tensor, Tensor, Tensor, Tensor> deform_conv2d_backward(
    const Tensor& grad, const Tensor& input, const Tensor& weight, const Tensor& offset,
    const Tensor& mask, const Tensor& bias, int64_t stride_h, int64_t stride_w, int64_t pad_h,
    int64_t pad_w, int64_t dilation_h, int64_t dilation_w, int64_t groups, int64_t offset_groups,
    bool use_mask);

}  // namespace ocl::vision
