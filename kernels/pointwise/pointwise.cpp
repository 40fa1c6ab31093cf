#include "kernels/pointwise/pointwise.h"

#include <ATen/ceil_div.h>

#include <algorithm>
#include <cstring>

#include "backend/base/error.h"
#include "kernels/core/algorithms/algorithms.h"
#include "kernels/core/operators/check_range.h"
#include "kernels/core/tensors/tensors.h"
#include "kernels/core/types/float8.h"

namespace ocl {
namespace {

constexpr const char* kVectors = "vectors";  // only on GPUs
const OptionalPaths optional({kVectors});

constexpr int kMaxInputs = 5;
constexpr int kMaxOperands = kMaxInputs + 1;
constexpr int kMaxDims = 16;  // after merging adjacent dimensions, as on CUDA
constexpr int kMaxScalars = 4;

// Numbered as in pointwise.clh.
enum Step : uint8_t { kZero, kOne, kAny, kValue, kAbsent, kBack };

// The struct Geometry of pointwise.clh, whose size depends on the number of dimensions.
struct Geometry {
  std::array<int64_t, kMaxDims*(1 + kMaxOperands)> words;
  size_t bytes;
};

// All parameters of a kernel's source except the device.
struct Pointwise {
  struct Choices {
    bool wide_index = false;
    bool stream_out = false;
    bool check_divisor = false;
    bool exact_divisor = false;  // the divisor is one number, which is not rounded
    bool round = false;  // round the result to `type` before its conversion to the output's type
    bool round_inputs = false;  // round inputs of other types to `type` before the operator
    bool round_steps = false;   // round each step to `type` where the CPU computes in several steps
  };

  const PointwiseOp* op;
  const char* expression;
  ScalarType type;     // the operator's common type
  ScalarType compute;  // the type that the kernel computes in
  uint8_t operands;    // number of operands; the output is the first
  uint8_t scalars;
  uint8_t ndim;
  uint8_t width;
  std::array<ScalarType, kMaxOperands> types;
  std::array<Step, kMaxOperands> steps;
  Choices choices;

  bool rounds_input(int i) const {
    return choices.round_inputs && types[i + 1] != type && steps[i + 1] != kValue &&
           !(i == 1 && choices.exact_divisor);
  }
  KernelSource source(Device& device) const;
};

struct Plan {
  at::TensorIteratorBase& iter;
  c10::ArrayRef<c10::Scalar> scalars;
  ScalarType number;  // the type that numbers are rounded to
  Device& device;
  Pointwise kernel;

  int64_t size(int dim) const { return iter.ndim() == 0 ? 1 : iter.shape()[dim]; }
  int64_t stride(int operand, int dim) const {
    return iter.ndim() == 0 ? 0 : iter.strides(operand)[dim];
  }
};

Step step_of(const at::TensorIteratorBase& iter, int operand) {
  if (operand > 0 && iter.is_cpu_scalar(operand)) return kValue;
  if (iter.ndim() == 0) return operand == 0 ? kOne : kZero;
  const int64_t stride = iter.strides(operand)[0];
  if (stride == iter.element_size(operand)) return kOne;
  return stride == 0 && operand > 0 ? kZero : kAny;
}

// Whether the kernel uses no vectors, because of complex numbers or functions of single numbers.
bool one_at_a_time(const Pointwise& kernel) {
  bool result = kernel.op->header || c10::isComplexType(kernel.compute);
  for (int i = 0; i < kernel.operands; ++i) result = result || c10::isComplexType(kernel.types[i]);
  return result;
}

// Whether stores bypass the caches, so that a large output does not evict everything. The output
// must be contiguous, aligned, large, and not in the caches already as an input.
bool streams_out(const Plan& plan) {
  constexpr int64_t kLarge = int64_t{32} << 20;  // bytes, more than last-level caches hold
  const at::TensorIteratorBase& iter = plan.iter;
  if (iter.numel() * iter.element_size(0) < kLarge) return false;
  for (int i = 1; i < iter.ntensors(); ++i) {
    if (iter.data_ptr(i) == iter.data_ptr(0)) return false;
  }
  const Pointwise& kernel = plan.kernel;
  const int64_t vector = kernel.width * iter.element_size(0);
  return kernel.width > 1 && kernel.ndim == 1 && kernel.steps[0] == kOne &&
         iter.dtype(0) == kernel.compute &&
         reinterpret_cast<uintptr_t>(iter.data_ptr(0)) % vector == 0;
}

// Checked here, because the build of the program would fail with a less helpful message.
void check_type(const Device& device, const PointwiseOp& op, ScalarType compute) {
  if (c10::isComplexType(compute)) return;
  const bool fits = !op.has(c10::isFloatingType(compute) ? kIntegral : kFloating) &&
                    !(op.has(kNotBool) && compute == ScalarType::Bool);
  if (!fits) refuse_type(device, compute, op.name);
}

// Whether an element's index or byte offset needs more than 32 bits.
bool is_wide(const at::TensorIteratorBase& iter) {
  if (iter.numel() > INT32_MAX) return true;
  for (int i = 0; i < iter.ntensors(); ++i) {
    int64_t reach = 0;
    for (int d = 0; d < iter.ndim(); ++d) {
      reach += (iter.shape()[d] - 1) * std::abs(iter.strides(i)[d]);
    }
    if (reach > INT32_MAX) return true;
  }
  return false;
}

// Elements that a work-item takes at once.
size_t width_of(const Plan& plan) {
  const Pointwise& kernel = plan.kernel;
  if (one_at_a_time(kernel)) return 1;
  if (plan.device.family() == KernelFamily::kCpu) return vector_lanes(plan.device, kernel.compute);
  const size_t vector = is_disabled(kVectors) ? 1 : plan.device.parameters().vector_width;
  bool dense = plan.size(0) % static_cast<int64_t>(vector) == 0;
  for (int i = 0; i < kernel.operands; ++i) dense = dense && kernel.steps[i] != kAny;
  return dense ? vector : 1;
}

// How numbers are rounded and checked. `given`: the caller chose the type to compute in.
Pointwise::Choices roundings(const at::TensorIteratorBase& iter, const Pointwise& kernel,
                             bool given) {
  const PointwiseOp& op = *kernel.op;
  const ScalarType type = kernel.type, out = iter.dtype(0);
  const bool converts = kernel.compute != type, integral = c10::isIntegralType(out, true);
  Pointwise::Choices choices;
  choices.check_divisor = op.has(kDivides) && c10::isIntegralType(type, /*includeBool=*/false);
  choices.exact_divisor = op.has(kExactOperands) && iter.ninputs() > 1 && iter.is_scalar(2);
  choices.round = !given && out != type && (type == ScalarType::Bool || (converts && !integral)) &&
                  !op.has(kTruth);
  choices.round_inputs = !given && converts;
  // If the divisor is a single number, the CPU computes in float32.
  choices.round_steps = converts && !choices.exact_divisor && !op.has(kConverts);
  return choices;
}

Plan make_plan(at::TensorIteratorBase& iter, const PointwiseOp& op,
               c10::ArrayRef<c10::Scalar> scalars, std::optional<ScalarType> compute) {
  TORCH_INTERNAL_ASSERT(iter.noutputs() == 1 && iter.ntensors() <= kMaxOperands &&
                        scalars.size() <= kMaxScalars);
  ScalarType chosen = compute               ? *compute
                      : iter.ninputs() == 0 ? iter.dtype(0)
                                            : iter.common_dtype();
  // float16 tensors compared with a complex number have the common type complex32, to which only
  // the number is rounded.
  ScalarType number = chosen;
  if (chosen == ScalarType::ComplexHalf) chosen = ScalarType::ComplexFloat;
  if (op.has(kExactOperands)) number = compute_type(chosen);
  Device& where = device(iter.device(0).index());
  const bool complex = c10::isComplexType(chosen);
  const char* expression = complex ? op.complex_expression : op.expression;
  TORCH_CHECK_NOT_IMPLEMENTED(expression, op.name, " is not implemented for ocl (", chosen, ")");
  const ScalarType rounded = compute_type(chosen);
  check_device_has(where, rounded, op.name);
  Pointwise kernel{.op = &op,
                   .expression = expression,
                   .type = chosen,
                   .compute = rounded,
                   .operands = static_cast<uint8_t>(iter.ntensors()),
                   .scalars = static_cast<uint8_t>(scalars.size()),
                   .ndim = static_cast<uint8_t>(std::max(iter.ndim(), 1)),
                   .width = 1,
                   .types = {},
                   .steps = {},
                   .choices = {}};
  for (int i = 0; i < iter.ntensors(); ++i) {
    kernel.types[i] = iter.dtype(i);
    kernel.steps[i] = step_of(iter, i);
    // The host converts a number, so its type (float64 for a Python float) does not matter.
    if (kernel.steps[i] != kValue) check_device_has(where, iter.dtype(i), op.name);
  }
  kernel.choices = roundings(iter, kernel, compute.has_value());
  Plan plan{iter, scalars, number, where, kernel};
  plan.kernel.width = static_cast<uint8_t>(width_of(plan));
  const bool cpu = where.family() == KernelFamily::kCpu;
  // flip() writes its output backwards.
  if (cpu && plan.kernel.width > 1 && iter.ndim() > 0 &&
      iter.strides(0)[0] == -static_cast<int64_t>(iter.element_size(0))) {
    plan.kernel.steps[0] = kBack;
  }
  plan.kernel.choices.stream_out = cpu && streams_out(plan);
  plan.kernel.choices.wide_index = !cpu && is_wide(iter);
  return plan;
}

KernelSource Pointwise::source(Device& device) const {
  check_type(device, *op, compute);
  const bool cpu = device.family() == KernelFamily::kCpu;
  std::string name(op->name);
  if (ndim > 1) name += "_strided";
  Defines defines = compute_defines(compute);
  const auto type_name = op->has(kConverts) ? &converted_name : &dtype_name;
  for (int i = operands - 1; i >= 0; --i) {
    name += str("_", type_name(types[i]));
    define_float8(defines, types[i]);
  }
  defines.set("KERNEL", name)
      .set("WIDTH", width)
      .set("NDIM", ndim)
      .set("INPUTS", operands - 1)
      .set("OUT", type_name(types[0]))
      .set("STEP_OUT", static_cast<int64_t>(steps[0]));
  for (int i = 0; i < kMaxInputs; ++i) {
    const bool present = i < operands - 1;
    if (present) defines.set(str("IN", i), type_name(types[i + 1]));
    if (present && rounds_input(i)) {
      defines.set(str("FIT", i, "(x)"), str("ROUNDED_", dtype_name(type), "(x)"));
    }
    defines.set(str("STEP", i), static_cast<int64_t>(present ? steps[i + 1] : kAbsent));
  }
  std::string numbers;
  for (size_t i = 0; i < scalars; ++i) numbers += str(", const T s", i);
  // OpenCL C promotes a single number of 8 or 16 bits to int; a vector wraps in its own type.
  const bool wraps = width == 1 && c10::isIntegralType(compute, /*includeBool=*/false);
  const std::string rounding = choices.round ? str("ROUNDED_", dtype_name(type))
                               : wraps       ? "(T)"
                                             : "";
  defines.set("SCALARS", numbers).set("EXPR", str(rounding, "(", expression, ")"));
  if (c10::isComplexType(types[0])) defines.set("OUT_IS_COMPLEX", 1);
  if (choices.stream_out) defines.set("STREAM_OUT", 1);
  if (choices.round_steps) defines.set("ROUNDED(x)", str("ROUNDED_", dtype_name(type), "(x)"));
  if (choices.check_divisor) defines.set("CHECK_DIVISOR", 1);
  if (op->header) defines.set(str("USES_", op->header), 1);
  if (!cpu) {
    defines.set("INDEX", choices.wide_index ? "ulong" : "uint");
    defines.set("OFFSET_TYPE", choices.wide_index ? "long" : "int");
  }
  return {cpu ? "pointwise_cpu.cl" : "pointwise_gpu.cl", name, defines};
}

Geometry make_geometry(const Plan& plan) {
  Geometry geometry;
  const int operands = plan.iter.ntensors();
  for (int d = 0; d < plan.kernel.ndim; ++d) {
    geometry.words[d] = plan.size(d);
    for (int i = 0; i < operands; ++i) {
      geometry.words[plan.kernel.ndim * (1 + i) + d] = plan.stride(i, d);
    }
  }
  if (plan.device.family() == KernelFamily::kGpu) {
    const auto width = int64_t{plan.kernel.width};
    geometry.words[0] /= width;
    for (int i = 0; i < operands; ++i) geometry.words[plan.kernel.ndim * (1 + i)] *= width;
  }
  geometry.bytes = sizeof(int64_t) * plan.kernel.ndim * (1 + operands);
  return geometry;
}

}  // namespace

void pointwise(at::TensorIteratorBase& iter, const PointwiseOp& op,
               c10::ArrayRef<c10::Scalar> scalars, std::optional<ScalarType> compute) {
  if (iter.numel() == 0) return;
  TORCH_CHECK(iter.ndim() <= kMaxDims, op.name, ": tensors of ", iter.ndim(),
              " dimensions that cannot be joined are beyond the ", kMaxDims, " that ocl supports");
  const Plan plan = make_plan(iter, op, scalars, compute);
  const Kernel& kernel = find_kernel(plan.device, plan.kernel);
  Stream& stream = current_stream(plan.device.index());
  Arguments arguments(stream, kernel);
  for (int i = 0; i < iter.ntensors(); ++i) {
    if (plan.kernel.steps[i] == kValue) {
      add_element(arguments, iter.tensor_base(i), plan.number, plan.kernel.compute);
    } else {
      arguments.add(resolve(iter.data_ptr(i)));
    }
  }
  for (const c10::Scalar& scalar : scalars) {
    add_number(arguments, op.has(kNumbersFit) ? as_element(scalar, plan.kernel.type) : scalar,
               plan.kernel.compute);
  }
  const Geometry geometry = make_geometry(plan);
  arguments.add_bytes(geometry.words.data(), geometry.bytes);

  const auto numel = static_cast<size_t>(iter.numel());
  const DeviceParameters& parameters = plan.device.parameters();
  if (plan.device.family() == KernelFamily::kGpu) {
    const size_t items = numel / plan.kernel.width;
    const size_t group = kernel.group;
    arguments.add(uint64_t{items});
    if (plan.kernel.choices.check_divisor) arguments.add(FaultArgument{zero_division_site()});
    arguments.enqueue({at::round_up(items, group)}, {group});
    return;
  }
  // Long rows are split into segments; a task gets several short rows.
  const size_t inner = static_cast<size_t>(plan.size(0)), rows = numel / inner;
  const size_t tasks = std::clamp<size_t>(numel / parameters.grain, 1, parameters.tasks);
  const size_t per_row = std::max<size_t>(1, tasks / rows);
  const size_t lanes = at::ceil_div(inner, size_t{plan.kernel.width});
  const size_t segment = at::ceil_div(lanes, per_row) * plan.kernel.width;
  const size_t segments = rows * at::ceil_div(inner, segment);
  const size_t per_task = at::ceil_div(segments, tasks);
  arguments.add(uint64_t{inner}).add(uint64_t{rows}).add(uint64_t{segment}).add(uint64_t{per_task});
  if (plan.kernel.choices.check_divisor) arguments.add(FaultArgument{zero_division_site()});
  arguments.enqueue({at::ceil_div(segments, per_task)}, {1});
}

}  // namespace ocl
