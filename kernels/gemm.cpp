#include "kernels/gemm.h"

#include <ATen/ops/empty.h>

#include "backend/error.h"
#include "kernels/clblast.h"
#include "kernels/dtype.h"
#include "kernels/gemm_complex.h"
#include "kernels/tensors.h"

namespace ocl {
namespace {

// A matrix as kernels take it: row-major, or the transposed of a row-major one.
struct Operand {
  at::Tensor tensor;  // keeps a copy alive
  bool transposed;
  int64_t ld;
  int64_t batch;
};

int64_t batch_stride(const at::Tensor& t) {
  return t.dim() == 3 && t.size(0) > 1 ? t.stride(0) : 0;
}

Operand as_operand(const at::Tensor& t) {
  const int64_t rows = t.size(-2), columns = t.size(-1);
  const int64_t row_stride = t.stride(-2), column_stride = t.stride(-1);
  // Contiguous whatever its strides are.
  if (t.numel() == 0) return {t, false, std::max<int64_t>(columns, 1), 0};
  if ((column_stride == 1 || columns == 1) && (row_stride >= 1 || rows == 1)) {
    return {t, false, rows == 1 ? std::max<int64_t>(columns, 1) : row_stride, batch_stride(t)};
  }
  if ((row_stride == 1 || rows == 1) && (column_stride >= 1 || columns == 1)) {
    return {t, true, columns == 1 ? std::max<int64_t>(rows, 1) : column_stride, batch_stride(t)};
  }
  return as_operand(t.contiguous());
}

bool row_major(const at::Tensor& t) {
  return (t.stride(-1) == 1 || t.size(-1) == 1) && (t.stride(-2) >= t.size(-1) || t.size(-2) == 1);
}

struct Problem {
  Device& device;
  Stream& stream;
  ScalarType type, compute;
  int64_t m, n, k, batches;
  bool has_c;
  const Operand &a, &b;
  const at::Tensor &out, &c;
  const c10::Scalar &alpha, &beta;
};

void add_sizes_and_strides(Arguments& arguments, const Problem& p) {
  const int64_t out_ld = p.out.size(-2) == 1 ? p.n : p.out.stride(-2);
  arguments.add(static_cast<int32_t>(p.m))
      .add(static_cast<int32_t>(p.n))
      .add(static_cast<int32_t>(p.k))
      .add(p.a.ld)
      .add(p.b.ld)
      .add(out_ld)
      .add(p.has_c ? p.c.stride(-2) : int64_t{0})
      .add(p.has_c ? p.c.stride(-1) : int64_t{0})
      .add(p.a.batch)
      .add(p.b.batch)
      .add(p.has_c && p.c.dim() == 3 ? p.c.stride(0) : int64_t{0})
      .add(p.out.dim() == 3 ? p.out.stride(0) : int64_t{0});
  add_number(arguments, p.alpha, p.compute);
  add_number(arguments, p.beta, p.compute);
}

// Empty operands have no memory; the kernels do not read them.
BufferView view_or(const at::Tensor& t, const at::Tensor& other) {
  return view(t.defined() && t.numel() > 0 ? t : other);
}

Arguments bind_tensors(const Problem& p, const Kernel& kernel) {
  Arguments arguments(p.stream, kernel);
  arguments.add(view(p.out))
      .add(view_or(p.a.tensor, p.out))
      .add(view_or(p.b.tensor, p.out))
      .add(p.has_c ? view(p.c) : view(p.out));
  return arguments;
}

uint64_t pack_flags(const Problem& p) {
  return uint64_t{p.a.transposed} << 2 | uint64_t{p.b.transposed} << 1 | uint64_t{p.has_c};
}

BlasMatrix blas_matrix(const Operand& operand) {
  return {view(operand.tensor), operand.transposed, operand.ld, operand.batch};
}

// False where CLBlast is not there, or cannot do it.
bool run_clblast(const Problem& p) {
  if (p.k == 0 || !clblast_has(p.type)) return false;
  const int64_t out_ld = p.m == 1 ? p.n : p.out.stride(-2);
  const BlasProduct product{p.type,
                            p.m,
                            p.n,
                            p.k,
                            p.batches,
                            blas_matrix(p.a),
                            blas_matrix(p.b),
                            {view(p.out), false, out_ld, batch_stride(p.out)},
                            p.alpha,
                            p.has_c ? p.beta : c10::Scalar(0)};
  if (!clblast_accepts(product)) return false;
  // CLBlast adds to what it overwrites.
  if (p.has_c && !(p.c.is_alias_of(p.out) && p.c.const_data_ptr() == p.out.const_data_ptr() &&
                   p.c.strides() == p.out.strides())) {
    p.out.copy_(p.c);
  }
  clblast_gemm(p.stream, product);
  return true;
}

void run_gpu(const Problem& p) {
  if (run_clblast(p)) return;
  constexpr int kTile = 64, kDepth = 16, kSide = 16;
  static const char site = 0;
  const KernelKey key{reinterpret_cast<uint64_t>(&site),
                      {static_cast<uint64_t>(p.type), pack_flags(p), 0}};
  const Kernel& kernel = find_kernel(p.device, key, [&] {
    Defines defines = element_defines(p.type);
    defines.set("TRANS_A", p.a.transposed)
        .set("TRANS_B", p.b.transposed)
        .set("HAS_C", p.has_c)
        .set("TM", kTile)
        .set("TN", kTile)
        .set("TK", kDepth);
    return KernelSource{"gemm_gpu.cl", "gemm", defines};
  });
  Arguments arguments = bind_tensors(p, kernel);
  add_sizes_and_strides(arguments, p);
  const auto tiles = [](int64_t size) { return static_cast<size_t>((size + kTile - 1) / kTile); };
  arguments.enqueue({tiles(p.n) * kSide, tiles(p.m) * kSide, static_cast<size_t>(p.batches)},
                    {kSide, kSide, 1});
}

// Register tile and packing of the CPU kernel (cl/gemm_cpu.cl).
struct Tile {
  int64_t rows, vectors, lanes, depth, partial_rows;
};

int64_t vector_lanes(const Problem& p) {
  const auto lanes = static_cast<int64_t>(p.device.parameters().vector_width * sizeof(float) /
                                          c10::elementSize(p.compute));
  return std::clamp<int64_t>(lanes, 4, 16);
}

Tile choose_tile(const Problem& p) {
  Tile tile{12, 2, vector_lanes(p), 512, 0};
  for (const int64_t rows : {8, 4, 2, 1}) {
    if (p.m <= rows) tile.rows = rows;
  }
  if (p.n <= tile.lanes || (p.m <= 8 && p.b.transposed)) tile.vectors = 1;
  // Sums of more than `depth` products continue in memory; where storing rounds, in local memory.
  if (p.type != p.compute && p.k > tile.depth) tile.partial_rows = 240;
  const auto local = static_cast<int64_t>(p.device.properties().local_memory);
  const int64_t row = tile.vectors * tile.lanes * static_cast<int64_t>(c10::elementSize(p.compute));
  while (tile.depth > 32 && (tile.depth + tile.partial_rows) * row > local) tile.depth /= 2;
  return tile;
}

void run_cpu(const Problem& p) {
  const Tile tile = choose_tile(p);
  static const char site = 0;
  const KernelKey key{reinterpret_cast<uint64_t>(&site),
                      {static_cast<uint64_t>(p.type), pack_flags(p),
                       static_cast<uint64_t>(tile.rows << 32 | tile.vectors << 28 |
                                             (tile.partial_rows > 0) << 24 | tile.depth)}};
  // Enough tasks for all cores, each with whole tiles.
  constexpr int64_t kTasks = 8;
  const int64_t panel = tile.vectors * tile.lanes;
  const int64_t panels = (p.n + panel - 1) / panel * p.batches;
  const int64_t splits = panels < kTasks ? (kTasks + panels - 1) / panels : 1;
  int64_t rows_per_task = ((p.m + splits - 1) / splits + tile.rows - 1) / tile.rows * tile.rows;
  if (tile.partial_rows) rows_per_task = std::min(rows_per_task, tile.partial_rows);
  const Kernel& kernel = find_kernel(p.device, key, [&] {
    Defines defines = element_defines(p.type);
    defines.set("TRANS_A", p.a.transposed)
        .set("TRANS_B", p.b.transposed)
        .set("HAS_C", p.has_c)
        .set("MR", tile.rows)
        .set("NV", tile.vectors)
        .set("VW", tile.lanes)
        .set("KC", tile.depth)
        .set("PARTIAL_ROWS", tile.partial_rows);
    return KernelSource{"gemm_cpu.cl", "gemm", defines};
  });
  Arguments arguments = bind_tensors(p, kernel);
  add_sizes_and_strides(arguments, p);
  arguments.add(static_cast<int32_t>(rows_per_task))
      .enqueue({static_cast<size_t>((p.m + rows_per_task - 1) / rows_per_task),
                static_cast<size_t>((p.n + panel - 1) / panel), static_cast<size_t>(p.batches)},
               {});
}

// A product with a vector: m or n is 1. Returns false where the vector has gaps.
bool run_gemv(const Problem& p) {
  const bool row = p.m == 1;  // the vector is A, the matrix is B
  const Operand& vector = row ? p.a : p.b;
  const Operand& matrix = row ? p.b : p.a;
  // Stored as [1][k] or [k][1]: contiguous if not transposed as [1][k], and the reverse.
  if (vector.transposed == row && p.k > 1 && vector.ld != 1) return false;
  const bool transposed = row ? !matrix.transposed : matrix.transposed;
  static const char site = 0;
  const KernelKey key{
      reinterpret_cast<uint64_t>(&site),
      {static_cast<uint64_t>(p.type), uint64_t{transposed} << 1 | uint64_t{p.has_c}, 0}};
  const Kernel& kernel = find_kernel(p.device, key, [&] {
    Defines defines = element_defines(p.type);
    defines.set("TRANS_A", transposed)
        .set("TRANS_B", 0)
        .set("HAS_C", p.has_c)
        .set("VW", vector_lanes(p));
    return KernelSource{"gemm_cpu.cl", "gemv", defines};
  });
  const int64_t m = row ? p.n : p.m;
  const int64_t tasks = std::clamp<int64_t>(m * p.k / 16384, 1, 8);
  const int64_t rows_per_task = ((m + tasks - 1) / tasks + 15) / 16 * 16;
  const int64_t out_stride = m == 1 ? 1 : p.out.stride(row ? -1 : -2);
  Arguments arguments(p.stream, kernel);
  arguments.add(view(p.out))
      .add(view_or(matrix.tensor, p.out))
      .add(view_or(vector.tensor, p.out))
      .add(p.has_c ? view(p.c) : view(p.out))
      .add(static_cast<int32_t>(m))
      .add(static_cast<int32_t>(p.k))
      .add(matrix.ld)
      .add(out_stride)
      .add(p.has_c ? p.c.stride(row ? -1 : -2) : int64_t{0})
      .add(matrix.batch)
      .add(vector.batch)
      .add(p.has_c && p.c.dim() == 3 ? p.c.stride(0) : int64_t{0})
      .add(p.out.dim() == 3 ? p.out.stride(0) : int64_t{0});
  add_number(arguments, p.alpha, p.compute);
  add_number(arguments, p.beta, p.compute);
  arguments.add(static_cast<int32_t>(rows_per_task))
      .enqueue({static_cast<size_t>((m + rows_per_task - 1) / rows_per_task), 1,
                static_cast<size_t>(p.batches)},
               {});
  return true;
}

}  // namespace

void gemm(const at::Tensor& out, const at::Tensor& a, const at::Tensor& b, const c10::Scalar& alpha,
          const at::Tensor& c, const c10::Scalar& beta) {
  if (out.numel() == 0) return;
  Device& device = ocl_device(out);
  check_device_has(device, out.scalar_type(), "matmul");
  TORCH_CHECK(a.scalar_type() == b.scalar_type(),
              "matmul: both matrices must have the same dtype, ", "but got ", a.scalar_type(),
              " and ", b.scalar_type(), " (on ", device.label(), ")");
  TORCH_CHECK(a.scalar_type() == out.scalar_type(), "matmul: the product of ", a.scalar_type(),
              " matrices cannot be written to a result of ", out.scalar_type(), " (on ",
              device.label(), ")");
  if (out.is_complex()) return gemm_complex(out, a, b, alpha, c, beta);
  if (!row_major(out)) {
    if (row_major(out.mT())) {
      // The transposed product writes the same memory row by row.
      const at::Tensor c_transposed = c.defined() ? c.expand_as(out).mT() : c;
      return gemm(out.mT(), b.mT(), a.mT(), alpha, c_transposed, beta);
    }
    const at::Tensor dense = at::empty(out.sizes(), out.options());
    gemm(dense, a, b, alpha, c, beta);
    out.copy_(dense);
    return;
  }
  const bool has_c = c.defined() && !beta.equal(0);
  const at::Tensor expanded = has_c ? c.expand_as(out) : c;
  const Operand left = as_operand(a), right = as_operand(b);
  TORCH_CHECK(out.size(-2) <= INT32_MAX && out.size(-1) <= INT32_MAX && a.size(-1) <= INT32_MAX,
              "matmul: a matrix with more than 2^31 - 1 rows or columns is not supported on ocl");
  const Problem problem{device,
                        stream_of(out),
                        out.scalar_type(),
                        compute_type(out.scalar_type()),
                        out.size(-2),
                        out.size(-1),
                        a.size(-1),
                        out.dim() == 3 ? out.size(0) : 1,
                        has_c,
                        left,
                        right,
                        out,
                        expanded,
                        alpha,
                        beta};
  if (device.family() == KernelFamily::kGpu) return run_gpu(problem);
  if ((problem.m == 1 || problem.n == 1) && run_gemv(problem)) return;
  run_cpu(problem);
}

}  // namespace ocl
