// The queries that a profile may answer, by the names of OpenCL's constants without CL_.
#pragma once

#include <string>
#include <vector>

#include "tests/stern/stern.h"

namespace stern {

enum class Kind { kText, kUint, kUlong, kSize, kSizes };

struct Query {
  const char* name;
  cl_uint number;
  Kind kind;
};

const Query* find_query(const std::string& name);  // nullptr: unknown

// The bytes of an answer; throws std::invalid_argument where the text is not one.
std::vector<char> encode(const Query& query, const std::string& text);

// Returns bytes in the way of clGet*Info.
cl_int give(const void* data, size_t bytes, size_t size, void* value, size_t* size_ret);

template <typename T>
cl_int give(const T& data, size_t size, void* value, size_t* size_ret) {
  return give(&data, sizeof data, size, value, size_ret);
}

cl_device_id real_device(cl_device_id device);

}  // namespace stern
