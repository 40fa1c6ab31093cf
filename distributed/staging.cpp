#include "distributed/staging.h"

#include <ATen/ops/empty.h>
#include <ATen/ops/from_blob.h>
#include <c10/core/DeviceGuard.h>

#include <algorithm>

namespace ocl {

void Staging::add(const at::Tensor& tensor, bool reads, bool writes) {
  if (!on_ocl_device(tensor) || tensor.is_sparse()) return;
  noted_.try_emplace(tensor.unsafeGetTensorImpl(),
                     at::Tensor(alias(*tensor.unsafeGetTensorImpl())));
  if (tensor.numel() == 0) return;
  check_memory(*tensor.unsafeGetTensorImpl());
  // Asking for the mutable address gives a tensor with lazy clones memory of its own. Otherwise a
  // write to a clone would free the memory of a tensor that is only read.
  const auto begin = reinterpret_cast<uintptr_t>(tensor.mutable_data_ptr());
  holds_.push_back(hold_storage(tensor.storage()));
  ranges_.push_back({tensor.storage().unsafeGetStorageImpl(),
                     static_cast<DeviceIndex>(tensor.get_device()), begin, begin + tensor.nbytes(),
                     reads, writes});
}

void Staging::write(const at::Tensor& tensor) {
  add(tensor, false, true);
  if (!on_ocl_device(tensor) || !tensor.is_sparse()) return;
  const auto itself = reinterpret_cast<uintptr_t>(tensor.unsafeGetTensorImpl());
  sparse_.push_back({itself, itself + 1, true});
}

MemoryRanges Staging::memory() const {
  MemoryRanges result = sparse_;
  for (const Range& range : ranges_) result.push_back({range.begin, range.end, range.writes});
  return result;
}

// Overlapping maps for writing are undefined, so overlapping ranges share one map; adjacent ranges
// share one to save calls. Memory between two ranges stays unmapped, because it may be in use.
void Staging::merge() {
  std::sort(ranges_.begin(), ranges_.end(),
            [](const Range& a, const Range& b) { return a.begin < b.begin; });
  std::vector<Range> merged;
  for (const Range& range : ranges_) {
    Range* last = merged.empty() ? nullptr : &merged.back();
    const bool alike = last && last->reads == range.reads && last->writes == range.writes;
    const bool joins = last && last->storage == range.storage &&
                       (range.begin < last->end || (range.begin == last->end && alike));
    if (!joins) {
      merged.push_back(range);
      continue;
    }
    const bool same = range.begin == last->begin && range.end == last->end;
    last->end = std::max(last->end, range.end);
    // If a part of a written range is also read, the map must keep the old content.
    last->reads = last->reads || range.reads || (!same && !alike);
    last->writes = last->writes || range.writes;
  }
  ranges_ = std::move(merged);
}

void Staging::map() {
  merge();
  mappings_.reserve(ranges_.size());
  for (const Range& range : ranges_) {
    // Pinned memory belongs to the current device, which would be the first device on the issuing
    // thread.
    const c10::DeviceGuard guard(c10::Device(c10::kPrivateUse1, range.device));
    const MapAccess access = !range.writes  ? MapAccess::kRead
                             : !range.reads ? MapAccess::kDiscardAndWrite
                                            : MapAccess::kReadWrite;
    mappings_.emplace_back(current_stream(range.device),
                           resolve(reinterpret_cast<void*>(range.begin)), range.end - range.begin,
                           access, OtherStreams::kIgnore);
  }
}

void Staging::unmap() {
  std::vector<Mapping> ending = std::move(mappings_);  // after a failure, the rest is abandoned
  mappings_.clear();
  for (Mapping& mapping : ending) mapping.close();
}

const at::Tensor& Staging::noted(const at::Tensor& tensor) const {
  const auto found = noted_.find(tensor.unsafeGetTensorImpl());
  return found == noted_.end() ? tensor : found->second;
}

at::Tensor Staging::host(const at::Tensor& now) const {
  const at::Tensor& tensor = noted(now);
  if (!on_ocl_device(tensor)) return tensor;
  const auto options = at::TensorOptions(tensor.scalar_type());
  if (tensor.numel() == 0) return at::empty(tensor.sizes(), options);
  const auto begin = reinterpret_cast<uintptr_t>(tensor.const_data_ptr());
  const auto after =
      std::upper_bound(ranges_.begin(), ranges_.end(), begin,
                       [](uintptr_t address, const Range& range) { return address < range.begin; });
  TORCH_INTERNAL_ASSERT(after != ranges_.begin() && begin < std::prev(after)->end);
  const Range& range = *std::prev(after);
  char* data = static_cast<char*>(mappings_[&range - ranges_.data()].data());
  return at::from_blob(data + (begin - range.begin), tensor.sizes(), tensor.strides(), options);
}

}  // namespace ocl
