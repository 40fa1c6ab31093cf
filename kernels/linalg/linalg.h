// Building blocks of the matrix factorizations. A matrix argument is a tensor of three dimensions,
// the batch first, of float32, float64 or their complex types. Results are written in place, also
// through views.
#pragma once

#include <ATen/core/Tensor.h>

#include "backend/launch/launch.h"
#include "kernels/core/types/dtype.h"

namespace ocl {

// A view with three dimensions, the batch first. Ignores lazy conjugation: the view shows the
// stored numbers, as LAPACK sees them.
at::Tensor matrices(const at::Tensor& tensor);
// The same for vectors in batches (pivots, tau), which must be contiguous.
at::Tensor vectors(const at::Tensor& tensor);

// The same with the batch broadcast to `batch`, without a copy if a single matrix is repeated.
// Columns stay contiguous.
at::Tensor matrices(const at::Tensor& tensor, at::IntArrayRef batch);
at::Tensor vectors(const at::Tensor& tensor, at::IntArrayRef batch);

// A batch of uninitialised matrices with contiguous columns.
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

// Returns L of a = L L^H, with zeros above the diagonal. Reads only the lower triangle of a, and
// overwrites a.
at::Tensor factor_cholesky(const at::Tensor& a);

struct Exchanges {
  int64_t offset = 0;      // the first row of b is number `offset` + 1
  bool backwards = false;  // P^T b
  bool checked = false;    // pivots come from the user, and may be invalid
};
// b = P b for the row exchanges of an LU factorization: pivots [batch][count].
void exchange_rows(const at::Tensor& b, const at::Tensor& pivots, Exchanges how);

// A kernel whose teams of work-items work on a matrix each (matrix.clh), for find_kernel(); and its
// grid.
struct TeamKernel {
  const char *file, *name;
  ScalarType type;
  std::array<const char*, 2> flags{};  // names to define, or nullptr
  int64_t leaf = 0;                    // LEAF, if it is not 0

  KernelSource source(Device& device, size_t group) const;
};
size_t team_size(const Kernel& kernel);
// The most teams along a dimension; kernels loop over further matrices.
size_t most_teams(const Device& device);
struct TeamGrid {
  Range global, local;
};
TeamGrid team_grid(const Device& device, const Kernel& kernel, int64_t matrices);

}  // namespace ocl
