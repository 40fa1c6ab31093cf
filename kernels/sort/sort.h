// Shared by the host files that launch sorting and selecting kernels.
#pragma once

#include <optional>

#include "backend/launch.h"
#include "kernels/core/dtype.h"

namespace ocl {

// Defines for sort_key.clh.
Defines sort_key_defines(ScalarType type, bool descending);

// The bits in which elements differ: bits from..to - 1 tell their order.
struct KeyBits {
  size_t from, to;
};

// Sorts the rows of a contiguous tensor, each of `size` elements, into contiguous values and
// indices, in the GPU family. Without `bits`, elements may differ in all of theirs.
void sort_rows_gpu(const at::Tensor& in, size_t size, bool descending, const at::Tensor& values,
                   const at::Tensor& indices, std::optional<KeyBits> bits = std::nullopt);

// Whether topk_rows finds k of `size` elements faster than a sort.
bool topk_pays(const at::Tensor& in, size_t size, size_t k);

// The k greatest, or smallest, elements of a contiguous tensor's rows, in order.
void topk_rows(const at::Tensor& in, size_t k, bool largest, const at::Tensor& values,
               const at::Tensor& indices);

}  // namespace ocl
