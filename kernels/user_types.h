// The types of OpenCL C that kernels of users take, and what torch has for them.
#pragma once

#include <c10/core/Scalar.h>
#include <c10/core/ScalarType.h>
#include <c10/util/ArrayRef.h>
#include <c10/util/FunctionRef.h>

#include <string>
#include <vector>

namespace ocl {

struct UserType {
  size_t lane_bytes = 1, lanes = 1;
  c10::ArrayRef<c10::ScalarType> types;  // of tensors; none: any
  bool known = false;
  // A vector of three lanes has the size of four.
  size_t bytes() const { return lane_bytes * (lanes == 3 ? 4 : lanes); }
};

// Of "float*", "uint4" and so on; a name that OpenCL C does not have is not known.
UserType user_type(const std::string& name);

// For messages.
std::string number_text(const c10::Scalar& number);

// The numbers as a kernel takes them by value. TypeError, ValueError, OverflowError, which begin
// with `what()`, where they do not fit.
std::string pack_numbers(const std::vector<c10::Scalar>& numbers, const std::string& type,
                         c10::function_ref<std::string()> what);

}  // namespace ocl
