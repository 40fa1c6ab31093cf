// The tiles of matrix products and convolutions on GPUs (cl/tile_gpu.clh), and their choice. The
// table and the model that chooses stand in gemm_gpu.cpp only, so that measurements can overrule
// it.
#pragma once

#include <ATen/core/Tensor.h>

#include <optional>
#include <span>

#include "kernels/dtype.h"
#include "kernels/gemm.h"

namespace ocl {

struct GemmTile {
  int64_t m, n, k;         // of a work-group, and the products between two barriers
  int64_t item_m, item_n;  // of a work-item
  int64_t unroll;          // products of a sum in one turn of the innermost loop
  double rate;             // multiply-adds per time, seen from the first tile

  int64_t items() const { return m / item_m * (n / item_n); }
  int64_t local_bytes(int64_t element) const { return 2 * k * (m + 4 + n + 4) * element; }
};

// The candidates, the best for large products first.
std::span<const GemmTile> gemm_gpu_tiles();

struct TileChoice {
  int64_t index;
  int64_t parts;  // that k is cut into, so that all compute units have work; their sums are added

  const GemmTile& tile() const { return gemm_gpu_tiles()[index]; }
  int64_t depth(int64_t k) const;  // of a part, a multiple of the tile's
};

enum class TileUse { kProduct, kConvolution };

// Sizes of `batches` products of m x k by k x n matrices.
struct TileProblem {
  int64_t m, n, k, batches;
  ScalarType compute;
  TileUse use;
};
bool tile_fits(const Device& device, const TileProblem& problem, int64_t index);
// Without a measurement: by a model of the device.
int64_t model_tile(const Device& device, const TileProblem& problem);
TileChoice with_parts(const Device& device, const TileProblem& problem, int64_t index);
void set_tile(Defines& defines, const GemmTile& tile);

// out = activation(alpha * sum + beta * c + residual), where the sum goes over the parts,
// partial[parts][..] of the compute type in out's shape. out has 3 dimensions, the last one without
// gaps; c and the residual have its shape, or are undefined.
void gemm_sum_parts(const at::Tensor& out, const at::Tensor& partial, const c10::Scalar& alpha,
                    const at::Tensor& c, const c10::Scalar& beta, const Epilogue& epilogue);

// Where a product's or convolution's kernel has no registers left for the functions.
bool has_room_for(const Device& device, const Epilogue& epilogue);

}  // namespace ocl
