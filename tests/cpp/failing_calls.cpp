#include "tests/cpp/failing_calls.h"

#include <atomic>

#include "backend/base/opencl.h"

namespace ocl::test {
namespace {
std::atomic<bool> markers_fail{false}, commands_fail{false};
std::atomic<int> launches_to_fail{0}, fills_to_fail{0}, builds_to_fail{0}, links_to_fail{0};

bool take(std::atomic<int>& count) {
  int left = count.load();
  while (left > 0 && !count.compare_exchange_weak(left, left - 1)) {
  }
  return left > 0;
}
}  // namespace

std::function<void()>& build_action() {
  static std::function<void()> action;
  return action;
}

std::function<void()>& wait_action() {
  static std::function<void()> action;
  return action;
}

std::function<void(const void*)>& read_action() {
  static std::function<void(const void*)> action;
  return action;
}

void on_build(std::function<void()> action) { build_action() = std::move(action); }
void on_wait(std::function<void()> action) { wait_action() = std::move(action); }
void on_read(std::function<void(const void*)> action) { read_action() = std::move(action); }
void fail_launches(int count) { launches_to_fail = count; }
void fail_fills(int count) { fills_to_fail = count; }
void fail_builds(int count) { builds_to_fail = count; }
void fail_links(int count) { links_to_fail = count; }

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

extern "C" decltype(clEnqueueNDRangeKernel) __wrap_clEnqueueNDRangeKernel,
    __real_clEnqueueNDRangeKernel;

extern "C" cl_int __wrap_clEnqueueNDRangeKernel(cl_command_queue queue, cl_kernel kernel,
                                                cl_uint dims, const size_t* offset,
                                                const size_t* global, const size_t* local,
                                                cl_uint count, const cl_event* events,
                                                cl_event* event) {
  if (ocl::test::take(ocl::test::launches_to_fail)) return CL_MEM_OBJECT_ALLOCATION_FAILURE;
  return __real_clEnqueueNDRangeKernel(queue, kernel, dims, offset, global, local, count, events,
                                       event);
}

extern "C" decltype(clEnqueueFillBuffer) __wrap_clEnqueueFillBuffer, __real_clEnqueueFillBuffer;

extern "C" cl_int __wrap_clEnqueueFillBuffer(cl_command_queue queue, cl_mem buffer,
                                             const void* pattern, size_t pattern_size,
                                             size_t offset, size_t size, cl_uint count,
                                             const cl_event* events, cl_event* event) {
  if (ocl::test::take(ocl::test::fills_to_fail)) return CL_MEM_OBJECT_ALLOCATION_FAILURE;
  return __real_clEnqueueFillBuffer(queue, buffer, pattern, pattern_size, offset, size, count,
                                    events, event);
}

extern "C" decltype(clBuildProgram) __wrap_clBuildProgram, __real_clBuildProgram;

extern "C" cl_int __wrap_clBuildProgram(cl_program program, cl_uint count,
                                        const cl_device_id* devices, const char* options,
                                        void(CL_CALLBACK* notify)(cl_program, void*),
                                        void* user_data) {
  if (const auto& action = ocl::test::build_action()) action();
  if (ocl::test::take(ocl::test::builds_to_fail)) return CL_BUILD_PROGRAM_FAILURE;
  return __real_clBuildProgram(program, count, devices, options, notify, user_data);
}

extern "C" decltype(clCompileProgram) __wrap_clCompileProgram, __real_clCompileProgram;

extern "C" cl_int __wrap_clCompileProgram(cl_program program, cl_uint count,
                                          const cl_device_id* devices, const char* options,
                                          cl_uint header_count, const cl_program* headers,
                                          const char** header_names,
                                          void(CL_CALLBACK* notify)(cl_program, void*),
                                          void* user_data) {
  if (const auto& action = ocl::test::build_action()) action();
  if (ocl::test::take(ocl::test::builds_to_fail)) return CL_COMPILE_PROGRAM_FAILURE;
  return __real_clCompileProgram(program, count, devices, options, header_count, headers,
                                 header_names, notify, user_data);
}

extern "C" decltype(clLinkProgram) __wrap_clLinkProgram, __real_clLinkProgram;

extern "C" cl_program __wrap_clLinkProgram(cl_context context, cl_uint count,
                                           const cl_device_id* devices, const char* options,
                                           cl_uint part_count, const cl_program* parts,
                                           void(CL_CALLBACK* notify)(cl_program, void*),
                                           void* user_data, cl_int* code) {
  if (ocl::test::take(ocl::test::links_to_fail)) {
    if (code) *code = CL_LINK_PROGRAM_FAILURE;
    return nullptr;
  }
  return __real_clLinkProgram(context, count, devices, options, part_count, parts, notify,
                              user_data, code);
}

extern "C" decltype(clEnqueueReadBuffer) __wrap_clEnqueueReadBuffer, __real_clEnqueueReadBuffer;

extern "C" cl_int __wrap_clEnqueueReadBuffer(cl_command_queue queue, cl_mem buffer,
                                             cl_bool blocking, size_t offset, size_t size,
                                             void* host, cl_uint count, const cl_event* events,
                                             cl_event* event) {
  if (const auto& action = ocl::test::read_action()) action(host);
  return __real_clEnqueueReadBuffer(queue, buffer, blocking, offset, size, host, count, events,
                                    event);
}

extern "C" decltype(clWaitForEvents) __wrap_clWaitForEvents, __real_clWaitForEvents;

extern "C" cl_int __wrap_clWaitForEvents(cl_uint count, const cl_event* events) {
  if (const auto& action = ocl::test::wait_action()) action();
  return __real_clWaitForEvents(count, events);
}
