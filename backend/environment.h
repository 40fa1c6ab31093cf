// Access to environment variables; docs/environment.md lists them.
#pragma once

#include <cstdlib>
#include <string>

namespace ocl {

inline std::string environment(const char* name, const char* fallback = "") {
  const char* value = std::getenv(name);
  return value ? value : fallback;
}

inline bool environment_flag(const char* name) {
  const std::string value = environment(name);
  return !value.empty() && value != "0";
}

}  // namespace ocl
