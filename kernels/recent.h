// The values that were asked for last, by key: what is dear to make and likely to be asked for
// again. A graph that is captured keeps those that it uses; they are made at once all the same.
#pragma once

#include <c10/util/FunctionRef.h>

#include <algorithm>
#include <list>
#include <mutex>
#include <optional>

#include "backend/capture.h"

namespace ocl {

template <typename Key, typename Value>
class Recent {
 public:
  explicit Recent(size_t kept) : kept_(kept) {}

  Value get(const Key& key, c10::function_ref<Value()> make) {
    // CPU tensors use this, too, and must not start OpenCL.
    Stream* const stream = initialized() ? &current_stream(current_device()) : nullptr;
    const std::lock_guard lock(mutex_);
    const auto found = std::find_if(values_.begin(), values_.end(),
                                    [&](const auto& entry) { return entry.first == key; });
    if (found != values_.end()) {
      values_.splice(values_.begin(), values_, found);
    } else {
      std::optional<CapturePause> pause;
      if (stream) pause.emplace(*stream);
      values_.emplace_front(key, make());
      if (values_.size() > kept_) values_.pop_back();
    }
    if (stream) keep_in_graph(*stream, values_.front().second);
    return values_.front().second;
  }

 private:
  const size_t kept_;
  std::mutex mutex_;
  std::list<std::pair<Key, Value>> values_;  // the last asked for in front
};

}  // namespace ocl
