#include "kernels/tensor/transpose.h"

#include <ATen/ceil_div.h>

#include "kernels/core/algorithms/algorithms.h"
#include "kernels/core/grids/grid.h"
#include "kernels/core/tensors/tensors.h"
#include "kernels/core/types/dtype.h"

namespace ocl {
namespace {

constexpr int64_t kLeastSide = 8;                      // fewer rows leave tiles empty
constexpr size_t kRowsOnCpu = 64, kColumnsOnCpu = 16;  // the tile of transpose.cl

struct Shape {  // the struct in transpose.cl
  uint64_t planes, rows, columns;
  int64_t out_plane, out_row, in_plane, in_column;
};

std::optional<Shape> find_shape(const at::TensorIteratorBase& iter) {
  const int ndim = iter.ndim();
  if (ndim < 2 || ndim > 3 || iter.dtype(0) != iter.dtype(1)) return std::nullopt;
  const auto size = static_cast<int64_t>(iter.element_size(0));
  const auto out = iter.strides(0), in = iter.strides(1);
  if (out[0] != size) return std::nullopt;
  for (int row = 1; row < ndim; ++row) {
    if (in[row] != size) continue;
    if (iter.shape()[0] < kLeastSide || iter.shape()[row] < kLeastSide) return std::nullopt;
    const int plane = 3 - row;
    const bool planes = ndim == 3;
    return Shape{.planes = planes ? static_cast<uint64_t>(iter.shape()[plane]) : 1,
                 .rows = static_cast<uint64_t>(iter.shape()[row]),
                 .columns = static_cast<uint64_t>(iter.shape()[0]),
                 .out_plane = planes ? out[plane] / size : 0,
                 .out_row = out[row] / size,
                 .in_plane = planes ? in[plane] / size : 0,
                 .in_column = in[0] / size};
  }
  return std::nullopt;
}

constexpr size_t kLeastGroup = 4;
constexpr const char* kTiles = "transpose_tiles";
const OptionalPaths optional({kTiles});

// The side of a tile on GPUs; groups are (side, side / 4), with at least kLeastGroup items.
size_t side_of(size_t group) { return std::min<size_t>(32, 2 << (std::bit_width(group) - 1) / 2); }

struct Transpose {
  ScalarType bits;

  KernelSource source(Device& device, size_t group) const {
    Defines defines;
    defines.set("SIDE", static_cast<int64_t>(side_of(group)));
    define_grid(defines, device);
    defines.set("DT", dtype_name(bits)).set("NARROW", c10::elementSize(bits) <= 2);
    return {"transpose.cl", "transpose", defines};
  }
};

}  // namespace

bool copy_transposed(at::TensorIteratorBase& iter) {
  const std::optional<Shape> shape = find_shape(iter);
  if (!shape || iter.element_size(0) > 8 || is_disabled(kTiles)) return false;
  Device& device = ocl::device(iter.device(0).index());
  const Kernel& kernel = find_kernel(device, Transpose{bits_type(iter.element_size(0))});
  if (device.family() == KernelFamily::kGpu && kernel.group < kLeastGroup) return false;
  Arguments arguments(current_stream(device.index()), kernel);
  arguments.add(resolve(iter.data_ptr(0))).add(resolve(iter.data_ptr(1))).add(*shape);
  if (device.family() == KernelFamily::kGpu) {
    const size_t side = side_of(kernel.group);
    arguments.enqueue({at::round_up<size_t>(shape->columns, side),
                       shape->planes * at::ceil_div<size_t>(shape->rows, side) * (side / 4)},
                      {side, side / 4});
    return true;
  }
  const TaskShares shares =
      task_shares(device,
                  shape->planes * at::ceil_div<size_t>(shape->rows, kRowsOnCpu) *
                      at::ceil_div<size_t>(shape->columns, kColumnsOnCpu),
                  static_cast<size_t>(iter.numel()) * 2);
  arguments.add(shares.per_task).enqueue({shares.tasks}, {1});
  return true;
}

}  // namespace ocl
