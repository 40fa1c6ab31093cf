// The tiles of matrix products and convolutions on GPUs (tile_gpu.clh), and the choice among
// them. gemm_gpu.cpp holds the table of tiles and the model that chooses one. A measured choice
// (backend/tuning.h) overrules the model.
#pragma once

#include <ATen/ceil_div.h>
#include <ATen/core/Tensor.h>

#include <optional>
#include <span>

#include "kernels/core/dtype.h"
#include "kernels/matmul/gemm_problem.h"

namespace ocl {

struct GemmTile {
  int64_t m, n, k;         // results m x n of a work-group; depth k between two barriers
  int64_t item_m, item_n;  // results of a work-item
  int64_t unroll;          // products added to each sum per iteration of the innermost loop
  double rate;             // multiply-adds per time, relative to the first tile

  int64_t items() const { return m / item_m * (n / item_n); }
  int64_t local_bytes(int64_t element) const { return 2 * k * (m + 4 + n + 4) * element; }
};

// The candidates, the best for large products first.
std::span<const GemmTile> gemm_gpu_tiles();

struct TileChoice {
  int64_t index;
  int64_t parts;  // k is split so that all compute units have work; the parts' sums are added

  const GemmTile& tile() const { return gemm_gpu_tiles()[index]; }
  int64_t depth(int64_t k) const;  // of a part, a multiple of the tile's
};

enum class TileUse { kProduct, kConvolution };

// Sizes of `batches` products of m x k by k x n matrices.
struct TileProblem {
  int64_t m, n, k, batches;
  ScalarType compute;
  TileUse use;
  // The kernel loads single elements of A or B, and adds C or a residual. This takes registers.
  bool adds_by_element = false;

  // GridLimits::work: tiles at the edges compute as much as others.
  double work(const GemmTile& tile) const {
    return static_cast<double>(at::round_up(m, tile.m)) * at::round_up(n, tile.n) * k * batches *
           multiply_cost(compute);
  }
};
bool tile_fits(const Device& device, const TileProblem& problem, int64_t index);
bool any_tile_fits(const Device& device, ScalarType compute, TileUse use);
inline constexpr const char* kNoTile = "the device's groups or local memory are too small";
// The tile, or the next one whose work-items fit into a group of this size: the registers of a
// device may limit the groups of a kernel. An error if there is none.
int64_t tile_within(const Device& device, const TileProblem& problem, int64_t index, size_t group);
// The index of the tile that a model of the device estimates to be fastest.
int64_t model_tile(const Device& device, const TileProblem& problem);
TileChoice with_parts(const Device& device, const TileProblem& problem, int64_t index);
void set_tile(Defines& defines, const GemmTile& tile);

// partial[parts][..] has the sums of each part in out's shape, in the compute type:
//   out = activation(alpha * (sum over the parts) + beta * c + residual)
// `out` has 3 dimensions, the last one without gaps; `c` and the residual have its shape, or are
// undefined.
void gemm_sum_parts(const at::Tensor& out, const at::Tensor& partial, const c10::Scalar& alpha,
                    const at::Tensor& c, const c10::Scalar& beta, const Epilogue& epilogue);

// Whether stored rows can be read four elements at a time: they begin and end at multiples of four.
// `row`: elements of each of `rows`.
bool in_quads(const GemmOperand& operand, int64_t row, int64_t rows);

// Whether the kernel of a product or convolution has registers left to fuse the epilogue.
bool has_room_for(const Device& device, const Epilogue& epilogue);

}  // namespace ocl
