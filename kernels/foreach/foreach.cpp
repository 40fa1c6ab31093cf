#include "kernels/foreach/foreach.h"

#include <ATen/ceil_div.h>
#include <ATen/native/ForeachUtils.h>

#include <algorithm>
#include <vector>

#include "backend/base/error.h"
#include "kernels/core/grids/grid.h"
#include "kernels/core/tensors/tensors.h"

namespace ocl {
namespace {

constexpr size_t kLeastParameters = 1024;  // bytes of arguments that every device allows
constexpr size_t kOtherArguments = 160;    // bytes of the arguments other than buffers and table
constexpr size_t kChunk = 4096;            // elements of a chunk
constexpr size_t kMaxTensors = 128;

}  // namespace

size_t ListTypes::capacity(const Device& device) const {
  // On GPUs each work-group reads the whole table, so it stays small.
  const size_t limit = device.family() == KernelFamily::kGpu
                           ? kLeastParameters
                           : device.properties().max_parameter_size;
  const size_t fixed = Batch::kBuffers * sizeof(cl_mem) + kOtherArguments;
  const size_t bytes = std::min(limit - fixed, Batch::kMaxTableBytes);
  const size_t of_tensor = 8 * count + 8 + 4 + (numbers ? c10::elementSize(compute) : 0);
  return std::min(kMaxTensors, bytes / of_tensor / 2 * 2);
}

Defines ListTypes::defines(const Device& device) const {
  for (size_t i = 0; i < count; ++i) check_device_has(device, lists[i], "foreach");
  Defines defines = compute_defines(compute);
  define_grid(defines, device);
  const size_t width = device.family() == KernelFamily::kGpu ? 1 : vector_lanes(device, compute);
  defines.set("WIDTH", static_cast<int64_t>(width))
      .set("LISTS", int64_t{count})
      .set("TENSORS", static_cast<int64_t>(capacity(device)));
  for (size_t i = 0; i < count; ++i) defines.set(str("DT", i), dtype_name(lists[i]));
  if (numbers) defines.set("NUMBERS", 1);
  if (device.has(Quirk::kTableByCopy)) defines.set("COPY_TABLE", 1);
  return defines;
}

ListTypes TensorLists::types() const {
  ListTypes types{{}, 0, compute, !numbers.empty()};
  TORCH_INTERNAL_ASSERT(lists.size() <= types.lists.size());
  for (const at::TensorList& list : lists) types.lists[types.count++] = list[0].scalar_type();
  return types;
}

Batch::Batch(const TensorLists& lists)
    : lists_(lists), capacity_(lists.types().capacity(lists.device)), chunk_(kChunk) {
  sizes_at_ = 8 * lists.lists.size() * capacity_;
  numbers_at_ = sizes_at_ + 8 * capacity_;
  ends_at_ =
      numbers_at_ + (lists.numbers.empty() ? 0 : c10::elementSize(lists.compute) * capacity_);
  table_bytes_ = (ends_at_ + 4 * capacity_ + 7) / 8 * 8;
  clear();
}

std::optional<uint64_t> Batch::place(const at::Tensor& tensor) {
  const BufferView view = ocl::view(tensor);
  if (&view.device() != &lists_.device) refuse_devices(lists_.device, view.device());
  const cl_mem buffer = view.buffer();
  const auto* const end = buffer_.begin() + buffers_;
  const auto* const found = std::find(buffer_.cbegin(), end, buffer);
  const auto number = static_cast<uint64_t>(found - buffer_.cbegin());
  if (found == end) {
    if (buffers_ == kBuffers) return std::nullopt;
    buffer_[buffers_++] = buffer;
  }
  return number << 56 | view.offset;
}

bool Batch::add(size_t index) {
  if (tensors_ == capacity_) return false;
  const size_t before = buffers_;
  for (size_t k = 0; k < lists_.lists.size(); ++k) {
    const std::optional<uint64_t> place = this->place(lists_.lists[k][index]);
    if (!place) {
      buffers_ = before;
      return false;
    }
    column<uint64_t>(0)[k * capacity_ + tensors_] = *place;
  }
  const auto size = static_cast<size_t>(lists_.lists[0][index].numel());
  elements_ += size;
  chunks_ += at::ceil_div(size, chunk_);
  column<uint64_t>(sizes_at_)[tensors_] = size;
  column<uint32_t>(ends_at_)[tensors_] = static_cast<uint32_t>(chunks_);
  if (!lists_.numbers.empty()) {
    const c10::Scalar& number = lists_.numbers[index];
    if (lists_.compute == ScalarType::Double) {
      column<double>(numbers_at_)[tensors_] = number.to<double>();
    } else {
      column<float>(numbers_at_)[tensors_] = number.to<float>();
    }
  }
  ++tensors_;
  return true;
}

void Batch::clear() {
  tensors_ = chunks_ = buffers_ = elements_ = 0;
  std::fill_n(column<uint32_t>(ends_at_), capacity_, UINT32_MAX);
}

size_t Batch::per_task() const {
  if (lists_.device.family() == KernelFamily::kGpu) return 1;
  return task_shares(lists_.device, chunks_, elements_).per_task;
}

void Batch::bind(Arguments& arguments) const {
  for (size_t i = 0; i < kBuffers; ++i) {
    arguments.add_buffer(buffer_[i < buffers_ ? i : 0]);
  }
  arguments.add_bytes(table_.data(), table_bytes_)
      .add(uint64_t{chunk_})
      .add(static_cast<uint32_t>(chunks_))
      .add(static_cast<uint32_t>(per_task()));
}

void Batch::enqueue(Arguments& arguments) const {
  const size_t groups = at::ceil_div(chunks_, per_task());
  arguments.enqueue({groups * arguments.group()}, {arguments.group()});
}

void for_each_batch(const TensorLists& lists, c10::function_ref<void(const Batch&)> launch) {
  Batch batch(lists);
  for (size_t i = 0; i < lists.lists[0].size(); ++i) {
    if (lists.lists[0][i].numel() == 0) continue;
    if (batch.add(i)) continue;
    launch(batch);
    batch.clear();
    TORCH_INTERNAL_ASSERT(batch.add(i));
  }
  if (batch.tensors() > 0) launch(batch);
}

bool can_launch_over(c10::ArrayRef<at::TensorList> lists) {
  for (const at::TensorList& list : lists) {
    if (list.empty() || list.size() != lists[0].size() ||
        list[0].device() != lists[0][0].device() || !list[0].is_privateuseone() ||
        !has_kernel_type(list[0].scalar_type()) ||
        !at::native::_check_tensors_share_device_and_dtype({list})) {
      return false;
    }
  }
  return at::native::_check_tensors_share_sizes_and_strides(lists);
}

bool writes_apart(at::TensorList written, c10::ArrayRef<at::TensorList> read) {
  struct Range {
    uintptr_t begin, end;
  };
  const auto range_of = [](const at::Tensor& tensor) {
    const auto begin = reinterpret_cast<uintptr_t>(tensor.const_data_ptr());
    return Range{begin, begin + tensor.nbytes()};
  };
  std::vector<Range> ranges;
  for (const at::Tensor& tensor : written) {
    if (tensor.numel() > 0) ranges.push_back(range_of(tensor));
  }
  std::ranges::sort(ranges, {}, &Range::begin);
  const auto meet = [](const Range& a, const Range& b) { return a.end > b.begin; };
  if (std::ranges::adjacent_find(ranges, meet) != ranges.end()) return false;
  for (const at::TensorList& list : read) {
    for (size_t i = 0; i < list.size(); ++i) {
      const Range range = range_of(list[i]), own = range_of(written[i]);
      if (range.begin == range.end || (range.begin == own.begin && range.end == own.end)) continue;
      const auto next = std::ranges::upper_bound(ranges, range.begin, {}, &Range::end);
      if (next != ranges.end() && next->begin < range.end) return false;
    }
  }
  return true;
}

}  // namespace ocl
