// Matrix units: instructions with which a sub-group of a GPU, or a task of the CPU family,
// multiplies small matrices of 16-bit or 8-bit numbers and adds float32 or int32 sums. Compilers
// for OpenCL do not use them by themselves. matrix_unit_table.h has the units, matrix_unit.clh the
// code for kernels of GPUs, matrix_unit_amx.clh for those of CPUs.
//
//   if (const char* reason = refusal_of_matrix_unit(device, type)) return reason;
//   const MatrixUnit& unit = *matrix_unit(device);
//   define_matrix_unit(defines, unit, type);
#pragma once

#include <span>
#include <string_view>

#include "backend/device/processor.h"
#include "kernels/core/types/dtype.h"

namespace ocl {

// What one instruction multiplies: m x k by k x n elements. Its multiply-adds in a time, relative
// to those of float32 without the unit. k = 0: the unit lacks the type.
struct UnitShape {
  int64_t m = 0, n = 0, k = 0;
  double rate = 0;
};

struct MatrixUnit {
  const char* name;
  bool (*has)(const Processor&);
  int64_t lanes;      // of a sub-group
  int64_t most_sums;  // of a lane: more leave no registers for the operands
  UnitShape f16, bf16, i8;
  KernelFamily family = KernelFamily::kGpu;

  const UnitShape* shape(ScalarType type) const;  // nullptr: it lacks the type
};

std::span<const MatrixUnit> matrix_units();
// The unit of such a processor, or nullptr.
const MatrixUnit* matrix_unit_of(const Processor& processor);
// The unit of a device for kernels of its family, or nullptr. With OCL_MATRIX_UNITS=emulate it is
// the one that emulate_matrix_unit() names, or that of CPUs.
const MatrixUnit* matrix_unit(const Device& device);

// The type of the sums of products of the type.
inline ScalarType matrix_sum_type(ScalarType type) {
  return type == ScalarType::Char ? ScalarType::Int : ScalarType::Float;
}

// nullptr if kernels may use the device's unit for the type, else why not. The first call asks the
// system for permission, where the unit needs it, and compiles and runs a probe, except in a
// captured stream, where it says no. The probe's answer is kept in the folder of the program cache.
// A wrong result is warned of.
const char* refusal_of_matrix_unit(Device& device, ScalarType type);

// Whether kernels compute what a unit would, in plain OpenCL C (OCL_MATRIX_UNITS=emulate).
bool emulates_matrix_units();
// Defines for matrix_unit.clh. The unit has the type.
void define_matrix_unit(Defines& defines, const MatrixUnit& unit, ScalarType type);

// "sm_80: f16, bf16, i8"; "none": no unit of the device is known.
std::string describe_matrix_unit(const Device& device);

// For tests: the names of the units of GPUs, and the one to emulate.
std::vector<std::string_view> matrix_unit_names();
void emulate_matrix_unit(std::string_view name);

}  // namespace ocl
