// Inductor includes this file by its path (codecache.py, _get_cpp_wrapper_header).
#ifndef TORCH_OCL_CPP_WRAPPER_H
#define TORCH_OCL_CPP_WRAPPER_H

#include <torch_ocl/program.h>

#include <torch/csrc/inductor/cpp_wrapper/common.h>

#endif  // TORCH_OCL_CPP_WRAPPER_H
