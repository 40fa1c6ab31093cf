// Which OpenCL devices become `ocl:N`: GPUs first, then accelerators, then CPUs;
// OCL_VISIBLE_DEVICES selects among them. Devices that cannot run our kernels, and further drivers
// of a GPU that is listed already, are skipped; OCL_ALL_DEVICES=1 lists them, too. A driver that
// fails hides no device of another driver.
#pragma once

#include "backend/device.h"

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

// What device.h does not keep.
struct DeviceStatus {
  bool available = true, has_compiler = true;
  std::string profile = "FULL_PROFILE";
};

// Why the device cannot run our kernels; empty: it can.
std::string reason_to_skip(const DeviceProperties& properties, const DeviceStatus& status);

// Lists the devices, and tells those that were skipped.
const std::vector<SkippedDevice>& skipped_devices();

// Positions that OCL_VISIBLE_DEVICES="2,0" selects out of `count` devices; all when it is empty.
// Throws ValueError when it is malformed or out of range.
std::vector<size_t> parse_visible_devices(const std::string& text, size_t count);

}  // namespace ocl
