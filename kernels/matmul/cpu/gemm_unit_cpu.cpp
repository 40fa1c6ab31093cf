// Launches of gemm_unit_cpu.cl.
#include <ATen/ceil_div.h>
#include <ATen/ops/empty.h>

#include "kernels/core/grids/task_items.h"
#include "kernels/core/matrix_units/matrix_unit.h"
#include "kernels/core/matrix_units/matrix_unit_amx.h"
#include "kernels/matmul/gemm_problem.h"

namespace ocl {
namespace {

using namespace amx;

constexpr int64_t kStepBytes = 64;        // bytes of a step in a row or column
constexpr int64_t kAtOnce = 16;           // steps of all pieces: AT_ONCE
constexpr int64_t kPanelSteps = 32;       // along the depth
constexpr int64_t kPanelBytes = 1 << 20;  // half of the second level cache
constexpr int64_t kMostRows = 2048;       // the most rows whose sums continue in memory
constexpr int64_t kMostItems = int64_t{1} << 30;

// The struct of gemm_unit_cpu.cl.
struct Blocks {
  int64_t task_words = 0;
  int32_t rows = 0, columns = 0, depth = 0;
  int32_t row_parts = 0, panels = 0, items = 0;
};

// SPLITS of the kernel, for types whose numbers are multiplied as two pieces of bfloat16; else 0.
int64_t splits(ScalarType operands) {
  return operands == ScalarType::Half ? 1 : operands == ScalarType::Float ? 2 : 0;
}
int64_t pieces_of(ScalarType operands) { return splits(operands) ? 2 : 1; }
ScalarType unit_type(ScalarType operands) {
  return splits(operands) ? ScalarType::BFloat16 : operands;
}
// Users choose with torch.set_float32_matmul_precision() or
// torch.backends.cuda.matmul.fp32_precision.
bool is_exact_float(ScalarType operands) {
  return operands == ScalarType::Float &&
         (at::NoTF32Guard::should_disable_tf32() ||
          at::globalContext().float32Precision(at::Float32Backend::CUDA, at::Float32Op::MATMUL) !=
              at::Float32Precision::TF32);
}

struct GemmUnitCpu {
  GemmCode code;
  ScalarType operands;
  bool exchanged;
  const MatrixUnit* unit;

  KernelSource source(Device&) const {
    Defines defines = code.defines();
    define_matrix_unit(defines, *unit, unit_type(operands));
    defines.set("EXCHANGED", exchanged)
        .set("AT_ONCE", kAtOnce / pieces_of(operands))
        .set("SPLITS", splits(operands));
    return {"gemm_unit_cpu.cl", "gemm_unit_cpu", defines};
  }
};

// The left operand is read in place if it is contiguous along the depth; the right one is packed.
// If both are contiguous along the depth, the larger one becomes the left one.
bool is_exchanged(const GemmProblem& p) { return p.b.transposed && (p.a.transposed || p.n > p.m); }

int64_t scratch_words(const Blocks& blocks, int64_t step, int64_t pieces, bool continues) {
  const int64_t steps = at::ceil_div<int64_t>(blocks.depth, step);
  const int64_t panel = steps * blocks.columns * kStepBytes / 4;
  const int64_t copy = kAtOnce * kBlock * kStepBytes / 4;
  const int64_t sums = (continues ? blocks.rows : kBlock) * blocks.columns;
  return pieces * (panel + kBlock * kBlock + sums) + copy + kSpareWords;
}

Blocks choose_blocks(const GemmProblem& p, const UnitShape& shape, bool exchanged) {
  const int64_t m = exchanged ? p.n : p.m, n = exchanged ? p.m : p.n;
  const int64_t tasks = few_tasks(p.device);
  const int64_t pieces = pieces_of(p.operands);
  const int64_t parts = at::ceil_div(p.k, kPanelSteps / pieces * shape.k);
  const int64_t depth = at::round_up(at::ceil_div(p.k, parts), shape.k);
  const int64_t most_columns =
      kPanelBytes / (depth / shape.k * kStepBytes * pieces) / kBlock * kBlock;
  int64_t panels = at::ceil_div(n, std::min(most_columns, at::round_up(n, kBlock)));
  // Each task gets the same number of panels. If there are too few columns, the tasks share the
  // rows, and each task packs the panel.
  if (n * p.batches >= kBlock * tasks) {
    while (panels * p.batches % tasks && panels * kBlock < n && panels * p.batches < 4 * tasks) {
      ++panels;
    }
  }
  const int64_t columns = at::round_up(at::ceil_div(n, panels), kBlock);
  panels = at::ceil_div(n, columns);
  const int64_t row_parts = std::max<int64_t>(1, tasks / (panels * p.batches));
  int64_t rows = at::round_up(at::ceil_div(m, row_parts), kBlock);
  if (parts > 1) rows = std::min(rows, kMostRows);
  Blocks blocks{.rows = static_cast<int32_t>(std::min<int64_t>(rows, INT32_MAX / kBlock * kBlock)),
                .columns = static_cast<int32_t>(columns),
                .depth = static_cast<int32_t>(depth)};
  blocks.row_parts = static_cast<int32_t>(at::ceil_div(m, int64_t{blocks.rows}));
  blocks.panels = static_cast<int32_t>(panels);
  blocks.items = static_cast<int32_t>(panels * p.batches * blocks.row_parts);
  blocks.task_words = scratch_words(blocks, shape.k, pieces, parts > 1);
  return blocks;
}

void run(const GemmProblem& p) {
  const MatrixUnit& unit = *matrix_unit(p.device);
  const UnitShape& shape = *unit.shape(unit_type(p.operands));
  const bool exchanged = is_exchanged(p);
  const Blocks blocks = choose_blocks(p, shape, exchanged);
  const int64_t tasks = std::min<int64_t>(few_tasks(p.device), blocks.items);
  const at::Tensor counter = item_counter(p.stream, p.out);
  const at::Tensor scratch = at::empty({tasks * blocks.task_words}, counter.options());
  Arguments arguments(
      p.stream, find_kernel(p.device, GemmUnitCpu{gemm_code(p), p.operands, exchanged, &unit}));
  add_gemm_tensors(arguments, p, p.a.tensor, p.b.tensor);
  add_gemm_sizes(arguments, p, gemm_sizes(p));
  arguments.add(view(counter))
      .add(view(scratch))
      .add(blocks)
      .enqueue({static_cast<size_t>(tasks)}, {});
}

const char* refusal(const GemmProblem& p) {
  if (p.device.family() != KernelFamily::kCpu) return "for CPU devices";
  if (is_exact_float(p.operands)) return "torch.set_float32_matmul_precision() is \"highest\"";
  const bool by_unit =
      p.operands == ScalarType::BFloat16 || p.operands == ScalarType::Char || splits(p.operands);
  if (!by_unit) return "for bfloat16, float16, float32 and int8";
  const bool rounds = p.type == p.operands && c10::isFloatingType(p.type);
  if (p.type != matrix_sum_type(p.operands) && !rounds) return "the result has another type";
  if (p.k == 0) return "nothing to add";
  if (at::ceil_div(p.m, kBlock) * at::ceil_div(p.n, kBlock) > kMostItems / p.batches) {
    return "too many blocks";
  }
  return refusal_of_matrix_unit(p.device, unit_type(p.operands));
}

// The smallest problems for which the unit is faster than other kernels, as measured. For int8
// there are no other kernels: it would be converted to int32.
struct Least {
  double products;
  int64_t depth;
  int64_t side,
      side_if_packed;  // rows or columns; the same if the larger operand must be packed
};
constexpr Least kOfPairs{1 << 16, 4, 2, 4}, kOfHalves{1 << 20, 32, 8, 32},
    kOfFloats{1 << 25, 32, 32, 32};

const char* disadvantage(const GemmProblem& p) {
  if (p.operands == ScalarType::Char) return nullptr;
  const Least& least = p.operands == ScalarType::Half    ? kOfHalves
                       : p.operands == ScalarType::Float ? kOfFloats
                                                         : kOfPairs;
  const double products = static_cast<double>(p.m) * p.n * p.k * p.batches;
  if (products < least.products || p.k < least.depth) return "small matrices";
  const bool packs = p.n > p.m ? !p.b.transposed : p.a.transposed;
  const int64_t side = packs ? least.side_if_packed : least.side;
  return std::min(p.m, p.n) < side ? "few rows or columns" : nullptr;
}

}  // namespace

const GemmAlgorithm kGemmUnitCpu{"cpu_unit", &refusal, &run, true, &disadvantage};

}  // namespace ocl
