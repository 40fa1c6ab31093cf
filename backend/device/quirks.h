// Quirks of runtimes and drivers: where they break the standard, or need other code than their
// properties suggest. Code asks device.has(Quirk::kX); nothing else compares the names of platforms
// and vendors. A new quirk is an enumerator and a row in quirks.cpp.
#pragma once

#include <c10/util/ArrayRef.h>

#include <cstdint>
#include <string_view>

namespace ocl {

struct DeviceProperties;

enum class Quirk : uint8_t {
  kFirstLaunchAlone,    // the first launch of a kernel waits until the device is idle
  kFinishNeedsCommand,  // a marker is enqueued before clFinish()
  kShortLoops,          // the kernel family with small work-items, although the device is a CPU
  kCopiesHostMemory,    // host memory is never used in place
  kWaitRunsCommands,    // events are waited for by a callback, not by clWaitForEvents()
  kSlowWideTiles,       // kernels take narrower register tiles
  kTableByCopy,         // kernels copy a table out of an argument before they index it
  kFewRegisters,        // tiles keep their sums within 4 KiB of registers
  kLowGroupLimits,      // the driver's figure for a kernel's largest group is ignored
  kKeepsCompiler,       // a compiled program is made again from its binary
  kReportsHostWidth,    // the variable that names the target processor decides the width of vectors
  kBinaryCompiles,      // programs are compiled and linked, and the compiled objects are kept
  kNoLargerBuffers,     // buffers beyond CL_DEVICE_MAX_MEM_ALLOC_SIZE are not tried
};

struct QuirkRow {
  Quirk quirk;
  std::string_view name;
  // The devices with the quirk: the platform's name, a part of the vendor's name, the device's type
  // ("cpu", "gpu"). Empty: any.
  std::string_view platform, vendor, type;
  std::string_view reason;
  std::string_view source;  // a public report or page, or how the quirk was found
};

constexpr uint32_t bit(Quirk quirk) { return 1u << static_cast<uint32_t>(quirk); }

c10::ArrayRef<QuirkRow> quirk_rows();

// Whether a device with these properties has the row's quirk.
bool applies(const QuirkRow& row, const DeviceProperties& properties);

// A bit for each Quirk that a device with these properties has.
uint32_t quirks_of(const DeviceProperties& properties);

}  // namespace ocl
