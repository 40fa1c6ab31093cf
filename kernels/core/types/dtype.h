// Element types: their names in kernels, the types that kernels compute in, and whether a device
// has them.
#pragma once

#include <ATen/core/TensorBase.h>
#include <c10/core/Scalar.h>
#include <c10/core/ScalarType.h>

#include <array>
#include <concepts>
#include <map>
#include <string>
#include <string_view>

#include "backend/launch/launch.h"

namespace ocl {

using c10::ScalarType;

// "f32", "bf16", "c64", "b8" ...; an error for types without kernels (quantized, float8).
const char* dtype_name(ScalarType type);

// All types that have kernels, by name.
std::map<std::string, ScalarType> element_types();

// Whether there are kernels for the type. has_kernel_type() is false for complex types.
bool has_kernel_type(ScalarType type) noexcept;
bool has_complex_kernel_type(ScalarType type) noexcept;

// Whether the type is float64 or complex128, which need cl_khr_fp64.
bool is_double(ScalarType type) noexcept;

// Raises an error that names the missing extension when the device lacks the type.
void check_device_has(const Device& device, ScalarType type, std::string_view op);
// Raise the error for a type that PyTorch's operator does not have.
[[noreturn]] void refuse_type(const Device& device, ScalarType type, std::string_view op);
void check_floating(const Device& device, ScalarType type, std::string_view op);

// The type that kernels compute in: float for float16 and bfloat16, else the type itself.
ScalarType compute_type(ScalarType type) noexcept;

// The time of a multiply-add of the type relative to one of float32, on GPUs that are slow at it.
double multiply_cost(ScalarType type) noexcept;

// The unsigned type with this many bytes (1, 2, 4 or 8), for kernels that move bits.
ScalarType bits_type(size_t element_size);

// Defines COMPUTE and its properties for math.clh.
Defines compute_defines(ScalarType compute);

// The vector width for this type in kernels of the CPU family.
size_t vector_lanes(const Device& device, ScalarType compute);

// For a kernel with one source per family. Defines WIDTH, the lanes of a vector, for the CPU family
// and GROUP, the size of a work-group, for the GPU family.
void define_width_or_group(Defines& defines, const Device& device, ScalarType compute,
                           size_t group);

// Defines the single element type of a kernel for element.clh.
Defines element_defines(ScalarType type);

// Rounds the number to float if kernels of the type compute in float. Numbers that are too large
// become infinite, as in C++.
double converted(double number, ScalarType type) noexcept;

// Adds a number as a kernel argument of the given compute type. A Scalar that does not fit is an
// error. A double that does not fit becomes infinite.
void add_number(Arguments& arguments, const c10::Scalar& value, ScalarType compute);
template <std::same_as<double> Number>
void add_number(Arguments& arguments, Number value, ScalarType compute) {
  add_number(arguments, c10::Scalar(converted(value, compute)), compute);
}

// Adds a struct of floating-point numbers of the compute type. One that does not fit becomes
// infinite.
template <size_t kCount>
void add_numbers(Arguments& arguments, const std::array<double, kCount>& numbers,
                 ScalarType compute) {
  if (is_double(compute)) {
    arguments.add(numbers);
    return;
  }
  std::array<float, kCount> single;
  for (size_t i = 0; i < kCount; ++i) single[i] = static_cast<float>(numbers[i]);
  arguments.add(single);
}

// Rounds the number to a floating-point type or complex64, and raises if it is out of range. For
// other types, returns the number unchecked.
c10::Scalar as_element(const c10::Scalar& value, ScalarType type);
// Raises if the number does not fit the type, as Scalar::to() does.
void check_fits(const c10::Scalar& value, ScalarType type);

// Adds the element of a CPU tensor as a kernel argument of the compute type, after converting it to
// `type` as a copy does: integers wrap, and floating-point numbers become infinite.
void add_element(Arguments& arguments, const at::TensorBase& element, ScalarType type,
                 ScalarType compute);

}  // namespace ocl
