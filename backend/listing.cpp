#include "backend/listing.h"

#include <algorithm>
#include <cstdio>
#include <cstring>

#include "backend/environment.h"
#include "backend/error.h"

namespace ocl {
namespace {

KernelFamily choose_family(const DeviceProperties& p) {
  const std::string forced = environment("OCL_KERNEL_FAMILY");
  const bool short_loops = p.quirks & bit(Quirk::kShortLoops);
  if (forced.empty()) {
    return p.type == "cpu" && !short_loops ? KernelFamily::kCpu : KernelFamily::kGpu;
  }
  TORCH_CHECK_VALUE(forced == "cpu" || forced == "gpu",
                    "OCL_KERNEL_FAMILY must be \"cpu\" or \"gpu\", not \"", forced, "\"");
  return forced == "cpu" ? KernelFamily::kCpu : KernelFamily::kGpu;
}

// Bytes: as an environment variable says in MiB, or as the driver says.
size_t mebibytes(const char* variable, cl_ulong of_driver) {
  const std::optional<size_t> value = environment_number(variable, "a number of MiB");
  return value ? *value << 20 : of_driver;
}

DeviceProperties query(const cl::Platform& platform, const cl::Device& d) {
  DeviceProperties p;
  p.name = d.getInfo<CL_DEVICE_NAME>();
  p.vendor = d.getInfo<CL_DEVICE_VENDOR>();
  p.platform = platform.getInfo<CL_PLATFORM_NAME>();
  p.driver_version = d.getInfo<CL_DRIVER_VERSION>();
  p.version = d.getInfo<CL_DEVICE_VERSION>();
  p.extensions = " " + d.getInfo<CL_DEVICE_EXTENSIONS>() + " ";
  const cl_device_type type = d.getInfo<CL_DEVICE_TYPE>();
  p.type = type & CL_DEVICE_TYPE_GPU ? "gpu" : type & CL_DEVICE_TYPE_CPU ? "cpu" : "accelerator";
  p.total_memory = mebibytes("OCL_MEMORY_MB", d.getInfo<CL_DEVICE_GLOBAL_MEM_SIZE>());
  p.max_allocation = mebibytes("OCL_MAX_BUFFER_MB", d.getInfo<CL_DEVICE_MAX_MEM_ALLOC_SIZE>());
  p.local_memory = d.getInfo<CL_DEVICE_LOCAL_MEM_SIZE>();
  p.max_work_group_size = d.getInfo<CL_DEVICE_MAX_WORK_GROUP_SIZE>();
  p.max_parameter_size = d.getInfo<CL_DEVICE_MAX_PARAMETER_SIZE>();
  p.max_compute_units = d.getInfo<CL_DEVICE_MAX_COMPUTE_UNITS>();
  p.native_vector_width_float = d.getInfo<CL_DEVICE_NATIVE_VECTOR_WIDTH_FLOAT>();
  std::sscanf(p.version.c_str(), "OpenCL %d.%d", &p.version_major, &p.version_minor);
  const auto has = [&](const char* name) {
    return p.extensions.find(str(" ", name, " ")) != std::string::npos;
  };
  p.has_fp64 = has("cl_khr_fp64") || d.getInfo<CL_DEVICE_DOUBLE_FP_CONFIG>() != 0;
  p.has_fp16 = has("cl_khr_fp16");
  p.has_int64_atomics = has("cl_khr_int64_base_atomics");
  p.has_subgroups = has("cl_khr_subgroups") || has("cl_intel_subgroups");
  p.host_unified_memory = d.getInfo<CL_DEVICE_HOST_UNIFIED_MEMORY>();
  p.correctly_rounded_divide =
      d.getInfo<CL_DEVICE_SINGLE_FP_CONFIG>() & CL_FP_CORRECTLY_ROUNDED_DIVIDE_SQRT;
  p.quirks = quirks_of(p);
  p.family = choose_family(p);
  return p;
}

DeviceStatus status_of(const cl::Device& d) {
  return {.available = d.getInfo<CL_DEVICE_AVAILABLE>() != 0,
          .has_compiler = d.getInfo<CL_DEVICE_COMPILER_AVAILABLE>() != 0,
          .profile = d.getInfo<CL_DEVICE_PROFILE>()};
}

// The bytes of a query that only some drivers know; empty: not this one.
std::vector<unsigned char> bytes_of(const cl::Device& d, cl_device_info what) {
  size_t size = 0;
  if (clGetDeviceInfo(d(), what, 0, nullptr, &size) != CL_SUCCESS) return {};
  std::vector<unsigned char> bytes(size);
  if (clGetDeviceInfo(d(), what, size, bytes.data(), nullptr) != CL_SUCCESS) return {};
  return bytes;
}

// The bus, device and function of a GPU, by the query of its driver.
std::string pci_address(const cl::Device& d) {
  constexpr cl_device_info kKhrPciBusInfo = 0x410F, kAmdTopology = 0x4037, kNvBus = 0x4008,
                           kNvSlot = 0x4009;
  if (const auto khr = bytes_of(d, kKhrPciBusInfo); khr.size() == 4 * sizeof(cl_uint)) {
    cl_uint words[4];  // domain, bus, device, function
    std::memcpy(words, khr.data(), khr.size());
    return str(words[1], ":", words[2], ".", words[3]);
  }
  if (const auto amd = bytes_of(d, kAmdTopology); amd.size() == 24) {
    return str(int{amd[21]}, ":", int{amd[22]}, ".", int{amd[23]});
  }
  const auto bus = bytes_of(d, kNvBus), slot = bytes_of(d, kNvSlot);
  if (bus.size() != sizeof(cl_uint) || slot.size() != sizeof(cl_uint)) return "";
  cl_uint numbers[2];
  std::memcpy(&numbers[0], bus.data(), sizeof(cl_uint));
  std::memcpy(&numbers[1], slot.data(), sizeof(cl_uint));
  return str(numbers[0], ":", numbers[1] >> 3, ".", numbers[1] & 7);
}

// Whether two drivers offer the same GPU. A driver that knows no address is compared by name.
bool is_same_gpu(const ListedDevice& a, const ListedDevice& b) {
  const DeviceProperties &p = a.properties, &q = b.properties;
  if (p.type != "gpu" || q.type != "gpu" || a.platform() == b.platform()) return false;
  const std::string x = pci_address(a.handle), y = pci_address(b.handle);
  if (!x.empty() && !y.empty()) return x == y;
  return p.name == q.name && p.vendor == q.vendor;
}

class Lister {
 public:
  Listing list() {
    for (const cl::Platform& platform : opencl_platforms()) {
      guarded("a platform", [&](std::string& name) {
        name = platform.getInfo<CL_PLATFORM_NAME>();
        add_platform(platform);
      });
    }
    std::stable_sort(found_.begin(), found_.end(), [](const auto& a, const auto& b) {
      return rank(a.properties) < rank(b.properties);
    });
    const std::string wanted = environment("OCL_VISIBLE_DEVICES");
    for (const size_t i : parse_visible_devices(wanted, found_.size())) {
      result_.devices.push_back(found_[i]);
    }
    return std::move(result_);
  }

 private:
  static int rank(const DeviceProperties& p) {
    return p.type == "gpu" ? 0 : p.type == "cpu" ? 2 : 1;
  }

  // A failing query ends `body`, which sets the name of what it is about.
  template <typename Body>
  void guarded(std::string name, Body&& body) {
    try {
      body(name);
    } catch (const cl::Error& error) {
      skip(name, str("the driver failed at ", error.what(), ", ", error_name(error.err())));
    }
  }

  void skip(const std::string& name, const std::string& reason) {
    result_.skipped.push_back({name, reason});
  }

  void add_platform(const cl::Platform& platform) {
    std::vector<cl_device_id> handles(kMaxDevices);
    cl_uint count = 0;
    const cl_int code =
        clGetDeviceIDs(platform(), CL_DEVICE_TYPE_ALL, kMaxDevices, handles.data(), &count);
    if (code == CL_DEVICE_NOT_FOUND) return;
    if (code != CL_SUCCESS) throw cl::Error(code, "clGetDeviceIDs");
    handles.resize(std::min<size_t>(count, kMaxDevices));
    for (const cl_device_id handle : handles) {
      guarded("a device", [&](std::string& name) {
        const cl::Device device(handle, /*retainObject=*/true);
        name = device.getInfo<CL_DEVICE_NAME>();
        add_device({platform, device, query(platform, device)}, name);
      });
    }
  }

  void add_device(ListedDevice device, const std::string& name) {
    if (!all_) {
      std::string reason = reason_to_skip(device.properties, status_of(device.handle));
      for (const ListedDevice& other : found_) {
        if (!reason.empty() || !is_same_gpu(device, other)) continue;
        reason = str("the platform ", other.properties.platform, " has the same GPU");
      }
      if (!reason.empty()) return skip(name, reason);
    }
    found_.push_back(std::move(device));
  }

  const bool all_ = environment_flag("OCL_ALL_DEVICES");
  std::vector<ListedDevice> found_;
  Listing result_;
};

}  // namespace

Listing list_devices() { return Lister().list(); }

std::string reason_to_skip(const DeviceProperties& p, const DeviceStatus& status) {
  if (!status.available) return "its driver says that it is not available";
  if (!status.has_compiler) return "its driver has no compiler";
  if (std::pair(p.version_major, p.version_minor) < std::pair(1, 2)) {
    return str("it has ", p.version, ", but 1.2 is needed");
  }
  constexpr size_t kArguments = 1024;  // what OpenCL asks of devices with the full profile
  if (p.max_parameter_size < kArguments) {
    return str("its kernels take ", p.max_parameter_size, " bytes of arguments, but ", kArguments,
               " are needed");
  }
  // The embedded profile may leave out 64-bit integers, which hold sizes and offsets.
  if (status.profile != "FULL_PROFILE" &&
      p.extensions.find(" cles_khr_int64 ") == std::string::npos) {
    return "it has no 64-bit integers";
  }
  return "";
}

std::vector<size_t> parse_visible_devices(const std::string& text, size_t count) {
  std::vector<size_t> selected;
  if (text.empty()) {
    for (size_t i = 0; i < count; ++i) selected.push_back(i);
    return selected;
  }
  for (size_t begin = 0; begin <= text.size();) {
    const size_t end = std::min(text.find(',', begin), text.size());
    size_t index = 0;
    const auto parsed = std::from_chars(text.data() + begin, text.data() + end, index);
    TORCH_CHECK_VALUE(parsed.ec == std::errc() && parsed.ptr == text.data() + end,
                      "OCL_VISIBLE_DEVICES=\"", text,
                      "\" is not a list of device numbers, as in "
                      "OCL_VISIBLE_DEVICES=0,2");
    TORCH_CHECK_VALUE(index < count, "OCL_VISIBLE_DEVICES=\"", text, "\" names device ", index,
                      ", but the machine has ", count, " OpenCL device(s), numbered from 0");
    TORCH_CHECK_VALUE(std::find(selected.begin(), selected.end(), index) == selected.end(),
                      "OCL_VISIBLE_DEVICES=\"", text, "\" names device ", index, " twice");
    selected.push_back(index);
    begin = end + 1;
  }
  return selected;
}

}  // namespace ocl
