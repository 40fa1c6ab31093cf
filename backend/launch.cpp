#include "backend/launch.h"

#include <algorithm>
#include <unordered_map>

#include "backend/environment.h"
#include "backend/error.h"
#include "backend/trace.h"

namespace ocl {
namespace {

struct KeyHash {
  size_t operator()(const std::pair<KernelKey, DeviceIndex>& key) const {
    uint64_t hash = key.first.site * 0x9E3779B97F4A7C15ull + static_cast<uint64_t>(key.second);
    for (const uint64_t part : key.first.by) {
      hash = (hash ^ part) * 0xFF51AFD7ED558CCDull;
      hash ^= hash >> 32;
    }
    return hash;
  }
};

using Table = std::unordered_map<std::pair<KernelKey, DeviceIndex>, Kernel, KeyHash>;

// Kernel objects hold their arguments, so each thread has its own. Leaked at the thread's end:
// drivers may be gone by then.
Table& table() {
  thread_local auto* const kernels = new Table;
  return *kernels;
}

struct LaunchRecord {
  const std::string* last = nullptr;
  uint64_t count = 0;
};
thread_local LaunchRecord record;

bool blocking() {
  static const bool set = environment_flag("OCL_LAUNCH_BLOCKING");
  return set;
}

void count_launch(Stream& stream, const std::string& name) {
  record.last = &name;
  ++record.count;
  if (C10_UNLIKELY(blocking())) {
    stream.finish();
  } else {
    stream.submitted();
  }
}

}  // namespace

namespace detail {

Kernel* lookup(const Device& device, const KernelKey& key) {
  Table& kernels = table();
  const auto found = kernels.find({key, device.index()});
  return found == kernels.end() ? nullptr : &found->second;
}

const Kernel& insert(Device& device, const KernelKey& key, const KernelSource& source) {
  Kernel kernel;
  kernel.program = &program(device, source.file, source.defines);
  kernel.name = source.kernel;
  cl_int code = CL_SUCCESS;
  kernel.handle = clCreateKernel(kernel.program->handle(), source.kernel.c_str(), &code);
  if (code != CL_SUCCESS) {
    raise(code, str("cannot create the kernel ", source.kernel, " of ", kernel.program->label),
          "clCreateKernel");
  }
  return table().emplace(std::pair{key, device.index()}, std::move(kernel)).first->second;
}

}  // namespace detail

Arguments& Arguments::add_bytes(const void* data, size_t size) {
  const cl_int code = clSetKernelArg(handle_, index_, size, data);
  if (C10_UNLIKELY(code != CL_SUCCESS)) {
    raise(code,
          str("cannot set argument ", index_, " (", size, " bytes) of the kernel ", kernel_.name,
              " of ", kernel_.program->label),
          "clSetKernelArg");
  }
  ++index_;
  return *this;
}

void Arguments::enqueue(const Range& global, const Range& local) {
  if (C10_UNLIKELY(capture_ != nullptr)) return record(global, local);
  const size_t global_size[] = {global.x, global.y, global.z};
  const size_t local_size[] = {local.x, local.y, local.z};
  const bool first = !kernel_.launched;
  const bool alone = C10_UNLIKELY(first) && stream_.device().parameters().first_launch_alone;
  if (alone) drain(stream_.device().index());
  cl_int code;
  {
    trace::Call call(stream_, trace::Kind::kKernel, "clEnqueueNDRangeKernel");
    if (call) {
      call->kernel = &kernel_.name;
      std::copy_n(global_size, 3, call->global.begin());
      std::copy_n(local_size, 3, call->local.begin());
    }
    code = clEnqueueNDRangeKernel(stream_.queue()(), handle_, 3, nullptr, global_size, local_size,
                                  0, nullptr, call.event());
  }
  if (C10_UNLIKELY(code != CL_SUCCESS)) {
    raise(code,
          str("cannot launch the kernel ", kernel_.name, " of ", kernel_.program->label, " on ",
              stream_.device().label(), " with global size ", global.x, "x", global.y, "x",
              global.z, " and local size ", local.x, "x", local.y, "x", local.z),
          "clEnqueueNDRangeKernel");
  }
  if (alone) drain(stream_.device().index());
  if (C10_UNLIKELY(first)) {
    kernel_.launched = true;
    mark_launched(*kernel_.program);
  }
  count_launch(stream_, kernel_.name);
}

void Arguments::record(const Range& global, const Range& local) {
  RecordedCommand command{.kind = trace::Kind::kKernel,
                          .function = "clEnqueueNDRangeKernel",
                          .enqueue = {},
                          .kernel = &kernel_.name,
                          .program = kernel_.program,
                          .global = {global.x, global.y, global.z},
                          .local = {local.x, local.y, local.z},
                          .first = !kernel_.launched};
  command.enqueue = [handle = handle_, global = command.global, local = command.local](
                        cl_command_queue queue, cl_event* event) {
    return clEnqueueNDRangeKernel(queue, handle, 3, nullptr, global.data(), local.data(), 0,
                                  nullptr, event);
  };
  capture_->add(std::move(command));
}

void launch_library(Stream& stream, const std::string& name, c10::function_ref<void()> enqueue) {
  stream.refuse_capture(str("call ", name));
  // Which of its kernels a library launches for the first time is not known.
  const bool alone = stream.device().parameters().first_launch_alone;
  if (alone) drain(stream.device().index());
  {
    trace::Call call(stream, trace::Kind::kKernel, name.c_str());
    if (call) call->kernel = &name;
    call.mark_begin(stream);
    enqueue();
    call.mark_end(stream);
  }
  if (alone) drain(stream.device().index());
  count_launch(stream, name);
}

const std::string& last_kernel() {
  static const std::string none;
  return record.last ? *record.last : none;
}

uint64_t launch_count() { return record.count; }

void count_launches(Stream& stream, const std::string& last, uint64_t count) {
  record.last = &last;
  record.count += count;
  if (C10_UNLIKELY(blocking())) stream.finish();
}

}  // namespace ocl
