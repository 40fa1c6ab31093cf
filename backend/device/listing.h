// Which OpenCL devices become `ocl:N`: GPUs first, then accelerators, then CPUs;
// OCL_VISIBLE_DEVICES selects among them. Devices that cannot run our kernels are skipped. If
// several drivers offer the same GPU, the best one is listed (DriverRank); OCL_ALL_DEVICES=1 lists
// all. A driver that fails hides no device of another driver.
#pragma once

#include <compare>
#include <optional>
#include <utility>

#include "backend/device/device.h"

namespace ocl {

struct ListedDevice {
  cl::Platform platform;
  cl::Device handle;
  DeviceProperties properties;
};

struct SkippedDevice {
  std::string name, reason;
};

struct Listing {
  std::vector<ListedDevice> devices;
  std::vector<SkippedDevice> skipped;
};

Listing list_devices();

// Properties that only the listing needs; device.h has the others.
struct DeviceStatus {
  bool available = true, has_compiler = true;
  std::string profile = "FULL_PROFILE";
};

// The reason why the device cannot run our kernels; empty: it can.
std::string reason_to_skip(const DeviceProperties& properties, const DeviceStatus& status);

// A GPU's PCI address, as its driver reports it.
struct PciAddress {
  std::optional<uint32_t> domain;  // not all drivers report it
  uint32_t bus = 0, device = 0, function = 0;
};
bool may_be_same(const PciAddress& a, const PciAddress& b);

// Of two drivers of a GPU, the one with the greater rank is used; of equal ones, the first that the
// OpenCL loader shows. Drivers of the GPU's vendor come before layers over other interfaces, which
// crashed other programs (https://github.com/darktable-org/darktable/pull/15044).
struct DriverRank {
  bool of_vendor = false;
  std::pair<int, int> opencl;    // the version of OpenCL
  std::vector<uint64_t> driver;  // the numbers of the driver's version

  auto operator<=>(const DriverRank&) const = default;
};
DriverRank driver_rank(const DeviceProperties& properties, const std::string& platform_vendor);

// Lists the devices, and returns those that were skipped.
const std::vector<SkippedDevice>& skipped_devices();

// The positions, of `count` devices, that a text like "2,0" selects (OCL_VISIBLE_DEVICES); all when
// it is empty. Throws ValueError when it is malformed or out of range.
std::vector<size_t> parse_visible_devices(const std::string& text, size_t count);

}  // namespace ocl
