// The types of OpenCL C that arguments of users' kernels may have, and torch's types for them.
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
  c10::ArrayRef<c10::ScalarType> types;  // torch's types; empty: any
  bool known = false;
  // A vector of three lanes has the size of four.
  size_t bytes() const { return lane_bytes * (lanes == 3 ? 4 : lanes); }
};

// The type of "float*", "uint4" and so on; `known` is false for names that OpenCL C does not have.
UserType user_type(const std::string& name);

// The type's name in messages.
std::string number_text(const c10::Scalar& number);

// Converts numbers to the bytes of an argument by value. If they do not fit the type: TypeError,
// ValueError or OverflowError, with a text that begins with `what()`.
std::string pack_numbers(const std::vector<c10::Scalar>& numbers, const std::string& type,
                         c10::function_ref<std::string()> what);

}  // namespace ocl
