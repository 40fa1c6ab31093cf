// The shape of a reduction for reduce.clh: which dimensions it keeps and which it reduces.
#pragma once

#include <ATen/native/TensorIterator.h>

#include "backend/launch/launch.h"

namespace ocl {

struct ReduceShape {
  struct Kept {
    size_t size;
    int64_t in, out;  // strides in bytes
  };
  struct Reduced {
    size_t size;
    int64_t in;
  };
  // Dimension 0 is the fastest in the input's memory; neither list is empty.
  std::vector<Kept> kept;
  std::vector<Reduced> reduced;
  size_t parts = 1;
  size_t count = 0;  // elements per output; when merging parts, in all parts together

  // Makes the shape from an iteration. The output comes first, with stride 0 in reduced dimensions.
  static ReduceShape of(const at::TensorIteratorBase& iter);
  // Makes the shape for reducing one dimension of a tensor. `out_element`: bytes of an output's
  // element.
  static ReduceShape of_dimension(const at::TensorBase& in, int64_t dim, int64_t out_element);

  // Adds a kept dimension of size 2 for the real and imaginary parts.
  void keep_parts(int64_t in_element, int64_t out_element);

  // The shape of a split reduction's second launch, which reads a workspace [parts][outputs] with
  // elements of this many bytes.
  ReduceShape merging_parts(int64_t element) const;

  size_t outputs() const;
  size_t elements() const;
  // Whether 32 bits suffice for the indices of elements, with room for steps beyond the last one.
  bool is_small() const { return elements() <= INT32_MAX; }
  // The adjacent outputs of a task: at most `most` vectors of `width`, and few enough that all
  // tasks have work.
  size_t column_block(const Device& device, size_t width, size_t most) const;
  // Adds the shape as the kernel's argument Shape.
  void bind(Arguments& arguments) const;
};

}  // namespace ocl
