#include "backend/device.h"

#include <algorithm>
#include <atomic>
#include <bit>
#include <charconv>
#include <cstdio>
#include <limits>
#include <map>
#include <memory>
#include <optional>

#include "backend/environment.h"
#include "backend/error.h"
#include "backend/interop.h"
#include "backend/system.h"

namespace ocl {
namespace {

constexpr const char* kInstallHint =
    "Install an OpenCL runtime: the driver package of the GPU's vendor, or for CPUs "
    "`apt install pocl-opencl-icd` or `pip install torch-ocl[runtime]`. "
    "`python -m torch_ocl.info` shows what is found; see docs/install.md.";

struct Found {
  cl::Platform platform;
  cl::Device device;
  int rank;
};

std::vector<Found> list_devices() {
  std::vector<Found> found;
  for (const cl::Platform& platform : opencl_platforms()) {
    std::vector<cl::Device> devices;
    try {
      platform.getDevices(CL_DEVICE_TYPE_ALL, &devices);
    } catch (const cl::Error&) {
      continue;  // a platform without devices
    }
    for (const cl::Device& device : devices) {
      if (!device.getInfo<CL_DEVICE_AVAILABLE>() ||
          !device.getInfo<CL_DEVICE_COMPILER_AVAILABLE>()) {
        continue;
      }
      const cl_device_type type = device.getInfo<CL_DEVICE_TYPE>();
      const int rank = type & CL_DEVICE_TYPE_GPU ? 0 : type & CL_DEVICE_TYPE_CPU ? 2 : 1;
      found.push_back({platform, device, rank});
    }
  }
  std::stable_sort(found.begin(), found.end(),
                   [](const Found& a, const Found& b) { return a.rank < b.rank; });
  std::vector<Found> visible;
  for (const size_t i : parse_visible_devices(environment("OCL_VISIBLE_DEVICES"), found.size())) {
    visible.push_back(found[i]);
  }
  return visible;
}

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

// The positive number in an environment variable, if it is set.
std::optional<size_t> number_in(const char* variable, const char* what) {
  const std::string text = environment(variable);
  if (text.empty()) return std::nullopt;
  size_t value = 0;
  const auto [end, code] = std::from_chars(text.data(), text.data() + text.size(), value);
  TORCH_CHECK_VALUE(code == std::errc() && end == text.data() + text.size() && value > 0 &&
                        value < size_t{1} << 43,
                    variable, " must be ", what, ", not \"", text, "\"");
  return value;
}

// Bytes: as an environment variable says in MiB, or as the driver says.
size_t mebibytes(const char* variable, cl_ulong of_driver) {
  const std::optional<size_t> value = number_in(variable, "a number of MiB");
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

// What NVIDIA's hardware and drivers allow, which is the least of all GPUs: 65,535 groups in y and z
// (SC-SGS/PLSSVM#64), 2^31 work-items (cogciprocate/ocl#226; ROCm has 2^32, ROCm/hip#2687).
GridLimits choose_grid(const DeviceProperties& p) {
  constexpr size_t kNone = std::numeric_limits<size_t>::max();
  if (p.family == KernelFamily::kCpu) return {kNone, {kNone, kNone, kNone}};
  if (const auto groups = number_in("OCL_GRID_LIMIT", "a number of work-groups")) {
    return {size_t{1} << 31, {*groups, *groups, *groups}};
  }
  return {size_t{1} << 31, {INT32_MAX, 65535, 65535}};
}

DeviceParameters choose_parameters(const DeviceProperties& p) {
  if (p.family == KernelFamily::kCpu) {
    // A few tasks per core balance the load, when other processes use some cores.
    return {std::clamp<size_t>(4 * p.max_compute_units, 8, 256), 16384, 16, 1, choose_grid(p)};
  }
  return {4096, 1, 4, std::bit_floor(std::min<size_t>(256, p.max_work_group_size)), choose_grid(p)};
}

struct Registry {
  std::vector<std::unique_ptr<Device>> devices;

  Registry() {
    for (const Found& found : list_devices()) {
      devices.push_back(std::make_unique<Device>(found.platform, found.device,
                                                 static_cast<DeviceIndex>(devices.size())));
    }
  }
};

// Contexts from users (use_context()) for devices that had none yet.
struct UserContexts {
  std::mutex mutex;
  std::map<const Device*, cl::Context> contexts;
};
UserContexts& user_contexts() {
  static auto* const instance = new UserContexts;
  return *instance;
}

cl::Context make_context(const Device& device) {
  UserContexts& users = user_contexts();
  std::lock_guard lock(users.mutex);
  const auto found = users.contexts.find(&device);
  return found != users.contexts.end() ? found->second : cl::Context(device.handle());
}

std::atomic<bool> listed{false};
std::atomic<bool> forked{false};
thread_local DeviceIndex current_index = 0;

// Leaked: drivers may be unloaded before static destructors run.
Registry& registry() {
  refuse_fork();
  static Registry* const instance = [] {
    auto* created = new Registry;
    listed = true;
    after_fork([] { forked = true; });
    return created;
  }();
  return *instance;
}

// Number of devices as a helper process counts it, or 0.
DeviceIndex count_in_helper_process() noexcept {
  if (!opencl_loader_present()) return 0;
  return static_cast<DeviceIndex>(
      number_printed_by(own_file().replace_filename("count_devices"), 0));
}

}  // namespace

const char* family_name(KernelFamily family) {
  return family == KernelFamily::kCpu ? "cpu" : "gpu";
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

Device::Device(cl::Platform platform, cl::Device handle, DeviceIndex index)
    : platform_(std::move(platform)),
      handle_(std::move(handle)),
      index_(index),
      properties_(query(platform_, handle_)),
      parameters_(choose_parameters(properties_)) {}

bool Device::has_extension(const std::string& name) const {
  return properties_.extensions.find(str(" ", name, " ")) != std::string::npos;
}

const cl::Context& Device::context() {
  std::call_once(once_, [this] {
    context_ = translated([&] { return str("cannot create an OpenCL context for ", label()); },
                          [&] { return make_context(*this); });
    created_ = true;
  });
  return context_;
}

std::string Device::label() const {
  return str("ocl:", static_cast<int>(index_), " \"", properties_.name, "\"");
}

DeviceIndex device_count() noexcept {
  try {
    if (!kCanFork || (listed && !forked))
      return static_cast<DeviceIndex>(registry().devices.size());
    static const DeviceIndex counted = count_in_helper_process();
    return counted;
  } catch (...) {
    return 0;
  }
}

void initialize() {
  TORCH_CHECK(opencl_loader_present(),
              "No OpenCL device: the OpenCL loader library (libOpenCL.so.1) is not installed. ",
              kInstallHint);
  TORCH_CHECK(!registry().devices.empty(), "No OpenCL device was found. ", kInstallHint);
}

Device& device(DeviceIndex index) {
  if (C10_UNLIKELY(!listed)) initialize();
  const auto& devices = registry().devices;
  if (C10_UNLIKELY(index < 0 || static_cast<size_t>(index) >= devices.size())) {
    initialize();
    std::string labels;
    for (const auto& each : devices) labels += str(labels.empty() ? "" : ", ", each->label());
    TORCH_CHECK(false, "ocl:", static_cast<int>(index), " does not exist: this process sees ",
                devices.size(), " device(s): ", labels);
  }
  return *devices[index];
}

Device& use_context(cl_context handle) {
  initialize();
  const cl::Context context(handle, /*retainObject=*/true);
  const auto members = translated([] { return std::string("the context cannot be used"); },
                                  [&] { return context.getInfo<CL_CONTEXT_DEVICES>(); });
  std::vector<Device*> ours;
  for (const auto& each : registry().devices) {
    for (const cl::Device& member : members) {
      if (member() == each->handle()()) ours.push_back(each.get());
    }
  }
  TORCH_CHECK_VALUE(
      !ours.empty(),
      "the context is of none of torch's devices: it must be of whole OpenCL devices "
      "that OCL_VISIBLE_DEVICES does not hide; `python -m torch_ocl.info` shows them");
  const auto check = [&](Device& each) {
    TORCH_CHECK_VALUE(each.context()() == handle, each.label(),
                      " is in use already, with another context: call torch.ocl.use_context() "
                      "before the first tensor is made on the device");
  };
  for (Device* each : ours) {
    if (each->has_context()) check(*each);
  }
  for (Device* each : ours) {
    {
      std::lock_guard lock(user_contexts().mutex);
      user_contexts().contexts[each] = context;
    }
    check(*each);  // makes it the device's context
  }
  return *ours.front();
}

bool initialized() noexcept { return listed && !forked; }

bool in_bad_fork() noexcept { return forked; }

void refuse_fork() {
  TORCH_CHECK(!forked,
              "ocl cannot be used again in a forked process: OpenCL drivers do not survive fork(). "
              "Start processes with the 'spawn' method instead.");
}

DeviceIndex current_device() noexcept { return current_index; }

void set_current_device(DeviceIndex index) {
  if (index == current_index && initialized()) return;
  device(index);  // checks the index
  current_index = index;
}

void set_current_device_unchecked(DeviceIndex index) noexcept { current_index = index; }

}  // namespace ocl
