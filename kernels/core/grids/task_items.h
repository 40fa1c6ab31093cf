// Tasks of a launch on a CPU device that take items of work one after another (task_items.clh).
#pragma once

#include <ATen/core/Tensor.h>

#include "backend/device/device.h"
#include "backend/queue/stream.h"

namespace ocl {

// Tasks of a launch that have much memory each: two for each core.
inline int64_t few_tasks(const Device& device) {
  return std::max<int64_t>(1, static_cast<int64_t>(device.parameters().tasks) / 2);
}

// A word that is 0 when the next launch in the stream begins, which no other launch may use.
at::Tensor item_counter(Stream& stream, const at::Tensor& like);

}  // namespace ocl
