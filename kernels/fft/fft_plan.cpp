#include "kernels/fft/fft_plan.h"

#include <ATen/ops/empty.h>
#include <ATen/ops/zeros.h>
#include <c10/util/complex.h>

#include <bit>
#include <cmath>
#include <numbers>

#include "backend/memory/allocator.h"
#include "kernels/core/algorithms/lru_cache.h"
#include "kernels/core/tensors/tensors.h"
#include "kernels/core/types/dtype.h"

namespace ocl {
namespace {

constexpr size_t kKeptTables = 32, kKeptChirps = 8;

using Complex = c10::complex<double>;

struct Key {
  int64_t n;
  c10::DeviceIndex device;
  ScalarType type;
  bool forward;
  bool operator==(const Key&) const = default;
};

Key key_of(int64_t n, const at::TensorOptions& options, bool forward) {
  return {n, options.device().index(), c10::typeMetaToScalarType(options.dtype()), forward};
}

// exp(2 pi i k / n) for 0 <= k < n. The angle is reduced to an eighth of the circle, so that only
// the result is rounded.
Complex root_of_unity(int64_t k, int64_t n) {
  const auto near_zero = [n](int64_t eighths) {  // exp(i angle) for 2 pi eighths / (8 n)
    const double angle = std::numbers::pi * static_cast<double>(eighths) / (4.0 * n);
    return Complex(std::cos(angle), std::sin(angle));
  };
  const int64_t octant = 8 * k / n, rest = 8 * k - octant * n;
  const bool from_above = octant % 2 == 1;
  Complex root = near_zero(from_above ? n - rest : rest);
  if (from_above) root = {root.imag(), root.real()};
  switch (octant / 2) {
    case 1:
      return {-root.imag(), root.real()};
    case 2:
      return -root;
    case 3:
      return {root.imag(), -root.real()};
    default:
      return root;
  }
}

at::Tensor on_host(int64_t n, const at::TensorOptions& options) {
  return at::zeros({n}, at::TensorOptions(at::kCPU).dtype(options.dtype()));
}

void set(const at::Tensor& host, int64_t i, const Complex& value) {
  if (host.scalar_type() == ScalarType::ComplexDouble) {
    host.mutable_data_ptr<Complex>()[i] = value;
  } else {
    host.mutable_data_ptr<c10::complex<float>>()[i] = static_cast<c10::complex<float>>(value);
  }
}

// Records the current stream as a user of a kept table, which another stream may have made.
at::Tensor shared(at::Tensor table) {
  Allocator::instance().recordStream(table.storage().data_ptr(), stream_of(table).unpack());
  return table;
}

}  // namespace

std::vector<int64_t> radices_of(int64_t n) {
  std::vector<int64_t> radices;
  for (const int64_t radix : {4, 2, 3, 5}) {
    for (; n % radix == 0; n /= radix) radices.push_back(radix);
  }
  for (int64_t radix = 7; radix <= kMaxRadix; radix += 2) {
    for (; n % radix == 0; n /= radix) radices.push_back(radix);
  }
  if (n > 1) radices.clear();
  return radices;
}

at::Tensor roots_of_unity(int64_t n, const at::TensorOptions& options) {
  static auto& kept = *new LruCache<Key, at::Tensor>(kKeptTables);
  return shared(kept.get(key_of(n, options, true), [&] {
    const at::Tensor host = on_host(n, options);
    for (int64_t k = 0; k < n; ++k) set(host, k, root_of_unity(k, n));
    return host.to(options.device());
  }));
}

Chirp chirp_of(int64_t n, bool forward, const at::TensorOptions& options,
               c10::function_ref<at::Tensor(const at::Tensor&)> transform) {
  static auto& kept = *new LruCache<Key, Chirp>(kKeptChirps);
  const Chirp chirp = kept.get(key_of(n, options, forward), [&] {
    const auto m = static_cast<int64_t>(std::bit_ceil(static_cast<uint64_t>(2 * n - 1)));
    const Device& device = ocl::device(options.device().index());
    // Computes the spectrum in double precision if the device has it.
    const at::TensorOptions precise =
        device.properties().has_fp64 ? options.dtype(ScalarType::ComplexDouble) : options;
    const at::Tensor factors = on_host(n, options), wrapped = on_host(m, precise);
    int64_t square = 0;  // k^2 modulo 2 n
    for (int64_t k = 0; k < n; ++k) {
      Complex factor = root_of_unity(square, 2 * n);
      if (forward) factor = {factor.real(), -factor.imag()};
      set(factors, k, factor);
      const Complex conjugate(factor.real(), -factor.imag());
      set(wrapped, k, conjugate);
      if (k > 0) set(wrapped, m - k, conjugate);
      square = (square + 2 * k + 1) % (2 * n);
    }
    const at::Tensor spectrum = transform(wrapped.to(options.device()));
    // A copy through the host waits, so that other streams may use the result at once.
    const at::Tensor finished = spectrum.cpu().to(options.dtype()).to(options.device());
    return Chirp{m, factors.to(options.device()), finished};
  });
  return {chirp.m, shared(chirp.factors), shared(chirp.spectrum)};
}

}  // namespace ocl
