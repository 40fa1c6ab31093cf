#include "kernels/linalg/linalg.h"

#include <ATen/ceil_div.h>
#include <ATen/ops/empty.h>

#include "kernels/core/tensors/tensors.h"
#include "kernels/core/types/dtype.h"
#include "kernels/matmul/gemm.h"

namespace ocl {
namespace {

int64_t product_of(at::IntArrayRef sizes) {
  int64_t product = 1;
  for (const int64_t size : sizes) product *= size;
  return product;
}

constexpr int64_t kLeafCpu = 32, kLeafGpu = 16;  // the most equations that one launch solves
constexpr size_t kTeam = 64;                     // the most work-items of a team

struct Strides {
  int64_t row, column, batch;
};

Strides strides_of(const at::Tensor& t) { return {t.stride(1), t.stride(2), t.stride(0)}; }

void solve_leaf(const at::Tensor& a, const at::Tensor& b, Triangle triangle) {
  static constexpr const char* kName = "triangular_solve";
  Device& device = ocl_device(b);
  const bool cpu = device.family() == KernelFamily::kCpu;
  const char* const unit = triangle.unit ? "UNIT" : nullptr;
  const char* const conjugate = triangle.conjugate && b.is_complex() ? "CONJUGATE" : nullptr;
  const int64_t leaf = cpu ? kLeafCpu : kLeafGpu;
  const Kernel& kernel = find_kernel(
      device, TeamKernel{"triangular.cl", kName, b.scalar_type(), {unit, conjugate}, leaf});
  const int64_t n = b.size(1), columns = b.size(2), batches = b.size(0);
  Strides a_by = strides_of(a), b_by = strides_of(b);
  const int64_t size = b.element_size();
  BufferView a_view = view(a), b_view = view(b);
  if (triangle.upper) {
    a_view.offset += (n - 1) * (a_by.row + a_by.column) * size;
    b_view.offset += (n - 1) * b_by.row * size;
    a_by.row = -a_by.row;
    a_by.column = -a_by.column;
    b_by.row = -b_by.row;
  }
  const auto team = static_cast<int64_t>(team_size(kernel)),
             most = static_cast<int64_t>(most_teams(device));
  const int64_t batch_teams = std::min(batches, most);
  const int64_t per_team = cpu ? 64 : team;  // columns
  const int64_t limit = cpu ? std::max<int64_t>(most / batch_teams, 1) : most;
  const int64_t column_teams = std::clamp<int64_t>(at::ceil_div(columns, per_team), 1, limit);
  launch(stream_of(b), kernel,
         {static_cast<size_t>(column_teams * team), static_cast<size_t>(batch_teams)},
         {static_cast<size_t>(team), 1}, a_view, b_view, static_cast<uint64_t>(n),
         static_cast<uint64_t>(columns), static_cast<uint64_t>(batches), a_by, b_by);
}

}  // namespace

at::Tensor matrices(const at::Tensor& tensor) {
  // The kernels have only these types, and would read others as float32.
  const ScalarType type = c10::toRealValueType(tensor.scalar_type());
  if (type != ScalarType::Float && type != ScalarType::Double) {
    refuse_type(ocl_device(tensor), tensor.scalar_type(), "linear algebra");
  }
  const at::Tensor plain = tensor.is_conj() ? tensor.conj() : tensor;
  if (plain.dim() == 3) return plain;
  const int64_t rows = plain.size(-2), columns = plain.size(-1);
  const int64_t batches = product_of(plain.sizes().slice(0, plain.dim() - 2));
  // Merges the batch dimensions; keeps the order of rows or of columns, whichever needs no copy.
  if (plain.mT().is_contiguous()) return plain.mT().view({batches, columns, rows}).mT();
  return plain.view({batches, rows, columns});
}

at::Tensor vectors(const at::Tensor& tensor) {
  return tensor.view({product_of(tensor.sizes().slice(0, tensor.dim() - 1)), tensor.size(-1)});
}

at::Tensor matrices(const at::Tensor& tensor, at::IntArrayRef batch) {
  const at::Tensor all = matrices(tensor);
  const int64_t batches = product_of(batch);
  if (all.size(0) == batches) return all;
  if (all.size(0) == 1) return all.expand({batches, -1, -1});
  std::vector<int64_t> sizes(batch.begin(), batch.end());
  sizes.insert(sizes.end(), {tensor.size(-1), tensor.size(-2)});
  return matrices(tensor.mT().expand(sizes).contiguous().mT());
}

at::Tensor vectors(const at::Tensor& tensor, at::IntArrayRef batch) {
  const at::Tensor all = vectors(tensor);
  const int64_t batches = product_of(batch);
  if (all.size(0) == batches) return all;
  if (all.size(0) == 1) return all.expand({batches, -1});
  std::vector<int64_t> sizes(batch.begin(), batch.end());
  sizes.push_back(tensor.size(-1));
  return vectors(tensor.expand(sizes).contiguous());
}

at::Tensor empty_matrices(int64_t batches, int64_t rows, int64_t columns,
                          const at::TensorOptions& options) {
  return at::empty({batches, columns, rows}, options).mT();
}

void fill_identity(const at::Tensor& matrices) {
  at::Tensor all = matrices;
  all.zero_();
  all.diagonal(0, -2, -1).fill_(1);
}

void multiply(const at::Tensor& out, const at::Tensor& a, const at::Tensor& b, int alpha, int beta,
              Conjugate conjugate) {
  if (out.numel() == 0) return;
  const at::NoTF32Guard exact;  // float32_matmul_precision must not affect factorizations
  gemm(out, conjugate.a ? a.conj() : a, conjugate.b ? b.conj() : b, alpha,
       beta == 0 ? at::Tensor() : out, beta);
}

void solve_triangular(const at::Tensor& a, const at::Tensor& b, Triangle triangle) {
  if (b.numel() == 0) return;
  check_device_has(ocl_device(b), b.scalar_type(), "solve_triangular");
  const int64_t n = a.size(-1);
  const int64_t leaf = ocl_device(b).family() == KernelFamily::kCpu ? kLeafCpu : kLeafGpu;
  if (n <= leaf) return solve_leaf(a, b, triangle);
  // Solves half of the equations, subtracts their part from the other half, and solves that.
  const int64_t half = at::round_up(n / 2, leaf), rest = n - half;
  const int64_t first = triangle.upper ? half : 0, second = triangle.upper ? 0 : half;
  const int64_t first_size = triangle.upper ? rest : half, second_size = n - first_size;
  const at::Tensor b_first = b.narrow(1, first, first_size),
                   b_second = b.narrow(1, second, second_size);
  const auto block = [&](int64_t row, int64_t rows, int64_t column, int64_t columns) {
    return a.narrow(1, row, rows).narrow(2, column, columns);
  };
  solve_triangular(block(first, first_size, first, first_size), b_first, triangle);
  multiply(b_second, block(second, second_size, first, first_size), b_first, -1, 1,
           {triangle.conjugate, false});
  solve_triangular(block(second, second_size, second, second_size), b_second, triangle);
}

KernelSource TeamKernel::source(Device& device, size_t group) const {
  Defines defines = compute_defines(type);
  if (device.family() == KernelFamily::kGpu) {
    defines.set("GROUP", static_cast<int64_t>(std::min(group, kTeam)));
  } else if (!c10::isComplexType(type)) {
    defines.set("WIDTH", static_cast<int64_t>(vector_lanes(device, type)));
  }
  if (leaf) defines.set("LEAF", leaf);
  for (const char* flag : flags) {
    if (flag) defines.set(flag, 1);
  }
  return {file, name, defines, /*whole_grid=*/true};
}

size_t team_size(const Kernel& kernel) { return std::min(kernel.group, kTeam); }

size_t most_teams(const Device& device) {
  const DeviceParameters& parameters = device.parameters();
  return device.family() == KernelFamily::kCpu ? parameters.tasks : parameters.grid.groups;
}

TeamGrid team_grid(const Device& device, const Kernel& kernel, int64_t matrices) {
  const size_t team = team_size(kernel);
  const size_t teams = std::min<size_t>(matrices, most_teams(device));
  return {{teams * team}, {team}};
}

}  // namespace ocl
