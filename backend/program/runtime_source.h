// Kernel sources that are added at run time: compiled C++ programs bring the sources of their
// kernels.
#pragma once

#include <string>

namespace ocl {

// Keeps the text for the life of the process. Returns a file name for program(); the same text gets
// the same one. Its last part, which messages show, is `name` + ".cl".
std::string add_runtime_source(const std::string& name, std::string text);

}  // namespace ocl
