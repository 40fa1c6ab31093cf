// The tiles of matrix products and convolutions on GPUs (tile_gpu.clh): gemm_gpu.cpp holds their
// table and the model that chooses one. gemm_choice.cpp chooses for products, where a measured
// choice (backend/program/tuning.h) overrules the model.
#pragma once

#include <ATen/ceil_div.h>
#include <ATen/core/Tensor.h>

#include <optional>
#include <span>
#include <string>

#include "backend/base/error.h"
#include "kernels/core/types/dtype.h"
#include "kernels/matmul/gemm_problem.h"

namespace ocl {

// The properties of a tile that the model needs, for all kernels.
struct TileShape {
  int64_t m, n, k;  // as GemmTile's
  int64_t items;    // work-items of a work-group
  double rate;      // as GemmTile's
};

struct GemmTile {
  int64_t m, n, k;         // results m x n of a work-group; depth k between two barriers
  int64_t item_m, item_n;  // results of a work-item
  int64_t unroll;          // products added to each sum per iteration of the innermost loop
  double rate;             // multiply-adds per time, relative to the first tile

  std::string name() const { return str(m, "x", n, "x", k, ",", item_m, "x", item_n, "x", unroll); }
  int64_t items() const { return m / item_m * (n / item_n); }
  int64_t local_bytes(int64_t element) const { return 2 * k * (m + 4 + n + 4) * element; }
  TileShape shape() const { return {m, n, k, items(), rate}; }
};

// The candidates; the best one for large products comes first.
std::span<const GemmTile> gemm_gpu_tiles();

// The depth of a part if k is split into `parts`: all of k, or a multiple of the tile's depth.
inline int64_t part_depth(int64_t k, int64_t parts, int64_t tile_k) {
  return parts == 1 ? k : at::round_up(at::ceil_div(k, parts), tile_k);
}

struct TileChoice {
  int64_t index;
  int64_t parts;  // parts_of()

  const GemmTile& tile() const { return gemm_gpu_tiles()[index]; }
  int64_t depth(int64_t k) const { return part_depth(k, parts, tile().k); }
};

enum class TileUse { kProduct, kConvolution };

// Sizes of `batches` products of m x k by k x n matrices.
struct TileProblem {
  int64_t m, n, k, batches;
  ScalarType compute;
  TileUse use;
  // Whether the kernel loads single elements of A or B, and adds C or a residual, which takes
  // registers.
  bool adds_by_element = false;

  // For GridLimits::work. Tiles at the edges compute as much as other tiles.
  double work(int64_t tile_m, int64_t tile_n) const {
    return static_cast<double>(at::round_up(m, tile_m)) * at::round_up(n, tile_n) * k * batches *
           multiply_cost(compute);
  }
  double work(const GemmTile& tile) const { return work(tile.m, tile.n); }
};
// The number of parts that k is split into, so that all compute units have work.
int64_t parts_of(const Device& device, const TileShape& tile, const TileProblem& problem);
// The estimated time, in units of a work-item's multiply-adds.
double estimated_time(const Device& device, const TileShape& tile, const TileProblem& problem);
// Launches a kernel that has the arguments of gemm_gpu.cl, and gemm_sum.cl if k is split. `work`:
// see GridLimits::work.
void launch_tiles(const GemmProblem& problem, const Kernel& kernel, const TileShape& tile,
                  int64_t parts, double work);

bool tile_fits(const Device& device, const TileProblem& problem, int64_t index);
bool any_tile_fits(const Device& device, ScalarType compute, TileUse use);
inline constexpr const char* kNoTile = "the device's groups or local memory are too small";
// The index of this tile, or of the next tile whose work-items fit into a group of this size,
// because registers may limit a kernel's groups. Raises if there is none.
int64_t tile_within(const Device& device, const TileProblem& problem, int64_t index, size_t group);
// The index of the tile that a model of the device estimates to be fastest.
int64_t model_tile(const Device& device, const TileProblem& problem);
TileChoice with_parts(const Device& device, const TileProblem& problem, int64_t index);
void set_tile(Defines& defines, const GemmTile& tile);
// The description of the problem for tiles; computes the product with this tile.
TileProblem tile_problem(const GemmProblem& problem);
void run_gpu_tile(const GemmProblem& problem, int64_t index);

// partial[parts][..] has the sums of each part in out's shape, in the compute type:
//   out = activation(alpha * (sum over the parts) + beta * c + residual)
// `out` has 3 dimensions, the last one without gaps; `c` and the residual have its shape, or are
// undefined.
void gemm_sum_parts(const at::Tensor& out, const at::Tensor& partial, const c10::Scalar& alpha,
                    const at::Tensor& c, const c10::Scalar& beta, const Epilogue& epilogue);

// Whether stored rows can be read `width` elements at a time: they begin and end at multiples of
// that. `row`: elements of each of `rows`.
bool in_vectors(const GemmOperand& operand, int64_t row, int64_t rows, int64_t width);
inline bool in_quads(const GemmOperand& operand, int64_t row, int64_t rows) {
  return in_vectors(operand, row, rows, 4);
}

// Whether the kernel of a product or convolution has registers left to fuse the epilogue.
bool has_room_for(const Device& device, const Epilogue& epilogue);

}  // namespace ocl
