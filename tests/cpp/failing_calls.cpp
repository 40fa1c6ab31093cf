#include "tests/cpp/failing_calls.h"

#include <atomic>

#include "backend/opencl.h"

namespace ocl::test {
namespace {
std::atomic<bool> markers_fail{false}, commands_fail{false};
}

FailingMarkers::FailingMarkers() { markers_fail = true; }
FailingMarkers::~FailingMarkers() { markers_fail = false; }

FailingCommands::FailingCommands() { commands_fail = true; }
FailingCommands::~FailingCommands() { commands_fail = false; }

}  // namespace ocl::test

// The linker takes the first for the function, which is the second (--wrap).
extern "C" cl_int __wrap_clEnqueueMarkerWithWaitList(cl_command_queue queue, cl_uint count,
                                                     const cl_event* events, cl_event* event);
extern "C" cl_int __real_clEnqueueMarkerWithWaitList(cl_command_queue queue, cl_uint count,
                                                     const cl_event* events, cl_event* event);

extern "C" cl_int __wrap_clEnqueueMarkerWithWaitList(cl_command_queue queue, cl_uint count,
                                                     const cl_event* events, cl_event* event) {
  if (ocl::test::markers_fail) return CL_OUT_OF_RESOURCES;
  return __real_clEnqueueMarkerWithWaitList(queue, count, events, event);
}

extern "C" cl_int __wrap_clGetEventInfo(cl_event event, cl_event_info what, size_t size,
                                        void* value, size_t* value_size);
extern "C" cl_int __real_clGetEventInfo(cl_event event, cl_event_info what, size_t size,
                                        void* value, size_t* value_size);

extern "C" cl_int __wrap_clGetEventInfo(cl_event event, cl_event_info what, size_t size,
                                        void* value, size_t* value_size) {
  const cl_int code = __real_clGetEventInfo(event, what, size, value, value_size);
  if (ocl::test::commands_fail && what == CL_EVENT_COMMAND_EXECUTION_STATUS && value) {
    *static_cast<cl_int*>(value) = CL_OUT_OF_RESOURCES;
  }
  return code;
}
