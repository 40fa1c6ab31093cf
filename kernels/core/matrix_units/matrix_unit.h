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

// One instruction multiplies m x k by k x n elements; k = 0: the unit lacks the type. `rate`: how
// many times as many multiply-adds the unit computes in a time as float32 code without the unit.
struct UnitShape {
  int64_t m = 0, n = 0, k = 0;
  double rate = 0;
};

struct MatrixUnit {
  const char* name;
  bool (*has)(const Processor&);
  int64_t lanes;      // lanes of a sub-group
  int64_t most_sums;  // sums of a lane: more would leave no registers for the operands
  UnitShape f16, bf16, i8;
  KernelFamily family = KernelFamily::kGpu;

  const UnitShape* shape(ScalarType type) const;  // nullptr: it lacks the type
};

std::span<const MatrixUnit> matrix_units();
// The unit of the processor, or nullptr.
const MatrixUnit* matrix_unit_of(const Processor& processor);
// The unit of a device for kernels of its family, or nullptr. With OCL_MATRIX_UNITS=emulate, the
// GPU family gets the unit that emulate_matrix_unit() has named, and the CPU family that of CPUs.
const MatrixUnit* matrix_unit(const Device& device);

// The type of the sums of products of the type.
inline ScalarType matrix_sum_type(ScalarType type) {
  return type == ScalarType::Char ? ScalarType::Int : ScalarType::Float;
}

// nullptr if kernels may use the device's unit for the type, else the reason. The first call asks
// the system for permission, if the unit needs it, and compiles and runs a probe. In a captured
// stream it cannot run the probe, and refuses. The answer is stored in the folder of the program
// cache. A probe with a wrong result gives a warning.
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
