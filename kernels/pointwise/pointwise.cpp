#include "kernels/pointwise/pointwise.h"

#include <ATen/ceil_div.h>
#include <algorithm>
#include <cstring>

#include "backend/error.h"
#include "kernels/core/algorithms.h"
#include "kernels/core/float8.h"
#include "kernels/core/tensors.h"

namespace ocl {
namespace {

constexpr const char* kVectors = "vectors";  // of GPUs
const OptionalPaths optional({kVectors});

constexpr int kMaxInputs = 5;
constexpr int kMaxOperands = kMaxInputs + 1;
constexpr int kMaxDims = 16;  // after adjacent dimensions were joined, as on CUDA
constexpr int kMaxScalars = 4;

// Numbered as in pointwise.clh.
enum Step : uint64_t { kZero, kOne, kAny, kValue, kAbsent, kBack };

// The struct Geometry of pointwise.clh, whose size depends on the number of dimensions.
struct Geometry {
  std::array<int64_t, kMaxDims*(1 + kMaxOperands)> words;
  size_t bytes;
};

struct Plan {
  at::TensorIteratorBase& iter;
  const PointwiseOp& op;
  const char* expression;
  c10::ArrayRef<c10::Scalar> scalars;
  ScalarType number;   // the type that numbers are rounded to
  ScalarType type;     // the operator's common type
  ScalarType compute;  // the type that the kernel computes in
  Device& device;
  int ndim;
  std::array<Step, kMaxOperands> steps{};
  size_t width = 1;
  bool wide_index = false;
  bool stream_out = false;
  bool check_divisor = false;
  bool round = false;  // round the result to `type` before its conversion to the output's type
  bool round_inputs = false;  // round inputs of other types to `type` before the operator
  bool round_steps = false;   // round each step to `type` where the CPU computes in several steps

  int inputs() const { return iter.ntensors() - 1; }
  bool has_exact_divisor() const {
    return op.has(kExactOperands) && iter.ninputs() > 1 && iter.is_scalar(2);
  }
  bool rounds_input(int i) const {
    return round_inputs && iter.dtype(i + 1) != type && steps[i + 1] != kValue &&
           !(i == 1 && has_exact_divisor());
  }
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

// Whether kernels use no vectors: for complex numbers, and for functions of single numbers.
bool one_at_a_time(const Plan& plan) {
  bool result = plan.op.header || c10::isComplexType(plan.compute);
  for (int i = 0; i < plan.iter.ntensors(); ++i) {
    result = result || c10::isComplexType(plan.iter.dtype(i));
  }
  return result;
}

// Whether stores of the output bypass the caches, which it would fill. It must be contiguous,
// aligned, large, and not in the caches already as an input.
bool streams_out(const Plan& plan) {
  constexpr int64_t kLarge = int64_t{32} << 20;  // bytes; no last-level cache keeps more of it
  const at::TensorIteratorBase& iter = plan.iter;
  if (iter.numel() * iter.element_size(0) < kLarge) return false;
  for (int i = 1; i < iter.ntensors(); ++i) {
    if (iter.data_ptr(i) == iter.data_ptr(0)) return false;
  }
  const auto vector = static_cast<int64_t>(plan.width) * iter.element_size(0);
  return plan.width > 1 && plan.ndim == 1 && plan.steps[0] == kOne &&
         iter.dtype(0) == plan.compute &&
         reinterpret_cast<uintptr_t>(iter.data_ptr(0)) % vector == 0;
}

// Checks before the program is built, which would fail with a less helpful message.
void check_type(const Plan& plan) {
  if (c10::isComplexType(plan.compute)) return;
  const bool fits = !plan.op.has(c10::isFloatingType(plan.compute) ? kIntegral : kFloating) &&
                    !(plan.op.has(kNotBool) && plan.compute == ScalarType::Bool);
  if (!fits) refuse_type(plan.device, plan.compute, plan.op.name);
}

// Whether a number of an element or an offset in bytes needs more than 32 bits.
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

Plan make_plan(at::TensorIteratorBase& iter, const PointwiseOp& op,
               c10::ArrayRef<c10::Scalar> scalars, std::optional<ScalarType> compute) {
  TORCH_INTERNAL_ASSERT(iter.noutputs() == 1 && iter.ntensors() <= kMaxOperands &&
                        scalars.size() <= kMaxScalars);
  ScalarType chosen = compute               ? *compute
                      : iter.ninputs() == 0 ? iter.dtype(0)
                                            : iter.common_dtype();
  // float16 tensors compared with a complex number have the common type complex32. Only the number
  // has to be rounded to it.
  ScalarType number = chosen;
  if (chosen == ScalarType::ComplexHalf) chosen = ScalarType::ComplexFloat;
  if (op.has(kExactOperands)) number = compute_type(chosen);
  Device& where = device(iter.device(0).index());
  const bool complex = c10::isComplexType(chosen);
  const char* expression = complex ? op.complex_expression : op.expression;
  TORCH_CHECK_NOT_IMPLEMENTED(expression, op.name, " is not implemented for ocl (", chosen, ")");
  Plan plan{iter,
            op,
            expression,
            scalars,
            number,
            chosen,
            compute_type(chosen),
            where,
            std::max(iter.ndim(), 1)};
  plan.check_divisor = op.has(kDivides) && c10::isIntegralType(chosen, /*includeBool=*/false);
  const ScalarType out = iter.dtype(0);
  plan.round =
      !compute && out != chosen &&
      (chosen == ScalarType::Bool || (plan.compute != chosen && !c10::isIntegralType(out, true))) &&
      !op.has(kTruth);
  plan.round_inputs = !compute && plan.compute != chosen;
  // With one divisor for all elements, the CPU computes in float32.
  plan.round_steps = plan.compute != chosen && !plan.has_exact_divisor() && !op.has(kConverts);
  check_device_has(where, plan.compute, op.name);
  for (int i = 0; i < iter.ntensors(); ++i) {
    plan.steps[i] = step_of(iter, i);
    // The host converts a number, so its type (float64 for a Python float) does not matter.
    if (plan.steps[i] != kValue) check_device_has(where, iter.dtype(i), op.name);
  }
  if (one_at_a_time(plan)) {
    plan.width = 1;
  } else if (where.family() == KernelFamily::kCpu) {
    plan.width = vector_lanes(where, plan.compute);
  } else {
    const size_t vector = is_disabled(kVectors) ? 1 : where.parameters().vector_width;
    bool dense = plan.size(0) % static_cast<int64_t>(vector) == 0;
    for (int i = 0; i < iter.ntensors(); ++i) dense = dense && plan.steps[i] != kAny;
    plan.width = dense ? vector : 1;
  }
  // flip() walks its output backwards.
  if (where.family() == KernelFamily::kCpu && plan.width > 1 && iter.ndim() > 0 &&
      iter.strides(0)[0] == -static_cast<int64_t>(iter.element_size(0))) {
    plan.steps[0] = kBack;
  }
  plan.stream_out = where.family() == KernelFamily::kCpu && streams_out(plan);
  plan.wide_index = where.family() == KernelFamily::kGpu && is_wide(iter);
  return plan;
}

KernelKey make_key(const Plan& plan) {
  KernelKey key{&plan.op};
  key.by[0] = static_cast<uint64_t>(plan.compute);
  for (int i = 0; i < plan.iter.ntensors(); ++i) {
    key.by[0] = key.by[0] << 8 | static_cast<uint64_t>(plan.iter.dtype(i));
    key.by[1] = key.by[1] << 3 | plan.steps[i];
  }
  const uint64_t narrow = plan.compute != plan.type ? static_cast<uint64_t>(plan.type) : 0xFF;
  const uint64_t rounding = narrow << 3 | uint64_t{plan.round_inputs} << 2 |
                            uint64_t{plan.round_steps} << 1 | uint64_t{plan.round};
  key.by[2] = rounding << 40 | static_cast<uint64_t>(plan.ndim) << 32 | plan.scalars.size() << 16 |
              plan.width << 2 | (plan.stream_out ? 2 : 0) | (plan.wide_index ? 1 : 0);
  key.by[3] = reinterpret_cast<uint64_t>(plan.expression);
  return key;
}

KernelSource make_source(const Plan& plan) {
  check_type(plan);
  const bool cpu = plan.device.family() == KernelFamily::kCpu;
  std::string name(plan.op.name);
  if (plan.ndim > 1) name += "_strided";
  Defines defines = compute_defines(plan.compute);
  const auto type_name = plan.op.has(kConverts) ? &converted_name : &dtype_name;
  for (int i = plan.iter.ntensors() - 1; i >= 0; --i) {
    name += str("_", type_name(plan.iter.dtype(i)));
    define_float8(defines, plan.iter.dtype(i));
  }
  defines.set("KERNEL", name)
      .set("WIDTH", static_cast<int64_t>(plan.width))
      .set("NDIM", plan.ndim)
      .set("INPUTS", plan.inputs())
      .set("OUT", type_name(plan.iter.dtype(0)))
      .set("STEP_OUT", static_cast<int64_t>(plan.steps[0]));
  for (int i = 0; i < kMaxInputs; ++i) {
    const bool present = i < plan.inputs();
    if (present) defines.set(str("IN", i), type_name(plan.iter.dtype(i + 1)));
    if (present && plan.rounds_input(i)) {
      defines.set(str("FIT", i, "(x)"), str("ROUNDED_", dtype_name(plan.type), "(x)"));
    }
    defines.set(str("STEP", i), static_cast<int64_t>(present ? plan.steps[i + 1] : kAbsent));
  }
  std::string scalars;
  for (size_t i = 0; i < plan.scalars.size(); ++i) scalars += str(", const T s", i);
  // A single number of 8 or 16 bits is promoted to int; a vector wraps in its own type.
  const bool wraps = plan.width == 1 && c10::isIntegralType(plan.compute, /*includeBool=*/false);
  const std::string rounding = plan.round ? str("ROUNDED_", dtype_name(plan.type))
                               : wraps    ? "(T)"
                                          : "";
  defines.set("SCALARS", scalars).set("EXPR", str(rounding, "(", plan.expression, ")"));
  if (c10::isComplexType(plan.iter.dtype(0))) defines.set("OUT_IS_COMPLEX", 1);
  if (plan.stream_out) defines.set("STREAM_OUT", 1);
  if (plan.round_steps) defines.set("ROUNDED(x)", str("ROUNDED_", dtype_name(plan.type), "(x)"));
  if (plan.check_divisor) defines.set("CHECK_DIVISOR", 1);
  if (plan.op.header) defines.set(str("USES_", plan.op.header), 1);
  if (!cpu) {
    defines.set("INDEX", plan.wide_index ? "ulong" : "uint");
    defines.set("OFFSET_TYPE", plan.wide_index ? "long" : "int");
  }
  return {cpu ? "pointwise_cpu.cl" : "pointwise_gpu.cl", name, defines};
}

Geometry make_geometry(const Plan& plan) {
  Geometry geometry;
  const int operands = plan.iter.ntensors();
  for (int d = 0; d < plan.ndim; ++d) {
    geometry.words[d] = plan.size(d);
    for (int i = 0; i < operands; ++i) {
      geometry.words[plan.ndim * (1 + i) + d] = plan.stride(i, d);
    }
  }
  if (plan.device.family() == KernelFamily::kGpu) {
    const auto width = static_cast<int64_t>(plan.width);
    geometry.words[0] /= width;
    for (int i = 0; i < operands; ++i) geometry.words[plan.ndim * (1 + i)] *= width;
  }
  geometry.bytes = sizeof(int64_t) * plan.ndim * (1 + operands);
  return geometry;
}

FaultArgument zero_division() {
  static const int site = fault_site({"ZeroDivisionError", FaultClass::kRuntime, "", ""});
  return {site};
}

}  // namespace

void pointwise(at::TensorIteratorBase& iter, const PointwiseOp& op,
               c10::ArrayRef<c10::Scalar> scalars, std::optional<ScalarType> compute) {
  if (iter.numel() == 0) return;
  TORCH_CHECK(iter.ndim() <= kMaxDims, op.name, ": tensors of ", iter.ndim(),
              " dimensions that cannot be joined are beyond the ", kMaxDims, " that ocl supports");
  const Plan plan = make_plan(iter, op, scalars, compute);
  const Kernel& kernel =
      find_kernel(plan.device, make_key(plan), [&] { return make_source(plan); });
  Stream& stream = current_stream(plan.device.index());
  Arguments arguments(stream, kernel);
  for (int i = 0; i < iter.ntensors(); ++i) {
    if (plan.steps[i] == kValue) {
      add_element(arguments, iter.tensor_base(i), plan.number, plan.compute);
    } else {
      arguments.add(resolve(iter.data_ptr(i)));
    }
  }
  for (const c10::Scalar& scalar : scalars) {
    add_number(arguments, op.has(kNumbersFit) ? as_element(scalar, plan.type) : scalar,
               plan.compute);
  }
  const Geometry geometry = make_geometry(plan);
  arguments.add_bytes(geometry.words.data(), geometry.bytes);

  const auto numel = static_cast<size_t>(iter.numel());
  const DeviceParameters& parameters = plan.device.parameters();
  if (plan.device.family() == KernelFamily::kGpu) {
    const size_t items = numel / plan.width;
    const size_t group = kernel.group;
    arguments.add(uint64_t{items});
    if (plan.check_divisor) arguments.add(zero_division());
    arguments.enqueue({at::round_up(items, group)}, {group});
    return;
  }
  // Long rows are split into segments; of short rows, a task gets several.
  const size_t inner = static_cast<size_t>(plan.size(0)), rows = numel / inner;
  const size_t tasks = std::clamp<size_t>(numel / parameters.grain, 1, parameters.tasks);
  const size_t per_row = std::max<size_t>(1, tasks / rows);
  const size_t lanes = at::ceil_div(inner, plan.width);
  const size_t segment = at::ceil_div(lanes, per_row) * plan.width;
  const size_t segments = rows * at::ceil_div(inner, segment);
  const size_t per_task = at::ceil_div(segments, tasks);
  arguments.add(uint64_t{inner}).add(uint64_t{rows}).add(uint64_t{segment}).add(uint64_t{per_task});
  if (plan.check_divisor) arguments.add(zero_division());
  arguments.enqueue({at::ceil_div(segments, per_task)}, {1});
}

}  // namespace ocl
