// cat: several contiguous inputs in one launch, others by a copy each.
#include <ATen/core/IListRef.h>

#include <algorithm>

#include "kernels/core/grids/grid.h"
#include "kernels/core/operators/registration.h"
#include "kernels/core/tensors/tensors.h"
#include "kernels/core/types/parameters.h"
#include "native/cat.h"

namespace ocl {
namespace {

using at::Tensor;

#include "kernels/tensor/cat_parameters.clh"

struct JoinRows {
  size_t word;  // bytes

  KernelSource source(Device& device) const {
    Defines defines;
    define_grid(defines, device);
    defines.set("WORD", word == 1   ? "uchar"
                        : word == 2 ? "ushort"
                        : word == 4 ? "uint"
                        : word == 8 ? "ulong"
                                    : "ulong2");
    return {"cat.cl", "join_rows", defines};
  }
};

// An input, and its place in the result.
struct Part {
  Tensor tensor;
  int64_t start;  // along the dimension of cat
};

// Whether a kernel can take the memory of the tensor as rows.
bool has_rows(const Tensor& tensor, const Tensor& out) {
  return tensor.is_contiguous() && tensor.scalar_type() == out.scalar_type() &&
         tensor.device() == out.device() && !tensor.is_conj() && !tensor.is_neg();
}

// Copies at most CAT_INPUTS parts, all of which have rows.
void join(at::ArrayRef<Part> parts, int64_t dim, const Tensor& out) {
  Device& device = ocl_device(out);
  const int64_t element = static_cast<int64_t>(out.element_size());
  const int64_t inner = out.stride(dim) * element;  // bytes of a step along the dimension
  const BufferView target = view(out);
  uint64_t bytes = static_cast<uint64_t>(inner * out.size(dim)) | target.offset;
  for (const Part& part : parts) {
    bytes |= static_cast<uint64_t>(inner * part.start) |
             static_cast<uint64_t>(inner * part.tensor.size(dim)) | view(part.tensor).offset;
  }
  const size_t word = size_t{1} << std::min(std::countr_zero(bytes), 4);
  const auto words = [&](int64_t steps) { return steps * inner / static_cast<int64_t>(word); };
  Joined joined{};
  joined.row = words(out.size(dim));
  Arguments arguments(stream_of(out), find_kernel(device, JoinRows{word}));
  int64_t length = 0;
  for (size_t i = 0; i < CAT_INPUTS; ++i) {
    const Part& part = parts[std::min(i, parts.size() - 1)];
    arguments.add(view(part.tensor));
    if (i >= parts.size()) continue;
    joined.start[i] = words(part.start);
    joined.size[i] = words(part.tensor.size(dim));
    length += joined.size[i];
  }
  const auto rows = static_cast<size_t>(out.numel() * element / (inner * out.size(dim)));
  const UnitGrid grid = unit_grid(device, rows, static_cast<size_t>(length));
  arguments.add(target).add(joined).add(uint64_t{rows}).add(static_cast<uint64_t>(length));
  arguments.add(grid.per_item).enqueue(grid.global, grid.local);
}

}  // namespace

namespace native {

OCL_COMPLEX("cat.out");
OCL_STRUCTURED("cat.out", cat)
(const at::ITensorListRef& tensors, int64_t dim, int64_t /*valid*/, bool /*all_contiguous*/,
 bool /*all_same_dtype*/, bool /*all_same_sizes_and_stride*/, at::MemoryFormat /*memory_format*/,
 const Tensor& out) {
  if (out.numel() == 0) return;
  const bool out_has_rows = out.is_contiguous();
  c10::SmallVector<Part, CAT_INPUTS> parts;
  const auto finish = [&] {
    if (parts.size() == 1) {
      const Part& part = parts.front();
      out.narrow(dim, part.start, part.tensor.size(dim)).copy_(part.tensor);
    } else if (!parts.empty()) {
      join(parts, dim, out);
    }
    parts.clear();
  };
  int64_t start = 0;
  for (const Tensor& tensor : tensors.materialize()) {
    // cat accepts an empty 1-d tensor among tensors of any shape.
    if (tensor.dim() == 1 && tensor.size(0) == 0) continue;
    const int64_t size = tensor.size(dim);
    if (tensor.numel() > 0) {
      const bool joins = out_has_rows && has_rows(tensor, out);
      // The parts of a launch are adjacent in the result.
      if (!joins || parts.size() == CAT_INPUTS) finish();
      parts.push_back({tensor, start});
      if (!joins) finish();
    }
    start += size;
  }
  finish();
}

}  // namespace native
}  // namespace ocl
