#include "kernels/core/types/dtype.h"

#include <c10/core/DynamicCast.h>

#include "backend/base/error.h"

namespace ocl {
namespace {

// Every element type of kernels: PyTorch's name, the type in C++, the name in kernels. types.clh
// has the types in OpenCL C.
#define OCL_FORALL_TYPES(_)                   \
  _(Float, float, "f32")                      \
  _(Double, double, "f64")                    \
  _(Half, c10::Half, "f16")                   \
  _(BFloat16, c10::BFloat16, "bf16")          \
  _(Char, int8_t, "i8")                       \
  _(Short, int16_t, "i16")                    \
  _(Int, int32_t, "i32")                      \
  _(Long, int64_t, "i64")                     \
  _(Byte, uint8_t, "u8")                      \
  _(UInt16, uint16_t, "u16")                  \
  _(UInt32, uint32_t, "u32")                  \
  _(UInt64, uint64_t, "u64")                  \
  _(Bool, bool, "b8")                         \
  _(ComplexFloat, c10::complex<float>, "c64") \
  _(ComplexDouble, c10::complex<double>, "c128")

const char* name_or_null(ScalarType type) noexcept {
  switch (type) {
#define OCL_CASE(name, cpp, text) \
  case ScalarType::name:          \
    return text;
    OCL_FORALL_TYPES(OCL_CASE)
#undef OCL_CASE
    default:
      return nullptr;
  }
}

template <typename T>
void add_as(Arguments& arguments, const c10::Scalar& value) {
  if constexpr (std::is_same_v<T, c10::Half> || std::is_same_v<T, c10::BFloat16>) {
    arguments.add(value.to<float>());
  } else if constexpr (std::is_same_v<T, bool>) {
    arguments.add(static_cast<uint8_t>(value.to<bool>()));
  } else {
    arguments.add(value.to<T>());
  }
}

}  // namespace

const char* dtype_name(ScalarType type) {
  const char* name = name_or_null(type);
  TORCH_CHECK_NOT_IMPLEMENTED(name, "ocl has no kernels for tensors of type ", type);
  return name;
}

std::map<std::string, ScalarType> element_types() {
#define OCL_ROW(name, cpp, text) {text, ScalarType::name},
  return {OCL_FORALL_TYPES(OCL_ROW)};
#undef OCL_ROW
}

bool has_kernel_type(ScalarType type) noexcept {
  return name_or_null(type) != nullptr && !c10::isComplexType(type);
}

bool has_complex_kernel_type(ScalarType type) noexcept { return name_or_null(type) != nullptr; }

bool is_double(ScalarType type) noexcept {
  return type == ScalarType::Double || type == ScalarType::ComplexDouble;
}

void check_device_has(const Device& device, ScalarType type, std::string_view op) {
  if (!is_double(type) || device.properties().has_fp64) return;
  const bool complex = type == ScalarType::ComplexDouble;
  TORCH_CHECK_NOT_IMPLEMENTED(
      false, op, " is not implemented for ocl (", complex ? "complex128" : "float64", " on ",
      device.label(), ", which has no cl_khr_fp64). Use ", complex ? "complex64" : "float32",
      ", or move the tensor to the CPU; see docs/errors.md");
}

void refuse_type(const Device& device, ScalarType type, std::string_view op) {
  TORCH_CHECK_NOT_IMPLEMENTED(false, op, " is not implemented for tensors of type ", type, " (on ",
                              device.label(), ")");
}

void check_floating(const Device& device, ScalarType type, std::string_view op) {
  if (!c10::isFloatingType(type) && !c10::isComplexType(type)) refuse_type(device, type, op);
}

ScalarType compute_type(ScalarType type) noexcept {
  return c10::isReducedFloatingType(type) ? ScalarType::Float : type;
}

// Consumer GPUs compute float64 at 1/4 to 1/64 of their float32 rate, and have no int64 multiplier.
double multiply_cost(ScalarType type) noexcept {
  return c10::elementSize(compute_type(type)) >= 8 ? 16 : 1;
}

ScalarType bits_type(size_t element_size) {
  switch (element_size) {
    case 1:
      return ScalarType::Byte;
    case 2:
      return ScalarType::UInt16;
    case 4:
      return ScalarType::UInt32;
    default:
      return ScalarType::UInt64;
  }
}

Defines compute_defines(ScalarType compute) {
  Defines defines;
  defines.set("COMPUTE", dtype_name(compute));
  if (is_double(compute)) defines.set("COMPUTE_IS_DOUBLE", 1);
  if (c10::isComplexType(compute)) {
    defines.set("COMPUTE_IS_COMPLEX", 1);
    return defines;
  }
  if (c10::isFloatingType(compute)) defines.set("COMPUTE_IS_FLOAT", 1);
  if (compute == ScalarType::Bool) defines.set("COMPUTE_IS_BOOL", 1);
  if (c10::isFloatingType(compute) || c10::isSignedType(compute)) {
    defines.set("COMPUTE_IS_SIGNED", 1);
  }
  return defines;
}

size_t vector_lanes(const Device& device, ScalarType compute) {
  const size_t lanes = device.parameters().vector_width;
  return c10::elementSize(compute) == 8 ? lanes / 2 : lanes;
}

void define_width_or_group(Defines& defines, const Device& device, ScalarType compute,
                           size_t group) {
  if (device.family() == KernelFamily::kCpu) {
    defines.set("WIDTH", static_cast<int64_t>(vector_lanes(device, compute)));
  } else {
    defines.set("GROUP", static_cast<int64_t>(group));
  }
}

Defines element_defines(ScalarType type) {
  Defines defines;
  defines.set(str("ELEMENT_", dtype_name(type)), 1);
  if (c10::isIntegralType(type, /*includeBool=*/false)) defines.set("COMPUTE_IS_INTEGER", 1);
  return defines;
}

void add_number(Arguments& arguments, const c10::Scalar& value, ScalarType compute) {
  switch (compute) {
#define OCL_CASE(name, cpp, text) \
  case ScalarType::name:          \
    return add_as<cpp>(arguments, value);
    OCL_FORALL_TYPES(OCL_CASE)
#undef OCL_CASE
    default:
      return add_as<int64_t>(arguments, value);
  }
}

double converted(double number, ScalarType type) noexcept {
  const bool is_float = compute_type(c10::toRealValueType(type)) == ScalarType::Float;
  return is_float ? static_cast<double>(static_cast<float>(number)) : number;
}

c10::Scalar as_element(const c10::Scalar& value, ScalarType type) {
  if (type == ScalarType::Half) return static_cast<float>(value.to<c10::Half>());
  if (type == ScalarType::BFloat16) return static_cast<float>(value.to<c10::BFloat16>());
  if (type == ScalarType::Float) return value.to<float>();
  if (type == ScalarType::Double) return value.to<double>();
  if (type == ScalarType::ComplexFloat) return value.to<c10::complex<float>>();
  return value;
}

void check_fits(const c10::Scalar& value, ScalarType type) {
  switch (type) {
#define OCL_CASE(name, cpp, text)       \
  case ScalarType::name:                \
    static_cast<void>(value.to<cpp>()); \
    return;
    OCL_FORALL_TYPES(OCL_CASE)
#undef OCL_CASE
    default:
      return;
  }
}

void add_element(Arguments& arguments, const at::TensorBase& element, ScalarType type,
                 ScalarType compute) {
  const auto fetch = [&]<typename T>() {
    return c10::fetch_and_cast<T>(element.scalar_type(), element.const_data_ptr());
  };
  switch (type) {
#define OCL_CASE(name, cpp, text) \
  case ScalarType::name:          \
    return add_number(arguments, c10::Scalar(fetch.operator()<cpp>()), compute);
    OCL_FORALL_TYPES(OCL_CASE)
#undef OCL_CASE
    case ScalarType::ComplexHalf: {
      const auto rounded = fetch.operator()<c10::complex<c10::Half>>();
      return add_number(arguments, c10::complex<float>(rounded.real(), rounded.imag()), compute);
    }
    default:
      TORCH_CHECK_NOT_IMPLEMENTED(false, "ocl has no kernels for CPU scalars of type ", type);
  }
}

}  // namespace ocl
