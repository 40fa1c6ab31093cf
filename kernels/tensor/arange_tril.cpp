// Tensors filled by a formula: arange, range, linspace; and tril, triu.
#include <ATen/native/RangeUtils.h>
#include <ATen/native/Resize.h>
#include <ATen/ops/empty_like.h>
#include <ATen/ops/linspace.h>

#include <algorithm>
#include <cmath>

#include "kernels/core/grids/grid.h"
#include "kernels/core/operators/registration.h"
#include "kernels/core/tensors/tensors.h"
#include "kernels/core/types/dtype.h"
#include "native/arange_tril.h"

namespace ocl {
namespace {

using at::Scalar;
using at::Tensor;

struct Sequence {
  const char* name;
  const char* expression;
};

constexpr Sequence kSteps{"arange", "(s0 + i * s1)"};
// Computes from both ends, so that the last element is exactly the end.
constexpr Sequence kBetween{"linspace",
                            "(element < n / 2 ? s0 + s1 * i : s2 - s1 * (T)(n - 1 - element))"};

struct SequenceFill {
  const char* expression;
  ScalarType type, compute;

  KernelSource source(Device& device) const {
    Defines defines = compute_defines(compute);
    define_grid(defines, device);
    defines.set("OUT", dtype_name(type)).set("EXPR", expression);
    return {"arange_tril.cl", "sequence", defines};
  }
};

at::Tensor dense_target(const Tensor& tensor) {
  return tensor.is_contiguous() ? tensor : at::empty_like(tensor, at::MemoryFormat::Contiguous);
}

void fill(const Tensor& out, const Sequence& sequence, ScalarType compute,
          std::array<Scalar, 3> numbers) {
  if (out.numel() == 0) return;
  Device& device = ocl_device(out);
  const ScalarType type = out.scalar_type();
  check_device_has(device, type, sequence.name);
  const Tensor dense = dense_target(out);
  const Kernel& kernel = find_kernel(device, SequenceFill{sequence.expression, type, compute});
  const auto count = static_cast<size_t>(out.numel());
  UnitGrid grid = unit_grid(device, 1, count);
  grid.global.y = grid.local.y = 1;
  Arguments arguments(stream_of(dense), kernel);
  arguments.add(view(dense));
  for (const Scalar& number : numbers) add_number(arguments, number, compute);
  arguments.add(uint64_t{count}).enqueue(grid.global, grid.local);
  if (!dense.is_same(out)) out.copy_(dense);
}

// The type in which a sequence is computed; the CPU uses double for floating-point types.
ScalarType sequence_type(const Tensor& out, bool from_double) {
  const bool has_fp64 = ocl_device(out).properties().has_fp64;
  if (out.is_complex()) return has_fp64 ? ScalarType::ComplexDouble : ScalarType::ComplexFloat;
  if (!c10::isFloatingType(out.scalar_type()) && !from_double) return ScalarType::Long;
  return has_fp64 ? ScalarType::Double : ScalarType::Float;
}

// Resizes a result whose number of elements is wrong, with the CPU's warning.
void resize_sequence(Tensor& out, int64_t size) {
  if (out.numel() == size) return;
  if (out.numel() > 0) {
    TORCH_WARN("The number of elements in the out tensor of shape ", out.sizes(), " is ",
               out.numel(), " which does not match the computed number of elements ", size,
               ". Note that this may occur as a result of rounding error. The out tensor will be "
               "resized to a tensor of shape (",
               size, ",).");
  }
  out.resize_({size});
}

int64_t checked_size(double size) {
  // As a double, the greatest int64 becomes 2^63, which is out of range.
  TORCH_CHECK(size >= 0 && size < 0x1p63, "invalid size, possible overflow?");
  return static_cast<int64_t>(size);
}

// The number of elements from `first` up to but not including `last`.
double count_steps(int64_t first, int64_t last, int64_t by) {
  // The bounds are in order as doubles, but as integers they may be in the other order by a little.
  if (by > 0 ? last < first : last > first) {
    const int64_t count = (last - first + by - (by > 0 ? 1 : -1)) / by;
    return static_cast<double>(count);
  }
  // Unsigned, because the distance may overflow int64.
  const auto from = static_cast<uint64_t>(first), to = static_cast<uint64_t>(last);
  const uint64_t distance = by > 0 ? to - from : from - to;
  const uint64_t step = by > 0 ? static_cast<uint64_t>(by) : 0 - static_cast<uint64_t>(by);
  const uint64_t count = distance / step + (distance % step > 0 ? 1 : 0);
  return static_cast<double>(count);
}

struct Triangle {
  ScalarType bits;
  bool upper;
  uint64_t words;

  KernelSource source(Device& device) const {
    Defines defines = compute_defines(bits);
    define_grid(defines, device);
    defines.set("OUT", dtype_name(bits)).set("WORDS", static_cast<int64_t>(words));
    if (upper) defines.set("UPPER", 1);
    return {"arange_tril.cl", "triangle", defines};
  }
};

void triangle(const Tensor& self, int64_t diagonal, const Tensor& out, bool upper) {
  if (out.numel() == 0) return;
  if (!out.is_contiguous() && out.mT().is_contiguous()) {  // avoids a copy
    const int64_t kept = std::clamp(diagonal, -out.size(-2), out.size(-1));
    return triangle(self.mT(), -kept, out.mT(), !upper);
  }
  Device& device = ocl_device(out);
  const Tensor in = self.contiguous(), dense = dense_target(out);
  const auto bytes = static_cast<size_t>(out.element_size());
  const ScalarType bits = bits_type(bytes);
  const uint64_t words = bytes / c10::elementSize(bits);
  const Kernel& kernel = find_kernel(device, Triangle{bits, upper, words});
  const auto columns = static_cast<uint64_t>(in.size(-1)) * words,
             rows = static_cast<uint64_t>(in.size(-2)),
             units = static_cast<uint64_t>(in.numel()) * words / columns;
  const UnitGrid grid = unit_grid(device, units, columns);
  launch(stream_of(in), kernel, grid.global, grid.local, view(in), view(dense), units,
         grid.per_item, rows, columns, diagonal);
  if (!dense.is_same(out)) out.copy_(dense);
}

}  // namespace

namespace native {

OCL_NATIVE("arange.start_out", arange_out);
Tensor& arange_out(const Scalar& start, const Scalar& end, const Scalar& step, Tensor& out) {
  at::native::arange_check_bounds(start, end, step);
  double size = 0;
  if (out.scalar_type() == ScalarType::Long) {
    const int64_t first = start.to<int64_t>(), last = end.to<int64_t>(), by = step.to<int64_t>();
    TORCH_CHECK_VALUE(by != 0, "step must be nonzero");
    size = count_steps(first, last, by);
  } else {
    size = std::ceil((end.to<double>() - start.to<double>()) / step.to<double>());
  }
  resize_sequence(out, checked_size(size));
  fill(out, kSteps, sequence_type(out, false), {start, step, 0});
  return out;
}

OCL_NATIVE("range.out", range_out);
Tensor& range_out(const Scalar& start, const Scalar& end, const Scalar& step, Tensor& out) {
  at::native::arange_check_bounds(start, end, step);
  const double size = (end.to<double>() - start.to<double>()) / step.to<double>() + 1;
  resize_sequence(out, checked_size(std::floor(size)));
  fill(out, kSteps, sequence_type(out, false), {start, step, 0});
  return out;
}

OCL_NATIVE("linspace.out", linspace_out);
OCL_COMPLEX("linspace.out");
Tensor& linspace_out(const Scalar& start, const Scalar& end, int64_t steps, Tensor& out) {
  TORCH_CHECK(steps >= 0, "number of steps must be non-negative");
  if (out.numel() != steps) out.resize_({steps});
  if (steps == 0) return out;
  if (steps == 1) {
    out.fill_(start);
    return out;
  }
  check_fits(start, out.scalar_type());
  check_fits(end, out.scalar_type());
  if (out.is_complex()) {
    const auto first = start.to<c10::complex<double>>(), last = end.to<c10::complex<double>>();
    fill(out, kBetween, sequence_type(out, true),
         {first, (last - first) / static_cast<double>(steps - 1), last});
    return out;
  }
  const bool integral = c10::isIntegralType(out.scalar_type(), /*includeBool=*/true);
  const Scalar from = as_element(start, out.scalar_type()), to = as_element(end, out.scalar_type());
  // Beyond 2^24, float32 does not have all integers.
  constexpr double kExact = 1 << 24;
  const double farthest = std::max(std::abs(start.toDouble()), std::abs(end.toDouble()));
  if (integral && farthest > kExact && !ocl_device(out).properties().has_fp64)
    return out.copy_(at::linspace(start, end, steps, out.options().device(at::kCPU)));
  const double first = integral ? static_cast<double>(from.to<int64_t>()) : from.to<double>();
  const double last = integral ? static_cast<double>(to.to<int64_t>()) : to.to<double>();
  fill(out, kBetween, sequence_type(out, true),
       {first, (last - first) / static_cast<double>(steps - 1), last});
  return out;
}

OCL_COMPLEX("tril.out,triu.out");
OCL_STRUCTURED_AS("tril.out", tril, triangle(self, diagonal, out, false))

OCL_STRUCTURED_AS("triu.out", triu, triangle(self, diagonal, out, true))

}  // namespace native
}  // namespace ocl
