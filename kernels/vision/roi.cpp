// Pooling of regions of interest: roi_align, roi_pool, and their position-sensitive forms.
#include <ATen/ceil_div.h>
#include <ATen/ops/arange.h>
#include <ATen/ops/empty.h>
#include <ATen/ops/zeros.h>

#include <array>

#include "backend/queue/fault.h"
#include "kernels/core/grids/exchanges.h"
#include "kernels/core/grids/grid.h"
#include "kernels/core/tensors/tensors.h"
#include "kernels/core/types/dtype.h"
#include "kernels/vision/vision.h"

namespace ocl::vision {
namespace {

#include "kernels/vision/cl/roi_parameters.clh"

at::DimVector sizes_of_result(const Roi& roi) {
  return {roi.boxes, roi.channels_out, roi.bins_y, roi.bins_x};
}

uint64_t rows_of_bins(const Roi& roi) {
  return static_cast<uint64_t>(roi.boxes * roi.chunks * roi.bins_y);
}

// The differences between the four operators.
struct Pooling {
  bool align;      // samples between pixels, else whole pixels
  bool position;   // each bin reads a channel of its own
  bool corrected;  // roi_align: boxes are moved by half a pixel

  const char* file() const { return align ? "roi_align.cl" : "roi_pool.cl"; }
  // Whether the position of a bin's maximum is a result.
  bool has_places() const { return !align && !position; }
  // An estimate of the pixels that a bin reads.
  int64_t reads(const Roi& roi) const {
    if (!align) return 16;
    return 4 * (roi.samples > 0 ? std::min<int64_t>(roi.samples * roi.samples, 64) : 4);
  }
};

enum class Step { kForward, kInOrder, kAtomic };

struct RoiKernel {
  ScalarType type;
  Pooling pooling;
  Step step;
  int64_t chunk;

  KernelSource source(Device& device) const {
    Defines defines = compute_defines(compute_type(type));
    define_grid(defines, device);
    defines.set("IN", dtype_name(type)).set("CHUNK", chunk);
    if (pooling.position) defines.set("POSITION", 1);
    if (pooling.corrected) defines.set("ALIGNED", 1);
    if (step == Step::kAtomic) defines.set("ATOMIC", 1);
    constexpr const char* kNames[2][3] = {
        {"roi_pool", "roi_pool_input", "roi_pool_input_atomic"},
        {"roi_align", "roi_align_input", "roi_align_input_atomic"}};
    return {pooling.file(), kNames[pooling.align][static_cast<int>(step)], defines};
  }
};

int64_t chunk_of(const Device& device, const Pooling& pooling) {
  return !pooling.align || pooling.position ? 1 : channels_at_once(device);
}

// The site for a box whose image does not exist.
FaultArgument image_fault() {
  static const int site = fault_site({"torchvision::roi", FaultClass::kRuntime,
                                      "index of an image in rois", "images in the batch"});
  return FaultArgument{site};
}

void check_types(const char* op, const char* name, const Tensor& tensor, const Tensor& rois) {
  TORCH_CHECK(rois.dim() == 2 && rois.size(1) == 5, op,
              ": rois must have shape as Tensor[K, 5], but has sizes ", rois.sizes());
  TORCH_CHECK(tensor.dim() == 4, op, ": ", name, " must have 4 dimensions, but has sizes ",
              tensor.sizes());
  TORCH_CHECK(tensor.scalar_type() == rois.scalar_type(), op, ": ", name,
              " should have the same type as rois, but they have ", tensor.scalar_type(), " and ",
              rois.scalar_type());
  const Device& device = ocl_device(tensor);
  check_floating(device, compute_type(tensor.scalar_type()), op);
  check_device_has(device, tensor.scalar_type(), op);
}

Roi make_roi(const char* op, at::IntArrayRef images, const Tensor& rois, int64_t bins_y,
             int64_t bins_x, int64_t samples, const Pooling& pooling) {
  TORCH_CHECK(bins_y >= 0 && bins_x >= 0, op, ": the pooled size ", bins_y, " x ", bins_x,
              " must not be negative");
  TORCH_CHECK(samples <= INT32_MAX, op, ": sampling_ratio is ", samples,
              ", but must be below 2^31");
  Roi roi{images[0], images[1], images[2], images[3], rois.size(0),
          images[1], bins_y,    bins_x,    0,         0};
  roi.samples = std::max<int64_t>(samples, 0);
  if (pooling.position) {
    const int64_t bins = bins_y * bins_x;
    TORCH_CHECK(bins > 0 && images[1] % bins == 0, op, ": input channels (", images[1],
                ") must be a multiple of pooling height * pooling width (", bins_y, " * ", bins_x,
                ")");
    roi.channels_out /= bins;
  }
  TORCH_CHECK(pooling.align || images[2] * images[3] <= INT32_MAX, op, ": an image of ", images[2],
              " x ", images[3], " pixels is too large: places of pixels are int32");
  roi.chunks = at::ceil_div(roi.channels_out, chunk_of(ocl_device(rois), pooling));
  return roi;
}

// `places` is defined if the pooling returns positions of maxima.
void pool(const Tensor& in, const Tensor& rois, const Tensor& out, const Tensor& places,
          const Roi& roi, const Pooling& pooling, double scale) {
  if (out.numel() == 0) return;
  Device& device = ocl_device(in);
  const ScalarType type = in.scalar_type();
  const int64_t chunk = chunk_of(device, pooling);
  const Tensor images = in.contiguous(), boxes = rois.contiguous();
  const UnitGrid grid = unit_grid(device, rows_of_bins(roi), static_cast<size_t>(roi.bins_x),
                                  static_cast<size_t>(chunk * pooling.reads(roi)));
  const RoiKernel kernel{type, pooling, Step::kForward, chunk};
  Arguments arguments(stream_of(in), find_kernel(device, kernel));
  arguments.add(view(images)).add(view(boxes)).add(view(out));
  if (pooling.has_places()) arguments.add(view(places));
  arguments.add(roi);
  add_number(arguments, scale, compute_type(type));
  arguments.add(rows_of_bins(roi)).add(grid.per_item).add(image_fault());
  arguments.enqueue(grid.global, grid.local);
}

// The gradient of the images. Sums in float32 if the images have 16 bits, because many small
// numbers are added to one element.
Tensor pool_backward(const Tensor& grad_any, const Tensor& rois, const Tensor& places,
                     const Roi& roi, const Pooling& pooling, double scale) {
  Device& device = ocl_device(grad_any);
  const ScalarType type = grad_any.scalar_type(), compute = compute_type(type);
  const std::array<int64_t, 4> sizes{roi.images, roi.channels, roi.height, roi.width};
  const Tensor out = at::zeros(sizes, grad_any.options().dtype(compute));
  if (grad_any.numel() == 0 || out.numel() == 0) return out.to(type);
  const Tensor grad = grad_any.contiguous(), boxes = rois.contiguous();
  const bool atomic = adds_atomically(device, type);
  const int64_t chunk = chunk_of(device, pooling), reads = pooling.reads(roi);
  const int64_t bins = roi.bins_y * roi.bins_x;
  const uint64_t planes =
      static_cast<uint64_t>(roi.images * (pooling.position ? roi.channels : roi.chunks));
  const uint64_t units = atomic ? rows_of_bins(roi) : planes;
  const RoiKernel kernel{type, pooling, atomic ? Step::kAtomic : Step::kInOrder, chunk};
  const auto run = [&](const UnitGrid& grid, double work, const auto&... range) {
    Arguments arguments(stream_of(out), find_kernel(device, kernel));
    arguments.add(view(grad)).add(view(boxes));
    if (pooling.has_places()) arguments.add(view(places.contiguous()));
    arguments.add(view(out)).add(roi);
    add_number(arguments, scale, compute);
    arguments.add(units).add(grid.per_item).add(image_fault());
    (arguments.add(range), ...);
    arguments.enqueue(grid.global, grid.local, work);
  };
  if (atomic) {
    const double additions = static_cast<double>(grad.numel()) * static_cast<double>(reads);
    run(unit_grid(device, units, static_cast<size_t>(roi.bins_x)),
        work_of_writes(device, additions));
    return out.to(type);
  }
  const int64_t of_box = (pooling.position ? 1 : bins) * reads;
  const UnitGrid grid =
      unit_grid(device, units, 1, static_cast<size_t>(chunk * of_box * roi.boxes / roi.images + 1));
  const int64_t most = device.family() == KernelFamily::kGpu
                           ? std::max<int64_t>(kMostSumsInOrder / of_box, 1)
                           : roi.boxes;
  for (int64_t first = 0; first < roi.boxes; first += most) {
    run(grid, 0, first, std::min(first + most, roi.boxes));
  }
  return out.to(type);
}

// The channel mapping: for each element of a position-sensitive result, the channel of the input
// that it reads.
Tensor channel_mapping(const Roi& roi, const Tensor& input) {
  const at::DimVector sizes = sizes_of_result(roi);
  return at::arange(roi.channels, input.options().dtype(ScalarType::Int))
      .view({1, sizes[1], sizes[2], sizes[3]})
      .expand(sizes)
      .contiguous();
}

// The second result: the positions of maxima, the channel mapping, or undefined.
std::tuple<Tensor, Tensor> forward(const char* op, const Tensor& input, const Tensor& rois,
                                   double scale, int64_t bins_y, int64_t bins_x, int64_t samples,
                                   const Pooling& pooling) {
  check_operands(op, {{"input", input}, {"rois", rois}});
  check_types(op, "input", input, rois);
  const Roi roi = make_roi(op, input.sizes(), rois, bins_y, bins_x, samples, pooling);
  const Tensor out = at::empty(sizes_of_result(roi), input.options());
  Tensor places;
  if (pooling.has_places()) {
    places = at::empty(sizes_of_result(roi), input.options().dtype(ScalarType::Int));
  } else if (pooling.position) {
    places = channel_mapping(roi, input);
  }
  pool(input, rois, out, places, roi, pooling, scale);
  return {out, places};
}

Tensor backward(const char* op, const Tensor& grad, const Tensor& rois, const Tensor& places,
                double scale, int64_t bins_y, int64_t bins_x, int64_t samples,
                at::IntArrayRef images, const Pooling& pooling) {
  check_operands(op, {{"grad", grad}, {"rois", rois}});
  check_types(op, "grad", grad, rois);
  for (const int64_t size : images) {
    TORCH_CHECK(size >= 0, op, ": the sizes of the input ", images, " must not be negative");
  }
  const Roi roi = make_roi(op, images, rois, bins_y, bins_x, samples, pooling);
  TORCH_CHECK(grad.sizes() == at::IntArrayRef(sizes_of_result(roi)), op, ": grad has sizes ",
              grad.sizes(), ", but the result has ", at::IntArrayRef(sizes_of_result(roi)));
  if (pooling.has_places()) {
    TORCH_CHECK(places.sizes() == grad.sizes() && places.scalar_type() == ScalarType::Int, op,
                ": argmax has sizes ", places.sizes(), " and type ", places.scalar_type(),
                ", but must be int32 with the sizes of grad, ", grad.sizes());
    check_operands(op, {{"grad", grad}, {"argmax", places}});
  }
  return pool_backward(grad, rois, places, roi, pooling, scale);
}

constexpr Pooling kPool{false, false, false}, kPositionPool{false, true, false},
    kPositionAlign{true, true, true};

Pooling align(bool aligned) { return {true, false, aligned}; }

}  // namespace

Tensor roi_align(const Tensor& input, const Tensor& rois, double spatial_scale,
                 int64_t pooled_height, int64_t pooled_width, int64_t sampling_ratio,
                 bool aligned) {
  return std::get<0>(forward("torchvision::roi_align", input, rois, spatial_scale, pooled_height,
                             pooled_width, sampling_ratio, align(aligned)));
}

Tensor roi_align_backward(const Tensor& grad, const Tensor& rois, double spatial_scale,
                          int64_t pooled_height, int64_t pooled_width, int64_t batch_size,
                          int64_t channels, int64_t height, int64_t width, int64_t sampling_ratio,
                          bool aligned) {
  return backward("torchvision::_roi_align_backward", grad, rois, {}, spatial_scale, pooled_height,
                  pooled_width, sampling_ratio, {batch_size, channels, height, width},
                  align(aligned));
}

std::tuple<Tensor, Tensor> ps_roi_align(const Tensor& input, const Tensor& rois,
                                        double spatial_scale, int64_t pooled_height,
                                        int64_t pooled_width, int64_t sampling_ratio) {
  return forward("torchvision::ps_roi_align", input, rois, spatial_scale, pooled_height,
                 pooled_width, sampling_ratio, kPositionAlign);
}

// Does not read the channel mapping, because the sizes determine it.
Tensor ps_roi_align_backward(const Tensor& grad, const Tensor& rois,
                             const Tensor& /*channel_mapping*/, double spatial_scale,
                             int64_t pooled_height, int64_t pooled_width, int64_t sampling_ratio,
                             int64_t batch_size, int64_t channels, int64_t height, int64_t width) {
  return backward("torchvision::_ps_roi_align_backward", grad, rois, {}, spatial_scale,
                  pooled_height, pooled_width, sampling_ratio,
                  {batch_size, channels, height, width}, kPositionAlign);
}

std::tuple<Tensor, Tensor> roi_pool(const Tensor& input, const Tensor& rois, double spatial_scale,
                                    int64_t pooled_height, int64_t pooled_width) {
  return forward("torchvision::roi_pool", input, rois, spatial_scale, pooled_height, pooled_width,
                 0, kPool);
}

Tensor roi_pool_backward(const Tensor& grad, const Tensor& rois, const Tensor& argmax,
                         double spatial_scale, int64_t pooled_height, int64_t pooled_width,
                         int64_t batch_size, int64_t channels, int64_t height, int64_t width) {
  return backward("torchvision::_roi_pool_backward", grad, rois, argmax, spatial_scale,
                  pooled_height, pooled_width, 0, {batch_size, channels, height, width}, kPool);
}

std::tuple<Tensor, Tensor> ps_roi_pool(const Tensor& input, const Tensor& rois,
                                       double spatial_scale, int64_t pooled_height,
                                       int64_t pooled_width) {
  return forward("torchvision::ps_roi_pool", input, rois, spatial_scale, pooled_height,
                 pooled_width, 0, kPositionPool);
}

Tensor ps_roi_pool_backward(const Tensor& grad, const Tensor& rois,
                            const Tensor& /*channel_mapping*/, double spatial_scale,
                            int64_t pooled_height, int64_t pooled_width, int64_t batch_size,
                            int64_t channels, int64_t height, int64_t width) {
  return backward("torchvision::_ps_roi_pool_backward", grad, rois, {}, spatial_scale,
                  pooled_height, pooled_width, 0, {batch_size, channels, height, width},
                  kPositionPool);
}

}  // namespace ocl::vision
