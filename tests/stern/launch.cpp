// Kernels: their arguments, the limits of a launch, and the launch.
#include "tests/stern/launch.h"

#include <algorithm>
#include <cstring>

#include "tests/stern/entry_points.h"
#include "tests/stern/profile.h"
#include "tests/stern/queries.h"
#include "tests/stern/report.h"
#include "tests/stern/scheduler.h"

namespace stern {
namespace {

struct Launch {
  cl_uint dimensions = 0;
  size_t offset[3] = {}, global[3] = {1, 1, 1}, local[3] = {1, 1, 1};

  size_t items() const { return global[0] * global[1] * global[2]; }
  size_t group() const { return local[0] * local[1] * local[2]; }
};

// PoCL does not report how many registers a kernel needs, so the kernel's name decides, the same in
// every run: 16 to 43 words for a work-item of most kernels, 49 to 255 for each eighth.
size_t limit_of_groups(const std::string& name, const size_t* required) {
  const Profile& p = profile();
  const bool fits = p.required_groups_fit && required[0] * required[1] * required[2] != 0;
  if (!p.register_words || fits) return p.group_size;
  uint64_t hash = 0xCBF29CE484222325ull;
  for (const char c : name) hash = (hash ^ static_cast<unsigned char>(c)) * 0x100000001B3ull;
  hash = ((hash ^ hash >> 32) * 0x9E3779B97F4A7C15ull) >> 56;
  const uint64_t words = hash < 224 ? 16 + hash / 8 : 49 + (hash - 224) * 206 / 31;
  const uint64_t items = p.register_words / words;
  const size_t rounded = items / p.group_multiple * p.group_multiple;
  return std::clamp<size_t>(rounded, 1, p.group_size);
}

cl_kernel add_kernel(cl_program program, cl_kernel handle, cl_int* code) {
  char name[256] = "";
  next->clGetKernelInfo(handle, CL_KERNEL_FUNCTION_NAME, sizeof name, name, nullptr);
  const auto kernel = std::make_shared<Kernel>(handle, program);
  kernel->runner = next->clCreateKernel(program, name, code);
  if (!kernel->runner) return nullptr;
  kernel->name = name;
  cl_uint arguments = 0;
  next->clGetKernelInfo(handle, CL_KERNEL_NUM_ARGS, sizeof arguments, &arguments, nullptr);
  kernel->arguments.resize(arguments);
  cl_device_id device = nullptr;
  next->clGetProgramInfo(program, CL_PROGRAM_DEVICES, sizeof device, &device, nullptr);
  next->clGetKernelWorkGroupInfo(handle, device, CL_KERNEL_COMPILE_WORK_GROUP_SIZE,
                                 sizeof kernel->required_group, kernel->required_group, nullptr);
  kernel->group_limit = limit_of_groups(kernel->name, kernel->required_group);
  kernels().add(handle, kernel);
  return handle;
}

std::string sizes(const size_t* three) {
  return std::to_string(three[0]) + "x" + std::to_string(three[1]) + "x" + std::to_string(three[2]);
}

cl_int read_launch(Kernel& kernel, cl_uint dimensions, const size_t* offset, const size_t* global,
                   const size_t* local, Launch& launch) {
  if (dimensions < 1 || dimensions > 3) return CL_INVALID_WORK_DIMENSION;
  launch.dimensions = dimensions;
  if (!global) return CL_INVALID_GLOBAL_WORK_SIZE;
  std::copy_n(global, dimensions, launch.global);
  if (offset) std::copy_n(offset, dimensions, launch.offset);
  const bool required = kernel.required_group[0];
  if (local) {
    std::copy_n(local, dimensions, launch.local);
  } else if (required) {
    std::copy_n(kernel.required_group, 3, launch.local);
  } else {
    launch.local[0] = std::min(kernel.group_limit, std::max<size_t>(1, launch.global[0]));
    while (launch.global[0] % launch.local[0]) --launch.local[0];
  }
  if (required && !std::equal(launch.local, launch.local + 3, kernel.required_group)) {
    return refuse(CL_INVALID_WORK_GROUP_SIZE, kernel.name + ": groups of " + sizes(launch.local) +
                                                  " where it requires " +
                                                  sizes(kernel.required_group));
  }
  return CL_SUCCESS;
}

cl_int check_sizes(const Kernel& kernel, const Launch& launch) {
  const Profile& p = profile();
  const auto no = [&](cl_int code, const std::string& text) {
    return refuse(code, kernel.name + ", " + sizes(launch.global) + " in groups of " +
                            sizes(launch.local) + ": " + text);
  };
  for (cl_uint i = 0; i < 3; ++i) {
    const size_t global = launch.global[i], local = launch.local[i];
    if (!global) return no(CL_INVALID_GLOBAL_WORK_SIZE, "no work-items");
    if (!local || global % local) return no(CL_INVALID_WORK_GROUP_SIZE, "no whole groups");
    if (local > p.item_sizes[i]) {
      return no(CL_INVALID_WORK_ITEM_SIZE, "work-items beyond " + std::to_string(p.item_sizes[i]));
    }
    if (global / local > p.grid[i]) {
      return no(
          i ? CL_INVALID_WORK_GROUP_SIZE : CL_INVALID_GLOBAL_WORK_SIZE,
          "groups in dimension " + std::to_string(i) + " beyond " + std::to_string(p.grid[i]));
    }
  }
  if (launch.global[0] > p.global_limit_x) {
    return no(CL_INVALID_GLOBAL_WORK_SIZE,
              "work-items in x beyond " + std::to_string(p.global_limit_x));
  }
  if (launch.group() > kernel.group_limit) {
    return no(CL_INVALID_WORK_GROUP_SIZE,
              "groups beyond this kernel's " + std::to_string(kernel.group_limit));
  }
  return CL_SUCCESS;
}

// `arguments` is a copy of the kernel's.
cl_int check_arguments(const Kernel& kernel, const std::vector<KernelArgument>& arguments) {
  size_t bytes = 0;
  for (size_t i = 0; i < arguments.size(); ++i) {
    const KernelArgument& each = arguments[i];
    if (!each.set) {
      return refuse(CL_INVALID_KERNEL_ARGS,
                    kernel.name + ": argument " + std::to_string(i) + " is not set");
    }
    if (each.is_buffer && each.buffer.expired()) {
      return refuse(CL_INVALID_KERNEL_ARGS, kernel.name + ": the buffer of argument " +
                                                std::to_string(i) + " was released");
    }
    bytes += each.value.empty() ? sizeof(cl_uint) : each.size;
  }
  if (bytes > profile().argument_bytes) {
    return refuse(CL_OUT_OF_RESOURCES, kernel.name + ": " + std::to_string(bytes) +
                                           " bytes of arguments, of at most " +
                                           std::to_string(profile().argument_bytes));
  }
  cl_device_id device = nullptr;
  cl_context context = nullptr;
  next->clGetKernelInfo(kernel.handle, CL_KERNEL_CONTEXT, sizeof context, &context, nullptr);
  next->clGetContextInfo(context, CL_CONTEXT_DEVICES, sizeof device, &device, nullptr);
  cl_ulong local = 0;  // bytes for the kernel itself and for its arguments
  next->clGetKernelWorkGroupInfo(kernel.handle, device, CL_KERNEL_LOCAL_MEM_SIZE, sizeof local,
                                 &local, nullptr);
  if (local > profile().local_memory) {
    return refuse(CL_OUT_OF_RESOURCES, kernel.name + ": " + std::to_string(local) +
                                           " bytes of local memory, of at most " +
                                           std::to_string(profile().local_memory));
  }
  return CL_SUCCESS;
}

cl_int run(cl_command_queue queue, Kernel& kernel, const std::vector<KernelArgument>& arguments,
           const Launch& launch) {
  // Two commands may set the same runner's arguments. And PoCL, which compiles and loads a kernel
  // when it is enqueued, breaks when two queues do so at once.
  static auto* const mutex = new std::mutex;
  std::lock_guard lock(*mutex);
  for (cl_uint i = 0; i < arguments.size(); ++i) {
    const KernelArgument& each = arguments[i];
    const cl_int code = next->clSetKernelArg(kernel.runner, i, each.size,
                                             each.value.empty() ? nullptr : each.value.data());
    if (code != CL_SUCCESS) return code;
  }
  return next->clEnqueueNDRangeKernel(queue, kernel.runner, launch.dimensions, launch.offset,
                                      launch.global, launch.local, 0, nullptr, nullptr);
}

}  // namespace

Kernel::~Kernel() {
  if (runner) next->clReleaseKernel(runner);
}

cl_kernel clCreateKernel(cl_program program, const char* name, cl_int* code_ret) {
  cl_int ignored;
  cl_int* const code = code_ret ? code_ret : &ignored;
  const cl_kernel handle = next->clCreateKernel(program, name, code);
  return handle ? add_kernel(program, handle, code) : nullptr;
}

cl_int clCreateKernelsInProgram(cl_program program, cl_uint entries, cl_kernel* list,
                                cl_uint* count_ret) {
  cl_uint count = 0;
  const cl_int code = next->clCreateKernelsInProgram(program, entries, list, &count);
  if (count_ret) *count_ret = count;
  cl_int added = CL_SUCCESS;
  for (cl_uint i = 0; code == CL_SUCCESS && list && i < std::min(entries, count); ++i) {
    add_kernel(program, list[i], &added);
  }
  return code == CL_SUCCESS ? added : code;
}

cl_int clSetKernelArg(cl_kernel handle, cl_uint index, size_t size, const void* value) {
  const auto kernel = kernels().find(handle);
  if (!kernel) return refuse(CL_INVALID_KERNEL, "clSetKernelArg: no such kernel");
  const cl_int code = next->clSetKernelArg(handle, index, size, value);
  if (code != CL_SUCCESS) return code;
  std::lock_guard lock(kernel->mutex);
  KernelArgument& argument = kernel->arguments[index];
  argument = {.size = size, .value = {}, .buffer = {}, .set = true, .is_buffer = false};
  if (!value) return CL_SUCCESS;
  const char* bytes = static_cast<const char*>(value);
  argument.value.assign(bytes, bytes + size);
  if (size != sizeof(cl_mem)) return CL_SUCCESS;
  cl_mem memory;
  std::memcpy(&memory, value, sizeof memory);
  if (const auto buffer = buffers().find(memory)) {
    argument.buffer = buffer;
    argument.is_buffer = true;
  }
  return CL_SUCCESS;
}

cl_int clGetKernelWorkGroupInfo(cl_kernel handle, cl_device_id device,
                                cl_kernel_work_group_info what, size_t size, void* value,
                                size_t* size_ret) {
  const auto kernel = kernels().find(handle);
  if (!kernel) return CL_INVALID_KERNEL;
  if (profile().failing.contains(what)) return CL_INVALID_VALUE;
  if (what == CL_KERNEL_WORK_GROUP_SIZE) {
    return give(kernel->group_limit, size, value, size_ret);
  }
  if (what == CL_KERNEL_PREFERRED_WORK_GROUP_SIZE_MULTIPLE) {
    return give(profile().group_multiple, size, value, size_ret);
  }
  return next->clGetKernelWorkGroupInfo(handle, real_device(device), what, size, value, size_ret);
}

cl_int clEnqueueNDRangeKernel(cl_command_queue queue, cl_kernel handle, cl_uint dimensions,
                              const size_t* offset, const size_t* global, const size_t* local,
                              cl_uint count, const cl_event* waits, cl_event* event) {
  const auto kernel = kernels().find(handle);
  if (!kernel) return refuse(CL_INVALID_KERNEL, "clEnqueueNDRangeKernel: no such kernel");
  Launch launch;
  cl_int code = read_launch(*kernel, dimensions, offset, global, local, launch);
  if (code == CL_SUCCESS) code = check_sizes(*kernel, launch);
  if (code != CL_SUCCESS) return code;
  std::vector<KernelArgument> arguments;
  {
    std::lock_guard lock(kernel->mutex);
    arguments = kernel->arguments;
  }
  code = check_arguments(*kernel, arguments);
  if (code != CL_SUCCESS) return code;
  Command command{CL_COMMAND_NDRANGE_KERNEL, {}, {}, "the kernel " + kernel->name, {}, {}};
  size_t bytes = 0;
  for (const KernelArgument& each : arguments) {
    // Whether a kernel writes is not known.
    if (const auto buffer = each.buffer.lock()) {
      command.uses.push_back({buffer, false});
      bytes += buffer->size;
    }
  }
  lint(kernel->name, launch.items(), launch.group(), bytes);
  command.run = [kernel, arguments = std::move(arguments), launch](cl_command_queue real) {
    return run(real, *kernel, arguments, launch);
  };
  return enqueue(queue, std::move(command), count, waits, event);
}

cl_int clEnqueueTask(cl_command_queue queue, cl_kernel kernel, cl_uint count, const cl_event* waits,
                     cl_event* event) {
  const size_t one = 1;
  return stern::clEnqueueNDRangeKernel(queue, kernel, 1, nullptr, &one, &one, count, waits, event);
}

}  // namespace stern
