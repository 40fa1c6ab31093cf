#include "backend/transfer.h"

#include "backend/allocator.h"
#include "backend/error.h"
#include "backend/fault.h"

namespace ocl {
namespace {

std::string describe(const char* what, size_t bytes, const Device& device) {
  return str("cannot ", what, " ", format_bytes(bytes), " on ", device.label());
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
  translated([&] { return describe("copy", bytes, stream.device()); },
             [&] {
               stream.queue().enqueueCopyBuffer(source.segment->buffer, destination.segment->buffer,
                                                source.offset, destination.offset, bytes);
             });
  stream.submitted();
}

void copy_to_device(Stream& stream, const BufferView& destination, const void* source, size_t bytes,
                    cl::Event* event) {
  wait_for_other_streams(stream, destination);
  translated([&] { return describe("copy from the host", bytes, stream.device()); },
             [&] {
               stream.queue().enqueueWriteBuffer(destination.segment->buffer, event == nullptr,
                                                 destination.offset, bytes, source, nullptr, event);
             });
  stream.submitted();
}

void copy_to_host(Stream& stream, void* destination, const BufferView& source, size_t bytes,
                  cl::Event* event) {
  wait_for_other_streams(stream, source);
  translated([&] { return describe("copy to the host", bytes, stream.device()); },
             [&] {
               stream.queue().enqueueReadBuffer(source.segment->buffer, event == nullptr,
                                                source.offset, bytes, destination, nullptr, event);
             });
  stream.submitted();
  if (!event) stream.faults().check();
}

void fill_on_device(Stream& stream, const BufferView& destination, const void* pattern,
                    size_t pattern_bytes, size_t bytes) {
  const cl_int code =
      clEnqueueFillBuffer(stream.queue()(), destination.buffer(), pattern, pattern_bytes,
                          destination.offset, bytes, 0, nullptr, nullptr);
  if (code != CL_SUCCESS) {
    raise(code, describe("fill", bytes, stream.device()), "clEnqueueFillBuffer");
  }
  stream.submitted();
}

Mapping::Mapping(Stream& stream, const BufferView& view, size_t bytes, MapAccess access)
    : stream_(&stream), buffer_(view.segment->buffer) {
  wait_for_other_streams(stream, view);
  const cl_map_flags flags = access == MapAccess::kRead        ? CL_MAP_READ
                             : access == MapAccess::kReadWrite ? CL_MAP_READ | CL_MAP_WRITE
                                                               : CL_MAP_WRITE_INVALIDATE_REGION;
  translated([&] { return describe("map", bytes, stream.device()); },
             [&] {
               data_ = stream.queue().enqueueMapBuffer(buffer_, CL_TRUE, flags, view.offset, bytes);
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
  const cl_int code =
      clEnqueueUnmapMemObject(stream_->queue()(), buffer_(), data_, 0, nullptr, nullptr);
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
