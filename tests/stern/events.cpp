// Queries and callbacks of events, and user events.
#include "tests/stern/entry_points.h"
#include "tests/stern/profile.h"
#include "tests/stern/queries.h"
#include "tests/stern/scheduler.h"

namespace stern {

cl_int clGetEventInfo(cl_event handle, cl_event_info what, size_t size, void* value,
                      size_t* size_ret) {
  const auto event = events().find(handle);
  if (!event) return CL_INVALID_EVENT;
  const auto queue = event->queue.lock();
  const std::lock_guard lock(schedule_mutex());
  switch (what) {
    case CL_EVENT_COMMAND_QUEUE:
      return give(queue ? queue->handle : nullptr, size, value, size_ret);
    case CL_EVENT_CONTEXT:
      return give(event->context, size, value, size_ret);
    case CL_EVENT_COMMAND_TYPE:
      return give(event->type, size, value, size_ret);
    case CL_EVENT_COMMAND_EXECUTION_STATUS:
      return give(event->status, size, value, size_ret);
    case CL_EVENT_REFERENCE_COUNT:
      return give(events().references(handle), size, value, size_ret);
    default:
      return CL_INVALID_VALUE;
  }
}

cl_int clGetEventProfilingInfo(cl_event handle, cl_profiling_info what, size_t size, void* value,
                               size_t* size_ret) {
  const auto event = events().find(handle);
  if (!event) return CL_INVALID_EVENT;
  const auto queue = event->queue.lock();
  const std::lock_guard lock(schedule_mutex());
  if (!queue || !queue->profiling || event->status != CL_COMPLETE) {
    return CL_PROFILING_INFO_NOT_AVAILABLE;
  }
  const cl_uint index = what - CL_PROFILING_COMMAND_QUEUED;
  if (index >= 4) return CL_INVALID_VALUE;
  const bool marks = event->type == CL_COMMAND_MARKER || event->type == CL_COMMAND_BARRIER;
  const bool has_time = marks ? profile().marker_times : profile().command_times;
  return give(has_time ? event->times[index] : cl_ulong{0}, size, value, size_ret);
}

cl_int clSetEventCallback(cl_event handle, cl_int status,
                          void(CL_CALLBACK* function)(cl_event, cl_int, void*), void* data) {
  const auto event = events().find(handle);
  if (!event) return CL_INVALID_EVENT;
  if (!function || status < CL_COMPLETE || status > CL_SUBMITTED) return CL_INVALID_VALUE;
  const std::lock_guard lock(schedule_mutex());
  events().retain(handle);  // until it is called
  event->callbacks.push_back({status, function, data});
  if (event->status <= status) set_status(*event, event->status);  // it has no more changes
  return CL_SUCCESS;
}

cl_event clCreateUserEvent(cl_context context, cl_int* code) {
  if (!contexts().find(context)) {
    if (code) *code = CL_INVALID_CONTEXT;
    return nullptr;
  }
  const auto event = std::make_shared<Event>(context, CL_COMMAND_USER);
  event->status = CL_SUBMITTED;
  events().add(event->handle(), event);
  if (code) *code = CL_SUCCESS;
  return event->handle();
}

cl_int clSetUserEventStatus(cl_event handle, cl_int status) {
  const auto event = events().find(handle);
  if (!event || event->type != CL_COMMAND_USER) return CL_INVALID_EVENT;
  if (status > CL_COMPLETE) return CL_INVALID_VALUE;
  const std::lock_guard lock(schedule_mutex());
  if (event->status <= CL_COMPLETE) return CL_INVALID_OPERATION;
  set_status(*event, status);
  schedule();
  return CL_SUCCESS;
}

}  // namespace stern
