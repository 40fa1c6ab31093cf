#include "backend/device/quirks.h"

#include "backend/device/device.h"

namespace ocl {
namespace {

constexpr std::string_view kPocl = "Portable Computing Language", kIntelCpu = "Intel(R) OpenCL",
                           kRusticl = "rusticl";

constexpr QuirkRow kRows[] = {
    {Quirk::kFirstLaunchAlone, "first launch alone", kPocl, "", "",
     "PoCL compiles a kernel at its first launch, and aborts the process when two queues do so at "
     "once (pocl_release_dlhandle_cache: Assertion `found->ref_count > 0').",
     "tests/python/runtime/test_threads.py on PoCL 3.1"},
    {Quirk::kFinishNeedsCommand, "clFinish needs a command", kRusticl, "", "",
     "clFinish() waits only if there are commands that were not flushed yet.",
     "found with Mesa 22.3; clvk had the same defect: https://github.com/kpet/clvk/issues/241"},
    {Quirk::kShortLoops, "short loops", kRusticl, "", "cpu",
     "llvmpipe silently ends the loops of a work-item after 65535 iterations in all.",
     "LP_MAX_TGSI_LOOP_ITERATIONS in Mesa's src/gallium/auxiliary/gallivm/lp_bld_limits.h"},
    {Quirk::kCopiesHostMemory, "copies host memory", kRusticl, "", "",
     "A buffer over host memory shares it at first, but its first kernel works on a copy.",
     "found with Mesa 22.3"},
    {Quirk::kWaitRunsCommands, "waiting runs commands", kIntelCpu, "", "cpu",
     "A thread in clWaitForEvents() or clFinish() runs the commands of the queue, also those after "
     "the event. It is one of the runtime's workers: other waits, also of blocking copies, leave a "
     "processor idle.",
     "found with intel-opencl-rt 2025.1"},
    {Quirk::kSlowWideTiles, "slow wide tiles", kIntelCpu, "", "",
     "The compiler makes slower code of register tiles of 6 x 4 vectors than of 12 x 2.",
     "make bench, channels_last convolutions with AVX-512"},
    {Quirk::kTableByCopy, "table by copy", kRusticl, "", "cpu",
     "llvmpipe crashes where a loop indexes an array within a kernel argument.",
     "found with Mesa 22.3"},
    {Quirk::kLowGroupLimits, "low group limits", kRusticl, "", "cpu",
     "CL_KERNEL_WORK_GROUP_SIZE is 32 for each kernel, also for one that requires a group of 256. "
     "Groups of 32 would meet the limit of llvmpipe's loops.",
     "found with Mesa 22.3"},
    {Quirk::kFewRegisters, "few registers", "", "Intel", "gpu",
     "A kernel that needs a little more than the 4 KiB of registers of a thread has all its sums "
     "in memory.",
     "make gpu-check; https://github.com/openvinotoolkit/openvino/pull/37496"},
    {Quirk::kKeepsCompiler, "keeps compiler", kIntelCpu, "", "cpu",
     "A program that was compiled from source holds what the compiler made: at least 1.8 MB, and "
     "0.4 MB when it is made of its binary, which takes less than a millisecond.",
     "200 programs of one line with intel-opencl-rt 2026.2"},
    {Quirk::kReportsHostWidth, "reports host width", kIntelCpu, "", "cpu",
     "CL_DEVICE_NATIVE_VECTOR_WIDTH_FLOAT is the host's, also where CL_CONFIG_CPU_TARGET_ARCH "
     "names "
     "a processor with shorter vectors.",
     "clGetDeviceInfo() with core-avx2 on a host with AVX-512, intel-opencl-rt 2026.2"},
    {Quirk::kBinaryCompiles, "binary compiles", kPocl, "", "cpu",
     "PoCL compiles each kernel for its group size at the launch, and once more for any group size "
     "when it is asked for the binary of a program that can be launched. The specialised kernel "
     "stays in PoCL's own cache, which an object that is linked again finds by its content. A link "
     "removes a file of this cache and writes it anew, as a compilation does: other processes fail "
     "or crash meanwhile, so each program has a lock (build_lock.h).",
     "pocl_driver_build_poclbinary() in lib/CL/devices/common_driver.c; first use of an operator "
     "with PoCL 3.1, half the time without; pocl_write_file() in lib/CL/pocl_file_util.c"},
    {Quirk::kNoLargerBuffers, "no larger buffers", "", "Intel", "gpu",
     "Kernels that are compiled without a flag of Intel's compute wrong results in buffers of more "
     "than 4 GiB.",
     "https://github.com/intel/compute-runtime/issues/627"},
};

}  // namespace

c10::ArrayRef<QuirkRow> quirk_rows() { return kRows; }

bool applies(const QuirkRow& row, const DeviceProperties& p) {
  return (row.platform.empty() || row.platform == p.platform) &&
         p.vendor.find(row.vendor) != std::string::npos && (row.type.empty() || row.type == p.type);
}

uint32_t quirks_of(const DeviceProperties& p) {
  uint32_t bits = 0;
  for (const QuirkRow& row : kRows) {
    if (applies(row, p)) bits |= bit(row.quirk);
  }
  return bits;
}

}  // namespace ocl
