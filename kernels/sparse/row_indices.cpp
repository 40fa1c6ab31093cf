// Conversions between dense, coordinate (COO) and compressed row (CSR) forms.
#include <ATen/ops/ones.h>

#include "kernels/core/grids/grid.h"
#include "kernels/core/operators/registration.h"
#include "kernels/core/tensors/tensors.h"
#include "kernels/core/types/dtype.h"
#include "native/row_indices.h"

namespace ocl {
namespace {

using at::Tensor;

const char* index_type(ScalarType type) { return type == ScalarType::Int ? "int" : "long"; }

// Converts to a type that the kernels read. The CPU accepts integers of all widths.
Tensor readable(const Tensor& indices) {
  if (indices.scalar_type() == ScalarType::Int) return indices.contiguous();
  if (!c10::isIntegralType(indices.scalar_type(), /*includeBool=*/false)) {
    refuse_type(ocl_device(indices), indices.scalar_type(), "_convert_indices");
  }
  return indices.to(ScalarType::Long).contiguous();
}

// A work-item of a GPU finds one result; a work-item of a CPU fills a gap or a row.
bool is_gpu(const Device& device) { return device.family() == KernelFamily::kGpu; }

struct RowIndices {
  const char* kernel;
  ScalarType in, out;

  KernelSource source(Device& device) const {
    Defines defines;
    define_grid(defines, device);
    defines.set("INDEX", index_type(in)).set("OUT", index_type(out));
    return {"row_indices.cl", kernel, defines};
  }
};

}  // namespace

namespace native {

OCL_SHARED("_to_sparse,_to_sparse_csr,_to_sparse_csc,_to_sparse_bsr,_to_sparse_bsc");

OCL_STRUCTURED("_convert_indices_from_coo_to_csr.out", convert_indices_from_coo_to_csr)
(const Tensor& self, int64_t size, bool /*out_int32*/, const Tensor& out) {
  TORCH_CHECK(size >= 0, "_convert_indices_from_coo_to_csr: expected a size of at least 0, got ",
              size);
  if (self.numel() == 0) {
    out.zero_();
    return;
  }
  static constexpr const char* kName = "row_offsets";
  const DenseOutput result(out);
  const Tensor numbers = readable(self);
  Device& device = ocl_device(out);
  const auto count = static_cast<uint64_t>(numbers.numel());
  const auto rows = static_cast<uint64_t>(size);
  const UnitGrid grid = unit_grid(device, is_gpu(device) ? rows + 1 : count + 1, 1);
  const Kernel& kernel =
      find_kernel(device, RowIndices{kName, numbers.scalar_type(), out.scalar_type()});
  launch(stream_of(out), kernel, grid.global, grid.local, view(numbers), view(result.tensor()),
         count, uint64_t{1}, grid.per_item, rows);
  result.finish();
}

OCL_STRUCTURED("_convert_indices_from_csr_to_coo.out", convert_indices_from_csr_to_coo)
(const Tensor& crow_indices, const Tensor& col_indices, bool /*out_int32*/, bool transpose,
 const Tensor& out) {
  if (col_indices.numel() == 0) {
    out.zero_();
    return;
  }
  static constexpr const char* kName = "row_numbers";
  TORCH_CHECK(crow_indices.dim() > 0 && crow_indices.size(-1) > 0 && col_indices.dim() > 0,
              "crow_indices of shape ", crow_indices.sizes(), " and col_indices of shape ",
              col_indices.sizes(), " are of no matrix");
  const int64_t batch_dims = crow_indices.dim() - 1;
  const auto rows = static_cast<uint64_t>(crow_indices.size(-1) - 1),
             count = static_cast<uint64_t>(col_indices.size(-1));
  const Tensor offsets = readable(crow_indices);
  const auto batches = static_cast<uint64_t>(offsets.numel()) / (rows + 1);
  TORCH_CHECK(static_cast<uint64_t>(col_indices.numel()) == batches * count,
              "crow_indices of shape ", crow_indices.sizes(), " and col_indices of shape ",
              col_indices.sizes(), " are not of the same matrices");
  if (batch_dims > 0) {
    const Tensor batch_numbers =
        at::ones(crow_indices.sizes().slice(0, batch_dims), crow_indices.options())
            .nonzero()
            .t()
            .unsqueeze(2)
            .expand({batch_dims, static_cast<int64_t>(batches), static_cast<int64_t>(count)});
    out.narrow(0, 0, batch_dims).copy_(batch_numbers.reshape({batch_dims, -1}));
  }
  out.select(0, batch_dims + (transpose ? 0 : 1)).copy_(col_indices.reshape({-1}));
  const DenseOutput numbers(out.select(0, batch_dims + (transpose ? 1 : 0)));
  Device& device = ocl_device(out);
  const uint64_t units = batches * (is_gpu(device) ? count : rows);
  const UnitGrid grid = unit_grid(device, units, 1);
  const Kernel& kernel =
      find_kernel(device, RowIndices{kName, offsets.scalar_type(), out.scalar_type()});
  launch(stream_of(out), kernel, grid.global, grid.local, view(offsets), view(numbers.tensor()),
         units, uint64_t{1}, grid.per_item, rows, count);
  numbers.finish();
}

}  // namespace native
}  // namespace ocl
