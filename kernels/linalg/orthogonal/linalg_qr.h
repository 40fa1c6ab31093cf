// Householder reflectors on matrices (kernels/linalg/linalg.h).
#pragma once

#include "kernels/linalg/linalg.h"

namespace ocl {

// a becomes R above its diagonal and the reflectors' vectors below, as LAPACK's geqrf; columns are
// contiguous. tau: [batch][min(rows, columns)].
void factor_qr(const at::Tensor& a, const at::Tensor& tau);

// c = Q c, or Q^H c with `adjoint`; `conjugate` uses conj(Q) instead of Q. Q is the product of the
// reflectors; tau has one element for each, and their vectors are the first columns of a.
void apply_q(const at::Tensor& a, const at::Tensor& tau, const at::Tensor& c, bool adjoint,
             bool conjugate = false);

}  // namespace ocl
