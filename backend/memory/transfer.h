// Copies between host and device memory, and maps of device memory for the host.
#pragma once

#include <c10/core/Allocator.h>

#include "backend/device/buffer_view.h"
#include "backend/queue/stream.h"

namespace ocl {

// Makes later commands of `stream` wait for those of other streams that use the block at the view.
void wait_for_other_streams(Stream& stream, const BufferView& view);

// Enqueues a copy between two places of the stream's device.
void copy_on_device(Stream& stream, const BufferView& destination, const BufferView& source,
                    size_t bytes);

// Blocks unless `event` is given. After a blocking copy, other streams may use the bytes, too. With
// an event the copy is only enqueued: the host memory must stay alive and unchanged until the event
// completes. A captured stream allows copies with an event only: the copy becomes part of the
// graph, and `event` stays empty.
void copy_to_device(Stream& stream, const BufferView& destination, const void* source, size_t bytes,
                    cl::Event* event = nullptr);
void copy_to_host(Stream& stream, void* destination, const BufferView& source, size_t bytes,
                  cl::Event* event = nullptr);

// Fills with a pattern of 1, 2, 4, 8 or 16 bytes; `bytes` is a multiple of it.
void fill_on_device(Stream& stream, const BufferView& destination, const void* pattern,
                    size_t pattern_bytes, size_t bytes);

enum class MapAccess { kRead, kReadWrite, kDiscardAndWrite };

// The other streams on which the memory was recorded (record_stream).
enum class OtherStreams { kWait, kIgnore };

// Gives the host access to device memory while the object lives. The constructor waits for the
// commands that use the memory. The memory of CPU devices is mapped, and no byte is copied. Other
// devices copy it to pinned memory and back, because kernels may not use a buffer while a part of
// it is mapped, and one buffer holds many tensors.
class Mapping {
 public:
  Mapping(Stream& stream, const BufferView& view, size_t bytes, MapAccess access,
          OtherStreams others = OtherStreams::kWait);
  // Without close(), as after an error, a copy is not written back, because a part of it may be
  // unwritten. Logs failures.
  ~Mapping();
  Mapping(Mapping&& other) noexcept;
  Mapping(const Mapping&) = delete;
  Mapping& operator=(const Mapping&) = delete;
  Mapping& operator=(Mapping&&) = delete;

  // Gives the memory back to the device, with the host's changes. Raises where that fails.
  void close();

  void* data() const { return data_; }

 private:
  void map(const BufferView& view, MapAccess access);
  void unmap();
  void abandon();
  cl_int enqueue_unmap(cl_event* event);
  void read(const BufferView& view, MapAccess access);
  void write();
  bool is_copy() const { return copy_.get() != nullptr; }

  Stream* stream_;
  cl::Buffer buffer_;
  size_t offset_, bytes_;
  bool writes_;
  c10::DataPtr copy_;
  void* data_ = nullptr;
};

}  // namespace ocl
