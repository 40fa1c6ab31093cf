#pragma once

#include <string>

namespace ocl {

// Replaces the places in a compiler's log, such as "<kernel>:7:37: error", by those of the #line
// marks of `source`. NVIDIA's driver ignores the marks, and counts the lines of the whole text.
std::string with_marked_lines(const std::string& log, const std::string& source);

}  // namespace ocl
