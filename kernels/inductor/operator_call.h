// Calls operators for compiled C++ programs, which pass plain values as arguments.
#pragma once

#include <ATen/core/dispatch/Dispatcher.h>

#include "torch_ocl/program_interface.h"

namespace ocl {

// OclProgramInterface::call describes it.
void call_operator(const c10::OperatorHandle& called, const OclValue* arguments, int64_t count,
                   void** results, int64_t result_count);

}  // namespace ocl
