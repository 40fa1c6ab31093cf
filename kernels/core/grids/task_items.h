// For launches on CPU devices whose tasks take items of work from a shared counter
// (task_items.clh).
#pragma once

#include <ATen/core/Tensor.h>

#include "backend/device/device.h"
#include "backend/queue/stream.h"

namespace ocl {

// The number of tasks for kernels whose tasks need much memory: two per core.
inline int64_t few_tasks(const Device& device) {
  return std::max<int64_t>(1, static_cast<int64_t>(device.parameters().tasks) / 2);
}

// A counter that is 0 when the stream's next launch begins. Only that launch may use it.
at::Tensor item_counter(Stream& stream, const at::Tensor& like);

}  // namespace ocl
