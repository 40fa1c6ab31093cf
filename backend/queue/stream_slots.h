// The streams of each device by their ids, for stream.cpp and external_stream.cpp.
#pragma once

#include <array>
#include <atomic>
#include <mutex>
#include <vector>

#include "backend/queue/stream.h"

namespace ocl {

// Slots: the default stream, low priority, high priority, staging, then the queues of users.
constexpr size_t kFirstStaging = 1 + 2 * kStreamsPerPriority;
constexpr size_t kFirstExternal = kFirstStaging + kStagingStreams;
constexpr size_t kExternal = 191;
constexpr size_t kSlots = kFirstExternal + kExternal;

constexpr bool is_staging(StreamId id) {
  return id >= StreamId{kFirstStaging} && id < StreamId{kFirstExternal};
}

struct DeviceStreams {
  std::mutex mutex;
  std::array<std::atomic<Stream*>, kSlots> slots{};
  std::array<std::atomic<uint32_t>, 2> next{};
  std::atomic<uint32_t> next_staging{0};
  std::vector<cl::CommandQueue> external;  // for the slots from kFirstExternal on
};

DeviceStreams& streams_of(DeviceIndex device);

// The stream, which the first call creates. ValueError where the device has no such id.
Stream& stream_of_id(DeviceIndex device, StreamId id);

}  // namespace ocl
