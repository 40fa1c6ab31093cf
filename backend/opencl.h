// The only includer of <CL/opencl.hpp>. Everything is written against OpenCL 1.2; a newer entry
// point is looked up by name after a check of the device's version (see stream.cpp).
#pragma once

#define CL_HPP_ENABLE_EXCEPTIONS
#define CL_HPP_TARGET_OPENCL_VERSION 120
#define CL_HPP_MINIMUM_OPENCL_VERSION 120
#define CL_TARGET_OPENCL_VERSION 120
#include <CL/opencl.hpp>

namespace ocl {

// Address of an entry point of the OpenCL loader library, or nullptr. The library is opened at the
// first call: importing torch must not fail on a machine without OpenCL.
void* opencl_symbol(const char* name);

// Whether the OpenCL loader library can be opened on this machine.
bool opencl_loader_present();

// The loader's platforms, and the platform of an OpenCL runtime that pip installed next to this
// extension (unless OCL_ICD_VENDORS is set).
std::vector<cl::Platform> opencl_platforms();

}  // namespace ocl
