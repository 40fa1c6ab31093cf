// Matrix products by a matrix unit: launches of gemm_unit.cl.
#include "kernels/matmul/gpu/gemm_unit.h"

#include <ATen/ceil_div.h>

namespace ocl {
namespace {

// The rates are estimates from the number of loads from local memory per multiply-add. They were
// not measured on a GPU; `python -m torch_ocl.tune` measures.
constexpr UnitTile kTiles[] = {
    {128, 64, 16, 16, 0.45}, {128, 64, 16, 32, 0.65}, {64, 64, 16, 16, 0.42},
    {128, 128, 64, 32, 1},   {128, 64, 32, 32, 0.85}, {64, 128, 32, 32, 0.85},
    {128, 128, 64, 64, 1.1}, {128, 64, 64, 32, 1},    {64, 64, 32, 32, 0.8},
    {32, 32, 16, 16, 0.35},  {16, 64, 16, 16, 0.3},   {64, 16, 16, 16, 0.3},
    {16, 16, 16, 16, 0.2},
};

// These must agree with gemm_unit.cl.
constexpr int64_t kWords = 16, kPitch = kWords + 4, kWordBytes = 4;

int64_t local_bytes(const UnitTile& tile, const UnitShape& shape) {
  const int64_t scratch = emulates_matrix_units() ? shape.k * (shape.m + shape.n) : 1;
  return kWordBytes * ((tile.m + tile.n) * kPitch + tile.sub_groups() * scratch);
}

// This tile, or the next tile whose work-items fit into a group of this size.
int64_t tile_within(const Device& device, const MatrixUnit& unit, ScalarType operands,
                    int64_t index, size_t group) {
  for (int64_t i = index; i < std::ssize(kTiles); ++i) {
    const bool small = kTiles[i].sub_groups() * unit.lanes <= static_cast<int64_t>(group);
    if (small && unit_tile_fits(device, operands, i)) return i;
  }
  TORCH_CHECK(false, "matrix products: a work-group of the kernel for the matrix unit ", unit.name,
              " may have ", group, " work-items on ", device.label(), ", but a sub-group has ",
              unit.lanes, ". Please report the device; OCL_MATRIX_UNITS=0 runs other kernels");
}

struct GemmUnit {
  GemmCode code;
  ScalarType operands;
  bool parts, wide_a, wide_b;
  const MatrixUnit* unit;
  int64_t tile;  // or the next tile that fits into a group

  KernelSource source(Device& device, size_t group) const {
    const UnitTile& chosen = kTiles[tile_within(device, *unit, operands, tile, group)];
    Defines defines = code.defines();
    define_matrix_unit(defines, *unit, operands);
    defines.set("PARTS", parts).set("WIDE_A", wide_a).set("WIDE_B", wide_b);
    defines.set("TM", chosen.m).set("TN", chosen.n);
    defines.set("SUB_M", chosen.sub_m).set("SUB_N", chosen.sub_n);
    return {"gemm_unit.cl", "gemm_unit", defines};
  }
};

// WIDE_A and WIDE_B. `along`: the operand is contiguous along the depth.
bool is_wide(const GemmOperand& operand, bool along, int64_t row, int64_t rows) {
  return in_vectors(operand, row, rows, along ? 16 / operand.tensor.element_size() : 4);
}

}  // namespace

std::span<const UnitTile> gemm_unit_tiles() { return kTiles; }

bool unit_tile_fits(const Device& device, ScalarType operands, int64_t index) {
  const MatrixUnit& unit = *matrix_unit(device);
  const UnitTile& tile = kTiles[index];
  const auto group = static_cast<int64_t>(device.parameters().work_group_size),
             local = static_cast<int64_t>(device.properties().local_memory);
  return tile.sub_groups() * unit.lanes <= group &&
         tile.sub_m * tile.sub_n <= unit.most_sums * unit.lanes &&
         local_bytes(tile, *unit.shape(operands)) <= local;
}

TileShape shape_of_unit_tile(const MatrixUnit& unit, ScalarType operands, int64_t index) {
  const UnitTile& tile = kTiles[index];
  const auto element = static_cast<int64_t>(c10::elementSize(operands));
  return {tile.m, tile.n, kWords * kWordBytes / element, tile.sub_groups() * unit.lanes,
          tile.rate * unit.shape(operands)->rate};
}

const char* refusal_of_unit_tiles(const GemmProblem& p) {
  const bool by_unit = p.operands == ScalarType::Half || p.operands == ScalarType::BFloat16 ||
                       p.operands == ScalarType::Char;
  if (!by_unit) return "for float16, bfloat16 and int8";
  const bool rounds = p.type == p.operands && c10::isFloatingType(p.type);
  if (p.type != matrix_sum_type(p.operands) && !rounds) return "the result has another type";
  if (const char* reason = refusal_of_matrix_unit(p.device, p.operands)) return reason;
  for (int64_t i = 0; i < std::ssize(kTiles); ++i) {
    if (unit_tile_fits(p.device, p.operands, i)) return nullptr;
  }
  return kNoTile;
}

void run_unit_tile(const GemmProblem& p, int64_t index) {
  const MatrixUnit& unit = *matrix_unit(p.device);
  const TileProblem problem{p.m, p.n, p.k, p.batches, p.compute, TileUse::kProduct};
  const int64_t parts = parts_of(p.device, shape_of_unit_tile(unit, p.operands, index), problem);
  const bool wide_a = is_wide(p.a, !p.a.transposed, p.a.transposed ? p.m : p.k,
                              p.a.transposed ? p.k : p.m),
             wide_b = is_wide(p.b, p.b.transposed, p.b.transposed ? p.k : p.n,
                              p.b.transposed ? p.n : p.k);
  const Kernel& kernel = find_kernel(
      p.device, GemmUnit{gemm_code(p), p.operands, parts > 1, wide_a, wide_b, &unit, index});
  index = tile_within(p.device, unit, p.operands, index, kernel.group);
  const TileShape tile = shape_of_unit_tile(unit, p.operands, index);
  launch_tiles(p, kernel, tile, parts, problem.work(tile.m, tile.n) / unit.shape(p.operands)->rate);
}

}  // namespace ocl
