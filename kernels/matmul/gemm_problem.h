// A matrix product as gemm() hands it to the launches of a kernel family.
#pragma once

#include <string_view>

#include "backend/program/tuning.h"
#include "kernels/core/tensors/tensors.h"
#include "kernels/core/types/dtype.h"
#include "kernels/matmul/gemm.h"

namespace ocl {

// A matrix as kernels take it: row-major, or the transpose of a row-major one.
struct GemmOperand {
  at::Tensor tensor;  // keeps a copy alive
  bool transposed;
  int64_t ld;
  int64_t batch;  // elements from one matrix to the next, 0 where there is one
};

struct GemmProblem {
  Device& device;
  Stream& stream;
  ScalarType type, compute;
  ScalarType operands;  // of A and B; `type`, except for algorithms that widen
  int64_t m, n, k, batches;
  bool has_c;
  const GemmOperand &a, &b;
  const at::Tensor &out, &c;  // out is row-major, c has its shape
  const c10::Scalar &alpha, &beta;
  Epilogue epilogue;  // the residual with out's dimensions

  // The tile that a refusal() has chosen, for run(); below 0: not yet.
  mutable int64_t tile = -1;

  bool is_vector() const { return m == 1 || n == 1; }
  double work() const {  // GridLimits::work
    return static_cast<double>(m) * n * k * batches * multiply_cost(compute);
  }
};

// One way to compute a product. gemm_algorithms.cpp orders them.
struct GemmAlgorithm {
  const char* name;
  const char* (*refusal)(const GemmProblem&);  // nullptr if it applies, else why it does not
  void (*run)(const GemmProblem&);             // after refusal() of the same problem
  bool widens = false;  // its refusal() also knows results of another type than A and B
  // Where it applies: why another algorithm is faster, or nullptr. Not asked where it is preferred.
  const char* (*disadvantage)(const GemmProblem&) = nullptr;
};

extern const GemmAlgorithm kGemvCpuPairs, kGemvCpu, kGemmUnitCpu, kGemmCpuPairs, kGemmCpu;
extern const GemmAlgorithm kGemvGpu, kGemmUnit, kGemmClblast, kGemmGpu;
extern const GemmAlgorithm kGemmPlain;  // every family

// The first algorithm that applies; nullptr: none gives the result in another type than A and B.
const GemmAlgorithm* choose_gemm(const GemmProblem& problem);

int64_t batch_stride(const at::Tensor& tensor);

// The struct of gemm_sizes.clh.
struct GemmSizes {
  int64_t ld_a = 0, ld_b = 0, ld_out = 0;
  int64_t c_row = 0, c_column = 0, residual_row = 0, residual_column = 0;
  int64_t a_batch = 0, b_batch = 0, c_batch = 0, residual_batch = 0, out_batch = 0;
  int32_t m = 0, n = 0, k = 0;
  int32_t unused = 0;
};
GemmSizes gemm_sizes(const GemmProblem& problem);

// A product with a vector (m or n is 1) as the product of a matrix, perhaps transposed, and a
// column. The strides are from element to element of the vectors.
struct GemvProblem {
  const GemmOperand &matrix, &vector;
  bool transposed;
  int64_t m;
  int64_t x_stride, out_stride, c_stride, residual_stride;
};
GemvProblem as_gemv(const GemmProblem& problem);
GemmSizes gemm_sizes(const GemmProblem& problem, const GemvProblem& vector);

// What the sources of all kernels depend on: a field of their structs.
struct GemmCode {
  ScalarType type;
  bool trans_a, trans_b, has_c;
  EpilogueCode epilogue;

  Defines defines() const;
};
GemmCode gemm_code(const GemmProblem& problem);
GemmCode gemm_code(const GemmProblem& problem, const GemvProblem& vector);

// The arguments that are common to the kernels.
void add_gemm_tensors(Arguments& arguments, const GemmProblem& problem, const at::Tensor& a,
                      const at::Tensor& b);
// Adds the sizes, alpha and beta.
void add_gemm_sizes(Arguments& arguments, const GemmProblem& problem, const GemmSizes& sizes);
// Prefers an algorithm wherever it applies, as OCL_GEMM_ALGORITHM does; an empty name ends that.
void prefer_gemm_algorithm(std::string_view name);

// The measured choices (backend/program/tuning.h) of the tiles for CPU devices and for GPUs, and
// their key: sizes, type and layout.
extern Tunable gemm_cpu_tiles, gemm_gpu_tiles_or_clblast;
uint64_t gemm_problem_key(const GemmProblem& problem);
int64_t c_batch_stride(const GemmProblem& problem);
int64_t residual_stride(const GemmProblem& problem, int64_t dim);

}  // namespace ocl
