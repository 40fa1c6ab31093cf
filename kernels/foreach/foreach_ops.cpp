// The rows of foreach_table.h as operators, and copies and zeros of lists. As on CUDA, lists
// without a kernel (integers, gaps, several types or devices) take PyTorch's loop over the tensors.
#include <ATen/CompositeExplicitAutogradFunctions.h>
#include <ATen/Functions.h>
#include <ATen/MemoryOverlap.h>
#include <ATen/native/ForeachUtils.h>

#include <algorithm>

#include "backend/base/error.h"
#include "kernels/core/operators/registration.h"
#include "kernels/core/tensors/tensors.h"
#include "kernels/foreach/foreach.h"
#include "native/foreach_ops.h"

namespace ocl {
namespace {

using at::Tensor, at::TensorList, c10::Scalar;
using Scalars = c10::ArrayRef<Scalar>;

namespace expressions {
#define OCL_POINTWISE(ops, stub, traits, expression, ...) \
  [[maybe_unused]] constexpr char stub[] = expression;
#define OCL_SPECIAL(ops, stub, ...)
#include "kernels/pointwise/pointwise_table.h"
#undef OCL_POINTWISE
#undef OCL_SPECIAL
constexpr char pow_by_number[] = "POWER_OF(a, s0)";
constexpr char pow_of_number[] = "POW(C(s0), a)";
constexpr char copy[] = "a";
constexpr char zero[] = "C(0)";
}  // namespace expressions

// The arguments other than lists: numbers, or an element in device memory.
struct Values {
  Scalar number = 1;
  Scalars numbers = {};
  const Tensor* element = nullptr;
  bool is_b = false;

  Scalars all() const { return numbers.empty() ? Scalars(number) : numbers; }
};

// Rounds the number to the floating-point type as C++ does.
double converted(double number, ScalarType type) {
  if (type == ScalarType::Double) return number;
  const auto single = static_cast<float>(number);
  if (type == ScalarType::Half) return static_cast<c10::Half>(single);
  if (type == ScalarType::BFloat16) return static_cast<c10::BFloat16>(single);
  return single;
}

// Converts the number as the operator on one tensor does. `add(tensor, number)` rounds it to the
// tensor's type, `mul` and `div` to the type of the arithmetic. Exponents for float32, and bases
// that are numbers, may be out of the type's range. For other powers, add and sub with alpha,
// clamps, minimum and maximum, the number must fit the tensor's type. Other operators use it
// unchanged.
Scalar number_for(std::string_view op, bool is_b, const Scalar& number, ScalarType type) {
  const bool sum = op == "add" || op == "sub", product = op == "mul" || op == "div";
  if (is_b && sum) return converted(number.toDouble(), type);
  if (product) return converted(number.toDouble(), compute_type(type));
  if (op == "pow_of_number" || (op == "pow" && type == ScalarType::Float)) {
    return converted(number.toDouble(), type);
  }
  const bool fits = sum || op == "pow" || op == "clamp_min" || op == "clamp_max" ||
                    op == "minimum" || op == "maximum";
  return fits ? as_element(number, type) : number;
}

struct ForeachKernel {
  const char *name, *expression;
  ListTypes types;
  uint8_t inputs, output;  // the number of input lists; the index of the output
  bool is_b;
  ScalarType element;  // may be undefined

  KernelSource source(Device& device) const {
    const std::string kernel = str("foreach_", name, "_", dtype_name(types.compute));
    Defines defines = types.defines(device);
    defines.set("KERNEL", kernel)
        .set("INPUTS", int64_t{inputs})
        .set("OUTPUT", int64_t{output})
        .set("EXPR", str("(", expression, ")"));
    if (is_b) defines.set("VALUE_IS_B", 1);
    if (element != ScalarType::Undefined) defines.set("ELEMENT", dtype_name(element));
    return {"foreach.cl", kernel, defines};
  }
};

// Calls an operator: operator() returns false if there is no kernel for the arguments.
struct Foreach {
  const char* name;
  const char* expression;
  std::vector<Tensor>* results;  // nullptr: in place

  bool operator()(TensorList a) const { return run({a}, {}); }
  bool operator()(TensorList a, TensorList b, TensorList c) const { return run({a, b, c}, {}); }
  bool operator()(TensorList a, TensorList b, const Scalar& s0 = 1) const {
    return run({a, b}, {.number = s0});
  }
  bool operator()(TensorList a, TensorList b, Scalars s0) const {
    return run({a, b}, {.numbers = s0});
  }
  bool operator()(TensorList a, TensorList b, TensorList c, const Scalar& s0) const {
    return run({a, b, c}, {.number = s0});
  }
  bool operator()(TensorList a, TensorList b, TensorList c, Scalars s0) const {
    return run({a, b, c}, {.numbers = s0});
  }
  bool operator()(TensorList a, const Scalar& b) const {
    return run({a}, {.number = b, .is_b = number_is_b()});
  }
  bool operator()(TensorList a, Scalars b) const {
    return run({a}, {.numbers = b, .is_b = number_is_b()});
  }
  bool operator()(TensorList a, const Tensor& b, const Scalar& s0 = 1) const {
    const bool single = !a.empty() && b.dim() == 0 && b.is_privateuseone() &&
                        b.device() == a[0].device() && c10::isFloatingType(b.scalar_type()) &&
                        has_kernel_type(b.scalar_type());
    return single && run({a}, {.number = s0, .element = &b, .is_b = true});
  }

  // The number is s0 only in the expression of powers by numbers.
  bool number_is_b() const { return expression != expressions::pow_by_number; }
  bool run(std::initializer_list<TensorList> inputs, const Values& values) const;
  void launch(const TensorLists& lists, uint8_t inputs, const Values& values) const;
};

// Whether the element lies in none of the tensors that are written while it is read.
bool apart_from(TensorList written, const Tensor* element) {
  return !element || std::ranges::all_of(written, [&](const Tensor& tensor) {
    return at::get_overlap_status(tensor, *element) == at::MemOverlapStatus::No;
  });
}

bool Foreach::run(std::initializer_list<TensorList> inputs, const Values& values) const {
  const TensorList first = *inputs.begin();
  if (!can_launch_over(inputs) || !c10::isFloatingType(first[0].scalar_type()) ||
      (!values.numbers.empty() && values.numbers.size() != first.size()) ||
      !at::native::can_use_fast_route(inputs, values.all()) ||
      (!results && (!writes_apart(first, inputs) || !apart_from(first, values.element)))) {
    return false;
  }
  const ScalarType type = first[0].scalar_type();
  Values fitting = values;
  const auto fit = [&](const Scalar& number) {
    return number_for(name, values.is_b && !values.element, number, type);
  };
  fitting.number = fit(values.number);
  c10::SmallVector<Scalar, 16> numbers;
  for (const Scalar& number : values.numbers) numbers.push_back(fit(number));
  fitting.numbers = numbers;
  TensorLists lists{device(first[0].get_device()), inputs, compute_type(type), fitting.numbers};
  if (results) {
    results->reserve(first.size());
    for (const Tensor& tensor : first) results->push_back(at::empty_like(tensor));
    lists.lists.push_back(*results);
  }
  launch(lists, static_cast<uint8_t>(inputs.size()), fitting);
  return true;
}

void Foreach::launch(const TensorLists& lists, uint8_t inputs, const Values& values) const {
  const uint8_t output = lists.lists.size() > inputs ? inputs : 0;
  if (!results) {
    // PyTorch increases the version counter of a single output tensor, but not of lists.
    for (const Tensor& tensor : lists.lists[output]) tensor.unsafeGetTensorImpl()->bump_version();
  }
  const ScalarType element = values.element ? values.element->scalar_type() : ScalarType::Undefined;
  const Kernel& kernel = find_kernel(
      lists.device,
      ForeachKernel{name, expression, lists.types(), inputs, output, values.is_b, element});
  for_each_batch(lists, [&](const Batch& batch) {
    Arguments arguments(current_stream(lists.device.index()), kernel);
    batch.bind(arguments);
    add_number(arguments, values.number, lists.compute);
    if (values.element) arguments.add(view(*values.element));
    batch.enqueue(arguments);
  });
}

}  // namespace

namespace native {

// Expands its arguments first, so that a signature macro becomes two arguments.
#define OCL_DEFINE(...) OCL_DEFINE_(__VA_ARGS__)
#define OCL_DEFINE_(name, op, expression, parameters, arguments)                   \
  std::vector<Tensor> foreach_##name parameters {                                  \
    std::vector<Tensor> results;                                                   \
    if (Foreach{#op, expressions::expression, &results} arguments) return results; \
    return at::compositeexplicitautograd::_foreach_##op arguments;                 \
  }                                                                                \
  void foreach_##name##_ parameters {                                              \
    if (Foreach{#op, expressions::expression, nullptr} arguments) return;          \
    at::compositeexplicitautograd::_foreach_##op##_ arguments;                     \
  }
#define OCL_SIGNATURE_LN (TensorList a, const Scalar& value), (a, value)
#define OCL_SIGNATURE_LS (TensorList a, Scalars values), (a, values)
#define OCL_SIGNATURE_LT (TensorList a, const Tensor& value), (a, value)
#define OCL_SIGNATURE_LTN (TensorList a, const Tensor& value, const Scalar& n), (a, value, n)
#define OCL_SIGNATURE_LL (TensorList a, TensorList b), (a, b)
#define OCL_SIGNATURE_LLN (TensorList a, TensorList b, const Scalar& value), (a, b, value)
#define OCL_SIGNATURE_LLS (TensorList a, TensorList b, Scalars values), (a, b, values)
#define OCL_SIGNATURE_LLL (TensorList a, TensorList b, TensorList c), (a, b, c)
#define OCL_SIGNATURE_LLLN \
  (TensorList a, TensorList b, TensorList c, const Scalar& value), (a, b, c, value)
#define OCL_SIGNATURE_LLLS \
  (TensorList a, TensorList b, TensorList c, Scalars values), (a, b, c, values)

#define OCL_FOREACH(op, overload, signature, stub) \
  OCL_DEFINE(op##_##overload, op, stub, OCL_SIGNATURE_##signature)
#define OCL_FOREACH_UNARY(op, stub) OCL_DEFINE(op, op, stub, (TensorList a), (a))
#include "foreach_unary.h"
#include "kernels/foreach/foreach_table.h"
#undef OCL_FOREACH
#undef OCL_FOREACH_UNARY

OCL_COMPLEX("_foreach_add.Tensor,_foreach_mul.Tensor,_foreach_div.Tensor");

OCL_NATIVE("_foreach_pow.ScalarAndTensor", foreach_pow_of_number);
std::vector<Tensor> foreach_pow_of_number(const Scalar& base, TensorList exponent) {
  std::vector<Tensor> results;
  const Foreach power{"pow_of_number", expressions::pow_of_number, &results};
  if (power.run({exponent}, {.number = base})) return results;
  return at::compositeexplicitautograd::_foreach_pow(base, exponent);
}

OCL_NATIVE("_foreach_zero_", foreach_zero_);
void foreach_zero_(TensorList self) {
  if (Foreach{"zero", expressions::zero, nullptr}(self)) return;
  at::compositeexplicitautograd::_foreach_zero_(self);
}

OCL_NATIVE("_foreach_copy_", foreach_copy_);
void foreach_copy_(TensorList self, TensorList src, bool non_blocking) {
  const auto type = [](TensorList list) { return list[0].scalar_type(); };
  const auto floating = [&](TensorList list) {
    return c10::isFloatingType(type(list)) && type(list) != ScalarType::Double;
  };
  if (!can_launch_over({src, self}) || !floating(self) || !floating(src) ||
      !writes_apart(self, {src})) {
    return at::compositeexplicitautograd::_foreach_copy_(self, src, non_blocking);
  }
  const TensorLists lists{device(self[0].get_device()), {src, self}, ScalarType::Float};
  Foreach{"copy", expressions::copy, nullptr}.launch(lists, 1, {});
}

}  // namespace native
}  // namespace ocl
