// LRU cache for values that are expensive to make, such as the tables of Fourier transforms.
// get() works during a capture, too: it makes a value at once, not as part of the graph, and the
// graph keeps each value that it uses.
#pragma once

#include <c10/util/FunctionRef.h>

#include <algorithm>
#include <list>
#include <mutex>
#include <optional>

#include "backend/queue/capture.h"

namespace ocl {

template <typename Key, typename Value>
class LruCache {
 public:
  explicit LruCache(size_t kept) : kept_(kept) {}

  Value get(const Key& key, c10::function_ref<Value()> make) {
    // Image operators for CPU tensors call this, too, and must not start OpenCL.
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
  std::list<std::pair<Key, Value>> values_;  // the most recently used one first
};

}  // namespace ocl
