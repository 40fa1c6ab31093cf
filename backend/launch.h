// Kernels and their launch. A call site has a small key for each specialisation that it needs. A
// table of the thread maps keys to kernel objects, so a launch takes no lock and makes no
// allocation or string:
//
//   static Site site;
//   const Kernel& kernel = find_kernel(device, {&site, {packed_types}}, [&] {
//     return KernelSource{"pointwise_cpu.cl", "pointwise", defines};
//   });
//   launch(stream, kernel, {tasks}, {1}, BufferView, BufferView, float{2}, int64_t{n});
#pragma once

#include <c10/util/FunctionRef.h>

#include <array>
#include <type_traits>

#include "backend/buffer_view.h"
#include "backend/capture.h"
#include "backend/fault.h"
#include "backend/program_cache.h"
#include "backend/stream.h"

namespace ocl {

struct KernelSource {
  std::string file;
  std::string kernel;
  Defines defines;
  // Whether the kernel uses the size of its grid, get_global_size() or get_num_groups(). Such a
  // launch is not split: its caller keeps to the limits of the device.
  bool whole_grid = false;
};

// The identity of a call site, by its address. Not const: linkers merge constants of equal content.
struct Site {
  Site() = default;
  Site(const Site&) = delete;
  Site& operator=(const Site&) = delete;

  char place = 0;
};

// Identifies a specialisation by its call site and up to four numbers. The site is a Site, or
// another object that does not move. It cannot be a string literal: two sites with equal text may
// share it. `by` may hold the address of a literal in place of its text.
struct KernelKey {
  KernelKey(const void* site, std::array<uint64_t, 4> by = {}) : site(site), by(by) {}
  KernelKey(const char* site, std::array<uint64_t, 4> by = {}) = delete;
  bool operator==(const KernelKey&) const = default;

  const void* site;
  std::array<uint64_t, 4> by;
};

struct Kernel {
  cl_kernel handle = nullptr;
  const Program* program = nullptr;
  std::string name;
  size_t group = 1;  // the most work-items of a work-group, a power of two
  bool whole_grid = false;
  mutable bool launched = false;
  // Whether any thread's object has been launched; nullptr: this is the only object.
  std::atomic<bool>* launched_by_any = nullptr;
};

struct Range {
  size_t x = 1, y = 1, z = 1;
  // Of a local size: the kernel does not depend on it, so it is halved until the kernel can have
  // it.
  bool may_shrink = false;

  size_t items() const { return x * y * z; }
};

// Whether a device can run the grid in one launch.
inline bool fits(const GridLimits& limits, const Range& global, const Range& local, double work) {
  if (work > limits.work || global.items() > limits.items) return false;
  const auto fits = [&](size_t items, size_t group) {
    return items <= limits.groups || items / group <= limits.groups;
  };
  return fits(global.x, local.x) && fits(global.y, local.y) && fits(global.z, local.z);
}

// Returns the kernel of this thread for the key; `source()` is asked at the first call. A source
// that depends on the size of the work-group is asked as `source(group)`, with smaller and smaller
// groups until the kernel can have them. Kernel::group tells the last one.
template <typename Source>
const Kernel& find_kernel(Device& device, const KernelKey& key, Source&& source);

// Binds the arguments of a launch one by one, for launches whose number of arguments varies.
class Arguments {
 public:
  Arguments(Stream& stream, const Kernel& kernel)
      : stream_(stream), kernel_(kernel), capture_(stream.capture()), handle_(kernel.handle) {
    if (C10_UNLIKELY(capture_ != nullptr)) {
      handle_ = capture_->make_kernel(*kernel.program, kernel.name);
    }
  }

  // BufferView: two kernel arguments (buffer and byte offset). FaultArgument: two (word and site).
  // Numbers and plain structs by value.
  template <typename T>
  Arguments& add(const T& value);
  Arguments& add_bytes(const void* data, size_t size);
  Arguments& add_buffer(cl_mem buffer);

  // For arguments that change from replay to replay: the capture or nullptr, the kernel object, and
  // the number of the next argument.
  Capture* capture() const { return capture_; }
  cl_kernel handle() const { return handle_; }
  cl_uint next() const { return index_; }
  size_t group() const { return kernel_.group; }

  // A grid beyond the device's limits becomes several launches with offsets. So a kernel uses
  // group_id() instead of get_group_id(), or says that it needs the whole grid (KernelSource).
  // `work`: the float32 multiply-adds of all work-items, or what takes as long; for kernels that
  // may take long.
  void enqueue(const Range& global, const Range& local, double work = 0);

 private:
  // Raises for memory of another device than the stream's.
  [[noreturn]] void refuse(const BufferView& value) const;
  void enqueue_part(const Range& offset, const Range& global, const Range& local, bool flush);
  void record(const Range& offset, const Range& global, const Range& local, bool flush);
  void enqueue_now(const Range& offset, const Range& global, const Range& local);

  Stream& stream_;
  const Kernel& kernel_;
  Capture* const capture_;
  cl_kernel handle_;
  cl_uint index_ = 0;
  bool reports_faults_ = false;
};

// Enqueues the kernel with these arguments, in the kernel's order.
template <typename... Args>
void launch(Stream& stream, const Kernel& kernel, const Range& global, const Range& local,
            const Args&... args) {
  Arguments arguments(stream, kernel);
  (arguments.add(args), ...);
  arguments.enqueue(global, local);
}

// Calls `enqueue`, which launches a kernel that this thread has not launched yet. `launched` is the
// flag that the kernel objects of all threads share (Kernel::launched_by_any).
void launch_first(const Device& device, const Program& program, std::atomic<bool>* launched,
                  c10::function_ref<void()> enqueue);

// Runs a library's routine that enqueues its own kernels on the stream. Counts as one launch;
// `name` must not move.
void launch_library(Stream& stream, const std::string& name, c10::function_ref<void()> enqueue);

// The name of this thread's last kernel, and the number of its launches; for tests that assert
// which kernel ran.
const std::string& last_kernel();
uint64_t launch_count();
// The number of kernel objects that find_kernel() has made, in all threads. A thread that ends
// leaves its objects to the next new thread.
uint64_t kernel_objects();
// Counts kernels that were not enqueued by Arguments; `last` must not move.
void count_launches(Stream& stream, const std::string& last, uint64_t count);

// ---- implementation ----

namespace detail {
Kernel* lookup(const Device& device, const KernelKey& key);
// `grouped`: the source depends on the size of the work-group.
const Kernel& insert(Device& device, const KernelKey& key, bool grouped,
                     c10::function_ref<KernelSource(size_t group)> source);
// The largest part of the grid for one launch.
Range part_of(const GridLimits& limits, const Range& global, const Range& local, double work);
}  // namespace detail

template <typename Source>
const Kernel& find_kernel(Device& device, const KernelKey& key, Source&& source) {
  if (const Kernel* found = detail::lookup(device, key)) return *found;
  if constexpr (std::is_invocable_v<Source, size_t>) {
    return detail::insert(device, key, true, std::forward<Source>(source));
  } else {
    return detail::insert(device, key, false, [&](size_t) { return source(); });
  }
}

inline Arguments& Arguments::add_buffer(cl_mem buffer) {
  if (C10_UNLIKELY(capture_ != nullptr)) capture_->keep(buffer);
  return add_bytes(&buffer, sizeof(buffer));
}

template <typename T>
Arguments& Arguments::add(const T& value) {
  if constexpr (std::is_same_v<T, BufferView>) {
    if (C10_UNLIKELY(&value.device() != &stream_.device())) refuse(value);
    const cl_ulong offset = value.offset;
    add_buffer(value.buffer());
    return add_bytes(&offset, sizeof(offset));
  } else if constexpr (std::is_same_v<T, FaultArgument>) {
    const cl_mem word = stream_.faults().word();
    const cl_int site = value.site;
    reports_faults_ = true;
    if (C10_UNLIKELY(capture_ != nullptr)) capture_->bind_fault_word(handle_, index_);
    add_bytes(&word, sizeof(word));
    return add_bytes(&site, sizeof(site));
  } else {
    static_assert(std::is_trivially_copyable_v<T> && !std::is_pointer_v<T> &&
                  !std::is_same_v<T, bool>);
    return add_bytes(&value, sizeof(T));
  }
}

}  // namespace ocl
