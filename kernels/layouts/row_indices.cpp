// Conversions between dense, coordinate (COO) and compressed row (CSR) forms.
#include <ATen/ops/ones.h>

#include "kernels/core/dtype.h"
#include "kernels/core/grid.h"
#include "kernels/core/registration.h"
#include "kernels/core/tensors.h"
#include "native/row_indices.h"

namespace ocl {
namespace {

using at::Tensor;

const char* index_type(const Tensor& indices) {
  return indices.scalar_type() == ScalarType::Int ? "int" : "long";
}

// Work-items of a GPU find one result each; a CPU's fill a gap or a row.
bool is_gpu(const Device& device) { return device.family() == KernelFamily::kGpu; }

const Kernel& find(Device& device, const char* kernel, const Tensor& in, const Tensor& out) {
  static Site site;
  const KernelKey key{&site,
                      {reinterpret_cast<uint64_t>(kernel), static_cast<uint64_t>(in.scalar_type()),
                       static_cast<uint64_t>(out.scalar_type())}};
  return find_kernel(device, key, [&] {
    Defines defines;
    define_grid(defines, device);
    defines.set("INDEX", index_type(in)).set("OUT", index_type(out));
    return KernelSource{"row_indices.cl", kernel, defines};
  });
}

}  // namespace

namespace native {

OCL_SHARED("_to_sparse,_to_sparse_csr,_to_sparse_csc,_to_sparse_bsr,_to_sparse_bsc");

OCL_STRUCTURED("_convert_indices_from_coo_to_csr.out", convert_indices_from_coo_to_csr)
(const Tensor& self, int64_t size, bool /*out_int32*/, const Tensor& out) {
  if (self.numel() == 0) {
    out.zero_();
    return;
  }
  static constexpr const char* kName = "row_offsets";
  const DenseOutput result(out);
  const Tensor numbers = self.contiguous();
  Device& device = ocl_device(out);
  const auto count = static_cast<uint64_t>(numbers.numel());
  const auto rows = static_cast<uint64_t>(size);
  const UnitGrid grid = unit_grid(device, is_gpu(device) ? rows + 1 : count + 1, 1);
  launch(stream_of(out), find(device, kName, numbers, out), grid.global, grid.local, view(numbers),
         view(result.tensor()), count, uint64_t{1}, grid.per_item, rows);
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
  const int64_t batch_dims = crow_indices.dim() - 1;
  const auto rows = static_cast<uint64_t>(crow_indices.size(-1) - 1),
             count = static_cast<uint64_t>(col_indices.size(-1));
  const Tensor offsets = crow_indices.contiguous();
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
  launch(stream_of(out), find(device, kName, offsets, out), grid.global, grid.local, view(offsets),
         view(numbers.tensor()), units, uint64_t{1}, grid.per_item, rows, count);
  numbers.finish();
}

}  // namespace native
}  // namespace ocl
