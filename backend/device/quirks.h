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
  kLowGroupLimits,      // what the driver says of a kernel's largest group is not believed
  kSlowClblast,         // matrix products of all sizes take torch-ocl's own kernels
  kKeepsCompiler,       // programs are made of their binaries once they are compiled
  kReportsHostWidth,    // the variable of the target's name decides the width of vectors
  kBinaryCompiles,      // programs are compiled and linked, and the compiled objects are kept
  kNoLargerBuffers,     // buffers beyond CL_DEVICE_MAX_MEM_ALLOC_SIZE are not tried
};

struct QuirkRow {
  Quirk quirk;
  std::string_view name;
  // Who has it: the platform's name, a part of the vendor's name, the type of the device ("cpu",
  // "gpu"). Empty: any.
  std::string_view platform, vendor, type;
  std::string_view reason;
  std::string_view source;  // where to read more: a public report or page, or how it was found
};

constexpr uint32_t bit(Quirk quirk) { return 1u << static_cast<uint32_t>(quirk); }

c10::ArrayRef<QuirkRow> quirk_rows();

// Whether the row is about a device with these properties.
bool applies(const QuirkRow& row, const DeviceProperties& properties);

// A bit for each Quirk that a device with these properties has.
uint32_t quirks_of(const DeviceProperties& properties);

}  // namespace ocl
