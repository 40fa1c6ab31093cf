#include "backend/transfer.h"

#include "backend/allocator.h"
#include "backend/error.h"
#include "backend/fault.h"
#include "backend/trace.h"

namespace ocl {
namespace {

std::string describe(const char* what, size_t bytes, const Device& device) {
  return str("cannot ", what, " ", format_bytes(bytes), " on ", device.label());
}

// Enqueues a command and records it in a trace. `event` is one that the caller needs.
template <typename Body>
void enqueue(Stream& stream, size_t bytes, const char* what, trace::Kind kind, const char* function,
             cl::Event* event, Body&& body) {
  trace::Call call(stream, kind, function);
  if (call) call->bytes = bytes;
  const cl_int code = body(call.event(event));
  if (code != CL_SUCCESS) raise(code, describe(what, bytes, stream.device()), function);
}

// A block recorded on other streams may still be in use there.
void wait_for_other_streams(Stream& stream, const BufferView& view) {
  if (C10_LIKELY(!view.segment->shared_between_streams.load(std::memory_order_relaxed))) return;
  for (const StreamId id : Allocator::instance().other_streams(view, stream.id())) {
    const c10::Stream other(c10::Stream::UNSAFE, stream.unpack().device(), id);
    stream.wait_for(ocl::stream(other).marker(), stream.device());
  }
}

}  // namespace

void copy_on_device(Stream& stream, const BufferView& destination, const BufferView& source,
                    size_t bytes) {
  enqueue(stream, bytes, "copy", trace::Kind::kCopyOnDevice, "clEnqueueCopyBuffer", nullptr,
          [&](cl_event* event) {
            return clEnqueueCopyBuffer(stream.queue()(), source.buffer(), destination.buffer(),
                                       source.offset, destination.offset, bytes, 0, nullptr, event);
          });
  stream.submitted();
}

void copy_to_device(Stream& stream, const BufferView& destination, const void* source, size_t bytes,
                    cl::Event* event) {
  wait_for_other_streams(stream, destination);
  enqueue(stream, bytes, "copy from the host", trace::Kind::kCopyToDevice, "clEnqueueWriteBuffer",
          event, [&](cl_event* out) {
            return clEnqueueWriteBuffer(stream.queue()(), destination.buffer(), event == nullptr,
                                        destination.offset, bytes, source, 0, nullptr, out);
          });
  stream.submitted();
}

void copy_to_host(Stream& stream, void* destination, const BufferView& source, size_t bytes,
                  cl::Event* event) {
  wait_for_other_streams(stream, source);
  enqueue(stream, bytes, "copy to the host", trace::Kind::kCopyToHost, "clEnqueueReadBuffer", event,
          [&](cl_event* out) {
            return clEnqueueReadBuffer(stream.queue()(), source.buffer(), event == nullptr,
                                       source.offset, bytes, destination, 0, nullptr, out);
          });
  stream.submitted();
  if (!event) stream.faults().check();
}

void fill_on_device(Stream& stream, const BufferView& destination, const void* pattern,
                    size_t pattern_bytes, size_t bytes) {
  enqueue(stream, bytes, "fill", trace::Kind::kFill, "clEnqueueFillBuffer", nullptr,
          [&](cl_event* event) {
            return clEnqueueFillBuffer(stream.queue()(), destination.buffer(), pattern,
                                       pattern_bytes, destination.offset, bytes, 0, nullptr, event);
          });
  stream.submitted();
}

Mapping::Mapping(Stream& stream, const BufferView& view, size_t bytes, MapAccess access,
                 OtherStreams others)
    : stream_(&stream), buffer_(view.segment->buffer) {
  if (others == OtherStreams::kWait) wait_for_other_streams(stream, view);
  const cl_map_flags flags = access == MapAccess::kRead        ? CL_MAP_READ
                             : access == MapAccess::kReadWrite ? CL_MAP_READ | CL_MAP_WRITE
                                                               : CL_MAP_WRITE_INVALIDATE_REGION;
  enqueue(stream, bytes, "map", trace::Kind::kMap, "clEnqueueMapBuffer", nullptr,
          [&](cl_event* event) {
            cl_int code = CL_SUCCESS;
            data_ = clEnqueueMapBuffer(stream.queue()(), buffer_(), CL_TRUE, flags, view.offset,
                                       bytes, 0, nullptr, event, &code);
            return code;
          });
  try {
    stream.faults().check();
  } catch (...) {
    clEnqueueUnmapMemObject(stream.queue()(), buffer_(), data_, 0, nullptr, nullptr);
    throw;
  }
}

Mapping::Mapping(Mapping&& other) noexcept
    : stream_(other.stream_),
      buffer_(std::move(other.buffer_)),
      data_(std::exchange(other.data_, nullptr)) {}

Mapping::~Mapping() {
  if (!data_) return;
  cl_int code;
  {
    trace::Call call(*stream_, trace::Kind::kUnmap, "clEnqueueUnmapMemObject");
    code = clEnqueueUnmapMemObject(stream_->queue()(), buffer_(), data_, 0, nullptr, call.event());
  }
  if (code != CL_SUCCESS) {
    TORCH_WARN("ocl: cannot unmap memory of ", stream_->device().label(), ": ", error_name(code));
  }
  try {
    stream_->flush();
  } catch (const std::exception& error) {
    TORCH_WARN("ocl: ", error.what());
  }
}

}  // namespace ocl
