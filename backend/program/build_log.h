#pragma once

#include <string>

namespace ocl {

// A compiler's log of `source` with the places of its #line marks, for NVIDIA's driver, which
// ignores them: "<kernel>:7:37: error" tells a line of the whole text.
std::string with_marked_lines(const std::string& log, const std::string& source);

}  // namespace ocl
