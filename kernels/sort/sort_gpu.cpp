// Sorting rows on GPUs: the launches of sort_gpu.cl.
#include <ATen/ceil_div.h>
#include <ATen/ops/cumsum.h>
#include <ATen/ops/empty.h>
#include <ATen/ops/empty_like.h>

#include <bit>

#include "kernels/core/tensors/tensors.h"
#include "kernels/sort/sort.h"

namespace ocl {
namespace {

constexpr size_t kDigits = 256, kBitsPerPass = 8;                    // as in sort_gpu.cl
constexpr size_t kPerItem = 8, kFewestItems = 64, kMostItems = 256;  // PER, and sizes of GROUP

// The bytes of local memory for a group's tile; must cover what the kernels of sort_gpu.cl use.
size_t local_bytes(size_t items, size_t element) {
  const size_t tile = items * kPerItem, padded = tile + tile / 32 + 1;
  return padded * (element + sizeof(uint32_t)) + (items + kDigits) * sizeof(uint32_t);
}

struct SortTiles {
  const char* kernel;
  ScalarType type;
  bool descending;
  size_t wanted;  // the most work-items of a group

  KernelSource source(Device&, size_t group) const {
    Defines defines = sort_key_defines(type, descending);
    defines.set("GROUP", static_cast<int64_t>(std::min(group, wanted)));
    return {"sort_gpu.cl", kernel, defines};
  }
};

class GpuRowSort {
 public:
  GpuRowSort(const at::Tensor& in, size_t size, bool descending, std::optional<KeyBits> bits)
      : device_(ocl_device(in)),
        in_(in),
        rows_(static_cast<size_t>(in.numel()) / size),
        size_(size),
        descending_(descending) {
    const size_t element = c10::elementSize(in.scalar_type());
    while (most_ > 1 && local_bytes(most_, element) > device_.properties().local_memory) most_ /= 2;
    key_bits_ = 8 * element;
    bits_ = bits.value_or(KeyBits{0, key_bits_});
  }

  void run(const at::Tensor& values, const at::Tensor& indices) {
    const size_t items = std::bit_ceil(at::ceil_div(size_, kPerItem));
    if (items <= most_) {
      const size_t wanted = std::min(std::max(items, kFewestItems), most_);
      const Kernel& sort_tile = kernel("sort_tile", wanted);
      if (items <= sort_tile.group) return in_tiles(sort_tile, wanted, values, indices);
    }
    by_passes(values, indices);
  }

 private:
  // Each row is in one tile.
  void in_tiles(const Kernel& sort_tile, size_t wanted, const at::Tensor& values,
                const at::Tensor& indices) {
    const size_t items = std::min(sort_tile.group, wanted);
    const size_t rows_of_tile = std::min(items * kPerItem / size_, rows_);
    const size_t sorted_bits = key_bits_ + std::bit_width(rows_of_tile - 1);
    launch(stream_of(in_), sort_tile, {at::ceil_div(rows_, rows_of_tile) * items}, {items},
           view(in_), view(values), view(indices), uint64_t{rows_}, static_cast<uint32_t>(size_),
           static_cast<uint32_t>(rows_of_tile), static_cast<uint32_t>(sorted_bits));
  }

  // The passes alternate between the workspace and the results' memory, and the last pass writes
  // the results.
  void by_passes(const at::Tensor& values, const at::Tensor& indices) {
    const Kernel& scatter = kernel("sort_scatter", most_);
    const size_t items = std::min(scatter.group, most_);
    const Kernel& count = kernel("sort_count", items);
    const size_t count_items = std::min(count.group, items);
    const uint64_t size = size_, tiles = at::ceil_div(size_, items * kPerItem);
    const size_t groups = rows_ * tiles, first = bits_.from / kBitsPerPass;
    const size_t passes = std::max<size_t>(1, at::ceil_div(bits_.to, kBitsPerPass) - first);
    const at::Tensor counts =
        at::empty({static_cast<int64_t>(rows_ * kDigits), static_cast<int64_t>(tiles)},
                  in_.options().dtype(ScalarType::Int));
    Order from{in_, counts};  // the first pass reads no positions
    Order to{values, indices}, next = to;
    if (passes > 1) {
      next = {at::empty_like(in_), at::empty({in_.numel()}, counts.options())};
      if (passes % 2 == 0) std::swap(to, next);
    }
    Stream& stream = stream_of(in_);
    for (size_t pass = 0; pass < passes; ++pass) {
      const auto shift = static_cast<uint32_t>((first + pass) * kBitsPerPass);
      const int32_t begins = pass == 0, ends = pass + 1 == passes;
      launch(stream, count, {groups * count_items}, {count_items}, view(from.elements),
             view(counts), size, tiles, static_cast<uint32_t>(items * kPerItem), shift);
      at::Tensor sums = counts;
      at::cumsum_out(sums, counts, /*dim=*/1, ScalarType::Int);
      launch(stream, scatter, {groups * items}, {items}, view(from.elements), view(from.positions),
             view(counts), view(to.elements), view(to.positions), size, tiles, shift, begins, ends);
      from = to;
      std::swap(to, next);
    }
  }

  const Kernel& kernel(const char* name, size_t wanted) {
    return find_kernel(device_, SortTiles{name, in_.scalar_type(), descending_, wanted});
  }

  // Elements in a partial order, and their positions in the row.
  struct Order {
    at::Tensor elements, positions;
  };

  Device& device_;
  const at::Tensor in_;
  size_t rows_, size_, key_bits_, most_ = kMostItems;  // most_: the most work-items of a group
  KeyBits bits_;
  bool descending_;
};

}  // namespace

void sort_rows_gpu(const at::Tensor& in, size_t size, bool descending, const at::Tensor& values,
                   const at::Tensor& indices, std::optional<KeyBits> bits) {
  GpuRowSort(in, size, descending, bits).run(values, indices);
}

}  // namespace ocl
