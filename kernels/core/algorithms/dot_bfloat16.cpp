#include "kernels/core/algorithms/dot_bfloat16.h"

#include <c10/core/DeviceGuard.h>

#include "backend/base/system.h"
#include "backend/launch/launch.h"
#include "backend/memory/allocator.h"
#include "backend/memory/transfer.h"
#include "kernels/core/grids/vector_registers.h"

namespace ocl {
namespace {

enum class Answer : uint8_t { kUnknown, kYes, kNo };

bool host_has_instruction() {
  static const bool has = host_instruction_sets().find("avx512_bf16") != std::string::npos;
  return has;
}

struct Probe {
  KernelSource source(Device&) const {
    return {"dot_bfloat16_probe_cpu.cl", "probe_dot_bfloat16", {}};
  }
};

const Kernel* find_probe(Device& device) {
  try {
    return &find_kernel(device, Probe{});
  } catch (const c10::Error&) {
    return nullptr;
  }
}

// A compiler may reject assembly, not know the instructions, or understand the constraints
// differently.
Answer probe(Device& device, Stream& stream) {
  const Kernel* kernel = find_probe(device);
  if (!kernel) return Answer::kNo;
  // Allocates no tensor: while a program is traced, at::empty() gives a tensor without memory.
  const c10::DeviceGuard guard({c10::kPrivateUse1, device.index()});
  int32_t matches = 0;
  const c10::DataPtr memory = Allocator::instance().allocate(sizeof matches);
  const BufferView place = resolve(memory.get());
  launch(stream, *kernel, {1}, {}, place);
  copy_to_host(stream, &matches, place, sizeof matches);
  return matches == 1 ? Answer::kYes : Answer::kNo;
}

}  // namespace

const char* refusal_of_dot_bfloat16(Device& device) {
  static std::array<std::atomic<Answer>, kMaxDevices> answers{};
  if (device.family() != KernelFamily::kCpu) return "for CPU devices";
  if (!has_wide_registers(device) || !host_has_instruction()) {
    return "the processor has no AVX512_BF16";
  }
  if (device.parameters().vector_width != 16) return "vectors have another width than 16";
  std::atomic<Answer>& answer = answers[static_cast<size_t>(device.index())];
  Answer found = answer.load(std::memory_order_relaxed);
  if (found == Answer::kUnknown) {
    Stream& stream = current_stream(device.index());
    if (stream.captured()) return "not probed before the capture";
    found = probe(device, stream);
    answer.store(found, std::memory_order_relaxed);
  }
  return found == Answer::kYes ? nullptr : "the probe of AVX512_BF16 failed";
}

}  // namespace ocl
