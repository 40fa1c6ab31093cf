#include "backend/queue/capture.h"

#include <algorithm>

#include "backend/base/error.h"
#include "backend/queue/fault.h"

namespace ocl {

void Stream::raise_captured(std::string_view what) const { capture()->refuse(what); }

namespace {

uint64_t next_id() {
  static std::atomic<uint64_t> last{0};
  return ++last;
}

}  // namespace

Capture::Capture(Stream& origin, uint64_t pool) : id_(next_id()), pool_(pool), origin_(origin) {
  join(origin);
}

Capture::~Capture() {
  for (Stream* stream : streams_) stream->set_capture(nullptr);
}

void Capture::add(RecordedCommand command) {
  std::lock_guard lock(mutex_);
  recording_.commands.push_back(std::move(command));
}

cl_kernel Capture::make_kernel(const Program& program, const std::string& name) {
  cl_int code = CL_SUCCESS;
  cl::Kernel kernel(clCreateKernel(program.handle(), name.c_str(), &code));
  if (code != CL_SUCCESS) {
    raise(code, str("cannot create the kernel ", name, " of ", program.label), "clCreateKernel");
  }
  std::lock_guard lock(mutex_);
  recording_.kernels.push_back(std::move(kernel));
  return recording_.kernels.back()();
}

void Capture::bind_fault_word(cl_kernel kernel, cl_uint index) {
  std::lock_guard lock(mutex_);
  recording_.faults.push_back({kernel, index});
}

void Capture::keep(cl_mem buffer) {
  std::lock_guard lock(mutex_);
  auto& buffers = recording_.buffers;
  // Launches use the same few buffers again and again, so each buffer is kept once.
  const auto same = [&](const cl::Buffer& each) { return each() == buffer; };
  if (std::find_if(buffers.rbegin(), buffers.rend(), same) != buffers.rend()) return;
  translated([] { return std::string("cannot keep a buffer for a graph"); },
             [&] { buffers.emplace_back(buffer, /*retainObject=*/true); });
}

void Capture::keep(std::shared_ptr<const void> object) {
  std::lock_guard lock(mutex_);
  recording_.kept.push_back(std::move(object));
}

void Capture::before_replay(std::function<void()> hook) {
  std::lock_guard lock(mutex_);
  recording_.hooks.push_back(std::move(hook));
}

void Capture::join(Stream& stream) {
  if (stream.capture() == this) return;
  TORCH_CHECK(!stream.capture(), "a graph is being captured on this stream of ",
              stream.device().label(), " already");
  TORCH_CHECK(&stream.device() == &origin_.device(), "a graph of ", origin_.device().label(),
              " cannot contain work of ", stream.device().label());
  // Other threads also use the default stream, and do not know of the capture.
  if (stream.id() == 0) {
    if (!streams_.empty()) refuse("make the default stream wait for a captured one");
    TORCH_CHECK(false, "a graph cannot be captured on the default stream: capture it under ",
                "torch.ocl.graph(), or inside of torch.ocl.stream(torch.ocl.Stream())");
  }
  std::lock_guard lock(mutex_);
  streams_.push_back(&stream);
  stream.set_capture(this);
}

void Capture::refuse(std::string_view what) {
  const std::string text = str(
      "cannot ", what, " while a graph is captured on this stream of ", origin_.device().label(),
      ": nothing runs before the replay. Do it before or after the capture; see "
      "docs/graphs.md");
  {
    std::lock_guard lock(mutex_);
    if (refused_.empty()) refused_ = text;
  }
  TORCH_CHECK(false, text);
}

}  // namespace ocl
