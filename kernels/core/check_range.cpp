#include "kernels/core/check_range.h"

#include "backend/fault.h"
#include "kernels/core/dtype.h"
#include "kernels/core/grid.h"
#include "kernels/core/tensors.h"

namespace ocl {

void check_range(const at::Tensor& numbers, const AllowedRange& allowed) {
  const auto count = static_cast<size_t>(numbers.numel());
  if (count == 0) return;
  Device& device = ocl_device(numbers);
  const ScalarType type = numbers.scalar_type(), compute = compute_type(type);
  check_device_has(device, type, "check_range");
  const at::Tensor dense = numbers.contiguous();
  static Site site;
  const KernelKey key{&site, {static_cast<uint64_t>(type)}};
  const Kernel& kernel = find_kernel(device, key, [&] {
    Defines defines = compute_defines(compute);
    define_grid(defines, device);
    defines.set("IN", dtype_name(type));
    if (c10::isIntegralType(type, true)) defines.set("INTEGERS", 1);
    return KernelSource{"check_range.cl", "check_range", defines};
  });
  const UnitGrid grid = unit_grid(device, count, 1);
  Arguments arguments(stream_of(dense), kernel);
  arguments.add(view(dense)).add(uint64_t{count}).add(grid.per_item);
  add_number(arguments, allowed.low, compute);
  add_number(arguments, allowed.high, compute);
  arguments.add(allowed.bound).add(FaultArgument{allowed.fault_site});
  arguments.enqueue(grid.global, grid.local);
}

}  // namespace ocl
