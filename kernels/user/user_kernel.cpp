#include "kernels/user/user_kernel.h"

#include <ATen/ops/empty.h>
#include <c10/core/DeviceGuard.h>
#include <c10/util/safe_numerics.h>

#include <algorithm>

#include "backend/base/error.h"
#include "kernels/user/user_arguments.h"

namespace ocl {
namespace {

Range range_of(const std::vector<int64_t>& sizes, const std::string& kernel, const char* name) {
  TORCH_CHECK_VALUE(!sizes.empty() && sizes.size() <= 3, kernel, "(): ", name,
                    " has 1 to 3 dimensions, not ", sizes.size());
  std::array<size_t, 3> range{1, 1, 1};
  for (size_t i = 0; i < sizes.size(); ++i) {
    TORCH_CHECK_VALUE(sizes[i] >= 0, kernel, "(): ", name, "=", c10::IntArrayRef(sizes),
                      " has a negative size");
    range[i] = static_cast<size_t>(sizes[i]);
  }
  uint64_t product = 0;
  TORCH_CHECK_VALUE(!c10::safe_multiplies_u64(range, &product), kernel, "(): ", name, "=",
                    c10::IntArrayRef(sizes), " is more than 2^64 work-items in all");
  return {range[0], range[1], range[2]};
}

// The largest work-group that divides the number of threads, up to a suitable size for the device.
Range default_group(const Device& device, const Range& threads, size_t max_size) {
  const size_t wanted = device.properties().type == "cpu" ? 64 : 256;
  size_t size = std::min({wanted, max_size, threads.x});
  while (threads.x % size) --size;
  return {size, 1, 1};
}

Range group_of(const Device& device, const KernelSignature& kernel, const KernelRange& given,
               const Range& threads, size_t max_size) {
  const auto& required = kernel.group_size;
  const Range must{required[0], required[1], required[2]};
  if (!given.group_size) {
    return required[0] ? must : default_group(device, threads, max_size);
  }
  const Range group = range_of(*given.group_size, kernel.name, "group_size");
  TORCH_CHECK_VALUE(group.x && group.y && group.z, kernel.name,
                    "(): group_size=", c10::IntArrayRef(*given.group_size), " has a size of 0");
  TORCH_CHECK_VALUE(group.x * group.y * group.z <= max_size, kernel.name,
                    "(): group_size=", c10::IntArrayRef(*given.group_size), " is larger than the ",
                    max_size, " work-items that the kernel can have in a group on ",
                    device.label());
  TORCH_CHECK_VALUE(!required[0] || (group.x == must.x && group.y == must.y && group.z == must.z),
                    kernel.name, "(): group_size=", c10::IntArrayRef(*given.group_size),
                    ", but the kernel is written for (", must.x, ", ", must.y, ", ", must.z,
                    ") (reqd_work_group_size)");
  return group;
}

struct Compiled {
  std::mutex mutex;  // a kernel object holds the arguments of one launch at a time
  Kernel kernel;
  size_t max_group_size = 1;
};

// The kernel object of a program's kernel, shared by all libraries. Leaked, like all kernels,
// because traces and last_kernel() point to the name.
Compiled& compiled(const Device& device, const Program& program, const std::string& name) {
  static std::mutex mutex;
  static auto* const all = new std::map<std::pair<const Program*, std::string>, Compiled*>;
  std::lock_guard lock(mutex);
  Compiled*& found = (*all)[{&program, name}];
  if (found) return *found;
  cl_int code = CL_SUCCESS;
  const cl_kernel handle = clCreateKernel(program.handle(), name.c_str(), &code);
  if (code != CL_SUCCESS) raise(code, str("cannot create the kernel ", name), "clCreateKernel");
  found = new Compiled;
  found->kernel.whole_grid = true;
  found->kernel.handle = handle;
  found->kernel.program = &program;
  found->kernel.name = name;
  clGetKernelWorkGroupInfo(handle, device.handle()(), CL_KERNEL_WORK_GROUP_SIZE,
                           sizeof(found->max_group_size), &found->max_group_size, nullptr);
  return *found;
}

}  // namespace

const UserProgram& UserLibrary::program(Device& device) {
  std::lock_guard lock(mutex_);
  auto found = programs_.find(device.index());
  if (found == programs_.end()) {
    found = programs_.emplace(device.index(), user_program(device, source_, options_)).first;
  }
  return found->second;
}

size_t UserLibrary::size_of(Device& device, const std::string& type) {
  {
    std::lock_guard lock(mutex_);
    const auto found = sizes_.find({device.index(), type});
    if (found != sizes_.end()) return found->second;
  }
  // Only the compiler knows the size, so this builds a program that returns it.
  UserLibrary asking(source_ +
                         "\n__kernel void torch_ocl_size_of(__global long* size) { *size = "
                         "sizeof(" +
                         type + "); }\n",
                     options_);
  const at::Tensor size = at::empty({1}, at::TensorOptions().dtype(at::kLong).device(c10::Device(
                                             c10::DeviceType::PrivateUse1, device.index())));
  asking.call("torch_ocl_size_of", {size}, {});
  const auto found = static_cast<size_t>(size.item<int64_t>());
  std::lock_guard lock(mutex_);
  return sizes_[{device.index(), type}] = found;
}

// Checks the sizes of struct arguments; OpenCL lets drivers ignore a wrong size.
void UserLibrary::check_structs(Device& device, const UserArguments& arguments,
                                const KernelSignature& signature,
                                const std::vector<KernelValue>& values) {
  for (size_t i = 0; i < values.size(); ++i) {
    const auto* bytes = std::get_if<std::string>(&values[i]);
    if (!bytes) continue;
    const size_t size = size_of(device, signature.arguments[i].type);
    TORCH_CHECK_VALUE(bytes->size() == size, arguments.what(i), " takes ", size, " bytes, got ",
                      bytes->size());
  }
}

void UserLibrary::call(const std::string& kernel, const std::vector<KernelValue>& values,
                       const KernelRange& range) {
  // The device of the first ocl tensor; without one, the current device.
  DeviceIndex index = current_device();
  for (const KernelValue& value : values) {
    const auto* tensor = std::get_if<at::Tensor>(&value);
    if (!tensor || tensor->device().type() != c10::DeviceType::PrivateUse1) continue;
    index = static_cast<DeviceIndex>(tensor->get_device());
    break;
  }
  Device& device = ocl::device(index);
  const c10::DeviceGuard guard({c10::DeviceType::PrivateUse1, index});
  const auto& signatures = kernels(device);
  const auto signature = std::find_if(signatures.begin(), signatures.end(),
                                      [&](const auto& each) { return each.name == kernel; });
  TORCH_CHECK_VALUE(signature != signatures.end(), "the program has no kernel ", kernel);

  UserArguments arguments(*signature, values, range.strided);
  check_structs(device, arguments, *signature, values);
  const std::optional<int64_t> numel = arguments.first_numel();
  TORCH_CHECK_TYPE(range.threads || numel, kernel,
                   "() has no tensor whose elements could be counted: give threads=...");
  const Range threads =
      range_of(range.threads ? *range.threads : std::vector{*numel}, kernel, "threads");
  Compiled& found = compiled(device, *program(device).program, kernel);
  const Range group =
      group_of(device, *signature, range, {std::max<size_t>(threads.x, 1), threads.y, threads.z},
               found.max_group_size);
  TORCH_CHECK_VALUE(
      threads.x % group.x == 0 && threads.y % group.y == 0 && threads.z % group.z == 0, kernel,
      "(): threads (", threads.x, ", ", threads.y, ", ", threads.z,
      ") must be multiples of the group size (", group.x, ", ", group.y, ", ", group.z,
      "): round them up, and let the kernel return beyond the end");
  if (threads.x * threads.y * threads.z == 0) return;

  Stream& stream = current_stream(index);
  {
    std::lock_guard lock(found.mutex);
    Arguments bound(stream, found.kernel);
    arguments.bind(stream, bound);
    bound.enqueue(threads, group);
  }
  arguments.launched(stream);
}

}  // namespace ocl
