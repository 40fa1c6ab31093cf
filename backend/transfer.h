// Copies between host and device memory, and maps of device memory for the host.
#pragma once

#include "backend/buffer_view.h"
#include "backend/stream.h"

namespace ocl {

// Both on the stream's device; enqueued.
void copy_on_device(Stream& stream, const BufferView& destination, const BufferView& source,
                    size_t bytes);

// Blocking unless `event` is given: then the copy is enqueued, and completes with the event; the
// host memory must stay alive and unchanged until then. While the stream is captured only these are
// possible: the copy is part of the graph, and `event` stays empty.
void copy_to_device(Stream& stream, const BufferView& destination, const void* source, size_t bytes,
                    cl::Event* event = nullptr);
void copy_to_host(Stream& stream, void* destination, const BufferView& source, size_t bytes,
                  cl::Event* event = nullptr);

// Fills with a pattern of 1, 2, 4, 8 or 16 bytes; `bytes` is a multiple of it.
void fill_on_device(Stream& stream, const BufferView& destination, const void* pattern,
                    size_t pattern_bytes, size_t bytes);

enum class MapAccess { kRead, kReadWrite, kDiscardAndWrite };

// The streams that the memory was recorded on beside the mapping's own.
enum class OtherStreams { kWait, kIgnore };

// Device memory mapped for the host while the object lives; waits for what uses the memory. On
// devices that share the host's memory no byte is copied.
class Mapping {
 public:
  Mapping(Stream& stream, const BufferView& view, size_t bytes, MapAccess access,
          OtherStreams others = OtherStreams::kWait);
  ~Mapping();  // logs a failure
  Mapping(Mapping&& other) noexcept;
  Mapping(const Mapping&) = delete;
  Mapping& operator=(const Mapping&) = delete;
  Mapping& operator=(Mapping&&) = delete;

  void* data() const { return data_; }

 private:
  Stream* stream_;
  cl::Buffer buffer_;
  void* data_ = nullptr;
};

}  // namespace ocl
