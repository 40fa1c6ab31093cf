// Shared by the convolutions of CPU devices: plans by shape, padded copies, tables.
#pragma once

#include <memory>
#include <mutex>
#include <unordered_map>

#include "backend/launch.h"
#include "kernels/conv/common/conv_layout.h"
#include "kernels/core/tensors.h"

namespace ocl {

enum class ConvKind : uint8_t { kForward, kData, kWeight };

struct ConvPlanKey {
  ConvShape shape;
  ConvKind kind;
  DeviceIndex device;
  bool operator==(const ConvPlanKey&) const = default;
};

struct ConvPlanHash {
  size_t operator()(const ConvPlanKey& key) const;
};

// A cache of plans. A model needs few, but sizes may change from batch to batch: the cache is
// emptied when it is full.
template <typename Plan>
class ConvPlans {
 public:
  template <typename Make>
  std::shared_ptr<const Plan> find(const ConvPlanKey& key, Make make) {
    Stream& stream = current_stream(key.device);
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
// The padded copy of the tensor that `layout` describes.
at::Tensor conv_pad(const PaddedLayout& layout, const at::Tensor& tensor);

}  // namespace ocl
