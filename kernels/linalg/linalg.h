// Building blocks of the matrix factorizations. A matrix argument is a tensor of three dimensions,
// the batch first, of float32, float64 or their complex types. Results are written in place, also
// through views.
#pragma once

#include <ATen/core/Tensor.h>

#include "backend/launch/launch.h"
#include "kernels/core/types/dtype.h"

namespace ocl {

// A view of three dimensions, with one for the batch. Lazy conjugation is dropped: the view shows
// the stored numbers, as LAPACK sees them.
at::Tensor matrices(const at::Tensor& tensor);
// The same for vectors in batches (pivots, tau), which must be contiguous.
at::Tensor vectors(const at::Tensor& tensor);

// The same with the batch broadcast to `batch`; without a copy where one matrix is repeated.
// Columns stay contiguous.
at::Tensor matrices(const at::Tensor& tensor, at::IntArrayRef batch);
at::Tensor vectors(const at::Tensor& tensor, at::IntArrayRef batch);

// An uninitialised matrix with contiguous columns for each of a batch.
at::Tensor empty_matrices(int64_t batches, int64_t rows, int64_t columns,
                          const at::TensorOptions& options);
void fill_identity(const at::Tensor& matrices);

struct Conjugate {
  bool a = false, b = false;
};
// out = alpha a b + beta out, with alpha of 1 or -1 and beta of 0 or 1.
void multiply(const at::Tensor& out, const at::Tensor& a, const at::Tensor& b, int alpha = 1,
              int beta = 0, Conjugate conjugate = {});

struct Triangle {
  bool upper = false;
  bool unit = false;       // ones on the diagonal
  bool conjugate = false;  // conj(a) instead of a
};
// b = a^-1 b. Systems with a on the right, and transposed ones, are views of these.
void solve_triangular(const at::Tensor& a, const at::Tensor& b, Triangle triangle);

// L of a = L L^H, zeros above; a is overwritten. Only the lower triangle is read.
at::Tensor factor_cholesky(const at::Tensor& a);

struct Exchanges {
  int64_t offset = 0;      // the first row of b is number `offset` + 1
  bool backwards = false;  // P^T b
  bool checked = false;    // pivots of a caller, which may name rows that do not exist
};
// b = P b for the row exchanges of an LU factorization: pivots [batch][count].
void exchange_rows(const at::Tensor& b, const at::Tensor& pivots, Exchanges how);

// A kernel by teams of work-items (matrix.clh), for find_kernel(), and the grid with one team per
// matrix.
struct TeamKernel {
  const char *file, *name;
  ScalarType type;
  std::array<const char*, 2> flags{};  // names to define, or nullptr
  int64_t leaf = 0;                    // LEAF, if it is not 0

  KernelSource source(Device& device, size_t group) const;
};
size_t team_size(const Kernel& kernel);
// The most teams of a dimension; kernels loop over more matrices.
size_t most_teams(const Device& device);
struct TeamGrid {
  Range global, local;
};
TeamGrid team_grid(const Device& device, const Kernel& kernel, int64_t matrices);

}  // namespace ocl
