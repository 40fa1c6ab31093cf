#include "backend/base/error.h"
#include "backend/base/failure_text.h"

#include <array>
#include <cstdio>
#include <string_view>

namespace ocl {
namespace {

struct Entry {
  cl_int code;
  const char* name;
  const char* hint;
};

constexpr const char* kReadTheLog =
    "The log below tells why: mend a kernel of your own, and report one of torch-ocl with this "
    "text.";

#define OCL_CODE(name, hint) \
  Entry { name, #name, hint }
constexpr std::array kErrors{
    OCL_CODE(CL_SUCCESS, ""),
    OCL_CODE(CL_DEVICE_NOT_FOUND, ""),
    OCL_CODE(CL_DEVICE_NOT_AVAILABLE, "Is another program using the device exclusively?"),
    OCL_CODE(CL_COMPILER_NOT_AVAILABLE, "The driver was installed without its compiler."),
    OCL_CODE(CL_MEM_OBJECT_ALLOCATION_FAILURE, "Free tensors, or call torch.ocl.empty_cache()."),
    OCL_CODE(CL_OUT_OF_RESOURCES,
             "The device ran out of memory, or a kernel accessed memory it does not own: "
             "try OCL_LAUNCH_BLOCKING=1 to find the operator."),
    OCL_CODE(CL_OUT_OF_HOST_MEMORY,
             "The host ran out of memory: use smaller batches, or close other programs."),
    OCL_CODE(CL_PROFILING_INFO_NOT_AVAILABLE, "The event has not completed: synchronize it first."),
    OCL_CODE(CL_MEM_COPY_OVERLAP, ""),
    OCL_CODE(CL_IMAGE_FORMAT_MISMATCH, ""),
    OCL_CODE(CL_IMAGE_FORMAT_NOT_SUPPORTED, ""),
    OCL_CODE(CL_BUILD_PROGRAM_FAILURE, kReadTheLog),
    OCL_CODE(CL_MAP_FAILURE,
             "The host ran out of memory or address space: call "
             "torch.accelerator.empty_host_cache(), or close other programs."),
    OCL_CODE(CL_MISALIGNED_SUB_BUFFER_OFFSET, ""),
    OCL_CODE(CL_EXEC_STATUS_ERROR_FOR_EVENTS_IN_WAIT_LIST,
             "An earlier command failed: try OCL_LAUNCH_BLOCKING=1 to find the operator."),
    OCL_CODE(CL_COMPILE_PROGRAM_FAILURE, kReadTheLog),
    OCL_CODE(CL_LINKER_NOT_AVAILABLE, ""),
    OCL_CODE(CL_LINK_PROGRAM_FAILURE, ""),
    OCL_CODE(CL_DEVICE_PARTITION_FAILED, ""),
    OCL_CODE(CL_KERNEL_ARG_INFO_NOT_AVAILABLE, ""),
    OCL_CODE(CL_INVALID_VALUE, ""),
    OCL_CODE(CL_INVALID_DEVICE_TYPE, ""),
    OCL_CODE(CL_INVALID_PLATFORM, ""),
    OCL_CODE(CL_INVALID_DEVICE, ""),
    OCL_CODE(CL_INVALID_CONTEXT, ""),
    OCL_CODE(CL_INVALID_QUEUE_PROPERTIES, ""),
    OCL_CODE(CL_INVALID_COMMAND_QUEUE,
             "The driver gives up a queue where a kernel accessed memory it does not own: run the "
             "program again with OCL_LAUNCH_BLOCKING=1 to find the operator."),
    OCL_CODE(CL_INVALID_HOST_PTR, ""),
    OCL_CODE(CL_INVALID_MEM_OBJECT, ""),
    OCL_CODE(CL_INVALID_BINARY, ""),
    OCL_CODE(CL_INVALID_BUILD_OPTIONS, ""),
    OCL_CODE(CL_INVALID_PROGRAM, ""),
    OCL_CODE(CL_INVALID_PROGRAM_EXECUTABLE, ""),
    OCL_CODE(CL_INVALID_KERNEL_NAME, ""),
    OCL_CODE(CL_INVALID_KERNEL_DEFINITION, ""),
    OCL_CODE(CL_INVALID_KERNEL, ""),
    OCL_CODE(CL_INVALID_ARG_INDEX, ""),
    OCL_CODE(CL_INVALID_ARG_VALUE, ""),
    OCL_CODE(CL_INVALID_ARG_SIZE, ""),
    OCL_CODE(CL_INVALID_KERNEL_ARGS, ""),
    OCL_CODE(CL_INVALID_WORK_DIMENSION, ""),
    OCL_CODE(CL_INVALID_WORK_GROUP_SIZE,
             "The device lacks registers or local memory for groups of this size: give a kernel of "
             "your own smaller groups, and report one of torch-ocl with the output of "
             "`python -m torch_ocl.info`."),
    OCL_CODE(CL_INVALID_WORK_ITEM_SIZE, ""),
    OCL_CODE(CL_INVALID_GLOBAL_OFFSET, ""),
    OCL_CODE(CL_INVALID_EVENT_WAIT_LIST, ""),
    OCL_CODE(CL_INVALID_EVENT, ""),
    OCL_CODE(CL_INVALID_OPERATION, ""),
    OCL_CODE(CL_INVALID_BUFFER_SIZE, ""),
    OCL_CODE(CL_INVALID_GLOBAL_WORK_SIZE, ""),
    OCL_CODE(CL_INVALID_PROPERTY, ""),
    Entry{kPlatformNotFound, "CL_PLATFORM_NOT_FOUND_KHR", "No OpenCL runtime is installed."},
};
#undef OCL_CODE

// Names of functions in the errors of opencl.hpp that are not OpenCL's names, and OpenCL's names.
constexpr std::pair<std::string_view, const char*> kFunctions[] = {
    {"clGetEventProfileInfo", "clGetEventProfilingInfo"},
    {"Retain Object", "clRetain* (another reference to an object)"},
    {"Release Object", "clRelease* (the end of a reference to an object)"},
};

// The hint for codes that have none of their own.
constexpr const char* kReport =
    "If your arguments are right, please report it with the output of `python -m torch_ocl.info`.";

const char* function_name(const char* name) noexcept {
  for (const auto& [theirs, real] : kFunctions) {
    if (theirs == name) return real;
  }
  return name;
}

const Entry* find(cl_int code) noexcept {
  for (const Entry& entry : kErrors) {
    if (entry.code == code) return &entry;
  }
  return nullptr;
}

}  // namespace

const char* error_name(cl_int code) noexcept {
  const Entry* entry = find(code);
  return entry ? entry->name : "unknown OpenCL error";
}

const char* error_hint(cl_int code) noexcept {
  const Entry* entry = find(code);
  return entry && *entry->hint ? entry->hint : kReport;
}

bool is_out_of_memory(cl_int code) noexcept {
  return code == CL_MEM_OBJECT_ALLOCATION_FAILURE || code == CL_OUT_OF_RESOURCES ||
         code == CL_OUT_OF_HOST_MEMORY || code == CL_INVALID_BUFFER_SIZE;
}

std::string format_bytes(size_t bytes) {
  constexpr std::array kUnits{"KiB", "MiB", "GiB", "TiB"};
  if (bytes < 1024) return str(bytes, " bytes");
  double value = static_cast<double>(bytes) / 1024;
  size_t unit = 0;
  while (value >= 1024 && unit + 1 < kUnits.size()) {
    value /= 1024;
    ++unit;
  }
  char text[32];
  std::snprintf(text, sizeof(text), "%.2f %s", value, kUnits[unit]);
  return text;
}

std::string failure_text(cl_int code, const char* function) {
  return str(function_name(function), " failed with ", error_name(code), " (", code, ")");
}

void raise(cl_int code, const std::string& what, const char* function) {
  const std::string text = str(what, ": ", failure_text(code, function), ". ", error_hint(code));
  TORCH_CHECK_WITH(OutOfMemoryError, code != CL_MEM_OBJECT_ALLOCATION_FAILURE, text);
  throw c10::AcceleratorError({__func__, __FILE__, __LINE__}, code, text);
}

}  // namespace ocl
