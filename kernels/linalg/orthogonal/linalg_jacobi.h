// One-sided Jacobi for singular values and for eigenvalues of Hermitian matrices
// (kernels/linalg/linalg.h).
#pragma once

#include "kernels/linalg/linalg.h"

namespace ocl {

// Rotates pairs of columns of x until all are orthogonal. If `rotated` is defined, applies the same
// rotations to its columns. Both are dense with contiguous columns. x is scaled to numbers of about
// 1, because the threshold for noise is absolute. Returns whether it converged.
bool orthogonalize(const at::Tensor& x, const at::Tensor& rotated);

// The lengths of columns: [batch][column], real.
at::Tensor column_norms(const at::Tensor& x);

// The columns of x in the order `order`, int64 [batch][column]. If `norms` is defined (in the new
// order), divides each column by its norm; columns with norms up to `least` become zeros.
at::Tensor take_columns(const at::Tensor& x, const at::Tensor& order, const at::Tensor& norms,
                        double least);

// The full Hermitian matrix for one triangle of a, dense with contiguous columns. Columns of a are
// contiguous, too.
at::Tensor hermitian(const at::Tensor& a, bool upper);

}  // namespace ocl
