// Which dimensions of an iteration a reduction keeps and which it reduces, as cl/reduce.clh takes
// them.
#pragma once

#include <ATen/native/TensorIterator.h>

#include "backend/launch.h"

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
  size_t count = 0;  // elements behind each output; more than elements() when merging parts

  // Of an iterator with the output first, whose stride is 0 where it reduces.
  static ReduceShape of(const at::TensorIteratorBase& iter);
  // One reduced dimension of a tensor; strides of the output in its own elements' bytes.
  static ReduceShape of_dimension(const at::TensorBase& in, int64_t dim, int64_t out_element);

  // The parts of complex numbers as elements: a further kept, or reduced, dimension of size 2.
  void keep_parts(int64_t in_element, int64_t out_element);
  void reduce_parts(int64_t in_element);

  // The second launch of a split reduction: a workspace of [parts][outputs] of this element size.
  ReduceShape merging_parts(int64_t element) const;

  size_t outputs() const;
  size_t elements() const;
  // Neighbouring outputs of a task: as many as leave work for all tasks, in at most `most` vectors.
  size_t column_block(const Device& device, size_t width, size_t most) const;
  // Adds the kernel's Shape argument.
  void bind(Arguments& arguments) const;
};

}  // namespace ocl
