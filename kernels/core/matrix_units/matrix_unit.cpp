#include "kernels/core/matrix_units/matrix_unit.h"

#include <ATen/cpu/Utils.h>
#include <c10/core/DeviceGuard.h>

#include "backend/base/binary_file.h"
#include "backend/base/environment.h"
#include "backend/base/error.h"
#include "backend/launch/launch.h"
#include "backend/memory/allocator.h"
#include "backend/memory/transfer.h"
#include "kernels/core/matrix_units/matrix_unit_table.h"

namespace ocl {
namespace {

constexpr ScalarType kTypes[] = {ScalarType::Half, ScalarType::BFloat16, ScalarType::Char};

enum class Use : uint8_t { kOff, kOn, kEmulated };

Use use() {
  static const Use chosen = [] {
    constexpr const char* kVariable = "OCL_MATRIX_UNITS";
    const std::string text = environment(kVariable, "1");
    if (text == "0") return Use::kOff;
    if (text == "emulate") return Use::kEmulated;
    TORCH_CHECK_VALUE(text == "1" || text.empty(), kVariable,
                      " must be \"0\", \"1\" or \"emulate\", not \"", printable(text), "\"");
    return Use::kOn;
  }();
  return chosen;
}

std::atomic<const MatrixUnit*> emulated{kMatrixUnits};  // the unit that GPU kernels emulate

const MatrixUnit* emulated_unit(KernelFamily family) {
  if (family == KernelFamily::kGpu) return emulated.load(std::memory_order_relaxed);
  return std::ranges::find(kMatrixUnits, family, &MatrixUnit::family);
}

// A process must ask Linux for permission to use AMX; without it, an instruction ends the process.
// So this asks before any kernel runs, also if the probe's answer is in the cache. It asks at the
// first use, not earlier: with the permission, threads need larger stacks for signals.
bool is_permitted(const MatrixUnit& unit) {
  if (unit.family == KernelFamily::kGpu || emulates_matrix_units()) return true;
  static const bool amx = at::cpu::init_amx();
  return amx;
}

enum class Answer : uint8_t { kUnknown, kRight, kWrong, kNotCompiled };

struct Probe {
  const MatrixUnit* unit;
  ScalarType type;

  KernelSource source(Device&) const {
    Defines defines;
    define_matrix_unit(defines, *unit, type);
    return {unit->family == KernelFamily::kGpu ? "matrix_unit_probe_gpu.cl"
                                               : "matrix_unit_probe_cpu.cl",
            "probe_matrix_unit", defines};
  }

  // The number of work-items, of sums that each of them compares, and of words of memory after
  // their counts.
  int64_t items() const { return unit->family == KernelFamily::kGpu ? 2 * unit->lanes : 1; }
  int64_t sums() const {
    const UnitShape& shape = *unit->shape(type);
    const int64_t matrix = shape.m * shape.n;
    return unit->family == KernelFamily::kGpu ? matrix / unit->lanes : 4 * matrix;  // four tiles
  }
  int64_t space() const { return unit->family == KernelFamily::kGpu ? 0 : 5136; }
};

// The key of the stored answer: the device, its driver, and the probe.
std::string file_key(Device& device, const Probe& probe) {
  const DeviceProperties& p = device.properties();
  const KernelSource source = probe.source(device);
  return str("matrix unit\n", p.platform, '\n', p.name, '\n', p.driver_version, '\n',
             p.type == "cpu" ? host_target() : "", '\n', source.defines.text(),
             kernel_source(source.file));
}

Answer kept_answer(const std::string& key) {
  const auto text = read_binary(binary_path(key), key);
  if (!text) return Answer::kUnknown;
  return *text == "right" ? Answer::kRight : Answer::kWrong;
}

const Kernel* find_probe(Device& device, const Probe& probe) {
  try {
    return &find_kernel(device, probe);
  } catch (const c10::Error&) {
    return nullptr;
  }
}

Answer run_probe(Device& device, Stream& stream, const Probe& probe) {
  const Kernel* kernel = find_probe(device, probe);
  if (!kernel) return Answer::kNotCompiled;
  // Allocates no tensor: while a program is traced, at::empty() gives a tensor without memory.
  const c10::DeviceGuard guard({c10::kPrivateUse1, device.index()});
  const auto items = static_cast<size_t>(probe.items()), space = static_cast<size_t>(probe.space());
  std::vector<int32_t> right(items);
  const c10::DataPtr memory = Allocator::instance().allocate((items + space) * sizeof(int32_t));
  const BufferView place = resolve(memory.get());
  launch(stream, *kernel, {items}, {items}, place);
  copy_to_host(stream, right.data(), place, items * sizeof(int32_t));
  const bool all = std::ranges::all_of(right, [&](int32_t count) { return count == probe.sums(); });
  return all ? Answer::kRight : Answer::kWrong;
}

Answer answer_of(Device& device, Stream& stream, const Probe& probe) {
  const std::string key = file_key(device, probe);
  Answer answer = kept_answer(key);
  if (answer != Answer::kUnknown || stream.captured()) return answer;
  answer = run_probe(device, stream, probe);
  if (answer != Answer::kNotCompiled) {
    write_binary(binary_path(key), key, answer == Answer::kRight ? "right" : "wrong");
  }
  return answer;
}

std::atomic<Answer>& known_answer(const Device& device, const MatrixUnit& unit, ScalarType type) {
  static std::array<
      std::array<std::array<std::atomic<Answer>, std::size(kTypes)>, std::size(kMatrixUnits)>,
      kMaxDevices>
      answers{};
  const auto row = static_cast<size_t>(&unit - kMatrixUnits);
  const auto column = static_cast<size_t>(std::ranges::find(kTypes, type) - kTypes);
  return answers[static_cast<size_t>(device.index())][row][column];
}

void warn_of(const Device& device, const Probe& probe) {
  TORCH_WARN("ocl: the matrix unit ", probe.unit->name, " of ", device.label(),
             " computed wrong sums of products of ", probe.type,
             ". It is not used for them; other kernels compute the same. Please report the device "
             "and its driver; see docs/matrix_units.md");
}

}  // namespace

const UnitShape* MatrixUnit::shape(ScalarType type) const {
  const UnitShape* found = type == ScalarType::Half       ? &f16
                           : type == ScalarType::BFloat16 ? &bf16
                           : type == ScalarType::Char     ? &i8
                                                          : nullptr;
  return found && found->k ? found : nullptr;
}

std::span<const MatrixUnit> matrix_units() { return kMatrixUnits; }

const MatrixUnit* matrix_unit_of(const Processor& processor) {
  const auto* found = std::ranges::find_if(
      kMatrixUnits, [&](const MatrixUnit& unit) { return unit.has(processor); });
  return found == std::end(kMatrixUnits) ? nullptr : found;
}

const MatrixUnit* matrix_unit(const Device& device) {
  if (emulates_matrix_units()) return emulated_unit(device.family());
  static std::array<std::atomic<const MatrixUnit*>, kMaxDevices> units{};
  static std::array<std::atomic<bool>, kMaxDevices> asked{};
  const auto index = static_cast<size_t>(device.index());
  if (!asked[index].load(std::memory_order_acquire)) {
    units[index].store(matrix_unit_of(processor_of(device)), std::memory_order_relaxed);
    asked[index].store(true, std::memory_order_release);
  }
  return units[index].load(std::memory_order_relaxed);
}

const char* refusal_of_matrix_unit(Device& device, ScalarType type) {
  if (use() == Use::kOff) return "OCL_MATRIX_UNITS=0";
  const MatrixUnit* const unit = matrix_unit(device);
  if (!unit) return "no matrix unit of the device is known";
  if (!unit->shape(type)) return "the matrix unit lacks the type";
  if (!is_permitted(*unit)) return "the system does not permit the matrix unit";
  std::atomic<Answer>& known = known_answer(device, *unit, type);
  Answer answer = known.load(std::memory_order_relaxed);
  if (answer == Answer::kUnknown) {
    answer = answer_of(device, current_stream(device.index()), {unit, type});
    if (answer == Answer::kUnknown) return "the matrix unit was not probed before the capture";
    Answer before = Answer::kUnknown;
    const bool first = known.compare_exchange_strong(before, answer);
    if (first && answer == Answer::kWrong) warn_of(device, {unit, type});
  }
  if (answer == Answer::kRight) return nullptr;
  return answer == Answer::kWrong ? "the probe of the matrix unit computed wrong sums"
                                  : "the compiler does not take the matrix unit's instructions";
}

bool emulates_matrix_units() { return use() == Use::kEmulated; }

void define_matrix_unit(Defines& defines, const MatrixUnit& unit, ScalarType type) {
  const UnitShape& shape = *unit.shape(type);
  defines.set(str("UNIT_", unit.name), 1)
      .set(str("OPERAND_", dtype_name(type)), 1)
      .set("UNIT_LANES", unit.lanes)
      .set("UNIT_M", shape.m)
      .set("UNIT_N", shape.n)
      .set("UNIT_K", shape.k)
      .set("UNIT_EMULATED", emulates_matrix_units());
}

std::string describe_matrix_unit(const Device& device) {
  const MatrixUnit* const unit = matrix_unit(device);
  if (!unit) return "none";
  std::vector<std::string> types;
  for (const ScalarType type : kTypes) {
    if (unit->shape(type)) types.emplace_back(dtype_name(type));
  }
  return str(unit->name, ": ", c10::Join(", ", types));
}

std::vector<std::string_view> matrix_unit_names() {
  std::vector<std::string_view> names;
  for (const MatrixUnit& unit : kMatrixUnits) {
    if (unit.family == KernelFamily::kGpu) names.emplace_back(unit.name);
  }
  return names;
}

void emulate_matrix_unit(std::string_view name) {
  const auto* found = std::ranges::find(kMatrixUnits, name, &MatrixUnit::name);
  const bool is_known = found != std::end(kMatrixUnits) && found->family == KernelFamily::kGpu;
  TORCH_CHECK_VALUE(is_known, "there is no matrix unit '", printable(std::string(name)),
                    "'; there are ", c10::Join(", ", matrix_unit_names()));
  emulated.store(found, std::memory_order_relaxed);
}

}  // namespace ocl
