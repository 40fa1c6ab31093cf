// All entry points of the dispatch table but those of GL, EGL and Direct3D. Those that the layer
// has itself are functions of namespace stern with OpenCL's names.
#pragma once

#include <type_traits>

#include "tests/stern/stern.h"

// clang-format off
#define STERN_OWN(X) \
  X(clGetPlatformIDs) X(clGetPlatformInfo) X(clGetDeviceIDs) X(clGetDeviceInfo)                   \
  X(clRetainDevice) X(clReleaseDevice) X(clGetDeviceAndHostTimer) X(clGetHostTimer)               \
  X(clCreateContext) X(clCreateContextFromType) X(clRetainContext) X(clReleaseContext)            \
  X(clCreateCommandQueue) X(clCreateCommandQueueWithProperties) X(clRetainCommandQueue)           \
  X(clReleaseCommandQueue) X(clFlush) X(clFinish) X(clCreateBuffer)                               \
  X(clCreateBufferWithProperties) X(clCreateSubBuffer) X(clRetainMemObject)                       \
  X(clReleaseMemObject) X(clGetMemObjectInfo) X(clCreateProgramWithSource)                        \
  X(clCreateProgramWithBinary) X(clRetainProgram) X(clReleaseProgram) X(clBuildProgram)           \
  X(clCompileProgram) X(clLinkProgram) X(clGetProgramBuildInfo) X(clCreateKernel)                 \
  X(clCreateKernelsInProgram) X(clRetainKernel) X(clReleaseKernel) X(clSetKernelArg)              \
  X(clGetKernelWorkGroupInfo) X(clCreateUserEvent) X(clSetUserEventStatus) X(clWaitForEvents)     \
  X(clGetEventInfo) X(clRetainEvent) X(clReleaseEvent) X(clGetEventProfilingInfo)                 \
  X(clSetEventCallback) X(clEnqueueReadBuffer) X(clEnqueueWriteBuffer) X(clEnqueueCopyBuffer)     \
  X(clEnqueueFillBuffer) X(clEnqueueReadBufferRect) X(clEnqueueWriteBufferRect)                   \
  X(clEnqueueCopyBufferRect) X(clEnqueueMapBuffer) X(clEnqueueUnmapMemObject)                     \
  X(clEnqueueMigrateMemObjects) X(clEnqueueNDRangeKernel) X(clEnqueueTask) X(clEnqueueMarker)     \
  X(clEnqueueMarkerWithWaitList) X(clEnqueueBarrier) X(clEnqueueBarrierWithWaitList)              \
  X(clEnqueueWaitForEvents) X(clGetExtensionFunctionAddress)                                      \
  X(clGetExtensionFunctionAddressForPlatform)

#define STERN_PASSED_ON(X) \
  X(clGetContextInfo) X(clGetCommandQueueInfo) X(clSetMemObjectDestructorCallback)                \
  X(clGetSupportedImageFormats) X(clCreateSampler) X(clRetainSampler) X(clReleaseSampler)         \
  X(clGetSamplerInfo) X(clGetProgramInfo) X(clUnloadCompiler) X(clUnloadPlatformCompiler)         \
  X(clGetKernelInfo) X(clGetKernelArgInfo)

// They return CL_INVALID_OPERATION: nothing of ours calls them, or they would evade the layer.
#define STERN_REFUSED(X) \
  X(clCreateSubDevices) X(clSetCommandQueueProperty) X(clSetDefaultDeviceCommandQueue)            \
  X(clSetContextDestructorCallback) X(clCreateImage) X(clCreateImage2D) X(clCreateImage3D)        \
  X(clCreateImageWithProperties) X(clGetImageInfo) X(clCreatePipe) X(clGetPipeInfo)               \
  X(clSVMAlloc) X(clCreateSamplerWithProperties) X(clCreateProgramWithBuiltInKernels)             \
  X(clCreateProgramWithIL) X(clSetProgramReleaseCallback) X(clSetProgramSpecializationConstant)   \
  X(clCloneKernel) X(clSetKernelArgSVMPointer) X(clSetKernelExecInfo)                             \
  X(clGetKernelSubGroupInfo) X(clEnqueueReadImage) X(clEnqueueWriteImage) X(clEnqueueCopyImage)   \
  X(clEnqueueFillImage) X(clEnqueueCopyImageToBuffer) X(clEnqueueCopyBufferToImage)               \
  X(clEnqueueMapImage) X(clEnqueueNativeKernel) X(clEnqueueSVMFree) X(clEnqueueSVMMemcpy)         \
  X(clEnqueueSVMMemFill) X(clEnqueueSVMMap) X(clEnqueueSVMUnmap) X(clEnqueueSVMMigrateMem)

// Entry points of the lists above that drivers of OpenCL 1.1 do not have.
#define STERN_SINCE_1_2(X) \
  X(clRetainDevice) X(clReleaseDevice) X(clCreateSubDevices) X(clCreateImage)                     \
  X(clCreateProgramWithBuiltInKernels) X(clCompileProgram) X(clLinkProgram)                       \
  X(clUnloadPlatformCompiler) X(clGetKernelArgInfo) X(clEnqueueFillBuffer)                        \
  X(clEnqueueFillImage) X(clEnqueueMigrateMemObjects) X(clEnqueueMarkerWithWaitList)              \
  X(clEnqueueBarrierWithWaitList) X(clGetExtensionFunctionAddressForPlatform)
// clang-format on

namespace stern {

#define X(name) std::remove_pointer_t<cl_api_##name> name;
STERN_OWN(X)
#undef X

}  // namespace stern
