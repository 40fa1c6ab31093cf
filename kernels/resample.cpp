#include "kernels/resample.h"

#include <ATen/ops/empty.h>
#include <ATen/ops/view_as_real.h>

#include <algorithm>
#include <numeric>

#include "kernels/dtype.h"
#include "kernels/grid.h"
#include "kernels/image/passes.h"
#include "kernels/recent.h"
#include "kernels/tensors.h"

namespace ocl {
namespace {

constexpr size_t kKept = 64;
constexpr int kShift = 22;  // of the weights for uint8

// Weights for uint8, rounded as PyTorch does it: to 16 bits, with as many behind the point as the
// greatest of them leaves.
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

DimensionMapPointer make_map(int64_t in, int64_t out, const std::vector<Line>& lines) {
  auto map = std::make_shared<DimensionMap>(in, out);
  image::fill(map->band, lines);
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
  int64_t behind(size_t dim) const {
    return std::accumulate(sizes.begin() + dim + 1, sizes.end(), inner, std::multiplies<>());
  }
  int64_t numel() const { return before(sizes.size()) * inner; }
};

void select(const Volume& from, const Volume& to, at::ArrayRef<DimensionMapPointer> maps) {
  static constexpr const char* kName = "resample_gather";
  Device& device = ocl_device(from.tensor);
  const ScalarType bits = bits_type(from.tensor.element_size());
  const bool pixels = from.inner > 1;
  KernelKey key{reinterpret_cast<uint64_t>(kName), {static_cast<uint64_t>(bits), uint64_t{pixels}}};
  const Kernel& kernel = find_kernel(device, key, [&] {
    Defines defines;
    define_grid(defines, device);
    defines.set("IN", dtype_name(bits));
    if (pixels) defines.set("PIXELS", 1);
    return KernelSource{"resample_gather.cl", kName, defines};
  });
  Sizes sizes{{1, 1, 1}, {1, 1, 1}};
  std::array<at::Tensor, 3> starts;
  const size_t missing = 3 - maps.size();
  for (size_t d = 0; d < 3; ++d) {
    // A dimension that is not there has no table; its only position is 0.
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

// The dimensions in the order that costs least: what shrinks first, from outside, where neighbours
// in memory are computed together; then what grows, from inside. uint8 is rounded after each, the
// last dimension first as PyTorch does it.
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
    image::run(image::BandPass{from.tensor, next.tensor, maps[dim]->band, from.before(dim),
                               from.behind(dim)});
    from = next;
  }
}

}  // namespace

// Never destroyed: tensors must not outlive their device at the end of the process.
DimensionMapPointer find_map(const DimensionMapKey& key, bool transposed,
                             c10::function_ref<std::vector<Line>()> lines) {
  using Key = std::pair<DimensionMapKey, bool>;
  static auto& kept = *new Recent<Key, DimensionMapPointer>(kKept);
  return kept.get({key, transposed}, [&] {
    return transposed ? make_map(key.out, key.in, image::transpose(lines(), key.in))
                      : make_map(key.in, key.out, lines());
  });
}

void apply_maps(std::string_view op, const at::Tensor& from_any, const at::Tensor& to_any,
                at::ArrayRef<DimensionMapPointer> maps) {
  if (to_any.numel() == 0) return;
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
    sum_up(volume(from), volume(to), maps);
  }
  if (!to.is_same(to_any)) to_any.copy_(to);
}

}  // namespace ocl
