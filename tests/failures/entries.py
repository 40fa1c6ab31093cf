"""Entry points of OpenCL, and the codes with which drivers let them fail."""

CODE_NAMES = {
    -2: "CL_DEVICE_NOT_AVAILABLE",
    -4: "CL_MEM_OBJECT_ALLOCATION_FAILURE",
    -5: "CL_OUT_OF_RESOURCES",
    -6: "CL_OUT_OF_HOST_MEMORY",
    -7: "CL_PROFILING_INFO_NOT_AVAILABLE",
    -11: "CL_BUILD_PROGRAM_FAILURE",
    -12: "CL_MAP_FAILURE",
    -14: "CL_EXEC_STATUS_ERROR_FOR_EVENTS_IN_WAIT_LIST",
    -19: "CL_KERNEL_ARG_INFO_NOT_AVAILABLE",
    -30: "CL_INVALID_VALUE",
    -36: "CL_INVALID_COMMAND_QUEUE",
    -42: "CL_INVALID_BINARY",
    -46: "CL_INVALID_KERNEL_NAME",
    -54: "CL_INVALID_WORK_GROUP_SIZE",
    -1001: "CL_PLATFORM_NOT_FOUND_KHR",
}

# "execution" is a command that fails while it runs.
CODES = {
    "clGetPlatformIDs": [-6, -1001],
    "clGetPlatformInfo": [-6],
    "clGetDeviceIDs": [-6],
    "clGetDeviceInfo": [-6, -30],
    "clRetainDevice": [-6],
    "clReleaseDevice": [-6],
    "clGetDeviceAndHostTimer": [-5],
    "clCreateContext": [-6, -2],
    "clGetContextInfo": [-6],
    "clCreateCommandQueue": [-6, -5],
    "clCreateCommandQueueWithProperties": [-6, -5],
    "clGetCommandQueueInfo": [-6],
    "clFlush": [-5, -36],
    "clFinish": [-5, -36],
    "clCreateBuffer": [-4, -5, -6],
    "clCreateSubBuffer": [-4, -6],
    "clGetMemObjectInfo": [-6],
    "clSetMemObjectDestructorCallback": [-6],
    "clCreateProgramWithSource": [-6],
    "clCreateProgramWithBinary": [-42, -6],
    "clBuildProgram": [-11, -6],
    "clGetProgramInfo": [-6, -30],
    "clGetProgramBuildInfo": [-6],
    "clCreateKernel": [-46, -6],
    "clCreateKernelsInProgram": [-6],
    "clSetKernelArg": [-6, -5],
    "clGetKernelInfo": [-6],
    "clGetKernelArgInfo": [-19],
    "clGetKernelWorkGroupInfo": [-6, -30],
    "clCreateUserEvent": [-6],
    "clSetUserEventStatus": [-6],
    "clWaitForEvents": [-14, -5],
    "clGetEventInfo": [-6],
    "clGetEventProfilingInfo": [-7],
    "clSetEventCallback": [-6],
    "clEnqueueReadBuffer": [-4, -5, -6],
    "clEnqueueWriteBuffer": [-4, -5, -6],
    "clEnqueueCopyBuffer": [-4, -5],
    "clEnqueueFillBuffer": [-4, -5],
    "clEnqueueMapBuffer": [-12, -4],
    "clEnqueueUnmapMemObject": [-5],
    "clEnqueueNDRangeKernel": [-4, -5, -6, -54],
    "clEnqueueMarkerWithWaitList": [-5],
    "clEnqueueBarrierWithWaitList": [-5],
    "execution": [-5, -4],
    **{
        f"cl{verb}{thing}": [-6]
        for verb in ("Retain", "Release")
        for thing in ("Context", "CommandQueue", "MemObject", "Program", "Kernel", "Event")
    },
}
# Failures that torch-ocl has handled wrongly, by scenario: they are in each sample.
ONCE_WRONG = {
    "tensors": [
        "clCreateBuffer:1+:-5",  # the exception did not name the call
        "clWaitForEvents:1:-14",  # the exception had the status of an event in place of the code
        "clEnqueueMarkerWithWaitList:1:-5",  # a destructor threw
        "clRetainCommandQueue:1:-6",  # an exception without the code
        "execution:10:-5",  # a wrong number reached the host, and the exception came later
    ],
    "fallback": [
        "clFlush:1+:-5",  # a destructor threw
        "clEnqueueWriteBuffer:2:-5",  # the result was not written back, with a warning only
        "clGetEventInfo:1:-6",  # pinned memory was lost
        "clRetainMemObject:1:-6",  # an exception without the code
    ],
    "kernels": [
        "clCreateProgramWithSource:2:-6",  # an exception without the code
        "clBuildProgram:1+:-11",  # the exception named the query for the log
        "clGetDeviceInfo:1:-6",  # an exception without the code
    ],
}
# Calls of an entry point that fail: the n-th, or all from the first on.
TIMES = ("1", "2", "10", "1+")


def names(text, entry, code):
    """Whether the text of an error names the call and the code."""
    if entry == "execution":  # found by the call that waits
        return any(CODE_NAMES[each] in text for each in (code, -14))
    if entry.startswith(("clRetain", "clRelease")):  # opencl.hpp calls them
        return CODE_NAMES[code] in text
    return entry in text and CODE_NAMES[code] in text
