// Shared by the host files that launch sorting and selecting kernels.
#pragma once

#include <optional>

#include "backend/launch/launch.h"
#include "kernels/core/types/dtype.h"

namespace ocl {

// Defines for sort_key.clh.
Defines sort_key_defines(ScalarType type, bool descending);

// The bits in which elements differ: bits from .. to - 1 determine their order.
struct KeyBits {
  size_t from, to;
};

// Sorts the rows of a contiguous tensor, each of `size` elements, into contiguous values and
// indices, in the GPU family. Without `bits`, elements may differ in all bits.
void sort_rows_gpu(const at::Tensor& in, size_t size, bool descending, const at::Tensor& values,
                   const at::Tensor& indices, std::optional<KeyBits> bits = std::nullopt);

// A tensor's rows along a dimension as a contiguous matrix.
at::Tensor rows_of(const at::Tensor& self, int64_t dim);

// Splits a matrix into parts of rows, because a sort needs several times the memory of its rows.
// Calls `use` with the index of the first row and the rows of each part.
void in_parts(const at::Tensor& rows,
              c10::function_ref<void(int64_t first, const at::Tensor& part)> use);

// The k greatest, or smallest, elements along a dimension, in order.
struct TopK {
  const at::Tensor& self;
  int64_t k, dim;
  bool largest;
  const at::Tensor &values, &indices;
};
void run_topk(const TopK& call);

}  // namespace ocl
