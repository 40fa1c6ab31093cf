#include "backend/device/listing.h"

#include <algorithm>
#include <cstdio>
#include <cstring>

#include "backend/base/environment.h"
#include "backend/base/error.h"
#include "backend/base/failure_text.h"
#include "backend/base/printable.h"
#include "backend/device/query.h"

namespace ocl {
namespace {

KernelFamily choose_family(const DeviceProperties& p) {
  const std::string forced = environment("OCL_KERNEL_FAMILY");
  const bool short_loops = p.quirks & bit(Quirk::kShortLoops);
  if (forced.empty()) {
    return p.type == "cpu" && !short_loops ? KernelFamily::kCpu : KernelFamily::kGpu;
  }
  TORCH_CHECK_VALUE(forced == "cpu" || forced == "gpu",
                    "OCL_KERNEL_FAMILY must be \"cpu\" or \"gpu\", not \"", printable(forced),
                    "\"");
  return forced == "cpu" ? KernelFamily::kCpu : KernelFamily::kGpu;
}

// Bytes: the value of an environment variable in MiB if it is set, else the driver's value.
size_t mebibytes(const char* variable, cl_ulong of_driver) {
  const std::optional<size_t> value = environment_number(variable, "a number of MiB");
  return value ? *value << 20 : of_driver;
}

// The driver's answer to a query, or `otherwise` if it does not know the query.
template <typename T>
T optional(const cl::Device& d, cl_device_info what, T otherwise) {
  T value{};
  const cl_int code = clGetDeviceInfo(d(), what, sizeof(value), &value, nullptr);
  return code == CL_SUCCESS ? value : otherwise;
}

// The number of floats in a vector, for the processors that Intel's runtime can be told to compile
// for.
unsigned width_of_target(std::string_view name) {
  if (name == "corei7") return 4;
  if (name == "corei7-avx" || name == "core-avx2") return 8;
  return 16;
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
  p.has_fp64 =
      has("cl_khr_fp64") || optional<cl_device_fp_config>(d, CL_DEVICE_DOUBLE_FP_CONFIG, 0) != 0;
  p.has_fp16 = has("cl_khr_fp16");
  p.has_int64_atomics = has("cl_khr_int64_base_atomics");
  p.has_subgroups = has("cl_khr_subgroups") || has("cl_intel_subgroups");
  p.host_unified_memory = optional<cl_bool>(d, CL_DEVICE_HOST_UNIFIED_MEMORY, CL_FALSE);
  // Mesa's driver for the VideoCore VII has no profiling
  // (https://github.com/krrishnarraj/clpeak/issues/142).
  p.has_profiling = optional<cl_command_queue_properties>(d, CL_DEVICE_QUEUE_PROPERTIES,
                                                          CL_QUEUE_PROFILING_ENABLE) &
                    CL_QUEUE_PROFILING_ENABLE;
  p.correctly_rounded_divide =
      d.getInfo<CL_DEVICE_SINGLE_FP_CONFIG>() & CL_FP_CORRECTLY_ROUNDED_DIVIDE_SQRT;
  p.quirks = quirks_of(p);
  if (p.quirks & bit(Quirk::kReportsHostWidth)) {
    p.native_vector_width_float =
        std::min(p.native_vector_width_float, width_of_target(environment(kIntelTarget)));
  }
  p.family = choose_family(p);
  return p;
}

DeviceStatus status_of(const cl::Device& d) {
  return {.available = d.getInfo<CL_DEVICE_AVAILABLE>() != 0,
          .has_compiler = d.getInfo<CL_DEVICE_COMPILER_AVAILABLE>() != 0,
          .profile = d.getInfo<CL_DEVICE_PROFILE>()};
}

std::string text_of(cl_device_id d, cl_device_info what) {
  const auto bytes = bytes_of(d, what);
  return {bytes.begin(), std::find(bytes.begin(), bytes.end(), '\0')};
}

// The reason why a device of this version is not used; empty if it is.
std::string too_old(const std::string& version) {
  int major = 0, minor = 0;
  const bool known = std::sscanf(version.c_str(), "OpenCL %d.%d", &major, &minor) == 2;
  if (!known || std::pair(major, minor) >= std::pair(1, 2)) return "";
  return str("it has ", version, ", but 1.2 is needed");
}

std::optional<PciAddress> pci_address(const cl::Device& d) {
  constexpr cl_device_info kKhrPciBusInfo = 0x410F, kAmdTopology = 0x4037, kNvBus = 0x4008,
                           kNvSlot = 0x4009, kNvDomain = 0x400A;
  if (const auto khr = bytes_of(d(), kKhrPciBusInfo); khr.size() == 4 * sizeof(cl_uint)) {
    cl_uint words[4];
    std::memcpy(words, khr.data(), khr.size());
    return PciAddress{words[0], words[1], words[2], words[3]};
  }
  if (const auto amd = bytes_of(d(), kAmdTopology); amd.size() == 24) {
    return PciAddress{std::nullopt, amd[21], amd[22], amd[23]};
  }
  const auto bus = number_of(d(), kNvBus), slot = number_of(d(), kNvSlot);
  if (!bus || !slot) return {};
  return PciAddress{number_of(d(), kNvDomain), *bus, *slot >> 3, *slot & 7};
}

// Whether two drivers offer the same GPU: by PCI address, or by name if a driver does not report
// one.
bool is_same_gpu(const ListedDevice& a, const ListedDevice& b) {
  const DeviceProperties &p = a.properties, &q = b.properties;
  if (p.type != "gpu" || q.type != "gpu" || a.platform() == b.platform()) return false;
  const auto x = pci_address(a.handle), y = pci_address(b.handle);
  if (x && y) return may_be_same(*x, *y);
  return p.name == q.name && p.vendor == q.vendor;
}

DriverRank rank_of(const ListedDevice& d) {
  return driver_rank(d.properties, d.platform.getInfo<CL_PLATFORM_VENDOR>());
}

class Lister {
 public:
  Listing list() {
    std::vector<cl::Platform> platforms;
    guarded("The list of platforms", [&](std::string&) { platforms = opencl_platforms(); });
    for (const cl::Platform& platform : platforms) {
      guarded("A platform", [&](std::string& name) {
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

  // Runs `body`; if a query fails in it, the device or platform is skipped. `body` sets its name.
  template <typename Body>
  void guarded(std::string name, Body&& body) {
    try {
      body(name);
    } catch (const cl::Error& error) {
      const bool none = error.err() == kPlatformNotFound;
      skip(name, str(none ? "no driver is installed: " : "the driver failed: ",
                     failure_text(error.err(), error.what())));
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
      guarded("A device", [&](std::string& name) {
        // cl::Device calls clRetainDevice(), which drivers of OpenCL 1.1 do not have.
        if (const auto known = text_of(handle, CL_DEVICE_NAME); !known.empty()) name = known;
        const std::string reason = too_old(text_of(handle, CL_DEVICE_VERSION));
        if (!reason.empty()) return skip(name, reason);
        const cl::Device device(handle, /*retainObject=*/true);
        add_device({platform, device, query(platform, device)}, name);
      });
    }
  }

  void add_device(ListedDevice device, const std::string& name) {
    if (!all_) {
      const std::string reason = reason_to_skip(device.properties, status_of(device.handle));
      if (!reason.empty()) return skip(name, reason);
      for (ListedDevice& other : found_) {
        if (!is_same_gpu(device, other)) continue;
        if (rank_of(device) > rank_of(other)) std::swap(device, other);
        return skip(device.properties.name, str("the platform ", other.properties.platform,
                                                " has the same GPU, and is preferred"));
      }
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
  if (const std::string reason = too_old(p.version); !reason.empty()) return reason;
  constexpr size_t kArguments = 1024;  // the full profile promises these
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

bool may_be_same(const PciAddress& a, const PciAddress& b) {
  if (a.domain && b.domain && *a.domain != *b.domain) return false;
  return a.bus == b.bus && a.device == b.device && a.function == b.function;
}

DriverRank driver_rank(const DeviceProperties& p, const std::string& platform_vendor) {
  DriverRank rank{p.vendor == platform_vendor, {p.version_major, p.version_minor}, {}};
  // The numbers at the start of a version: "3212.0 (HSA1.1,LC)" has 3212 and 0.
  const std::string& text = p.driver_version;
  for (size_t at = 0; at < text.size();) {
    uint64_t number = 0;
    const auto [end, code] = std::from_chars(text.data() + at, text.data() + text.size(), number);
    if (code == std::errc::invalid_argument) break;
    rank.driver.push_back(number);
    at = static_cast<size_t>(end - text.data());
    if (at == text.size() || text[at] != '.') break;
    ++at;
  }
  return rank;
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
                      "OCL_VISIBLE_DEVICES=\"", printable(text),
                      "\" is not a list of device numbers, as in "
                      "OCL_VISIBLE_DEVICES=0,2");
    TORCH_CHECK_VALUE(index < count, "OCL_VISIBLE_DEVICES=\"", printable(text), "\" names device ",
                      index, ", but the machine has ", count, " OpenCL device(s), numbered from 0");
    TORCH_CHECK_VALUE(std::find(selected.begin(), selected.end(), index) == selected.end(),
                      "OCL_VISIBLE_DEVICES=\"", printable(text), "\" names device ", index,
                      " twice");
    selected.push_back(index);
    begin = end + 1;
  }
  return selected;
}

}  // namespace ocl
