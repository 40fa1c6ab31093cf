// Where Inductor looks for the header of a device (codecache.py, _get_cpp_wrapper_header).
#pragma once

#include <torch_ocl/program.h>

#include <torch/csrc/inductor/aoti_include/common.h>
