#include "kernels/inductor/operator_call.h"

#include <ATen/Functions.h>
#include <ATen/ScalarOps.h>
#include <ATen/autocast_mode.h>
#include <ATen/core/LegacyTypeDispatch.h>
#include <ATen/core/jit_type.h>

namespace ocl {
namespace {

using c10::IValue;
using c10::TypeKind;

IValue of_number(const c10::Scalar& number, TypeKind wanted) {
  if (wanted == TypeKind::TensorType) {
    at::Tensor tensor = at::scalar_to_tensor(number);
    tensor.unsafeGetTensorImpl()->set_wrapped_number(true);
    return tensor;
  }
  if (wanted == TypeKind::FloatType) return number.toDouble();
  if (wanted == TypeKind::BoolType) return number.toBool();
  if (wanted == TypeKind::ComplexType) return number.toComplexDouble();
  return number;
}

IValue of_value(const OclValue& value, const c10::TypePtr& type, std::optional<int32_t> length);

IValue of_list(const OclValue* items, int64_t count, const c10::Type& list, bool repeat) {
  c10::TypePtr type = list.containedType(0);
  // At run time all sizes are known, so a list of SymInt is passed as a list of integers.
  if (type->kind() == TypeKind::SymIntType) type = c10::IntType::get();
  c10::impl::GenericList made(type);
  made.reserve(count);
  for (int64_t i = 0; i < count; ++i) {
    made.emplace_back(of_value(items[repeat ? 0 : i], type, std::nullopt));
  }
  return made;
}

IValue of_value(const OclValue& value, const c10::TypePtr& declared,
                std::optional<int32_t> length) {
  if (value.kind == OclValue::kNone) {  // None, or an undefined tensor that an operator returned
    return declared->kind() == TypeKind::TensorType ? IValue(at::Tensor()) : IValue();
  }
  const bool optional = declared->kind() == TypeKind::OptionalType;
  const c10::TypePtr type = optional ? declared->containedType(0) : declared;
  const bool listed = type->kind() == TypeKind::ListType;
  if (listed && value.kind != OclValue::kList) {  // int[2] accepts one number for both elements
    return of_list(&value, length.value_or(1), *type, true);
  }
  switch (value.kind) {
    case OclValue::kTensor:
      return *static_cast<const at::Tensor*>(value.tensor);
    case OclValue::kInteger:
      return of_number(value.integer, type->kind());
    case OclValue::kReal:
      return of_number(value.real, type->kind());
    case OclValue::kBoolean:
      return of_number(value.integer != 0, type->kind());
    case OclValue::kText:
      return std::string(value.text);
    case OclValue::kDevice:
      return at::Device(static_cast<at::DeviceType>(value.integer),
                        static_cast<at::DeviceIndex>(value.count));
    default:
      TORCH_CHECK(listed, "got a list, but the operator takes ", type->repr_str());
      return of_list(value.items, value.count, *type, false);
  }
}

// Writes returned tensors to consecutive slots of the program's array of results.
class Results {
 public:
  Results(void** results, int64_t count) : next_(results), end_(results + count) {}

  void add(const IValue& returned) {
    if (returned.isTensorList()) {
      for (const at::Tensor& tensor : returned.toTensorList()) add(tensor);
      return;
    }
    if (next_ == end_) return;  // an in-place operator's result has no slot
    const bool defined = returned.isTensor() && returned.toTensor().defined();
    *next_++ = defined ? new at::Tensor(returned.toTensor()) : nullptr;
  }

 private:
  void** next_;
  void** const end_;
};

}  // namespace

void call_operator(const c10::OperatorHandle& called, const OclValue* arguments, int64_t count,
                   void** results, int64_t result_count) {
  const auto& expected = called.schema().arguments();
  TORCH_CHECK(static_cast<size_t>(count) == expected.size(), called.schema(), ": the program has ",
              count, " arguments; compile it again");
  torch::jit::Stack stack;
  stack.reserve(expected.size());
  for (int64_t i = 0; i < count; ++i) {
    stack.push_back(of_value(arguments[i], expected[i].type(), expected[i].N()));
  }
  const at::AutoDispatchBelowADInplaceOrView below_autograd;
  const c10::impl::ExcludeDispatchKeyGuard no_autocast(c10::autocast_dispatch_keyset);
  called.callBoxed(stack);
  Results places(results, result_count);
  for (const IValue& returned : stack) places.add(returned);
}

}  // namespace ocl
