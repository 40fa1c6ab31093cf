// Whether, and in which order, convolutions of CPU devices run by Winograd's algorithm.
#pragma once

#include "kernels/conv/common/winograd.h"

namespace ocl {

enum WinogradOrder : int64_t {
  kOther,    // another algorithm
  kByTiles,  // by blocks of tiles, whose transformed inputs stay in the cache for all rows
  kByRows,   // by panels of rows (channels of the result), whose filters stay in the cache
  kOrders
};

inline constexpr int64_t kMostWinogradScratch = int64_t{1} << 26;  // floats

// The measured or estimated order. The estimate needs the lanes of a vector, `slots` and
// `padded_rows`. `slots`: the tiles that the transforms compute, including unused ones that fill
// vectors. `padded_rows`: the rows that the products compute, including unused ones that fill
// register tiles.
WinogradOrder choose_winograd_order(const ConvCall& call, const WinogradProblem& problem,
                                    int64_t lanes, int64_t slots, int64_t padded_rows);

// Tasks for at most `parts` parts of the work; each task has `floats` floats of scratch memory.
int64_t winograd_tasks(const Device& device, int64_t parts, int64_t floats);

}  // namespace ocl
