// Inductor includes this file by its path (codecache.py, _get_cpp_wrapper_header).
#pragma once

#include <torch_ocl/program.h>

#include <torch/csrc/inductor/cpp_wrapper/common.h>
