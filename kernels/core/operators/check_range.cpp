#include "kernels/core/operators/check_range.h"

#include "backend/queue/fault.h"
#include "kernels/core/grids/grid.h"
#include "kernels/core/tensors/tensors.h"
#include "kernels/core/types/dtype.h"

namespace ocl {

void check_range(const at::Tensor& numbers, const AllowedRange& allowed) {
  const auto count = static_cast<size_t>(numbers.numel());
  if (count == 0) return;
  Device& device = ocl_device(numbers);
  const ScalarType type = numbers.scalar_type(), compute = compute_type(type);
  check_device_has(device, type, "check_range");
  const at::Tensor dense = numbers.contiguous();
  struct CheckRange {
    ScalarType type;

    KernelSource source(Device& device) const {
      Defines defines = compute_defines(compute_type(type));
      define_grid(defines, device);
      defines.set("IN", dtype_name(type));
      if (c10::isIntegralType(type, true)) defines.set("INTEGERS", 1);
      return {"check_range.cl", "check_range", defines};
    }
  };
  const UnitGrid grid = unit_grid(device, count, 1);
  Arguments arguments(stream_of(dense), find_kernel(device, CheckRange{type}));
  arguments.add(view(dense)).add(uint64_t{count}).add(grid.per_item);
  add_number(arguments, allowed.low, compute);
  add_number(arguments, allowed.high, compute);
  arguments.add(allowed.bound).add(FaultArgument{allowed.fault_site});
  arguments.enqueue(grid.global, grid.local);
}

int zero_division_site() {
  static const int site = fault_site({"ZeroDivisionError", FaultClass::kRuntime, "", ""});
  return site;
}

}  // namespace ocl
