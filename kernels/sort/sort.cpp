// Sorting by radix (sort.cl, sort_gpu.cpp), and operators that use it: topk, randperm.
#include <ATen/MemoryOverlap.h>
#include <ATen/native/TensorFactories.h>
#include <ATen/ops/empty.h>
#include <ATen/ops/sort.h>

#include "backend/base/error.h"
#include "kernels/core/operators/registration.h"
#include "kernels/core/tensors/tensors.h"
#include "kernels/core/types/dtype.h"
#include "kernels/sort/sort.h"
#include "native/sort.h"

namespace ocl {
namespace {

constexpr size_t kShortRow = 64;
constexpr size_t kDigits = 256, kBitsPerPass = 8;
constexpr size_t kChunk = 8192;                  // the fewest elements per chunk
constexpr size_t kMostCounts = size_t{1} << 24;  // counts at once, if there are several rows

struct SortTasks {
  const char* kernel;
  ScalarType type;
  bool descending;

  KernelSource source(Device&, size_t group) const {
    Defines defines = sort_key_defines(type, descending);
    defines.set("GROUP", static_cast<int64_t>(std::min(group, kDigits)));
    return {"sort.cl", kernel, defines};
  }
};

// The CPU family's counterpart of sort_rows_gpu().
class RowSort {
 public:
  RowSort(const at::Tensor& in, size_t rows, size_t size, bool descending)
      : device_(ocl_device(in)), in_(in), rows_(rows), size_(size), descending_(descending) {
    const size_t most = std::max<size_t>(1, device_.parameters().tasks / rows);
    chunks_ = std::clamp<size_t>(size / kChunk, 1, most);
  }

  void run(const at::Tensor& values, const at::Tensor& indices) {
    const uint64_t rows = rows_, size = size_;
    const at::Tensor order = workspace(ScalarType::Int);
    if (size_ <= kShortRow) {
      launch("sort_short", 1, view(in_), view(values), view(order), rows, size);
    } else {
      by_radix({workspace(in_.scalar_type()), order}, {values, indices});
    }
    launch("sort_gather", chunks_, view(in_), view(order), view(values), view(indices), rows, size,
           uint64_t{chunks_});
  }

 private:
  // Elements in a partial order, and their positions in the row.
  struct Order {
    at::Tensor keys, positions;
  };

  // The passes alternate between `last` and the results' memory, and the last pass writes `last`.
  void by_radix(Order last, Order results) {
    const uint64_t rows = rows_, size = size_, chunks = chunks_;
    const at::Tensor counts = at::empty({static_cast<int64_t>(rows_ * kDigits * chunks_)},
                                        in_.options().dtype(ScalarType::Int));
    const size_t bits = 8 * c10::elementSize(in_.scalar_type());
    const bool even = bits / kBitsPerPass % 2 == 0;
    Order from = even ? last : results, to = even ? results : last;
    launch("sort_keys", chunks_, view(in_), view(from.keys), view(from.positions), rows, size,
           chunks);
    for (size_t shift = 0; shift < bits; shift += kBitsPerPass) {
      const auto digit = static_cast<uint32_t>(shift);
      launch("sort_count", chunks_, view(from.keys), view(counts), rows, size, chunks, digit);
      scan(counts);
      launch("sort_scatter", chunks_, view(from.keys), view(from.positions), view(to.keys),
             view(to.positions), view(counts), rows, size, chunks, digit);
      std::swap(from, to);
    }
  }

  void scan(const at::Tensor& counts) {
    const Kernel& scan = kernel("sort_scan");
    const size_t group = std::min(scan.group, kDigits);  // adds up the counts of a row
    ocl::launch(stream_of(in_), scan, {group, rows_}, {group, 1}, view(counts), uint64_t{chunks_});
  }

  // A work-item for each chunk of each row.
  template <typename... Args>
  void launch(const char* name, size_t chunks, const Args&... args) {
    ocl::launch(stream_of(in_), kernel(name), {chunks, rows_}, {1, 1}, args...);
  }

  const Kernel& kernel(const char* name) {
    return find_kernel(device_, SortTasks{name, in_.scalar_type(), descending_});
  }

  at::Tensor workspace(ScalarType type) const {
    return at::empty({in_.numel()}, in_.options().dtype(type));
  }

  Device& device_;
  const at::Tensor in_;
  size_t rows_, size_, chunks_;
  bool descending_;
};

void sort_rows(const at::Tensor& in, size_t size, bool descending, const at::Tensor& values,
               const at::Tensor& indices) {
  if (ocl_device(in).family() == KernelFamily::kGpu) {
    return sort_rows_gpu(in, size, descending, values, indices);
  }
  const size_t rows = static_cast<size_t>(in.numel()) / size;
  // For short rows, the counts need more memory than the rows.
  const size_t most = std::max<size_t>(1, kMostCounts / std::max(kDigits, size));
  const size_t slice = size <= kShortRow ? rows : std::min(rows, most);
  for (size_t from = 0; from < rows; from += slice) {
    const size_t count = std::min(slice, rows - from);
    const auto part = [&](const at::Tensor& all) {
      return all.view({-1, static_cast<int64_t>(size)})
          .narrow(0, static_cast<int64_t>(from), static_cast<int64_t>(count));
    };
    RowSort(part(in), count, size, descending).run(part(values), part(indices));
  }
}

}  // namespace

Defines sort_key_defines(ScalarType type, bool descending) {
  static constexpr const char* kBits[] = {"uchar", "ushort", "uint", "ulong"};
  const size_t size = c10::elementSize(type);
  Defines defines;
  defines.set("BITS", kBits[std::countr_zero(size)])
      .set("KEY_BITS", static_cast<int64_t>(8 * size));
  if (c10::isFloatingType(type)) {
    defines.set("FLOATING", 1);
    defines.set("INFINITY_BITS", type == ScalarType::Double     ? "0x7FF0000000000000UL"
                                 : type == ScalarType::Float    ? "0x7F800000u"
                                 : type == ScalarType::BFloat16 ? "0x7F80"
                                                                : "0x7C00");
  } else if (type != ScalarType::Bool && c10::isSignedType(type)) {
    defines.set("SIGNED", 1);
  }
  if (descending) defines.set("DESCENDING", 1);
  return defines;
}

at::Tensor rows_of(const at::Tensor& self, int64_t dim) {
  return self.movedim(dim, -1).contiguous().view({-1, self.size(dim)});
}

void in_parts(const at::Tensor& rows,
              c10::function_ref<void(int64_t first, const at::Tensor& part)> use) {
  constexpr int64_t kElements = int64_t{1} << 20;  // elements of a part, if it has several rows
  int64_t first = 0;
  for (const at::Tensor& part : rows.split(std::max<int64_t>(kElements / rows.size(1), 1))) {
    use(first, part);
    first += part.size(0);
  }
}

namespace native {

// Replaces PyTorch's implementation, which first copies the elements to `values`.
OCL_STRUCTURED("sort.values_stable", sort_stable)
(const Tensor& self, std::optional<bool> /*stable*/, int64_t dim, bool descending,
 const Tensor& values, const Tensor& indices) {
  if (self.dim() == 0) {
    values.copy_(self);
    indices.zero_();
    return;
  }
  if (self.numel() == 0) return;
  const auto size = static_cast<size_t>(self.size(dim));
  TORCH_CHECK(size <= UINT32_MAX, "sort: a row of ", size, " elements is beyond the ", UINT32_MAX,
              " that ocl supports");
  Tensor in = self.movedim(dim, -1).contiguous();
  if (in.is_alias_of(values) || in.is_alias_of(indices)) in = in.clone();  // out= may be `self`
  const DenseOutput out(values.movedim(dim, -1)), positions(indices.movedim(dim, -1));
  sort_rows(in, size, descending, out.tensor(), positions.tensor());
  out.finish();
  positions.finish();
}

OCL_STRUCTURED("topk.values", topk)
(const Tensor& self, int64_t k, int64_t dim, bool largest, bool /*sorted*/, const Tensor& values,
 const Tensor& indices) {
  if (self.dim() == 0) {
    values.copy_(self);
    indices.zero_();
    return;
  }
  if (values.numel() == 0) return;
  at::assert_no_overlap(values, self);
  at::assert_no_overlap(indices, self);
  run_topk({self, k, dim, largest, values, indices});
}

// The order of n random 64-bit numbers, so that it is the same on every device.
OCL_NATIVE("randperm.generator_out", randperm_out);
Tensor& randperm_out(int64_t n, std::optional<at::Generator> generator, Tensor& out) {
  TORCH_CHECK(n >= 0, "n must be non-negative, got ", n);
  at::native::check_supported_max_int_with_precision(n, out);
  out.resize_({n});
  if (n == 0) return out;
  const at::TensorOptions options = out.options().dtype(ScalarType::Long);
  const Tensor keys = at::empty({n}, options).random_(std::move(generator));
  const auto [values, order] = at::sort(keys, /*stable=*/true, 0, /*descending=*/false);
  return out.copy_(order);
}

}  // namespace native
}  // namespace ocl
