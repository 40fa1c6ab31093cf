#include "backend/memory/transfer.h"

#include <array>
#include <cstring>

#include "backend/base/error.h"
#include "backend/base/sync_debug.h"
#include "backend/memory/allocator.h"
#include "backend/memory/host_allocator.h"
#include "backend/queue/command_sink.h"
#include "backend/queue/watchdog.h"

namespace ocl {
namespace {

std::string describe(const char* what, size_t bytes, const Device& device) {
  return str("cannot ", what, " ", format_bytes(bytes), " on ", device.label());
}

struct Transfer {
  const char* what;
  trace::Kind kind;
  const char* function;
  size_t bytes;

  // The arguments of a command for a part of the bytes.
  trace::CommandInfo info(size_t part) const {
    return {.kind = kind, .function = function, .bytes = part};
  }
};

// Drivers have moved more than 2 or 4 GiB wrongly: copies to pinned memory end early
// (https://github.com/ROCm/hip/issues/3716), and fills hang
// (https://github.com/inducer/pyopencl/issues/395). So one command moves at most 1 GiB.
constexpr size_t kMostBytes = size_t{1} << 30;

// Calls body(offset, bytes) for each part.
template <typename Body>
void in_parts(size_t bytes, Body&& body) {
  size_t offset = 0;
  for (; bytes - offset > kMostBytes; offset += kMostBytes) body(offset, kMostBytes);
  body(offset, bytes - offset);
}

// Enqueues body(queue, event, offset, bytes) for each part.
template <typename Body>
void enqueue(Stream& stream, const Transfer& transfer, const Body& body) {
  in_parts(transfer.bytes, [&](size_t offset, size_t part) {
    enqueue_command(
        stream, transfer.info(part),
        [&](cl_command_queue queue, cl_event* out) { return body(queue, out, offset, part); },
        [&] { return describe(transfer.what, transfer.bytes, stream.device()); });
  });
}

// Enqueues or records body(queue, event, offset, bytes) for each part; `event` is of the last one.
// `body` owns everything that it needs except the buffers.
template <typename Body>
void submit(Stream& stream, const Transfer& transfer, std::initializer_list<cl_mem> buffers,
            cl::Event* event, const Body& body) {
  const CommandSink sink(stream);
  for (const cl_mem buffer : buffers) sink.use(buffer);
  in_parts(transfer.bytes, [&](size_t offset, size_t part) {
    const bool last = offset + part == transfer.bytes;
    sink.submit(
        {transfer.info(part)},
        [body, offset, part](cl_command_queue queue, cl_event* out) {
          return body(queue, out, offset, part);
        },
        [&] { return describe(transfer.what, transfer.bytes, stream.device()); },
        last ? event : nullptr);
  });
}

// Call before a command that blocks. Some drivers let a thread in clFinish() run commands
// meanwhile.
void wait_for_commands_before(Stream& stream) {
  if (stream.device().has(Quirk::kWaitRunsCommands)) return stream.drain();
  watchdog::watch(stream);
}

// Call before a copy between host and device, which blocks if there is no event.
void prepare(Stream& stream, const BufferView& view, const cl::Event* event, const char* what) {
  if (!event) {
    stream.refuse_capture(what);
    note_wait(what);
  }
  wait_for_other_streams(stream, view);
  if (!event) wait_for_commands_before(stream);
}

// Call after a blocking read. The read succeeds even if an earlier command failed and left wrong
// bytes there; only clFinish() reports that.
void raise_failures(Stream& stream, const FaultReport& report, const BufferView& read) {
  stream.drain();
  stream.faults().raise_reported(report, &read);
  stream.raise_failures_of_others();
}

}  // namespace

void wait_for_other_streams(Stream& stream, const BufferView& view) {
  if (C10_LIKELY(!view.segment->shared_between_streams.load(std::memory_order_relaxed))) return;
  if (stream.captured()) return;  // a graph's memory belongs to it alone
  for (const StreamId id : Allocator::instance().other_streams(view, stream.id())) {
    const c10::Stream stream_of_id(c10::Stream::UNSAFE, stream.unpack().device(), id);
    Stream& other = ocl::stream(stream_of_id);
    stream.wait_for(other);
  }
}

void copy_on_device(Stream& stream, const BufferView& destination, const BufferView& source,
                    size_t bytes) {
  const cl_mem from = source.buffer(), to = destination.buffer();
  submit(stream, {"copy", trace::Kind::kCopyOnDevice, "clEnqueueCopyBuffer", bytes}, {from, to},
         nullptr,
         [from, to, first = source.offset, put = destination.offset](
             cl_command_queue queue, cl_event* event, size_t at, size_t part) {
           return clEnqueueCopyBuffer(queue, from, to, first + at, put + at, part, 0, nullptr,
                                      event);
         });
}

void copy_to_device(Stream& stream, const BufferView& destination, const void* source, size_t bytes,
                    cl::Event* event) {
  prepare(stream, destination, event, "copy from host memory that is not pinned");
  const cl_mem buffer = destination.buffer();
  submit(stream, {"copy from the host", trace::Kind::kCopyToDevice, "clEnqueueWriteBuffer", bytes},
         {buffer}, event,
         [buffer, from = static_cast<const char*>(source), offset = destination.offset,
          block = cl_bool{event == nullptr}](cl_command_queue queue, cl_event* out, size_t at,
                                             size_t part) {
           return clEnqueueWriteBuffer(queue, buffer, block, offset + at, part, from + at, 0,
                                       nullptr, out);
         });
  // A blocking write returns when the host memory may change. With Intel's runtime it may run
  // later, and a command of another stream would read what was there before.
  if (!event) stream.drain();
}

void copy_to_host(Stream& stream, void* destination, const BufferView& source, size_t bytes,
                  cl::Event* event) {
  prepare(stream, source, event, "read a result on the host");
  const cl_mem buffer = source.buffer();
  const FaultReport report = event ? FaultReport() : stream.faults().report();
  submit(stream, {"copy to the host", trace::Kind::kCopyToHost, "clEnqueueReadBuffer", bytes},
         {buffer}, event,
         [buffer, to = static_cast<char*>(destination), offset = source.offset,
          block = cl_bool{event == nullptr}](cl_command_queue queue, cl_event* out, size_t at,
                                             size_t part) {
           return clEnqueueReadBuffer(queue, buffer, block, offset + at, part, to + at, 0, nullptr,
                                      out);
         });
  if (!event) raise_failures(stream, report, source);
}

void fill_on_device(Stream& stream, const BufferView& destination, const void* pattern,
                    size_t pattern_bytes, size_t bytes) {
  std::array<std::byte, 16> copy;
  std::memcpy(copy.data(), pattern, pattern_bytes);
  const cl_mem buffer = destination.buffer();
  submit(stream, {"fill", trace::Kind::kFill, "clEnqueueFillBuffer", bytes}, {buffer}, nullptr,
         [buffer, copy, pattern_bytes, offset = destination.offset](
             cl_command_queue queue, cl_event* event, size_t at, size_t part) {
           return clEnqueueFillBuffer(queue, buffer, copy.data(), pattern_bytes, offset + at, part,
                                      0, nullptr, event);
         });
}

Mapping::Mapping(Stream& stream, const BufferView& view, size_t bytes, MapAccess access,
                 OtherStreams others)
    : stream_(&stream),
      buffer_(translated([&] { return describe("map", bytes, stream.device()); },
                         [&] { return view.segment->buffer; })),
      offset_(view.offset),
      bytes_(bytes),
      writes_(access != MapAccess::kRead) {
  constexpr std::string_view kWhat = "read or write device memory on the host";
  stream.refuse_capture(kWhat);
  if (others == OtherStreams::kWait) note_wait(kWhat);  // collectives wait in their own thread
  if (others == OtherStreams::kWait) wait_for_other_streams(stream, view);
  if (stream.device().uses_host_memory()) {
    map(view, access);
  } else {
    read(view, access);
  }
}

void Mapping::map(const BufferView& view, MapAccess access) {
  Stream& stream = *stream_;
  const cl_map_flags flags = access == MapAccess::kRead        ? CL_MAP_READ
                             : access == MapAccess::kReadWrite ? CL_MAP_READ | CL_MAP_WRITE
                                                               : CL_MAP_WRITE_INVALIDATE_REGION;
  const FaultReport report = stream.faults().report();
  wait_for_commands_before(stream);
  enqueue_command(
      stream, {.kind = trace::Kind::kMap, .function = "clEnqueueMapBuffer", .bytes = bytes_},
      [&](cl_command_queue queue, cl_event* event) {
        cl_int code = CL_SUCCESS;
        data_ = clEnqueueMapBuffer(queue, buffer_(), CL_TRUE, flags, offset_, bytes_, 0, nullptr,
                                   event, &code);
        return code;
      },
      [&] { return describe("map", bytes_, stream.device()); });
  try {
    raise_failures(stream, report, view);
  } catch (...) {
    enqueue_unmap(nullptr);
    throw;
  }
}

cl_int Mapping::enqueue_unmap(cl_event* event) {
  return stream_->enqueue([&](cl_command_queue queue) {
    return clEnqueueUnmapMemObject(queue, buffer_(), data_, 0, nullptr, event);
  });
}

void Mapping::unmap() {
  cl_int code;
  {
    trace::Call call(*stream_, {trace::Kind::kUnmap, "clEnqueueUnmapMemObject"});
    code = enqueue_unmap(call.event());
  }
  if (code != CL_SUCCESS) {
    raise(code, describe("unmap", bytes_, stream_->device()), "clEnqueueUnmapMemObject");
  }
}

void Mapping::read(const BufferView& view, MapAccess access) {
  copy_ = host_allocator()->allocate(bytes_);
  data_ = copy_.get();
  if (access == MapAccess::kDiscardAndWrite) return;
  const FaultReport report = stream_->faults().report();
  wait_for_commands_before(*stream_);
  enqueue(*stream_, {"copy to the host", trace::Kind::kCopyToHost, "clEnqueueReadBuffer", bytes_},
          [&](cl_command_queue queue, cl_event* event, size_t at, size_t part) {
            return clEnqueueReadBuffer(queue, buffer_(), CL_TRUE, offset_ + at, part,
                                       static_cast<char*>(data_) + at, 0, nullptr, event);
          });
  raise_failures(*stream_, report, view);
}

void Mapping::write() {
  record_pinned(data_, copy_.get_context(), stream_->unpack());  // before a part may fail
  enqueue(*stream_,
          {"copy from the host", trace::Kind::kCopyToDevice, "clEnqueueWriteBuffer", bytes_},
          [&](cl_command_queue queue, cl_event* event, size_t at, size_t part) {
            return clEnqueueWriteBuffer(queue, buffer_(), CL_FALSE, offset_ + at, part,
                                        static_cast<const char*>(data_) + at, 0, nullptr, event);
          });
  stream_->submitted();
}

Mapping::Mapping(Mapping&& other) noexcept
    : stream_(other.stream_),
      buffer_(std::move(other.buffer_)),
      offset_(other.offset_),
      bytes_(other.bytes_),
      writes_(other.writes_),
      copy_(std::move(other.copy_)),
      data_(std::exchange(other.data_, nullptr)) {}

void Mapping::close() {
  if (!data_) return;
  refuse_fork();
  if (!is_copy()) {
    unmap();
  } else if (writes_) {
    write();
  }
  data_ = nullptr;
  stream_->flush();
}

void Mapping::abandon() {
  if (!data_ || is_copy()) return;
  unmap();
  stream_->flush();
}

Mapping::~Mapping() {
  if (in_bad_fork()) {  // a forked process can release nothing
    buffer_() = nullptr;
    return;
  }
  try {
    abandon();
  } catch (const std::exception& error) {
    TORCH_WARN("ocl: ", error.what());
  }
}

}  // namespace ocl
