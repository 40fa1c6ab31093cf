// The plan of a call of index_get() or index_put(), which includes how it writes.
#pragma once

#include <string_view>

#include "backend/device/device.h"
#include "kernels/index/index.h"

namespace ocl {

constexpr int64_t kQuadBytes = 16;  // bytes of a uint4

struct IndexPlan {
  at::TensorIteratorBase& iter;
  const Indexing& indexing;
  IndexOperands operands;
  bool get;
  ScalarType type;  // element type in the kernel: an unsigned type if it only moves bits
  int ndim, indices;
  Device& device;
  bool row_index = true, row_dense = false;
  bool row_quads = false;    // dense rows of aligned uint4, which a GPU moves at once
  uint32_t int_indices = 0;  // a bit for each index tensor of 32 bits
  // Real and imaginary parts are added separately: dimension 0 is the parts.
  bool in_parts = false;

  int64_t size(int dim) const {
    if (in_parts && dim == 0) return 2;
    const int d = in_parts ? dim - 1 : dim;
    return d >= iter.ndim() ? 1 : iter.shape()[d];
  }
  int64_t stride(int operand, int dim) const {
    if (operand < 0) return 0;
    if (in_parts && dim == 0) {
      return operand >= operands.first_index ? 0 : static_cast<int64_t>(c10::elementSize(type));
    }
    const int d = in_parts ? dim - 1 : dim;
    return d >= iter.ndim() ? 0 : iter.strides(operand)[d];
  }
  size_t elements() const { return static_cast<size_t>(iter.numel()) * (in_parts ? 2 : 1); }
  bool computes() const { return indexing.combine || operands.other < 0; }
};

IndexPlan make_plan(at::TensorIteratorBase& iter, const Indexing& indexing, IndexOperands operands,
                    bool get, size_t indices);

// Whether dense rows can be moved as uint4. `strides`: those of the indexed tensor, in bytes.
bool in_quads(const IndexPlan& plan, at::IntArrayRef strides);

// Whether a single work-item must write all values: several may go to one element, and they need an
// order, or the device has no atomics for them.
bool has_one_writer(const IndexPlan& plan);

// The device's atomic function for the combination, or nullptr.
const char* atomic_function(const IndexPlan& plan);

// The number of moves. An index moves a row or an element.
size_t moves(const IndexPlan& plan);

// Why the writes are not sorted by their target (index_sorted.cl), or nullptr. `sizes`: those of
// the indexed tensor.
const char* refusal_of_sorting(const IndexPlan& plan, at::IntArrayRef sizes);

// Why a group does not join its values for one element first (index_join_gpu.cl), or nullptr.
const char* refusal_of_joining(const IndexPlan& plan);

// The work of a launch without sorting (Arguments::enqueue). `joined`: the most moves to an element
// that become one write.
double work_of(const IndexPlan& plan, size_t joined);

}  // namespace ocl
