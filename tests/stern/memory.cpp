// Buffers: their limits, their lazy memory, and what maps of them give to the program.
#include <sys/mman.h>
#include <unistd.h>

#include <algorithm>
#include <cstring>
#include <deque>
#include <vector>

#include "tests/stern/entry_points.h"
#include "tests/stern/objects.h"
#include "tests/stern/profile.h"
#include "tests/stern/queries.h"

namespace stern {
namespace {

constexpr unsigned char kFresh = 0xCD, kInvalidated = 0xBA, kGuard = 0xFD;
constexpr size_t kGuardBytes = 64;
constexpr size_t kQuarantine = 64;  // regions of ended maps that stay inaccessible

std::atomic<uint64_t> in_use{0};
std::atomic<size_t> mappings_alive{0};

struct Region {
  void* start;
  size_t size;
};

// Keeps the addresses of an ended map from being used again soon.
void quarantine(Region region) {
  static auto* const mutex = new std::mutex;
  static auto* const regions = new std::deque<Region>;
  mprotect(region.start, region.size, PROT_NONE);
  madvise(region.start, region.size, MADV_DONTNEED);
  std::lock_guard lock(*mutex);
  regions->push_back(region);
  if (regions->size() <= kQuarantine) return;
  munmap(regions->front().start, regions->front().size);
  regions->pop_front();
}

// A queue of the layer's own for a context, to fill fresh memory.
cl_int fill_fresh(Buffer& buffer) {
  cl_device_id device = nullptr;
  next->clGetContextInfo(buffer.context, CL_CONTEXT_DEVICES, sizeof device, &device, nullptr);
  cl_int code = CL_SUCCESS;
  const cl_command_queue queue = next->clCreateCommandQueue(buffer.context, device, 0, &code);
  if (!queue) return code;
  code = next->clEnqueueFillBuffer(queue, buffer.handle, &kFresh, 1, 0, buffer.size, 0, nullptr,
                                   nullptr);
  next->clFinish(queue);
  next->clReleaseCommandQueue(queue);
  return code;
}

cl_int check_new(cl_context context, cl_mem_flags flags, size_t size, const void* host) {
  const Profile& p = profile();
  if (!contexts().find(context)) return CL_INVALID_CONTEXT;
  if (!size) return CL_INVALID_BUFFER_SIZE;
  const uint64_t most = p.beyond_max_allocation ? p.free_memory : p.max_allocation;
  if (size > most) {
    return refuse(CL_INVALID_BUFFER_SIZE, "a buffer of " + std::to_string(size) +
                                              " bytes, where a device grants " +
                                              std::to_string(most));
  }
  const bool wants_host = flags & (CL_MEM_USE_HOST_PTR | CL_MEM_COPY_HOST_PTR);
  return wants_host == (host != nullptr) ? CL_SUCCESS : CL_INVALID_HOST_PTR;
}

}  // namespace

Mapping::Mapping(size_t offset, size_t size, cl_map_flags flags)
    : offset(offset), size(size), flags(flags) {
  ++mappings_alive;
  const size_t page = sysconf(_SC_PAGESIZE);
  // The address is as far from a multiple of 64 as the offset in the buffer.
  const size_t before = kGuardBytes + offset % 64;
  region_size_ = (before + size + kGuardBytes + page - 1) / page * page;
  region_ = static_cast<char*>(
      mmap(nullptr, region_size_, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0));
  if (region_ == MAP_FAILED) {
    region_ = nullptr;
    return;
  }
  pointer = region_ + before;
  std::memset(pointer - kGuardBytes, kGuard, kGuardBytes);
  std::memset(pointer, kInvalidated, size);
  std::memset(pointer + size, kGuard, kGuardBytes);
}

Mapping::~Mapping() {
  poison();
  --mappings_alive;
}

size_t Mapping::alive() { return mappings_alive; }

bool Mapping::guards_intact() const {
  const auto intact = [](const char* guard) {
    return std::all_of(guard, guard + kGuardBytes,
                       [](char byte) { return static_cast<unsigned char>(byte) == kGuard; });
  };
  return intact(pointer - kGuardBytes) && intact(pointer + size);
}

void Mapping::poison() {
  if (region_) quarantine({region_, region_size_});
  region_ = nullptr;
}

Buffer::~Buffer() {
  if (resident && on_device()) in_use -= size;
}

uint64_t memory_in_use() { return in_use; }

cl_int make_resident(Buffer& buffer) {
  std::lock_guard lock(buffer.mutex);
  if (buffer.resident) return CL_SUCCESS;
  if (buffer.on_device()) {
    const uint64_t before = in_use.fetch_add(buffer.size);
    if (before + buffer.size > profile().free_memory) {
      in_use -= buffer.size;
      return refuse(CL_MEM_OBJECT_ALLOCATION_FAILURE,
                    "no memory for a buffer of " + std::to_string(buffer.size) +
                        " bytes: " + std::to_string(before) + " of " +
                        std::to_string(profile().free_memory) + " are in use");
    }
  }
  buffer.resident = true;
  const bool filled = buffer.flags & (CL_MEM_USE_HOST_PTR | CL_MEM_COPY_HOST_PTR);
  return filled ? CL_SUCCESS : fill_fresh(buffer);
}

cl_mem clCreateBuffer(cl_context context, cl_mem_flags flags, size_t size, void* host,
                      cl_int* code_ret) {
  cl_int ignored;
  cl_int& code = code_ret ? *code_ret : ignored;
  code = check_new(context, flags, size, host);
  if (code != CL_SUCCESS) return nullptr;
  // The device has its own copy of the host's memory, which maps bring up to date.
  cl_mem_flags real = flags;
  if (flags & CL_MEM_USE_HOST_PTR) {
    real = (flags & ~cl_mem_flags{CL_MEM_USE_HOST_PTR}) | CL_MEM_COPY_HOST_PTR;
  }
  const cl_mem handle = next->clCreateBuffer(context, real, size, host, &code);
  if (!handle) return nullptr;
  const auto buffer = std::make_shared<Buffer>(handle);
  buffer->context = context;
  buffer->kept = Keep<Context>(context);
  buffer->size = size;
  buffer->flags = flags;
  buffer->host_pointer = flags & CL_MEM_USE_HOST_PTR ? host : nullptr;
  if (!profile().lazy_allocation || host) code = make_resident(*buffer);
  if (code != CL_SUCCESS) return nullptr;
  buffers().add(handle, buffer);
  return handle;
}

cl_mem clCreateBufferWithProperties(cl_context context, const cl_mem_properties* properties,
                                    cl_mem_flags flags, size_t size, void* host, cl_int* code) {
  if (profile().runtime_version >= 300 && (!properties || !*properties)) {
    return stern::clCreateBuffer(context, flags, size, host, code);
  }
  if (code) *code = profile().runtime_version < 300 ? CL_INVALID_OPERATION : CL_INVALID_PROPERTY;
  return nullptr;
}

cl_mem clCreateSubBuffer(cl_mem whole, cl_mem_flags flags, cl_buffer_create_type type,
                         const void* info, cl_int* code_ret) {
  cl_int ignored;
  cl_int& code = code_ret ? *code_ret : ignored;
  const auto parent = buffers().find(whole);
  const auto region = static_cast<const cl_buffer_region*>(info);
  code = !parent || parent->parent ? CL_INVALID_MEM_OBJECT : CL_SUCCESS;
  if (code == CL_SUCCESS && (type != CL_BUFFER_CREATE_TYPE_REGION || !region)) {
    code = CL_INVALID_VALUE;
  }
  if (code != CL_SUCCESS) return nullptr;
  if (const size_t alignment = profile().base_alignment; region->origin % alignment != 0) {
    code = refuse(CL_MISALIGNED_SUB_BUFFER_OFFSET,
                  "a sub-buffer from byte " + std::to_string(region->origin) +
                      ", which is no multiple of " + std::to_string(alignment));
    return nullptr;
  }
  const cl_mem handle = next->clCreateSubBuffer(whole, flags, type, info, &code);
  if (!handle) return nullptr;
  const auto part = std::make_shared<Buffer>(handle);
  part->context = parent->context;
  part->kept = Keep<Context>(part->context);
  part->parent = parent;
  part->origin = region->origin;
  part->size = region->size;
  part->flags = parent->flags;
  if (parent->host_pointer) {
    part->host_pointer = static_cast<char*>(parent->host_pointer) + region->origin;
  }
  buffers().add(handle, part);
  return handle;
}

cl_int clGetMemObjectInfo(cl_mem handle, cl_mem_info what, size_t size, void* value,
                          size_t* size_ret) {
  const auto buffer = buffers().find(handle);
  if (!buffer) return CL_INVALID_MEM_OBJECT;
  if (what == CL_MEM_HOST_PTR) return give(buffer->host_pointer, size, value, size_ret);
  if (what == CL_MEM_FLAGS && !buffer->parent) return give(buffer->flags, size, value, size_ret);
  if (what == CL_MEM_MAP_COUNT) {
    std::lock_guard lock(buffer->root().mutex);
    return give(cl_uint(buffer->root().mappings.size()), size, value, size_ret);
  }
  return next->clGetMemObjectInfo(handle, what, size, value, size_ret);
}

}  // namespace stern
