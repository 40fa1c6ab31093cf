// Launches of jacobi.cl. A sweep rotates each pair of columns once, in rounds of disjoint pairs.
#include "kernels/linalg/orthogonal/linalg_jacobi.h"

#include <ATen/ops/empty.h>
#include <ATen/ops/zeros.h>

#include "kernels/core/tensors/tensors.h"
#include "kernels/core/types/dtype.h"

namespace ocl {
namespace {

using at::Tensor;

// The most sweeps. About 8 suffice for columns of similar lengths; very different lengths need
// many.
constexpr int kSweeps = 200;

uint64_t u(int64_t number) { return static_cast<uint64_t>(number); }

ScalarType real_type(const Tensor& t) { return c10::toRealValueType(t.scalar_type()); }

const Kernel& kernel_of(Device& device, const char* name, ScalarType type,
                        const char* define = nullptr) {
  return find_kernel(device, TeamKernel{"jacobi.cl", name, type, {define}});
}

double epsilon(ScalarType type) {
  return is_double(type) ? std::numeric_limits<double>::epsilon()
                         : std::numeric_limits<float>::epsilon();
}

// Whether each round of a sweep gets its own launch: for few matrices with many columns, and on
// GPUs also for many matrices if all sweeps of a matrix would take a work-group seconds.
bool by_rounds(const Device& device, int64_t batches, int64_t columns) {
  if (device.family() == KernelFamily::kCpu) return batches < 16 && columns >= 96;
  return columns >= (batches < 16 ? 32 : 128);
}

}  // namespace

bool orthogonalize(const Tensor& x, const Tensor& rotated) {
  static constexpr const char *kAll = "jacobi_sweeps", *kRound = "jacobi_round";
  const int64_t batches = x.size(0), size = x.size(1), columns = x.size(2);
  if (columns < 2) return true;
  Device& device = ocl_device(x);
  Stream& stream = stream_of(x);
  const ScalarType type = x.scalar_type();
  const double tolerance = epsilon(type) * std::sqrt(static_cast<double>(size));
  const bool rotates = rotated.defined();
  const BufferView other = view(rotates ? rotated : x);
  const int64_t rotated_size = rotates ? rotated.size(1) : 0;
  const Tensor left = at::zeros({batches}, x.options().dtype(at::kInt));
  if (!by_rounds(device, batches, columns)) {
    const Kernel& kernel = kernel_of(device, kAll, type);
    const TeamGrid grid = team_grid(device, kernel, batches);
    Arguments arguments(stream, kernel);
    arguments.add(view(x)).add(other).add(view(left)).add(u(columns)).add(u(size));
    arguments.add(u(rotated_size)).add(u(batches)).add(static_cast<int32_t>(kSweeps));
    add_number(arguments, tolerance, real_type(x));
    arguments.enqueue(grid.global, grid.local);
    return !left.any().item<bool>();
  }
  const Kernel& kernel = kernel_of(device, kRound, type);
  const int64_t rounds = columns + columns % 2 - 1;
  const TeamGrid grid = team_grid(device, kernel, (rounds + 1) / 2);
  const auto most_batches = std::min<size_t>(batches, device.parameters().grid.groups);
  for (int sweep = 0; sweep < kSweeps; ++sweep) {
    Tensor(left).zero_();
    for (int64_t round = 0; round < rounds; ++round) {
      Arguments arguments(stream, kernel);
      arguments.add(view(x)).add(other).add(view(left)).add(u(columns)).add(u(size));
      arguments.add(u(rotated_size)).add(u(batches)).add(u(round));
      add_number(arguments, tolerance, real_type(x));
      arguments.enqueue({grid.global.x, most_batches}, {grid.local.x, 1});
    }
    if (!left.any().item<bool>()) return true;
  }
  return false;
}

Tensor column_norms(const Tensor& x) {
  static constexpr const char* kName = "column_norms";
  Device& device = ocl_device(x);
  const int64_t count = x.size(0) * x.size(2);
  const Tensor norms = at::empty({x.size(0), x.size(2)}, x.options().dtype(real_type(x)));
  const Kernel& kernel = kernel_of(device, kName, x.scalar_type());
  const TeamGrid grid = team_grid(device, kernel, count);
  launch(stream_of(x), kernel, grid.global, grid.local, view(x), view(norms), u(x.size(1)),
         u(count));
  return norms;
}

Tensor take_columns(const Tensor& x, const Tensor& order, const Tensor& norms, double least) {
  static constexpr const char* kName = "take_columns";
  Device& device = ocl_device(x);
  const int64_t count = x.size(0) * x.size(2);
  const Tensor out = empty_matrices(x.size(0), x.size(1), x.size(2), x.options());
  const bool normalize = norms.defined();
  const Kernel& kernel =
      kernel_of(device, kName, x.scalar_type(), normalize ? "NORMALIZE" : nullptr);
  const TeamGrid grid = team_grid(device, kernel, count);
  Arguments arguments(stream_of(x), kernel);
  arguments.add(view(x)).add(view(order)).add(view(normalize ? norms : x)).add(view(out));
  arguments.add(u(x.size(2))).add(u(x.size(1))).add(u(count));
  add_number(arguments, least, real_type(x));
  arguments.enqueue(grid.global, grid.local);
  return out;
}

Tensor hermitian(const Tensor& a, bool upper) {
  static constexpr const char* kName = "hermitian";
  Device& device = ocl_device(a);
  const Tensor out = empty_matrices(a.size(0), a.size(1), a.size(2), a.options());
  const Kernel& kernel = kernel_of(device, kName, a.scalar_type(), upper ? "UPPER" : nullptr);
  const TeamGrid grid = team_grid(device, kernel, a.size(0));
  launch(stream_of(a), kernel, grid.global, grid.local, view(a), view(out), u(a.size(1)),
         u(a.size(0)), u(a.stride(2)), u(a.stride(0)));
  return out;
}

}  // namespace ocl
