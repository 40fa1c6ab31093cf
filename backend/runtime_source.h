// Kernel sources that come while the process runs: programs in C++ bring those of their kernels.
#pragma once

#include <string>

namespace ocl {

// Keeps the text for the life of the process; the same text has one name. Returns what program()
// takes as a file; its last part, which messages show, is `name` + ".cl".
std::string add_runtime_source(const std::string& name, std::string text);

}  // namespace ocl
