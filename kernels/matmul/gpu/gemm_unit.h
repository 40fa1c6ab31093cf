// The tiles of matrix products by a matrix unit (gemm_unit.cl).
#pragma once

#include "kernels/core/matrix_units/matrix_unit.h"
#include "kernels/matmul/gpu/gemm_gpu.h"

namespace ocl {

struct UnitTile {
  int64_t m, n;          // results of a work-group
  int64_t sub_m, sub_n;  // results of a sub-group
  double rate;           // as GemmTile's, for a unit that is as fast as float32

  std::string name() const { return str("unit_", m, "x", n, ",", sub_m, "x", sub_n); }
  int64_t sub_groups() const { return m / sub_m * (n / sub_n); }
};

// The candidates. No candidate has more sub-groups than the one before it.
std::span<const UnitTile> gemm_unit_tiles();

// Why no tile of the device's unit computes the product, or nullptr.
const char* refusal_of_unit_tiles(const GemmProblem& problem);
bool unit_tile_fits(const Device& device, ScalarType operands, int64_t index);
// For estimated_time().
TileShape shape_of_unit_tile(const MatrixUnit& unit, ScalarType operands, int64_t index);
void run_unit_tile(const GemmProblem& problem, int64_t index);

}  // namespace ocl
