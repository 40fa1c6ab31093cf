// The k greatest or smallest elements of rows, without sorting the rows.
#include <ATen/ops/empty.h>

#include "kernels/core/algorithms.h"
#include "kernels/core/grid.h"
#include "kernels/core/tensors.h"
#include "kernels/sort/sort.h"

namespace ocl {
namespace {

constexpr size_t kChunk = 4096;  // elements, at least
constexpr size_t kFewest = 8;    // a chunk has at least this many times k elements

constexpr const char* kChunks = "topk";
const OptionalPaths optional({kChunks});

const Kernel& topk_kernel(Device& device, ScalarType type, bool largest, const char* name) {
  static Site site;
  KernelKey key{&site};
  key.by = {reinterpret_cast<uint64_t>(name), static_cast<uint64_t>(type), uint64_t{largest}};
  return find_kernel(device, key, [&] {
    return KernelSource{"topk.cl", name, sort_key_defines(type, largest)};
  });
}

}  // namespace

bool topk_pays(const at::Tensor& in, size_t size, size_t k) {
  return ocl_device(in).family() == KernelFamily::kCpu && k > 0 && k <= size / kFewest &&
         size <= UINT32_MAX && !is_disabled(kChunks);
}

void topk_rows(const at::Tensor& in, size_t k, bool largest, const at::Tensor& values,
               const at::Tensor& indices) {
  Device& device = ocl_device(in);
  const auto size = static_cast<size_t>(in.size(-1));
  const size_t rows = static_cast<size_t>(in.numel()) / size;
  const size_t most = std::max<size_t>(1, device.parameters().tasks / rows);
  const size_t chunks = std::clamp<size_t>(size / std::max(kChunk, kFewest * k), 1, most);
  const at::DimVector shape{static_cast<int64_t>(rows * chunks), static_cast<int64_t>(k)};
  const at::Tensor keys = at::empty(shape, in.options());
  const at::Tensor positions = at::empty(shape, in.options().dtype(ScalarType::Int));
  const ScalarType type = in.scalar_type();
  launch(stream_of(in), topk_kernel(device, type, largest, "topk_chunk"), {chunks, rows}, {1, 1},
         view(in), view(keys), view(positions), uint64_t{size}, uint64_t{k});
  launch(stream_of(in), topk_kernel(device, type, largest, "topk_finish"), {1, rows}, {1, 1},
         view(in), view(keys), view(positions), view(values), view(indices), uint64_t{size},
         uint64_t{k}, uint64_t{chunks});
}

}  // namespace ocl
