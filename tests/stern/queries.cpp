// Platforms and devices: what they answer, and which are shown.
#include "tests/stern/queries.h"

#include <CL/cl_ext.h>

#include <algorithm>
#include <chrono>
#include <cstring>
#include <sstream>
#include <stdexcept>

#include "tests/stern/entry_points.h"
#include "tests/stern/objects.h"
#include "tests/stern/profile.h"

namespace stern {
namespace {

// clang-format off
constexpr Query kQueries[] = {
#define X(name, kind) {#name, CL_##name, Kind::kind},
#define VECTOR_WIDTHS(X, which) \
  X(DEVICE_##which##_VECTOR_WIDTH_CHAR, kUint) X(DEVICE_##which##_VECTOR_WIDTH_SHORT, kUint)      \
  X(DEVICE_##which##_VECTOR_WIDTH_INT, kUint) X(DEVICE_##which##_VECTOR_WIDTH_LONG, kUint)        \
  X(DEVICE_##which##_VECTOR_WIDTH_FLOAT, kUint) X(DEVICE_##which##_VECTOR_WIDTH_DOUBLE, kUint)    \
  X(DEVICE_##which##_VECTOR_WIDTH_HALF, kUint)
    X(PLATFORM_NAME, kText) X(PLATFORM_VENDOR, kText) X(PLATFORM_VERSION, kText)
    X(PLATFORM_PROFILE, kText) X(PLATFORM_EXTENSIONS, kText) X(DEVICE_NAME, kText)
    X(DEVICE_VENDOR, kText) X(DEVICE_VERSION, kText) X(DRIVER_VERSION, kText)
    X(DEVICE_OPENCL_C_VERSION, kText) X(DEVICE_EXTENSIONS, kText) X(DEVICE_PROFILE, kText)
    X(DEVICE_BUILT_IN_KERNELS, kText) X(DEVICE_BOARD_NAME_AMD, kText) X(DEVICE_VENDOR_ID, kUint)
    X(DEVICE_MAX_COMPUTE_UNITS, kUint) X(DEVICE_MAX_WORK_ITEM_DIMENSIONS, kUint)
    X(DEVICE_MAX_CLOCK_FREQUENCY, kUint) X(DEVICE_ADDRESS_BITS, kUint)
    X(DEVICE_MEM_BASE_ADDR_ALIGN, kUint) X(DEVICE_MIN_DATA_TYPE_ALIGN_SIZE, kUint)
    X(DEVICE_GLOBAL_MEM_CACHE_TYPE, kUint) X(DEVICE_GLOBAL_MEM_CACHELINE_SIZE, kUint)
    X(DEVICE_MAX_CONSTANT_ARGS, kUint) X(DEVICE_LOCAL_MEM_TYPE, kUint)
    X(DEVICE_ERROR_CORRECTION_SUPPORT, kUint) X(DEVICE_HOST_UNIFIED_MEMORY, kUint)
    X(DEVICE_IMAGE_SUPPORT, kUint) X(DEVICE_ENDIAN_LITTLE, kUint) X(DEVICE_AVAILABLE, kUint)
    X(DEVICE_COMPILER_AVAILABLE, kUint) X(DEVICE_LINKER_AVAILABLE, kUint)
    X(DEVICE_MAX_READ_IMAGE_ARGS, kUint) X(DEVICE_MAX_WRITE_IMAGE_ARGS, kUint)
    X(DEVICE_MAX_SAMPLERS, kUint) X(DEVICE_PREFERRED_INTEROP_USER_SYNC, kUint)
    X(DEVICE_MAX_NUM_SUB_GROUPS, kUint) X(DEVICE_SUB_GROUP_INDEPENDENT_FORWARD_PROGRESS, kUint)
    X(DEVICE_NUMERIC_VERSION, kUint) X(DEVICE_NON_UNIFORM_WORK_GROUP_SUPPORT, kUint)
    X(DEVICE_GENERIC_ADDRESS_SPACE_SUPPORT, kUint)
    X(DEVICE_WORK_GROUP_COLLECTIVE_FUNCTIONS_SUPPORT, kUint) X(DEVICE_PIPE_SUPPORT, kUint)
    X(DEVICE_SINGLE_FP_CONFIG, kUlong) X(DEVICE_DOUBLE_FP_CONFIG, kUlong)
    X(DEVICE_HALF_FP_CONFIG, kUlong) X(DEVICE_GLOBAL_MEM_CACHE_SIZE, kUlong)
    X(DEVICE_GLOBAL_MEM_SIZE, kUlong) X(DEVICE_MAX_MEM_ALLOC_SIZE, kUlong)
    X(DEVICE_MAX_CONSTANT_BUFFER_SIZE, kUlong) X(DEVICE_LOCAL_MEM_SIZE, kUlong)
    X(DEVICE_EXECUTION_CAPABILITIES, kUlong) X(DEVICE_QUEUE_PROPERTIES, kUlong)
    X(DEVICE_SVM_CAPABILITIES, kUlong) X(DEVICE_ATOMIC_MEMORY_CAPABILITIES, kUlong)
    X(DEVICE_ATOMIC_FENCE_CAPABILITIES, kUlong) X(DEVICE_MAX_WORK_GROUP_SIZE, kSize)
    X(DEVICE_MAX_PARAMETER_SIZE, kSize) X(DEVICE_IMAGE2D_MAX_WIDTH, kSize)
    X(DEVICE_IMAGE2D_MAX_HEIGHT, kSize) X(DEVICE_IMAGE3D_MAX_WIDTH, kSize)
    X(DEVICE_IMAGE3D_MAX_HEIGHT, kSize) X(DEVICE_IMAGE3D_MAX_DEPTH, kSize)
    X(DEVICE_IMAGE_MAX_BUFFER_SIZE, kSize) X(DEVICE_IMAGE_MAX_ARRAY_SIZE, kSize)
    X(DEVICE_PROFILING_TIMER_RESOLUTION, kSize) X(DEVICE_PRINTF_BUFFER_SIZE, kSize)
    X(DEVICE_MAX_GLOBAL_VARIABLE_SIZE, kSize)
    X(DEVICE_PREFERRED_WORK_GROUP_SIZE_MULTIPLE, kSize)
    X(KERNEL_PREFERRED_WORK_GROUP_SIZE_MULTIPLE, kSize) X(DEVICE_MAX_WORK_ITEM_SIZES, kSizes)
    VECTOR_WIDTHS(X, PREFERRED) VECTOR_WIDTHS(X, NATIVE)
#undef X
};
// clang-format on

// The same GPU once more, under a platform of its own. The loader looks at their first words.
struct Twin {
  const void* dispatch;
  void* real;
};
Twin twin_platform, twin_device;

const cl_platform_id kTwinPlatform = reinterpret_cast<cl_platform_id>(&twin_platform);
const cl_device_id kTwinDevice = reinterpret_cast<cl_device_id>(&twin_device);

cl_platform_id real_platform(cl_platform_id platform) {
  return platform == kTwinPlatform ? static_cast<cl_platform_id>(twin_platform.real) : platform;
}

std::string text_of(cl_platform_id platform, cl_platform_info what) {
  char text[256] = "";
  next->clGetPlatformInfo(platform, what, sizeof text, text, nullptr);
  return text;
}

// The platform of PoCL, else of Intel's runtime for CPUs, whatever else the loader has found, or
// nullptr.
cl_platform_id runtime() {
  cl_platform_id all[16];
  cl_uint count = 0;
  if (next->clGetPlatformIDs(16, all, &count) != CL_SUCCESS) return nullptr;
  for (const char* name : {"Portable Computing Language", "Intel(R) OpenCL"}) {
    for (cl_uint i = 0; i < std::min(count, 16u); ++i) {
      if (text_of(all[i], CL_PLATFORM_NAME) == name) return all[i];
    }
  }
  return nullptr;
}

// The profile's extensions without those that PoCL's compiler and runtime do not have.
std::string extensions(cl_device_id device) {
  char own[4096] = " ";
  next->clGetDeviceInfo(device, CL_DEVICE_EXTENSIONS, sizeof own - 2, own + 1, nullptr);
  // PoCL has 64-bit integers, which only the EMBEDDED profile makes an extension. The layer answers
  // AMD's queries for free memory and, where the profile has it, the card's name.
  const std::string available = std::string(own) + " cles_khr_int64 cl_amd_device_attribute_query ";
  std::istringstream names(profile().extensions);
  std::string shown;
  for (std::string name; names >> name;) {
    if (available.find(" " + name + " ") == std::string::npos) continue;
    shown += (shown.empty() ? "" : " ") + name;
  }
  return shown;
}

// The version of OpenCL that introduced a query of devices.
int introduced(cl_device_info what) {
  if (what >= 0x105E && what <= 0x1072) return 300;
  if (what >= 0x105B && what <= 0x105D) return 210;
  if (what >= 0x104A && what <= 0x105A) return 200;
  if (what >= 0x103E && what <= 0x1049) return 120;
  return 100;
}

}  // namespace

const Query* find_query(const std::string& name) {
  for (const Query& query : kQueries) {
    if (name == query.name) return &query;
  }
  return nullptr;
}

std::vector<char> encode(const Query& query, const std::string& text) {
  std::vector<char> bytes;
  const auto append = [&](const auto& value) {
    const char* data = reinterpret_cast<const char*>(&value);
    bytes.insert(bytes.end(), data, data + sizeof value);
  };
  const auto number = [](const std::string& digits) {
    size_t used = 0;
    const uint64_t value = std::stoull(digits, &used, 0);
    if (used != digits.size()) throw std::invalid_argument(digits);
    return value;
  };
  switch (query.kind) {
    case Kind::kText:
      bytes.assign(text.c_str(), text.c_str() + text.size() + 1);
      break;
    case Kind::kUint:
      append(cl_uint(number(text)));
      break;
    case Kind::kUlong:
      append(cl_ulong(number(text)));
      break;
    case Kind::kSize:
      append(size_t(number(text)));
      break;
    case Kind::kSizes: {
      std::istringstream parts(text);
      for (std::string part; parts >> part;) append(size_t(number(part)));
      if (bytes.size() != 3 * sizeof(size_t)) throw std::invalid_argument("three numbers expected");
    }
  }
  return bytes;
}

cl_int give(const void* data, size_t bytes, size_t size, void* value, size_t* size_ret) {
  if (value && size < bytes) return CL_INVALID_VALUE;
  if (value) std::memcpy(value, data, bytes);
  if (size_ret) *size_ret = bytes;
  return CL_SUCCESS;
}

cl_device_id real_device(cl_device_id device) {
  return device == kTwinDevice ? static_cast<cl_device_id>(twin_device.real) : device;
}

cl_int clGetPlatformIDs(cl_uint entries, cl_platform_id* platforms, cl_uint* count_ret) {
  constexpr cl_int kPlatformNotFound = -1001;  // cl_khr_icd
  const cl_platform_id first = runtime();
  if (!first) {
    return refuse(kPlatformNotFound,
                  "the layer plays a GPU on PoCL or on Intel's runtime for CPUs; neither is here");
  }
  twin_platform = {*reinterpret_cast<const void**>(first), first};
  const cl_platform_id shown[] = {first, kTwinPlatform};
  const cl_uint count = profile().duplicate_platform ? 2 : 1;
  if (platforms) std::copy_n(shown, std::min(entries, count), platforms);
  if (count_ret) *count_ret = count;
  return CL_SUCCESS;
}

cl_int clGetPlatformInfo(cl_platform_id platform, cl_platform_info what, size_t size, void* value,
                         size_t* size_ret) {
  if (profile().failing.contains(what)) return CL_INVALID_VALUE;
  const auto found = profile().answers.find(what);
  if (found != profile().answers.end()) {
    return give(found->second.data(), found->second.size(), size, value, size_ret);
  }
  return next->clGetPlatformInfo(real_platform(platform), what, size, value, size_ret);
}

cl_int clGetDeviceIDs(cl_platform_id platform, cl_device_type type, cl_uint entries,
                      cl_device_id* devices, cl_uint* count_ret) {
  if (!(type & (CL_DEVICE_TYPE_GPU | CL_DEVICE_TYPE_DEFAULT))) return CL_DEVICE_NOT_FOUND;
  cl_device_id first = nullptr;
  const cl_int code =
      next->clGetDeviceIDs(real_platform(platform), CL_DEVICE_TYPE_ALL, 1, &first, nullptr);
  if (code != CL_SUCCESS) return code;
  twin_device = {*reinterpret_cast<const void**>(first), first};
  if (devices && entries) *devices = platform == kTwinPlatform ? kTwinDevice : first;
  if (count_ret) *count_ret = 1;
  return CL_SUCCESS;
}

cl_int clGetDeviceInfo(cl_device_id device, cl_device_info what, size_t size, void* value,
                       size_t* size_ret) {
  const Profile& p = profile();
  if (p.failing.contains(what) || introduced(what) > p.version) return CL_INVALID_VALUE;
  if (what == CL_DEVICE_TYPE) {
    return give(cl_device_type{CL_DEVICE_TYPE_GPU}, size, value, size_ret);
  }
  if (what == CL_DEVICE_PLATFORM && device == kTwinDevice) {
    return give(kTwinPlatform, size, value, size_ret);
  }
  if (what == CL_DRIVER_VERSION && device == kTwinDevice && !p.duplicate_driver.empty()) {
    return give(p.duplicate_driver.c_str(), p.duplicate_driver.size() + 1, size, value, size_ret);
  }
  if (what == CL_DEVICE_EXTENSIONS) {
    const std::string text = extensions(real_device(device));
    return give(text.c_str(), text.size() + 1, size, value, size_ret);
  }
  const auto found = p.answers.find(what);
  if (found != p.answers.end() && !found->second.empty()) {
    return give(found->second.data(), found->second.size(), size, value, size_ret);
  }
  if (what == CL_DEVICE_GLOBAL_FREE_MEMORY_AMD && p.has("cl_amd_device_attribute_query")) {
    const size_t kibibytes = (p.free_memory - std::min(p.free_memory, memory_in_use())) >> 10;
    const size_t answer[] = {kibibytes, kibibytes};  // in all, and in the largest block
    return give(answer, size, value, size_ret);
  }
  if (what == CL_DEVICE_MAX_WORK_ITEM_SIZES) return give(p.item_sizes, size, value, size_ret);
  return next->clGetDeviceInfo(real_device(device), what, size, value, size_ret);
}

cl_int clRetainDevice(cl_device_id) { return CL_SUCCESS; }  // not a sub-device
cl_int clReleaseDevice(cl_device_id) { return CL_SUCCESS; }

cl_int clGetDeviceAndHostTimer(cl_device_id, cl_ulong* device_time, cl_ulong* host_time) {
  if (profile().version < 210) return CL_INVALID_OPERATION;
  const cl_ulong now = std::chrono::steady_clock::now().time_since_epoch().count();
  if (!device_time || !host_time) return CL_INVALID_VALUE;
  *device_time = *host_time = now;
  return CL_SUCCESS;
}

cl_int clGetHostTimer(cl_device_id device, cl_ulong* host_time) {
  cl_ulong ignored;
  return stern::clGetDeviceAndHostTimer(device, &ignored, host_time);
}

}  // namespace stern
