// Inductor includes this file by its path (codecache.py, _get_cpp_wrapper_header).
#ifndef TORCH_OCL_AOTI_INCLUDE_H
#define TORCH_OCL_AOTI_INCLUDE_H

#include <torch_ocl/program.h>

#include <torch/csrc/inductor/aoti_include/common.h>

#endif  // TORCH_OCL_AOTI_INCLUDE_H
