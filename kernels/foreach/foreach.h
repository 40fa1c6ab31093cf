// Launches over lists of tensors. One launch serves as many tensors as its arguments have room for,
// in chunks of equal size. OpenCL has no arrays of buffers, but the allocator cuts small tensors
// from few segments: the segments' buffers are kernel arguments, and a table has each tensor's
// buffer and offset (foreach.clh).
//
//   const TensorLists lists{device, {params, grads}, ScalarType::Float};
//   const Kernel& kernel = find_kernel(device, Update{lists.types()});
//   for_each_batch(lists, [&](const Batch& batch) {
//     Arguments arguments(stream, kernel);
//     batch.bind(arguments);
//     batch.enqueue(arguments);
//   });
#pragma once

#include <ATen/core/Tensor.h>
#include <c10/util/FunctionRef.h>
#include <c10/util/SmallVector.h>

#include "kernels/core/types/dtype.h"

namespace ocl {

// Parameters that all kernels over lists have, as a field of their specialisations.
struct ListTypes {
  std::array<ScalarType, 6> lists;  // element types of the lists
  uint8_t count;                    // number of lists
  ScalarType compute;
  bool numbers;  // whether the table has a number for each tensor

  // The most tensors of one launch.
  size_t capacity(const Device& device) const;
  Defines defines(const Device& device) const;
};

struct TensorLists {
  Device& device;
  // Tensors with the same index have the same sizes and strides, or only one element is read.
  c10::SmallVector<at::TensorList, 6> lists;
  ScalarType compute;
  c10::ArrayRef<c10::Scalar> numbers = {};  // one for each tensor, or none

  ListTypes types() const;
};

// The tensors of one launch.
class Batch {
 public:
  explicit Batch(const TensorLists& lists);

  // Adds the tensors with this index; false if there is no room.
  bool add(size_t index);
  void clear();

  size_t tensors() const { return tensors_; }
  size_t chunks() const { return chunks_; }
  // Adds the buffers, the table and the chunks as arguments.
  void bind(Arguments& arguments) const;
  // Enqueues the launch with a grid over the chunks.
  void enqueue(Arguments& arguments) const;

 private:
  static constexpr size_t kBuffers = 16;
  static constexpr size_t kMaxTableBytes = 4096;
  friend struct ListTypes;

  size_t per_task() const;
  std::optional<uint64_t> place(const at::Tensor& tensor);
  template <typename T>
  T* column(size_t offset) {
    return reinterpret_cast<T*>(table_.data() + offset);
  }

  const TensorLists& lists_;
  size_t capacity_, chunk_;
  size_t sizes_at_, numbers_at_, ends_at_, table_bytes_;
  size_t tensors_ = 0, chunks_ = 0, buffers_ = 0, elements_ = 0;
  std::array<cl_mem, kBuffers> buffer_{};
  alignas(8) std::array<std::byte, kMaxTableBytes> table_;
};

// Splits the tensors into batches, without empty tensors, and calls `launch` for each batch.
void for_each_batch(const TensorLists& lists, c10::function_ref<void(const Batch&)> launch);

// Whether all tensors are on one ocl device, and tensors with the same index have the same sizes
// and strides, without gaps. Element types may differ between lists.
bool can_launch_over(c10::ArrayRef<at::TensorList> lists);

// Whether one kernel may write all tensors at once: written tensors do not share memory, and a
// tensor that is read is written only in place. (PyTorch's loop runs in order, and refuses
// overlaps.)
bool writes_apart(at::TensorList written, c10::ArrayRef<at::TensorList> read);

}  // namespace ocl
