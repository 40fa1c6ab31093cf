#include "backend/memory/interop.h"

#include <algorithm>
#include <array>
#include <map>
#include <memory>
#include <vector>

#include "backend/base/error.h"
#include "backend/base/unlocked_wait.h"
#include "backend/device/address_space.h"
#include "backend/queue/stream.h"
#include "backend/queue/watchdog.h"

namespace ocl {
namespace {

struct External {
  Segment segment;
  std::function<void()> release;
};

void delete_external(void* context) {
  if (in_bad_fork()) return;
  std::unique_ptr<External> external(static_cast<External*>(context));
  Segment& segment = external->segment;
  // OpenCL keeps a buffer alive until its commands have completed, but not host memory that it
  // wraps.
  if (external->release) wait_unlocked([&] { drain(segment.device->index()); });
  if (external->release && watchdog::is_stuck(*segment.device)) {
    return static_cast<void>(external.release());  // leaked, because the device may still use it
  }
  AddressSpace::instance().release(segment.address, segment.size);
  { const cl::Buffer released(std::move(segment.buffer)); }  // assigning throws if it fails
  if (external->release) external->release();
}

ExternalMemory wrap(Device& device, cl::Buffer buffer, size_t size, size_t offset,
                    std::function<void()> release) {
  auto external = std::make_unique<External>();
  Segment& segment = external->segment;
  segment.buffer = std::move(buffer);
  segment.device = &device;
  segment.size = size;
  segment.address = AddressSpace::instance().reserve(size, &segment);
  external->release = std::move(release);
  void* const address = reinterpret_cast<void*>(segment.address + offset);
  const c10::Device where(c10::DeviceType::PrivateUse1, device.index());
  return {{address, external.release(), &delete_external, where}, size - offset};
}

Device& device_of_context(cl_context context, const Device* wanted) {
  for (DeviceIndex index = 0; index < device_count(); ++index) {
    Device& found = device(index);
    if (wanted && wanted != &found) continue;
    if (found.has_context() && found.context()() == context) return found;
  }
  TORCH_CHECK_VALUE(false, "the buffer belongs to another OpenCL context than ",
                    wanted ? wanted->label() : "torch's",
                    ": make it in "
                    "torch.ocl.context(device), or give yours to torch.ocl.use_context() before "
                    "the device is first used");
}

void check_access(cl_mem_flags flags) {
  constexpr std::array kRefused{
      std::pair{CL_MEM_READ_ONLY, "CL_MEM_READ_ONLY"},
      std::pair{CL_MEM_WRITE_ONLY, "CL_MEM_WRITE_ONLY"},
      std::pair{CL_MEM_HOST_NO_ACCESS, "CL_MEM_HOST_NO_ACCESS"},
      std::pair{CL_MEM_HOST_READ_ONLY, "CL_MEM_HOST_READ_ONLY"},
      std::pair{CL_MEM_HOST_WRITE_ONLY, "CL_MEM_HOST_WRITE_ONLY"},
  };
  for (const auto& [flag, name] : kRefused) {
    TORCH_CHECK_VALUE(!(flags & flag), "a tensor cannot be made of a buffer with ", name,
                      ": torch reads and writes the memory of tensors, on the device and the host");
  }
}

// Whether the device writes directly to host memory that begins `offset` bytes after a page.
bool shares_host_memory(Device& device, size_t offset) {
  constexpr size_t kPage = 4096, kBytes = 4096;
  std::vector<unsigned char> memory(2 * kPage + kBytes, 1);
  const auto start = reinterpret_cast<uintptr_t>(memory.data());
  unsigned char* const data = memory.data() + (kPage - start % kPage) + offset;
  cl_int code = CL_SUCCESS;
  const cl::Buffer buffer(clCreateBuffer(
      device.context()(), CL_MEM_READ_WRITE | CL_MEM_USE_HOST_PTR, kBytes, data, &code));
  if (code != CL_SUCCESS) return false;
  Stream& stream = current_stream(device.index());
  const cl_int two = 0x02020202;
  code = stream.enqueue([&](cl_command_queue queue) {
    return clEnqueueFillBuffer(queue, buffer(), &two, sizeof(two), 0, kBytes, 0, nullptr, nullptr);
  });
  stream.drain();
  return code == CL_SUCCESS && std::all_of(data, data + kBytes, [](auto x) { return x == 2; });
}

}  // namespace

ExternalMemory wrap_buffer(Device* wanted, cl_mem handle, size_t offset,
                           std::function<void()> release) {
  return translated(
      [] { return std::string("the buffer cannot be used"); },
      [&]() -> ExternalMemory {
        cl::Buffer buffer(handle, /*retainObject=*/true);
        TORCH_CHECK_VALUE(buffer.getInfo<CL_MEM_TYPE>() == CL_MEM_OBJECT_BUFFER,
                          "a tensor can be made of a buffer, not of an image or a pipe");
        check_access(buffer.getInfo<CL_MEM_FLAGS>());
        const auto context = borrowed<cl_context>(clGetMemObjectInfo, buffer(), CL_MEM_CONTEXT,
                                                  "clGetMemObjectInfo");
        Device& device = device_of_context(context, wanted);
        size_t size = buffer.getInfo<CL_MEM_SIZE>();
        TORCH_CHECK_VALUE(offset <= size, "the offset of ", offset, " bytes is beyond the ", size,
                          " bytes of the buffer");
        const size_t bytes = size - offset;
        // Uses the whole buffer of a sub-buffer: compile_kernel() makes sub-buffers, and OpenCL
        // does not make sub-buffers of sub-buffers.
        if (const auto associated = borrowed<cl_mem>(
                clGetMemObjectInfo, buffer(), CL_MEM_ASSOCIATED_MEMOBJECT, "clGetMemObjectInfo")) {
          offset += buffer.getInfo<CL_MEM_OFFSET>();
          cl::Buffer whole(associated, /*retainObject=*/true);
          size = whole.getInfo<CL_MEM_SIZE>();
          buffer = std::move(whole);
        }
        ExternalMemory memory = wrap(device, std::move(buffer), size, offset, std::move(release));
        memory.bytes = bytes;
        return memory;
      });
}

ExternalMemory wrap_host(Device& device, void* data, size_t bytes, std::function<void()> release) {
  const size_t alignment = host_alignment(device);
  TORCH_CHECK_VALUE(alignment > 0, device.label(),
                    " cannot use the host's memory in place: copy with Tensor.to()");
  TORCH_CHECK_VALUE(reinterpret_cast<uintptr_t>(data) % alignment == 0, device.label(),
                    " can use host memory in place that begins at a multiple of ", alignment,
                    " bytes, not at ", data, ": copy with Tensor.to()");
  cl_int code = CL_SUCCESS;
  cl::Buffer buffer(clCreateBuffer(device.context()(), CL_MEM_READ_WRITE | CL_MEM_USE_HOST_PTR,
                                   bytes, data, &code));
  if (code != CL_SUCCESS) {
    raise(code, str("cannot use ", format_bytes(bytes), " of host memory on ", device.label()),
          "clCreateBuffer");
  }
  // Releases the memory with the buffer, not with the last tensor: a driver's kernels may keep the
  // buffers of their last launch.
  auto kept = std::make_unique<std::function<void()>>(std::move(release));
  code = clSetMemObjectDestructorCallback(
      buffer(),
      [](cl_mem, void* data) {
        const std::unique_ptr<std::function<void()>> last(
            static_cast<std::function<void()>*>(data));
        (*last)();
      },
      kept.get());
  if (code != CL_SUCCESS)
    raise(code, "cannot register the release of host memory", "clSetMemObjectDestructorCallback");
  kept.release();
  // With a release function, even an empty one, the end of the memory waits for the device.
  return wrap(device, std::move(buffer), bytes, 0, [] {});
}

size_t host_alignment(Device& device) {
  static std::mutex mutex;
  static auto* const found = new std::map<DeviceIndex, size_t>;
  std::lock_guard lock(mutex);
  const auto known = found->find(device.index());
  if (known != found->end()) return known->second;
  size_t alignment = 0;
  // On a GPU a trial would prove nothing: its driver may let fills through and give kernels a copy
  // (https://github.com/ProjectPhysX/FluidX3D/issues/351).
  if (device.uses_host_memory() && !device.has(Quirk::kCopiesHostMemory)) {
    for (const size_t tried : {size_t{16}, size_t{64}, size_t{4096}}) {
      if (!shares_host_memory(device, tried)) continue;
      alignment = tried;
      break;
    }
  }
  return (*found)[device.index()] = alignment;
}

}  // namespace ocl
