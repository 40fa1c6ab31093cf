// Chooses between the kernels of sdpa.cpp and PyTorch's composition of operators; chooses the tiles
// of the CPU family.
#pragma once

#include <cstdint>
#include <optional>

#include <c10/core/ScalarType.h>

#include "kernels/attention/sdpa_problem.h"

namespace ocl {

inline constexpr int64_t kLargestHead = 256;  // elements of a row of Q, K or V

// How CPU-family kernels read rows: in place, after a conversion to float32, or as pairs of
// bfloat16 (sdpa_pairs_cpu.clh).
enum class SdpaRows : uint8_t { kInPlace, kConverted, kPairs };

struct SdpaTile {
  int32_t width, vectors, block, rows;
  SdpaRows reads = SdpaRows::kInPlace;
};

// The largest tile that fits into the device's local memory. `lanes`: the number of rows that go
// into lanes of vectors; d, dv: the size of a head of query and value.
std::optional<SdpaTile> choose_sdpa_tile(Device& device, SdpaKernel which, int64_t lanes, int64_t d,
                                         int64_t dv, at::ScalarType type);

}  // namespace ocl
