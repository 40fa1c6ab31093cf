// Householder reflectors on matrices (kernels/linalg.h).
#pragma once

#include "kernels/linalg.h"

namespace ocl {

// a becomes R above its diagonal and the reflectors' vectors below, as LAPACK's geqrf; columns are
// contiguous. tau: [batch][min(rows, columns)].
void factor_qr(const at::Tensor& a, const at::Tensor& tau);

// c = Q c, or Q^H c, for the Q whose reflectors are the columns of a that tau has elements for;
// conj(Q) with `conjugate`.
void apply_q(const at::Tensor& a, const at::Tensor& tau, const at::Tensor& c, bool adjoint,
             bool conjugate = false);

}  // namespace ocl
