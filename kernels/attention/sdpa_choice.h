// The choice between the kernels of sdpa.cpp and PyTorch's own composition of operators, and the
// tiles of the CPU family.
#pragma once

#include <cstdint>
#include <optional>

#include "backend/device.h"

namespace ocl {

inline constexpr int64_t kLargestHead = 256;  // elements of a row

// The forward kernel and the two kernels of the gradients.
enum class SdpaKernel { kForward, kGradQuery, kGradKey };

struct SdpaTile {
  int64_t width, vectors, block, rows;
};

// The largest tile whose local memory the device has. `lanes`: rows to put into lanes of vectors;
// d, dv: the size of a head of query and value.
std::optional<SdpaTile> choose_sdpa_tile(const Device& device, SdpaKernel which, int64_t lanes,
                                         int64_t d, int64_t dv, bool copy_rows);

}  // namespace ocl
