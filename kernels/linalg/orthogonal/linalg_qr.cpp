// Blocked Householder QR: householder.cl factors a panel of columns, and matrix products apply
// its reflectors, joined into one block (compact WY form), to the rest.
#include "kernels/linalg/orthogonal/linalg_qr.h"

#include <ATen/ceil_div.h>
#include <ATen/native/BatchLinearAlgebra.h>
#include <ATen/ops/empty.h>
#include <ATen/ops/empty_like.h>

#include "kernels/core/operators/registration.h"
#include "kernels/core/tensors/tensors.h"
#include "kernels/core/types/dtype.h"

namespace ocl {
namespace {

using at::Tensor;

constexpr int64_t kPanel = 32;  // the number of reflectors that are applied together

const Kernel& kernel_of(Device& device, const char* name, ScalarType type) {
  return find_kernel(device, TeamKernel{"householder.cl", name, type});
}

uint64_t u(int64_t number) { return static_cast<uint64_t>(number); }

void factor_panel(const Tensor& a, const Tensor& tau) {
  static constexpr const char* kName = "qr_panel";
  Device& device = ocl_device(a);
  const Kernel& kernel = kernel_of(device, kName, a.scalar_type());
  const TeamGrid grid = team_grid(device, kernel, a.size(0));
  launch(stream_of(a), kernel, grid.global, grid.local, view(a), view(tau), u(a.size(1)),
         u(a.size(2)), u(a.size(0)), u(a.stride(2)), u(a.stride(0)), u(tau.stride(0)));
}

// A product of reflectors: H1 H2 ... = 1 - V T V^H.
struct BlockReflector {
  Tensor vectors, triangle;
};

BlockReflector block_reflector(const Tensor& a, const Tensor& tau) {
  static constexpr const char *kVectors = "reflectors", *kTriangle = "block_reflector";
  Device& device = ocl_device(a);
  const ScalarType type = a.scalar_type();
  const int64_t batches = a.size(0), rows = a.size(1), size = tau.size(1);
  const Kernel &vectors = kernel_of(device, kVectors, type),
               &factor = kernel_of(device, kTriangle, type);
  const TeamGrid grid = team_grid(device, vectors, batches),
                 factor_grid = team_grid(device, factor, batches);
  const Tensor v = empty_matrices(batches, rows, size, a.options()),
               products = empty_matrices(batches, size, size, a.options()),
               triangle = empty_matrices(batches, size, size, a.options());
  launch(stream_of(a), vectors, grid.global, grid.local, view(a), view(v), u(rows), u(size),
         u(batches), u(a.stride(2)), u(a.stride(0)));
  multiply(products, v.mT(), v, 1, 0, {true, false});
  launch(stream_of(a), factor, factor_grid.global, factor_grid.local, view(products), view(tau),
         view(triangle), u(size), u(batches), u(tau.stride(0)));
  return {v, triangle};
}

// c -= V T V^H c, or with T^H instead of T.
void apply(const BlockReflector& block, const Tensor& c, bool adjoint, bool conjugate) {
  const Tensor &v = block.vectors, &triangle = block.triangle;
  const Tensor products = empty_matrices(c.size(0), v.size(2), c.size(2), c.options()),
               scaled = at::empty_like(products);
  multiply(products, v.mT(), c, 1, 0, {!conjugate, false});
  multiply(scaled, adjoint ? triangle.mT() : triangle, products, 1, 0,
           {adjoint != conjugate, false});
  multiply(c, v, scaled, -1, 1, {conjugate, false});
}

}  // namespace

void factor_qr(const Tensor& a, const Tensor& tau) {
  const int64_t columns = a.size(2), count = tau.size(1);
  for (int64_t j = 0; j < count; j += kPanel) {
    const int64_t size = std::min(kPanel, count - j), right = j + size;
    const Tensor below = a.narrow(1, j, a.size(1) - j), panel = below.narrow(2, j, size),
                 factors = tau.narrow(1, j, size);
    factor_panel(panel, factors);
    if (right < columns) {
      apply(block_reflector(panel, factors), below.narrow(2, right, columns - right),
            /*adjoint=*/true, false);
    }
  }
}

void apply_q(const Tensor& a, const Tensor& tau, const Tensor& c, bool adjoint, bool conjugate) {
  const int64_t count = tau.size(1), blocks = at::ceil_div(count, kPanel);
  for (int64_t n = 0; n < blocks; ++n) {
    const int64_t j = (adjoint ? n : blocks - 1 - n) * kPanel, size = std::min(kPanel, count - j);
    const Tensor panel = a.narrow(1, j, a.size(1) - j).narrow(2, j, size);
    apply(block_reflector(panel, tau.narrow(1, j, size)), c.narrow(1, j, c.size(1) - j), adjoint,
          conjugate);
  }
}

namespace {

void geqrf(const Tensor& input, const Tensor& tau) {
  if (input.numel() == 0) return;
  check_device_has(ocl_device(input), input.scalar_type(), "geqrf");
  factor_qr(matrices(input), vectors(tau));
}

Tensor& orgqr(Tensor& result, const Tensor& tau) {
  if (result.numel() == 0) return result;
  const Tensor factors = matrices(result).clone(), q = matrices(result);
  fill_identity(q);
  if (tau.numel() > 0) apply_q(factors, vectors(tau), q, /*adjoint=*/false);
  return result;
}

void ormqr(const Tensor& input, const Tensor& tau, const Tensor& other, bool left, bool transpose) {
  if (other.numel() == 0 || tau.numel() == 0) return;
  const Tensor factors = matrices(input), c = matrices(other);
  // (C Q)^T = conj(Q^H) C^T
  apply_q(factors, vectors(tau), left ? c : c.mT(), left == transpose, !left);
}

}  // namespace
}  // namespace ocl

namespace at::native {

OCL_STUB("geqrf,geqrf.a", geqrf_stub, &ocl::geqrf)
OCL_STUB("linalg_householder_product", orgqr_stub, &ocl::orgqr)
OCL_STUB("ormqr", ormqr_stub, &ocl::ormqr)
OCL_SHARED("linalg_qr.out");
OCL_COMPLEX("geqrf,geqrf.a,linalg_householder_product,ormqr,linalg_qr.out");

}  // namespace at::native
