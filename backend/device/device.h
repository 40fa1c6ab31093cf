// Every usable OpenCL device of every platform is one `ocl:N` (listing.h).
//
//   Device& device = ocl::device(0);
//   device.properties().has_fp64; device.context();
#pragma once

#include <c10/core/Device.h>

#include <atomic>
#include <mutex>
#include <string>
#include <vector>

#include "backend/base/opencl.h"
#include "backend/device/quirks.h"

namespace ocl {

using c10::DeviceIndex;

inline constexpr size_t kMaxDevices = 64;  // per process

// Which of the two sets of kernels a device runs (docs/architecture.md): kCpu has one work-item per
// chunk with explicit vectors, kGpu one work-item per element and work-group reductions.
enum class KernelFamily { kCpu, kGpu };

const char* family_name(KernelFamily family);

struct DeviceProperties {
  std::string name;
  std::string vendor;
  std::string platform;
  std::string driver_version;
  std::string version;  // "OpenCL 3.0 PoCL ..."
  std::string extensions;
  std::string type;  // "gpu", "cpu" or "accelerator"
  size_t total_memory = 0;
  size_t max_allocation = 0;
  size_t local_memory = 0;
  size_t max_work_group_size = 0;
  size_t max_parameter_size = 0;  // bytes of a kernel's arguments
  unsigned max_compute_units = 0;
  unsigned native_vector_width_float = 0;
  int version_major = 1;
  int version_minor = 2;
  bool has_fp64 = false;
  bool has_fp16 = false;
  bool has_int64_atomics = false;
  bool has_subgroups = false;
  bool host_unified_memory = false;
  bool correctly_rounded_divide = false;
  bool has_profiling = true;  // its queues can measure times
  KernelFamily family = KernelFamily::kGpu;
  uint32_t quirks = 0;  // a bit for each Quirk
};

// The largest grid of one launch. OpenCL has no query for it.
struct GridLimits {
  size_t items;   // work-items in all
  size_t groups;  // work-groups in each dimension
  double work;    // float32 multiply-adds in all

  // Whether a launch of this much work is flushed alone: drivers pass the commands between two
  // flushes to the device as one piece.
  bool is_long(double launch) const { return launch > work / 8; }
};

// Defaults of launches and specialisations, by kernel family (choose_parameters() in device.cpp).
// Kernels with tiles choose their tiles next to their launch.
struct DeviceParameters {
  size_t tasks;            // work-items of a CPU-family launch, at most
  size_t grain;            // elements below which a CPU-family launch uses one work-item
  size_t vector_width;     // lanes of a 32-bit element in element-wise kernels
  size_t work_group_size;  // work-items per group of GPU-family kernels; a power of two
  GridLimits grid;
};

struct ListedDevice;

class Device {
 public:
  Device(ListedDevice listed, DeviceIndex index);

  DeviceIndex index() const { return index_; }
  const cl::Device& handle() const { return handle_; }
  const DeviceProperties& properties() const { return properties_; }
  const DeviceParameters& parameters() const { return parameters_; }
  KernelFamily family() const { return properties_.family; }
  bool has_extension(const std::string& name) const;
  // Whether its memory is the process's own, so that a map copies nothing and may stay open.
  bool uses_host_memory() const {
    return properties_.type == "cpu" && properties_.host_unified_memory;
  }
  bool has(Quirk quirk) const { return properties_.quirks & bit(quirk); }

  // Created at the first call; a context costs memory and threads.
  const cl::Context& context();
  bool has_context() const { return created_; }

  // `ocl:0 "Radeon RX 580"`, for messages.
  std::string label() const;

 private:
  cl::Platform platform_;
  cl::Device handle_;
  DeviceIndex index_;
  DeviceProperties properties_;
  DeviceParameters parameters_;
  std::once_flag once_;
  cl::Context context_;
  std::atomic<bool> created_{false};
};

// Number of devices; never throws. Until this process uses a device, a helper process counts them:
// drivers start threads when devices are listed, which would break a later fork.
DeviceIndex device_count() noexcept;

// The device, or an error that says which exist. Lists the devices in this process.
Device& device(DeviceIndex index);

// Whether this process has listed the devices, and whether it was forked from one that had.
bool initialized() noexcept;
bool in_bad_fork() noexcept;
// Raises the error for tensors on different devices; `where` is the end of its text.
[[noreturn]] void refuse_devices(const Device& expected, const Device& found,
                                 const std::string& where = "");
// Raises in such a fork, because drivers and their locks do not survive it. stream() and its like
// raise there, too, so only code that keeps a stream or takes a lock of ours needs to call this.
void refuse_fork();

// Makes all devices of the user's context use it instead of one of their own, and returns the first
// of them. ValueError when one of them already has another context.
Device& use_context(cl_context context);

// Lists the devices now; throws an error that says what to install when there is none.
void initialize();

// The current device of this thread.
DeviceIndex current_device() noexcept;
void set_current_device(DeviceIndex index);                     // checked
void set_current_device_unchecked(DeviceIndex index) noexcept;  // does not check; for destructors

}  // namespace ocl
