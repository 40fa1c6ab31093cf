// The types of OpenCL C that users' kernels take, and torch's types for them.
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

// The type of "float*", "uint4" and so on; `known` is false for names that OpenCL C does not have.
UserType user_type(const std::string& name);

// For messages.
std::string number_text(const c10::Scalar& number);

// The bytes of the numbers as an argument by value. TypeError, ValueError or OverflowError, with
// texts that begin with `what()`, where they do not fit the type.
std::string pack_numbers(const std::vector<c10::Scalar>& numbers, const std::string& type,
                         c10::function_ref<std::string()> what);

}  // namespace ocl
