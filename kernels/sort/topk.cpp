// The k greatest or smallest elements of rows; without sorting the rows if that is faster.
#include <ATen/ops/empty.h>
#include <ATen/ops/sort.h>

#include <bit>

#include "kernels/core/algorithms/algorithms.h"
#include "kernels/core/grids/grid.h"
#include "kernels/core/tensors/tensors.h"
#include "kernels/sort/sort.h"

namespace ocl {

static std::string describe(const TopK& call) {
  return str("topk of ", call.k, " in ", call.self.sizes(), " along dimension ", call.dim);
}

namespace {

constexpr size_t kFewest = 8;  // rows and chunks have at least this many times k elements

struct TopKTasks {
  const char* kernel;
  ScalarType type;
  bool largest;

  KernelSource source(Device&) const {
    return {"topk.cl", kernel, sort_key_defines(type, largest)};
  }
};

struct Rows {
  at::Tensor in;
  size_t size, k;
  bool largest;

  size_t count() const { return static_cast<size_t>(in.numel()) / size; }
  // [rows * chunks, k]
  at::Tensor candidates(size_t chunks, const at::TensorOptions& options) const {
    return at::empty({static_cast<int64_t>(count() * chunks), static_cast<int64_t>(k)}, options);
  }
};

// Parameters of the CPU family's kernels (topk.cl).
void by_tasks(const Rows& rows, const at::Tensor& values, const at::Tensor& indices) {
  constexpr size_t kChunk = 4096;  // elements, at least
  const at::Tensor& in = rows.in;
  Device& device = ocl_device(in);
  const size_t most = std::max<size_t>(1, device.parameters().tasks / rows.count());
  const size_t chunks = std::clamp<size_t>(rows.size / std::max(kChunk, kFewest * rows.k), 1, most);
  const at::Tensor keys = rows.candidates(chunks, in.options());
  const at::Tensor positions = rows.candidates(chunks, in.options().dtype(ScalarType::Int));
  const auto kernel = [&](const char* name) -> const Kernel& {
    return find_kernel(device, TopKTasks{name, in.scalar_type(), rows.largest});
  };
  launch(stream_of(in), kernel("topk_chunk"), {chunks, rows.count()}, {1, 1}, view(in), view(keys),
         view(positions), uint64_t{rows.size}, uint64_t{rows.k});
  launch(stream_of(in), kernel("topk_finish"), {1, rows.count()}, {1, 1}, view(in), view(keys),
         view(positions), view(values), view(indices), uint64_t{rows.size}, uint64_t{rows.k},
         uint64_t{chunks});
}

// Parameters of the GPU family's kernel (topk_gpu.cl).
constexpr size_t kMostItems = 256, kMostCapacity = 1024;
constexpr size_t kTileRow = 1024;  // shorter rows: sort_tile of sort_gpu.cl sorts several at once

// CAPACITY: the elements that a group can sort in local memory; 0 if there is no room. The other
// local arrays of topk_gpu.cl are four counts per digit and a number per work-item; the compiler
// may add padding.
size_t capacity(const Device& device, size_t element) {
  constexpr size_t kDigits = 256, kCopies = 4, kAlignment = 64;
  constexpr size_t kCounts = (kCopies * kDigits + kMostItems + kAlignment) * sizeof(uint32_t);
  const size_t local = device.properties().local_memory;
  return local <= kCounts
             ? 0
             : std::min(kMostCapacity,
                        std::bit_floor((local - kCounts) / (element + sizeof(uint32_t))));
}

enum class Launch { kWhole, kPartial, kMerge };

struct TopKSelect {
  Launch kind;
  ScalarType type;
  bool largest;

  KernelSource source(Device& device, size_t group) const {
    Defines defines = sort_key_defines(type, largest);
    defines.set("GROUP", static_cast<int64_t>(std::min(group, kMostItems)))
        .set("CAPACITY", static_cast<int64_t>(capacity(device, c10::elementSize(type))));
    if (kind == Launch::kPartial) defines.set("PARTIAL", 1);
    if (kind == Launch::kMerge) defines.set("MERGE", 1);
    return {"topk_gpu.cl", "topk_select", defines};
  }
};

// Finds the k best of each chunk, or if it merges chunks, of the candidates at `from`.
void select(const Rows& rows, size_t chunks, Launch kind, const at::Tensor& from,
            const at::Tensor& values, const at::Tensor& indices) {
  const at::Tensor& in = rows.in;
  Device& device = ocl_device(in);
  const ScalarType type = in.scalar_type();
  const Kernel& kernel = find_kernel(device, TopKSelect{kind, type, rows.largest});
  const size_t items = std::min(kernel.group, kMostItems);
  Arguments arguments(stream_of(in), kernel);
  arguments.add(view(in));
  if (kind == Launch::kMerge) arguments.add(view(from));
  arguments.add(view(values)).add(view(indices)).add(uint64_t{rows.size}).add(uint64_t{chunks});
  // There may be a pass for each 8 bits of the keys, and one for the candidates.
  const double passes = static_cast<double>(c10::elementSize(type)) + 2;
  arguments.add(static_cast<uint32_t>(rows.k))
      .enqueue({rows.count() * chunks * items}, {items}, 4 * passes * in.numel());
}

void by_groups(const Rows& rows, const at::Tensor& values, const at::Tensor& indices) {
  constexpr size_t kChunk = 16384;  // elements, at least
  const at::Tensor& in = rows.in;
  const size_t chunks = std::min(parts_for(ocl_device(in), rows.count(), rows.size, kChunk),
                                 std::max<size_t>(1, rows.size / (kFewest * rows.k)));
  if (chunks == 1) return select(rows, 1, Launch::kWhole, {}, values, indices);
  const at::Tensor best = rows.candidates(chunks, in.options());
  const at::Tensor positions = rows.candidates(chunks, in.options().dtype(ScalarType::Int));
  select(rows, chunks, Launch::kPartial, {}, best, positions);
  select({best, chunks * rows.k, rows.k, rows.largest}, 1, Launch::kMerge, positions, values,
         indices);
}

const char* refusal_of_selection(const TopK& call) {
  const auto size = static_cast<size_t>(call.self.size(call.dim)), k = static_cast<size_t>(call.k);
  const Device& device = ocl_device(call.self);
  if (k > size / kFewest) return "a sort finds so many faster";
  if (size > INT32_MAX) return "positions have 32 bits";
  if (device.family() == KernelFamily::kCpu) return nullptr;
  if (size <= kTileRow) return "a group sorts such rows at once";
  const size_t most = capacity(device, c10::elementSize(call.self.scalar_type())) / 2;
  return k <= most ? nullptr : "a group's local memory does not hold so many";
}

void run_selection(const TopK& call) {
  const at::Tensor in = call.self.movedim(call.dim, -1).contiguous();
  const Rows rows{in, static_cast<size_t>(in.size(-1)), static_cast<size_t>(call.k), call.largest};
  const DenseOutput values(call.values.movedim(call.dim, -1)),
      indices(call.indices.movedim(call.dim, -1));
  const bool groups = ocl_device(in).family() == KernelFamily::kGpu;
  (groups ? by_groups : by_tasks)(rows, values.tensor(), indices.tensor());
  values.finish();
  indices.finish();
}

void run_sort(const TopK& call) {
  const DenseOutput values(call.values.movedim(call.dim, -1)),
      indices(call.indices.movedim(call.dim, -1));
  in_parts(rows_of(call.self, call.dim), [&](int64_t first, const at::Tensor& part) {
    const auto [sorted, order] = at::sort(part, /*stable=*/true, 1, /*descending=*/call.largest);
    const auto put = [&](const DenseOutput& to, const at::Tensor& from) {
      to.tensor()
          .view({-1, call.k})
          .narrow(0, first, part.size(0))
          .copy_(from.narrow(1, 0, call.k));
    };
    put(values, sorted);
    put(indices, order);
  });
  values.finish();
  indices.finish();
}

constexpr Algorithm<TopK> kAlgorithms[] = {
    {"topk", refusal_of_selection, run_selection},
    {"sort", nullptr, run_sort},
};
const OptionalPaths optional({kAlgorithms[0].name});

}  // namespace

void run_topk(const TopK& call) { run_first(kAlgorithms, call); }

}  // namespace ocl
