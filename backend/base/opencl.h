// The only file that includes <CL/opencl.hpp>. Everything is written against OpenCL 1.2; a newer
// entry point is looked up by name after a check of the device's version (see stream.cpp).
#pragma once

#define CL_HPP_ENABLE_EXCEPTIONS
#define CL_HPP_TARGET_OPENCL_VERSION 120
#define CL_HPP_MINIMUM_OPENCL_VERSION 120
#ifndef CL_TARGET_OPENCL_VERSION  // the tests of the stern device call later functions
#define CL_TARGET_OPENCL_VERSION 120
#endif
#include <CL/opencl.hpp>

#include <optional>

namespace ocl {

// Address of an entry point of the OpenCL loader library, or nullptr. The library is opened at the
// first call: importing torch must not fail on a machine without OpenCL.
void* opencl_symbol(const char* name);

// Whether the OpenCL loader library can be opened on this machine.
bool opencl_loader_present();

// The loader's platforms, and the platform of an OpenCL runtime that pip installed next to this
// extension (unless OCL_ICD_VENDORS is set).
std::vector<cl::Platform> opencl_platforms();

// Returns the handle that a query gives, without retaining it: the queried object keeps it alive.
// getInfo() of opencl.hpp retains it, and releases it even where the retain failed, so that other
// owners lose the object.
//
//   borrowed<cl_context>(clGetCommandQueueInfo, queue(), CL_QUEUE_CONTEXT, "clGetCommandQueueInfo")
template <typename Handle, typename Query, typename Object>
Handle borrowed(Query query, Object object, cl_uint name, const char* function) {
  Handle handle = nullptr;
  const cl_int code = query(object, name, sizeof(handle), &handle, nullptr);
  if (code != CL_SUCCESS) throw cl::Error(code, function);
  return handle;
}

// The status of an event: CL_QUEUED to CL_COMPLETE, or an error code; nullopt where the query
// fails.
inline std::optional<cl_int> execution_status(const cl::Event& event) noexcept {
  cl_int status = CL_QUEUED;
  const cl_int code =
      clGetEventInfo(event(), CL_EVENT_COMMAND_EXECUTION_STATUS, sizeof(status), &status, nullptr);
  return code == CL_SUCCESS ? std::optional(status) : std::nullopt;
}
// Whether the command has completed or failed; also true where the query fails, because a wait for
// the event then reports that.
inline bool is_over(const cl::Event& event) noexcept {
  return execution_status(event).value_or(CL_COMPLETE) <= CL_COMPLETE;
}

}  // namespace ocl
