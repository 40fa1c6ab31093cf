#include "backend/device/device.h"

#include <algorithm>
#include <atomic>
#include <bit>
#include <chrono>
#include <limits>
#include <map>
#include <memory>

#include "backend/base/environment.h"
#include "backend/base/error.h"
#include "backend/base/system.h"
#include "backend/device/device_counter.h"
#include "backend/device/listing.h"

namespace ocl {
namespace {

constexpr const char* kInstallHint =
    "Install an OpenCL runtime: the driver package of the GPU's vendor, or for CPUs "
    "`apt install pocl-opencl-icd` or `pip install torch-ocl[runtime]`. "
    "`python -m torch_ocl.info` shows what is found; see docs/install.md.";

// The limits of the strictest GPU drivers: 65,535 groups in y and z on NVIDIA (SC-SGS/PLSSVM#64,
// m4rs-mt/ILGPU#619), in x with drivers over Vulkan, and 2^31 work-items (cogciprocate/ocl#226).
// ROCm has 2^32, in all dimensions together (ROCm/hip#2687, pytorch/FBGEMM#6016). A GPU that also
// draws the screen is reset if a launch takes about two seconds. A compute unit has at least 8
// lanes of about 1 GHz. So 10^9 multiply-adds for each unit take about an eighth of a second at the
// peak. A larger grid, or more work, costs a few launches.
GridLimits choose_grid(const DeviceProperties& p) {
  constexpr size_t kNone = std::numeric_limits<size_t>::max();
  if (p.family == KernelFamily::kCpu) return {kNone, kNone, static_cast<double>(kNone)};
  const size_t millions =
      environment_number("OCL_LAUNCH_WORK", "a number of millions of multiply-adds")
          .value_or(1000 * std::max<size_t>(p.max_compute_units, 1));
  return {size_t{1} << 31,
          environment_number("OCL_GRID_LIMIT", "a number of work-groups").value_or(65535),
          1e6 * static_cast<double>(millions)};
}

DeviceParameters choose_parameters(const DeviceProperties& p) {
  if (p.family == KernelFamily::kCpu) {
    // A few tasks per core balance the load, when other processes use some cores.
    return {std::clamp<size_t>(4 * p.max_compute_units, 8, 256), 16384, 16, 1, choose_grid(p)};
  }
  return {4096, 1, 4, std::bit_floor(std::min<size_t>(256, p.max_work_group_size)), choose_grid(p)};
}

struct Registry {
  Listing listing = list_devices();
  std::vector<std::unique_ptr<Device>> devices;

  Registry() {
    for (ListedDevice& found : listing.devices) {
      devices.push_back(
          std::make_unique<Device>(std::move(found), static_cast<DeviceIndex>(devices.size())));
    }
  }
};

// Contexts from use_context() for devices that have not made one yet.
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
    const std::string hung = driver_that_hangs();
    TORCH_CHECK(hung.empty(), "No OpenCL device: ", hung,
                ", and would hang this process, too. Remove it, choose other drivers with "
                "OCL_ICD_VENDORS, or give it more seconds; see docs/environment.md");
    // The handler is set before drivers are loaded: if a fork happens meanwhile, the locks of the
    // drivers and of `instance` stay locked in the child. In a child, the destructors of Intel's
    // driver would wait for the parent's commands. skip_destructors_if() skips only destructors
    // that are registered before it, so it is called again after the driver is loaded.
    after_fork([] {
      forked = true;
      if (!listed) skip_destructors_if(&in_bad_fork);
    });
    auto* created = new Registry;
    skip_destructors_if(&in_bad_fork);
    listed = true;
    return created;
  }();
  return *instance;
}

}  // namespace

const char* family_name(KernelFamily family) {
  return family == KernelFamily::kCpu ? "cpu" : "gpu";
}

Device::Device(ListedDevice listed, DeviceIndex index)
    : platform_(std::move(listed.platform)),
      handle_(std::move(listed.handle)),
      index_(index),
      properties_(std::move(listed.properties)),
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
    if (listed && !forked) return static_cast<DeviceIndex>(registry().devices.size());
    for (;;) {
      if (const auto counted = count_devices(std::chrono::milliseconds(100))) return *counted;
    }
  } catch (...) {
    return 0;
  }
}

void initialize() {
  TORCH_CHECK(opencl_loader_present(),
              "No OpenCL device: the OpenCL loader library (libOpenCL.so.1) is not installed. ",
              kInstallHint);
  if (!registry().devices.empty()) return;
  std::string skipped;
  for (const SkippedDevice& each : skipped_devices()) {
    skipped += str(each.name, " is not used: ", each.reason, ". ");
  }
  TORCH_CHECK(false, "No OpenCL device was found. ", skipped, kInstallHint);
}

const std::vector<SkippedDevice>& skipped_devices() { return registry().listing.skipped; }

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
  const auto what = [] { return std::string("the context cannot be used"); };
  const auto context = translated(what, [&] { return cl::Context(handle, /*retainObject=*/true); });
  const auto members = translated(what, [&] { return context.getInfo<CL_CONTEXT_DEVICES>(); });
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
      // Erases and inserts, because an assignment also releases a context that it failed to retain.
      user_contexts().contexts.erase(each);
      translated(what, [&] { user_contexts().contexts.emplace(each, context); });
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

void refuse_devices(const Device& expected, const Device& found, const std::string& where) {
  TORCH_CHECK(
      false, "Expected all tensors to be on the same device, but found at least two devices, ocl:",
      static_cast<int>(expected.index()), " and ocl:", static_cast<int>(found.index()), "!", where);
}

DeviceIndex current_device() noexcept { return current_index; }

void set_current_device(DeviceIndex index) {
  if (index == current_index && initialized()) return;
  device(index);  // checks the index
  current_index = index;
}

void set_current_device_unchecked(DeviceIndex index) noexcept { current_index = index; }

}  // namespace ocl
