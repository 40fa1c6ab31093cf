// Access to environment variables; docs/environment.md lists them.
#pragma once

#include <c10/util/Exception.h>

#include <charconv>
#include <cstdlib>
#include <optional>
#include <string>

#include "backend/base/printable.h"

namespace ocl {

inline std::string environment(const char* name, const char* fallback = "") {
  const char* value = std::getenv(name);  // NOLINT(concurrency-mt-unsafe): nothing here sets any
  return value ? value : fallback;
}

// This variable names the processor that Intel's CPU runtime compiles for; unset: the host's.
constexpr const char* kIntelTarget = "CL_CONFIG_CPU_TARGET_ARCH";

inline bool environment_flag(const char* name) {
  const std::string value = environment(name);
  return !value.empty() && value != "0";
}

// The positive number in a variable, if it is set. Throws ValueError, which says `what` it must be.
inline std::optional<size_t> environment_number(const char* variable, const char* what) {
  const std::string text = environment(variable);
  if (text.empty()) return std::nullopt;
  size_t value = 0;
  const auto [end, code] = std::from_chars(text.data(), text.data() + text.size(), value);
  TORCH_CHECK_VALUE(code == std::errc() && end == text.data() + text.size() && value > 0 &&
                        value < size_t{1} << 43,
                    variable, " must be ", what, ", not \"", printable(text), "\"");
  return value;
}

}  // namespace ocl
