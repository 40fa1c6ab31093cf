// Launches of resample_*.cl, and of the band kernels of kernels/image.
#include "kernels/resample/resample.h"

#include <ATen/ops/empty.h>
#include <ATen/ops/view_as_real.h>

#include <algorithm>
#include <numeric>

#include "kernels/core/algorithms/lru_cache.h"
#include "kernels/core/grids/grid.h"
#include "kernels/core/tensors/tensors.h"
#include "kernels/core/types/dtype.h"
#include "kernels/image/passes.h"

namespace ocl {
namespace {

constexpr size_t kKept = 64;
constexpr int kShift = 22;  // bits of the weights for uint8

// Fixed-point weights for uint8, rounded as in PyTorch: to 16 bits, with as many fraction bits as
// the greatest weight allows.
void fill_fixed(image::Band& band) {
  const double greatest = *std::max_element(band.weights.begin(), band.weights.end());
  int bits = 0;
  while (bits < kShift && static_cast<int>(0.5 + greatest * (1 << (bits + 1))) < (1 << 15)) ++bits;
  band.shift = kShift;
  for (const double weight : band.weights) {
    const auto rounded = static_cast<int32_t>(weight * (1 << bits) + (weight < 0 ? -0.5 : 0.5));
    band.fixed.push_back(rounded * (1 << (kShift - bits)));
  }
}

// The line without zero weights at its ends.
Line trimmed(const Line& line) {
  const auto is_not_zero = [](double weight) { return weight != 0; };
  const auto first = std::find_if(line.weights.begin(), line.weights.end(), is_not_zero);
  const auto last = std::find_if(line.weights.rbegin(), line.weights.rend(), is_not_zero).base();
  if (first == line.weights.end()) return line;
  return {line.start + (first - line.weights.begin()), {first, last}};
}

// Finds the range of outputs around the middle one that have the same weights.
void find_same(DimensionMap& map) {
  const auto& starts = map.tight.starts;
  const auto& weights = map.tight.weights;
  const int64_t taps = map.tight.taps, size = map.tight.out_size, middle = size / 2;
  if (size < 2) return;
  const int64_t hop = starts[middle] - starts[middle - 1];
  if (hop != 1 && hop != 2) return;
  const auto follows = [&](int64_t o) {
    const auto line = weights.begin() + o * taps;
    return starts[o] - starts[o - 1] == hop && std::equal(line, line + taps, line - taps);
  };
  map.hop = hop;
  map.same_from = map.same_to = middle;
  while (map.same_from > 0 && follows(map.same_from)) --map.same_from;
  while (map.same_to < size && follows(map.same_to)) ++map.same_to;
}

DimensionMapPointer make_map(int64_t in, int64_t out, std::vector<Line> lines, bool derivative) {
  std::transform(lines.begin(), lines.end(), lines.begin(), trimmed);
  auto map = std::make_shared<DimensionMap>(in, out);
  map->band.derivative = map->tight.derivative = derivative;
  image::fill(map->band, lines);
  image::fill(map->tight, lines, 1);
  find_same(*map);
  fill_fixed(map->band);
  map->selects = std::all_of(lines.begin(), lines.end(), [](const Line& line) {
    return line.weights.size() == 1 && line.weights[0] == 1;
  });
  map->identity = map->selects && in == out;
  for (int64_t o = 0; o < out && map->identity; ++o) map->identity = map->band.starts[o] == o;
  return map;
}

struct Sizes {
  std::array<int64_t, 3> in, out;  // depth, height, width
};

// [outer][dimensions ...][inner], contiguous.
struct Volume {
  at::Tensor tensor;
  std::vector<int64_t> sizes;
  int64_t outer, inner;

  int64_t before(size_t dim) const {
    return std::accumulate(sizes.begin(), sizes.begin() + dim, outer, std::multiplies<>());
  }
  int64_t after(size_t dim) const {
    return std::accumulate(sizes.begin() + dim + 1, sizes.end(), inner, std::multiplies<>());
  }
  int64_t numel() const { return before(sizes.size()) * inner; }
};

struct Select {
  ScalarType bits;
  bool pixels;

  KernelSource source(Device& device) const {
    Defines defines;
    define_grid(defines, device);
    defines.set("IN", dtype_name(bits));
    if (pixels) defines.set("PIXELS", 1);
    return {"resample_gather.cl", "resample_gather", defines};
  }
};

void select(const Volume& from, const Volume& to, at::ArrayRef<DimensionMapPointer> maps) {
  Device& device = ocl_device(from.tensor);
  const bool pixels = from.inner > 1;
  const Kernel& kernel = find_kernel(device, Select{bits_type(from.tensor.element_size()), pixels});
  Sizes sizes{{1, 1, 1}, {1, 1, 1}};
  std::array<at::Tensor, 3> starts;
  const size_t missing = 3 - maps.size();
  for (size_t d = 0; d < 3; ++d) {
    // Dimensions before the first map have size 1; the kernel does not read their tables.
    const DimensionMap& map = *maps[d < missing ? 0 : d - missing];
    starts[d] = map.band.tables(from.tensor, ScalarType::Float).first;
    if (d < missing) continue;
    sizes.in[d] = map.band.in_size;
    sizes.out[d] = map.band.out_size;
  }
  const uint64_t inner = pixels ? from.inner : sizes.out[2];
  const uint64_t units = to.numel() / inner;
  const UnitGrid grid = unit_grid(device, units, inner);
  launch(stream_of(from.tensor), kernel, grid.global, grid.local, view(from.tensor),
         view(to.tensor), view(starts[0]), view(starts[1]), view(starts[2]), units, inner,
         grid.per_item, static_cast<uint64_t>(missing), sizes);
}

#include "kernels/resample/resample_sum_parameters.clh"
constexpr int64_t kRoom = 8192;  // the most elements of a row: it fills the smallest local memory

// Whether one kernel sums along height and width together: on CPU devices, if a pixel has few
// weights.
bool sums_planes(const Volume& from, at::ArrayRef<DimensionMapPointer> maps) {
  const Device& device = ocl_device(from.tensor);
  if (device.family() != KernelFamily::kCpu || device.parameters().vector_width == 1 ||
      compute_type(from.tensor.scalar_type()) != ScalarType::Float || maps.size() != 2) {
    return false;
  }
  const image::Band &rows = maps[0]->tight, &columns = maps[1]->tight;
  const bool alike = maps[1]->same_to - maps[1]->same_from > columns.out_size / 2;
  if (from.inner == 1) return columns.in_size <= kRoom && columns.taps <= (alike ? 16 : 4);
  const int64_t taps = rows.taps * columns.taps;
  const bool shrinks = rows.out_size < rows.in_size && columns.out_size < columns.in_size;
  return taps <= 4 || (taps <= 16 && shrinks);
}

struct SumPlanes {
  ScalarType type;
  bool pixels, derivative;
  int64_t row_taps, column_taps, hop;  // hop: HOP of resample_sum.cl; 0: undefined

  KernelSource source(Device& device) const {
    Defines defines = compute_defines(ScalarType::Float);
    define_grid(defines, device);
    defines.set("IN", dtype_name(type)).set("ROOM", kRoom);
    defines.set("WIDTH", static_cast<int64_t>(device.parameters().vector_width));
    defines.set("ROW_TAPS", row_taps).set("COLUMN_TAPS", column_taps);
    if (pixels) defines.set("PIXELS", 1);
    if (derivative) defines.set("FROM_ZERO", 1);
    if (hop != 0) defines.set("HOP", hop);
    return {"resample_sum.cl", "resample_sum", defines};
  }
};

void sum_planes(const Volume& from, const Volume& to, const image::Band& rows,
                const DimensionMap& map) {
  const image::Band& columns = map.tight;
  Device& device = ocl_device(from.tensor);
  const bool pixels = from.inner > 1;
  const Kernel& kernel =
      find_kernel(device, SumPlanes{from.tensor.scalar_type(), pixels, columns.derivative,
                                    rows.taps, columns.taps, pixels ? 0 : map.hop});
  const auto [row_starts, row_weights] = rows.tables(from.tensor, ScalarType::Float);
  const auto [column_starts, column_weights] = columns.tables(from.tensor, ScalarType::Float);
  const Planes planes{from.outer,    rows.in_size,     columns.in_size,
                      rows.out_size, columns.out_size, from.inner};
  const UnitGrid grid = unit_grid(device, static_cast<size_t>(planes.outer * planes.out_h),
                                  static_cast<size_t>(planes.out_w),
                                  static_cast<size_t>(planes.channels * rows.taps * columns.taps));
  launch(stream_of(from.tensor), kernel, grid.global, grid.local, view(from.tensor),
         view(to.tensor), view(row_starts), view(row_weights), view(column_starts),
         view(column_weights), planes, map.same_from, map.same_to, grid.per_item);
}

// The cheapest order of dimensions. Dimensions that shrink come first, the outermost first, because
// vectors hold elements of inner dimensions. Dimensions that grow follow, the innermost first.
// uint8 is rounded after each dimension, so its order is PyTorch's: the last dimension first.
std::vector<size_t> order_of(at::ArrayRef<DimensionMapPointer> maps, ScalarType type) {
  std::vector<size_t> shrinking, growing;
  for (size_t d = 0; d < maps.size(); ++d) {
    if (maps[d]->identity) continue;
    const bool shrinks = maps[d]->band.out_size < maps[d]->band.in_size;
    (shrinks && type != ScalarType::Byte ? shrinking : growing).push_back(d);
  }
  shrinking.insert(shrinking.end(), growing.rbegin(), growing.rend());
  return shrinking;
}

// The table to use: `band`, padded with zeros, if a kernel reads several weights at once, and for
// uint8. Otherwise `tight`, because a padding zero may be multiplied by an element that is not
// finite.
const image::Band& table_of(const DimensionMap& map, const Volume& from, size_t dim) {
  const bool lanes = from.after(dim) == 1 && map.tight.taps > image::kLanes &&
                     ocl_device(from.tensor).family() == KernelFamily::kCpu;
  return lanes || from.tensor.scalar_type() == ScalarType::Byte ? map.band : map.tight;
}

void sum_up(Volume from, const Volume& to, at::ArrayRef<DimensionMapPointer> maps) {
  const std::vector<size_t> order = order_of(maps, from.tensor.scalar_type());
  const ScalarType between = from.tensor.scalar_type() == ScalarType::Byte
                                 ? ScalarType::Byte
                                 : image::arithmetic(from.tensor);
  for (const size_t dim : order) {
    Volume next = from;
    next.sizes[dim] = maps[dim]->band.out_size;
    next.tensor = dim == order.back()
                      ? to.tensor
                      : at::empty({next.numel()}, from.tensor.options().dtype(between));
    image::run(image::BandPass{from.tensor, next.tensor, table_of(*maps[dim], from, dim),
                               from.before(dim), from.after(dim)});
    from = next;
  }
}

}  // namespace

// Leaked: its tensors must not be destroyed after their device at the end of the process.
DimensionMapPointer find_map(const DimensionMapKey& key, bool transposed,
                             c10::function_ref<std::vector<Line>()> lines) {
  image::check_table(key.in, key.out);
  using Key = std::pair<DimensionMapKey, bool>;
  static auto& kept = *new LruCache<Key, DimensionMapPointer>(kKept);
  return kept.get({key, transposed}, [&] {
    return transposed ? make_map(key.out, key.in, image::transpose(lines(), key.in), true)
                      : make_map(key.in, key.out, lines(), false);
  });
}

void apply_maps(std::string_view op, const at::Tensor& from_any, const at::Tensor& to_any,
                at::ArrayRef<DimensionMapPointer> maps) {
  if (to_any.numel() == 0) return;
  if (from_any.numel() == 0) {
    to_any.zero_();
    return;
  }
  check_device_has(ocl_device(to_any), to_any.scalar_type(), op);
  const auto dims = static_cast<int64_t>(maps.size());
  const bool batched = from_any.dim() == dims + 2;
  const at::MemoryFormat format =
      batched && dims > 1 ? from_any.suggest_memory_format() : at::MemoryFormat::Contiguous;
  const at::Tensor from = from_any.contiguous(format);
  const at::Tensor to =
      to_any.is_contiguous(format) ? to_any : at::empty(to_any.sizes(), to_any.options(), format);
  const auto volume = [&](const at::Tensor& tensor) {
    Volume result{tensor, tensor.sizes().slice(tensor.dim() - dims).vec(), 1, 1};
    if (format != at::MemoryFormat::Contiguous) result.inner = tensor.size(1);
    if (tensor.is_complex()) {
      result.tensor = at::view_as_real(tensor);
      result.inner *= 2;
    }
    result.outer = result.tensor.numel() / result.numel();
    return result;
  };
  const bool selects =
      std::all_of(maps.begin(), maps.end(), [](const auto& map) { return map->selects; });
  if (selects) {
    select(volume(from), volume(to), maps);
  } else {
    TORCH_CHECK_NOT_IMPLEMENTED(
        !c10::isIntegralType(to.scalar_type(), true) || to.scalar_type() == ScalarType::Byte, op,
        " is not implemented for ocl (", to.scalar_type(), ")");
    const Volume source = volume(from), target = volume(to);
    if (sums_planes(source, maps)) {
      sum_planes(source, target, maps[0]->tight, *maps[1]);
    } else {
      sum_up(source, target, maps);
    }
  }
  if (!to.is_same(to_any)) to_any.copy_(to);
}

}  // namespace ocl
