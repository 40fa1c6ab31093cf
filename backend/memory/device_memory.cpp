#include "backend/memory/device_memory.h"

#include <algorithm>

#include "backend/base/error.h"
#include "backend/base/failure_text.h"
#include "backend/base/system.h"
#include "backend/queue/stream.h"
#include "backend/queue/watchdog.h"

namespace ocl {

cl::Buffer DeviceMemory::create(size_t bytes) {
  // With ALLOC_HOST_PTR, maps copy nothing. The memory of GPUs is never mapped.
  const cl_mem_flags flags =
      CL_MEM_READ_WRITE | (device_.uses_host_memory() ? CL_MEM_ALLOC_HOST_PTR : cl_mem_flags{0});
  Result result{CL_SUCCESS, "clCreateBuffer"};
  cl::Buffer buffer(clCreateBuffer(device_.context()(), flags, bytes, nullptr, &result.code));
  if (result.code == CL_SUCCESS && device_.family() == KernelFamily::kGpu) {
    result = commit(buffer, bytes);
  }
  if (is_out_of_memory(result.code)) {
    refusal_ = failure_text(result.code, result.function);
    return {};
  }
  if (result.code != CL_SUCCESS) {
    raise(result.code, str("cannot allocate ", format_bytes(bytes), " on ", device_.label()),
          result.function);
  }
  advise_huge_pages(buffer, bytes);
  return buffer;
}

// Drivers of GPUs allocate the memory of a buffer at its first use, and fail there if it ran out
// (https://github.com/darktable-org/darktable/pull/21707,
// https://github.com/arrayfire/arrayfire/issues/2650). So use it now, on a queue of its own, which
// does not wait for the streams.
DeviceMemory::Result DeviceMemory::commit(const cl::Buffer& buffer, size_t bytes) {
  cl_int code = CL_SUCCESS;
  if (!queue_()) {
    queue_ =
        cl::CommandQueue(clCreateCommandQueue(device_.context()(), device_.handle()(), 0, &code));
    if (code != CL_SUCCESS) return {code, "clCreateCommandQueue"};
  }
  const cl_uchar zero = 0;
  cl_event enqueued = nullptr;
  code = clEnqueueFillBuffer(queue_(), buffer(), &zero, sizeof zero, 0, std::min<size_t>(bytes, 4),
                             0, nullptr, &enqueued);
  if (code != CL_SUCCESS) return {code, "clEnqueueFillBuffer"};
  const cl::Event event(enqueued);
  watchdog::watch(device_, event);
  code = clWaitForEvents(1, &event());
  if (code == CL_EXEC_STATUS_ERROR_FOR_EVENTS_IN_WAIT_LIST) {
    cl_int status = CL_SUCCESS;
    clGetEventInfo(event(), CL_EVENT_COMMAND_EXECUTION_STATUS, sizeof status, &status, nullptr);
    if (status < 0) return {status, "clEnqueueFillBuffer"};
  }
  return {code, "clWaitForEvents"};
}

std::optional<size_t> DeviceMemory::free_bytes() const {
  // AMD's extension comes first, because a GPU that shares the host's memory may have a part of it
  // for itself.
  size_t kibibytes[2] = {};  // total, largest block
  if (device_.has_extension("cl_amd_device_attribute_query") &&
      clGetDeviceInfo(device_.handle()(), CL_DEVICE_GLOBAL_FREE_MEMORY_AMD, sizeof kibibytes,
                      kibibytes, nullptr) == CL_SUCCESS) {
    return kibibytes[0] << 10;
  }
  if (device_.properties().host_unified_memory) return available_host_memory();
  return std::nullopt;
}

// A CPU device's memory is the process's own, so the process can ask for huge pages, where the
// system leaves the choice to programs. Kernels then have one page fault and one address
// translation per 2 MiB instead of 4 KiB.
void DeviceMemory::advise_huge_pages(const cl::Buffer& buffer, size_t bytes) {
  constexpr size_t kSmallest = size_t{4} << 20;
  if (!device_.uses_host_memory() || bytes < kSmallest) return;
  const cl_command_queue queue = current_stream(device_.index()).queue()();
  cl_int code = CL_SUCCESS;
  // Only the address is needed, so do not wait for the map.
  void* const start = clEnqueueMapBuffer(queue, buffer(), CL_FALSE, CL_MAP_READ, 0, bytes, 0,
                                         nullptr, nullptr, &code);
  if (code != CL_SUCCESS) return;
  prefer_huge_pages(start, bytes);
  clEnqueueUnmapMemObject(queue, buffer(), start, 0, nullptr, nullptr);
}

}  // namespace ocl
