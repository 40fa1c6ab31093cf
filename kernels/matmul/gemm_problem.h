// The description of a matrix product that gemm() gives to the algorithms.
#pragma once

#include <string_view>

#include "backend/program/tuning.h"
#include "kernels/core/tensors/tensors.h"
#include "kernels/core/types/dtype.h"
#include "kernels/matmul/gemm.h"

namespace ocl {

// A matrix for kernels: row-major, or the transpose of a row-major matrix.
struct GemmOperand {
  at::Tensor tensor;  // keeps a copy alive
  bool transposed;
  int64_t ld;
  int64_t batch;  // elements from one matrix to the next; 0: all the same
};

struct GemmProblem {
  Device& device;
  Stream& stream;
  ScalarType type, compute;
  ScalarType operands;  // the type of A and B: `type`, unless the algorithm widens
  int64_t m, n, k, batches;
  bool has_c;
  const GemmOperand &a, &b;
  const at::Tensor &out, &c;  // out is row-major, c has its shape
  const c10::Scalar &alpha, &beta;
  Epilogue epilogue;  // the residual has out's dimensions

  // A refusal() may store its choice of a tile here for run(); below 0: none yet.
  mutable int64_t tile = -1;

  bool is_vector() const { return m == 1 || n == 1; }
  double work() const {  // GridLimits::work
    return static_cast<double>(m) * n * k * batches * multiply_cost(compute);
  }
};

// One way to compute a product. gemm_algorithms.cpp orders them.
struct GemmAlgorithm {
  const char* name;
  const char* (*refusal)(const GemmProblem&);  // nullptr if it applies, else the reason
  void (*run)(const GemmProblem&);             // after refusal() of the same problem
  bool widens = false;                         // accepts results whose type is not that of A and B
  // If it applies: why another algorithm is faster, or nullptr. Ignored if the user prefers it.
  const char* (*disadvantage)(const GemmProblem&) = nullptr;
};

extern const GemmAlgorithm kGemvCpuPairs, kGemvCpu, kGemmUnitCpu, kGemmCpuPairs, kGemmCpu;
extern const GemmAlgorithm kGemvGpu, kGemmUnit, kGemmGpu;
extern const GemmAlgorithm kGemmPlain;  // for every family

// The first algorithm that applies; nullptr if none can give a result whose type is not that of A
// and B.
const GemmAlgorithm* choose_gemm(const GemmProblem& problem);

int64_t batch_stride(const at::Tensor& tensor);

#include "kernels/matmul/gemm_sizes.clh"

GemmSizes gemm_sizes(const GemmProblem& problem);

// A product with a vector (m or n is 1), written as a matrix, perhaps transposed, times a column.
// The strides are those between elements of the vectors.
struct GemvProblem {
  const GemmOperand &matrix, &vector;
  bool transposed;
  int64_t m;
  int64_t x_stride, out_stride, c_stride, residual_stride;
};
GemvProblem as_gemv(const GemmProblem& problem);
GemmSizes gemm_sizes(const GemmProblem& problem, const GemvProblem& vector);

// Parameters that the sources of all kernels have: a field of their structs.
struct GemmCode {
  ScalarType type;
  bool trans_a, trans_b, has_c;
  EpilogueCode epilogue;

  Defines defines() const;
};
GemmCode gemm_code(const GemmProblem& problem);
GemmCode gemm_code(const GemmProblem& problem, const GemvProblem& vector);

// Adds the arguments that all kernels have.
void add_gemm_tensors(Arguments& arguments, const GemmProblem& problem, const at::Tensor& a,
                      const at::Tensor& b);
// Adds the sizes, alpha and beta.
void add_gemm_sizes(Arguments& arguments, const GemmProblem& problem, const GemmSizes& sizes);
// Prefers an algorithm wherever it applies, as OCL_GEMM_ALGORITHM does; an empty name ends the
// preference.
void prefer_gemm_algorithm(std::string_view name);

// Measured choices (backend/program/tuning.h) of tiles for CPU devices and for GPUs. Their key is
// sizes, type and layout.
extern Tunable gemm_cpu_tiles, gemm_gpu_candidates;
uint64_t gemm_problem_key(const GemmProblem& problem);
int64_t c_batch_stride(const GemmProblem& problem);
int64_t residual_stride(const GemmProblem& problem, int64_t dim);

}  // namespace ocl
