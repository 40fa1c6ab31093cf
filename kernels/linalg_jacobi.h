// One-sided Jacobi for singular values and for eigenvalues of Hermitian matrices
// (kernels/linalg.h).
#pragma once

#include "kernels/linalg.h"

namespace ocl {

// Rotates the columns of x (and of `turned`, where it is defined, alike) until they are orthogonal.
// Both dense, columns contiguous; x of numbers of about 1, against which noise is measured. False
// where that did not come to an end.
bool orthogonalize(const at::Tensor& x, const at::Tensor& turned);

// The lengths of columns: [batch][column], real.
at::Tensor column_norms(const at::Tensor& x);

// The columns of x in an order, [batch][column] of int64, and where `norms` is defined divided by
// these (in the new order); columns of a norm of at most `least` become zeros.
at::Tensor take_columns(const at::Tensor& x, const at::Tensor& order, const at::Tensor& norms,
                        double least);

// The matrix of which a has one triangle; dense, with contiguous columns, as a's must be.
at::Tensor hermitian(const at::Tensor& a, bool upper);

}  // namespace ocl
