// The life of objects: creating contexts and queues, retaining and releasing everything.
#include "tests/stern/objects.h"

#include <vector>

#include "tests/stern/entry_points.h"
#include "tests/stern/launch.h"
#include "tests/stern/profile.h"
#include "tests/stern/queries.h"
#include "tests/stern/scheduler.h"

namespace stern {

// Leaked: programs release objects until the very end.
#define STERN_TABLE(State, name)                    \
  Table<State>& name() {                            \
    static auto* const instance = new Table<State>; \
    return *instance;                               \
  }                                                 \
  template <>                                       \
  Table<State>& table<State>() {                    \
    return name();                                  \
  }

STERN_TABLE(Context, contexts)
STERN_TABLE(Program, programs)
STERN_TABLE(Kernel, kernels)
STERN_TABLE(Buffer, buffers)
STERN_TABLE(Queue, queues)
STERN_TABLE(Event, events)

namespace {

// PoCL counts one reference, which the layer releases when the last of its own goes.
template <typename State>
cl_int retain(const void* handle, cl_int invalid) {
  if (table<State>().retain(handle)) return CL_SUCCESS;
  return refuse(invalid, "retains an object that is gone");
}

// `last` gets the object when it was its last reference.
template <typename State>
cl_int release(const void* handle, cl_int invalid, std::shared_ptr<State>* last = nullptr) {
  std::shared_ptr<State> own;
  if (table<State>().release(handle, last ? last : &own)) return CL_SUCCESS;
  return refuse(invalid, "releases an object that is gone");
}

cl_context tracked(cl_context context, cl_int code, cl_int* code_ret) {
  if (context) contexts().add(context, std::make_shared<Context>(context));
  if (code_ret) *code_ret = code;
  return context;
}

cl_command_queue make_queue(cl_context context, cl_device_id device,
                            cl_command_queue_properties properties, cl_int* code) {
  cl_command_queue_properties supported = CL_QUEUE_OUT_OF_ORDER_EXEC_MODE_ENABLE;
  if (profile().queue_times) supported |= CL_QUEUE_PROFILING_ENABLE;
  const bool known = !(properties & ~supported);
  cl_int ignored;
  code = code ? code : &ignored;
  *code = contexts().find(context) ? known ? CL_SUCCESS : CL_INVALID_QUEUE_PROPERTIES
                                   : CL_INVALID_CONTEXT;
  if (*code != CL_SUCCESS) return nullptr;
  const cl_command_queue handle =
      next->clCreateCommandQueue(context, real_device(device), properties, code);
  if (!handle) return nullptr;
  const auto queue = std::make_shared<Queue>(handle);
  queue->context = context;
  queue->kept = Keep<Context>(context);
  queue->profiling = properties & CL_QUEUE_PROFILING_ENABLE;
  queues().add(handle, queue);
  return handle;
}

}  // namespace

cl_context clCreateContext(const cl_context_properties* properties, cl_uint count,
                           const cl_device_id* devices,
                           void(CL_CALLBACK* notify)(const char*, const void*, size_t, void*),
                           void* data, cl_int* code_ret) {
  std::vector<cl_device_id> real;
  for (cl_uint i = 0; devices && i < count; ++i) real.push_back(real_device(devices[i]));
  cl_int code = CL_SUCCESS;
  // Properties may name the platform, which follows from the device.
  const cl_context context =
      next->clCreateContext(nullptr, count, devices ? real.data() : nullptr, notify, data, &code);
  return tracked(context, code, code_ret);
}

cl_context clCreateContextFromType(const cl_context_properties* properties, cl_device_type type,
                                   void(CL_CALLBACK* notify)(const char*, const void*, size_t,
                                                             void*),
                                   void* data, cl_int* code_ret) {
  cl_platform_id platform = nullptr;
  cl_device_id device = nullptr;
  cl_int code = stern::clGetPlatformIDs(1, &platform, nullptr);
  if (code == CL_SUCCESS) code = stern::clGetDeviceIDs(platform, type, 1, &device, nullptr);
  if (code != CL_SUCCESS) return tracked(nullptr, code, code_ret);
  return stern::clCreateContext(properties, 1, &device, notify, data, code_ret);
}

cl_int clRetainContext(cl_context context) { return retain<Context>(context, CL_INVALID_CONTEXT); }

cl_int clReleaseContext(cl_context context) {
  return release<Context>(context, CL_INVALID_CONTEXT);
}

cl_command_queue clCreateCommandQueue(cl_context context, cl_device_id device,
                                      cl_command_queue_properties properties, cl_int* code) {
  return make_queue(context, device, properties, code);
}

cl_command_queue clCreateCommandQueueWithProperties(cl_context context, cl_device_id device,
                                                    const cl_queue_properties* list, cl_int* code) {
  cl_command_queue_properties properties = 0;
  cl_int wrong = profile().runtime_version < 200 ? CL_INVALID_OPERATION : CL_SUCCESS;
  for (; list && *list; list += 2) {
    const bool hint = *list == CL_QUEUE_PRIORITY_KHR && profile().has("cl_khr_priority_hints");
    if (*list == CL_QUEUE_PROPERTIES)
      properties = list[1];
    else if (!hint)
      wrong = CL_INVALID_QUEUE_PROPERTIES;
  }
  if (wrong == CL_SUCCESS) return make_queue(context, device, properties, code);
  if (code) *code = wrong;
  return nullptr;
}

cl_int clRetainCommandQueue(cl_command_queue queue) {
  return retain<Queue>(queue, CL_INVALID_COMMAND_QUEUE);
}

cl_int clReleaseCommandQueue(cl_command_queue queue) {
  std::shared_ptr<Queue> last;
  const cl_int code = release<Queue>(queue, CL_INVALID_COMMAND_QUEUE, &last);
  if (last) flush(last);
  return code;
}

cl_int clRetainMemObject(cl_mem buffer) { return retain<Buffer>(buffer, CL_INVALID_MEM_OBJECT); }

cl_int clReleaseMemObject(cl_mem buffer) { return release<Buffer>(buffer, CL_INVALID_MEM_OBJECT); }

cl_int clRetainProgram(cl_program program) { return retain<Program>(program, CL_INVALID_PROGRAM); }

cl_int clReleaseProgram(cl_program program) {
  return release<Program>(program, CL_INVALID_PROGRAM);
}

cl_int clRetainKernel(cl_kernel kernel) { return retain<Kernel>(kernel, CL_INVALID_KERNEL); }

cl_int clReleaseKernel(cl_kernel kernel) { return release<Kernel>(kernel, CL_INVALID_KERNEL); }

cl_int clRetainEvent(cl_event event) { return retain<Event>(event, CL_INVALID_EVENT); }

cl_int clReleaseEvent(cl_event event) { return release<Event>(event, CL_INVALID_EVENT); }

// An extension's functions would reach PoCL past the layer.
void* clGetExtensionFunctionAddress(const char*) { return nullptr; }

void* clGetExtensionFunctionAddressForPlatform(cl_platform_id, const char*) { return nullptr; }

}  // namespace stern
