// Shared by the convolutions of CPU devices: plans by shape, and tables on the device.
#pragma once

#include <memory>
#include <mutex>
#include <unordered_map>

#include "backend/launch/launch.h"
#include "kernels/conv/common/conv_algorithm.h"
#include "kernels/core/tensors/tensors.h"

namespace ocl {

// Each stream has its own plans: the memory of tables may be used again, by their stream, as soon
// as a plan is forgotten.
struct ConvPlanKey {
  ConvShape shape;
  ConvDirection direction;
  DeviceIndex device;
  StreamId stream;
  bool operator==(const ConvPlanKey&) const = default;
};

struct ConvPlanHash {
  size_t operator()(const ConvPlanKey& key) const;
};

// A cache of plans. A large model has hundreds of shapes, so plans are found by a hash, unlike the
// values of kernels/core/algorithms/lru_cache.h. Sizes may change from batch to batch: the cache is
// emptied when it is full.
template <typename Plan>
class ConvPlans {
 public:
  template <typename Make>
  std::shared_ptr<const Plan> find(const ConvCall& call, Make make) {
    Stream& stream = current_stream(call.device.index());
    const ConvPlanKey key{call.shape, call.direction, call.device.index(), stream.id()};
    std::lock_guard lock(mutex_);
    auto found = plans_.find(key);
    if (found == plans_.end()) {
      if (plans_.size() >= kMaxPlans) plans_.clear();
      const CapturePause pause(stream);
      found = plans_.emplace(key, std::make_shared<const Plan>(make())).first;
    }
    keep_in_graph(stream, found->second);
    return found->second;
  }

 private:
  static constexpr size_t kMaxPlans = 512;
  std::mutex mutex_;
  std::unordered_map<ConvPlanKey, std::shared_ptr<const Plan>, ConvPlanHash> plans_;
};

inline constexpr int64_t kConvTasks = 16;

int64_t conv_lanes(const Device& device);
at::Tensor conv_scratch(int64_t floats, const at::Tensor& like);
// Copies a table of int32 to the device.
at::Tensor conv_table(const std::vector<int32_t>& values, const at::Tensor& like);

}  // namespace ocl
