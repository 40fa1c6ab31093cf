#include "kernels/inductor/generated_kernel.h"

#include <ATen/ceil_div.h>

#include <algorithm>
#include <utility>

#include "kernels/core/grids/grid.h"
#include "kernels/core/operators/check_range.h"

namespace ocl {
namespace {

struct Generated {
  const KernelSource* text;

  KernelSource source(Device&) const { return *text; }
};

std::pair<Range, Range> geometry(const Device& device, const Kernel& kernel, char shape,
                                 size_t local_size, size_t units, size_t cost) {
  if (shape == 't') {
    const DeviceParameters& parameters = device.parameters();
    const size_t wanted = std::clamp<size_t>(cost / parameters.grain, 1, parameters.tasks);
    return {{std::min(wanted, units)}, {1}};
  }
  const size_t local = std::min(local_size, kernel.group);
  if (shape == 'g') return {{units * local}, {local}};
  return {{at::round_up(units, local)}, {local}};
}

}  // namespace

GeneratedKernel::GeneratedKernel(std::string name, std::string file, std::string signature,
                                 char shape, size_t local_size)
    : source_(new KernelSource{std::move(file), std::move(name), {}}),
      signature_(std::move(signature)),
      arguments_(signature_.size() - std::count(signature_.begin(), signature_.end(), 'f')),
      local_size_(local_size),
      fault_(0),
      shape_(shape) {
  if (arguments_ != signature_.size()) {
    fault_ = fault_site({source_->kernel, FaultClass::kIndex, "index", "dimension of size"});
  }
}

void GeneratedKernel::launch(const OclArgument* arguments, int64_t units, int64_t cost) const {
  if (units <= 0) return;
  Device& device = resolve(arguments[0].address).device();
  Stream& stream = current_stream(device.index());
  const Kernel& kernel = find_kernel(device, Generated{source_});
  Arguments bound(stream, kernel);
  int fault = fault_;
  for (const char kind : signature_) {
    if (kind == 'f') {
      bound.add(FaultArgument{std::exchange(fault, zero_division_site())});
      continue;
    }
    const OclArgument& argument = *arguments++;
    if (kind == 'b') {
      bound.add(resolve(argument.address));
    } else if (kind == 'l') {
      bound.add(argument.integer);
    } else if (kind == 'd') {
      bound.add(argument.real);
    } else {
      bound.add(static_cast<float>(argument.real));
    }
  }
  const auto [global, local] = geometry(device, kernel, shape_, local_size_, units, cost);
  bound.enqueue(global, local);
}

}  // namespace ocl
